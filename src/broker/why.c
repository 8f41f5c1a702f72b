/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job is not running: collects what ops/jobs/why.h decides on. The job is read first; for one
 * that is ready, also who claims from its queue (from the other nodes, too, if they share the
 * store), and the state of the breakers that these consult. At most three queries, one after the
 * other, each for one job, one queue and the list of breakers. */
#include "backend/reply_copy.h"
#include "base/mem.h"
#include "broker/broker_impl.h"

struct why_call {
    struct broker *broker;
    struct job_ref job;
    broker_why_fn fn;
    void *ctx;
    struct arena arena;
    struct reply *got; /* to the query for the job; NULL = its store does not answer */
    struct why_facts facts;
    struct claimed_facts claimed;
    struct why_breaker breakers[CLAIMED_BREAKERS];
};

static void call_end(struct why_call *c, const struct reply *refusal,
                     const struct why_answer *answer)
{
    c->fn(c->ctx, refusal, answer);
    mem_free(c->got);
    arena_done(&c->arena);
    mem_free(c);
}

static void call_nomem(struct why_call *c)
{
    struct reply r = {.kind = OP_GET, .outcome = OUT_UNAVAILABLE, .note = "out of memory"};
    call_end(c, &r, NULL);
}

/* --- the store --- */

/* One that does not answer, or on whose part a spool works. */
static bool store_away(struct broker *b, struct backend_cluster *ret)
{
    struct backend_store store;
    for (unsigned i = 0; broker_store(b, i, &store); i++) {
        *ret = store.cluster;
        if (store.cluster.spooling || !store.cluster.up)
            return true;
    }
    return false;
}

static void note_away(struct why_call *c, const struct backend_cluster *cluster)
{
    struct why_store *s = &c->facts.store;
    s->away = true;
    s->since = cluster->since;
    s->trouble = span_text(cluster->trouble);
    if (!arena_keep(&c->arena, &s->trouble))
        s->trouble = (struct span){NULL, 0};
}

/* --- the end --- */

static void decide(struct why_call *c)
{
    struct why_answer answer;
    c->facts.now = broker_now(c->broker).wall;
    if (why_decide(&c->facts, &c->arena, &answer))
        call_end(c, NULL, &answer);
    else
        call_nomem(c);
}

/* --- who claims --- */

/* A breaker that opened without a worker of this queue having been refused since then does not
 * concern it, unless one consulted it a moment ago. */
static bool keeps_back(const struct why_call *c, const struct claimed_breaker *used,
                       const struct breaker *b)
{
    struct wall_time now = broker_now(c->broker).wall;
    bool used_since = used->at.ms >= b->changed_at.ms ||
                      now.ms - used->at.ms <= (int64_t)c->facts.claims.recent_ms;
    return b->state == BREAKER_OPEN && b->until.ms > now.ms && used_since;
}

static void breakers_cb(void *ctx, const struct reply *r)
{
    struct why_call *c = ctx;
    struct why_claims *claims = &c->facts.claims;
    for (uint32_t i = 0; r->outcome == OUT_OK && i < r->breaker_count; i++) {
        for (uint32_t k = 0; k < c->claimed.breaker_count; k++) {
            const struct claimed_breaker *used = &c->claimed.breakers[k];
            struct span name = span_of(used->name, used->len);
            if (!span_equal(r->breakers[i].target, name) ||
                !keeps_back(c, used, &r->breakers[i].breaker))
                continue;
            c->breakers[claims->breaker_count++] =
                (struct why_breaker){name, r->breakers[i].breaker.until};
            break;
        }
    }
    claims->breakers = c->breakers;
    decide(c);
}

static void claims_known(struct why_call *c)
{
    struct op op = {.kind = OP_BREAKER_LIST, .breakers = {.partial = true}};
    c->facts.claims = (struct why_claims){.waiting = c->claimed.waiting,
                                          .last = c->claimed.at,
                                          .since = c->broker->workers.since,
                                          .recent_ms = c->broker->config.silent_ms};
    bool ask = c->claimed.breaker_count > 0;
    if (!ask || broker_submit(c->broker, &op, 1, breakers_cb, c) != 0)
        decide(c);
}

/* Without a reply the answer is what this node knows. */
static void registry_cb(void *ctx, const struct reply *r)
{
    struct why_call *c = ctx;
    for (uint32_t i = 0; r->outcome == OUT_OK && i < r->entry_count; i++)
        claimed_elsewhere(c->broker, &r->entries[i], &c->claimed);
    claims_known(c);
}

static void claims_find(struct why_call *c)
{
    struct broker *b = c->broker;
    struct span queue = c->facts.job->queue;
    struct op op = {.kind = OP_REGISTRY};
    claimed_here(b, queue, &c->claimed);
    op.registry.only = registry_name(&c->arena, REGISTRY_QUEUE, queue);
    bool shared = (backend_caps(b->config.backend) & CAP_SHARED) && !c->facts.store.away;
    if (!shared || !op.registry.only.len || broker_submit(b, &op, 1, registry_cb, c) != 0)
        claims_known(c);
}

/* --- the job --- */

static void job_known(struct why_call *c, const struct reply *r)
{
    struct backend_cluster cluster;
    c->got = reply_copy(r);
    if (!c->got || c->got->job_count == 0) {
        call_nomem(c);
        return;
    }
    c->facts.job = &c->got->jobs[0];
    if (r->spooled && store_away(c->broker, &cluster))
        note_away(c, &cluster);
    if (c->facts.job->job.state == STATE_READY)
        claims_find(c);
    else
        decide(c);
}

static void job_cb(void *ctx, const struct reply *r)
{
    struct why_call *c = ctx;
    struct backend_cluster cluster;
    if (r->outcome == OUT_OK) {
        job_known(c, r);
    } else if (r->outcome == OUT_UNAVAILABLE && store_away(c->broker, &cluster)) {
        note_away(c, &cluster);
        decide(c);
    } else {
        call_end(c, r, NULL);
    }
}

int broker_why(struct broker *b, struct job_ref job, broker_why_fn fn, void *ctx)
{
    struct why_call *c = mem_zalloc(sizeof *c);
    if (!c)
        return -ERR_NOMEM;
    struct op op = {.kind = OP_GET, .job = {.job = job, .want_parents = true, .want_wait = true}};
    *c = (struct why_call){.broker = b, .job = job, .fn = fn, .ctx = ctx};
    arena_init(&c->arena);
    int err = broker_submit(b, &op, 1, job_cb, c);
    if (err)
        mem_free(c);
    return err;
}
