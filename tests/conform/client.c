/* SPDX-License-Identifier: Apache-2.0 */
/* Short helpers for operations that many cases use. */
#include "conform/conform.h"

#include "base/check.h"
#include "core/kvkey.h"

static struct span copied(struct env *e, const char *text)
{
    const char *copy = arena_text(&e->arena, span_text(text));
    CHECK(copy);
    return span_text(copy);
}

/* --- enqueue --- */

struct op enqueue_op(const char *queue)
{
    return (struct op){.kind = OP_ENQUEUE,
                       .enqueue = {.queue = span_text(queue),
                                   .payload_kind = PAYLOAD_JSON,
                                   .payload = SPAN_LITERAL("{\"n\":1}")}};
}

uint64_t put_op(struct env *e, struct op op)
{
    const struct reply *r = run(e, op);
    if (r->outcome != OUT_OK)
        LEAVE("enqueue: %s%s%s", outcome_name(r->outcome), r->note ? ": " : "",
              r->note ? r->note : "");
    if (r->seq == 0 || r->id_hi == 0)
        LEAVE("enqueue: the reply names no job");
    return r->seq;
}

uint64_t put(struct env *e, const char *queue)
{
    return put_op(e, enqueue_op(queue));
}

uint64_t put_priority(struct env *e, const char *queue, int64_t priority)
{
    struct op op = enqueue_op(queue);
    op.enqueue.has_priority = true;
    op.enqueue.priority = priority;
    return put_op(e, op);
}

uint64_t put_delayed(struct env *e, const char *queue, int64_t delay_ms)
{
    struct op op = enqueue_op(queue);
    op.enqueue.delay_ms = delay_ms;
    return put_op(e, op);
}

uint64_t put_unique(struct env *e, const char *queue, const char *unique)
{
    struct op op = enqueue_op(queue);
    op.enqueue.extra.unique = span_text(unique);
    return put_op(e, op);
}

uint64_t put_grouped(struct env *e, const char *queue, const char *group)
{
    struct op op = enqueue_op(queue);
    op.enqueue.extra.group = span_text(group);
    return put_op(e, op);
}

/* --- claim --- */

struct op claim_op(struct env *e, const char *queue, uint32_t count)
{
    struct span *queues = arena_array(&e->arena, 1, sizeof *queues);
    CHECK(queues);
    *queues = copied(e, queue);
    return (struct op){
        .kind = OP_CLAIM,
        .claim = {.queues = queues, .queue_count = 1, .count = count, .want_body = true}};
}

const struct reply *claim(struct env *e, const char *queue, uint32_t count)
{
    const struct reply *r = run(e, claim_op(e, queue, count));
    if (r->outcome != OUT_OK)
        LEAVE("claim %s: %s", queue, outcome_name(r->outcome));
    return r;
}

struct held held_of(const struct job_view *v)
{
    return (struct held){v->job.seq, v->job.id_hi, v->token};
}

static struct held only_job(struct env *e, const struct reply *r)
{
    if (r->outcome != OUT_OK || r->job_count != 1)
        LEAVE("claim: %s, %u jobs instead of one", outcome_name(r->outcome), r->job_count);
    if (r->jobs[0].token.counter == 0 || r->jobs[0].job.state != STATE_RUNNING)
        LEAVE("claim: a job without a token, or not running");
    return held_of(&r->jobs[0]);
}

struct held take(struct env *e, const char *queue)
{
    return take_for(e, queue, 0);
}

struct held take_for(struct env *e, const char *queue, uint32_t lease_ms)
{
    struct op op = claim_op(e, queue, 1);
    op.claim.lease_ms = lease_ms;
    return only_job(e, run(e, op));
}

struct held seize(struct env *e, uint64_t seq)
{
    struct op op = {.kind = OP_CLAIM, .claim = {.one = {.seq = seq}, .count = 1}};
    return only_job(e, run(e, op));
}

/* --- leases and jobs --- */

struct op lease_op(enum op_kind kind, struct held h)
{
    return (struct op){.kind = kind, .lease = {.job = {h.seq, h.hi}, .token = h.token}};
}

