/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/samples.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/utf8.h"
#include "core/jobs/job_texts.h"
#include "core/jobs/progress.h"
#include "core/kvkey.h"
#include "core/limits.h"
#include "core/queues/policy_fields.h"

const enum record_kind sample_kinds[] = {
    REC_EPOCH,
    REC_SEQ_BLOCK,
    REC_QUEUE_PUT,
    REC_QUEUE_GONE,
    REC_QUEUE_END,
    REC_PURGED,
    REC_BULK_BEGIN,
    REC_BULK_STEP,
    REC_BULK_END,
    REC_JOB_NEW,
    REC_JOB_READY,
    REC_JOB_CLAIMED,
    REC_JOB_EXTENDED,
    REC_JOB_BACK,
    REC_JOB_DONE,
    REC_JOB_DEAD,
    REC_JOB_CANCELLED,
    REC_JOB_REQUEUED,
    REC_JOB_PATCHED,
    REC_JOBS_GONE,
    REC_KEY_NEW,
    REC_KEYS_GONE,
    REC_KV_SET,
    REC_KV_GONE,
    REC_KV_FROM_JOB,
    REC_KV_KEYS,
    REC_ALERT_PUT,
    REC_ALERT_GONE,
    REC_ALERT_EDGE,
    REC_NOTICE_NEW,
    REC_NOTICE_TRIED,
    REC_NOTICE_GONE,
    REC_BREAKER_PUT,
    REC_BREAKER_GONE,
    REC_COUNTERS,
    REC_JOB_NOTED,
    REC_SCHEDULE_PUT,
    REC_SCHEDULE_GONE,
    REC_SCHEDULE_FIRED,
    REC_SCHEDULE_PASSED,
    REC_SCHEDULE_FAILED,
    REC_JOB_LINKED,
    REC_JOB_PRIORITY,
    REC_JOB_ATTEMPT,
    REC_JOB_CANCEL_REQUESTED,
    REC_JOB_PROGRESS,
    REC_JOB_LOGGED,
    REC_JOB_STEPS,
    REC_JOB_UNBLOCKED,
    REC_DEPENDENT_PUT,
    REC_DEPENDENT_GONE,
    REC_DEPENDENCIES_NEW,
    REC_DEPENDENCY_END,
    REC_PARENT_ENDED,
};
const size_t sample_kind_count = sizeof sample_kinds / sizeof sample_kinds[0];

/* ---- values: small ones, large ones and the ends of the range, each often ---- */

static uint64_t between(struct random *random, uint64_t low, uint64_t high)
{
    switch (random_below(random, 8)) {
    case 0:
        return low;
    case 1:
        return high;
    case 2:
        return low + random_below(random, high - low < 200 ? high - low + 1 : 200);
    default: {
        uint64_t range = high - low + 1; /* 0 = all of it */
        uint64_t v = random_next(random) >> random_below(random, 64);
        return range == 0 ? v : low + v % range;
    }
    }
}

static uint16_t u16(struct random *random)
{
    return (uint16_t)between(random, 0, UINT16_MAX);
}

static uint32_t u32(struct random *random)
{
    return (uint32_t)between(random, 1, UINT32_MAX);
}

static uint64_t u64(struct random *random)
{
    return between(random, 0, UINT64_MAX);
}

static uint64_t seq_value(struct random *random)
{
    return between(random, 1, LIMIT_SEQ);
}

static struct wall_time wall(struct random *random)
{
    return (struct wall_time){(int64_t)between(random, 0, LIMIT_WALL_MS)};
}

static uint32_t lease(struct random *random)
{
    return (uint32_t)between(random, LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS);
}

static uint8_t waiting_state(struct random *random)
{
    return random_chance(random, 50) ? STATE_READY : STATE_SCHEDULED;
}

static size_t length(struct random *random, size_t max)
{
    return random_chance(random, 30) ? 0 : (size_t)between(random, 0, max);
}

static struct span bytes(struct random *random, struct arena *arena, size_t max)
{
    size_t len = length(random, max);
    char *at = arena_alloc(arena, len + 1);
    CHECK(at);
    for (size_t i = 0; i < len; i++)
        at[i] = (char)random_next(random);
    return span_of(at, len);
}

/* Any code point but U+0000, mostly ASCII; no longer than max bytes, and not always. */
static struct span text(struct random *random, struct arena *arena, size_t max)
{
    size_t want = length(random, max), len = 0;
    char *at = arena_alloc(arena, want + 4);
    CHECK(at);
    while (len < want) {
        uint32_t c = (uint32_t)random_between(random, 'a', 'z');
        if (random_chance(random, 20))
            c = (uint32_t)random_between(random, 1, 0x10ffff);
        char spelled[4];
        size_t n = c >= 0xd800 && c <= 0xdfff ? 0 : utf8_encode(c, spelled);
        if (len + n > want)
            break;
        memcpy(at + len, spelled, n);
        len += n;
    }
    return span_of(at, len);
}

static struct span name(struct random *random, struct arena *arena)
{
    size_t len = (size_t)between(random, 1, LIMIT_QUEUE_NAME_BYTES);
    char *at = arena_alloc(arena, len);
    CHECK(at);
    for (size_t i = 0; i < len; i++)
        at[i] = (char)random_between(random, '.', '~');
    return span_of(at, len);
}

/* ---- policies ---- */

void sample_backoff(struct random *random, struct backoff *ret)
{
    *ret = (struct backoff){
        .kind = random_chance(random, 50) ? BACKOFF_LIST : BACKOFF_EXPONENTIAL,
        .jitter_percent = (uint8_t)between(random, 0, 100),
        .step_count = (uint8_t)between(random, 0, LIMIT_BACKOFF_STEPS),
        .max_ms = (uint32_t)between(random, 0, LIMIT_BACKOFF_MS),
    };
    ret->base_ms = (uint32_t)between(random, 0, ret->max_ms);
    for (size_t i = 0; i < ret->step_count; i++)
        ret->step_ms[i] = (uint32_t)between(random, 0, LIMIT_BACKOFF_MS);
}

static int64_t sample_number(struct random *random, const struct policy_field *f)
{
    if (f->kind == POLICY_PRIORITY)
        return (int64_t)u64(random);
    if (policy_unlimited(f) && random_chance(random, 20))
        return INT64_MAX;
    return (int64_t)between(random, (uint64_t)f->min, (uint64_t)f->max);
}

static struct rate_limit sample_rate(struct random *random, const struct policy_field *f)
{
    return (struct rate_limit){
        .per = (uint8_t)between(random, 0, (uint64_t)policy_word_count(f->value) - 1),
        .count = (uint32_t)between(random, 1, LIMIT_RATE_COUNT),
        .window_ms = (uint32_t)between(random, 1, LIMIT_RATE_WINDOW_MS),
    };
}

/* From the table, so that a new member is tested, too. */
void sample_policy(struct random *random, struct queue_policy *ret)
{
    *ret = (struct queue_policy){0};
    for (size_t i = 0; i < POLICY_FIELDS; i++) {
        const struct policy_field *f = &policy_fields[i];
        if (f->kind == POLICY_BACKOFF)
            sample_backoff(random, &ret->backoff);
        else if (f->kind == POLICY_RATE && random_chance(random, 50))
            policy_rate_set(f, ret, sample_rate(random, f));
        else if (f->kind != POLICY_RATE)
            policy_number_set(f, ret, sample_number(random, f));
    }
    if (ret->by_due)
        ret->ageing_ms = 0; /* they cannot be combined */
}

