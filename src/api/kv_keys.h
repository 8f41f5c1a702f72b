/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of the key-value store on their way into an operation. */
#pragma once

#include "api/fields.h"

/* A list of encoded keys as struct job_extra has it, in the arena. 0, or -ERR_NOMEM. */
MUST_CHECK int kv_keys_pack(struct arena *arena, struct texts_in keys, struct span *ret);

/* The cursor of a list of keys as text, and back: the order and the last key that was shown. In the
 * arena; NULL = no memory. */
const char *kv_cursor_text(struct arena *arena, struct span key, bool reverse);
/* -ERR_SYNTAX: not what kv_cursor_text writes, or of a list in the other order. */
MUST_CHECK int kv_cursor_parse(struct arena *arena, struct span text, bool reverse,
                               struct span *ret);
