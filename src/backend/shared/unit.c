/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a unit: its rows, its queues, and who is who. */
#include "backend/shared/unit.h"

#include "backend/shared/shared.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ops/kv/kv_check.h"

int unit_init(struct unit *u, struct shared *s)
{
    *u = (struct unit){.s = s};
    u->store = &unit_ops_store;
    u->random = &s->random;
    u->memory = &u->arena;
    u->limits = &s->limits;
    u->hash_key = s->facts.hash_key;
    buf_init(&u->scratch);
    arena_init(&u->arena);
    map128_init(&u->name_map);
    map64_init(&u->by_seq);
    map128_init(&u->wkey_map);
    map128_init(&u->group_map);
    u->ended_last = &u->ended;
    u->happened_last = &u->happened;
    unit_alerts_reset(u);
    unit_dependencies_init(u);
    return 0;
}

/* Turns stay: they may be worked again. */
void unit_reset(struct unit *u)
{
    for (size_t i = 0; i < u->queue_count; i++)
        heap_done(&u->queues[i]->ready);
    unit_groups_reset(u);
    map128_done(&u->name_map);
    map64_done(&u->by_seq);
    map128_init(&u->name_map);
    map64_init(&u->by_seq);
    if (u->wkey_count) {
        map128_done(&u->wkey_map);
        map128_init(&u->wkey_map);
    }
    arena_reset(&u->arena);
    u->nomem = u->alone = u->short_of_numbers = u->short_of_limits = false;
    u->sharers = NULL;
    u->sharer_count = 0;
    u->sharers_beyond = 0;
    u->rescoped = NULL;
    u->bulk = NULL;
    u->seq_high = u->seq_floor = 0;
    u->name_count = u->row_count = u->queue_count = 0;
    u->seq_count = u->seq_next = u->number_count = u->number_next = 0;
    u->queues_there = 0;
    u->idems = NULL;
    u->loaded_replies = u->new_replies = NULL;
    u->ended = NULL;
    u->ended_last = &u->ended;
    u->happened = NULL;
    u->happened_last = &u->happened;
    unit_alerts_reset(u);
    unit_dependencies_reset(u);
    u->schedule_count = u->flow_count = 0;
    u->flows = NULL;
    u->schedules_there = 0;
    u->schedule_number = 0;
    u->wkey_count = u->version_count = u->version_next = 0;
    u->versions = NULL;
    u->kv_keys = u->kv_bytes = 0;
    u->key_adds = u->kv_key_adds = u->kv_byte_adds = 0;
    u->rates = NULL;
    u->idem_replaced = false;
    u->records = 0;
    u->live = u->keys = u->body_bytes = u->position = 0;
}

void unit_done(struct unit *u)
{
    unit_reset(u);
    map128_done(&u->name_map);
    map64_done(&u->by_seq);
    map128_done(&u->wkey_map);
    map128_done(&u->group_map);
    buf_done(&u->scratch);
    arena_done(&u->arena);
    mem_free(u->names);
    mem_free(u->rows);
    mem_free(u->queues);
    mem_free(u->groups);
    mem_free(u->wkeys);
    mem_free(u->schedules);
    unit_dependencies_done(u);
}

void *unit_alloc(struct unit *u, size_t size)
{
    void *p = arena_array(&u->arena, 1, size);
    if (!p)
        u->nomem = true;
    return p;
}

bool unit_room(struct unit *u, void *array, size_t *have, size_t used, size_t size)
{
    void **at = array;
    if (used < *have)
        return true;
    void *grown = mem_regrow(*at, *have * 2 + 64, size);
    if (!grown) {
        u->nomem = true;
        return false;
    }
    *at = grown;
    *have = *have * 2 + 64;
    return true;
}

bool unit_text_safe(struct span s)
{
    return s.len == 0 || (utf8_valid(s) && !memchr(s.at, 0, s.len));
}

