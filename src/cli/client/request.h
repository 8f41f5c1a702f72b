/* SPDX-License-Identifier: Apache-2.0 */
/* Builds requests: paths with encoded parts, and bodies or queries from command-line options. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/json/json.h"
#include "config/options.h"

/* A path with its query, built part by part; an error is kept until the end. */
struct client_path {
    struct buf text;
    bool query; /* the '?' is there */
    int error;
};

void client_path_init(struct client_path *p);
void client_path_done(struct client_path *p);
void client_path_add(struct client_path *p, const char *text); /* as it is */
/* Adds one segment; for an empty one p->error becomes -ERR_INVALID, because it would be another
 * path. */
void client_path_encode(struct client_path *p, const char *text);
/* name=value; left out when value is NULL. */
void client_path_query(struct client_path *p, const char *name, const char *value);
/* NUL-terminated, owned by p; NULL without memory, or with the error that p has. */
const char *client_path_text(struct client_path *p);

/* How the value of an option is written in a request. */
enum client_field_kind {
    CLIENT_FIELD_TEXT,
    CLIENT_FIELD_NUMBER,         /* of a number, size or duration option */
    CLIENT_FIELD_NUMBER_OR_TEXT, /* a text option: a whole number, or a label */
    CLIENT_FIELD_MS_LIST,        /* a text option: durations with commas between */
    CLIENT_FIELD_YES_NO,         /* a choice option yes|no */
    CLIENT_FIELD_FALSE,          /* a flag; its presence is false */
    CLIENT_FIELD_HEADERS,        /* a list option: NAME=VALUE each; becomes an object */
    CLIENT_FIELD_FILE,           /* a file option: the text in it */
    CLIENT_FIELD_FLAG,           /* a flag; its presence is true */
    CLIENT_FIELD_TEXTS,          /* a list option; becomes an array of texts */
};

struct client_field {
    const char *option;
    const char *member;
    enum client_field_kind kind;
};

/* The first row of the table whose option was given; NULL = none. */
const struct client_field *client_fields_given(const struct arguments *args,
                                               const struct client_field *fields, size_t count);
/* Writes a member for each option that was given. -ERR_INVALID with a sentence in note if a
 * value is invalid; members that were written before stay. */
MUST_CHECK int client_fields_write(const struct arguments *args, const struct client_field *fields,
                                   size_t count, struct json_writer *w, struct err_note *note);
/* The same as query parameters: lists with commas, null as "null". */
MUST_CHECK int client_fields_query(const struct arguments *args, const struct client_field *fields,
                                   size_t count, struct client_path *p, struct err_note *note);