void sample_options(struct random *random, struct job_options *ret)
{
    *ret = (struct job_options){
        .max_attempts = (uint16_t)between(random, 0, LIMIT_ATTEMPTS),
        .max_crashes = (uint16_t)between(random, 0, LIMIT_ATTEMPTS),
        .lease_ms = random_chance(random, 50) ? 0 : lease(random),
        .timeout_ms = random_chance(random, 50) ? 0 : lease(random),
        .has_backoff = random_chance(random, 50),
    };
    if (ret->has_backoff)
        sample_backoff(random, &ret->backoff);
}

static struct span kept(struct arena *arena, struct buf *b)
{
    struct span s = span_of(arena_copy(arena, b->data, b->len), b->len);
    CHECK(s.at);
    buf_done(b);
    return s;
}

static struct span encoded_policy(struct random *random, struct arena *arena)
{
    struct queue_policy policy;
    struct buf b;
    buf_init(&b);
    sample_policy(random, &policy);
    CHECK(policy_encode(&policy, &b) == 0);
    return kept(arena, &b);
}

static struct span encoded_options(struct random *random, struct arena *arena)
{
    struct job_options options;
    struct buf b;
    buf_init(&b);
    sample_options(random, &options);
    CHECK(options_encode(&options, &b) == 0);
    return kept(arena, &b);
}

/* ---- records ---- */

static void sample_queue_put(struct random *random, struct arena *arena, struct record *ret)
{
    ret->queue_put = (struct rec_queue_put){
        .queue = u32(random),
        .generation = (uint32_t)random_next(random),
        .created_at = wall(random),
        .updated_at = wall(random),
        .paused_until = wall(random),
        .name = name(random, arena),
        .policy = encoded_policy(random, arena),
        .owner = text(random, arena, LIMIT_LABEL_BYTES),
        .note = text(random, arena, LIMIT_NOTE_BYTES),
        .attributes = bytes(random, arena, LIMIT_NOTE_BYTES),
    };
}

static uint8_t body_kind(struct random *random, struct span body)
{
    return (uint8_t)random_between(random, body.len ? PAYLOAD_JSON : PAYLOAD_NONE, PAYLOAD_BYTES);
}

static void sample_extra(struct random *random, struct arena *arena, struct job_extra *x)
{
    x->unique = text(random, arena, LIMIT_KEY_BYTES);
    x->group = text(random, arena, LIMIT_KEY_BYTES);
    x->correlation = text(random, arena, LIMIT_KEY_BYTES);
    x->label = text(random, arena, LIMIT_LABEL_BYTES);
    x->attributes = bytes(random, arena, 1000);
    x->kind = text(random, arena, LIMIT_KIND_BYTES);
    x->headers = bytes(random, arena, 1000);
    if (random_chance(random, 50))
        x->expires_at = wall(random);
    if (random_chance(random, 50))
        x->options = encoded_options(random, arena);
}

static bool extra_any(const struct job_extra *x)
{
    return job_texts_bytes(x) || x->expires_at.ms || x->options.len;
}

static void sample_job_new(struct random *random, struct arena *arena, struct record *ret)
{
    struct rec_job_new *n = &ret->job_new;
    *n = (struct rec_job_new){.payload = bytes(random, arena, 20000)};
    if (random_chance(random, 50))
        sample_extra(random, arena, &n->extra);
    n->job = (struct job){
        .seq = seq_value(random),
        .id_hi = u64(random),
        .priority = (int64_t)u64(random),
        .run_at = wall(random),
        .since = wall(random),
        .queue = u32(random),
        .payload_bytes = (uint32_t)n->payload.len,
        .failures = u16(random),
        .crashes = u16(random),
        .generation = (uint32_t)random_next(random),
        .state = waiting_state(random),
        .reason = (uint8_t)random_below(random, REASON_COUNT),
        .payload_kind = body_kind(random, n->payload),
        .flags = extra_any(&n->extra) ? JOB_HAS_EXTRA : 0,
    };
}

static void sample_job_back(struct random *random, struct arena *arena, struct record *ret)
{
    static const uint8_t reasons[] = {REASON_FAILED, REASON_LEASE_EXPIRED, REASON_RELEASED,
                                      REASON_RESTARTED};
    ret->job_back = (struct rec_job_back){
        .seq = seq_value(random),
        .state = waiting_state(random),
        .reason = reasons[random_below(random, 3)],
        .failures = u16(random),
        .crashes = u16(random),
        .generation = (uint32_t)random_next(random),
        .run_at = wall(random),
        .at = wall(random),
        .error_kind = (uint8_t)random_between(random, ERROR_APP, ERROR_BUSINESS),
        .error = text(random, arena, LIMIT_ERROR_BYTES),
    };
}

static void sample_job_dead(struct random *random, struct arena *arena, struct record *ret)
{
    ret->job_dead = (struct rec_job_dead){
        .seq = seq_value(random),
        .reason = (uint8_t)random_between(random, REASON_FAILED, REASON_EXPIRED),
        .failures = u16(random),
        .crashes = u16(random),
        .at = wall(random),
        .error_kind = (uint8_t)random_between(random, ERROR_APP, ERROR_BUSINESS),
        .error = text(random, arena, LIMIT_ERROR_BYTES),
    };
}

static void sample_job_patched(struct random *random, struct arena *arena, struct record *ret)
{
    ret->job_patched = (struct rec_job_patched){
        .seq = seq_value(random),
        .state = waiting_state(random),
        .priority = (int64_t)u64(random),
        .run_at = wall(random),
        .at = wall(random),
        .generation = (uint32_t)random_next(random),
        .has_payload = random_chance(random, 50),
    };
    if (ret->job_patched.has_payload) {
        ret->job_patched.payload = bytes(random, arena, 1000);
        ret->job_patched.payload_kind = body_kind(random, ret->job_patched.payload);
    }
}

static void sample_job_progress(struct random *random, struct arena *arena, struct record *ret)
{
    struct progress p = {.token = {.counter = u64(random), .epoch = (uint32_t)random_next(random)},
                         .at = wall(random),
                         .has_percent = random_chance(random, 50),
                         .message = text(random, arena, LIMIT_PROGRESS_MESSAGE_BYTES),
                         .data = SPAN_LITERAL("[1]")};
    uint8_t *to = arena_alloc(arena, progress_bytes_max(&p));
    CHECK(to);
    ret->job_report = (struct rec_job_report){.seq = seq_value(random),
                                              .text = span_of(to, progress_encode(&p, to))};
}

