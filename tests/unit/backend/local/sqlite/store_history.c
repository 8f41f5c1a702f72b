/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/backend/local/sqlite/store_history.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/containers/arena.h"
#include "base/digest/hash.h"
#include "core/jobs/job_error.h"
#include "core/jobs/job_texts.h"
#include "core/jobs/moves.h"
#include "core/jobs/progress.h"
#include "core/jobs/steps.h"
#include "core/kvkey.h"
#include "core/records/frame.h"
#include "unit/core/samples.h"

#define CHUNK 9000 /* bytes for payloads, results, errors */

static char noise[CHUNK];

void history_init(struct history *h, uint64_t seed)
{
    memset(h, 0, sizeof *h);
    random_seed(&h->random, seed);
    buf_init(&h->frame);
    h->now.ms = INT64_C(1790000000000);
    h->jobs_max = 200;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)('a' + i % 26);
}

void history_done(struct history *h)
{
    buf_done(&h->frame);
}

struct history *history_new(uint64_t seed, uint32_t epoch)
{
    struct history *h = malloc(sizeof *h);
    assert_non_null(h);
    history_init(h, seed);
    h->epoch = epoch;
    return h;
}

void history_free(struct history *h)
{
    history_done(h);
    free(h);
}

/* ---- frames ---- */

void history_begin(struct history *h)
{
    buf_clear(&h->frame);
    h->count = 0;
    assert_int_equal(frame_begin(&h->frame), 0);
}

static struct history_job *job_of(struct history *h, uint64_t seq)
{
    assert_true(seq > 0 && seq < HISTORY_JOBS);
    return &h->jobs[seq];
}

uint32_t history_crc(struct span s)
{
    return s.len ? crc32c(0, s.at, s.len) | 1 : 0;
}

static void put_text(char to[16], struct span text)
{
    assert_true(text.len < 16);
    memset(to, 0, 16);
    if (text.len)
        memcpy(to, text.at, text.len);
}

static void lease_drop(struct history_job *j)
{
    j->lease_ms = 0;
    j->limits = (struct lease_limits){0};
}

static void report_apply(struct history_job *j, const struct record *r)
{
    struct span text = r->job_report.text;
    if (r->kind == REC_JOB_PROGRESS) {
        struct progress p;
        assert_int_equal(progress_decode(text, &p), 0);
        j->progress_crc = history_crc(text);
        j->progress_token = p.token;
        return;
    }
    j->log_crc = crc32c(j->log_crc, text.at, text.len);
    j->log_bytes += text.len;
}

static void error_set(struct history_job *j, struct span error)
{
    if (error.len)
        j->error_crc = history_crc(error);
}

/* The model's reading of a record. */
static void model_apply(struct history *h, const struct record *r)
{
    struct history_job *j = NULL;
    if ((r->kind >= REC_JOB_READY && r->kind <= REC_JOB_PATCHED) || r->kind == REC_JOB_NOTED ||
        r->kind == REC_JOB_PRIORITY || r->kind == REC_JOB_CANCEL_REQUESTED ||
        r->kind == REC_JOB_PROGRESS || r->kind == REC_JOB_LOGGED || r->kind == REC_JOB_STEPS)
        j = job_of(h, r->job_ready.seq);
    switch ((int)r->kind) {
    case REC_JOB_NEW:
        j = job_of(h, r->job_new.job.seq);
        memset(j, 0, sizeof *j);
        j->job = r->job_new.job;
        j->payload_crc = history_crc(r->job_new.payload);
        put_text(j->unique, r->job_new.extra.unique);
        put_text(j->group, r->job_new.extra.group);
        put_text(j->correlation, r->job_new.extra.correlation);
        put_text(j->kind, r->job_new.extra.kind);
        j->headers_crc = history_crc(r->job_new.extra.headers);
        j->expires_at = r->job_new.extra.expires_at;
        break;
    case REC_JOB_READY:
        assert_int_equal(apply_ready(&j->job, &r->job_ready), 0);
        break;
    case REC_JOB_CLAIMED:
        assert_int_equal(apply_claimed(&j->job, &r->job_claimed), 0);
        j->token = r->job_claimed.token;
        j->lease_ms = r->job_claimed.lease_ms;
        j->limits = (struct lease_limits){.timeout_ms = r->job_claimed.timeout_ms};
        break;
    case REC_JOB_CANCEL_REQUESTED:
        assert_int_equal(apply_cancel_requested(&j->job, &r->job_cancel_requested, &j->limits), 0);
        break;
    case REC_JOB_PROGRESS:
    case REC_JOB_LOGGED:
        report_apply(j, r);
        break;
    case REC_JOB_STEPS: /* the two stores are compared */
        break;
    case REC_JOB_EXTENDED:
        assert_int_equal(apply_extended(&j->job, &r->job_extended), 0);
        j->lease_ms = r->job_extended.lease_ms;
        break;
    case REC_JOB_PRIORITY:
        assert_int_equal(apply_priority(&j->job, &r->job_priority), 0);
        break;
    case REC_JOB_BACK:
        assert_int_equal(apply_back(&j->job, &r->job_back), 0);
        lease_drop(j);
        error_set(j, r->job_back.error);
        break;
    case REC_JOB_DONE:
        assert_int_equal(apply_done(&j->job, &r->job_done), 0);
        lease_drop(j);
        if (r->job_done.result_kind != PAYLOAD_NONE)
            j->result_crc = history_crc(r->job_done.result);
        break;
    case REC_JOB_DEAD:
        assert_int_equal(apply_dead(&j->job, &r->job_dead), 0);
        lease_drop(j);
        error_set(j, r->job_dead.error);
        break;
    case REC_JOB_CANCELLED:
        assert_int_equal(apply_cancelled(&j->job, &r->job_cancelled), 0);
        lease_drop(j);
        break;
    case REC_JOB_REQUEUED:
        assert_int_equal(apply_requeued(&j->job, &r->job_requeued), 0);
        break;
    case REC_JOB_PATCHED:
        assert_int_equal(apply_patched(&j->job, &r->job_patched), 0);
        if (r->job_patched.has_payload)
            j->payload_crc = history_crc(r->job_patched.payload);
        break;
    case REC_JOB_NOTED:
        assert_int_equal(apply_noted(&j->job, &r->job_noted), 0);
        if (r->job_noted.has_result)
            j->result_crc = history_crc(r->job_noted.result);
        if (r->job_noted.has_error)
            error_set(j, r->job_noted.error);
        break;
    default:
        break;
    }
}

