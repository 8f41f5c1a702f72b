/* SPDX-License-Identifier: Apache-2.0 */
/* Converts one value of a request, from JSON or from the text of a query parameter, to the type
 * of its row. Private to the field reader. */
#pragma once

#include "api/fields/fields.h"

/* Both return 0, or -ERR_INVALID with the reader's problem set, or -ERR_SYNTAX for broken JSON,
 * which the caller explains. field_from_json consumes the value. */
MUST_CHECK int field_from_json(struct field_reader *r, const struct field *f,
                               struct json_reader *json, struct json_token value);
MUST_CHECK int field_from_text(struct field_reader *r, const struct field *f, struct span text);
/* The type of a token that begins a value, for messages ("a string"). */
const char *field_kind_text(enum json_kind kind);
/* Sets the problem for an operating error; returns -ERR_INVALID. */
MUST_CHECK int field_fail_error(struct field_reader *r, int error);
