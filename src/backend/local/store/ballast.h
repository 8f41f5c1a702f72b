/* SPDX-License-Identifier: Apache-2.0 */
/* The ballast file: DIR/ballast, which only reserves space. When the disk is full it is removed, so
 * that the journal can still be applied to the store, above all acks and removals. It is created
 * again when there is enough free space. If it cannot be created for any other reason, everything
 * else works. Except for ballast_room it belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct ballast;

#define BALLAST_BYTES (UINT64_C(8) << 20)

/* Checks whether the file exists; DIR need not exist yet. The only error is -ERR_NOMEM. */
MUST_CHECK int ballast_open(const char *dir, uint64_t bytes, struct ballast **ret);
bool ballast_drop(struct ballast *b);   /* true: the file existed; b may be NULL */
void ballast_refill(struct ballast *b); /* NULL is allowed; does nothing while space is short */
/* True if the file does not exist and the last ballast_refill found too little space for it. False
 * for NULL. */
bool ballast_lacks_room(const struct ballast *b);
/* Bytes free on its file system, without the ballast file; UINT64_MAX if they cannot be read. NULL
 * is allowed; from any thread. */
uint64_t ballast_room(const struct ballast *b);
void ballast_close(struct ballast *b); /* the file stays; NULL is allowed */
