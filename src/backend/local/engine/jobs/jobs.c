/* SPDX-License-Identifier: Apache-2.0 */
/* Resident jobs and the indexes over them: directory, lists, heaps, unique keys, groups. */
#include "backend/local/engine/engine_impl.h"

uint64_t ready_seq(const struct engine *e, const struct job *j)
{
    return DEFECT(&e->config, DEFECT_NEWEST_FIRST) ? LIMIT_SEQ - j->seq : j->seq;
}

uint64_t seq_of_ready(const struct engine *e, uint64_t seq)
{
    return DEFECT(&e->config, DEFECT_NEWEST_FIRST) ? LIMIT_SEQ - seq : seq;
}

int jobs_reserve(struct engine *e, struct queue *q, size_t fresh, size_t moves, size_t bytes)
{
    int err = emit_reserve(e, bytes);
    if (!err)
        err = heap_reserve(&q->ready, moves);
    if (!err)
        err = heap_reserve(&q->due, moves);
    if (!err)
        err = heap_reserve(&e->due_queues, moves + 1);
    if (!err)
        err = heap_reserve(&e->prune_queues, moves + 3);
    if (!err)
        err = mapref_reserve(&e->uniques, moves);
    if (!err)
        err = heap_reserve(&e->expiries, moves);
    if (!err)
        err = ranks_reserve(q, fresh, moves);
    if (!err && q->flow)
        err = limits_reserve(e, q, moves);
    if (!err && fresh > 0) {
        err = slab_reserve(&e->jobs, fresh);
        if (!err)
            err = seqdir_reserve(&e->dir, fresh);
        if (!err)
            err = slab_reserve(&e->extras, fresh);
        if (!err)
            err = slab_reserve(&e->mores, fresh);
    }
    return err;
}

bool jobs_purged(const struct engine *e, const struct live *l)
{
    const struct queue *q = queue_of(e, l);
    return q->gone || (state_waits(l->job.state) && l->job.generation != q->generation);
}

struct live *jobs_by_seq(struct engine *e, uint64_t seq, uint32_t *ret_handle)
{
    if (seq == 0 || seq > LIMIT_SEQ)
        return NULL;
    /* One operation uses the same job several times: when it chooses and when it applies. */
    uint32_t handle = seq == e->memo_seq ? e->memo_handle : seqdir_get(&e->dir, seq);
    if (!handle)
        return NULL;
    e->memo_seq = seq;
    e->memo_handle = handle;
    if (ret_handle)
        *ret_handle = handle;
    return live_at(e, handle);
}

struct live *jobs_find(struct engine *e, struct job_ref ref, uint32_t *ret_handle)
{
    struct live *l = jobs_by_seq(e, ref.seq, ret_handle);
    if (!l || (ref.hi && ref.hi != l->job.id_hi) || jobs_purged(e, l))
        return NULL;
    return l;
}

void joblist_append(struct engine *e, struct joblist *list, uint32_t handle)
{
    struct live *l = live_at(e, handle);
    l->prev = list->tail;
    l->next = 0;
    if (list->tail)
        live_at(e, list->tail)->next = handle;
    else
        list->head = handle;
    list->tail = handle;
    list->count++;
}

void joblist_remove(struct engine *e, struct joblist *list, uint32_t handle, uint8_t state)
{
    struct live *l = live_at(e, handle);
    if (e->bulks)
        bulk_list_changes(e, handle, state);
    if (list->scout == handle)
        list->scout = l->next;
    if (list->head == handle && list->scouted > 0)
        list->scouted--;
    if (l->prev)
        live_at(e, l->prev)->next = l->next;
    else
        list->head = l->next;
    if (l->next)
        live_at(e, l->next)->prev = l->prev;
    else
        list->tail = l->prev;
    l->prev = l->next = 0;
    list->count--;
}

#define SCOUT_AHEAD 128 /* two lots of a trim */

void joblist_scout(const struct engine *e, struct joblist *list)
{
    if (list->scouted >= SCOUT_AHEAD)
        return;
    const struct live *here = list->scout ? live_at(e, list->scout) : NULL;
    uint32_t next = here ? here->next : list->head;
    if (!next)
        return;
    if (here)
        seqdir_ask_map(&e->dir, here->job.seq);
    if (here && here->prev)
        seqdir_ask_page(&e->dir, live_at(e, here->prev)->job.seq);
    live_ask(e, next);
    list->scout = next;
    list->scouted++;
}

