/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that depend on others, in memory: sorted arrays, searched by halving. */
#include <inttypes.h>
#include <string.h>

#include "backend/local/memory/store_memory.h"
#include "base/mem.h"

/* The first of the rows, by rising sequence, that is not below seq. Each begins with its
 * sequence. */
static size_t place_in(const void *rows, size_t count, size_t size, uint64_t seq)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        uint64_t at;
        memcpy(&at, (const char *)rows + mid * size, sizeof at);
        if (at < seq)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static size_t place(const struct kept_dependencies *k, uint64_t seq)
{
    return place_in(k->list, k->count, sizeof *k->list, seq);
}

static size_t end_place(const struct kept_dependencies *k, uint64_t seq)
{
    return place_in(k->ends, k->end_count, sizeof *k->ends, seq);
}

static uint32_t parent_place(const struct kept_dependent *d, uint64_t parent)
{
    return (uint32_t)place_in(d->parents, d->count, sizeof *d->parents, parent);
}

/* NULL: not found. */
static struct kept_dependent *need(struct store_memory *m, uint64_t seq, struct err_note *note)
{
    struct kept_dependencies *k = &m->dependencies;
    size_t at = place(k, seq);
    if (at < k->count && k->list[at].put.seq == seq)
        return &k->list[at];
    (void)err_note_set(note, -ERR_CORRUPT,
                       "a record names job %" PRIu64 ", which depends on nothing", seq);
    return NULL;
}

static int put(struct kept_dependencies *k, const struct rec_dependent_put *r)
{
    size_t at = place(k, r->seq);
    bool is_new = at == k->count || k->list[at].put.seq != r->seq;
    struct kept_dependent *list = mem_more(k->list, k->count, &k->room, sizeof *list);
    if (!list)
        return -ERR_NOMEM;
    k->list = list;
    if (is_new) {
        memmove(list + at + 1, list + at, (k->count - at) * sizeof *list);
        list[at] = (struct kept_dependent){0};
        k->count++;
    }
    list[at].put = *r;
    return 0;
}

static int gone(struct store_memory *m, uint64_t seq, struct err_note *note)
{
    struct kept_dependencies *k = &m->dependencies;
    struct kept_dependent *d = need(m, seq, note);
    if (!d)
        return -ERR_CORRUPT;
    if (d->count > 0)
        return err_note_set(note, -ERR_CORRUPT, "job %" PRIu64 " still waits for others", seq);
    mem_free(d->parents);
    k->count--;
    memmove(d, d + 1, (k->count - (size_t)(d - k->list)) * sizeof *d);
    return 0;
}

static int add(struct kept_dependent *d, uint64_t parent, struct err_note *note)
{
    uint32_t at = parent_place(d, parent);
    if (at < d->count && d->parents[at] == parent)
        return err_note_set(note, -ERR_CORRUPT, "job %" PRIu64 " waits twice for one job",
                            d->put.seq);
    size_t room = d->room;
    uint64_t *grown = mem_more(d->parents, d->count, &room, sizeof *grown);
    if (!grown)
        return -ERR_NOMEM;
    d->parents = grown;
    d->room = (uint32_t)room;
    memmove(grown + at + 1, grown + at, (d->count - at) * sizeof *grown);
    grown[at] = parent;
    d->count++;
    return 0;
}

static int more(struct store_memory *m, const struct rec_dependencies_new *r, struct err_note *note)
{
    struct span list = r->parents;
    uint64_t previous = 0, parent;
    struct kept_dependent *d = need(m, r->seq, note);
    int rc = d ? 0 : -ERR_CORRUPT;
    for (uint32_t i = 0; d && i < r->count && rc == 0; i++) {
        rc = record_seq_next(&list, &previous, &parent);
        if (rc == 0)
            rc = add(d, parent, note);
    }
    if (d && rc == 0)
        d->put.dependent.counts[DEPENDENCY_END_NONE] += r->count;
    return rc;
}

static int forget_end(struct kept_dependencies *k, uint64_t seq, struct err_note *note)
{
    size_t at = end_place(k, seq);
    if (at == k->end_count || k->ends[at].seq != seq)
        return err_note_set(note, -ERR_CORRUPT, "the end of job %" PRIu64 " is not known", seq);
    k->end_count--;
    memmove(k->ends + at, k->ends + at + 1, (k->end_count - at) * sizeof *k->ends);
    return 0;
}

static int ended(struct store_memory *m, const struct rec_dependency_end *r, struct err_note *note)
{
    struct kept_dependent *d = need(m, r->seq, note);
    if (!d)
        return -ERR_CORRUPT;
    uint32_t at = parent_place(d, r->parent);
    if (at == d->count || d->parents[at] != r->parent)
        return err_note_set(note, -ERR_CORRUPT, "job %" PRIu64 " does not wait for job %" PRIu64,
                            r->seq, r->parent);
    d->count--;
    memmove(d->parents + at, d->parents + at + 1, (d->count - at) * sizeof *d->parents);
    if (r->how != DEPENDENCY_END_NONE)
        d->put.dependent.counts[r->how]++;
    return r->last ? forget_end(&m->dependencies, r->parent, note) : 0;
}

static int parent_ended(struct kept_dependencies *k, const struct rec_dependent *r)
{
    size_t at = end_place(k, r->seq);
    struct kept_end *ends = mem_more(k->ends, k->end_count, &k->end_room, sizeof *ends);
    if (!ends)
        return -ERR_NOMEM;
    k->ends = ends;
    if (at == k->end_count || ends[at].seq != r->seq) {
        memmove(ends + at + 1, ends + at, (k->end_count - at) * sizeof *ends);
        k->end_count++;
    }
    ends[at] = (struct kept_end){r->seq, r->how};
    return 0;
}

int memory_dependency_record(struct store_memory *m, const struct record *r, struct err_note *note)
{
    switch ((int)r->kind) {
    case REC_DEPENDENT_PUT:
        return put(&m->dependencies, &r->dependent_put);
    case REC_DEPENDENT_GONE:
        return gone(m, r->dependent.seq, note);
    case REC_DEPENDENCIES_NEW:
        return more(m, &r->dependencies_new, note);
    case REC_DEPENDENCY_END:
        return ended(m, &r->dependency_end, note);
    case REC_PARENT_ENDED:
        return parent_ended(&m->dependencies, &r->dependent);
    default:
        return -ERR_VERSION;
    }
}

int memory_load_dependencies(const struct store_memory *m, const struct store_sink *sink)
{
    const struct kept_dependencies *k = &m->dependencies;
    int rc = 0;
    for (size_t i = 0; i < k->count && rc == 0; i++)
        rc = sink->dependent(sink->ctx, &k->list[i].put);
    for (size_t i = 0; i < k->count && rc == 0; i++)
        for (uint32_t p = 0; p < k->list[i].count && rc == 0; p++)
            rc = sink->dependency(sink->ctx, k->list[i].put.seq, k->list[i].parents[p]);
    for (size_t i = 0; i < k->end_count && rc == 0; i++)
        rc = sink->parent_ended(sink->ctx, k->ends[i].seq, k->ends[i].how);
    return rc;
}

void memory_dependencies_free(struct store_memory *m)
{
    for (size_t i = 0; i < m->dependencies.count; i++)
        mem_free(m->dependencies.list[i].parents);
    mem_free(m->dependencies.list);
    mem_free(m->dependencies.ends);
}
