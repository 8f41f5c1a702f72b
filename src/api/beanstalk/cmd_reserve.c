/* SPDX-License-Identifier: Apache-2.0 */
/* reserve, reserve-with-timeout, reserve-job: claims whose leases are bound to the connection.
 *
 * Consecutive reserves become one claim for as many jobs. The claim may return fewer; then the
 * remaining reserves are claimed again, each with its whole time to wait, as if it had just been
 * read. */
#include "api/beanstalk/impl.h"

#define RUN_MAX 100 /* reserves that one claim answers */

static void worker_mark(struct conn *c)
{
    c->api->workers += !c->worker;
    c->worker = true;
}

static void reserved(struct conn *c, struct order *k, const struct job_view *v)
{
    struct beanstalk *b = c->api;
    struct held h = {.seq = v->job.seq,
                     .token = v->token,
                     .lease_ms = v->lease_ms,
                     .until_ms = bs_now_ms(b) + v->lease_ms,
                     .tube = tube_get(b, v->queue)};
    struct broker_held job = {h.seq, h.token};
    worker_mark(c);
    if (h.tube)
        tube_ref(h.tube);
    if (!v->has_body || !h.tube || !held_add(c, &h)) {
        if (h.tube)
            tube_unref(b, h.tube);
        broker_give_back(b->broker, &job, 1);
        /* Without a body: its queue was deleted at the same time. */
        bs_answer_fixed(k, v->has_body ? SPAN_LITERAL("OUT_OF_MEMORY\r\n")
                                       : SPAN_LITERAL("INTERNAL_ERROR\r\n"));
    } else if (!bs_answer_job(k, SPAN_LITERAL("RESERVED"), h.seq, v->payload)) {
        held_take(c, h.seq, &h);
        tube_unref(b, h.tube);
        broker_give_back(b->broker, &job, 1);
    }
}

/* The first reserve that waits is about to be answered. */
static struct order *waiting_take(struct conn *c)
{
    struct order *k = c->waiting, *next = k->next;
    while (next && !next->waits)
        next = next->next;
    k->waits = false;
    c->waiting = next;
    c->wants--;
    return k;
}

/* The queues have no job: the wait has ended, or an attempt without a wait found nothing. */
static void nothing(struct conn *c, struct order *k)
{
    if (k->verb == BS_RESERVE_JOB)
        ANSWER(k, "NOT_FOUND");
    else if (held_deadline_soon(c))
        ANSWER(k, "DEADLINE_SOON");
    else
        ANSWER(k, "TIMED_OUT");
}

static void wait_ended(struct conn *c)
{
    c->claim = NULL;
    tubes_parked(c, false);
    link_remove(&c->uneasy);
}

/* A cancelled claim is not called back, so the connection still exists. */
static void claimed_cb(void *ctx, const struct reply *r)
{
    struct conn *c = ctx;
    wait_ended(c);
    if (r->outcome != OUT_OK)
        bs_answer_refusal(waiting_take(c), r);
    else if (r->job_count == 0)
        nothing(c, waiting_take(c));
    for (uint32_t i = 0; r->outcome == OUT_OK && i < r->job_count; i++)
        reserved(c, waiting_take(c), &r->jobs[i]);
    reserve_run(c);
}

static void claim(struct conn *c, const struct op_claim *want, uint32_t wait_ms)
{
    if (broker_claim(c->api->broker, want, wait_ms, claimed_cb, c, &c->claim) != 0) {
        c->claim = NULL;
        while (c->wants > 0)
            ANSWER(waiting_take(c), "OUT_OF_MEMORY");
        return;
    }
    if (wait_ms == 0)
        return;
    tubes_parked(c, true);
    if (c->held_count > 0)
        bs_uneasy(c);
}

static uint32_t wait_of(const struct conn *c, const struct bs_command *cmd)
{
    if (c->net.eof || c->net.hung_up)
        return 0;
    if (cmd->verb == BS_RESERVE || cmd->timeout_s < 0)
        return BROKER_WAIT_FOREVER;
    return cmd->timeout_s < (BROKER_WAIT_FOREVER - 1) / 1000 ? (uint32_t)cmd->timeout_s * 1000
                                                             : BROKER_WAIT_FOREVER;
}

/* With a lease about to expire it takes a job that is ready, but does not wait. */
void reserve_run(struct conn *c)
{
    struct span *names = c->api->names;
    struct op_claim want = {.queues = names,
                            .queue_count = c->watched_count,
                            .count = c->wants,
                            .bound = true,
                            .want_body = true};
    if (c->wants == 0 || c->claim || c->net.closed)
        return;
    for (uint32_t i = 0; i < c->watched_count; i++)
        names[i] = tube_name(c->watched[i]);
    claim(c, &want, held_deadline_soon(c) ? 0 : wait_of(c, &c->wish));
}

/* A delete of a reserved job does not depend on the results of the reserves before it. */
bool reserve_lets(const struct conn *c, const struct bs_command *cmd)
{
    if (c->wants == 0)
        return true;
    if (cmd->verb == BS_DELETE)
        return held_find(c, cmd->id) != NULL;
    return cmd->verb == c->wish.verb && cmd->timeout_s == c->wish.timeout_s &&
           (cmd->verb == BS_RESERVE || cmd->verb == BS_RESERVE_TIMEOUT) && c->wants < RUN_MAX;
}

void reserve_deadline(struct conn *c)
{
    broker_claim_cancel(c->api->broker, c->claim);
    wait_ended(c);
    ANSWER(waiting_take(c), "DEADLINE_SOON");
    reserve_run(c);
}

/* The reserves still get the jobs of a claim that is under way. */
void reserve_stop_waiting(struct conn *c)
{
    if (c->claim)
        broker_claim_end_wait(c->api->broker, c->claim);
}

void reserve_cancel(struct conn *c)
{
    if (c->claim)
        broker_claim_cancel(c->api->broker, c->claim);
    wait_ended(c);
    while (c->wants > 0)
        ANSWER(waiting_take(c), "TIMED_OUT");
}

static void reserve_add(struct conn *c, struct order *k, const struct bs_command *cmd)
{
    k->waits = true;
    if (c->wants++ > 0)
        return;
    c->waiting = k;
    c->wish = *cmd;
}

/* The claim is submitted after the whole input was read: more reserves may follow. */
BS_HANDLER(bs_reserve)
{
    worker_mark(c);
    reserve_add(c, k, cmd);
}

BS_HANDLER(bs_reserve_job)
{
    struct op_claim want = {.one = {.seq = cmd->id}, .count = 1, .bound = true, .want_body = true};
    if (cmd->id == 0) {
        ANSWER(k, "NOT_FOUND");
        return;
    }
    reserve_add(c, k, cmd);
    claim(c, &want, 0);
}
