/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: defaults, checks, the compact encoding. */
#include "core/schedules/schedule.h"

#include <inttypes.h>

#include "base/check.h"
#include "core/jobs/job_texts.h"
#include "core/limits.h"
#include "core/queues/policy.h"
#include "core/records/wire.h"
#include "core/schedules/cron.h"

#define SCHEDULE_VERSION 2
#define ZONE_BYTES_MAX 64
#define RETRY_FIRST_MS 1000
#define RETRY_MAX_MS (5 * 60 * 1000)

const char *schedule_kind_name(uint8_t kind)
{
    static const char *const names[] = {NULL, "cron", "interval", "queue"};
    return kind <= SCHEDULE_QUEUE ? names[kind] : NULL;
}

const char *schedule_error_name(uint8_t error)
{
    static const char *const names[SCHEDULE_ERROR_COUNT] = {
        [SCHEDULE_QUEUE_FULL] = "queue_full",   [SCHEDULE_SERVER_FULL] = "server_full",
        [SCHEDULE_REFUSED_NEW] = "refused_new", [SCHEDULE_TOO_BIG] = "too_big",
        [SCHEDULE_NO_QUEUE] = "no_queue",       [SCHEDULE_INVALID] = "invalid",
        [SCHEDULE_OTHER] = "unavailable",       [SCHEDULE_RATE_LIMITED] = "rate_limited",
    };
    return error < SCHEDULE_ERROR_COUNT ? names[error] : NULL;
}

void schedule_default(struct schedule_spec *s, uint8_t kind)
{
    *s = (struct schedule_spec){
        .kind = kind,
        .misfire = MISFIRE_ONCE,
        .misfire_window_ms = SCHEDULE_WINDOW_MS,
        .overlap = OVERLAP_ALLOW,
        .queue = SPAN_LITERAL(SCHEDULE_QUEUE_DEFAULT),
    };
    if (kind == SCHEDULE_QUEUE) {
        s->every_ms = SCHEDULE_LOOK_MS;
        s->batch_size = 1;
    }
}

struct wall_time schedule_next(const struct schedule_spec *spec, const struct schedule_state *state,
                               struct wall_time now)
{
    struct wall_time next = state->next_at;
    if (next.ms >= LIMIT_WALL_MS)
        return (struct wall_time){0};
    if (spec->kind == SCHEDULE_QUEUE && next.ms <= now.ms)
        next.ms = cron_interval_next(spec->start_at.ms, (int64_t)spec->every_ms, now.ms);
    return next;
}

int64_t schedule_retry_ms(uint32_t failures)
{
    uint32_t doublings = failures > 0 ? failures - 1 : 0;
    if (doublings > 16 || (RETRY_FIRST_MS << doublings) > RETRY_MAX_MS)
        return RETRY_MAX_MS;
    return RETRY_FIRST_MS << doublings;
}

/* ---- checks ---- */

static int check_between(const char *field, uint64_t value, uint64_t min, uint64_t max,
                         struct err_note *note)
{
    if (value >= min && value <= max)
        return 0;
    return err_note_set(note, -ERR_INVALID,
                        "%s is %" PRIu64 "; it must be from %" PRIu64 " to %" PRIu64, field, value,
                        min, max);
}

static int check_queue_name(const char *field, struct span name, struct err_note *note)
{
    struct err_note why;
    if (validate_queue_name(name, &why) == 0)
        return 0;
    return err_note_set(note, -ERR_INVALID, "%s must be the name of a queue: %s", field, why.text);
}

static int check_timing(const struct schedule_spec *s, struct err_note *note)
{
    struct cron cron;
    const char *every = s->kind == SCHEDULE_QUEUE ? "interval_ms" : "every_ms";
    int err;
    if (s->kind == SCHEDULE_CRON) {
        err = cron_parse(s->cron, &cron, note);
        return err ? err : validate_text("timezone", s->zone, ZONE_BYTES_MAX, note);
    }
    if ((err = check_between(every, s->every_ms, LIMIT_EVERY_MS_MIN, LIMIT_EVERY_MS, note)) ||
        (err = check_between("start_at", (uint64_t)s->start_at.ms, 0, LIMIT_WALL_MS, note)))
        return err;
    if (s->kind == SCHEDULE_INTERVAL)
        return 0;
    if ((err = check_queue_name("source_queue", s->source, note)) ||
        (err = check_between("batch_size", s->batch_size, 1, LIMIT_BATCH_SIZE, note)))
        return err;
    if (span_equal(s->source, s->queue))
        return err_note_set(note, -ERR_INVALID,
                            "source_queue must not be the queue that the job goes to");
    return 0;
}

static int check_texts(const struct job_extra *x, struct err_note *note)
{
    struct job_options options;
    int err = job_texts_check(x, note);
    if (err < 0)
        return err;
    if (x->options.len > 0 && options_decode(x->options, &options) < 0)
        return err_note_set(note, -ERR_INVALID, "the options of the job cannot be read");
    return 0;
}

