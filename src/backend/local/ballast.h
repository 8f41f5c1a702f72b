/* SPDX-License-Identifier: Apache-2.0 */
/* A file that only takes up room: DIR/ballast. When the disk is full it is removed, so that what is
 * in the journal can still be swept into the store, acks and removals above all. It is made again
 * when there is room enough. Without it (it could not be made) everything works but that. */
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
void ballast_close(struct ballast *b);  /* the file stays; NULL allowed */