void history_add(struct history *h, const struct record *r)
{
    model_apply(h, r);
    assert_int_equal(record_encode(r, &h->frame), 0);
    h->count++;
}

struct span history_end(struct history *h)
{
    frame_end(&h->frame, h->position + 1, h->count);
    h->position += h->count;
    return buf_span(&h->frame);
}

/* ---- what there is ---- */

static struct history_queue *queue_numbered(const struct history *h, uint32_t number)
{
    for (unsigned i = 0; i < HISTORY_QUEUES; i++)
        if (h->queues[i].number == number)
            return (struct history_queue *)&h->queues[i];
    return NULL;
}

bool history_shown(const struct history *h, const struct history_job *j)
{
    if (j->job.state == STATE_NONE)
        return false;
    const struct history_queue *q = queue_numbered(h, j->job.queue);
    if (!q || q->gone)
        return false;
    return !(STATE_BIT(j->job.state) & STATES_WAITING) || j->job.generation == q->generation;
}

/* A job that is shown and in one of these states; NULL when none is found quickly. */
static struct history_job *pick(struct history *h, unsigned states)
{
    for (int tries = 0; tries < 40 && h->seq > 0; tries++) {
        uint64_t reach = h->seq < 400 ? h->seq : 400;
        struct history_job *j = &h->jobs[h->seq - random_below(&h->random, reach)];
        if (history_shown(h, j) && (STATE_BIT(j->job.state) & states))
            return j;
    }
    return NULL;
}

static struct span some_bytes(struct history *h, size_t max)
{
    size_t len = random_below(&h->random, max + 1);
    return span_of(noise + random_below(&h->random, CHUNK - max), len);
}

/* ---- queues ---- */

static void queue_record(struct history *h, struct history_queue *q)
{
    struct buf policy;
    char note[40];
    buf_init(&policy);
    assert_int_equal(policy_encode(&q->policy, &policy), 0);
    snprintf(note, sizeof note, "note %u", (unsigned)random_below(&h->random, 1000));
    struct record r = {.kind = REC_QUEUE_PUT,
                       .queue_put = {.queue = q->number,
                                     .generation = q->generation,
                                     .created_at = {h->now.ms - 5},
                                     .updated_at = h->now,
                                     .paused_until = {random_chance(&h->random, 20) ? 77 : 0},
                                     .name = span_text(q->name),
                                     .policy = buf_span(&policy),
                                     .owner = span_text(q->number % 2 ? "api" : ""),
                                     .note = span_text(note),
                                     .attributes = span_text(q->number % 3 ? "{\"a\":1}" : "")}};
    history_add(h, &r);
    buf_done(&policy);
}

void history_queue(struct history *h, unsigned slot)
{
    struct history_queue *q = &h->queues[slot];
    if (q->number != 0)
        return;
    *q = (struct history_queue){.number = ++h->queue};
    /* Some close to where a counter with a sign, or one of 32 bits, would go wrong. */
    static const uint32_t generations[] = {0, INT32_MAX, UINT32_MAX - 1};
    q->generation = slot < 2 ? 0 : generations[slot % 3];
    policy_default(&q->policy);
    snprintf(q->name, sizeof q->name, "queue-%u", slot);
    queue_record(h, q);
}

