/* SPDX-License-Identifier: Apache-2.0 */
/* src/api/fields reads request objects and query parameters by tables of fields. It may use
 * api/problems, http, core and base.
 *
 * Request objects and query parameters, read by a table.
 *
 * A row names a member, its type, its limits and its place in the target. Unknown names are
 * refused with the nearest known name; a name that is given twice is malformed; the problem for
 * a wrong type says which type was given and which is right. A value is stored at `offset` in
 * the target. Rows that were given are bits of `seen`, in the order of the table, so a table has
 * at most 64 rows. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/problems/problem.h"

enum field_type {
    FIELD_TEXT,     /* struct span; min to max bytes, no U+0000. A filter has min 1 (FILTER_MIN) */
    FIELD_CUT,      /* struct span; a longer text is truncated */
    FIELD_INT,      /* int64_t from min to max */
    FIELD_BOOL,     /* bool */
    FIELD_TIME,     /* struct wall_time; never 0 */
    FIELD_ENUM,     /* uint8_t: index in names + min */
    FIELD_ENUM_SET, /* uint64_t: bits 1 << (index in names + min) */
    FIELD_RAW,      /* struct span: any JSON value, unchanged; bodies only */
    FIELD_PRIORITY, /* struct priority_in: a number or a label */
    FIELD_STEPS,    /* struct backoff: a list of waits */
    FIELD_BACKOFF,  /* struct backoff: an object; bodies only */
    FIELD_TEXTS,    /* struct texts_in: 1 to max texts; bodies only */
    FIELD_JOB,      /* struct job_ref: any spelling of an id */
    FIELD_TOKEN,    /* struct job_token */
    FIELD_OBJECTS,  /* struct texts_in: 1 to max JSON values, unchanged; bodies only */
    /* struct span: a key of the key-value store, encoded; a query may give it as a text, which
     * is its only part, or as JSON, which begins with "[". min 0: a prefix, which may be empty. */
    FIELD_KV_KEY,
    FIELD_KV_KEYS, /* struct texts_in: 1 to max of them; bodies only */
    FIELD_HEADERS, /* struct span: headers of a job (core/jobs/headers.h); a query gives them as
                      JSON */
    FIELD_TYPE_COUNT
};

enum field_flag {
    FIELD_REQUIRED = 1u << 0,
    FIELD_NULLABLE = 1u << 1, /* null means max, "no limit" */
    FIELD_OPTIONAL = 1u << 2, /* null means that the member is not given */
    FIELD_EMPTY = 1u << 3,    /* a list may be empty */
};

struct field {
    const char *name;
    enum field_type type;
    uint32_t offset; /* in the target */
    int64_t min, max;
    const char *const *names; /* NULL-terminated */
    unsigned flags;
};

/* In a filter an empty text would select everything. */
#define FILTER_MIN 1

struct priority_in {
    int64_t value;
    struct span label; /* empty = it was a number */
};

struct texts_in {
    const struct span *list;
    size_t count;
};

struct fields {
    const struct field *rows;
    size_t count;
};
#define FIELDS(array) ((struct fields){(array), sizeof(array) / sizeof *(array)})

struct field_reader {
    struct fields table;
    const struct broker *broker; /* for priority labels */
    struct arena *arena;
    struct problem *problem; /* filled on failure */
    void *into; /* filled in by the caller with the defaults of members that are not given */
    uint64_t seen;
    const char
        *name; /* name of the member that contains the object; NULL = the object is the body */
};

/* Reads an object, which is the whole text. 0, or -ERR_INVALID with the problem set. */
MUST_CHECK int fields_read(struct field_reader *r, struct span text);
/* The same; an empty text is an object without members. */
MUST_CHECK int fields_read_optional(struct field_reader *r, struct span text);
/* Reads the parameters of a query. */
MUST_CHECK int fields_read_query(struct field_reader *r, struct span query);

/* Reads one value from a header: row `index` of the table. */
MUST_CHECK int fields_read_one(struct field_reader *r, size_t index, struct span text);

/* Whether the row with this name was given. The name must be in the table. */
bool fields_has(const struct field_reader *r, const char *name);
/* Refuses the request if both are given. 0, or -ERR_INVALID. */
MUST_CHECK int fields_exclude(const struct field_reader *r, const char *a, const char *b);
/* The name of a type, for messages. */
const char *field_type_text(enum field_type t);
