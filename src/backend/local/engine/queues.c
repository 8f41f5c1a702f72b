/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: names, policies, pause, purge, delete, and the timers that each queue keeps. */
#include "backend/local/engine/engine_impl.h"

#include "base/containers/sorted.h"

static struct span queue_name(const struct queue *q)
{
    return span_of(q->name, q->name_len);
}

static struct hash128 name_key(const struct engine *e, struct span name)
{
    return hash128_of(e->hash_key, name);
}

struct queue *queues_find(struct engine *e, struct span name)
{
    if (e->last_named && span_equal(queue_name(e->last_named), name))
        return e->last_named;
    struct queue *q = queue_at(e, (uint32_t)map128_get(&e->queue_map, name_key(e, name)));
    if (q)
        e->last_named = q;
    return q;
}

uint32_t engine_queue_number(const struct engine *e, struct span name)
{
    return (uint32_t)map128_get(&e->queue_map, name_key(e, name));
}

struct span engine_queue_name(const struct engine *e, uint32_t number)
{
    const struct queue *q = queue_at(e, number);
    return q ? queue_name(q) : (struct span){NULL, 0};
}

bool engine_queue_by_due(const struct engine *e, uint32_t number)
{
    const struct queue *q = queue_at(e, number);
    return q && q->policy.by_due;
}

bool queue_paused(const struct queue *q, struct wall_time now)
{
    return q->paused_until.ms > now.ms;
}

void queues_wake(struct engine *e, struct queue *q)
{
    if (!e->out || q->woken || q->gone)
        return;
    struct engine_out *out = e->out;
    if (out->wake_count == out->wake_room)
        return; /* memory for every queue was reserved at the start of the step */
    q->woken = true;
    out->wakes[out->wake_count++] = q->number;
}

void queues_arm(struct heap *heap, uint64_t *armed, uint32_t number, int64_t at_ms)
{
    uint64_t order = heap_order_of(at_ms);
    if (*armed <= order)
        return;
    struct heap_entry entry = {order, number};
    CHECK(heap_push(heap, entry) == 0);
    *armed = order;
}

/* Sees to it that the queue is looked at when the oldest of this list has been kept long enough. */
static void arm_list(struct engine *e, struct queue *q, uint8_t state)
{
    const struct joblist *list = &q->lists[state];
    int64_t end = NEVER_MS;
    if (list->head)
        end = retention_end(retention_of(&q->policy, state), live_at(e, list->head)->job.since);
    if (end != NEVER_MS)
        queues_arm(&e->prune_queues, &q->prune_armed, q->number, end);
}

static void trim_if_over(struct engine *e, struct queue *q, uint8_t state)
{
    /* Long histories are trimmed in lots, short ones to the letter. */
    uint64_t keep = retention_of(&q->policy, state).count, slack = keep >= 1024 ? 64 : 0;
    if (q->lists[state].count > keep && q->lists[state].count - keep > slack)
        queues_trim_later(e, q);
}

void queues_finished(struct engine *e, struct queue *q, uint8_t state)
{
    if (q->lists[state].count == 1)
        arm_list(e, q, state);
    trim_if_over(e, q, state);
}

void queues_arm_prune(struct engine *e, struct queue *q)
{
    static const uint8_t states[] = {STATE_DONE, STATE_CANCELLED, STATE_DEAD};
    for (size_t i = 0; i < sizeof(states); i++) {
        arm_list(e, q, states[i]);
        trim_if_over(e, q, states[i]);
    }
}

void queues_trim_later(struct engine *e, struct queue *q)
{
    if (q->trimming || e->trim_count == e->trim_room)
        return;
    q->trimming = true;
    e->trims[e->trim_count++] = q->number;
}

void queues_purge_later(struct engine *e, struct queue *q)
{
    if (q->purging_listed)
        return;
    CHECK(e->purging_count < e->purging_room);
    q->purging_listed = true;
    e->purging_queues[e->purging_count++] = q->number;
}

/* --- the table of queues --- */

/* Numbers rise with every queue that is created, and a file may contain any number. Therefore
 * the size of the tables depends on how many queues exist, not on their numbers. */
static void slot_put(struct queue **slots, size_t mask, struct queue *q)
{
    size_t at = queue_hash(q->number) & mask;
    while (slots[at])
        at = (at + 1) & mask;
    slots[at] = q;
}