static void sample_job_noted(struct random *random, struct arena *arena, struct record *ret)
{
    struct rec_job_noted *n = &ret->job_noted;
    unsigned bits = 1 + (unsigned)random_below(random, 15);
    n->seq = seq_value(random);
    n->has_label = bits & 1;
    n->has_attributes = bits & 2;
    n->has_result = bits & 4;
    n->has_error = bits & 8;
    if (n->has_label)
        n->label = text(random, arena, LIMIT_LABEL_BYTES);
    if (n->has_attributes)
        n->attributes = bytes(random, arena, 1000);
    if (n->has_result) {
        n->result = bytes(random, arena, 1000);
        n->result_kind = random_chance(random, 50) ? PAYLOAD_JSON : PAYLOAD_BYTES;
    }
    if (n->has_error) {
        n->error_kind = random_chance(random, 50) ? ERROR_APP : ERROR_BUSINESS;
        n->error = bytes(random, arena, LIMIT_ERROR_BYTES);
    }
}

static void sample_job_attempt(struct random *random, struct arena *arena, struct record *ret)
{
    ret->job_attempt = (struct rec_job_attempt){
        .seq = seq_value(random),
        .number = (uint32_t)between(random, 1, UINT32_MAX),
        .outcome = (uint8_t)between(random, ATTEMPT_DONE, ATTEMPT_CANCELLED),
        .error_kind = random_chance(random, 50) ? ERROR_APP : ERROR_BUSINESS,
        .started_at = wall(random),
        .ended_at = wall(random),
        .worker = text(random, arena, LIMIT_WORKER_BYTES),
        .error = bytes(random, arena, LIMIT_ERROR_BYTES),
    };
}

static void sample_counters(struct random *random, struct record *ret)
{
    ret->counters = (struct rec_counters){.queue = u32(random), .hour = u32(random)};
    for (int i = 0; i < COUNTER_COUNT; i++)
        ret->counters.add.of[i] = random_chance(random, 50) ? u64(random) : 0;
    ret->counters.add.of[random_below(random, COUNTER_COUNT)] = 1 + random_below(random, 1000);
}

static void sample_jobs_gone(struct random *random, struct arena *arena, struct record *ret)
{
    uint64_t previous = 0, last = 0;
    struct buf list;
    buf_init(&list);
    ret->jobs_gone.count = (uint32_t)between(random, 1, LIMIT_SLICE);
    for (uint32_t i = 0; i < ret->jobs_gone.count; i++) {
        uint64_t seq;
        do
            seq = seq_value(random);
        while (seq == last);
        CHECK(record_seq_append(&list, &previous, seq) == 0);
        last = seq;
    }
    ret->jobs_gone.seqs = kept(arena, &list);
}

static void sample_keys_gone(struct random *random, struct arena *arena, struct record *ret)
{
    struct wall_time previous = {0};
    struct buf list;
    buf_init(&list);
    ret->keys_gone.count = (uint32_t)between(random, 1, LIMIT_SLICE);
    for (uint32_t i = 0; i < ret->keys_gone.count; i++) {
        int64_t left = LIMIT_WALL_MS - previous.ms;
        struct record_key key = {.key = {u64(random), between(random, 1, UINT64_MAX)}};
        key.expires_at.ms = previous.ms + (int64_t)between(random, 0, (uint64_t)left / 2);
        CHECK(record_key_append(&list, &previous, &key) == 0);
    }
    ret->keys_gone.keys = kept(arena, &list);
}

static void sample_job_record(struct random *random, struct arena *arena, struct record *ret)
{
    switch ((int)ret->kind) {
    case REC_JOB_NEW:
        sample_job_new(random, arena, ret);
        break;
    case REC_JOB_READY:
        ret->job_ready = (struct rec_job_ready){seq_value(random), wall(random)};
        break;
    case REC_JOB_CLAIMED:
        ret->job_claimed = (struct rec_job_claimed){
            .seq = seq_value(random),
            .token = {between(random, 1, UINT64_MAX), (uint32_t)between(random, 0, UINT32_MAX)},
            .lease_ms = lease(random),
            .timeout_ms = (uint32_t)between(random, 0, LIMIT_TIMEOUT_MS),
            .bound = random_chance(random, 50),
            .at = wall(random),
            .worker = text(random, arena, LIMIT_WORKER_BYTES),
        };
        break;
    case REC_JOB_EXTENDED:
        ret->job_extended = (struct rec_job_extended){seq_value(random), lease(random)};
        break;
    case REC_JOB_CANCEL_REQUESTED:
        ret->job_cancel_requested = (struct rec_job_cancel_requested){
            seq_value(random), {(int64_t)between(random, 1, LIMIT_WALL_MS)}, lease(random)};
        break;
    case REC_JOB_PRIORITY:
        ret->job_priority =
            (struct rec_job_priority){seq_value(random), (int64_t)between(random, 0, UINT64_MAX)};
        break;
    case REC_JOB_BACK:
        sample_job_back(random, arena, ret);
        break;
    case REC_JOB_DONE:
        ret->job_done = (struct rec_job_done){
            .seq = seq_value(random), .at = wall(random), .result = bytes(random, arena, 1000)};
        ret->job_done.result_kind = body_kind(random, ret->job_done.result);
        break;
    case REC_JOB_DEAD:
        sample_job_dead(random, arena, ret);
        break;
    case REC_JOB_CANCELLED:
        ret->job_cancelled = (struct rec_job_cancelled){
            .seq = seq_value(random),
            .reason = random_chance(random, 50)   ? REASON_CANCELLED
                      : random_chance(random, 50) ? REASON_REPLACED
                                                  : REASON_DISCARDED,
            .at = wall(random),
        };
        break;
    case REC_JOB_REQUEUED:
        ret->job_requeued = (struct rec_job_requeued){.seq = seq_value(random),
                                                      .state = waiting_state(random),
                                                      .generation = (uint32_t)random_next(random),
                                                      .run_at = wall(random),
                                                      .at = wall(random)};
        break;
    case REC_JOB_PATCHED:
        sample_job_patched(random, arena, ret);
        break;
    case REC_JOB_NOTED:
        sample_job_noted(random, arena, ret);
        break;
    case REC_JOB_ATTEMPT:
        sample_job_attempt(random, arena, ret);
        break;
    case REC_JOB_PROGRESS:
        sample_job_progress(random, arena, ret);
        break;
    case REC_JOB_LOGGED:
        ret->job_report =
            (struct rec_job_report){.seq = seq_value(random), .text = SPAN_LITERAL("1 1 line\n")};
        break;
    case REC_JOB_STEPS:
        ret->job_report = (struct rec_job_report){.seq = seq_value(random),
                                                  .text = SPAN_LITERAL("\1a\0011\1b\4null")};
        break;
    default:
        sample_jobs_gone(random, arena, ret);
        break;
    }
}

static struct schedule_state schedule_state(struct random *random)
{
    return (struct schedule_state){
        .next_at = wall(random),
        .retry_at = wall(random),
        .last_at = wall(random),
        .fired_at = wall(random),
        .seq = between(random, 0, LIMIT_SEQ),
        .id_hi = u64(random),
        .item = between(random, 0, LIMIT_SEQ),
        .fired = u64(random),
        .missed = u64(random),
        .failures = (uint32_t)between(random, 0, UINT32_MAX),
        .error = (uint8_t)random_below(random, SCHEDULE_ERROR_COUNT),
    };
}

