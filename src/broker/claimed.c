/* SPDX-License-Identifier: Apache-2.0 */
/* Who claims from each queue, so that a job can say why no one takes it (why.c): when the last
 * claim asked for its jobs, whether one waits now, and which breakers workers consult before they
 * claim from it (POST /v1/breakers/{name}/allow names the queues).
 *
 * Nothing of this is durable. This node remembers at most QUEUES_MAX queues: then the one without a
 * claim for the longest time is forgotten. Nodes that share a store write their entries into the
 * registry of workers (workers.c), each at most once in WRITE_MS, and read those of the other nodes
 * for the one queue that is asked about. */
#include <string.h>

#include "base/mem.h"
#include "broker/broker_impl.h"
#include "core/limits.h"
#include "core/records/wire.h"

#define QUEUES_MAX 10000
#define KEEP_MS (INT64_C(3600) * 1000)
#define KEEP_BREAKERS_MS (INT64_C(1000) * LIMIT_BREAKER_COOLDOWN_S + KEEP_MS)
#define WRITE_MS 10000

/* ---- the entries of this node ---- */

static void unlink_queue(struct claimed_queues *cs, struct claimed_queue *q)
{
    *(q->prev ? &q->prev->next : &cs->first) = q->next;
    *(q->next ? &q->next->prev : &cs->last) = q->prev;
    q->prev = q->next = NULL;
}

static void link_first(struct claimed_queues *cs, struct claimed_queue *q)
{
    q->next = cs->first;
    *(cs->first ? &cs->first->prev : &cs->last) = q;
    cs->first = q;
}

static void queue_free(struct claimed_queues *cs, struct claimed_queue *q)
{
    unlink_queue(cs, q);
    map128_drop(&cs->by_name, q->key);
    cs->count--;
    mem_free(q);
}

static struct claimed_queue *queue_find(const struct broker *b, struct span name)
{
    return (struct claimed_queue *)(uintptr_t)map128_get(&b->claimed.by_name,
                                                         hash128_of(b->hash_key, name));
}

static struct claimed_queue *queue_add(struct broker *b, struct span name)
{
    struct claimed_queues *cs = &b->claimed;
    if (cs->count >= QUEUES_MAX)
        queue_free(cs, cs->last);
    struct claimed_queue *q = mem_zalloc(sizeof *q + name.len);
    if (!q)
        return NULL;
    q->key = hash128_of(b->hash_key, name);
    if (map128_put(&cs->by_name, q->key, (uintptr_t)q) != 0) {
        mem_free(q);
        return NULL;
    }
    memcpy(q + 1, name.at, name.len);
    q->name = span_of(q + 1, name.len);
    link_first(cs, q);
    cs->count++;
    return q;
}

/* Something happened to this queue. Most claims ask for the queue of the claim before. */
static struct claimed_queue *queue_seen(struct broker *b, struct span name)
{
    struct claimed_queues *cs = &b->claimed;
    struct claimed_queue *q = cs->first;
    if (!name.len || name.len > LIMIT_QUEUE_NAME_BYTES)
        return NULL;
    if (!q || !span_equal(q->name, name)) {
        q = queue_find(b, name);
        if (q) {
            unlink_queue(cs, q);
            link_first(cs, q);
        } else {
            q = queue_add(b, name);
        }
    }
    if (q && !q->changed) {
        q->changed = true;
        workers_write_later(b);
    }
    return q;
}

void claimed_seen(struct broker *b, const struct span *queues, uint32_t count)
{
    struct wall_time now = broker_now(b).wall;
    for (uint32_t i = 0; i < count; i++) {
        struct claimed_queue *q = queue_seen(b, queues[i]);
        if (q)
            q->at = now;
    }
}

void claimed_observe(struct broker *b, const struct op *op, const struct reply *r)
{
    if (op->kind == OP_TRIGGER && r->outcome == OUT_OK && r->schedule_count > 0)
        claimed_seen(b, &r->schedules[0].spec.source, 1);
}

/* The entry of this breaker, or else the one to be replaced. */
static struct claimed_breaker *breaker_place(struct claimed_queue *q, struct span name)
{
    struct claimed_breaker *oldest = &q->breakers[0];
    for (uint32_t i = 0; i < CLAIMED_BREAKERS; i++) {
        struct claimed_breaker *b = &q->breakers[i];
        if (b->len == name.len && memcmp(b->name, name.at, name.len) == 0)
            return b;
        if (b->at.ms < oldest->at.ms)
            oldest = b;
    }
    return oldest;
}

void broker_breaker_used(struct broker *b, struct span breaker, const struct span *queues,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct claimed_queue *q =
            breaker.len <= LIMIT_BREAKER_NAME_BYTES ? queue_seen(b, queues[i]) : NULL;
        if (!q)
            continue;
        struct claimed_breaker *to = breaker_place(q, breaker);
        to->len = (uint8_t)breaker.len;
        to->at = broker_now(b).wall;
        memcpy(to->name, breaker.at, breaker.len);
    }
}

/* ---- entries that nodes exchange ---- */