static void queue_step(struct history *h)
{
    unsigned slot = (unsigned)random_below(&h->random, HISTORY_QUEUES);
    struct history_queue *q = &h->queues[slot];
    struct record r = {.kind = REC_PURGED};
    if (q->number == 0) {
        history_queue(h, slot);
    } else if (q->gone) {
        return; /* gone_step removes it */
    } else if (random_chance(&h->random, 40)) {
        sample_policy(&h->random, &q->policy);
        queue_record(h, q);
    } else if (random_chance(&h->random, 50)) {
        q->generation++;
        r.purged = (struct rec_purged){q->number, q->generation, h->now, 3};
        history_add(h, &r);
    } else if (random_chance(&h->random, 30)) {
        q->gone = true;
        r.kind = REC_QUEUE_GONE;
        r.queue = (struct rec_queue){q->number, h->now};
        history_add(h, &r);
    }
}

/* ---- jobs ---- */

uint64_t history_enqueue(struct history *h, unsigned slot, const struct job_extra *extra,
                         struct span payload)
{
    history_queue(h, slot);
    const struct history_queue *q = &h->queues[slot];
    struct record r = {
        .kind = REC_JOB_NEW,
        .job_new = {.job = {.seq = ++h->seq,
                            .id_hi = id_hi(h->now, 3),
                            .priority = random_between(&h->random, -3, 3),
                            .since = h->now,
                            .queue = q->number,
                            .generation = q->generation,
                            .state = STATE_READY,
                            .payload_bytes = (uint32_t)payload.len,
                            .payload_kind = payload.len ? PAYLOAD_BYTES : PAYLOAD_NONE},
                    .payload = payload},
    };
    if (extra) {
        r.job_new.extra = *extra;
        r.job_new.job.flags = JOB_HAS_EXTRA;
    }
    if (random_chance(&h->random, h->delay_percent)) {
        r.job_new.job.state = STATE_SCHEDULED;
        r.job_new.job.run_at.ms = h->now.ms + 1000;
    }
    history_add(h, &r);
    return h->seq;
}

/* Whether a job of the queue that exists has this unique key already. */
static bool unique_taken(const struct history *h, const struct history_queue *q, const char *key)
{
    for (uint64_t seq = 1; seq <= h->seq; seq++)
        if (h->jobs[seq].job.queue == q->number && history_shown(h, &h->jobs[seq]) &&
            strcmp(h->jobs[seq].unique, key) == 0)
            return true;
    return false;
}

/* Progress or entries of the log; now and then as much as a log can have. */
static void report_add(struct history *h, uint64_t seq, struct job_token token)
{
    uint8_t room[200];
    struct progress p = {.token = token,
                         .at = h->now,
                         .has_percent = random_chance(&h->random, 50) != 0,
                         .message = some_bytes(h, 40),
                         .data = span_text(random_chance(&h->random, 50) ? "[1,2]" : "")};
    p.percent_100 = p.has_percent ? (uint16_t)random_below(&h->random, 10001) : 0;
    struct record r = {.kind = REC_JOB_PROGRESS, .job_report = {.seq = seq}};
    r.job_report.text = span_of(room, progress_encode(&p, room));
    if (random_chance(&h->random, 50)) {
        r.kind = REC_JOB_LOGGED;
        r.job_report.text = some_bytes(h, random_chance(&h->random, 20) ? 8000 : 60);
    }
    if (r.job_report.text.len > 0)
        history_add(h, &r);
}

/* A few steps, some of them again. */
static void step_add(struct history *h, uint64_t seq)
{
    static const char *const names[] = {"charge", "mail", "pack", "a \xc3\xa4"};
    static const char *const results[] = {"1", "null", "{\"id\":[7]}", "\"text\""};
    struct buf list;
    buf_init(&list);
    for (uint64_t n = 1 + random_below(&h->random, 3); n > 0; n--) {
        struct step s = {span_text(names[random_below(&h->random, 4)]),
                         span_text(results[random_below(&h->random, 4)])};
        assert_int_equal(steps_append(&list, &s), 0);
    }
    struct record r = {.kind = REC_JOB_STEPS, .job_report = {.seq = seq, .text = buf_span(&list)}};
    history_add(h, &r);
    buf_done(&list);
}

static void report_step(struct history *h)
{
    struct history_job *j = pick(h, STATE_BIT(STATE_RUNNING));
    for (uint64_t n = j ? 1 + random_below(&h->random, 3) : 0; n > 0; n--)
        report_add(h, j->job.seq, j->token);
    if (j && random_chance(&h->random, 50))
        step_add(h, j->job.seq);
}

static void cancel_request_step(struct history *h)
{
    struct history_job *j = pick(h, STATE_BIT(STATE_RUNNING));
    struct record r = {.kind = REC_JOB_CANCEL_REQUESTED};
    if (!j)
        return;
    r.job_cancel_requested = (struct rec_job_cancel_requested){
        j->job.seq, h->now, (uint32_t)random_below(&h->random, 30000)};
    history_add(h, &r);
}