void sample_spec(struct random *random, struct arena *arena, struct schedule_spec *ret)
{
    static const char *const crons[] = {"* * * * *", "0 2 * * MON-FRI", "@daily", "*/5 * 1 * * ?"};
    schedule_default(ret, (uint8_t)random_between(random, SCHEDULE_CRON, SCHEDULE_QUEUE));
    ret->queue = SPAN_LITERAL("target");
    if (ret->kind == SCHEDULE_CRON) {
        ret->cron = span_text(crons[random_below(random, 4)]);
        ret->zone = text(random, arena, 64);
    } else {
        ret->every_ms = between(random, LIMIT_EVERY_MS_MIN, LIMIT_EVERY_MS);
        ret->start_at = wall(random);
    }
    if (ret->kind == SCHEDULE_QUEUE) {
        ret->source = SPAN_LITERAL("source");
        ret->batch_size = (uint32_t)between(random, 1, LIMIT_BATCH_SIZE);
        ret->eager = random_chance(random, 50);
    }
    ret->run_after_gap = random_chance(random, 50);
    ret->fold_twice = random_chance(random, 50);
    ret->misfire = (uint8_t)random_between(random, MISFIRE_SKIP, MISFIRE_ALL);
    ret->overlap = (uint8_t)random_between(random, OVERLAP_ALLOW, OVERLAP_SKIP);
    ret->misfire_window_ms = between(random, 0, LIMIT_EVERY_MS);
    ret->extra.unique = text(random, arena, LIMIT_KEY_BYTES);
    ret->extra.group = text(random, arena, LIMIT_KEY_BYTES);
    ret->extra.correlation = text(random, arena, LIMIT_KEY_BYTES);
    ret->extra.label = text(random, arena, LIMIT_LABEL_BYTES);
    ret->extra.kind = text(random, arena, LIMIT_KIND_BYTES);
    ret->unique_mode = (uint8_t)random_between(random, 0, UNIQUE_REPLACE);
    ret->has_priority = random_chance(random, 50);
    ret->priority = (int64_t)u64(random);
    ret->delay_ms = wall(random).ms;
    ret->expires_in_ms = wall(random).ms;
    if (random_chance(random, 70)) {
        ret->payload_kind = PAYLOAD_JSON;
        ret->payload = SPAN_LITERAL("{\"a\":[1,2]}");
    }
}

static void sample_schedule_put(struct random *random, struct arena *arena, struct record *ret)
{
    struct schedule_spec spec;
    struct buf encoded;
    buf_init(&encoded);
    sample_spec(random, arena, &spec);
    CHECK(schedule_encode(&spec, &encoded) == 0);
    char *copy = arena_copy(arena, encoded.data, encoded.len);
    CHECK(copy);
    ret->schedule_put = (struct rec_schedule_put){
        .schedule = u32(random),
        .paused = random_chance(random, 50),
        .created_at = wall(random),
        .updated_at = wall(random),
        .state = schedule_state(random),
        .name = SPAN_LITERAL("nightly"),
        .spec = span_of(copy, encoded.len),
        .owner = text(random, arena, LIMIT_LABEL_BYTES),
        .note = text(random, arena, LIMIT_NOTE_BYTES),
        .attributes = text(random, arena, LIMIT_NOTE_BYTES),
    };
    buf_done(&encoded);
}

static void sample_schedule_record(struct random *random, struct arena *arena, struct record *ret)
{
    switch ((int)ret->kind) {
    case REC_SCHEDULE_PUT:
        sample_schedule_put(random, arena, ret);
        break;
    case REC_SCHEDULE_GONE:
        ret->schedule_gone = (struct rec_schedule_gone){u32(random), wall(random)};
        break;
    case REC_JOB_LINKED:
        sample_jobs_gone(random, arena, ret);
        struct rec_jobs_gone list = ret->jobs_gone;
        if (list.count == 0)
            list = (struct rec_jobs_gone){1, SPAN_LITERAL("\x02")};
        ret->job_linked =
            (struct rec_job_linked){seq_value(random), u64(random), list.count, list.seqs};
        break;
    default:
        ret->schedule_state =
            (struct rec_schedule_state){u32(random), wall(random), schedule_state(random)};
        break;
    }
}

static void sample_store_record(struct random *random, struct arena *arena, struct record *ret)
{
    switch ((int)ret->kind) {
    case REC_EPOCH:
        ret->epoch = (struct rec_epoch){u32(random), wall(random)};
        break;
    case REC_SEQ_BLOCK:
        ret->seq_block.upto = seq_value(random);
        break;
    case REC_QUEUE_PUT:
        sample_queue_put(random, arena, ret);
        break;
    case REC_QUEUE_GONE:
    case REC_QUEUE_END:
        ret->queue = (struct rec_queue){u32(random), wall(random)};
        break;
    case REC_PURGED:
        ret->purged = (struct rec_purged){u32(random), u16(random), wall(random), u64(random)};
        break;
    case REC_BULK_BEGIN:
        ret->bulk_begin = (struct rec_bulk_begin){
            .bulk = between(random, 1, UINT64_MAX),
            .action = (uint8_t)random_between(random, BULK_REQUEUE, BULK_CANCEL_NOW),
            .at = wall(random),
            .queue = (uint32_t)between(random, 0, UINT32_MAX),
            .states = (unsigned)random_next(random) & STATES_ALL,
            .group = text(random, arena, LIMIT_KEY_BYTES),
            .kind = text(random, arena, LIMIT_KIND_BYTES),
            .seq_max = seq_value(random),
        };
        break;
    case REC_BULK_STEP:
    case REC_BULK_END:
        ret->bulk_step =
            (struct rec_bulk_step){between(random, 1, UINT64_MAX), between(random, 0, LIMIT_SEQ),
                                   u64(random), u64(random)};
        break;
    case REC_KEY_NEW:
        ret->key_new = (struct rec_key_new){
            .key = {u64(random), between(random, 1, UINT64_MAX)},
            .fingerprint = u64(random),
            .seq = seq_value(random),
            .id_hi = u64(random),
            .expires_at = wall(random),
        };
        break;
    case REC_KEYS_GONE:
        sample_keys_gone(random, arena, ret);
        break;
    default:
        sample_counters(random, ret);
        break;
    }
}

static struct span kv_key(struct random *random, struct arena *arena)
{
    struct buf key;
    struct kv_part part = {.kind = KV_TEXT, .text = SPAN_LITERAL("part")};
    size_t parts = 1 + (size_t)random_below(random, 4);
    buf_init(&key);
    for (size_t i = 0; i < parts; i++) {
        part.kind = i == 0 ? KV_TEXT : (enum kv_part_kind)random_below(random, 3);
        part.boolean = random_below(random, 2);
        part.number = (double)random_below(random, 1000) - 500.5;
        CHECK(kvkey_append(&key, &part) == 0);
    }
    struct span ret = span_of(arena_copy(arena, key.data, key.len), key.len);
    buf_done(&key);
    return ret;
}

static uint32_t kv_keys(struct random *random, struct arena *arena, struct span *ret)
{
    struct buf list;
    uint32_t count = 1 + (uint32_t)random_below(random, LIMIT_KV_UNDELIVERED);
    buf_init(&list);
    for (uint32_t i = 0; i < count; i++)
        CHECK(record_span_append(&list, kv_key(random, arena)) == 0);
    *ret = span_of(arena_copy(arena, list.data, list.len), list.len);
    buf_done(&list);
    return count;
}

