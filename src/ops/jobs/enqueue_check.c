/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/jobs/enqueue_check.h"

#include "core/jobs/job_texts.h"
#include "core/limits.h"
#include "core/validate.h"
#include "ops/jobs/moved.h"

static int wrong(struct err_note *note, const char *what)
{
    return err_note_set(note, -ERR_INVALID, "%s", what);
}

static int times_check(const struct op_enqueue *want, struct err_note *note)
{
    if (want->delay_ms < 0 || want->run_at.ms < 0 || want->run_at.ms > LIMIT_WALL_MS)
        return wrong(note,
                     "delay_ms must be 0 or more; run_at must be a time before the year 10000");
    if (want->extra.expires_at.ms < 0 || want->extra.expires_at.ms > LIMIT_WALL_MS)
        return wrong(note, "expires_at must be a time before the year 10000");
    return 0;
}

static int origin_check(const struct op_enqueue *want, struct err_note *note)
{
    uint32_t keys;
    int err = want->moved  ? moved_check(want, note)
              : want->past ? validate_past(want->past, note)
                           : 0;
    if (err)
        return err;
    if (want->id.seq && !want->drawn && (!want->past || validate_spooled(want->id) != 0))
        return wrong(note, "only a job that a spool named brings its id");
    if (want->extra.undelivered.len && validate_undelivered(want->extra.undelivered, &keys) != 0)
        return wrong(note, "keys_if_undelivered must be 1 to 16 keys, each of them once");
    return 0;
}

int enqueue_check(const struct op_enqueue *want, struct err_note *note)
{
    int err = times_check(want, note);
    if (!err && want->unique_mode > UNIQUE_REPLACE)
        err = wrong(note, "unique_mode must be reject, return or replace");
    if (!err && want->options)
        err = options_check(want->options, note);
    if (!err)
        err = origin_check(want, note);
    if (!err)
        err = job_texts_check(&want->extra, note);
    return err;
}