static int slots_grow(struct engine *e)
{
    size_t count = e->queue_slots ? (e->queue_mask + 1) * 2 : 128;
    struct queue **slots = mem_array(count, sizeof(*slots));
    if (!slots)
        return -ERR_NOMEM;
    for (size_t n = 0; n < e->queue_total; n++)
        slot_put(slots, count - 1, e->queues[n]);
    mem_free(e->queue_slots);
    e->queue_slots = slots;
    e->queue_mask = count - 1;
    return 0;
}

/* For one queue more. */
static int room_by_number(struct engine *e)
{
    if (e->queue_total == e->queue_room) {
        size_t room = e->queue_room ? e->queue_room * 2 : 64;
        struct queue **queues = mem_regrow(e->queues, room, sizeof(*queues));
        if (!queues)
            return -ERR_NOMEM;
        e->queues = queues;
        e->queue_room = room;
    }
    bool full = !e->queue_slots || (e->queue_total + 1) * 2 > e->queue_mask + 1;
    return full ? slots_grow(e) : 0;
}

/* The index of the number, or where it would be inserted. */
static size_t place_of(const struct engine *e, uint32_t number)
{
    return SORTED_INDEX(e->queue_total, i, e->queues[i]->number < number);
}

static void number_enter(struct engine *e, struct queue *q)
{
    size_t at = place_of(e, q->number);
    memmove(e->queues + at + 1, e->queues + at, (e->queue_total - at) * sizeof(*e->queues));
    e->queues[at] = q;
    e->queue_total++;
    slot_put(e->queue_slots, e->queue_mask, q);
}

/* The entries behind it in its chain move up, so that a search ends at the first free slot. */
static void slot_drop(struct engine *e, uint32_t number)
{
    size_t mask = e->queue_mask, at = queue_hash(number) & mask;
    while (e->queue_slots[at]->number != number)
        at = (at + 1) & mask;
    for (size_t next = (at + 1) & mask; e->queue_slots[next]; next = (next + 1) & mask) {
        size_t home = queue_hash(e->queue_slots[next]->number) & mask;
        if (((next - home) & mask) < ((next - at) & mask))
            continue;
        e->queue_slots[at] = e->queue_slots[next];
        at = next;
    }
    e->queue_slots[at] = NULL;
}

static void number_leave(struct engine *e, const struct queue *q)
{
    size_t at = place_of(e, q->number);
    e->queue_total--;
    memmove(e->queues + at, e->queues + at + 1, (e->queue_total - at) * sizeof(*e->queues));
    slot_drop(e, q->number);
}

static int grow_u32(uint32_t **array, size_t *room, size_t want)
{
    if (*room >= want)
        return 0;
    size_t more = want * 2 + 16;
    uint32_t *grown = mem_regrow(*array, more, sizeof(**array));
    if (!grown)
        return -ERR_NOMEM;
    *array = grown;
    *room = more;
    return 0;
}

/* Room for one more queue everywhere, so that entering it cannot fail. */
static int room_for_queue(struct engine *e)
{
    size_t all = e->queue_count + e->purging_count + 1;
    int err = room_by_number(e);
    if (!err)
        err = map128_reserve(&e->queue_map, 1);
    if (!err)
        err = grow_u32(&e->trims, &e->trim_room, all);
    if (!err)
        err = grow_u32(&e->purging_queues, &e->purging_room, all);
    if (!err)
        err = grow_u32(&e->sorting, &e->sorting_room, all);
    if (!err)
        err = heap_reserve(&e->resume_queues, 1);
    if (!err && e->by_name_room < all) {
        struct queue **grown = mem_regrow(e->by_name, all * 2 + 16, sizeof(*grown));
        if (!grown)
            return -ERR_NOMEM;
        e->by_name = grown;
        e->by_name_room = all * 2 + 16;
    }
    return err;
}

/* Index of the first queue whose name comes after (or is) this one. */
static size_t by_name_index(const struct engine *e, struct span name, bool after)
{
    return SORTED_INDEX(e->queue_count, i,
                        span_order(queue_name(e->by_name[i]), name) < (after ? 1 : 0));
}

static void by_name_insert(struct engine *e, struct queue *q)
{
    size_t at = by_name_index(e, queue_name(q), false);
    memmove(e->by_name + at + 1, e->by_name + at, (e->queue_count - at) * sizeof(*e->by_name));
    e->by_name[at] = q;
    e->queue_count++;
}

