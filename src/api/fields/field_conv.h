/* SPDX-License-Identifier: Apache-2.0 */
/* Converts one value to the type of its row. Private to field_value.c and field_list.c. */
#pragma once

#include "api/fields/field_value.h"

/* The same converters serve bodies and queries: the text of a query is passed to them as the
 * token that it would be in JSON, where that is possible. */
struct conv {
    struct field_reader *r;
    const struct field *f;
    struct json_reader *json; /* NULL: from a query */
    struct json_token token;
    struct span text; /* from a query */
    void *to;
};

/* 0; -ERR_INVALID with the problem set; -ERR_SYNTAX: broken JSON. */
typedef int (*conv_fn)(struct conv *c);

/* Refuses the value; returns -ERR_INVALID. */
#define conv_fail(c, ...)                                                                          \
    (problem_set((c)->r->problem, (c)->r->arena, PROBLEM_INVALID_FIELD, (c)->f->name,              \
                 __VA_ARGS__),                                                                     \
     -ERR_INVALID)
/* "… is a string; it must be …" */
MUST_CHECK int conv_fail_type(struct conv *c, const char *right);
/* Turns an error of a callee into the reader's problem. */
MUST_CHECK int conv_fail_error(struct conv *c, int error);
/* The decoded text of a string, from a body or a query. */
MUST_CHECK int conv_text_of(struct conv *c, const char *right, struct span *ret);
/* Whether the value is a number. Turns the text of a query into the JSON token. */
bool conv_number(struct conv *c);

int conv_enum(struct conv *c);
int conv_enum_set(struct conv *c);
int conv_priority(struct conv *c);
int conv_steps(struct conv *c);
int conv_backoff(struct conv *c);
int conv_raw(struct conv *c);
int conv_texts(struct conv *c);
int conv_objects(struct conv *c);
int conv_kv_key(struct conv *c);
int conv_kv_keys(struct conv *c);
int conv_headers(struct conv *c);