/* false: it is of another kind. */
static bool sample_kv(struct random *random, struct arena *arena, struct record *ret)
{
    uint64_t version = between(random, 1, UINT64_MAX);
    if (ret->kind == REC_KV_SET) {
        ret->kv_set = (struct rec_kv_set){.key = kv_key(random, arena),
                                          .version = version,
                                          .expires_at = wall(random),
                                          .kind = PAYLOAD_JSON,
                                          .value = SPAN_LITERAL("{\"a\": 1}")};
    } else if (ret->kind == REC_KV_GONE) {
        ret->kv_gone.version = version;
        ret->kv_gone.count = kv_keys(random, arena, &ret->kv_gone.keys);
    } else if (ret->kind == REC_KV_FROM_JOB) {
        ret->kv_from_job =
            (struct rec_kv_from_job){.seq = between(random, 1, LIMIT_SEQ),
                                     .key = kv_key(random, arena),
                                     .version = version,
                                     .kind = PAYLOAD_BYTES,
                                     .bytes = (uint32_t)between(random, 0, LIMIT_PAYLOAD_BYTES)};
    } else if (ret->kind == REC_KV_KEYS) {
        ret->kv_keys.seq = between(random, 1, LIMIT_SEQ);
        ret->kv_keys.count = kv_keys(random, arena, &ret->kv_keys.keys);
    } else {
        return false;
    }
    return true;
}

/* ---- alerts, notices, breakers ---- */

static struct span alert_name(struct random *random, struct arena *arena)
{
    struct span s = name(random, arena);
    return span_of(s.at, s.len < LIMIT_ALERT_NAME_BYTES ? s.len : LIMIT_ALERT_NAME_BYTES);
}

static void sample_alert_put(struct random *random, struct arena *arena, struct record *ret)
{
    struct alert_rule *rule = &ret->alert_put.rule;
    enum alert_on on = (enum alert_on)random_between(random, 1, ALERT_ON_COUNT - 1);
    alert_rule_default(on, rule);
    rule->enabled = random_chance(random, 50);
    if (!alert_is_of_node(on))
        rule->queue = random_chance(random, 50) ? name(random, arena) : SPAN_LITERAL("mail-*");
    rule->with_payload = (alert_members(on) & ALERT_HAS_PAYLOAD) && random_chance(random, 50);
    if (alert_members(on) & ALERT_HAS_DEPTH)
        rule->depth = between(random, 0, UINT32_MAX);
    if (alert_members(on) & ALERT_HAS_PERCENT)
        rule->percent = (uint32_t)between(random, 1, 100);
    if (random_chance(random, 70)) {
        rule->url = SPAN_LITERAL("https://hooks.example:8443/a?b=c");
        rule->secret = text(random, arena, LIMIT_SECRET_BYTES);
    }
    ret->alert_put.name = alert_name(random, arena);
    ret->alert_put.condition_changed = random_chance(random, 50);
    ret->alert_put.created_at = wall(random);
    ret->alert_put.updated_at = wall(random);
}

static void sample_notice_new(struct random *random, struct arena *arena, struct record *ret)
{
    ret->notice_new = (struct rec_notice_new){
        .number = seq_value(random),
        .id_hi = u64(random),
        .on = (uint8_t)random_between(random, 1, ALERT_ON_COUNT - 1),
        .edge = (uint8_t)random_below(random, EDGE_COUNT),
        .at = wall(random),
        .alert = alert_name(random, arena),
        .queue = random_chance(random, 50) ? name(random, arena) : (struct span){NULL, 0},
        .job_seq = random_chance(random, 50) ? seq_value(random) : 0,
        .job_hi = u64(random),
        .reason = (uint8_t)random_below(random, REASON_COUNT),
        .attempts = u32(random),
        .value = u64(random),
        .mark = u64(random),
        .subject = text(random, arena, LIMIT_QUEUE_NAME_BYTES),
        .text = text(random, arena, LIMIT_NOTICE_TEXT_BYTES),
    };
}

static void sample_notice_record(struct random *random, struct arena *arena, struct record *ret)
{
    switch ((int)ret->kind) {
    case REC_ALERT_PUT:
        sample_alert_put(random, arena, ret);
        break;
    case REC_ALERT_GONE:
        ret->alert_gone = (struct rec_alert_gone){alert_name(random, arena), wall(random)};
        break;
    case REC_ALERT_EDGE:
        ret->alert_edge = (struct rec_alert_edge){.alert = alert_name(random, arena),
                                                  .queue = name(random, arena),
                                                  .raised = random_chance(random, 50),
                                                  .at = wall(random),
                                                  .value = u64(random),
                                                  .mark = u64(random)};
        break;
    case REC_NOTICE_NEW:
        sample_notice_new(random, arena, ret);
        break;
    case REC_NOTICE_TRIED:
        ret->notice_tried =
            (struct rec_notice_tried){.number = seq_value(random),
                                      .state = (uint8_t)random_below(random, NOTICE_STATE_COUNT),
                                      .tries = u32(random),
                                      .since = wall(random),
                                      .due = wall(random),
                                      .status = u16(random),
                                      .error = text(random, arena, LIMIT_NOTICE_ERROR_BYTES)};
        break;
    case REC_NOTICE_GONE:
        ret->notice_gone = (struct rec_notice_gone){
            seq_value(random), (uint8_t)random_below(random, NOTICE_END_COUNT), wall(random)};
        break;
    case REC_BREAKER_PUT:
        ret->breaker_put = (struct rec_breaker_put){
            .target = name(random, arena),
            .breaker = {.state = (uint8_t)random_below(random, BREAKER_STATE_COUNT),
                        .failures = u32(random),
                        .probes = u32(random),
                        .until = wall(random),
                        .changed_at = wall(random),
                        .own = {u32(random), u32(random), u32(random)},
                        .used_at = wall(random)}};
        break;
    default:
        ret->breaker_gone.target = name(random, arena);
        break;
    }
}

static void sample_dependencies_new(struct random *random, struct arena *arena, struct record *ret)
{
    struct rec_dependencies_new *n = &ret->dependencies_new;
    uint64_t previous = 0, last = 0;
    struct buf list;
    buf_init(&list);
    n->seq = seq_value(random);
    n->count = (uint32_t)between(random, 1, 300);
    for (uint32_t i = 0; i < n->count; i++) {
        uint64_t seq;
        do
            seq = seq_value(random);
        while (seq == last || seq == n->seq);
        CHECK(record_seq_append(&list, &previous, seq) == 0);
        last = seq;
    }
    n->parents = kept(arena, &list);
}