struct op lease_op_by_id(enum op_kind kind, uint64_t seq)
{
    return (struct op){.kind = kind, .lease = {.job = {.seq = seq}, .any_token = true}};
}

const struct reply *ack(struct env *e, struct held h)
{
    return run(e, lease_op(OP_ACK, h));
}

const struct reply *fail(struct env *e, struct held h)
{
    return run(e, lease_op(OP_FAIL, h));
}

const struct reply *release(struct env *e, struct held h)
{
    return run(e, lease_op(OP_RELEASE, h));
}

struct op job_op(enum op_kind kind, uint64_t seq)
{
    return (struct op){.kind = kind, .job = {.job = {.seq = seq}, .force = kind == OP_CANCEL}};
}

const struct reply *cancel(struct env *e, uint64_t seq)
{
    return run(e, job_op(OP_CANCEL, seq));
}

const struct reply *requeue(struct env *e, uint64_t seq)
{
    return run(e, job_op(OP_REQUEUE, seq));
}

/* --- looking --- */

size_t index_of(struct env *e, const uint64_t *seqs, size_t count, uint64_t seq)
{
    for (size_t i = 0; i < count; i++) {
        if (seqs[i] == seq)
            return i;
    }
    LEAVE("job %llu is not one of these", (unsigned long long)seq);
}

const struct job_view *get(struct env *e, uint64_t seq)
{
    struct op op = job_op(OP_GET, seq);
    op.job.want_body = true;
    const struct reply *r = run(e, op);
    if (r->outcome == OUT_NOT_FOUND)
        return NULL;
    if (r->outcome != OUT_OK || r->job_count != 1 || r->jobs[0].job.seq != seq)
        LEAVE("get %llu: %s, %u jobs", (unsigned long long)seq, outcome_name(r->outcome),
              r->job_count);
    return &r->jobs[0];
}

const struct queue_view *queue_get(struct env *e, const char *queue)
{
    const struct reply *r = run(e, queue_op(OP_QUEUE_GET, queue));
    if (r->outcome == OUT_NO_QUEUE)
        return NULL;
    if (r->outcome != OUT_OK || r->queue_count != 1)
        LEAVE("queue_get %s: %s", queue, outcome_name(r->outcome));
    return &r->queues[0];
}

const struct reply *peek(struct env *e, const char *queue, enum job_state state, uint32_t limit)
{
    const struct reply *r = run(e, (struct op){.kind = OP_PEEK,
                                               .peek = {.queue = span_text(queue),
                                                        .state = (uint8_t)state,
                                                        .limit = limit,
                                                        .want_body = true}});
    if (r->outcome != OUT_OK)
        LEAVE("peek %s: %s", queue, outcome_name(r->outcome));
    return r;
}

const struct reply *list(struct env *e, struct op_list query)
{
    struct backend_figures figures;
    backend_figures(e->b, &figures);
    for (int tries = 0; tries < 200; tries++) {
        const struct reply *r = run(e, (struct op){.kind = OP_LIST, .list = query});
        if (r->outcome != OUT_OK)
            LEAVE("list: %s%s%s", outcome_name(r->outcome), r->note ? ": " : "",
                  r->note ? r->note : "");
        if (r->as_of >= figures.position)
            return r;
    }
    LEAVE("list: the store does not catch up");
}

void expect_state(struct env *e, const char *file, int line, uint64_t seq, enum job_state state)
{
    const struct job_view *v = get(e, seq);
    enum job_state by_get = v ? (enum job_state)v->job.state : STATE_NONE;
    const struct reply *r =
        list(e, (struct op_list){.filter = {.seq_min = seq, .seq_max = seq}, .limit = 2});
    enum job_state by_list = r->job_count == 1 ? (enum job_state)r->jobs[0].job.state : STATE_NONE;
    if (by_get != state || by_list != state)
        leave_case(e, file, line, "job %llu is %s by get and %s by list, not %s",
                   (unsigned long long)seq, state_name(by_get), state_name(by_list),
                   state_name(state));
    e->file = file;
    e->line = line;
}

