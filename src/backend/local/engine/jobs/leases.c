/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: who holds a running job, until when, and how past leases ended.
 *
 * `until` and `limit` are in lease time. An extend only writes `until`; the heap entry keeps its
 * old order and is moved when it reaches the top. The limits of a lease are durable in wall time
 * (struct lease_limits); a start computes from them how much lease time is left. The
 * kept replies are in a table of fixed size, by token (LIMIT_KEPT_REPLIES). */
#include "backend/local/engine/engine_impl.h"

static void nonce_link(struct engine *e, uint32_t handle)
{
    struct lease *l = lease_at(e, handle);
    uint32_t head = map64_get(&e->nonces, l->nonce);
    l->nonce_next = head;
    if (head)
        lease_at(e, head)->nonce_prev = handle;
    CHECK(map64_put(&e->nonces, l->nonce, handle) == 0);
}

void leases_unchain(struct engine *e, struct map64 *chains, uint32_t handle)
{
    const struct lease *l = lease_at(e, handle);
    if (l->nonce_next)
        lease_at(e, l->nonce_next)->nonce_prev = l->nonce_prev;
    if (l->nonce_prev)
        lease_at(e, l->nonce_prev)->nonce_next = l->nonce_next;
    else if (l->nonce_next)
        CHECK(map64_put(chains, l->nonce, l->nonce_next) == 0);
    else
        map64_drop(chains, l->nonce);
}

int leases_start(struct engine *e, uint32_t job, const struct rec_job_claimed *r)
{
    uint32_t worker;
    int err = names_worker(e, r->worker, &worker);
    if (err)
        return err;
    uint32_t handle = slab_take(&e->leases);
    if (!handle) {
        if (worker)
            names_drop_worker(e, worker);
        return -ERR_NOMEM;
    }
    struct lease *l = lease_at(e, handle);
    l->token = r->token;
    l->lease_ms = r->lease_ms;
    l->until = l->limit = NEVER_MS; /* armed by the claim, or at boot */
    l->limits = (struct lease_limits){.timeout_ms = r->timeout_ms};
    l->place = SIZE_MAX;
    l->worker = worker;
    l->job = job;
    live_at(e, job)->lease = handle;
    return 0;
}

/* A lease without end, which a trigger's job holds, ends at its limit if it has one. */
static void set_until(struct lease *l, int64_t now)
{
    int64_t until = l->lease_ms ? now + l->lease_ms : NEVER_MS;
    l->until = until < l->limit ? until : l->limit;
}

/* The limit is no later than this long from now. */
static void set_limit(struct lease *l, int64_t now, int64_t left_ms)
{
    if (now + left_ms < l->limit)
        l->limit = now + left_ms;
}

static void begin(struct lease *l, int64_t now)
{
    if (l->limits.timeout_ms)
        set_limit(l, now, l->limits.timeout_ms);
    set_until(l, now);
}

int64_t lease_first_ms(const struct lease *l)
{
    bool limited = l->limits.timeout_ms && l->limits.timeout_ms < l->lease_ms;
    return limited ? l->limits.timeout_ms : l->lease_ms;
}

void leases_arm(struct engine *e, struct lease *l)
{
    begin(l, lease_now(e, e->now));
    leases_enter(e, l, l->until);
}

static int64_t between(int64_t low, int64_t ms, int64_t high)
{
    return ms < low ? low : ms > high ? high : ms;
}

/* The time while the server was down counts; a wall clock that was set back gives no more than the
 * whole. The connection of a bound lease is gone. */
void leases_restore(struct engine *e, struct lease *l)
{
    int64_t now = lease_now(e, e->now), wall = e->now.wall.ms;
    const struct lease_limits *limits = &l->limits;
    const struct job *j = &live_at(e, l->job)->job;
    if (limits->timeout_ms)
        set_limit(l, now, between(0, timeout_at(limits, j->since).ms - wall, limits->timeout_ms));
    if (cancel_requested(limits))
        set_limit(l, now, between(0, cancel_deadline(limits).ms - wall, limits->cancel_grace_ms));
    if (cancel_requested(limits) && (j->flags & JOB_BOUND) && !e->config.still)
        l->limit = now;
    set_until(l, now);
    if (l->until != NEVER_MS)
        leases_enter(e, l, l->until);
}

/* A lease that ends sooner than before must reach the top of the heap sooner. */
static void enter_sooner(struct engine *e, struct lease *l)
{
    if (heap_order_of(l->until) < heap_at(&e->leases_end, l->place).order)
        leases_enter(e, l, l->until);
}

void leases_cancel_requested(struct engine *e, struct lease *l)
{
    set_limit(l, lease_now(e, e->now), l->limits.cancel_grace_ms);
    if (l->limit < l->until) /* also one that has not begun: its own time does not run yet */
        l->until = l->limit;
    if (l->place == SIZE_MAX)
        leases_enter(e, l, l->until);
    else
        enter_sooner(e, l);
}