static void sample_dependency_record(struct random *random, struct arena *arena, struct record *ret)
{
    struct dependent *d = &ret->dependent_put.dependent;
    uint8_t end = (uint8_t)random_below(random, DEPENDENCY_END_COUNT);
    switch ((int)ret->kind) {
    case REC_JOB_UNBLOCKED:
        ret->job_unblocked = (struct rec_job_unblocked){
            .seq = seq_value(random),
            .state = random_chance(random, 50) ? STATE_READY : STATE_SCHEDULED,
            .at = wall(random)};
        break;
    case REC_DEPENDENT_PUT:
        ret->dependent_put.seq = seq_value(random);
        d->rule = (uint8_t)random_below(random, DEPENDENCY_RULE_COUNT);
        d->open = random_chance(random, 50);
        for (int i = DEPENDENCY_END_DONE; i < DEPENDENCY_END_COUNT; i++)
            d->counts[DEPENDENCY_END_NONE] += d->counts[i] = (uint32_t)random_below(random, 2500);
        break;
    case REC_DEPENDENCIES_NEW:
        sample_dependencies_new(random, arena, ret);
        break;
    case REC_DEPENDENCY_END:
        ret->dependency_end = (struct rec_dependency_end){.seq = seq_value(random),
                                                          .parent = seq_value(random),
                                                          .how = end,
                                                          .last = random_chance(random, 50)};
        break;
    default:
        ret->dependent.seq = seq_value(random);
        if (ret->kind == REC_PARENT_ENDED)
            ret->dependent.how = end ? end : DEPENDENCY_END_DONE;
        break;
    }
}

void sample_record(struct random *random, struct arena *arena, enum record_kind kind,
                   struct record *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->kind = kind;
    if ((kind >= REC_JOB_NEW && kind <= REC_JOB_CANCEL_REQUESTED) || kind == REC_JOB_PROGRESS ||
        kind == REC_JOB_LOGGED || kind == REC_JOB_STEPS)
        sample_job_record(random, arena, ret);
    else if (kind >= REC_SCHEDULE_PUT && kind <= REC_JOB_LINKED)
        sample_schedule_record(random, arena, ret);
    else if (kind >= REC_JOB_UNBLOCKED)
        sample_dependency_record(random, arena, ret);
    else if (kind >= REC_ALERT_PUT)
        sample_notice_record(random, arena, ret);
    else if (!sample_kv(random, arena, ret))
        sample_store_record(random, arena, ret);
}

/* ---- comparing ---- */

struct field {
    enum record_kind kind;
    const char *name;
    size_t at;
    size_t size; /* 0 = a span */
};

#define F(kind, member)                                                                            \
    {                                                                                              \
        kind, #member, offsetof(struct record, member), sizeof(((struct record *)NULL)->member)    \
    }
#define S(kind, member)                                                                            \
    {                                                                                              \
        kind, #member, offsetof(struct record, member), 0                                          \
    }

#define STATE_FIELDS(kind, member)                                                                 \
    F(kind, member.next_at), F(kind, member.retry_at), F(kind, member.last_at),                    \
        F(kind, member.fired_at), F(kind, member.seq), F(kind, member.id_hi),                      \
        F(kind, member.item), F(kind, member.fired), F(kind, member.missed),                       \
        F(kind, member.failures), F(kind, member.error)

