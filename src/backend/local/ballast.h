/* SPDX-License-Identifier: Apache-2.0 */
/* A file that only takes up room: DIR/ballast. When the disk is full it is removed, so that what is
 * in the journal can still be swept into the store, acks and removals above all. It is made again
 * when there is room enough. Where it cannot be made for another reason than room, everything works
 * but that. But for ballast_room it belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct ballast;

#define BALLAST_BYTES (UINT64_C(8) << 20)

/* Looks whether it is there; DIR need not exist yet. Only memory can lack: -ERR_NOMEM. */
MUST_CHECK int ballast_open(const char *dir, uint64_t bytes, struct ballast **ret);
bool ballast_drop(struct ballast *b);   /* true: there was one; b may be NULL */
void ballast_refill(struct ballast *b); /* NULL allowed; does nothing while room is short */
/* It is not there, and the last ballast_refill found too little room for it. NULL: never. */
bool ballast_lacks_room(const struct ballast *b);
/* Bytes free on its file system, the ballast not counted; UINT64_MAX when nobody can tell. NULL
 * allowed; from any thread. */
uint64_t ballast_room(const struct ballast *b);
void ballast_close(struct ballast *b); /* the file stays; NULL allowed */
