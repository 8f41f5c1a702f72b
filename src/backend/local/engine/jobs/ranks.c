/* SPDX-License-Identifier: Apache-2.0 */
/* Ranked queues: pages of their jobs that may begin at any offset.
 *
 * Each queue has two rosters, which are built from its jobs at the start: by (state, sequence),
 * and by (hash of the unique key, sequence). Purged jobs leave the first one at once. In the
 * second they stay until a slice removes them, and are skipped. */
#include "backend/local/engine/engine_impl.h"

static struct roster_key state_key(const struct job *j, uint8_t state)
{
    return (struct roster_key){state, j->seq};
}

/* False: it has no unique key. */
static bool unique_key(const struct engine *e, const struct live *l, struct roster_key *ret)
{
    struct hash128 unique = l->extra ? extra_unique(extra_at(e, l->extra)) : (struct hash128){0, 0};
    *ret = (struct roster_key){unique.lo, l->job.seq};
    return !hash128_none(unique);
}

int ranks_reserve(struct queue *q, size_t fresh, size_t moves)
{
    if (!q->policy.ranked)
        return 0;
    int err = roster_reserve(&q->by_state, moves);
    return err || !fresh ? err : roster_reserve(&q->by_key, fresh);
}

void ranks_made(struct engine *e, const struct live *l)
{
    struct roster_key key;
    struct queue *q = queue_of(e, l);
    if (q->policy.ranked && unique_key(e, l, &key))
        roster_add(&q->by_key, key);
}

void ranks_gone(struct engine *e, const struct live *l)
{
    struct roster_key key;
    struct queue *q = queue_of(e, l);
    if (q->policy.ranked && !q->gone && unique_key(e, l, &key))
        roster_remove(&q->by_key, key);
}

void ranks_entered(struct queue *q, const struct job *j)
{
    if (q->policy.ranked)
        roster_add(&q->by_state, state_key(j, j->state));
}

void ranks_left(struct queue *q, const struct job *j, uint8_t state)
{
    if (q->policy.ranked)
        roster_remove(&q->by_state, state_key(j, state));
}

void ranks_purged(struct queue *q, uint8_t state)
{
    struct roster_key from = {state, 0}, to = {state + 1u, 0};
    if (q->policy.ranked)
        roster_remove_range(&q->by_state, from, to);
}

void ranks_free(struct queue *q)
{
    roster_done(&q->by_state);
    roster_done(&q->by_key);
}

static int rank_list(struct engine *e, struct queue *q, const struct joblist *list, bool listed)
{
    int err = 0;
    for (uint32_t at = list->head; at && !err; at = live_at(e, at)->next) {
        const struct live *l = live_at(e, at);
        struct roster_key key;
        err = roster_reserve(&q->by_state, 1);
        if (!err)
            err = roster_reserve(&q->by_key, 1);
        if (!err && listed)
            roster_add(&q->by_state, state_key(&l->job, l->job.state));
        if (!err && unique_key(e, l, &key))
            roster_add(&q->by_key, key);
    }
    return err;
}

int ranks_begin(struct engine *e, struct queue *q)
{
    int err = 0;
    for (int s = 0; s < STATE_COUNT && !err; s++)
        err = rank_list(e, q, &q->lists[s], true);
    if (!err)
        err = rank_list(e, q, &q->purging, false);
    if (err)
        ranks_free(q);
    return err;
}

/* --- one page --- */

/* The jobs of some states, merged by sequence. */
struct merge {
    struct queue *q;
    unsigned states;
    struct roster_place at[STATE_COUNT];
    struct roster_key next[STATE_COUNT]; /* what stands there; hi ≠ the state: nothing */
};

static void merge_step(struct merge *m, uint8_t state)
{
    if (!roster_next(&m->q->by_state, &m->at[state], &m->next[state]))
        m->next[state].hi = STATE_NONE;
}

/* How many of these states have a sequence below this one. */
static uint64_t merge_rank(const struct merge *m, uint64_t seq)
{
    uint64_t rank = 0;
    for (uint8_t s = 1; s < (uint8_t)STATE_COUNT; s++)
        if (m->states & STATE_BIT(s))
            rank += roster_rank(&m->q->by_state, (struct roster_key){s, seq}) -
                    roster_rank(&m->q->by_state, (struct roster_key){s, 0});
    return rank;
}

