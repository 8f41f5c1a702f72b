/* SPDX-License-Identifier: Apache-2.0 */
/* One value on its way to where its row says. Private to field_value.c and field_list.c. */
#pragma once

#include "api/field_value.h"

/* The same converters serve bodies and queries: a query's text is given to them as the token it
 * would be in JSON, where that is possible. */
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

/* A refusal of the value; gives -ERR_INVALID. */
#define conv_fail(c, ...)                                                                          \
    (problem_set((c)->r->problem, (c)->r->arena, PROBLEM_INVALID_FIELD, (c)->f->name,              \
                 __VA_ARGS__),                                                                     \
     -ERR_INVALID)
/* "… is a string; it must be …" */
MUST_CHECK int conv_fail_type(struct conv *c, const char *right);
/* Turns an error of a callee into the reader's problem. */
MUST_CHECK int conv_fail_error(struct conv *c, int error);
/* The decoded text of a string, of either source. */
MUST_CHECK int conv_text_of(struct conv *c, const char *right, struct span *ret);
/* Is it a number? Makes a query's text the token it is in JSON. */
bool conv_number(struct conv *c);

int conv_word(struct conv *c);
int conv_words(struct conv *c);
int conv_priority(struct conv *c);
int conv_steps(struct conv *c);
int conv_backoff(struct conv *c);
int conv_raw(struct conv *c);
int conv_texts(struct conv *c);
int conv_objects(struct conv *c);
int conv_kv_key(struct conv *c);
int conv_kv_keys(struct conv *c);
int conv_headers(struct conv *c);