static void new_step(struct history *h)
{
    unsigned slot = (unsigned)random_below(&h->random, HISTORY_QUEUES);
    if (h->seq + 1 >= HISTORY_JOBS || h->queues[slot].gone)
        return;
    struct job_extra extra = {0};
    struct buf options;
    char texts[3][16], kind[16], headers[40];
    _Static_assert(JOB_TEXTS == 7, "a new text of jobs must be given a value here");
    buf_init(&options);
    for (int i = 0; i < 3; i++)
        snprintf(texts[i], 16, "%c%u", 'x' + i, (unsigned)random_below(&h->random, 20));
    if (random_chance(&h->random, 50) && !unique_taken(h, &h->queues[slot], texts[0]))
        extra.unique = span_text(texts[0]);
    if (random_chance(&h->random, 50))
        extra.group = span_text(texts[1]);
    if (random_chance(&h->random, 50))
        extra.correlation = span_text(texts[2]);
    snprintf(kind, sizeof kind, "kind-%u", (unsigned)random_below(&h->random, 50));
    snprintf(headers, sizeof headers, "{\"h\":\"%u\"}", (unsigned)random_below(&h->random, 1000));
    if (random_chance(&h->random, 40))
        extra.kind = span_text(kind);
    if (random_chance(&h->random, 40))
        extra.headers = span_text(headers);
    if (random_chance(&h->random, 30))
        extra.label = SPAN_LITERAL("high");
    if (random_chance(&h->random, 30))
        extra.attributes = SPAN_LITERAL("{\"robot\":7}");
    if (random_chance(&h->random, 30))
        extra.expires_at.ms = h->now.ms + 5000;
    if (random_chance(&h->random, 30)) {
        struct job_options o;
        sample_options(&h->random, &o);
        assert_int_equal(options_encode(&o, &options), 0);
        extra.options = buf_span(&options);
    }
    bool any = extra.unique.len || extra.group.len || extra.correlation.len || extra.label.len ||
               extra.attributes.len || extra.kind.len || extra.headers.len || extra.expires_at.ms ||
               extra.options.len;
    bool wanted = any && random_chance(&h->random, 30);
    h->delay_percent = 20;
    uint64_t seq = history_enqueue(h, slot, wanted ? &extra : NULL,
                                   some_bytes(h, random_chance(&h->random, 3) ? 8000 : 60));
    h->delay_percent = 0;
    if (random_chance(&h->random, 5)) /* the job comes from another store */
        report_add(h, seq, (struct job_token){0});
    buf_done(&options);
}

void history_claim(struct history *h, uint64_t seq, struct span worker)
{
    struct record r = {.kind = REC_JOB_CLAIMED,
                       .job_claimed = {.seq = seq,
                                       .token = {++h->counter, h->epoch},
                                       .lease_ms = h->lease_ms ? h->lease_ms : 30000,
                                       .timeout_ms = random_chance(&h->random, 20)
                                                         ? (uint32_t)random_below(&h->random, 90000)
                                                         : 0,
                                       .bound = random_chance(&h->random, 10) != 0,
                                       .at = h->now,
                                       .worker = worker}};
    history_add(h, &r);
}

/* One job, or a row of neighbours. */
static void claim_step(struct history *h)
{
    static const char *const workers[] = {"", "anna", "bert", "a-rather-long-name-of-a-worker-17"};
    unsigned from = random_chance(&h->random, 90) ? STATE_BIT(STATE_READY)
                                                  : STATES_WAITING | STATE_BIT(STATE_DEAD);
    struct history_job *j = pick(h, from);
    struct span worker = span_text(workers[random_below(&h->random, 4)]);
    uint64_t count = random_chance(&h->random, 30) ? 10 : 1;
    for (uint64_t seq = j ? j->job.seq : 0; j && seq <= h->seq && count > 0; seq++, count--)
        if (history_shown(h, &h->jobs[seq]) && (STATE_BIT(h->jobs[seq].job.state) & from)) {
            h->lease_ms = random_chance(&h->random, 20) ? 15000 : 30000;
            history_claim(h, seq, worker);
        }
    h->lease_ms = 0;
}

void history_ack(struct history *h, uint64_t seq, struct span result)
{
    struct record r = {.kind = REC_JOB_DONE,
                       .job_done = {.seq = seq,
                                    .at = h->now,
                                    .result_kind = result.at ? PAYLOAD_BYTES : PAYLOAD_NONE,
                                    .result = result}};
    history_add(h, &r);
}

static void ack_step(struct history *h)
{
    struct history_job *j = pick(h, STATE_BIT(STATE_RUNNING));
    uint64_t count = random_chance(&h->random, 30) ? 10 : 1;
    struct span none = {NULL, 0};
    for (uint64_t seq = j ? j->job.seq : 0; j && seq <= h->seq && count > 0; seq++, count--)
        if (history_shown(h, &h->jobs[seq]) && h->jobs[seq].job.state == STATE_RUNNING)
            history_ack(h, seq, random_chance(&h->random, 20) ? some_bytes(h, 50) : none);
}

void history_bury(struct history *h, uint64_t seq, struct span error)
{
    struct record r = {.kind = REC_JOB_DEAD,
                       .job_dead = {.seq = seq,
                                    .reason = REASON_REJECTED,
                                    .failures = 1,
                                    .at = h->now,
                                    .error_kind = ERROR_BUSINESS,
                                    .error = error}};
    history_add(h, &r);
}

