/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments and results of statements, in PostgreSQL's binary format.
 *
 * The statements of this store take arrays: each is one column of all rows that the statement
 * concerns. A list of arguments is built, sent, and cleared for the next statement; it owns its
 * bytes. If memory runs out, this is remembered, and pg_conn_send reports it. */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

#define ARGS_MAX 48

struct args {
    struct buf bytes;
    size_t start[ARGS_MAX];
    int length[ARGS_MAX]; /* -1 = NULL */
    int count;
    bool failed;
    size_t elements; /* of the open array … */
    size_t mark;     /* … and where it begins */
};

void pg_args_init(struct args *a);
void pg_args_done(struct args *a);
void pg_args_clear(struct args *a);

void pg_args_i8(struct args *a, int64_t v);
void pg_args_i4(struct args *a, int32_t v);
void pg_args_bool(struct args *a, bool v);
void pg_args_bytes(struct args *a, struct span s); /* text or bytea; an empty span is not NULL */

/* A text from a client: a text that the database would refuse is replaced by one that nothing
 * matches. */
void pg_args_text(struct args *a, struct span s);
bool unit_text_safe(struct span s);

/* An array: begin, its elements, end. */
enum array_of { ARRAY_I8, ARRAY_I4, ARRAY_I2, ARRAY_TEXT, ARRAY_BYTES, ARRAY_BOOL };
void pg_array_begin(struct args *a, enum array_of of);
void pg_array_i8(struct args *a, int64_t v);
void pg_array_i4(struct args *a, int32_t v);
void pg_array_i2(struct args *a, int16_t v);
void pg_array_bool(struct args *a, bool v);
void pg_array_bytes(struct args *a, struct span s); /* empty: NULL */
void pg_array_blob(struct args *a, struct span s);  /* empty: an empty value */
void pg_array_end(struct args *a);

/* Columns of a result; NULL reads as 0, or as no bytes. */
int64_t pg_col_i8(const PGresult *r, int row, int col);
int32_t pg_col_i4(const PGresult *r, int row, int col);
int16_t pg_col_i2(const PGresult *r, int row, int col);
/* Checked against the limits in backend/shared/row_check.h. */
int64_t pg_col_time(const PGresult *r, int row, int col);
uint64_t pg_col_seq(const PGresult *r, int row, int col);
int64_t pg_col_sum(const PGresult *r, int row, int col);
uint64_t pg_col_count(const PGresult *r, int row, int col);
uint8_t pg_col_kind(const PGresult *r, int row, int col, unsigned count);
bool pg_col_bool(const PGresult *r, int row, int col);
struct span pg_col_bytes(const PGresult *r, int row, int col); /* valid as long as the result */
