/* SPDX-License-Identifier: Apache-2.0 */
/* Unique keys: which job holds one.
 *
 * The jobs of a queue that have the same key form a chain, without the cancelled ones. If one of
 * them is live, it is the first; the map leads from the key to the first. The scope of the queue
 * says which of them holds the key: only a live one, or any first one. Therefore a change of scope
 * moves nothing. A scope that is widened must not leave two holders of one key. To decide that
 * without visiting all jobs, each queue has two numbers:
 *
 *   shared          jobs that stand behind another; none = the scope may be widened
 *   shared_waiting  chains of two or more whose first job waits
 *
 * A purge takes all waiting jobs away without visiting them: it takes shared_waiting off shared. A
 * purged job stays first in its chain until an operation finds it there.
 *
 * Where the scope is `none`, no job holds a key and any number of live jobs may have it: chains are
 * in no order, shared_waiting is 0, and purged jobs are counted until they are removed. Scopes of
 * the two kinds follow each other only when no purged job is left, and the strict ones begin with
 * chains of one. */
#include "backend/local/engine/engine_impl.h"

#define APART UINT32_MAX /* twin_prev of a job in no chain */

static struct extra *extra_of(const struct engine *e, uint32_t handle)
{
    return extra_at(e, live_at(e, handle)->extra);
}

static uint32_t first_of(const struct engine *e, struct hash128 unique)
{
    return mapref_get(&e->uniques, unique);
}

void unique_init(struct extra *x)
{
    x->twin_prev = APART;
}

static void detach(struct engine *e, uint32_t handle)
{
    struct extra *x = extra_of(e, handle);
    if (x->twin_next)
        extra_of(e, x->twin_next)->twin_prev = x->twin_prev;
    if (x->twin_prev)
        extra_of(e, x->twin_prev)->twin_next = x->twin_next;
    else if (x->twin_next)
        CHECK(mapref_put(&e->uniques, extra_unique(x), x->twin_next) ==
              0); /* replaces: needs no room */
    else
        mapref_drop(&e->uniques, extra_unique(x));
    x->twin_prev = APART;
    x->twin_next = 0;
}

/* At the beginning of its chain, or right behind the first. */
static void attach(struct engine *e, uint32_t handle, uint32_t first, bool to_front)
{
    struct extra *x = extra_of(e, handle);
    if (first && !to_front) {
        struct extra *f = extra_of(e, first);
        x->twin_prev = first;
        x->twin_next = f->twin_next;
        if (f->twin_next)
            extra_of(e, f->twin_next)->twin_prev = handle;
        f->twin_next = handle;
        return;
    }
    x->twin_prev = 0;
    x->twin_next = first;
    if (first)
        extra_of(e, first)->twin_prev = handle;
    CHECK(mapref_put(&e->uniques, extra_unique(x), handle) == 0);
}

static bool loose(const struct queue *q)
{
    return q->policy.unique_scope == UNIQUE_NONE;
}

/* The first that exists. */
static uint32_t first_there(struct engine *e, struct hash128 unique)
{
    uint32_t first = first_of(e, unique);
    if (first && loose(queue_of(e, live_at(e, first))))
        return first;
    if (first && jobs_purged(e, live_at(e, first))) {
        detach(e, first); /* the purge has taken it off the count */
        first = first_of(e, unique);
    }
    return first;
}

static bool waits_before_others(const struct engine *e, uint32_t first)
{
    return first && extra_of(e, first)->twin_next && state_waits(live_at(e, first)->job.state);
}

/* --- a job changes --- */

static bool keyed(const struct engine *e, const struct live *l)
{
    return l->extra && !hash128_none(extra_unique(extra_at(e, l->extra)));
}

void unique_state_left(struct engine *e, uint32_t handle, uint8_t state)
{
    const struct live *l = live_at(e, handle);
    if (!keyed(e, l) || !state_waits(state) || loose(queue_of(e, l)))
        return;
    const struct extra *x = extra_at(e, l->extra);
    if (x->twin_prev == 0 && x->twin_next)
        queue_of(e, l)->shared_waiting--;
}

static bool belongs(const struct engine *e, uint8_t state)
{
    if (DEFECT(&e->config, DEFECT_UNIQUE_BY_STATE) && state == STATE_RUNNING)
        return false;
    return state != STATE_CANCELLED;
}

/* Takes it out of its chain, whose first job is `first`; returns who is first then. */
static uint32_t part(struct engine *e, struct queue *q, uint32_t handle, uint32_t first)
{
    const struct extra *x = extra_of(e, handle);
    uint32_t next = x->twin_next;
    q->shared -= x->twin_prev || x->twin_next;
    detach(e, handle);
    return first == handle ? next : first;
}