static void by_name_remove(struct engine *e, const struct queue *q)
{
    size_t at = by_name_index(e, queue_name(q), false);
    CHECK(at < e->queue_count && e->by_name[at] == q);
    e->queue_count--;
    memmove(e->by_name + at, e->by_name + at + 1, (e->queue_count - at) * sizeof(*e->by_name));
}

void queues_free(struct engine *e, struct queue *q)
{
    if (!q)
        return;
    if (e->last_named == q)
        e->last_named = NULL;
    if (e->named == q)
        e->named = NULL;
    limits_free(e, q);
    heap_done(&q->ready);
    heap_done(&q->due);
    ranks_free(q);
    mem_free(q->name);
    mem_free(q->texts);
    mem_free(q);
}

static int set_texts(struct queue *q, const struct rec_queue_put *r)
{
    size_t total = r->owner.len + r->note.len + r->attributes.len;
    char *texts = mem_alloc(total + 1);
    if (!texts)
        return -ERR_NOMEM;
    struct span parts[] = {r->owner, r->note, r->attributes};
    char *at = texts;
    for (size_t i = 0; i < 3; i++) {
        if (parts[i].len)
            memcpy(at, parts[i].at, parts[i].len);
        at += parts[i].len;
    }
    mem_free(q->texts); /* last: the record may point into the old texts */
    q->texts = texts;
    q->owner_len = r->owner.len;
    q->note_len = r->note.len;
    q->attributes_len = r->attributes.len;
    return 0;
}

static int queue_new(struct engine *e, const struct rec_queue_put *r, struct queue **ret)
{
    int err = room_for_queue(e);
    if (err)
        return err;
    struct queue *q = mem_zalloc(sizeof(*q));
    if (!q)
        return -ERR_NOMEM;
    heap_init(&q->ready);
    heap_init(&q->due);
    heap_count_in(&q->ready, &e->queue_bytes);
    heap_count_in(&q->due, &e->queue_bytes);
    roster_count_in(&q->by_state, &e->queue_bytes);
    roster_count_in(&q->by_key, &e->queue_bytes);
    q->number = r->queue;
    q->due_armed = q->prune_armed = UINT64_MAX;
    q->name = mem_text(r->name.at, r->name.len);
    q->name_len = r->name.len;
    if (!q->name) {
        queues_free(e, q);
        return -ERR_NOMEM;
    }
    q->name_key = name_key(e, r->name);
    *ret = q;
    return 0;
}

static void queue_enter(struct engine *e, struct queue *q)
{
    number_enter(e, q);
    by_name_insert(e, q);
    CHECK(map128_put(&e->queue_map, q->name_key, q->number) == 0);
    if (q->number >= e->queue_next)
        e->queue_next = q->number + 1;
}

int queues_apply_put(struct engine *e, const struct rec_queue_put *r)
{
    struct queue_policy policy;
    int err = policy_decode(r->policy, &policy);
    struct queue *q = err ? NULL : queue_at(e, r->queue);
    bool fresh = !err && !q;
    if (fresh)
        err = queue_new(e, r, &q);
    bool ranks = !err && policy.ranked && !q->policy.ranked;
    if (ranks)
        err = ranks_begin(e, q);
    if (!err)
        err = limits_prepare(e, q, &policy);
    if (!err)
        err = set_texts(q, r);
    if (err && q && !fresh)
        limits_settle(e, q);
    if (err) {
        if (fresh)
            queues_free(e, q);
        else if (ranks)
            ranks_free(q);
        return err;
    }
    if (q->policy.ranked && !policy.ranked)
        ranks_free(q);
    bool rescoped = q->policy.unique_scope != policy.unique_scope;
    struct queue_policy before = q->policy;
    q->policy = policy;
    if (rescoped)
        unique_rescoped(q);
    if (q->flow)
        limits_policy(e, q, &before);
    q->generation = r->generation;
    q->created_at = r->created_at;
    q->updated_at = r->updated_at;
    bool new_pause = q->paused_until.ms != r->paused_until.ms;
    q->paused_until = r->paused_until;
    if (fresh)
        queue_enter(e, q);
    if (new_pause && q->paused_until.ms && q->paused_until.ms < LIMIT_WALL_MS) {
        struct heap_entry entry = {heap_order_of(q->paused_until.ms), q->number};
        err = heap_push(&e->resume_queues, entry);
    } else if (!q->paused_until.ms && q->lists[STATE_READY].count) {
        queues_wake(e, q);
    }
    if (!err)
        err = heap_reserve(&e->prune_queues, 3);
    if (!err)
        queues_arm_prune(e, q);
    return err;
}

