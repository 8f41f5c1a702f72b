/* SPDX-License-Identifier: Apache-2.0 */
/* Time zones by their IANA names ("Europe/Berlin"), from the system's tz database.
 *
 * Zones are kept once they were opened; a program's zones are few. What a name means is read when
 * it is first used: after an update of tzdata the program must be restarted. Not for use by several
 * threads at once. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

#define ZONE_NAME_BYTES_MAX 64

struct zone;
struct zones;

MUST_CHECK int zones_new(struct zones **ret);
void zones_free(struct zones *z); /* NULL allowed; with all its zones */

/* The zone of this name, which belongs to z. -ERR_INVALID with a note that names the nearest known
 * name; -ERR_NOMEM. Empty means UTC. */
MUST_CHECK int zones_open(struct zones *z, struct span name, const struct zone **ret,
                          struct err_note *note);
/* The names of the database, sorted, and how many there are; 0 when the system has none. */
const char *const *zones_names(const struct zones *z, size_t *ret_count);

/* Seconds east of UTC at a moment (seconds since 1970). The pointer is a struct zone. */
int32_t zone_offset(const void *zone, int64_t at);
/* The first moment after `at` from which another offset holds; INT64_MAX = none. */
int64_t zone_next_change(const void *zone, int64_t at);
