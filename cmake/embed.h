/* SPDX-License-Identifier: Apache-2.0 */
/* The names that SQL and Lua sources may use, for the generator (embed.c). */
#pragma once

#include <stddef.h>

/* A constant of the C code: ${ready} becomes 2. */
struct embed_constant {
    const char *name;
    long long value;
};

enum field_kind {
    FIELD_BYTE,   /* a number of one byte */
    FIELD_NUMBER, /* a number of two, four or eight bytes, most significant byte first */
    FIELD_BYTES   /* compared or passed on as it is */
};

/* A field at a fixed place of a Redis value: ${job.state(row)} becomes byte(row, 7). */
struct embed_field {
    const char *name; /* "job.state" */
    size_t at, bytes;
    enum field_kind kind;
};

/* A list of names of the C code: ${job_texts} becomes unique_key, group_key … */
struct embed_list {
    const char *name, *text;
};

extern const struct embed_list embed_lists[];         /* ends with a row without a name */
extern const struct embed_constant embed_constants[]; /* likewise */
extern const struct embed_field embed_fields[];       /* likewise */
