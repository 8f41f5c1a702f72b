/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the server's answers: a member by its name, the items of a list.
 *
 * An answer is checked once as a whole (json_check); after that these functions take parts of
 * it. A member that is missing, null or of another type than expected counts as absent: a client
 * shows what it understands and works with older and newer servers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/containers/arena.h"
#include "base/json/json.h"
#include "base/span.h"

/* The value of a member, unchanged, found by a path such as "policy.lease_ms"; false if it is
 * missing or null. */
bool client_answer_find(struct span object, const char *path, struct span *ret);
/* The text of a string member, or of a number, true or false as written; empty if absent. Valid
 * as long as the answer and the arena. */
struct span client_answer_text(struct span object, const char *path, struct arena *arena);
int64_t client_answer_int(struct span object, const char *path, int64_t otherwise);
bool client_answer_true(struct span object, const char *path);

/* Iterates over an array: for (open; next;). A value that is not an array has no items. */
struct client_items {
    struct json_reader reader;
    bool over;
};
void client_items_open(struct client_items *items, struct span array);
void client_items_of(struct client_items *items, struct span object, const char *path);
bool client_items_next(struct client_items *items, struct span *ret);

/* Iterates over an object: each member's name (unescaped) and value. */
struct client_members {
    struct json_reader reader;
    struct arena *arena;
    bool over;
};
void client_members_open(struct client_members *members, struct span object, struct arena *arena);
bool client_members_next(struct client_members *members, struct span *ret_name,
                         struct span *ret_value);
