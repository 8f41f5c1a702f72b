/* SPDX-License-Identifier: Apache-2.0 */
/* The events of several backends as one sequence that keeps the rules of backend.h: ids rise
 * without holes within a boot. For wrappers that own more than one backend.
 *
 * Only (which backend, its event's id) is remembered; the event itself stays where it is. Each
 * backend keeps at least as many events as this, so what is remembered can be asked for. */
#pragma once

#include "backend/backend.h"

struct event_source {
    struct backend *backend; /* NULL = none, or no more */
    uint64_t seen;           /* its last event that was taken over */
};

struct event_ref {
    uint64_t id; /* the source's */
    unsigned source;
};

/* The sequence of a source's job (0 = none) as callers know it. */
typedef uint64_t (*event_seq_fn)(const void *ctx, unsigned source, uint64_t seq);

struct event_merge {
    struct event_source *sources;
    unsigned source_count;
    struct event_ref *ring;
    uint64_t oldest, next; /* ids of the oldest event kept, and of the next to come */
    event_seq_fn seq_out;
    const void *ctx;
};

/* -ERR_NOMEM. `epoch` must rise from boot to boot as that of a store does; seq_out says how callers
 * know the job that an event of a source is about. */
MUST_CHECK int event_merge_init(struct event_merge *m, unsigned source_count, uint32_t epoch,
                                event_seq_fn seq_out, const void *ctx);
void event_merge_done(struct event_merge *m);
/* A backend takes the place, with the events of its present boot. NULL: no more of this one; those
 * it told are forgotten with all older ones. */
void event_merge_source(struct event_merge *m, unsigned source, struct backend *backend);
/* Takes over what is new. */
void event_merge_pull(struct event_merge *m);
/* As backend_events, after a pull. */
size_t event_merge_read(struct event_merge *m, uint64_t after, uint64_t kinds,
                        struct backend_event *out, size_t max, uint64_t *ret_oldest);
uint64_t event_merge_last(struct event_merge *m);
