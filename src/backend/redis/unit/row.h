/* SPDX-License-Identifier: Apache-2.0 */
/* The encoding of jobs, queues and what belongs to them in Redis: one byte string each, with a
 * version. The fields that scripts read come first, at fixed offsets (row_fields.h); the rest is
 * varints. Every change increases the revision: a store says which revision it has read, and is
 * refused if that is no longer the present one.
 *
 * src/backend/redis/unit has what a unit of work reads and writes, and the encoding of it. It may
 * use shared/, ops, core, base and connection/. */
#pragma once

#include "backend/redis/unit/row_fields.h"
#include "backend/shared/shared.h"

#define ROW_VERSION 3
#define ROW_REVISION_BYTES                                                                         \
    ROW_END(job, revision) /* what a check compares: jobs, queues, notices                         \
                            */
#define TOKEN_BYTES (ROW_BYTES(job, token_epoch) + ROW_BYTES(job, token_counter))
#define ATTEMPT_IDENT_BYTES ROW_HEAD(attempt)

uint32_t redis_revision(struct span packed); /* of a job, queue or notice; 0 = it is new */
/* The present row, in the unit's memory, with the next revision; empty = no memory. */
struct span redis_row_encode(struct unit *u, const struct row *r);
/* Everything except its queue in the unit. -ERR_CORRUPT */
MUST_CHECK int redis_row_decode(uint64_t seq, struct span packed, struct row *ret);
uint8_t redis_packed_bits(struct span packed);
/* The member of a ready job: order and sequence. */
#define READY_MEMBER_BYTES ROW_HEAD(ready)
void redis_ready_member(int64_t priority, uint64_t seq, char out[READY_MEMBER_BYTES]);

struct span redis_queue_encode(struct unit *u, const struct wqueue *q);
MUST_CHECK int redis_queue_decode(struct span packed, struct wqueue *ret);

void redis_token_encode(struct job_token t, char out[TOKEN_BYTES]);
struct job_token redis_token_decode(const char in[TOKEN_BYTES]);

struct span redis_reply_encode(struct unit *u, const struct kept_reply *w);
MUST_CHECK int redis_reply_decode(struct span packed, struct kept_reply *ret);

#define IDEM_BYTES ROW_HEAD(idem)
void redis_idem_encode(const struct idem *k, char out[IDEM_BYTES]);
MUST_CHECK int redis_idem_decode(struct span packed, struct idem *ret);

struct span redis_attempt_encode(struct unit *u, const struct ended *a);
MUST_CHECK int redis_attempt_decode(struct span packed, struct attempt_view *ret);

struct span redis_bulk_encode(struct unit *u, const struct bulk *b, uint32_t epoch);
/* *ret_group points into packed; the other fields are filled in *ret. */
MUST_CHECK int redis_bulk_decode(struct span packed, struct bulk *ret, struct span *ret_group,
                                 struct span *ret_kind, uint32_t *ret_epoch);

struct span redis_schedule_encode(struct unit *u, const struct wschedule *s);
MUST_CHECK int redis_schedule_decode(struct span packed, struct wschedule *ret);

/* notices.c: the fixed fields are followed by the name of its alert, then two records. Its number
 * is the name of the field. */
struct span redis_notice_encode(struct unit *u, const struct wnotice *n);
MUST_CHECK int redis_notice_decode(uint64_t number, struct span packed, struct wnotice *ret);

#define DEPENDENT_BYTES ROW_HEAD(dependent)
void redis_dependent_encode(const struct dependent *d, char out[DEPENDENT_BYTES]);
bool redis_dependent_decode(struct span packed, struct dependent *ret); /* false = damaged */

uint64_t redis_seq_decode(struct span s); /* eight bytes; 0 = not a sequence */
void redis_seq_encode(uint64_t seq, char out[8]);
