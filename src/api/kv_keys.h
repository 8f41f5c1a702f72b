/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of the key-value store as inputs of operations. */
#pragma once

#include "api/fields/fields.h"

/* Packs encoded keys into the list of struct job_extra, in the arena. 0, or -ERR_NOMEM. */
MUST_CHECK int kv_keys_pack(struct arena *arena, struct texts_in keys, struct span *ret);

/* The cursor of a list of keys as text, and the reverse: the order and the last key that was
 * shown. In the arena; NULL = no memory. */
const char *kv_cursor_text(struct arena *arena, struct span key, bool reverse);
/* -ERR_SYNTAX: the text is not from kv_cursor_text, or belongs to a list in the other order. */
MUST_CHECK int kv_cursor_parse(struct arena *arena, struct span text, bool reverse,
                               struct span *ret);
