/* SPDX-License-Identifier: Apache-2.0 */
/* What the holder of a lease reports during the attempt: its progress, and lines for the job's log.
 *
 * Progress is one value, which the next report replaces. It belongs to one lease: the stored form
 * begins with the lease token, and progress_shown() hides what an earlier lease reported, so that a
 * new attempt starts without progress and a claim has nothing to delete.
 *
 * The log is text, one entry on each line: "MILLISECONDS ATTEMPT TEXT\n". A store appends the new
 * entries and keeps the newest LIMIT_LOG_BYTES bytes, which may split an entry; joblog_begin()
 * skips the first entry if it may be incomplete. No store has to read a log in order to append to
 * it. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/containers/map.h"
#include "base/err.h"
#include "base/span.h"
#include "core/jobs/job.h"

struct progress {
    struct job_token token; /* of the lease under which it was reported */
    struct wall_time at;
    bool has_percent;
    uint16_t percent_100; /* hundredths of a percent: 0 … 10,000 */
    struct span message;  /* empty = none */
    struct span data;     /* JSON; empty = none */
};

/* The largest size of its stored form. */
size_t progress_bytes_max(const struct progress *p);
/* Writes the stored form to `out`, which has room for progress_bytes_max; returns its length. */
size_t progress_encode(const struct progress *p, uint8_t *out);
/* Texts point into the input. -ERR_CORRUPT. */
MUST_CHECK int progress_decode(struct span stored, struct progress *ret);
/* The stored form if the newest lease of the job reported it, else empty. Progress that an imported
 * job brought along has epoch 0, which no lease has. */
struct span progress_shown(struct span stored, struct job_token newest);

struct joblog_line {
    struct wall_time at;
    uint32_t attempt; /* its number */
    struct span text;
};

/* Appends the entries of one line; a line break inside it begins another entry. -ERR_NOMEM. */
MUST_CHECK int joblog_append(struct buf *out, const struct joblog_line *line);
/* Whether an imported job can have these. -ERR_INVALID with a note. */
MUST_CHECK int reports_check(struct span progress, struct span log, struct err_note *note);
/* The part of a log that a store keeps. */
struct span joblog_tail(struct span log);
/* The log without an incomplete first entry; then the entries, oldest first. False: no more. */
struct span joblog_begin(struct span log);
bool joblog_next(struct span *log, struct joblog_line *ret);

/* At most one event per second for each job: remembers which jobs have had one lately. Entries
 * expire; jobs that report nothing need no memory. */
struct progress_pace {
    struct map64 now, before; /* sequence → the low bits of a time, of this second and the last */
    int64_t since_ms;         /* when `now` was started */
};
void progress_pace_init(struct progress_pace *p);
void progress_pace_done(struct progress_pace *p);
/* Whether a second has passed since this last returned true for the job. If there is no memory to
 * remember it, true. */
bool progress_pace_take(struct progress_pace *p, uint64_t seq, int64_t now_ms);