/* By the counters, and by counting the jobs of each state in a list. */
void expect_counts(struct env *e, const char *file, int line, const char *queue, struct headcount t)
{
    const uint64_t should[STATE_COUNT] = {
        [STATE_SCHEDULED] = t.scheduled, [STATE_READY] = t.ready, [STATE_RUNNING] = t.running,
        [STATE_DONE] = t.done,           [STATE_DEAD] = t.dead,   [STATE_CANCELLED] = t.cancelled,
        [STATE_BLOCKED] = t.blocked,
    };
    const struct queue_view *v = queue_get(e, queue);
    if (!v)
        leave_case(e, file, line, "queue %s does not exist", queue);
    uint64_t listed[STATE_COUNT] = {0};
    struct op_list query = {.queue = span_text(queue), .limit = LIMIT_BATCH};
    do {
        const struct reply *r = list(e, query);
        for (uint32_t i = 0; i < r->job_count; i++)
            listed[r->jobs[i].job.state]++;
        query.after = r->cursor;
    } while (query.after != 0);
    for (int s = STATE_SCHEDULED; s < STATE_COUNT; s++) {
        if (v->counts.by_state[s] != should[s] || listed[s] != should[s])
            leave_case(e, file, line, "%s: %llu %s by counter, %llu by list, not %llu", queue,
                       (unsigned long long)v->counts.by_state[s], state_name((enum job_state)s),
                       (unsigned long long)listed[s], (unsigned long long)should[s]);
    }
    e->file = file;
    e->line = line;
}

/* --- queues --- */

struct queue_policy test_policy(void)
{
    struct queue_policy p;
    policy_default(&p);
    p.lease_ms = 10000;
    p.max_attempts = 3;
    p.max_crashes = 3;
    p.backoff = (struct backoff){.kind = BACKOFF_LIST, .step_count = 2, .step_ms = {1000, 2000}};
    return p;
}

struct op queue_op(enum op_kind kind, const char *queue)
{
    return (struct op){.kind = kind, .queue = {.name = span_text(queue)}};
}

void queue_make(struct env *e, const char *queue, const struct queue_policy *policy)
{
    struct op op = queue_op(OP_QUEUE_PUT, queue);
    struct queue_policy *own = arena_copy(&e->arena, policy, sizeof *policy);
    CHECK(own);
    op.queue.policy = own;
    const struct reply *r = run(e, op);
    if (r->outcome != OUT_OK)
        LEAVE("queue_put %s: %s%s%s", queue, outcome_name(r->outcome), r->note ? ": " : "",
              r->note ? r->note : "");
}

void pause_queue(struct env *e, const char *queue, struct wall_time until)
{
    struct op op = queue_op(OP_PAUSE, queue);
    op.queue.until = until;
    const struct reply *r = run(e, op);
    if (r->outcome != OUT_OK)
        LEAVE("pause %s: %s", queue, outcome_name(r->outcome));
}

uint64_t job_in(struct env *e, const char *queue, enum job_state state, struct held *ret_held)
{
    if (state == STATE_SCHEDULED)
        return put_delayed(e, queue, 3600000);
    uint64_t seq = put(e, queue);
    if (state == STATE_READY)
        return seq;
    struct held h = take(e, queue);
    if (h.seq != seq)
        LEAVE("job_in: another job was ready");
    struct op op = lease_op(state == STATE_DONE ? OP_ACK : OP_FAIL, h);
    op.lease.no_retry = state == STATE_DEAD;
    if (state == STATE_DONE || state == STATE_DEAD)
        run(e, op);
    else if (state == STATE_CANCELLED)
        cancel(e, seq);
    if (ret_held)
        *ret_held = h;
    return seq;
}

const struct job_view *get_whole(struct env *e, uint64_t seq)
{
    struct op op = job_op(OP_GET, seq);
    op.job.want_body = op.job.want_attempts = op.job.want_log = true;
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->job_count, 1);
    return &r->jobs[0];
}

struct span kv_key(struct env *e, const char *json)
{
    struct span k;
    struct err_note note;
    if (kvkey_from_json(span_text(json), true, &e->arena, &k, &note) != 0)
        LEAVE("%s: %s", json, note.text);
    return k;
}