/* Everything in this list ceases to exist and waits for the slices that remove it. */
static void purge_list(struct engine *e, struct queue *q, struct joblist *list)
{
    if (!list->head)
        return;
    if (q->purging.tail) {
        live_at(e, q->purging.tail)->next = list->head;
        live_at(e, list->head)->prev = q->purging.tail;
    } else {
        q->purging.head = list->head;
    }
    q->purging.tail = list->tail;
    q->purging.count += list->count;
    *list = (struct joblist){0};
}

static void purge_states(struct engine *e, struct queue *q, unsigned states)
{
    for (uint8_t s = 0; s < (uint8_t)STATE_COUNT; s++) {
        if (!(states & STATE_BIT(s)))
            continue;
        if (state_lives(s))
            e->live -= q->lists[s].count;
        e->by_state[s] -= q->lists[s].count;
        ranks_purged(q, s);
        q->in_groups[s] = 0;
        if (s == STATE_READY)
            q->urgent = 0;
        purge_list(e, q, &q->lists[s]);
    }
    heap_done(&q->ready);
    heap_done(&q->due);
    if (q->gone)
        limits_free(e, q);
    else if (q->flow)
        limits_purged(e, q);
    if (q->purging.head || q->gone)
        queues_purge_later(e, q);
    bulk_queue_changes(e, q->number, states);
}

int queues_apply_purged(struct engine *e, const struct rec_purged *r)
{
    struct queue *q = queue_at(e, r->queue);
    if (!q || q->gone)
        return -ERR_CORRUPT;
    unique_purged(q);
    purge_states(e, q, STATES_WAITING);
    q->generation = r->generation;
    return 0;
}

int queues_apply_gone(struct engine *e, uint32_t number)
{
    struct queue *q = queue_at(e, number);
    if (!q || q->gone)
        return -ERR_CORRUPT;
    by_name_remove(e, q);
    map128_drop(&e->queue_map, q->name_key);
    if (e->last_named == q)
        e->last_named = NULL;
    q->gone = true;
    ranks_free(q);
    purge_states(e, q, STATES_ALL);
    return 0;
}

int queues_apply_end(struct engine *e, uint32_t number)
{
    struct queue *q = queue_at(e, number);
    if (!q || !q->gone || q->purging.head)
        return -ERR_CORRUPT;
    for (size_t i = 0; i < e->purging_count; i++)
        if (e->purging_queues[i] == number) {
            e->purging_queues[i] = e->purging_queues[--e->purging_count];
            break;
        }
    for (size_t i = 0; i < e->trim_count; i++)
        if (e->trims[i] == number) {
            e->trims[i] = e->trims[--e->trim_count];
            break;
        }
    counters_forget(e, q);
    number_leave(e, q);
    if (e->out)
        events_keep_name(e, q);
    queues_free(e, q);
    return 0;
}

static void fill_put(const struct queue *q, struct rec_queue_put *r)
{
    *r = (struct rec_queue_put){
        .queue = q->number,
        .generation = q->generation,
        .created_at = q->created_at,
        .updated_at = q->updated_at,
        .paused_until = q->paused_until,
        .name = queue_name(q),
        .owner = span_of(q->texts, q->owner_len),
        .note = span_of(q->texts + q->owner_len, q->note_len),
        .attributes = span_of(q->texts + q->owner_len + q->note_len, q->attributes_len),
    };
}

static int emit_put(struct engine *e, struct rec_queue_put *put, const struct queue_policy *policy,
                    enum event_kind event)
{
    buf_clear(&e->scratch);
    int err = policy_encode(policy, &e->scratch);
    if (err)
        return err;
    put->policy = buf_span(&e->scratch);
    struct record rec = {.kind = REC_QUEUE_PUT, .queue_put = *put};
    err = room_for_queue(e);
    if (!err)
        err = heap_reserve(&e->prune_queues, 3);
    if (!err)
        err = emit_reserve(e, record_bytes_max(&rec));
    if (err)
        return err;
    /* Texts allocate; a failure there must not leave a record behind. Encoded
     * first, since applying frees the texts that the record may point to. */
    size_t mark = e->out->frame.len;
    CHECK(record_encode(&rec, &e->out->frame) == 0);
    err = engine_apply(e, &rec);
    if (err) {
        e->out->frame.len = mark;
        return err;
    }
    e->out->count++;
    e->position++;
    events_queue(e, event, queue_at(e, put->queue), 0);
    events_depth(e, queue_at(e, put->queue));
    return engine_out_wake_room(e->out, e->queue_count);
}