struct wanted_name *unit_want_name(struct unit *u, struct span name)
{
    if (!unit_text_safe(name))
        return NULL; /* no queue has it */
    struct hash128 key = hash128_of(u->s->facts.hash_key, name);
    uint64_t found = map128_get(&u->name_map, key);
    if (found)
        return &u->names[found - 1];
    if (!unit_room(u, &u->names, &u->name_room, u->name_count, sizeof *u->names) ||
        map128_put(&u->name_map, key, u->name_count + 1) != 0) {
        u->nomem = true;
        return NULL;
    }
    u->names[u->name_count] = (struct wanted_name){.name = name};
    return &u->names[u->name_count++];
}

struct row *unit_row(const struct unit *u, uint64_t seq)
{
    uint32_t at = seq ? map64_get(&u->by_seq, seq) : 0;
    return at ? u->rows[at - 1] : NULL;
}

struct row *unit_row_add(struct unit *u, uint64_t seq)
{
    struct row *r = unit_alloc(u, sizeof *r);
    if (!r || !unit_room(u, &u->rows, &u->row_room, u->row_count, sizeof(struct row *)))
        return NULL;
    if (map64_put(&u->by_seq, seq, (uint32_t)u->row_count + 1) != 0) {
        u->nomem = true;
        return NULL;
    }
    r->job.seq = seq;
    u->rows[u->row_count++] = r;
    return r;
}

bool unit_row_there(const struct row *r)
{
    bool waits = (STATE_BIT(r->job.state) & STATES_WAITING) != 0;
    return !r->gone && !r->q->gone && !(waits && r->job.generation != r->q->generation);
}

struct row *unit_find(const struct unit *u, struct job_ref ref)
{
    struct row *r = unit_row(u, ref.seq);
    return r && unit_row_there(r) && (!ref.hi || ref.hi == r->job.id_hi) ? r : NULL;
}

struct wqueue *unit_queue_add(struct unit *u, uint32_t number, struct span name)
{
    struct wqueue *q = unit_alloc(u, sizeof *q);
    if (!q || !unit_room(u, &u->queues, &u->queue_room, u->queue_count, sizeof(struct wqueue *)))
        return NULL;
    q->number = number;
    q->name = name;
    heap_init(&q->ready);
    u->queues[u->queue_count++] = q;
    return q;
}

struct row *unit_row_absent(struct unit *u, struct row *r)
{
    r->q = unit_queue_add(u, r->job.queue, (struct span){NULL, 0});
    if (!r->q)
        return NULL;
    r->q->gone = true;
    return r;
}

/* A unit has few queues, but a claim may name a thousand. */
struct wqueue *unit_queue(const struct unit *u, uint32_t number)
{
    for (size_t i = 0; i < u->queue_count; i++)
        if (u->queues[i]->number == number)
            return u->queues[i];
    return NULL;
}

struct wqueue *unit_queue_named(const struct unit *u, struct span name)
{
    for (size_t i = 0; i < u->queue_count; i++)
        if (!u->queues[i]->gone && span_equal(u->queues[i]->name, name))
            return u->queues[i];
    return NULL;
}

bool unit_queue_paused(const struct unit *u, const struct wqueue *q)
{
    return q->paused_until.ms > u->now.ms;
}

struct row *unit_holder(const struct unit *u, const struct wqueue *q, struct span key)
{
    for (size_t i = 0; i < u->row_count; i++) {
        struct row *r = u->rows[i];
        if (r->held && r->q == q && span_equal(r->extra.unique, key))
            return r;
    }
    return NULL;
}

int64_t unit_queue_sum(const struct wqueue *q, int column)
{
    return q->sums[column] + q->adds[column];
}

uint64_t unit_queue_state_count(const struct wqueue *q, uint8_t state)
{
    int64_t n = unit_queue_sum(q, state - 1);
    return n > 0 ? (uint64_t)n : 0;
}

uint64_t unit_queue_live(const struct wqueue *q)
{
    return unit_queue_state_count(q, STATE_SCHEDULED) + unit_queue_state_count(q, STATE_READY) +
           unit_queue_state_count(q, STATE_RUNNING) + unit_queue_state_count(q, STATE_BLOCKED);
}

/* --- replies --- */

bool unit_refuse(struct turn *t, enum outcome out, const char *note)
{
    t->reply.outcome = out;
    t->reply.note = note;
    return false;
}