/* The sequence below which there are `offset` of them. */
static uint64_t merge_start(const struct engine *e, const struct merge *m, uint64_t offset)
{
    uint64_t low = 0, high = e->seq_top + 1;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (merge_rank(m, mid + 1) > offset)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static void merge_begin(struct merge *m, uint64_t seq)
{
    for (uint8_t s = 1; s < (uint8_t)STATE_COUNT; s++) {
        if (!(m->states & STATE_BIT(s)))
            continue;
        struct roster_key from = {s, seq};
        m->at[s] = roster_seek(&m->q->by_state, roster_rank(&m->q->by_state, from));
        merge_step(m, s);
    }
}

/* The next sequence; 0 = there are no more. */
static uint64_t merge_next(struct merge *m)
{
    uint8_t best = STATE_NONE;
    for (uint8_t s = 1; s < (uint8_t)STATE_COUNT; s++)
        if ((m->states & STATE_BIT(s)) && m->next[s].hi == s &&
            (!best || m->next[s].lo < m->next[best].lo))
            best = s;
    uint64_t seq = best ? m->next[best].lo : 0;
    if (best)
        merge_step(m, best);
    return seq;
}

struct page {
    struct job_view *views;
    uint32_t count, limit;
    uint64_t bytes; /* of payloads */
};

static bool page_full(const struct page *p)
{
    return p->count == p->limit || p->bytes >= LIMIT_ANSWER_BYTES;
}

static int page_add(struct engine *e, struct page *p, const struct live *l)
{
    int err = view_of(e, l, &p->views[p->count]);
    if (!err)
        p->bytes += p->views[p->count++].job.payload_bytes;
    return err;
}

static int page_by_state(struct engine *e, struct queue *q, const struct op_page *want,
                         struct page *p, uint64_t *ret_all)
{
    struct merge m = {.q = q, .states = want->states};
    int err = 0;
    *ret_all = merge_rank(&m, LIMIT_SEQ + 1);
    if (want->offset >= *ret_all)
        return 0;
    merge_begin(&m, merge_start(e, &m, want->offset));
    for (uint64_t seq; !err && !page_full(p) && (seq = merge_next(&m)) != 0;)
        err = page_add(e, p, jobs_by_seq(e, seq, NULL));
    return err;
}

static bool key_matches(struct engine *e, const struct op_page *want, struct hash128 unique,
                        const struct live *l)
{
    return hash128_equal(extra_unique(extra_at(e, l->extra)), unique) &&
           want->states & STATE_BIT(l->job.state) && !jobs_purged(e, l);
}

static int page_by_key(struct engine *e, struct queue *q, const struct op_page *want,
                       struct page *p, uint64_t *ret_all)
{
    struct hash128 unique = hash128_scoped(e->hash_key, q->number, want->unique);
    struct roster_key key, from = {unique.lo, 0};
    struct roster_place at = roster_seek(&q->by_key, roster_rank(&q->by_key, from));
    int err = 0;
    while (!err && roster_next(&q->by_key, &at, &key) && key.hi == unique.lo) {
        const struct live *l = jobs_by_seq(e, key.lo, NULL);
        if (!key_matches(e, want, unique, l))
            continue;
        if (++*ret_all > want->offset && !page_full(p))
            err = page_add(e, p, l);
    }
    return err;
}

void op_page(struct engine *e, const struct op *op)
{
    struct op_page want = op->page;
    struct engine_reply *r = reply_new(e, op);
    struct queue *q = queues_find(e, want.queue);
    if (!q || !q->policy.ranked) {
        refuse(r, q ? OUT_INVALID : OUT_NO_QUEUE,
               q ? "queue is not ranked; set ranked in its policy, or list without an offset"
                 : NULL);
        return;
    }
    want.states = want.states ? want.states : STATES_ALL;
    if (want.pending == PAGE_PENDING) /* nothing ever is */
        want.states &= ~STATE_BIT(STATE_READY);
    struct page p = {.limit = want.limit && want.limit < LIMIT_BATCH ? want.limit : LIMIT_BATCH};
    p.views = arena_alloc(&e->out->arena, p.limit * sizeof(*p.views));
    int err = !p.views          ? -ERR_NOMEM
              : want.unique.len ? page_by_key(e, q, &want, &p, &r->reply.job_total)
                                : page_by_state(e, q, &want, &p, &r->reply.job_total);
    if (err) {
        refuse_nomem(r);
        return;
    }
    r->reply.jobs = r->views = p.views;
    r->reply.job_count = p.count;
    r->want_body = want.want_body;
}