void history_cancel(struct history *h, uint64_t seq)
{
    struct record r = {.kind = REC_JOB_CANCELLED,
                       .job_cancelled = {.seq = seq, .reason = REASON_CANCELLED, .at = h->now}};
    history_add(h, &r);
}

/* Fail, lease end, release, extend: what can happen to a running job but an ack. */
static void lease_step(struct history *h)
{
    struct history_job *j = pick(h, STATE_BIT(STATE_RUNNING));
    if (!j)
        return;
    const struct history_queue *q = queue_numbered(h, j->job.queue);
    struct record r;
    struct job_rules rules;
    char text[LEASE_END_TEXT_BYTES];
    rules_of(&q->policy, NULL, &rules);
    if (random_chance(&h->random, 20)) {
        r = (struct record){
            .kind = REC_JOB_PRIORITY,
            .job_priority = {.seq = j->job.seq, .priority = random_between(&h->random, -5, 5)}};
        history_add(h, &r);
    }
    switch (random_below(&h->random, 5)) {
    case 0: {
        struct arena arena;
        struct job_error error = {some_bytes(h, 40), some_bytes(h, 20), some_bytes(h, 400)};
        arena_init(&arena);
        struct fail_request f = {.error = error.text,
                                 .error_kind = (uint8_t)random_below(&h->random, 2),
                                 .no_retry = random_chance(&h->random, 30) != 0};
        if (random_chance(&h->random, 50))
            assert_int_equal(job_error_pack(&error, &arena, &f.error), 0);
        decide_fail(&j->job, &rules, &f, q->generation, h->now, &h->random, &r);
        history_add(h, &r);
        arena_done(&arena);
        return;
    }
    case 1:
        decide_lease_end(&j->job, &rules, random_chance(&h->random, 50) != 0, q->generation, h->now,
                         &h->random, text, &r);
        break;
    case 2:
        decide_release(&j->job, (struct wall_time){h->now.ms + random_between(&h->random, -5, 5)},
                       q->generation, h->now, &r);
        break;
    case 3:
        r = (struct record){
            .kind = REC_JOB_EXTENDED,
            .job_extended = {.seq = j->job.seq,
                             .lease_ms = 1000 + (uint32_t)random_below(&h->random, 9)}};
        break;
    default:
        history_cancel(h, j->job.seq);
        return;
    }
    history_add(h, &r);
}

/* Promote, expire, requeue, patch, cancel: what can happen to one that does not run. */
static void still_step(struct history *h)
{
    struct history_job *j =
        pick(h, STATES_WAITING | STATE_BIT(STATE_DEAD) | STATE_BIT(STATE_CANCELLED));
    if (!j)
        return;
    const struct history_queue *q = queue_numbered(h, j->job.queue);
    enum job_state state = (enum job_state)j->job.state;
    struct record r = {.kind = REC_JOB_READY, .job_ready = {.seq = j->job.seq, .at = h->now}};
    bool waiting = (STATE_BIT(state) & STATES_WAITING) != 0;
    if (!waiting || (state == STATE_SCHEDULED && random_chance(&h->random, 20))) {
        decide_requeue(&j->job, (struct wall_time){h->now.ms + random_between(&h->random, -5, 5)},
                       q->generation, h->now, &r);
    } else if (state == STATE_SCHEDULED && random_chance(&h->random, 50)) {
        (void)r; /* promoted */
    } else if (random_chance(&h->random, 30)) {
        decide_expire(&j->job, h->now, &r);
    } else if (random_chance(&h->random, 30)) {
        history_cancel(h, j->job.seq);
        return;
    } else {
        bool later = random_chance(&h->random, 50) != 0;
        r = (struct record){.kind = REC_JOB_PATCHED,
                            .job_patched = {.seq = j->job.seq,
                                            .state = later ? STATE_SCHEDULED : STATE_READY,
                                            .priority = random_between(&h->random, -9, 9),
                                            .run_at = {later ? h->now.ms + 50 : 0},
                                            .at = h->now,
                                            .generation = q->generation,
                                            .has_payload = random_chance(&h->random, 40) != 0}};
        if (r.job_patched.has_payload) {
            r.job_patched.payload = some_bytes(h, 40);
            r.job_patched.payload_kind = r.job_patched.payload.len ? PAYLOAD_BYTES : PAYLOAD_NONE;
        }
    }
    history_add(h, &r);
}

