/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/model/lockstep.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/local/engine/engine.h"
#include "base/check.h"
#include "base/containers/map.h"
#include "base/containers/slab.h"
#include "sim/checker/history.h"
#include "sim/model/lockstep_ops.h"
#include "sim/model/model.h"
#include "sim/pool.h"

#define STEPS_A_SEED 600
#define VERIFY_EVERY 20
#define TICKS_MAX 100

struct lockstep {
    uint64_t seed;
    struct ops_source source;
    struct model *model;
    struct engine *engine;
    struct engine_config config;
    struct store *store;
    struct engine_out out;
    struct now now;
    struct job_token newest;
    uint64_t seq_last;
    uint64_t event_last;   /* id of the last event taken */
    struct map64 by_event; /* seq → the state that events alone say it is in */
    struct model_reply replies[MODEL_BULKS];
    struct history history; /* to be shown when the two disagree */
    uint64_t seq_blamed;
    unsigned steps;
    bool wrong;
    bool hunts; /* for a planted defect: nothing is printed */
    unsigned defects;
};

static void disagree(struct lockstep *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void disagree(struct lockstep *l, const char *format, ...)
{
    bool known = l->wrong;
    l->wrong = true;
    if (known || l->hunts)
        return;
    fprintf(stderr, "repeat with: sim --model %d --from %llu: model at step %u: ", STEPS_A_SEED,
            (unsigned long long)l->seed, l->steps);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    if (l->history.count > 0)
        history_print_job(&l->history, l->seq_blamed, l->history.count - 1, 14, stderr);
}

/* ---- comparing ------------------------------------------------------------------------------- */

#define SAME(field, a, b)                                                                          \
    do {                                                                                           \
        l->seq_blamed = want->seq;                                                                 \
        if ((int64_t)(a) != (int64_t)(b))                                                          \
            disagree(l, "%s: %s is %lld, the model says %lld", op_kind_name(want->kind), field,    \
                     (long long)(a), (long long)(b));                                              \
    } while (0)

static void same_counts(struct lockstep *l, const struct model_reply *want,
                        const struct queue_counts *a)
{
    const struct queue_counts *b = &want->counts;
    for (int s = STATE_SCHEDULED; s < STATE_COUNT; s++)
        SAME(state_name((enum job_state)s), a->by_state[s], b->by_state[s]);
    SAME("enqueued", a->enqueued, b->enqueued);
    SAME("claimed", a->claimed, b->claimed);
    SAME("acked", a->acked, b->acked);
    SAME("failed", a->failed, b->failed);
    SAME("crashed", a->crashed, b->crashed);
    SAME("released", a->released, b->released);
    SAME("died", a->died, b->died);
    SAME("cancelled", a->cancelled, b->cancelled);
    SAME("removed", a->removed, b->removed);
    SAME("oldest_ready_ms", a->oldest_ready_ms, b->oldest_ready_ms);
    SAME("next_due", a->next_due.ms, b->next_due.ms);
    SAME("queue_limit", a->limited[CLAIM_QUEUE_LIMIT], b->limited[CLAIM_QUEUE_LIMIT]);
    SAME("group_limit", a->limited[CLAIM_GROUP_LIMIT], b->limited[CLAIM_GROUP_LIMIT]);
}

/* A view against the model's job. A claim's token is taken over, if it is newer than all before. */
static void same_job(struct lockstep *l, const struct model_reply *request,
                     const struct job_view *v, struct model_job *j)
{
    struct model_reply named = {.kind = request->kind, .seq = j->seq}, *want = &named;
    SAME("seq", v->job.seq, j->seq);
    SAME("state", v->job.state, j->state);
    SAME("reason", v->job.reason, j->reason);
    SAME("priority", v->job.priority, j->priority);
    SAME("failures", v->job.failures, j->failures);
    SAME("crashes", v->job.crashes, j->crashes);
    SAME("run_at", v->job.run_at.ms, j->run_at);
    SAME("since", v->job.since.ms, j->since);
    SAME("expires_at", v->expires_at.ms, j->expires_at);
    if (!span_equal(v->queue, l->model->queues[j->queue].name))
        disagree(l, "job %llu is shown in another queue", (unsigned long long)j->seq);
    if (want->kind == OP_CLAIM) {
        if (!token_older(l->newest, v->token))
            disagree(l, "job %llu: a token is not newer", (unsigned long long)j->seq);
        j->token = l->newest = v->token;
        ops_leased(&l->source, v);
    }
    if (j->state == STATE_RUNNING) {
        SAME("lease_ms", v->lease_ms, j->lease_ms);
        SAME("timeout_ms", v->limits.timeout_ms, j->timeout_ms);
        SAME("cancel_at", v->limits.cancel_at.ms, j->cancel_at);
        if (!token_equal(v->token, j->token))
            disagree(l, "job %llu shows another token", (unsigned long long)j->seq);
    }
}

/* Jobs that entered their state in the same millisecond may be shown in any order. */
static void align_ties(struct lockstep *l, const struct reply *got, struct model_reply *want)
{
    for (uint32_t i = 0; i < got->job_count && i < want->job_count; i++) {
        const struct model_job *expected = &l->model->jobs[want->jobs[i]];
        struct model_job *shown = model_find(l->model, got->jobs[i].job.seq);
        bool ordered = expected->state == STATE_READY || expected->state == STATE_SCHEDULED;
        if (shown && !ordered && shown->state == expected->state &&
            shown->queue == expected->queue && shown->since == expected->since)
            want->jobs[i] = (uint32_t)(shown - l->model->jobs);
    }
}

/* The engine chooses the sequence; it only has to rise. */
static void new_seq(struct lockstep *l, const struct reply *got, struct model_reply *want)
{
    struct model *m = l->model;
    struct model_job *j = &m->jobs[want->jobs[0]];
    if (got->seq <= l->seq_last)
        disagree(l, "sequence %llu after %llu", (unsigned long long)got->seq,
                 (unsigned long long)l->seq_last);
    l->seq_last = j->seq = want->seq = got->seq;
    j->id_hi = got->id_hi;
    want->job_count = 0;
    for (uint32_t i = 0; i < m->key_count; i++)
        if (m->keys[i].seq == 0)
            m->keys[i].seq = got->seq;
    ops_enqueued(&l->source, got->seq);
}

static void same_in_any_order(struct lockstep *l, const struct reply *got, struct model_reply *want)
{
    const struct model_job *one = got->job_count ? &l->model->jobs[want->jobs[0]] : NULL;
    for (uint32_t i = 0; !l->wrong && i < got->job_count; i++) {
        struct model_job *j = model_find(l->model, got->jobs[i].job.seq);
        bool fits = j && j->state == STATE_READY && j->queue == one->queue;
        for (uint32_t k = 0; k < i; k++)
            fits = fits && got->jobs[k].job.seq != j->seq;
        if (!fits)
            disagree(l, "peek shows job %llu", (unsigned long long)got->jobs[i].job.seq);
        else
            same_job(l, want, &got->jobs[i], j);
    }
}

static void same_jobs(struct lockstep *l, const struct reply *got, struct model_reply *want)
{
    SAME("jobs", got->job_count, want->job_count);
    for (uint32_t i = 0; l->wrong && !l->hunts && i < want->job_count; i++)
        fprintf(stderr, "  the model has job %llu\n",
                (unsigned long long)l->model->jobs[want->jobs[i]].seq);
    if (want->any_order) {
        same_in_any_order(l, got, want);
        return;
    }
    if (want->kind == OP_PEEK)
        align_ties(l, got, want);
    for (uint32_t i = 0; !l->wrong && i < got->job_count; i++)
        same_job(l, want, &got->jobs[i], &l->model->jobs[want->jobs[i]]);
}

static void same_reply(struct lockstep *l, const struct reply *got, struct model_reply *want)
{
    if (got->outcome != want->outcome && want->or_else != OUT_OK && got->outcome == want->or_else)
        return;
    if (got->outcome != want->outcome) {
        l->seq_blamed = got->seq;
        disagree(l, "%s of job %llu: %s, the model says %s", op_kind_name(want->kind),
                 (unsigned long long)want->seq, outcome_name(got->outcome),
                 outcome_name(want->outcome));
        return;
    }
    if (want->kind == OP_ENQUEUE && want->created && !want->repeat)
        new_seq(l, got, want);
    SAME("kind", got->kind, want->kind);
    bool names = got->outcome == OUT_OK || got->outcome == OUT_DUPLICATE ||
                 got->outcome == OUT_ILLEGAL || got->outcome == OUT_LEASE_LOST ||
                 got->outcome == OUT_CANCELLED;
    if (names && want->kind != OP_QUEUE_PUT) {
        SAME("seq", got->seq, want->seq);
        SAME("state", got->state, want->state);
    }
    SAME("repeat", got->repeat, want->repeat);
    SAME("created", got->created, want->created);
    if (reply_family(got) == REPLY_ENQUEUE)
        SAME("replaced_seq", got->replaced_seq, want->replaced_seq);
    if (reply_family(got) == REPLY_BULK) {
        SAME("changed", got->changed, want->changed);
        SAME("refused", got->refused, want->refused);
    }
    if (want->kind == OP_QUEUE_PUT) /* which jobs share a key is the engine's to say */
        return;
    if (reply_family(got) == REPLY_JOBS)
        same_jobs(l, got, want);
    bool waits = want->kind == OP_FAIL || want->kind == OP_RELEASE || want->kind == OP_REQUEUE;
    if (got->outcome == OUT_OK && waits && want->state == STATE_SCHEDULED)
        SAME("run_at", got->run_at.ms, want->run_at);
    if (got->outcome == OUT_OK && (want->kind == OP_EXTEND || want->kind == OP_PROGRESS ||
                                   want->kind == OP_STEP || want->kind == OP_CANCEL)) {
        SAME("cancel_by", got->lease.cancel_by.ms, want->cancel_by);
        SAME("left_ms", got->lease.left_ms, want->left_ms);
    }
    if (want->kind == OP_QUEUE_GET && got->queue_count == 1)
        same_counts(l, want, &got->queues[0].counts);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void store_frame(struct lockstep *l)
{
    struct err_note note;
    struct span frame = buf_span(&l->out.frame);
    if (l->out.count > 0 && l->store->ops->apply(l->store, &frame, 1, &note) < 0)
        disagree(l, "apply: %s", note.text);
}

/* A listener that hears every event knows the state of every job. */
static void take_events(struct lockstep *l, bool booted)
{
    struct backend_event v[64];
    uint64_t oldest;
    size_t count;
    engine_events_durable(l->engine, engine_position(l->engine));
    if (booted)
        l->event_last = (uint64_t)engine_epoch(l->engine) << 40;
    while ((count = engine_events(l->engine, l->event_last, 0, v, 64, &oldest)) > 0)
        for (size_t i = 0; i < count; i++) {
            if (v[i].id != ++l->event_last)
                disagree(l, "event %llx comes after %llx", (unsigned long long)v[i].id,
                         (unsigned long long)l->event_last - 1);
            if (v[i].seq)
                CHECK(map64_put(&l->by_event, v[i].seq, v[i].state) == 0);
        }
}

static const struct reply *reply_tagged(const struct lockstep *l, uint64_t tag)
{
    for (size_t i = 0; i < l->out.reply_count; i++)
        if (l->out.replies[i].reply.tag == tag && l->out.replies[i].reply.kind != OP_TICK)
            return &l->out.replies[i].reply;
    return NULL;
}

static bool engine_takes(struct lockstep *l, const struct op *ops, size_t count)
{
    size_t first = l->history.count;
    for (size_t i = 0; i < count; i++)
        (void)history_op(&l->history, 0, &ops[i], l->now);
    int rc = engine_step(l->engine, ops, count, l->now, &l->out);
    if (rc < 0)
        disagree(l, "step: %s", err_text(rc));
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const struct reply *got = reply_tagged(l, ops[i].tag);
        if (got)
            history_reply(&l->history, first + i, got, l->now.mono.ms);
    }
    store_frame(l);
    take_events(l, false);
    model_time(l->model, l->now);
    return !l->wrong;
}

/* Ticks until nothing is left to do at this moment; the model does it in one go. */
static void tick(struct lockstep *l)
{
    struct op op = {.kind = OP_TICK};
    struct reply got[MODEL_BULKS];
    uint32_t count = 0;
    for (int i = 0; i == 0 || (i < TICKS_MAX && engine_next_tick_ms(l->engine, l->now) == 0); i++) {
        if (!engine_takes(l, &op, 1))
            return;
        for (size_t r = 0; r < l->out.reply_count; r++)
            if (l->out.replies[r].reply.kind == OP_BULK && count < MODEL_BULKS)
                got[count++] = l->out.replies[r].reply;
    }
    uint32_t replies = model_tick(l->model, l->replies, MODEL_BULKS);
    if (count != replies)
        disagree(l, "%u bulk actions, %u answers", replies, count);
    for (uint32_t r = 0; r < replies && !l->wrong; r++) {
        if (got[r].tag != l->replies[r].tag)
            disagree(l, "bulk actions answered out of order");
        same_reply(l, &got[r], &l->replies[r]);
    }
}

/* Every job there ever was, through the front API. */
static void compare_all(struct lockstep *l)
{
    struct model *m = l->model;
    struct op *ops = calloc(m->job_count + 1, sizeof(*ops));
    CHECK(ops != NULL);
    for (uint32_t i = 0; i < m->job_count; i++) {
        ops[i].kind = OP_GET;
        ops[i].tag = (uint64_t)i + 1;
        ops[i].job.job.seq = m->jobs[i].seq;
    }
    int rc = m->job_count ? engine_step(l->engine, ops, m->job_count, l->now, &l->out) : 0;
    for (uint32_t i = 0; rc == 0 && !l->wrong && i < m->job_count; i++) {
        struct model_reply reply, *want = &reply;
        (void)model_op(m, &ops[i], want);
        same_reply(l, &l->out.replies[i].reply, want);
        if (m->jobs[i].there)
            SAME("state by its events", map64_get(&l->by_event, m->jobs[i].seq), m->jobs[i].state);
    }
    free(ops);
}

/* Which of several jobs that ended in the same millisecond retention has removed. */
static bool is_gone(void *ctx, uint64_t seq)
{
    struct lockstep *l = ctx;
    struct op op = {.kind = OP_GET, .job.job.seq = seq};
    int rc = engine_step(l->engine, &op, 1, l->now, &l->out);
    return rc == 0 && l->out.replies[0].reply.outcome == OUT_NOT_FOUND;
}

static void batch(struct lockstep *l)
{
    size_t count;
    const struct op *ops = ops_batch(&l->source, l->now, &count);
    if (!engine_takes(l, ops, count))
        return;
    for (size_t i = 0; i < count && !l->wrong; i++) {
        struct model_reply want;
        bool answers = model_op(l->model, &ops[i], &want);
        model_mark(l->model);
        if (!answers)
            continue;
        const struct reply *got = reply_tagged(l, ops[i].tag);
        if (!got)
            disagree(l, "%s has no reply", op_kind_name(ops[i].kind));
        else
            same_reply(l, got, &want);
    }
    if (!l->wrong)
        model_trim(l->model);
}

static void verify(struct lockstep *l, const char *when)
{
    struct err_note note;
    if (!l->wrong && engine_verify(l->engine, &note) < 0)
        disagree(l, "verify %s: %s", when, note.text);
}

/* A new process takes over: the store is all that is left. */
static void restart(struct lockstep *l)
{
    struct err_note note = {""};
    uint64_t hash = engine_state_hash(l->engine);
    engine_free(l->engine);
    l->engine = NULL;
    l->config.seed++;
    int rc = engine_new(&l->config, &l->engine);
    if (rc == 0)
        rc = engine_load(l->engine, l->store, &note);
    if (rc == 0 && engine_state_hash(l->engine) != hash)
        disagree(l, "loaded state differs");
    if (rc == 0)
        rc = engine_boot(l->engine, l->now, &l->out);
    if (rc < 0) {
        disagree(l, "restart: %s", note.text);
        return;
    }
    store_frame(l);
    take_events(l, true);
    history_event(&l->history, HIST_BOOT, 0, l->now);
    model_boot(l->model, l->now);
    verify(l, "after a restart");
}

static void advance(struct lockstep *l)
{
    struct random *r = &l->source.random;
    int64_t ms = random_chance(r, 50) ? 0 : random_between(r, 1, 120);
    if (random_chance(r, 2))
        ms = random_between(r, 500, 20000); /* the process stood still, or nothing happened */
    l->now.mono.ms += ms;
    l->now.wall.ms += ms;
    if (l->source.leaps && random_chance(r, 1))
        l->now.wall.ms += random_between(r, 1, 20) * 3600 * 1000;
    if (l->model->suspect && random_chance(r, 5)) {
        engine_accept_clock(l->engine);
        l->model->suspect = false;
    }
}

static void step(struct lockstep *l)
{
    struct random *r = &l->source.random;
    advance(l);
    if (random_chance(r, 15)) {
        tick(l);
        if (random_chance(r, 3) && !l->wrong)
            restart(l);
    } else {
        batch(l);
    }
    if (!l->wrong && ++l->steps % VERIFY_EVERY == 0) {
        verify(l, "between");
        compare_all(l);
    }
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void start(struct lockstep *l)
{
    struct err_note note = {""};
    ops_init(&l->source, l->seed);
    ops_config(&l->source, &l->config);
#ifdef HF_TEST_HOOKS
    l->config.defects = l->defects;
#endif
    model_init(l->model, &l->config.policy);
    l->model->is_gone = is_gone;
    l->model->is_gone_ctx = l;
    history_init(&l->history, &l->config.policy, l->config.key_ttl_ms);
    l->model->capacity = l->config.capacity;
    l->model->key_ttl_ms = l->config.key_ttl_ms;
    l->model->keys_max = l->config.keys_max;
    l->model->no_auto_create = l->config.no_auto_create;
    l->now = (struct now){{5000}, {INT64_C(1760000000000)}};
    engine_out_init(&l->out);
    map64_init(&l->by_event);
    int rc = store_open_memory(l->seed, &l->store);
    if (rc == 0)
        rc = engine_new(&l->config, &l->engine);
    if (rc == 0)
        rc = engine_load(l->engine, l->store, &note);
    if (rc == 0)
        rc = engine_boot(l->engine, l->now, &l->out);
    if (rc < 0)
        disagree(l, "start: %s %s", err_text(rc), note.text);
    else
        store_frame(l);
    if (rc == 0)
        take_events(l, true);
    model_boot(l->model, l->now);
}

static bool run(uint64_t seed, unsigned steps, unsigned defects)
{
    struct lockstep *l = calloc(1, sizeof(*l));
    CHECK(l != NULL);
    l->seed = seed;
    l->defects = defects;
    l->hunts = defects != 0;
    l->model = malloc(sizeof(*l->model));
    CHECK(l->model != NULL);
    start(l);
    while (!l->wrong && l->steps < steps)
        step(l);
    verify(l, "at the end");
    bool ok = !l->wrong;
    engine_free(l->engine);
    engine_out_done(&l->out);
    map64_done(&l->by_event);
    if (l->store)
        l->store->ops->close(l->store);
    ops_done(&l->source);
    history_done(&l->history);
    free(l->model);
    free(l);
    return ok;
}

uint64_t lockstep_run(uint64_t from, uint64_t steps, bool progress)
{
    uint64_t failures = 0, seed = from;
    bool tty = isatty(STDERR_FILENO);
#ifdef HF_TEST_HOOKS
    slab_chunks_of((size_t)16 << 10);
#endif
    for (uint64_t done = 0; done < steps && failures < 5; done += STEPS_A_SEED, seed++) {
        failures += !run(seed, STEPS_A_SEED, 0);
        if (progress && tty && seed % 16 == 0)
            fprintf(stderr, "\r%llu steps, %llu failed ", (unsigned long long)done,
                    (unsigned long long)failures);
    }
    if (progress && tty)
        fputc('\n', stderr);
    return failures;
}

uint64_t lockstep_hunt(unsigned defects, uint64_t seeds)
{
#ifdef HF_TEST_HOOKS
    slab_chunks_of((size_t)16 << 10);
#endif
    for (uint64_t seed = 1; seed <= seeds; seed++)
        if (!run(seed, STEPS_A_SEED, defects))
            return seed;
    return 0;
}