int queues_create(struct engine *e, struct span name, struct queue **ret)
{
    struct rec_queue_put put = {
        .queue = e->queue_next,
        .created_at = e->now.wall,
        .updated_at = e->now.wall,
        .name = name,
    };
    int err = emit_put(e, &put, &e->config.policy, EVENT_QUEUE_CREATED);
    if (!err)
        *ret = queue_at(e, put.queue);
    return err;
}

/* --- for the operations of src/ops --- */

uint64_t queues_count(const struct ops *o, const struct queue_state *q, unsigned states)
{
    uint64_t count = 0;
    (void)o;
    for (int s = 0; s < STATE_COUNT; s++)
        count += states & STATE_BIT(s) ? queue_from(q)->lists[s].count : 0;
    return count;
}

void queues_read(const struct ops *o, const struct queue_state *q, struct rec_queue_put *ret)
{
    (void)o;
    fill_put(queue_from(q), ret);
}

/* Purged jobs are counted in one way while keys must be unique, and in another while they need
 * not be. Therefore they must have been removed. */
bool queues_scope_waits(const struct ops *o, const struct queue_state *q, uint8_t to)
{
    (void)o;
    return (q->policy.unique_scope == UNIQUE_NONE || to == UNIQUE_NONE) &&
           queue_from(q)->purging.head;
}

#define SHARED_LOOKS 100000 /* jobs that are looked at to name some that share a key */

/* Of one at least it is known; more are looked for. */
bool queues_keys_shared(struct ops *o, const struct queue_state *state, struct reply *r)
{
    struct engine *e = engine_of(o);
    struct queue *q = queue_from(state);
    const struct live *one = unique_shared(e, q);
    struct job_view *views = arena_array(o->memory, SHARED_SHOWN, sizeof(*views));
    uint32_t n = 0, looks = 0;
    o->nomem |= q->shared && !views;
    if (!q->shared || !views)
        return q->shared > 0;
    for (int s = 1; s < STATE_COUNT; s++)
        for (uint32_t at = q->lists[s].head; at && n < SHARED_SHOWN && looks < SHARED_LOOKS;
             looks++) {
            const struct live *l = live_at(e, at);
            n += unique_shares(e, l) && view_of(e, l, &views[n]) == 0;
            at = l->next;
        }
    if (n == 0 && one)
        n += view_of(e, one, &views[0]) == 0;
    if (one)
        reply_about(r, &one->job);
    r->jobs = e->reply->views = views;
    r->job_count = n;
    r->job_total = q->shared;
    e->reply->want_body = e->reply->texts_only = true;
    return true;
}

bool queues_put(struct ops *o, const struct queue_state *q, struct rec_queue_put *put,
                const struct queue_policy *policy, enum queue_change change)
{
    static const enum event_kind events[] = {[QUEUE_CREATED] = EVENT_QUEUE_CREATED,
                                             [QUEUE_CHANGED] = EVENT_QUEUE_CHANGED,
                                             [QUEUE_PAUSED] = EVENT_QUEUE_PAUSED,
                                             [QUEUE_RESUMED] = EVENT_QUEUE_RESUMED};
    struct engine *e = engine_of(o);
    if (!q)
        put->queue = e->queue_next;
    return emit_put(e, put, policy, events[change]) == 0;
}

bool queues_commit(struct ops *o, const struct queue_state *q, const struct record *rec,
                   uint64_t count)
{
    struct engine *e = engine_of(o);
    if (emit_reserve(e, record_bytes_max(rec)) != 0)
        return false;
    engine_emit(e, rec);
    events_queue(e, rec->kind == REC_PURGED ? EVENT_QUEUE_PURGED : EVENT_QUEUE_DELETED,
                 queue_from(q), count);
    return true;
}

/* --- queries --- */

static int64_t oldest_ready_ms(const struct engine *e, const struct queue *q)
{
    if (!q->lists[STATE_READY].head)
        return -1;
    int64_t age = e->now.wall.ms - live_at(e, q->lists[STATE_READY].head)->job.since.ms;
    return age > 0 ? age : 0;
}