/* Notes about any job, and the discarding of any that is not cancelled. */
static void note_step(struct history *h)
{
    struct history_job *j = pick(h, STATES_ALL);
    if (!j)
        return;
    uint64_t bits = 1 + random_below(&h->random, 15);
    struct record r = {.kind = REC_JOB_NOTED,
                       .job_noted = {.seq = j->job.seq,
                                     .has_label = bits & 1,
                                     .has_attributes = bits & 2,
                                     .has_result = bits & 4,
                                     .has_error = bits & 8}};
    if (r.job_noted.has_label)
        r.job_noted.label = span_text(random_chance(&h->random, 70) ? "noted" : "");
    if (r.job_noted.has_attributes)
        r.job_noted.attributes = span_text(random_chance(&h->random, 70) ? "{\"a\":1}" : "");
    if (r.job_noted.has_result) {
        r.job_noted.result = some_bytes(h, 40);
        r.job_noted.result_kind = PAYLOAD_BYTES;
    }
    if (r.job_noted.has_error)
        r.job_noted.error = span_text("noted error");
    if (j->job.state != STATE_CANCELLED && random_chance(&h->random, 30))
        r = (struct record){
            .kind = REC_JOB_CANCELLED,
            .job_cancelled = {.seq = j->job.seq, .reason = REASON_DISCARDED, .at = h->now}};
    history_add(h, &r);
}

static void counters_step(struct history *h)
{
    const struct history_queue *q = &h->queues[random_below(&h->random, HISTORY_QUEUES)];
    struct record r = {.kind = REC_COUNTERS, .counters = {.queue = q->number}};
    if (q->number == 0)
        return;
    h->hour += random_chance(&h->random, 20) ? (uint32_t)random_below(&h->random, 200) : 0;
    r.counters.hour = 480000 + h->hour - (random_chance(&h->random, 10) ? 1 : 0);
    r.counters.add.of[random_below(&h->random, COUNTER_COUNT)] = 1 + random_below(&h->random, 50);
    r.counters.add.of[COUNTER_ENQUEUED] += random_below(&h->random, 3);
    history_add(h, &r);
}

/* ---- removal ---- */

static void remove_where(struct history *h, uint64_t first, uint64_t last, unsigned limit,
                         bool (*fit)(const struct history *h, const struct history_job *j))
{
    struct buf list;
    uint64_t previous = 0;
    uint32_t count = 0;
    buf_init(&list);
    for (uint64_t seq = first; seq <= last && count < limit; seq++) {
        struct history_job *j = &h->jobs[seq];
        if (j->job.state == STATE_NONE || (fit && !fit(h, j)))
            continue;
        assert_int_equal(record_seq_append(&list, &previous, seq), 0);
        j->job.state = STATE_NONE;
        count++;
    }
    struct record r = {.kind = REC_JOBS_GONE,
                       .jobs_gone = {.count = count, .seqs = buf_span(&list)}};
    if (count > 0)
        history_add(h, &r);
    buf_done(&list);
}

void history_remove(struct history *h, uint64_t first, uint64_t last)
{
    remove_where(h, first, last, UINT32_MAX, NULL);
}

static bool finished_or_hidden(const struct history *h, const struct history_job *j)
{
    return !history_shown(h, j) || (STATE_BIT(j->job.state) & (STATES_FINISHED));
}

static bool in_gone_queue(const struct history *h, const struct history_job *j)
{
    const struct history_queue *q = queue_numbered(h, j->job.queue);
    return q && q->gone;
}

static void gone_step(struct history *h)
{
    if (h->seq == 0)
        return;
    if (random_chance(&h->random, 70)) {
        remove_where(h, 1, h->seq, 20, finished_or_hidden);
        return;
    }
    if (random_chance(&h->random, 30)) {
        uint64_t seq = 1 + random_below(&h->random, h->seq);
        history_remove(h, seq, seq);
        return;
    }
    for (unsigned i = 0; i < HISTORY_QUEUES; i++) {
        struct history_queue *q = &h->queues[i];
        if (!q->gone || (i == 0 && h->bulk_open)) /* an engine ends its bulk actions first */
            continue;
        remove_where(h, 1, h->seq, UINT32_MAX, in_gone_queue);
        struct record r = {.kind = REC_QUEUE_END, .queue = {q->number, h->now}};
        history_add(h, &r);
        *q = (struct history_queue){0};
        return;
    }
}

/* ---- the rest ---- */

static void bulk_step(struct history *h)
{
    struct record r = {.kind = REC_BULK_STEP,
                       .bulk_step = {.bulk = h->bulk, .cursor = h->seq / 2, .changed = 3}};
    if (!h->bulk_open) {
        r = (struct record){.kind = REC_BULK_BEGIN,
                            .bulk_begin = {.bulk = ++h->bulk,
                                           .action = BULK_CANCEL,
                                           .at = h->now,
                                           .queue = h->queues[0].number,
                                           .states = STATES_WAITING,
                                           .group = span_text(h->bulk % 2 ? "group" : ""),
                                           .seq_max = h->seq}};
        if (h->queues[0].number == 0)
            return;
        h->bulk_open = true;
    } else if (random_chance(&h->random, 50)) {
        r.kind = REC_BULK_END;
        h->bulk_open = false;
    }
    history_add(h, &r);
}

