/* SPDX-License-Identifier: Apache-2.0 */
/* One value of a request: from JSON or from the text of a query parameter to where its row says.
 * Private to the field reader. */
#pragma once

#include "api/fields.h"

/* Both: 0, or -ERR_INVALID with the reader's problem set (-ERR_SYNTAX: broken JSON, to be explained
 * by the caller). field_from_json consumes the value. */
MUST_CHECK int field_from_json(struct field_reader *r, const struct field *f,
                               struct json_reader *json, struct json_token value);
MUST_CHECK int field_from_text(struct field_reader *r, const struct field *f, struct span text);
/* "a string" … of a token that begins a value. */
const char *field_kind_text(enum json_kind kind);
/* Sets the problem of an operating error; gives -ERR_INVALID. */
MUST_CHECK int field_fail_error(struct field_reader *r, int error);