bool valid_ready(void *engine, struct heap_entry entry)
{
    struct engine *e = engine;
    const struct live *l = jobs_by_seq(e, seq_of_ready(e, entry.seq), NULL);
    if (DEFECT(&e->config, DEFECT_DEAD_AGAIN) && l && l->job.state == STATE_DEAD)
        return true;
    if (!l || l->job.state != STATE_READY)
        return false;
    const struct queue *q = queue_of(e, l);
    return ready_order(q, &l->job) == entry.order && !q->gone && l->job.generation == q->generation;
}

bool valid_due(void *engine, struct heap_entry entry)
{
    struct engine *e = engine;
    const struct live *l = jobs_by_seq(e, entry.seq, NULL);
    return l && l->job.state == STATE_SCHEDULED && heap_order_of(l->job.run_at.ms) == entry.order &&
           !jobs_purged(e, l);
}

bool valid_expiry(void *engine, struct heap_entry entry)
{
    struct engine *e = engine;
    const struct live *l = jobs_by_seq(e, entry.seq, NULL);
    return l && state_waits(l->job.state) &&
           heap_order_of(more_of(e, l).expires_at.ms) == entry.order && !jobs_purged(e, l);
}

static bool stale_ready(void *e, struct heap_entry entry)
{
    return !valid_ready(e, entry);
}

static bool stale_due(void *e, struct heap_entry entry)
{
    return !valid_due(e, entry);
}

static bool stale_expiry(void *e, struct heap_entry entry)
{
    return !valid_expiry(e, entry);
}

/* After a push: checks a few entries when more than half of the heap must be stale. */
static void scrub(struct heap *h, uint64_t valid, heap_stale_fn stale, struct engine *e)
{
    if (h->len > 2 * valid + 1024)
        heap_scrub(h, 8, stale, e);
}

static void arm_due(struct engine *e, struct queue *q)
{
    struct heap_entry top;
    if (heap_top(&q->due, &top))
        queues_arm(&e->due_queues, &q->due_armed, q->number,
                   (int64_t)(top.order ^ (UINT64_C(1) << 63)));
}

void jobs_order(struct engine *e, uint32_t handle)
{
    struct live *l = live_at(e, handle);
    struct queue *q = queue_of(e, l);
    if (l->job.state == STATE_READY && q->flow) {
        limits_ready(e, q, l);
    } else if (l->job.state == STATE_READY) {
        struct heap_entry entry = {ready_order(q, &l->job), ready_seq(e, &l->job)};
        CHECK(heap_push(&q->ready, entry) == 0);
        scrub(&q->ready, q->lists[STATE_READY].count, stale_ready, e);
        queues_wake(e, q);
    } else if (l->job.state == STATE_SCHEDULED) {
        struct heap_entry entry = {heap_order_of(l->job.run_at.ms), l->job.seq};
        CHECK(heap_push(&q->due, entry) == 0);
        scrub(&q->due, q->lists[STATE_SCHEDULED].count, stale_due, e);
        arm_due(e, q);
    }
}

/* A waiting job must be looked at when it expires; a running one when it waits again. */
static void arm_expiry(struct engine *e, const struct live *l)
{
    int64_t at = more_of(e, l).expires_at.ms;
    if (at) {
        struct heap_entry entry = {heap_order_of(at), l->job.seq};
        CHECK(heap_push(&e->expiries, entry) == 0);
        scrub(&e->expiries, e->live, stale_expiry, e);
    }
}

static void count_in_group(struct engine *e, struct queue *q, const struct live *l, uint8_t state,
                           int by)
{
    uint32_t group = more_of(e, l).group;
    if (!group)
        return;
    group_count(e, group, state, by);
    q->in_groups[state] += (uint64_t)(int64_t)by;
}

static void extra_entered(struct engine *e, struct queue *q, uint32_t handle)
{
    const struct live *l = live_at(e, handle);
    count_in_group(e, q, l, l->job.state, 1);
    unique_state_entered(e, handle);
}

static void extra_left(struct engine *e, struct queue *q, uint32_t handle, uint8_t state)
{
    count_in_group(e, q, live_at(e, handle), state, -1);
    unique_state_left(e, handle, state);
}

static bool urgent(const struct job *j)
{
    return j->state == STATE_READY && j->priority > PRIORITY_URGENT;
}

void jobs_ranked(struct engine *e, const struct live *l, const struct job *before)
{
    if (before->state != STATE_READY)
        return;
    /* The code that removes it from the list uses the new priority. */
    struct queue *q = queue_of(e, l);
    q->urgent -= before->priority > PRIORITY_URGENT;
    q->urgent += l->job.priority > PRIORITY_URGENT;
}