static int check_job(const struct schedule_spec *s, struct err_note *note)
{
    int err;
    if ((err = check_queue_name("queue", s->queue, note)) || (err = check_texts(&s->extra, note)) ||
        (err = check_between("delay_ms", (uint64_t)s->delay_ms, 0, LIMIT_WALL_MS, note)) ||
        (err =
             check_between("expires_in_ms", (uint64_t)s->expires_in_ms, 0, LIMIT_WALL_MS, note)) ||
        (err = check_between("unique_mode", s->unique_mode, 0, UNIQUE_REPLACE, note)) ||
        (err = check_between("the kind of the payload", s->payload_kind, 0, PAYLOAD_BYTES, note)))
        return err;
    if (s->payload.len > LIMIT_SCHEDULE_PAYLOAD_BYTES)
        return err_note_set(note, -ERR_INVALID, "payload has %zu bytes; a schedule's may have %u",
                            s->payload.len, LIMIT_SCHEDULE_PAYLOAD_BYTES);
    if (s->payload_kind == PAYLOAD_NONE && s->payload.len > 0)
        return err_note_set(note, -ERR_INVALID, "a payload of no kind cannot have bytes");
    /* The job of a trigger has a JSON payload, which contains the schedule's. */
    if (s->kind == SCHEDULE_QUEUE && s->payload_kind == PAYLOAD_BYTES)
        return err_note_set(note, -ERR_INVALID, "payload must be JSON if source_queue is set");
    return 0;
}

int schedule_check(const struct schedule_spec *s, struct err_note *note)
{
    int err;
    if ((err = check_between("the kind of the schedule", s->kind, SCHEDULE_CRON, SCHEDULE_QUEUE,
                             note)) ||
        (err = check_timing(s, note)) ||
        (err = check_between("misfire", s->misfire, 0, MISFIRE_ALL, note)) ||
        (err = check_between("overlap", s->overlap, 0, OVERLAP_SKIP, note)) ||
        (err = check_between("misfire_window_ms", s->misfire_window_ms, 0, LIMIT_EVERY_MS, note)))
        return err;
    return check_job(s, note);
}

/* ---- encoding ---- */

#define wire_max_extra(v) job_extra_bytes_max(&(v))
#define put_extra(at, v) job_extra_put(at, &(v))
static struct job_extra take_extra(struct wire_in *in)
{
    struct job_extra x = {0};
    job_extra_take(in, &x);
    return x;
}

#define wire_max_delay(v) WIRE_U64
#define put_delay(at, v) put_varint(at, (uint64_t)(v))
#define take_delay(in) (int64_t) take_upto(in, LIMIT_WALL_MS)

#define SPEC(F)                                                                                    \
    F(u8, kind)                                                                                    \
    F(span, cron)                                                                                  \
    F(span, zone)                                                                                  \
    F(u64, every_ms)                                                                               \
    F(wall, start_at)                                                                              \
    F(bool, run_after_gap)                                                                         \
    F(bool, fold_twice)                                                                            \
    F(u8, misfire)                                                                                 \
    F(u8, overlap)                                                                                 \
    F(u64, misfire_window_ms)                                                                      \
    F(span, source)                                                                                \
    F(u32, batch_size)                                                                             \
    F(bool, eager)                                                                                 \
    F(span, queue)                                                                                 \
    F(extra, extra)                                                                                \
    F(u8, payload_kind)                                                                            \
    F(u8, unique_mode)                                                                             \
    F(bool, has_priority)                                                                          \
    F(zigzag, priority)                                                                            \
    F(delay, delay_ms)                                                                             \
    F(delay, expires_in_ms)                                                                        \
    F(span, payload)

size_t schedule_bytes_max(const struct schedule_spec *m)
{
    return WIRE_U8 SPEC(WIRE_MAX);
}

int schedule_encode(const struct schedule_spec *m, struct buf *out)
{
    CHECK(schedule_check(m, NULL) == 0);
    int err = buf_reserve(out, schedule_bytes_max(m));
    if (err < 0)
        return err;
    uint8_t *start = (uint8_t *)out->data + out->len;
    uint8_t *at = put_u8(start, SCHEDULE_VERSION);
    SPEC(WIRE_PUT)
    out->len += (size_t)(at - start);
    return 0;
}

int schedule_decode(struct span encoded, struct schedule_spec *ret)
{
    struct wire_in body = {encoded, false}, *in = &body;
    struct schedule_spec s = {0}, *m = &s;
    if (take_u8(in) != SCHEDULE_VERSION)
        return -ERR_CORRUPT;
    SPEC(WIRE_TAKE)
    if (!wire_ended(in) || schedule_check(m, NULL) < 0)
        return -ERR_CORRUPT;
    *ret = s;
    return 0;
}
