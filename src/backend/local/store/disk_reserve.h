/* SPDX-License-Identifier: Apache-2.0 */
/* The reserve file: DIR/reserve, which only reserves space. When the disk is full it is removed, so
 * that the journal can still be applied to the store, above all acks and removals. It is created
 * again when there is enough free space. If it cannot be created for any other reason, everything
 * else works. Except for disk_reserve_room it belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct disk_reserve;

#define DISK_RESERVE_BYTES (UINT64_C(8) << 20)

/* Checks whether the file exists; DIR need not exist yet. The only error is -ERR_NOMEM. */
MUST_CHECK int disk_reserve_open(const char *dir, uint64_t bytes, struct disk_reserve **ret);
bool disk_reserve_remove(struct disk_reserve *b); /* true: the file existed; b may be NULL */
void disk_reserve_create(
    struct disk_reserve *b); /* NULL is allowed; does nothing while space is short */
/* True if the file does not exist and the last disk_reserve_create found too little space for it.
 * False for NULL. */
bool disk_reserve_lacks_room(const struct disk_reserve *b);
/* Bytes free on its file system, without the reserve file; UINT64_MAX if they cannot be read. NULL
 * is allowed; from any thread. */
uint64_t disk_reserve_room(const struct disk_reserve *b);
void disk_reserve_close(struct disk_reserve *b); /* the file stays; NULL is allowed */