static const struct field fields[] = {
    F(REC_ALERT_PUT, alert_put.condition_changed),
    F(REC_ALERT_PUT, alert_put.created_at),
    F(REC_ALERT_PUT, alert_put.updated_at),
    S(REC_ALERT_PUT, alert_put.name),
    F(REC_ALERT_PUT, alert_put.rule.on),
    F(REC_ALERT_PUT, alert_put.rule.enabled),
    F(REC_ALERT_PUT, alert_put.rule.with_payload),
    S(REC_ALERT_PUT, alert_put.rule.queue),
    F(REC_ALERT_PUT, alert_put.rule.depth),
    F(REC_ALERT_PUT, alert_put.rule.percent),
    F(REC_ALERT_PUT, alert_put.rule.window_ms),
    F(REC_ALERT_PUT, alert_put.rule.min_ends),
    F(REC_ALERT_PUT, alert_put.rule.after_ms),
    S(REC_ALERT_PUT, alert_put.rule.url),
    S(REC_ALERT_PUT, alert_put.rule.secret),
    S(REC_ALERT_GONE, alert_gone.name),
    F(REC_ALERT_GONE, alert_gone.at),
    S(REC_ALERT_EDGE, alert_edge.alert),
    S(REC_ALERT_EDGE, alert_edge.queue),
    F(REC_ALERT_EDGE, alert_edge.raised),
    F(REC_ALERT_EDGE, alert_edge.at),
    F(REC_ALERT_EDGE, alert_edge.value),
    F(REC_ALERT_EDGE, alert_edge.mark),
    F(REC_NOTICE_NEW, notice_new.number),
    F(REC_NOTICE_NEW, notice_new.id_hi),
    F(REC_NOTICE_NEW, notice_new.on),
    F(REC_NOTICE_NEW, notice_new.edge),
    F(REC_NOTICE_NEW, notice_new.at),
    S(REC_NOTICE_NEW, notice_new.alert),
    S(REC_NOTICE_NEW, notice_new.queue),
    F(REC_NOTICE_NEW, notice_new.job_seq),
    F(REC_NOTICE_NEW, notice_new.job_hi),
    F(REC_NOTICE_NEW, notice_new.reason),
    F(REC_NOTICE_NEW, notice_new.attempts),
    F(REC_NOTICE_NEW, notice_new.value),
    F(REC_NOTICE_NEW, notice_new.mark),
    S(REC_NOTICE_NEW, notice_new.subject),
    S(REC_NOTICE_NEW, notice_new.text),
    F(REC_NOTICE_TRIED, notice_tried.number),
    F(REC_NOTICE_TRIED, notice_tried.state),
    F(REC_NOTICE_TRIED, notice_tried.tries),
    F(REC_NOTICE_TRIED, notice_tried.since),
    F(REC_NOTICE_TRIED, notice_tried.due),
    F(REC_NOTICE_TRIED, notice_tried.status),
    S(REC_NOTICE_TRIED, notice_tried.error),
    F(REC_NOTICE_GONE, notice_gone.number),
    F(REC_NOTICE_GONE, notice_gone.end),
    F(REC_NOTICE_GONE, notice_gone.at),
    S(REC_BREAKER_PUT, breaker_put.target),
    F(REC_BREAKER_PUT, breaker_put.breaker.state),
    F(REC_BREAKER_PUT, breaker_put.breaker.failures),
    F(REC_BREAKER_PUT, breaker_put.breaker.probes),
    F(REC_BREAKER_PUT, breaker_put.breaker.until),
    F(REC_BREAKER_PUT, breaker_put.breaker.changed_at),
    F(REC_BREAKER_PUT, breaker_put.breaker.own.failure_threshold),
    F(REC_BREAKER_PUT, breaker_put.breaker.own.open_cooldown_seconds),
    F(REC_BREAKER_PUT, breaker_put.breaker.own.half_open_probe_count),
    F(REC_BREAKER_PUT, breaker_put.breaker.used_at),
    S(REC_BREAKER_GONE, breaker_gone.target),
    F(REC_EPOCH, epoch.epoch),
    F(REC_EPOCH, epoch.at),
    F(REC_SEQ_BLOCK, seq_block.upto),
    F(REC_QUEUE_PUT, queue_put.queue),
    F(REC_QUEUE_PUT, queue_put.generation),
    F(REC_QUEUE_PUT, queue_put.created_at),
    F(REC_QUEUE_PUT, queue_put.updated_at),
    F(REC_QUEUE_PUT, queue_put.paused_until),
    S(REC_QUEUE_PUT, queue_put.name),
    S(REC_QUEUE_PUT, queue_put.policy),
    S(REC_QUEUE_PUT, queue_put.owner),
    S(REC_QUEUE_PUT, queue_put.note),
    S(REC_QUEUE_PUT, queue_put.attributes),
    F(REC_QUEUE_GONE, queue.queue),
    F(REC_QUEUE_GONE, queue.at),
    F(REC_QUEUE_END, queue.queue),
    F(REC_QUEUE_END, queue.at),
    F(REC_PURGED, purged.queue),
    F(REC_PURGED, purged.generation),
    F(REC_PURGED, purged.at),
    F(REC_PURGED, purged.count),
    F(REC_BULK_BEGIN, bulk_begin.bulk),
    F(REC_BULK_BEGIN, bulk_begin.action),
    F(REC_BULK_BEGIN, bulk_begin.at),
    F(REC_BULK_BEGIN, bulk_begin.queue),
    F(REC_BULK_BEGIN, bulk_begin.states),
    S(REC_BULK_BEGIN, bulk_begin.group),
    S(REC_BULK_BEGIN, bulk_begin.kind),
    F(REC_BULK_BEGIN, bulk_begin.seq_max),
    F(REC_BULK_STEP, bulk_step.bulk),
    F(REC_BULK_STEP, bulk_step.cursor),
    F(REC_BULK_STEP, bulk_step.changed),
    F(REC_BULK_STEP, bulk_step.refused),
    F(REC_BULK_END, bulk_step.bulk),
    F(REC_BULK_END, bulk_step.cursor),
    F(REC_BULK_END, bulk_step.changed),
    F(REC_BULK_END, bulk_step.refused),
    F(REC_JOB_NEW, job_new.job.seq),
    F(REC_JOB_NEW, job_new.job.id_hi),
    F(REC_JOB_NEW, job_new.job.priority),
    F(REC_JOB_NEW, job_new.job.run_at),
    F(REC_JOB_NEW, job_new.job.since),
    F(REC_JOB_NEW, job_new.job.queue),
    F(REC_JOB_NEW, job_new.job.payload_bytes),
    F(REC_JOB_NEW, job_new.job.failures),
    F(REC_JOB_NEW, job_new.job.crashes),
    F(REC_JOB_NEW, job_new.job.generation),
    F(REC_JOB_NEW, job_new.job.state),
    F(REC_JOB_NEW, job_new.job.reason),
    F(REC_JOB_NEW, job_new.job.payload_kind),
    F(REC_JOB_NEW, job_new.job.flags),
    S(REC_JOB_NEW, job_new.extra.unique),
    S(REC_JOB_NEW, job_new.extra.group),
    S(REC_JOB_NEW, job_new.extra.correlation),
    S(REC_JOB_NEW, job_new.extra.label),
    S(REC_JOB_NEW, job_new.extra.attributes),
    S(REC_JOB_NEW, job_new.extra.kind),
    S(REC_JOB_NEW, job_new.extra.headers),
    F(REC_JOB_NEW, job_new.extra.expires_at),
    S(REC_JOB_NEW, job_new.extra.options),
    S(REC_JOB_NEW, job_new.payload),
    F(REC_JOB_READY, job_ready.seq),
    F(REC_JOB_READY, job_ready.at),
    F(REC_JOB_CLAIMED, job_claimed.seq),
    F(REC_JOB_CLAIMED, job_claimed.token.counter),
    F(REC_JOB_CLAIMED, job_claimed.token.epoch),
    F(REC_JOB_CLAIMED, job_claimed.lease_ms),
    F(REC_JOB_CLAIMED, job_claimed.timeout_ms),
    F(REC_JOB_CLAIMED, job_claimed.bound),
    F(REC_JOB_CLAIMED, job_claimed.at),
    S(REC_JOB_CLAIMED, job_claimed.worker),
    F(REC_JOB_EXTENDED, job_extended.seq),
    F(REC_JOB_EXTENDED, job_extended.lease_ms),
    F(REC_JOB_CANCEL_REQUESTED, job_cancel_requested.seq),
    F(REC_JOB_CANCEL_REQUESTED, job_cancel_requested.at),
    F(REC_JOB_CANCEL_REQUESTED, job_cancel_requested.grace_ms),
    F(REC_JOB_PRIORITY, job_priority.seq),
    F(REC_JOB_PRIORITY, job_priority.priority),
    F(REC_JOB_BACK, job_back.seq),
    F(REC_JOB_BACK, job_back.state),
    F(REC_JOB_BACK, job_back.reason),
    F(REC_JOB_BACK, job_back.failures),
    F(REC_JOB_BACK, job_back.crashes),
    F(REC_JOB_BACK, job_back.generation),
    F(REC_JOB_BACK, job_back.run_at),
    F(REC_JOB_BACK, job_back.at),
    F(REC_JOB_BACK, job_back.error_kind),
    S(REC_JOB_BACK, job_back.error),
    F(REC_JOB_DONE, job_done.seq),
    F(REC_JOB_DONE, job_done.at),
    F(REC_JOB_DONE, job_done.result_kind),
    S(REC_JOB_DONE, job_done.result),
    F(REC_JOB_DEAD, job_dead.seq),
    F(REC_JOB_DEAD, job_dead.reason),
    F(REC_JOB_DEAD, job_dead.failures),
    F(REC_JOB_DEAD, job_dead.crashes),
    F(REC_JOB_DEAD, job_dead.at),
    F(REC_JOB_DEAD, job_dead.error_kind),
    S(REC_JOB_DEAD, job_dead.error),
    F(REC_JOB_CANCELLED, job_cancelled.seq),
    F(REC_JOB_CANCELLED, job_cancelled.reason),
    F(REC_JOB_CANCELLED, job_cancelled.at),
    F(REC_JOB_REQUEUED, job_requeued.seq),
    F(REC_JOB_REQUEUED, job_requeued.state),
    F(REC_JOB_REQUEUED, job_requeued.generation),
    F(REC_JOB_REQUEUED, job_requeued.run_at),
    F(REC_JOB_REQUEUED, job_requeued.at),
    F(REC_JOB_PATCHED, job_patched.seq),
    F(REC_JOB_PATCHED, job_patched.state),
    F(REC_JOB_PATCHED, job_patched.priority),
    F(REC_JOB_PATCHED, job_patched.run_at),
    F(REC_JOB_PATCHED, job_patched.at),
    F(REC_JOB_PATCHED, job_patched.generation),
    F(REC_JOB_PATCHED, job_patched.has_payload),
    F(REC_JOB_PATCHED, job_patched.payload_kind),
    S(REC_JOB_PATCHED, job_patched.payload),
    F(REC_COUNTERS, counters.queue),
    F(REC_COUNTERS, counters.hour),
    F(REC_COUNTERS, counters.add),
    F(REC_JOB_NOTED, job_noted.seq),
    F(REC_JOB_NOTED, job_noted.has_label),
    F(REC_JOB_NOTED, job_noted.has_attributes),
    F(REC_JOB_NOTED, job_noted.has_result),
    F(REC_JOB_NOTED, job_noted.has_error),
    S(REC_JOB_NOTED, job_noted.label),
    S(REC_JOB_NOTED, job_noted.attributes),
    F(REC_JOB_NOTED, job_noted.result_kind),
    S(REC_JOB_NOTED, job_noted.result),
    F(REC_JOB_NOTED, job_noted.error_kind),
    S(REC_JOB_NOTED, job_noted.error),
    F(REC_JOB_PROGRESS, job_report.seq),
    S(REC_JOB_PROGRESS, job_report.text),
    F(REC_JOB_LOGGED, job_report.seq),
    S(REC_JOB_LOGGED, job_report.text),
    F(REC_JOB_STEPS, job_report.seq),
    S(REC_JOB_STEPS, job_report.text),
    F(REC_JOB_UNBLOCKED, job_unblocked.seq),
    F(REC_JOB_UNBLOCKED, job_unblocked.state),
    F(REC_JOB_UNBLOCKED, job_unblocked.at.ms),
    F(REC_DEPENDENT_PUT, dependent_put.seq),
    F(REC_DEPENDENT_PUT, dependent_put.dependent.rule),
    F(REC_DEPENDENT_PUT, dependent_put.dependent.open),
    F(REC_DEPENDENT_PUT, dependent_put.dependent.counts[0]),
    F(REC_DEPENDENT_PUT, dependent_put.dependent.counts[1]),
    F(REC_DEPENDENT_PUT, dependent_put.dependent.counts[2]),
    F(REC_DEPENDENT_PUT, dependent_put.dependent.counts[3]),
    F(REC_DEPENDENT_PUT, dependent_put.dependent.counts[4]),
    F(REC_DEPENDENT_GONE, dependent.seq),
    F(REC_DEPENDENCIES_NEW, dependencies_new.seq),
    F(REC_DEPENDENCIES_NEW, dependencies_new.count),
    S(REC_DEPENDENCIES_NEW, dependencies_new.parents),
    F(REC_DEPENDENCY_END, dependency_end.seq),
    F(REC_DEPENDENCY_END, dependency_end.parent),
    F(REC_DEPENDENCY_END, dependency_end.how),
    F(REC_DEPENDENCY_END, dependency_end.last),
    F(REC_PARENT_ENDED, dependent.seq),
    F(REC_PARENT_ENDED, dependent.how),
    F(REC_JOB_ATTEMPT, job_attempt.seq),
    F(REC_JOB_ATTEMPT, job_attempt.number),
    F(REC_JOB_ATTEMPT, job_attempt.outcome),
    F(REC_JOB_ATTEMPT, job_attempt.error_kind),
    F(REC_JOB_ATTEMPT, job_attempt.started_at),
    F(REC_JOB_ATTEMPT, job_attempt.ended_at),
    S(REC_JOB_ATTEMPT, job_attempt.worker),
    S(REC_JOB_ATTEMPT, job_attempt.error),
    F(REC_JOBS_GONE, jobs_gone.count),
    S(REC_JOBS_GONE, jobs_gone.seqs),
    F(REC_KEY_NEW, key_new.key),
    F(REC_KEY_NEW, key_new.fingerprint),
    F(REC_KEY_NEW, key_new.seq),
    F(REC_KEY_NEW, key_new.id_hi),
    F(REC_KEY_NEW, key_new.expires_at),
    F(REC_KEYS_GONE, keys_gone.count),
    S(REC_KEYS_GONE, keys_gone.keys),
    S(REC_KV_SET, kv_set.key),
    F(REC_KV_SET, kv_set.version),
    F(REC_KV_SET, kv_set.expires_at),
    F(REC_KV_SET, kv_set.kind),
    S(REC_KV_SET, kv_set.value),
    F(REC_KV_GONE, kv_gone.version),
    F(REC_KV_GONE, kv_gone.count),
    S(REC_KV_GONE, kv_gone.keys),
    F(REC_KV_FROM_JOB, kv_from_job.seq),
    S(REC_KV_FROM_JOB, kv_from_job.key),
    F(REC_KV_FROM_JOB, kv_from_job.version),
    F(REC_KV_FROM_JOB, kv_from_job.kind),
    F(REC_KV_FROM_JOB, kv_from_job.bytes),
    F(REC_KV_KEYS, kv_keys.seq),
    F(REC_KV_KEYS, kv_keys.count),
    S(REC_KV_KEYS, kv_keys.keys),
    F(REC_SCHEDULE_PUT, schedule_put.schedule),
    F(REC_SCHEDULE_PUT, schedule_put.paused),
    F(REC_SCHEDULE_PUT, schedule_put.created_at),
    F(REC_SCHEDULE_PUT, schedule_put.updated_at),
    STATE_FIELDS(REC_SCHEDULE_PUT, schedule_put.state),
    S(REC_SCHEDULE_PUT, schedule_put.name),
    S(REC_SCHEDULE_PUT, schedule_put.spec),
    S(REC_SCHEDULE_PUT, schedule_put.owner),
    S(REC_SCHEDULE_PUT, schedule_put.note),
    S(REC_SCHEDULE_PUT, schedule_put.attributes),
    F(REC_SCHEDULE_GONE, schedule_gone.schedule),
    F(REC_SCHEDULE_GONE, schedule_gone.at),
    F(REC_SCHEDULE_FIRED, schedule_state.schedule),
    F(REC_SCHEDULE_FIRED, schedule_state.at),
    STATE_FIELDS(REC_SCHEDULE_FIRED, schedule_state.state),
    F(REC_SCHEDULE_PASSED, schedule_state.schedule),
    F(REC_SCHEDULE_PASSED, schedule_state.at),
    STATE_FIELDS(REC_SCHEDULE_PASSED, schedule_state.state),
    F(REC_SCHEDULE_FAILED, schedule_state.schedule),
    F(REC_SCHEDULE_FAILED, schedule_state.at),
    STATE_FIELDS(REC_SCHEDULE_FAILED, schedule_state.state),
    F(REC_JOB_LINKED, job_linked.seq),
    F(REC_JOB_LINKED, job_linked.id_hi),
    F(REC_JOB_LINKED, job_linked.count),
    S(REC_JOB_LINKED, job_linked.items),
};

static bool field_equal(const struct field *f, const struct record *a, const struct record *b)
{
    const char *x = (const char *)a + f->at, *y = (const char *)b + f->at;
    if (f->size > 0)
        return memcmp(x, y, f->size) == 0;
    struct span s, t;
    memcpy(&s, x, sizeof s);
    memcpy(&t, y, sizeof t);
    return span_equal(s, t);
}

bool sample_equal(const struct record *a, const struct record *b, const char **ret_field)
{
    *ret_field = "kind";
    if (a->kind != b->kind)
        return false;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        *ret_field = fields[i].name;
        if (fields[i].kind == a->kind && !field_equal(&fields[i], a, b))
            return false;
    }
    return true;
}

/* ---- assertions ---- */

bool sample_aborts(void (*fn)(void *ctx), void *ctx)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (null >= 0)
            dup2(null, STDERR_FILENO);
        fn(ctx);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
