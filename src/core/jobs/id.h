/* SPDX-License-Identifier: Apache-2.0 */
/* Job ids: one 128-bit value in the form of a UUIDv7, with three text formats.
 *
 *   hi: 48 bits milliseconds · 4 bits version (7) · 12 bits node
 *   lo:  2 bits variant (10) · 9 bits zero · 53 bits sequence
 *
 * ULID (26 Crockford characters), UUID (36 characters), or the sequence as a plain integer: every
 * API accepts all three. The sequence alone identifies the job; the other bits are checked if
 * given. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "base/system/clock.h"

#define ID_ULID_BYTES 27 /* with the NUL */
#define ID_UUID_BYTES 37
#define ID_NODE_MAX 4095u

/* Sequences with this bit come from a node's spool (backend/failover): the bit, 12 bits of node, 34
 * bits counted there. No store reaches it by counting; it stores such a job with its id
 * (op_enqueue.id). A router has room for its own bits above it. */
#define ID_SPOOL_BIT (UINT64_C(1) << 46)
#define ID_SPOOL_NODE_SHIFT 34
#define ID_SPOOL_COUNT_MAX ((UINT64_C(1) << ID_SPOOL_NODE_SHIFT) - 1)

struct job_id {
    uint64_t hi, lo;
};

/* The job that a client named: a sequence, and the high half if the format contains it (otherwise
 * 0). */
struct job_ref {
    uint64_t seq;
    uint64_t hi;
};

static inline bool id_spooled(uint64_t seq)
{
    return (seq & ID_SPOOL_BIT) != 0;
}

uint64_t id_hi(struct wall_time created, unsigned node);
struct job_id id_make(uint64_t hi, uint64_t seq);
uint64_t id_seq(struct job_id id);
struct wall_time id_time(uint64_t hi);
unsigned id_node(uint64_t hi);
void id_ulid(struct job_id id, char out[ID_ULID_BYTES]);
void id_uuid(struct job_id id, char out[ID_UUID_BYTES]);
/* Any format, upper or lower case; Crockford's I, L, O are read as 1, 1, 0. -ERR_SYNTAX if it is
 * none of the three, -ERR_RANGE for a value that cannot be a job id. */
MUST_CHECK int id_parse(struct span text, struct job_ref *ret);
