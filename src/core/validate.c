/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of names and texts. Notes contain positions and not the offending bytes, because they may
 * go to a log or a terminal. */
#include "core/validate.h"

#include "base/utf8.h"
#include "core/jobs/job_error.h"
#include "core/jobs/progress.h"
#include "core/jobs/steps.h"
#include "core/kvkey.h"
#include "core/limits.h"
#include "core/records/record.h"

/* Bytes of valid UTF-8 at the start of text. */
static size_t valid_prefix(struct span text)
{
    size_t at = 0;
    while (at < text.len) {
        size_t len = utf8_sequence(span_of(text.at + at, text.len - at));
        if (len == 0)
            break;
        at += len;
    }
    return at;
}

static int check_utf8(const char *field, struct span text, struct err_note *note)
{
    if (utf8_valid(text))
        return 0;
    return err_note_set(note, -ERR_INVALID, "%s is not valid UTF-8 at byte %zu", field,
                        valid_prefix(text));
}

static int check_length(const char *field, struct span text, size_t max, struct err_note *note)
{
    if (text.len <= max)
        return 0;
    return err_note_set(note, -ERR_TOO_BIG, "%s has %zu bytes; %zu are allowed", field, text.len,
                        max);
}

/* U+0000 … U+001F, U+007F … U+009F in text that is valid UTF-8. */
static bool control_at(struct span text, size_t at)
{
    unsigned char c = (unsigned char)text.at[at];
    if (c == 0xc2)
        return (unsigned char)text.at[at + 1] < 0xa0;
    return c < 0x20 || c == 0x7f;
}

int validate_queue_name(struct span name, struct err_note *note)
{
    if (name.len == 0)
        return err_note_set(note, -ERR_INVALID, "a queue name must not be empty");
    int err = check_length("the queue name", name, LIMIT_QUEUE_NAME_BYTES, note);
    if (err == 0)
        err = check_utf8("the queue name", name, note);
    if (err < 0)
        return err;
    if (name.at[0] == '-')
        return err_note_set(note, -ERR_INVALID, "a queue name must not start with '-'");
    for (size_t i = 0; i < name.len; i++) {
        if (control_at(name, i))
            return err_note_set(note, -ERR_INVALID,
                                "the queue name has a control character at byte %zu", i);
    }
    return 0;
}

int validate_text(const char *field, struct span text, size_t max, struct err_note *note)
{
    if (text.len == 0)
        return 0;
    int err = check_length(field, text, max, note);
    if (err == 0)
        err = check_utf8(field, text, note);
    if (err < 0)
        return err;
    const char *nul = memchr(text.at, 0, text.len);
    if (nul)
        return err_note_set(note, -ERR_INVALID, "%s has a U+0000 at byte %zu", field,
                            (size_t)(nul - text.at));
    return 0;
}

int validate_spooled(struct job_ref id)
{
    bool right = id_spooled(id.seq) && id.seq < ID_SPOOL_BIT << 1 &&
                 (id.seq & ID_SPOOL_COUNT_MAX) != 0 &&
                 id.hi == id_hi(id_time(id.hi), id_node(id.hi));
    return right ? 0 : -ERR_INVALID;
}

int validate_past(const struct job_past *past, struct err_note *note)
{
    if (past->state != STATE_READY && past->state != STATE_DEAD && past->state != STATE_BLOCKED)
        return err_note_set(note, -ERR_INVALID, "state must be ready, blocked or dead");
    if (!reason_fits((enum job_state)past->state, (enum job_reason)past->reason))
        return err_note_set(note, -ERR_INVALID, "reason must be one for which a job can be %s",
                            state_name((enum job_state)past->state));
    if (past->error_kind > ERROR_BUSINESS)
        return err_note_set(note, -ERR_INVALID, "error_kind must be app or business");
    int err = job_error_check(past->error, note);
    if (err == 0)
        err = reports_check(past->progress, past->log, note);
    return err ? err : steps_check(past->steps, note);
}

struct span validate_cut(struct span text, size_t max)
{
    struct span kept = span_of(text.at, text.len < max ? text.len : max);
    if (!utf8_valid(kept))
        kept.len = valid_prefix(kept);
    const char *nul = kept.len ? memchr(kept.at, 0, kept.len) : NULL;
    if (nul)
        kept.len = (size_t)(nul - kept.at);
    return kept;
}

int validate_undelivered(struct span keys, uint32_t *ret_count)
{
    struct span seen[LIMIT_KV_UNDELIVERED];
    uint32_t n = 0;
    while (keys.len > 0) {
        if (n == LIMIT_KV_UNDELIVERED || record_span_next(&keys, &seen[n]) != 0 ||
            kvkey_check(seen[n]) != 0)
            return -ERR_INVALID;
        for (uint32_t i = 0; i < n; i++)
            if (span_equal(seen[i], seen[n]))
                return -ERR_INVALID;
        n++;
    }
    *ret_count = n;
    return n > 0 ? 0 : -ERR_INVALID;
}
