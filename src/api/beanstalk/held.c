/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs that a connection has reserved: usually one, sometimes thousands. A large number of
 * them gets an index.
 *
 * The engine ends a lease that has expired. Its job stays in this list until a command names it,
 * or until the earliest deadline is computed again. */
#include "api/beanstalk/impl.h"
#include "base/check.h"
#include "base/mem.h"

#define INDEX_FROM 32 /* fewer are searched one by one */
#define GRACE_MS 1000 /* the engine and this file may differ slightly about when a lease ended */

static void index_drop(struct conn *c)
{
    if (c->indexed)
        map64_done(&c->held_index);
    c->indexed = false;
}

/* Without memory for the index, the jobs are searched one by one. */
static void index_build(struct conn *c)
{
    map64_init(&c->held_index);
    c->indexed = true;
    for (uint32_t i = 0; i < c->held_count && c->indexed; i++)
        if (map64_put(&c->held_index, c->held[i].seq, i + 1) != 0)
            index_drop(c);
}

static uint32_t place_of(const struct conn *c, uint64_t seq)
{
    if (c->indexed)
        return seq ? map64_get(&c->held_index, seq) : 0;
    for (uint32_t i = 0; i < c->held_count; i++)
        if (c->held[i].seq == seq)
            return i + 1;
    return 0;
}

struct held *held_find(const struct conn *c, uint64_t seq)
{
    uint32_t place = place_of(c, seq);
    return place ? &c->held[place - 1] : NULL;
}

static bool held_room(struct conn *c)
{
    if (c->held_count < c->held_room)
        return true;
    uint32_t room = c->held_room ? c->held_room * 2 : 2;
    struct held *grown = mem_regrow(c->held, room, sizeof *grown);
    if (!grown)
        return false;
    c->held = grown;
    c->held_room = room;
    return true;
}

static void held_append(struct conn *c, const struct held *h)
{
    CHECK(c->held); /* held_room has allocated it */
    c->held[c->held_count++] = *h;
    if (h->until_ms < c->soonest_ms || c->held_count == 1)
        c->soonest_ms = h->until_ms;
    if (c->indexed && map64_put(&c->held_index, h->seq, c->held_count) != 0)
        index_drop(c);
    else if (!c->indexed && c->held_count == INDEX_FROM)
        index_build(c);
}

/* A job that the same connection reserves again after its lease has ended takes its old place. */
bool held_add(struct conn *c, const struct held *h)
{
    struct held *old = held_find(c, h->seq);
    if (old) {
        tube_unref(c->api, old->tube);
        *old = *h;
        c->soonest_ms = h->until_ms < c->soonest_ms ? h->until_ms : c->soonest_ms;
        return true;
    }
    if (!held_room(c))
        return false;
    held_append(c, h);
    return true;
}

static void remove_at(struct conn *c, uint32_t at)
{
    if (c->indexed)
        map64_drop(&c->held_index, c->held[at].seq);
    c->held_count--;
    if (at < c->held_count) {
        c->held[at] = c->held[c->held_count];
        if (c->indexed && map64_put(&c->held_index, c->held[at].seq, at + 1) != 0)
            index_drop(c);
    }
    if (c->held_count == 0)
        index_drop(c);
}

bool held_take(struct conn *c, uint64_t seq, struct held *ret)
{
    uint32_t place = place_of(c, seq);
    if (!place)
        return false;
    *ret = c->held[place - 1];
    remove_at(c, place - 1);
    return true;
}

/* If the room that it left is used, the job is released. */
void held_put_back(struct conn *c, const struct held *h)
{
    if (held_room(c)) {
        held_append(c, h);
        return;
    }
    struct broker_held job = {h->seq, h->token};
    broker_give_back(c->api->broker, &job, 1);
    tube_unref(c->api, h->tube);
}

/* Computes soonest_ms exactly, without leases that have expired. */
static void soonest_find(struct conn *c, int64_t now)
{
    c->soonest_ms = INT64_MAX;
    for (uint32_t i = c->held_count; i-- > 0;) {
        const struct held *h = &c->held[i];
        if (h->until_ms + GRACE_MS < now) {
            tube_unref(c->api, h->tube);
            remove_at(c, i);
        } else if (h->until_ms >= now && h->until_ms < c->soonest_ms) {
            c->soonest_ms = h->until_ms;
        }
    }
}

bool held_deadline_soon(struct conn *c)
{
    int64_t now = bs_now_ms(c->api);
    if (c->held_count == 0 || c->soonest_ms - BS_SAFETY_MS > now)
        return false;
    soonest_find(c, now);
    return c->soonest_ms - BS_SAFETY_MS <= now;
}

void held_release_all(struct conn *c)
{
    for (uint32_t i = 0; i < c->held_count; i++) {
        struct broker_held job = {c->held[i].seq, c->held[i].token};
        broker_give_back(c->api->broker, &job, 1);
        tube_unref(c->api, c->held[i].tube);
    }
    index_drop(c);
    mem_free(c->held);
    c->held = NULL;
    c->held_count = c->held_room = 0;
}