static struct wall_time keep_until(const struct claimed_queue *q)
{
    int64_t until = q->at.ms + KEEP_MS;
    for (uint32_t i = 0; i < CLAIMED_BREAKERS; i++) {
        int64_t ms = q->breakers[i].at.ms + KEEP_BREAKERS_MS;
        until = q->breakers[i].len && ms > until ? ms : until;
    }
    return (struct wall_time){until < LIMIT_WALL_MS ? until : LIMIT_WALL_MS};
}

static uint8_t *facts_encode(const struct broker *b, const struct claimed_queue *q, uint8_t *at)
{
    at = put_varint(at, b->workers.epoch);
    at = put_wall(at, q->at);
    at = put_u8(at, claims_wait_for(b, q->name));
    for (uint32_t i = 0; i < CLAIMED_BREAKERS; i++) {
        at = put_span(at, span_of(q->breakers[i].name, q->breakers[i].len));
        at = put_wall(at, q->breakers[i].at);
    }
    return at;
}

static bool is_due(const struct broker *b, const struct claimed_queue *q)
{
    uint64_t now = uv_now(b->config.loop);
    return q->changed && (q->written_ms == 0 || now - q->written_ms >= WRITE_MS);
}

bool claimed_unwritten(const struct broker *b)
{
    for (const struct claimed_queue *q = b->claimed.first; q; q = q->next)
        if (q->changed)
            return true;
    return false;
}

uint32_t claimed_gather(struct broker *b, struct arena *a, struct worker_entry *entries,
                        uint32_t room)
{
    uint32_t n = 0;
    for (struct claimed_queue *q = b->claimed.first; q && n < room; q = q->next) {
        uint8_t *facts = is_due(b, q) ? arena_alloc(a, LIMIT_WORKER_FACTS_BYTES) : NULL;
        struct span name = facts ? registry_name(a, REGISTRY_QUEUE, q->name) : SPAN_LITERAL("");
        if (!name.len)
            continue;
        uint8_t *end = facts_encode(b, q, facts);
        entries[n++] = (struct worker_entry){.name = name,
                                             .keep_until = keep_until(q),
                                             .facts = span_of(facts, (size_t)(end - facts))};
        q->changed = false;
        q->written_ms = uv_now(b->config.loop);
    }
    return n;
}

void claimed_lost(struct broker *b)
{
    for (struct claimed_queue *q = b->claimed.first; q; q = q->next)
        q->changed = true;
}

/* ---- what is known of a queue ---- */

static void note_breaker(struct claimed_facts *f, struct span name, struct wall_time at)
{
    for (uint32_t i = 0; i < f->breaker_count; i++)
        if (span_equal(span_of(f->breakers[i].name, f->breakers[i].len), name)) {
            f->breakers[i].at.ms = at.ms > f->breakers[i].at.ms ? at.ms : f->breakers[i].at.ms;
            return;
        }
    if (!name.len || f->breaker_count == CLAIMED_BREAKERS)
        return;
    struct claimed_breaker *to = &f->breakers[f->breaker_count++];
    *to = (struct claimed_breaker){.at = at, .len = (uint8_t)name.len};
    memcpy(to->name, name.at, name.len);
}

void claimed_here(const struct broker *b, struct span queue, struct claimed_facts *ret)
{
    const struct claimed_queue *q = queue_find(b, queue);
    *ret = (struct claimed_facts){.waiting = claims_wait_for(b, queue)};
    if (!q)
        return;
    ret->at = q->at;
    for (uint32_t i = 0; i < CLAIMED_BREAKERS; i++)
        note_breaker(ret, span_of(q->breakers[i].name, q->breakers[i].len), q->breakers[i].at);
}

/* A node that has stopped without notice left its claims waiting. */
static bool node_lives(const struct broker *b, uint32_t epoch)
{
    struct backend_cluster c;
    backend_cluster(b->config.backend, &c);
    for (size_t i = 0; i < c.node_count; i++)
        if (c.nodes[i].epoch == epoch)
            return !c.nodes[i].silent;
    return false;
}

void claimed_elsewhere(const struct broker *b, const struct worker_entry *e,
                       struct claimed_facts *ret)
{
    struct wire_in in = {e->facts, false};
    uint32_t epoch = take_u32(&in);
    struct wall_time at = take_wall(&in);
    bool waiting = take_u8(&in) != 0;
    struct claimed_breaker breakers[CLAIMED_BREAKERS];
    struct span names[CLAIMED_BREAKERS];
    for (uint32_t i = 0; i < CLAIMED_BREAKERS; i++) {
        names[i] = take_text(&in, LIMIT_BREAKER_NAME_BYTES);
        breakers[i].at = take_wall(&in);
    }
    if (!wire_ended(&in) || epoch == b->workers.epoch)
        return;
    ret->at.ms = at.ms > ret->at.ms ? at.ms : ret->at.ms;
    ret->waiting = ret->waiting || (waiting && node_lives(b, epoch));
    for (uint32_t i = 0; i < CLAIMED_BREAKERS; i++)
        note_breaker(ret, names[i], breakers[i].at);
}

/* ---- open and close ---- */

void claimed_init(struct broker *b)
{
    map128_init(&b->claimed.by_name);
}

void claimed_done(struct broker *b)
{
    while (b->claimed.first)
        queue_free(&b->claimed, b->claimed.first);
    map128_done(&b->claimed.by_name);
}