static void key_new(struct history *h)
{
    struct record r = {.kind = REC_KEY_NEW,
                       .key_new = {.key = {random_next(&h->random), random_next(&h->random)},
                                   .fingerprint = random_next(&h->random),
                                   .seq = h->seq,
                                   .id_hi = id_hi(h->now, 3),
                                   .expires_at = {h->now.ms + random_between(&h->random, 1, 90)}}};
    h->keys[h->key_count++] = (struct record_key){r.key_new.key, r.key_new.expires_at};
    history_add(h, &r);
}

/* Some of them, soonest first, whether or not their time has come: a record is an outcome. */
static void keys_gone(struct history *h)
{
    struct record r = {.kind = REC_KEYS_GONE};
    struct wall_time previous = {0};
    struct buf list;
    buf_init(&list);
    uint64_t most = random_below(&h->random, h->key_count) + 1;
    for (; r.keys_gone.count < most; r.keys_gone.count++) {
        unsigned first = 0;
        for (unsigned i = 1; i < h->key_count; i++)
            if (h->keys[i].expires_at.ms < h->keys[first].expires_at.ms)
                first = i;
        CHECK(record_key_append(&list, &previous, &h->keys[first]) == 0);
        h->keys[first] = h->keys[--h->key_count];
    }
    r.keys_gone.keys = buf_span(&list);
    history_add(h, &r);
    buf_done(&list);
}

static void key_step(struct history *h)
{
    uint64_t dice = random_below(&h->random, 100);
    if (h->seq > 0 && h->key_count < HISTORY_KEYS && dice < 75)
        key_new(h);
    else if (h->key_count > 0)
        keys_gone(h);
}

/* ---- the key-value store ---- */

static struct span kv_key(unsigned n, struct buf *into)
{
    struct kv_part part = {.kind = KV_NUMBER, .number = n};
    buf_clear(into);
    CHECK(kvkey_append(into, &part) == 0);
    return buf_span(into);
}

static void kv_set(struct history *h, unsigned n, struct span key)
{
    static const char value[] = "[\"a value of which some bytes are taken\"]";
    struct record r = {.kind = REC_KV_SET,
                       .kv_set = {.key = key,
                                  .version = h->position + 1,
                                  .kind = PAYLOAD_BYTES,
                                  .value = span_of(value, random_below(&h->random, 40))}};
    if (random_chance(&h->random, 30))
        r.kv_set.expires_at.ms = h->now.ms + (int64_t)random_below(&h->random, 1000);
    h->kv_there[n] = true;
    history_add(h, &r);
}

static void kv_gone(struct history *h, unsigned n, struct span key)
{
    struct record r = {.kind = REC_KV_GONE, .kv_gone = {.version = h->position + 1, .count = 1}};
    struct buf list;
    buf_init(&list);
    CHECK(record_span_append(&list, key) == 0);
    r.kv_gone.keys = buf_span(&list);
    h->kv_there[n] = false;
    history_add(h, &r);
    buf_done(&list);
}

/* What a job that died leaves behind; any job does for a store. */
static void kv_from_job(struct history *h, unsigned n, struct span key)
{
    uint64_t seq = h->seq ? 1 + random_below(&h->random, h->seq) : 0;
    const struct job *j = &h->jobs[seq].job;
    if (seq == 0 || j->state == STATE_NONE)
        return;
    struct record r = {.kind = REC_KV_FROM_JOB,
                       .kv_from_job = {.seq = seq,
                                       .key = key,
                                       .version = h->position + 1,
                                       .kind = j->payload_kind,
                                       .bytes = j->payload_bytes}};
    h->kv_there[n] = true;
    history_add(h, &r);
}

static void kv_keys(struct history *h, struct span key)
{
    uint64_t seq = h->seq ? 1 + random_below(&h->random, h->seq) : 0;
    if (seq == 0 || h->keyed[seq] || h->jobs[seq].job.state == STATE_NONE)
        return;
    struct record r = {.kind = REC_KV_KEYS, .kv_keys = {.seq = seq, .count = 1}};
    struct buf list;
    buf_init(&list);
    CHECK(record_span_append(&list, key) == 0);
    r.kv_keys.keys = buf_span(&list);
    h->keyed[seq] = true;
    history_add(h, &r);
    buf_done(&list);
}

static void kv_step(struct history *h)
{
    unsigned n = (unsigned)random_below(&h->random, HISTORY_KV);
    uint64_t dice = random_below(&h->random, 100);
    struct buf key;
    buf_init(&key);
    struct span k = kv_key(n, &key);
    if (dice < 30)
        kv_set(h, n, k);
    else if (dice < 60)
        kv_from_job(h, n, k);
    else if (dice < 75)
        kv_keys(h, k);
    else if (h->kv_there[n])
        kv_gone(h, n, k);
    buf_done(&key);
}

/* ---- schedules ---- */

