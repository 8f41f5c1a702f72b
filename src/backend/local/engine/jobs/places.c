/* SPDX-License-Identifier: Apache-2.0 */
/* A four-way heap of places. Unlike base/containers/heap.h it orders by three numbers, and each
 * line knows its index. */
#include "backend/local/engine/jobs/limits.h"

#define WAYS 4
#define ROOM_MIN 16

int places_reserve(struct engine *e, struct places *p, size_t more)
{
    if (p->room - p->count >= more)
        return 0;
    size_t room = p->room ? p->room * 2 : ROOM_MIN;
    while (room - p->count < more)
        room *= 2;
    struct place *grown = mem_regrow(p->list, room, sizeof(*grown));
    if (!grown)
        return -ERR_NOMEM;
    e->queue_bytes += (room - p->room) * sizeof(*grown);
    p->list = grown;
    p->room = room;
    return 0;
}

void places_free(struct engine *e, struct places *p)
{
    e->queue_bytes -= p->room * sizeof(*p->list);
    mem_free(p->list);
    *p = (struct places){0};
}

static void set(struct engine *e, struct places *p, size_t index, struct place place)
{
    p->list[index] = place;
    line_at(e, place.line)->place = (uint32_t)index + 1;
}

static void rise(struct engine *e, struct places *p, size_t index, struct place place)
{
    while (index > 0) {
        size_t above = (index - 1) / WAYS;
        if (!claim_place_before(&place.at, &p->list[above].at))
            break;
        set(e, p, index, p->list[above]);
        index = above;
    }
    set(e, p, index, place);
}

/* The first of the places below; the count = no place is below. */
static size_t first_below(const struct places *p, size_t index)
{
    size_t child = WAYS * index + 1, end = child + WAYS, first = child;
    if (child >= p->count)
        return p->count;
    end = end < p->count ? end : p->count;
    for (size_t i = child + 1; i < end; i++)
        if (claim_place_before(&p->list[i].at, &p->list[first].at))
            first = i;
    return first;
}

static void sink(struct engine *e, struct places *p, size_t index, struct place place)
{
    size_t child;
    while ((child = first_below(p, index)) < p->count &&
           claim_place_before(&p->list[child].at, &place.at)) {
        set(e, p, index, p->list[child]);
        index = child;
    }
    set(e, p, index, place);
}

static void settle(struct engine *e, struct places *p, size_t index, struct place place)
{
    if (index > 0 && claim_place_before(&place.at, &p->list[(index - 1) / WAYS].at))
        rise(e, p, index, place);
    else
        sink(e, p, index, place);
}

void places_put(struct engine *e, struct places *p, uint32_t line, struct claim_place at)
{
    struct place place = {at, line};
    uint32_t index = line_at(e, line)->place;
    if (index) {
        settle(e, p, index - 1, place);
        return;
    }
    CHECK(p->count < p->room);
    p->count++;
    rise(e, p, p->count - 1, place);
}

void places_drop(struct engine *e, struct places *p, uint32_t line)
{
    size_t index = line_at(e, line)->place;
    if (!index--)
        return;
    line_at(e, line)->place = 0;
    struct place last = p->list[--p->count];
    if (index < p->count)
        settle(e, p, index, last);
}
