/* SPDX-License-Identifier: Apache-2.0 */
#include "core/jobs/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/limits.h"
#include "core/records/wire.h"

#define PERCENT_100_MAX 10000u
#define EVENT_GAP_MS 1000
#define ENTRY_HEAD_BYTES 40 /* of an entry, without its text */

/* ---- progress ---- */

size_t progress_bytes_max(const struct progress *p)
{
    return WIRE_U32 + WIRE_U64 + WIRE_WALL + WIRE_U16 + 2 * WIRE_LENGTH + p->message.len +
           p->data.len;
}

size_t progress_encode(const struct progress *p, uint8_t *out)
{
    uint8_t *at = put_varint(out, p->token.epoch);
    at = put_varint(at, p->token.counter);
    at = put_wall(at, p->at);
    at = put_varint(at, p->has_percent ? p->percent_100 + 1u : 0);
    at = put_span(at, p->message);
    return (size_t)(put_span(at, p->data) - out);
}

int progress_decode(struct span stored, struct progress *ret)
{
    struct wire_in in = {stored, false};
    struct progress p = {.token.epoch = take_u32(&in)};
    p.token.counter = take_varint(&in);
    p.at = take_wall(&in);
    uint16_t percent = (uint16_t)take_upto(&in, PERCENT_100_MAX + 1);
    p.message = take_text(&in, LIMIT_PROGRESS_MESSAGE_BYTES);
    p.data = take_text(&in, LIMIT_PROGRESS_DATA_BYTES);
    if (!wire_ended(&in))
        return -ERR_CORRUPT;
    p.has_percent = percent > 0;
    p.percent_100 = p.has_percent ? (uint16_t)(percent - 1) : 0;
    *ret = p;
    return 0;
}

struct span progress_shown(struct span stored, struct job_token newest)
{
    struct wire_in in = {stored, false};
    struct job_token token = {.epoch = take_u32(&in)};
    token.counter = take_varint(&in);
    bool same = token.epoch ? token_equal(token, newest) : newest.epoch == 0;
    return !in.bad && same ? stored : (struct span){NULL, 0};
}

/* ---- the log ---- */

static int entry_append(struct buf *out, const struct joblog_line *line, struct span text)
{
    char head[ENTRY_HEAD_BYTES];
    int len = snprintf(head, sizeof head, "%" PRId64 " %" PRIu32 " ", line->at.ms, line->attempt);
    int err = buf_reserve(out, (size_t)len + text.len + 1);
    if (!err)
        err = buf_append(out, head, (size_t)len);
    if (!err && text.len)
        err = buf_append(out, text.at, text.len);
    return err ? err : buf_append(out, "\n", 1);
}

int joblog_append(struct buf *out, const struct joblog_line *line)
{
    struct span rest = line->text;
    int err;
    do {
        const char *end = rest.len ? memchr(rest.at, '\n', rest.len) : NULL;
        struct span text = end ? span_of(rest.at, (size_t)(end - rest.at)) : rest;
        size_t used = text.len + (end != NULL);
        err = entry_append(out, line, text);
        rest = span_of(used ? rest.at + used : rest.at, rest.len - used);
    } while (!err && rest.len > 0);
    return err;
}

int reports_check(struct span progress, struct span log, struct err_note *note)
{
    struct progress p = {.token.counter = 0};
    if (progress.len && (progress_decode(progress, &p) != 0 || p.token.epoch))
        return err_note_set(note, -ERR_INVALID, "progress must be a report without a lease");
    if (log.len > LIMIT_LOG_BYTES)
        return err_note_set(note, -ERR_INVALID, "a log must have at most 64 KiB");
    return 0;
}

struct span joblog_tail(struct span log)
{
    if (log.len <= LIMIT_LOG_BYTES)
        return log;
    return span_of(log.at + (log.len - LIMIT_LOG_BYTES), LIMIT_LOG_BYTES);
}

static struct span after_line(struct span log, const char *end)
{
    return end ? span_of(end + 1, log.len - (size_t)(end + 1 - log.at)) : (struct span){NULL, 0};
}

struct span joblog_begin(struct span log)
{
    log = joblog_tail(log);
    return log.len < LIMIT_LOG_BYTES ? log : after_line(log, memchr(log.at, '\n', log.len));
}

/* A number and the space after it. */
static bool take_number(struct span *in, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;
    size_t n = 0;
    for (; n < in->len && in->at[n] >= '0' && in->at[n] <= '9' && v <= max; n++)
        v = v * 10 + (uint64_t)(in->at[n] - '0');
    if (n == 0 || n == in->len || in->at[n] != ' ' || v > max)
        return false;
    *in = span_of(in->at + n + 1, in->len - n - 1);
    *ret = v;
    return true;
}

bool joblog_next(struct span *log, struct joblog_line *ret)
{
    while (log->len > 0) {
        const char *end = memchr(log->at, '\n', log->len);
        struct span line = end ? span_of(log->at, (size_t)(end - log->at)) : *log;
        uint64_t at = 0, attempt = 0;
        *log = after_line(*log, end);
        if (!take_number(&line, LIMIT_WALL_MS, &at) || !take_number(&line, UINT32_MAX, &attempt))
            continue; /* damaged */
        *ret = (struct joblog_line){{(int64_t)at}, (uint32_t)attempt, line};
        return true;
    }
    return false;
}

/* ---- the rate of events ---- */

void progress_pace_init(struct progress_pace *p)
{
    map64_init(&p->now);
    map64_init(&p->before);
    p->since_ms = 0;
}

void progress_pace_done(struct progress_pace *p)
{
    map64_done(&p->now);
    map64_done(&p->before);
}

static bool recent(const struct map64 *m, uint64_t seq, uint32_t now)
{
    uint32_t at = map64_get(m, seq);
    return at && (uint32_t)(now - at) < EVENT_GAP_MS;
}

/* Entries of the map `before` are older than a second. */
static void pace_turn(struct progress_pace *p, int64_t now_ms)
{
    if (now_ms >= p->since_ms && now_ms - p->since_ms < EVENT_GAP_MS)
        return;
    map64_done(&p->before);
    p->before = p->now;
    map64_init(&p->now);
    p->since_ms = now_ms;
}

bool progress_pace_take(struct progress_pace *p, uint64_t seq, int64_t now_ms)
{
    uint32_t now = (uint32_t)now_ms ? (uint32_t)now_ms : 1;
    pace_turn(p, now_ms);
    if (recent(&p->now, seq, now) || recent(&p->before, seq, now))
        return false;
    int err = map64_put(&p->now, seq, now);
    (void)err;
    return true;
}
