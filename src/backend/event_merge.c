/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/event_merge.h"

#include "base/mem.h"

#define RING 16384u
#define EPOCH_SHIFT 40
#define AT_ONCE 64

int event_merge_init(struct event_merge *m, unsigned source_count, uint32_t epoch,
                     event_seq_fn seq_out, const void *ctx)
{
    *m = (struct event_merge){.source_count = source_count, .seq_out = seq_out, .ctx = ctx};
    m->sources = mem_array(source_count, sizeof *m->sources);
    m->ring = mem_array(RING, sizeof *m->ring);
    m->oldest = m->next = ((uint64_t)epoch << EPOCH_SHIFT) + 1;
    if (m->sources && m->ring)
        return 0;
    event_merge_done(m);
    return -ERR_NOMEM;
}

void event_merge_done(struct event_merge *m)
{
    mem_free(m->sources);
    mem_free(m->ring);
    *m = (struct event_merge){.sources = NULL};
}

/* Leaves out one id, which no event has. Every listener then finds a gap and reads the whole state
 * again, because it cannot know which events it has missed. */
static void leave_gap(struct event_merge *m)
{
    m->next++;
    m->oldest = m->next;
}

void event_merge_source(struct event_merge *m, unsigned source, struct backend *backend)
{
    struct event_source *s = &m->sources[source];
    if (s->backend)
        leave_gap(m);
    *s = (struct event_source){backend, 0};
    if (backend) /* from the first event of its current boot */
        s->seen = backend_events_last(backend) >> EPOCH_SHIFT << EPOCH_SHIFT;
}

static void add(struct event_merge *m, unsigned source, uint64_t id)
{
    m->ring[m->next % RING] = (struct event_ref){id, source};
    m->next++;
    if (m->next - m->oldest > RING)
        m->oldest = m->next - RING;
}

static void pull_from(struct event_merge *m, unsigned source)
{
    struct event_source *s = &m->sources[source];
    struct backend_event found[AT_ONCE];
    uint64_t oldest;
    size_t count;
    if (backend_events_missed(s->backend, s->seen)) {
        leave_gap(m);
        s->seen = backend_events_last(s->backend);
        return;
    }
    do {
        count = backend_events(s->backend, s->seen, 0, found, AT_ONCE, &oldest);
        for (size_t i = 0; i < count; i++)
            add(m, source, found[i].id);
        if (count > 0)
            s->seen = found[count - 1].id;
    } while (count == AT_ONCE);
}

void event_merge_pull(struct event_merge *m)
{
    for (unsigned i = 0; i < m->source_count; i++) {
        if (m->sources[i].backend && backend_events_last(m->sources[i].backend) != 0)
            pull_from(m, i);
    }
}

/* Returns how many events from `id` on, at most max, belong to one source and are consecutive
 * there. */
static size_t run_of(const struct event_merge *m, uint64_t id, size_t max)
{
    struct event_ref first = m->ring[id % RING];
    size_t n = 1;
    while (n < max && id + n < m->next) {
        struct event_ref ref = m->ring[(id + n) % RING];
        if (ref.source != first.source || ref.id != first.id + n)
            break;
        n++;
    }
    return n;
}

/* Reads events from `id` on, as many as one call to their source returns; *ret_next is the id to
 * continue with. Events that the source no longer stores are left out. */
static size_t fetch(const struct event_merge *m, uint64_t id, struct backend_event *out, size_t max,
                    uint64_t *ret_next)
{
    struct event_ref ref = m->ring[id % RING];
    const struct backend *from = m->sources[ref.source].backend;
    size_t run = run_of(m, id, max), count = 0, n = 0;
    uint64_t oldest;
    if (from)
        count = backend_events(from, ref.id - 1, 0, out, run, &oldest);
    for (size_t i = 0; i < count; i++) {
        if (out[i].id - ref.id >= run)
            break;
        out[n] = out[i];
        out[n].id = id + (out[i].id - ref.id);
        n++;
    }
    *ret_next = id + run;
    return n;
}

size_t event_merge_read(struct event_merge *m, uint64_t after, uint64_t kinds,
                        struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    size_t n = 0;
    event_merge_pull(m);
    *ret_oldest = m->oldest;
    if (after >= m->next)
        return 0;
    uint64_t id = after < m->oldest ? m->oldest : after + 1;
    while (n < max && id < m->next) {
        unsigned source = m->ring[id % RING].source;
        size_t first = n, count = fetch(m, id, &out[first], max - n, &id);
        for (size_t i = 0; i < count; i++) {
            if (kinds && !(kinds & UINT64_C(1) << out[first + i].kind))
                continue;
            out[n] = out[first + i];
            out[n].seq = m->seq_out(m->ctx, source, out[n].seq);
            n++;
        }
    }
    return n;
}

uint64_t event_merge_last(struct event_merge *m)
{
    event_merge_pull(m);
    return m->next - 1;
}