/* What a job in its present state adds to: list, counters, keys, heaps. */
static void enter_state(struct engine *e, uint32_t handle)
{
    struct live *l = live_at(e, handle);
    struct queue *q = queue_of(e, l);
    uint8_t state = l->job.state;
    joblist_append(e, &q->lists[state], handle);
    e->by_state[state]++;
    ranks_entered(q, &l->job);
    q->urgent += urgent(&l->job);
    if (state_lives(state))
        e->live++;
    if (l->extra)
        extra_entered(e, q, handle);
    if (state_waits(state)) {
        jobs_order(e, handle);
        if (q->flow && state == STATE_READY)
            limits_counted(e, q, l);
        arm_expiry(e, l);
    } else if (state != STATE_RUNNING) {
        if (e->held)
            holds_job_ended(e, l->job.seq);
        if (dependencies_any(e))
            dependencies_job_ended(e, l->job.seq, state);
        queues_finished(e, q, state);
    }
}

static void leave_state(struct engine *e, uint32_t handle, uint8_t state)
{
    struct live *l = live_at(e, handle);
    struct queue *q = queue_of(e, l);
    joblist_remove(e, &q->lists[state], handle, state);
    e->by_state[state]--;
    ranks_left(q, &l->job, state);
    q->urgent -= state == STATE_READY && l->job.priority > PRIORITY_URGENT;
    if (state_lives(state))
        e->live--;
    if (l->extra)
        extra_left(e, q, handle, state);
    if (q->flow && state == STATE_RUNNING)
        limits_slot_free(e, q, l);
    else if (q->flow && state == STATE_READY)
        limits_counted(e, q, l);
}

void jobs_moved(struct engine *e, uint32_t handle, uint8_t old_state)
{
    leave_state(e, handle, old_state);
    enter_state(e, handle);
}

static int more_add(struct engine *e, struct extra *x, uint32_t queue, const struct job_extra *from)
{
    if (!from->expires_at.ms && !from->options.len && !from->group.len && !from->kind.len)
        return 0;
    x->more = slab_take(&e->mores);
    if (!x->more)
        return -ERR_NOMEM;
    struct more *more = slab_at(&e->mores, x->more);
    more->expires_at = from->expires_at;
    int err = from->group.len ? names_group(e, queue, from->group, &more->group) : 0;
    if (!err && (from->options.len || from->kind.len))
        err = names_options(e, from, &more->options);
    return err;
}

/* Gives back what it holds, not the key it has entered. */
static void extra_free(struct engine *e, struct live *l)
{
    const struct extra *x = extra_at(e, l->extra);
    struct more more = more_of(e, l);
    if (more.group)
        names_drop_group(e, more.group);
    if (more.options)
        names_drop_options(e, more.options);
    if (x->more)
        slab_give(&e->mores, x->more);
    slab_give(&e->extras, l->extra);
    l->extra = 0;
}

static int extra_add(struct engine *e, struct live *l, const struct job_extra *from)
{
    l->extra = slab_take(&e->extras);
    if (!l->extra)
        return -ERR_NOMEM;
    struct extra *x = extra_at(e, l->extra);
    unique_init(x);
    if (from->unique.len) {
        struct hash128 unique = hash128_scoped(e->hash_key, l->job.queue, from->unique);
        memcpy(x->unique, &unique, sizeof unique);
    }
    int err = more_add(e, x, l->job.queue, from);
    if (err)
        extra_free(e, l);
    return err;
}

void jobs_add_extra(struct engine *e, struct live *l)
{
    static const struct job_extra nothing = {0};
    CHECK(extra_add(e, l, &nothing) == 0);
}

static void extra_drop(struct engine *e, uint32_t handle)
{
    struct live *l = live_at(e, handle);
    unique_gone(e, handle);
    extra_free(e, l);
}

int jobs_add(struct engine *e, const struct job *job, const struct job_extra *extra,
             uint32_t *ret_handle)
{
    if (!queue_at(e, job->queue))
        return -ERR_CORRUPT;
    if (seqdir_get(&e->dir, job->seq))
        return -ERR_CORRUPT;
    uint32_t handle = slab_take(&e->jobs);
    if (!handle)
        return -ERR_NOMEM;
    struct live *l = live_at(e, handle);
    l->job = *job;
    int err = job->flags & JOB_HAS_EXTRA ? extra_add(e, l, extra) : 0;
    if (!err)
        err = seqdir_put(&e->dir, job->seq, handle);
    if (err) {
        if (l->extra)
            extra_free(e, l);
        slab_give(&e->jobs, handle);
        return err;
    }
    struct queue *q = queue_at(e, job->queue);
    if (!q->gone)
        ranks_made(e, l);
    if (jobs_purged(e, l)) {
        joblist_append(e, &q->purging, handle);
        queues_purge_later(e, q);
    } else {
        enter_state(e, handle);
    }
    *ret_handle = handle;
    return 0;
}

