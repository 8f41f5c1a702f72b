/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that depend on others, on a shared store (ops/jobs/dependencies.c has the rules).
 *
 * An edge leads from a parent to a dependent that waits for it. A unit that adds edges keeps their
 * parents from ending before it is committed. A unit in which a job ends does not look for its
 * dependents: it only writes an entry of the work list, with how the job ended first, if edges of
 * the job exist; the same for a dependent that stops waiting, whose edges are then of no use. Edges
 * are removed by separate units, a slice of them at a time: each locks the dependents, counts the
 * end with those that are still blocked, and decides which of these wait no longer. An entry leaves
 * the list when its job has no edge any more.
 *
 * So the work of a unit does not depend on the number of dependents; two parents that end on two
 * nodes at once change their dependent one after the other; and when a node dies, another one finds
 * the entries that it has left. While its entry is in the list, no job may become a dependent of
 * the job: it is settling. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/containers/map.h"
#include "base/span.h"
#include "core/jobs/dependency.h"

struct unit;
struct row;
struct ops_store;
struct dependency_store;

/* What a job depends on, as it was loaded, then with the changes of the unit. */
struct wdependent {
    struct dependent dependent;
    bool changed;
};

/* A job that is to become a parent, as it was loaded. */
struct wparent {
    uint64_t seq, hi;
    uint8_t state;
    bool settling;
    struct span queue; /* of a ready one, which claims could not get while it was locked */
};

struct wedge {
    uint64_t child, parent;
    uint8_t how; /* enum dependency_end; of those that a slice removes; NONE = it does not count */
};

struct edge_list {
    struct wedge *at;
    size_t count, room;
};

struct unit_dependencies {
    uint64_t *open; /* jobs to which dependencies are added: loaded like jobs that are named */
    size_t open_count, open_room;
    uint64_t *wanted; /* jobs that are to become parents; may contain repeats */
    size_t wanted_count, wanted_room;
    struct hash128 *wanted_keys; /* idempotency keys of others that are to become parents */
    size_t wanted_key_count, wanted_key_room;
    struct wparent *parents;
    size_t parent_count, parent_room;
    struct map64 parent_map; /* by sequence: index + 1 */
    struct edge_list known;  /* that exist: of those that are to be added, or told */
    struct edge_list added, told;
    bool sorted; /* known is in order */
};

void unit_dependencies_init(struct unit *u);
void unit_dependencies_reset(struct unit *u);
void unit_dependencies_done(struct unit *u);

/* Finds what must be loaded: `open` and `wanted`. */
void unit_dependencies_ask(struct unit *u);
/* Calls fn for each job that is to become a parent of an open one. */
typedef void (*edge_fn)(struct unit *u, uint64_t child, uint64_t parent);
size_t unit_dependencies_each_new(struct unit *u, edge_fn fn);
/* Was loaded. */
void unit_parent_loaded(struct unit *u, const struct wparent *p);
void unit_parent_settling(struct unit *u, uint64_t seq);
void unit_dependent_loaded(struct unit *u, uint64_t seq, const struct dependent *d);
void unit_edge_loaded(struct unit *u, uint64_t child, uint64_t parent);
/* Whether the values can be those of a dependent. */
bool dependent_right(const struct dependent *d);

extern const struct dependency_store unit_dependency_store;

/* The job has changed from this state. Remembers how it ended first (struct row.end). */
void unit_dependencies_moved(struct row *r, uint8_t from, uint8_t to);
/* A slice: this loaded edge counts as this end, not only as removed. */
void unit_edge_ends(struct unit *u, uint64_t child, uint64_t parent, uint8_t how);
/* Removes the loaded edges, whose children were loaded with what they depend on. */
void unit_dependencies_told(struct unit *u);
/* Queues of ready jobs that were locked as parents are signalled: a claim may have missed them. */
typedef void (*queue_fn)(struct unit *u, struct span queue);
void unit_dependencies_wake(struct unit *u, queue_fn fn);
