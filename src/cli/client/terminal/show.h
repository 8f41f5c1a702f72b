/* SPDX-License-Identifier: Apache-2.0 */
/* How objects of the API are shown to users: jobs, durations, the members of an object. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/containers/arena.h"
#include "base/span.h"
#include "cli/client/terminal/table.h"

/* Adds the payload of the job to the table, shortened: JSON and text unchanged, bytes as
 * "base64:…". */
void client_show_payload(struct client_table *t, struct span job, struct arena *arena);
/* "450 ms", "12.3 s", "5m 10s", "3h 20m", "2d 4h"; "-" when negative. */
#define CLIENT_SPAN_BYTES 32
const char *client_show_ms(int64_t ms, char out[CLIENT_SPAN_BYTES]);
/* "1,204". */
#define CLIENT_COUNT_BYTES 32
const char *client_show_count(int64_t count, char out[CLIENT_COUNT_BYTES]);
/* Prints each member on its own line, "name: value", the members of inner objects as
 * "outer.name". Lists of objects are left out (the caller shows them as a table). */
void client_show_object(FILE *out, struct span object, struct arena *arena);