static struct schedule_state schedule_state(struct history *h)
{
    return (struct schedule_state){
        .next_at = {h->now.ms + random_between(&h->random, 0, 90)},
        .retry_at = {random_chance(&h->random, 30) ? h->now.ms : 0},
        .last_at = h->now,
        .fired_at = {random_chance(&h->random, 50) ? h->now.ms : 0},
        .seq = h->seq,
        .id_hi = id_hi(h->now, 3),
        .item = random_below(&h->random, h->seq + 1),
        .fired = random_next(&h->random) >> 5,
        .missed = random_below(&h->random, 9),
        .failures = (uint32_t)random_below(&h->random, 9),
        .error = (uint8_t)random_below(&h->random, SCHEDULE_ERROR_COUNT),
    };
}

static void schedule_put(struct history *h, uint32_t number)
{
    struct arena arena;
    struct buf encoded;
    struct schedule_spec spec;
    char name[24];
    arena_init(&arena);
    buf_init(&encoded);
    sample_spec(&h->random, &arena, &spec);
    CHECK(schedule_encode(&spec, &encoded) == 0);
    snprintf(name, sizeof name, "schedule-%" PRIu32, number);
    struct record r = {.kind = REC_SCHEDULE_PUT,
                       .schedule_put = {.schedule = number,
                                        .paused = random_chance(&h->random, 30),
                                        .created_at = h->now,
                                        .updated_at = h->now,
                                        .state = schedule_state(h),
                                        .name = span_text(name),
                                        .spec = buf_span(&encoded),
                                        .note = random_chance(&h->random, 50) ? SPAN_LITERAL("note")
                                                                              : SPAN_LITERAL("")}};
    h->schedules[number] = true;
    history_add(h, &r);
    buf_done(&encoded);
    arena_done(&arena);
}

static void schedule_step(struct history *h)
{
    uint32_t number = (uint32_t)random_between(&h->random, 1, HISTORY_SCHEDULES);
    uint64_t dice = random_below(&h->random, 100);
    struct record r = {.kind = REC_SCHEDULE_GONE, .schedule_gone = {number, h->now}};
    if (!h->schedules[number] || dice < 20) {
        schedule_put(h, number);
        return;
    }
    if (dice < 85) {
        r.kind = dice < 45   ? REC_SCHEDULE_FIRED
                 : dice < 70 ? REC_SCHEDULE_PASSED
                             : REC_SCHEDULE_FAILED;
        r.schedule_state = (struct rec_schedule_state){number, h->now, schedule_state(h)};
    } else {
        h->schedules[number] = false;
    }
    history_add(h, &r);
}

/* A few jobs that are there go to another. */
static void link_step(struct history *h)
{
    uint64_t previous = 0, from = random_below(&h->random, h->seq + 1);
    struct record r = {.kind = REC_JOB_LINKED,
                       .job_linked = {.seq = h->seq + 1, .id_hi = id_hi(h->now, 3)}};
    struct buf list;
    buf_init(&list);
    for (uint64_t seq = from ? from : 1; seq <= h->seq && r.job_linked.count < 3; seq++) {
        if (h->jobs[seq].job.state == STATE_NONE)
            continue;
        CHECK(record_seq_append(&list, &previous, seq) == 0);
        r.job_linked.count++;
    }
    r.job_linked.items = buf_span(&list);
    if (r.job_linked.count > 0)
        history_add(h, &r);
    buf_done(&list);
}

static void store_step(struct history *h)
{
    struct record r = {.kind = REC_SEQ_BLOCK, .seq_block = {HISTORY_JOBS}};
    if (h->epoch == 0 || random_chance(&h->random, 50))
        r = (struct record){.kind = REC_EPOCH, .epoch = {++h->epoch, h->now}};
    history_add(h, &r);
}

static unsigned jobs_there(const struct history *h)
{
    unsigned count = 0;
    for (uint64_t seq = 1; seq <= h->seq; seq++)
        count += h->jobs[seq].job.state != STATE_NONE;
    return count;
}

struct span history_frame(struct history *h, unsigned n)
{
    static const struct {
        unsigned weight;
        void (*step)(struct history *h);
    } steps[] = {
        {200, new_step},
        {200, claim_step},
        {150, ack_step},
        {120, lease_step},
        {100, still_step},
        {25, gone_step},
        {20, queue_step},
        {15, bulk_step},
        {30, key_step},
        {3, store_step},
        {60, kv_step},
        {40, note_step},
        {40, counters_step},
        {20, schedule_step},
        {15, link_step},
        {60, report_step},
        {20, cancel_request_step},
    };
    history_begin(h);
    h->now.ms += random_between(&h->random, 0, 20);
    if (h->position == 0) {
        struct record r = {.kind = REC_SEQ_BLOCK, .seq_block = {HISTORY_JOBS}};
        history_add(h, &r);
        store_step(h);
        history_queue(h, 0);
    }
    bool crowded = jobs_there(h) > h->jobs_max;
    while (h->count < n) {
        unsigned at = (unsigned)random_below(&h->random, 1118), i = 0;
        for (; at >= steps[i].weight; i++)
            at -= steps[i].weight;
        steps[i].step(h);
        if (crowded)
            gone_step(h);
        if (h->seq + 1 >= HISTORY_JOBS && h->count == 0)
            store_step(h);
    }
    return history_end(h);
}
