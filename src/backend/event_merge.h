/* SPDX-License-Identifier: Apache-2.0 */
/* Merges the events of several backends into one sequence that follows the rules of backend.h: ids
 * increase without gaps within a boot. For wrappers that own more than one backend.
 *
 * Only the backend and the id of its event are stored here; the event itself stays in its backend.
 * Each backend stores at least as many events as this module, so every stored reference can be
 * read. */
#pragma once

#include "backend/backend.h"

struct event_source {
    struct backend *backend; /* NULL = not open, or removed */
    uint64_t seen;           /* the last event that was taken from it */
};

struct event_ref {
    uint64_t id; /* the id at the source */
    unsigned source;
};

/* Converts the sequence of a source's job (0 = none) to the one that callers know. */
typedef uint64_t (*event_seq_fn)(const void *ctx, unsigned source, uint64_t seq);

struct event_merge {
    struct event_source *sources;
    unsigned source_count;
    struct event_ref *ring;
    uint64_t oldest, next; /* ids of the oldest stored event and of the next event */
    event_seq_fn seq_out;
    const void *ctx;
};

/* -ERR_NOMEM. `epoch` must increase from boot to boot as that of a store does; seq_out converts the
 * sequence of the job that an event concerns. */
MUST_CHECK int event_merge_init(struct event_merge *m, unsigned source_count, uint32_t epoch,
                                event_seq_fn seq_out, const void *ctx);
void event_merge_done(struct event_merge *m);
/* Sets the backend of a source, with the events of its current boot. NULL removes the source; its
 * events and all older ones are forgotten. */
void event_merge_source(struct event_merge *m, unsigned source, struct backend *backend);
/* Takes new events from all sources. */
void event_merge_pull(struct event_merge *m);
/* As backend_events, after a pull. */
size_t event_merge_read(struct event_merge *m, uint64_t after, uint64_t kinds,
                        struct backend_event *out, size_t max, uint64_t *ret_oldest);
uint64_t event_merge_last(struct event_merge *m);
