/* SPDX-License-Identifier: Apache-2.0 */
/* Unique keys: every scope and mode against a job in every state, and jobs that would live again
 * under a key that another has. */
#include "conform/tell.h"

static uint64_t holder_in(struct env *e, const char *key, enum job_state state)
{
    struct op op = enqueue_op("q");
    op.enqueue.extra.unique = span_text(key);
    op.enqueue.delay_ms = state == STATE_SCHEDULED ? 3600000 : 0;
    uint64_t seq = put_op(e, op);
    if (state == STATE_RUNNING || state == STATE_DONE || state == STATE_DEAD) {
        struct op end = lease_op(state == STATE_DONE ? OP_ACK : OP_FAIL, seize(e, seq));
        end.lease.no_retry = true;
        if (state != STATE_RUNNING)
            run(e, end);
    } else if (state == STATE_CANCELLED) {
        cancel(e, seq);
    }
    return seq;
}

static void meet(struct env *e, uint8_t scope, uint8_t mode, enum job_state state)
{
    char *key = arena_alloc(&e->arena, 16);
    snprintf(key, 16, "k%d%d", mode, state);
    uint64_t seq = holder_in(e, key, state);
    struct op op = enqueue_op("q");
    op.enqueue.extra.unique = span_text(key);
    op.enqueue.unique_mode = mode;
    bool holds = scope == UNIQUE_KEPT   ? state != STATE_CANCELLED
                 : scope == UNIQUE_LIVE ? (STATE_BIT(state) & STATES_LIVE) != 0
                                        : false;
    bool replaces = holds && mode == UNIQUE_REPLACE && (STATE_BIT(state) & STATES_WAITING);
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, holds && !replaces && mode != UNIQUE_RETURN ? OUT_DUPLICATE : OUT_OK);
    EXPECT_INT(r->created, !holds || replaces);
    EXPECT_INT(r->seq == seq, holds && !replaces);
    EXPECT(r->id_hi != 0);
    EXPECT_INT(r->state, holds && !replaces ? state : STATE_READY);
    EXPECT_INT(r->replaced_seq, replaces ? seq : 0);
    EXPECT(!r->repeat);
    const struct job_view *v = get(e, seq);
    EXPECT_INT(v->job.state, replaces ? STATE_CANCELLED : state);
    if (replaces)
        EXPECT_INT(v->job.reason, REASON_REPLACED);
}

static void unique_scope(struct env *e, uint8_t scope)
{
    struct queue_policy p = test_policy();
    p.unique_scope = scope;
    queue_make(e, "q", &p);
    for (uint8_t mode = UNIQUE_REJECT; mode <= UNIQUE_REPLACE; mode++)
        for (int state = STATE_SCHEDULED; state <= STATE_CANCELLED; state++)
            meet(e, scope, mode, (enum job_state)state);
}

static void unique_live(struct env *e)
{
    unique_scope(e, UNIQUE_LIVE);
}

static void unique_kept(struct env *e)
{
    unique_scope(e, UNIQUE_KEPT);
}

static void unique_none(struct env *e)
{
    unique_scope(e, UNIQUE_NONE);
}

/* What would live again under a key that another has. */
static void unique_revived(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    name_job(e, "dead", holder_in(e, "u", STATE_DEAD));
    name_job(e, "cancelled", holder_in(e, "u", STATE_CANCELLED));
    name_job(e, "holder", holder_in(e, "u", STATE_RUNNING));
    uint64_t dead = e->named[0].seq, cancelled = e->named[1].seq;
    struct op claim_dead = {.kind = OP_CLAIM, .claim = {.one = {.seq = dead}, .count = 1}};
    struct op late = job_op(OP_REQUEUE, dead);
    late.job.delay_ms = -1;
    const char *before = world(e);
    TELLS(requeue(e, dead), "duplicate job=holder running queue=q");
    TELLS(requeue(e, cancelled), "duplicate job=holder running queue=q");
    TELLS(run(e, late), "duplicate job=holder running queue=q");
    TELLS(run(e, claim_dead), "duplicate job=holder running");
    TELLS(run(e, (struct op){.kind = OP_BULK,
                             .bulk = {.action = BULK_REQUEUE, .queue = SPAN_LITERAL("q")}}),
          "ok refused=1");
    UNCHANGED(before);
    p.unique_scope = UNIQUE_NONE;
    queue_make(e, "q", &p);
    EXPECT_OUT(requeue(e, dead), OUT_OK);
    EXPECT_OUT(requeue(e, cancelled), OUT_OK);
    EXPECT_COUNTS("q", .ready = 2, .running = 1);
    p.unique_scope = UNIQUE_KEPT;
    struct op op = queue_op(OP_QUEUE_PUT, "q");
    op.queue.policy = &p;
    before = world(e);
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_DUPLICATE);
    EXPECT_INT(r->job_total, 2);
    EXPECT_INT(r->job_count, 3);
    EXPECT(r->seq != 0 && r->id_hi != 0 && r->state != STATE_NONE);
    p.unique_scope = UNIQUE_LIVE;
    EXPECT_OUT(run(e, op), OUT_DUPLICATE);
    UNCHANGED(before);
}

static const struct conform_case cases[] = {
    CASE("HF-27 unique among live jobs: every mode and state", unique_live, EXACT),
    CASE("HF-27 unique among kept jobs: every mode and state", unique_kept, EXACT),
    CASE("HF-27 keys that need not be unique: every mode and state", unique_none, EXACT),
    CASE("HF-27 a job that would live again under a key that is held", unique_revived, EXACT),
};
TOPIC(topic_refuse_unique, cases);
