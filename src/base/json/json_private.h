/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the JSON reader. */
#pragma once

#include "base/json/json.h"

/* Puts the reader into its error state; returns -ERR_SYNTAX. `error` is static text. */
int json_fail(struct json_reader *r, size_t at, const char *error);
/* The last token was JSON_OBJECT_BEGIN. */
bool json_before_first_key(const struct json_reader *r);