/* Removes stale entries that it finds, but at most a slice of them. The time is then too early: the
 * caller looks once more than necessary, and the next call continues from there. */
static int64_t next_due_ms(struct engine *e, struct queue *q)
{
    struct heap_entry top;
    size_t looks = 0;
    while (q->lists[STATE_SCHEDULED].count && heap_top(&q->due, &top)) {
        if (valid_due(e, top) || looks++ == e->config.slice)
            return (int64_t)(top.order ^ (UINT64_C(1) << 63));
        heap_pop(&q->due, &top);
    }
    return 0;
}

/* A reply may wait while the queue changes or is deleted, so it gets copies. */
int queue_view_of(struct engine *e, struct queue *q, struct queue_view *ret)
{
    struct arena *arena = &e->out->arena;
    struct rec_queue_put put;
    fill_put(q, &put);
    size_t texts_len = q->owner_len + q->note_len + q->attributes_len;
    const char *name = arena_copy(arena, q->name, q->name_len);
    const char *texts = arena_copy(arena, q->texts, texts_len);
    const struct queue_policy *policy = arena_copy(arena, &q->policy, sizeof(q->policy));
    if (!name || !texts || !policy)
        return -ERR_NOMEM;
    *ret = (struct queue_view){
        .number = q->number,
        .name = span_of(name, q->name_len),
        .owner = span_of(texts, q->owner_len),
        .note = span_of(texts + q->owner_len, q->note_len),
        .attributes = span_of(texts + q->owner_len + q->note_len, q->attributes_len),
        .policy = policy,
        .created_at = q->created_at,
        .updated_at = q->updated_at,
        .paused_until = q->paused_until,
        .totals = q->totals,
    };
    counters_since_boot(q, &ret->counts);
    ret->counts.urgent = q->urgent;
    for (int s = 0; s < STATE_COUNT; s++)
        ret->counts.by_state[s] = q->lists[s].count;
    if (q->flow)
        limits_count(e, q, ret->counts.limited);
    ret->counts.oldest_ready_ms = oldest_ready_ms(e, q);
    ret->counts.next_due.ms = next_due_ms(e, q);
    return 0;
}

static void group_view(const struct engine *e, const struct queue *q, struct span text,
                       struct queue_counts *counts)
{
    struct hash128 key = hash128_scoped(e->hash_key, q->number, text);
    uint32_t handle = (uint32_t)map128_get(&e->group_map, key);
    for (uint8_t s = 0; s < (uint8_t)STATE_COUNT; s++)
        counts->by_state[s] = handle ? group_counted(e, slab_at(&e->groups, handle), s) : 0;
}

void op_queue_get(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    r->after = e->position;
    struct queue *q = op->queue.number && !op->queue.name.len ? queue_at(e, op->queue.number)
                                                              : queues_find(e, op->queue.name);
    if (q && q->gone)
        q = NULL;
    struct queue_view *view = q ? arena_array(&e->out->arena, 1, sizeof(*view)) : NULL;
    if (!view) {
        refuse(r, q ? OUT_UNAVAILABLE : OUT_NO_QUEUE, NULL);
        return;
    }
    if (queue_view_of(e, q, view) != 0) {
        refuse(r, OUT_UNAVAILABLE, "out of memory");
        return;
    }
    if (op->queue.group.len)
        group_view(e, q, op->queue.group, &view->counts);
    r->reply.queues = view;
    r->reply.queue_count = 1;
}

void op_queue_list(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    r->after = e->position;
    size_t at = op->queue.after.len ? by_name_index(e, op->queue.after, true) : 0;
    size_t limit = op->queue.limit && op->queue.limit < LIMIT_BATCH ? op->queue.limit : LIMIT_BATCH;
    size_t count = e->queue_count - at < limit ? e->queue_count - at : limit;
    struct queue_view *views = arena_array(&e->out->arena, count ? count : 1, sizeof(*views));
    if (!views) {
        refuse(r, OUT_UNAVAILABLE, "out of memory");
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (queue_view_of(e, e->by_name[at + i], &views[i]) != 0) {
            refuse(r, OUT_UNAVAILABLE, "out of memory");
            return;
        }
    r->reply.queues = views;
    r->reply.queue_count = (uint32_t)count;
}