void leases_enter(struct engine *e, struct lease *l, int64_t at)
{
    if (l->place != SIZE_MAX)
        heap_remove(&e->leases_end, l->place);
    struct heap_entry entry = {heap_order_of(at), live_at(e, l->job)->lease};
    CHECK(heap_push(&e->leases_end, entry) == 0);
}

void leases_moved(void *engine, struct heap_entry entry, size_t index)
{
    lease_at(engine, (uint32_t)entry.seq)->place = index;
}

void lease_set_nonce(struct engine *e, uint32_t handle, uint64_t nonce)
{
    lease_at(e, handle)->nonce = nonce;
    nonce_link(e, handle);
}

void leases_end(struct engine *e, struct live *l, uint8_t kind)
{
    uint32_t handle = l->lease;
    struct lease *lease = lease_at(e, handle);
    if (kind != OP_TICK)
        kept_reply_put(e, l->job.seq, lease->token, kind, l->job.state, l->job.run_at);
    if (lease->place != SIZE_MAX)
        heap_remove(&e->leases_end, lease->place);
    if (lease->held)
        holds_unlink(e, handle);
    else if (lease->nonce)
        leases_unchain(e, &e->nonces, handle);
    if (lease->worker)
        names_drop_worker(e, lease->worker);
    slab_give(&e->leases, handle);
    l->lease = 0;
}

/* The counter of a token determines its slot: no index is needed, and the newest replies stay. */
static struct kept_reply_slot *kept_reply_slot_of(const struct engine *e, struct job_token token)
{
    return &e->kept_replies[token.counter & (e->config.kept_replies - 1)];
}

void kept_reply_put(struct engine *e, uint64_t seq, struct job_token token, uint8_t kind,
                    uint8_t state, struct wall_time run_at)
{
    struct kept_reply_slot *slot = kept_reply_slot_of(e, token);
    uint32_t overtaken = slot->overtaken;
    if (token_older(token, slot->token) && slot->token.epoch > overtaken)
        overtaken = slot->token.epoch;
    *slot = (struct kept_reply_slot){.token = token,
                                     .seq = seq,
                                     .run_at = run_at,
                                     .kind = kind,
                                     .state = state,
                                     .overtaken = overtaken};
}

const struct kept_reply_slot *kept_reply_find(const struct engine *e, uint64_t seq,
                                              struct job_token token)
{
    const struct kept_reply_slot *slot = kept_reply_slot_of(e, token);
    bool found = token.counter && slot->seq == seq && token_equal(slot->token, token);
    return found ? slot : NULL;
}

/* Whether a lease of the job may have ended under this token although kept_reply_find finds
 * nothing. It cannot if the token was never issued, if a boot before the job issued it, or if the
 * slot has not been overwritten: then the lease expired, or was another job's. */
bool kept_reply_forgotten(const struct engine *e, uint64_t seq, struct job_token token)
{
    const struct kept_reply_slot *slot = kept_reply_slot_of(e, token);
    if (token.counter == 0 || token.epoch > e->epoch)
        return false;
    if (token.epoch < e->epoch)
        return seq < e->seq_boot || id_spooled(seq);
    if (token.counter > e->token_counter || token_equal(slot->token, token))
        return false;
    return token_older(token, slot->token) || slot->overtaken == e->epoch;
}

void engine_lease_started(struct engine *e, uint64_t seq, struct job_token token, struct now now)
{
    struct live *l = jobs_by_seq(e, seq, NULL);
    if (!l || !l->lease)
        return;
    struct lease *lease = lease_at(e, l->lease);
    if (!token_equal(lease->token, token))
        return;
    begin(lease, lease_now(e, now));
    if (lease->place != SIZE_MAX) /* a requested cancel may have put it off to its limit */
        enter_sooner(e, lease);
}

void leases_extended(struct engine *e, struct lease *l)
{
    int64_t now = lease_now(e, e->now);
    if (DEFECT(&e->config, DEFECT_TIMEOUT_EXTENDED) && l->limits.timeout_ms &&
        !cancel_requested(&l->limits))
        l->limit = now + l->limits.timeout_ms;
    set_until(l, now);
    enter_sooner(e, l);
}

struct live *leases_by_nonce(struct engine *e, uint64_t nonce)
{
    uint32_t handle;
    while (nonce && (handle = map64_get(&e->nonces, nonce)) != 0) {
        struct live *l = live_at(e, lease_at(e, handle)->job);
        if (!jobs_purged(e, l))
            return l;
        /* Its queue was deleted; the slice that removes the job ends the lease. */
        leases_unchain(e, &e->nonces, handle);
        lease_at(e, handle)->nonce = 0;
    }
    return NULL;
}
