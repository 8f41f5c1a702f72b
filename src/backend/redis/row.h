/* SPDX-License-Identifier: Apache-2.0 */
/* How jobs, queues and what belongs to them are kept: one piece of bytes each, with a version.
 *
 * What scripts look at comes first, at fixed places, most significant byte first (lua/common.lua
 * names them); the rest is varints. The revision is raised by every change: whoever stores a row
 * says which one it has read. */
#pragma once

#include "backend/shared/shared.h"

#define ROW_VERSION 1
#define ROW_REVISION_BYTES 5 /* version and revision: what a check compares */
#define ROW_SMALL_PAYLOAD 4096
#define ROW_ORDER_AT 11 /* of the order of ready jobs, eight bytes */
#define ROW_ORDER_BYTES 8
#define TOKEN_BYTES 12
#define ATTEMPT_IDENT_BYTES 20

/* What it has; scripts look at them (byte 6 of a row). */
enum row_bit {
    ROW_EXPIRES = 1,
    ROW_SMALL = 2, /* its payload comes along with a claim */
    ROW_PAYLOAD = 4,
    ROW_RESULT = 8,
    ROW_ERROR = 16,
    ROW_ATTEMPTS = 32,
    ROW_ITEM = 128, /* held by a trigger's job, without end */
    ROW_BOUND = 64, /* runs on a lease that dies with a connection */
};

/* The row as it is now, in the unit's memory, with the next revision; empty = no memory. */
struct span redis_row_encode(struct unit *u, const struct row *r);
/* Everything but its queue's place in the unit. -ERR_CORRUPT */
MUST_CHECK int redis_row_decode(uint64_t seq, struct span packed, struct row *ret);
uint8_t redis_row_bits(const struct row *r); /* as it is now */
uint8_t redis_packed_bits(struct span packed);
/* The member of a ready job: order and sequence. */
#define READY_MEMBER_BYTES 16
void redis_ready_member(int64_t priority, uint64_t seq, char out[READY_MEMBER_BYTES]);

struct span redis_queue_encode(struct unit *u, const struct wqueue *q);
MUST_CHECK int redis_queue_decode(struct span packed, struct wqueue *ret);

void redis_token_encode(struct job_token t, char out[TOKEN_BYTES]);
struct job_token redis_token_decode(const char in[TOKEN_BYTES]);

struct span redis_word_encode(struct unit *u, const struct word *w);
MUST_CHECK int redis_word_decode(struct span packed, struct word *ret);

#define IDEM_BYTES 32
void redis_idem_encode(const struct idem *k, char out[IDEM_BYTES]);
MUST_CHECK int redis_idem_decode(struct span packed, struct idem *ret);

struct span redis_attempt_encode(struct unit *u, const struct ended *a);
MUST_CHECK int redis_attempt_decode(struct span packed, struct attempt_view *ret);

struct span redis_bulk_encode(struct unit *u, const struct bulk *b, uint32_t epoch);
/* *ret_group points into packed; the other fields are filled in *ret. */
MUST_CHECK int redis_bulk_decode(struct span packed, struct bulk *ret, struct span *ret_group,
                                 uint32_t *ret_epoch);

/* Its first eight bytes behind the revision are its last job: scripts look at them. */
struct span redis_schedule_encode(struct unit *u, const struct wschedule *s);
MUST_CHECK int redis_schedule_decode(struct span packed, struct wschedule *ret);

/* notices.c: behind its revision, for scripts, when it is due and its alert's name; then two
 * records. Its number is the field's name. */
struct span redis_notice_encode(struct unit *u, const struct wnotice *n);
MUST_CHECK int redis_notice_decode(uint64_t number, struct span packed, struct wnotice *ret);

uint64_t redis_seq_decode(struct span s); /* eight bytes; 0 = it is no sequence */
void redis_seq_encode(uint64_t seq, char out[8]);