void jobs_drop(struct engine *e, uint32_t handle)
{
    struct live *l = live_at(e, handle);
    struct queue *q = queue_of(e, l);
    if (jobs_purged(e, l))
        joblist_remove(e, &q->purging, handle, STATE_NONE);
    else
        leave_state(e, handle, l->job.state);
    if (l->lease)
        leases_end(e, l, OP_TICK);
    ranks_gone(e, l);
    if (l->extra)
        extra_drop(e, handle);
    if (map64_count(&e->undelivered_map) > 0)
        undelivered_gone(e, l->job.seq);
    if (map64_count(&e->steps_map) > 0)
        steps_gone(e, l->job.seq);
    if (e->held)
        holds_job_ended(e, l->job.seq);
    if (e->memo_seq == l->job.seq)
        e->memo_seq = 0;
    outcome_counts_drop(e, l->job.seq);
    seqdir_drop(&e->dir, l->job.seq);
    if (dependencies_any(e))
        dependencies_job_ended(e, l->job.seq, STATE_NONE);
    slab_give(&e->jobs, handle);
}

void jobs_rules(const struct engine *e, const struct live *l, struct job_rules *ret)
{
    const struct job_options *own = NULL;
    uint32_t options = more_of(e, l).options;
    if (options) {
        const struct options *o = slab_at(&e->options, options);
        own = &o->value;
    }
    rules_of(&queue_of(e, l)->policy, own, ret);
}

bool jobs_expired(const struct engine *e, const struct live *l, struct wall_time now)
{
    int64_t at = e->clock_suspect ? 0 : more_of(e, l).expires_at.ms;
    return at != 0 && at <= now.ms;
}

static bool came_before(const struct engine *e, uint32_t a, uint32_t b)
{
    const struct job *x = &live_at(e, a)->job, *y = &live_at(e, b)->job;
    return x->since.ms != y->since.ms ? x->since.ms < y->since.ms : x->seq < y->seq;
}

/* Merges two runs linked by next; returns the head. */
static uint32_t merge_runs(struct engine *e, uint32_t a, uint32_t b)
{
    uint32_t head = 0, tail = 0;
    while (a || b) {
        bool from_a = !b || (a && came_before(e, a, b));
        uint32_t pick = from_a ? a : b;
        if (from_a)
            a = live_at(e, a)->next;
        else
            b = live_at(e, b)->next;
        if (tail)
            live_at(e, tail)->next = pick;
        else
            head = pick;
        live_at(e, pick)->prev = tail;
        live_at(e, pick)->next = 0;
        tail = pick;
    }
    return head;
}

/* Bottom-up merge sort: pending[i] is a sorted run of 2^i jobs. */
static void list_sort(struct engine *e, struct joblist *list)
{
    uint32_t pending[40] = {0};
    uint32_t at = list->head;
    while (at) {
        uint32_t next = live_at(e, at)->next;
        live_at(e, at)->next = 0;
        uint32_t run = at;
        size_t level = 0;
        for (; pending[level]; level++) {
            run = merge_runs(e, pending[level], run);
            pending[level] = 0;
        }
        pending[level] = run;
        at = next;
    }
    uint32_t all = 0;
    for (size_t i = 0; i < 40; i++)
        if (pending[i])
            all = all ? merge_runs(e, pending[i], all) : pending[i];
    list->head = all;
    list->tail = 0;
    list->scout = list->scouted = 0;
    for (at = all; at; at = live_at(e, at)->next)
        list->tail = at;
}

static bool list_sorted(const struct engine *e, const struct joblist *list)
{
    for (uint32_t at = list->head; at; at = live_at(e, at)->next) {
        uint32_t next = live_at(e, at)->next;
        if (next && !came_before(e, at, next))
            return false;
    }
    return true;
}

void jobs_sort_lists(struct engine *e)
{
    for (size_t n = 0; n < e->queue_total; n++) {
        struct queue *q = e->queues[n];
        for (int s = 0; q && s < STATE_COUNT; s++)
            if (!list_sorted(e, &q->lists[s]))
                list_sort(e, &q->lists[s]);
    }
}