/* Where keys need not be unique: into the chain, or out of it. */
static void loose_entered(struct engine *e, struct queue *q, uint32_t handle)
{
    const struct live *l = live_at(e, handle);
    const struct extra *x = extra_at(e, l->extra);
    uint32_t first = first_of(e, extra_unique(x));
    bool belong = belongs(e, l->job.state), linked = x->twin_prev != APART;
    if (linked && !belong)
        part(e, q, handle, first);
    if (linked || !belong)
        return;
    q->shared += first != 0;
    q->shared_seq = first ? l->job.seq : q->shared_seq;
    attach(e, handle, first, false);
}

void unique_state_entered(struct engine *e, uint32_t handle)
{
    struct live *l = live_at(e, handle);
    if (!keyed(e, l))
        return;
    struct queue *q = queue_of(e, l);
    if (loose(q)) {
        loose_entered(e, q, handle);
        return;
    }
    struct extra *x = extra_at(e, l->extra);
    bool belong = belongs(e, l->job.state), to_front = state_lives(l->job.state);
    uint32_t first = x->twin_prev == 0 ? handle : first_there(e, extra_unique(x));
    if (first != handle)
        q->shared_waiting -= waits_before_others(e, first);
    if (x->twin_prev != APART && (!belong || (to_front && first != handle)))
        first = part(e, q, handle, first);
    if (belong && x->twin_prev == APART) {
        q->shared += first != 0;
        q->shared_seq = first ? l->job.seq : q->shared_seq;
        attach(e, handle, first, to_front);
        first = to_front || !first ? handle : first;
    }
    q->shared_waiting += waits_before_others(e, first);
}

void unique_gone(struct engine *e, uint32_t handle)
{
    struct live *l = live_at(e, handle);
    if (!keyed(e, l) || extra_at(e, l->extra)->twin_prev == APART)
        return;
    struct queue *q = queue_of(e, l);
    const struct extra *x = extra_at(e, l->extra);
    bool is_first = x->twin_prev == 0;
    if (loose(q)) {
        part(e, q, handle, handle);
        return;
    }
    if (is_first && jobs_purged(e, l)) {
        detach(e, handle); /* the purge has taken it off the count */
        return;
    }
    uint32_t first = is_first ? handle : first_there(e, extra_unique(x));
    if (first != handle)
        q->shared_waiting -= waits_before_others(e, first);
    first = part(e, q, handle, first);
    q->shared_waiting += waits_before_others(e, first);
}

void unique_purged(struct queue *q)
{
    q->shared -= q->shared_waiting;
    q->shared_waiting = 0;
}

void unique_rescoped(struct queue *q)
{
    if (loose(q) || q->shared == 0)
        q->shared_waiting = 0;
}

/* --- questions --- */

bool jobs_unique_same(void *engine, uint32_t handle, struct hash128 unique)
{
    return hash128_equal(extra_unique(extra_of(engine, handle)), unique);
}

struct live *jobs_unique_holder(struct engine *e, struct hash128 unique)
{
    uint32_t first = first_there(e, unique);
    struct live *l = first ? live_at(e, first) : NULL;
    return l && !jobs_purged(e, l) && jobs_unique_holds(queue_of(e, l), l->job.state) ? l : NULL;
}

bool unique_shares(const struct engine *e, const struct live *l)
{
    if (!l || !keyed(e, l))
        return false;
    const struct extra *x = extra_at(e, l->extra);
    return x->twin_prev != APART && (x->twin_prev || x->twin_next);
}

struct live *unique_shared(struct engine *e, struct queue *q)
{
    struct live *l = jobs_find(e, (struct job_ref){q->shared_seq, 0}, NULL);
    if (q->shared == 0 || unique_shares(e, l))
        return q->shared ? l : NULL;
    size_t looks = 0;
    for (int s = 0; s < STATE_COUNT; s++)
        for (uint32_t at = q->lists[s].head; at && looks < e->config.slice; looks++) {
            l = live_at(e, at);
            if (unique_shares(e, l))
                return l;
            at = l->next;
        }
    return NULL;
}

/* --- for checks --- */

const char *unique_wrong(const struct engine *e, uint32_t handle, struct unique_recount *count)
{
    const struct live *l = live_at(e, handle);
    if (!keyed(e, l))
        return NULL;
    const struct extra *x = extra_at(e, l->extra);
    bool linked = x->twin_prev != APART;
    if (linked != (l->job.state != STATE_CANCELLED))
        return linked ? "holds a unique key it should not" : "lost its unique key";
    if (!linked)
        return NULL;
    bool after_purged = x->twin_prev && jobs_purged(e, live_at(e, x->twin_prev));
    bool is_first = x->twin_prev == 0;
    if (is_first != (first_of(e, extra_unique(x)) == handle) ||
        (x->twin_prev && extra_of(e, x->twin_prev)->twin_next != handle) ||
        (x->twin_next && extra_of(e, x->twin_next)->twin_prev != handle))
        return "the chain of its unique key does not agree";
    if (loose(queue_of(e, l))) {
        count->shared += !is_first;
        return NULL;
    }
    if (state_lives(l->job.state) && !is_first)
        return "is live but not the first of its unique key";
    count->shared += !is_first && !after_purged;
    count->shared_waiting += is_first && waits_before_others(e, handle);
    return NULL;
}
