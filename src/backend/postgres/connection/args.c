/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/postgres/connection/args.h"

#include <endian.h>

#include "backend/shared/row_check.h"
#include "base/check.h"
#include "base/utf8.h"

/* Types of the system catalogue, which never change. */
static const uint32_t element_oid[] = {
    [ARRAY_I8] = 20,   [ARRAY_I4] = 23,    [ARRAY_I2] = 21,
    [ARRAY_TEXT] = 25, [ARRAY_BYTES] = 17, [ARRAY_BOOL] = 16,
};

#define ARRAY_HEAD_BYTES 20 /* dimensions, has NULLs, type, length, lower bound */

void pg_args_init(struct args *a)
{
    *a = (struct args){.count = 0};
    buf_init(&a->bytes);
}

void pg_args_done(struct args *a)
{
    buf_done(&a->bytes);
}

void pg_args_clear(struct args *a)
{
    buf_clear(&a->bytes);
    a->count = 0;
    a->failed = false;
}

static void add(struct args *a, const void *bytes, size_t len)
{
    if (!a->failed && buf_append(&a->bytes, bytes, len) != 0)
        a->failed = true;
}

static void add_u32(struct args *a, uint32_t v)
{
    v = htobe32(v);
    add(a, &v, sizeof v);
}

static void next(struct args *a)
{
    CHECK(a->count < ARGS_MAX);
    a->start[a->count++] = a->bytes.len;
}

static void ended(struct args *a)
{
    a->length[a->count - 1] = a->failed ? 0 : (int)(a->bytes.len - a->start[a->count - 1]);
}

void pg_args_i8(struct args *a, int64_t v)
{
    uint64_t wire = htobe64((uint64_t)v);
    next(a);
    add(a, &wire, sizeof wire);
    ended(a);
}

void pg_args_i4(struct args *a, int32_t v)
{
    next(a);
    add_u32(a, (uint32_t)v);
    ended(a);
}

void pg_args_bool(struct args *a, bool v)
{
    next(a);
    add(a, v ? "\1" : "\0", 1);
    ended(a);
}

void pg_args_bytes(struct args *a, struct span s)
{
    next(a);
    if (s.len)
        add(a, s.at, s.len);
    ended(a);
}

void pg_args_text(struct args *a, struct span s)
{
    pg_args_bytes(a, unit_text_safe(s) ? s : SPAN_LITERAL("\xef\xbf\xbe"));
}

void pg_array_begin(struct args *a, enum array_of of)
{
    next(a);
    a->elements = 0;
    a->mark = a->bytes.len;
    add_u32(a, 1);
    add_u32(a, 1);
    add_u32(a, element_oid[of]);
    add_u32(a, 0);
    add_u32(a, 1);
}

void pg_array_i8(struct args *a, int64_t v)
{
    uint64_t wire = htobe64((uint64_t)v);
    a->elements++;
    add_u32(a, sizeof wire);
    add(a, &wire, sizeof wire);
}

void pg_array_i4(struct args *a, int32_t v)
{
    a->elements++;
    add_u32(a, sizeof v);
    add_u32(a, (uint32_t)v);
}

void pg_array_i2(struct args *a, int16_t v)
{
    uint16_t wire = htobe16((uint16_t)v);
    a->elements++;
    add_u32(a, sizeof wire);
    add(a, &wire, sizeof wire);
}

void pg_array_bool(struct args *a, bool v)
{
    a->elements++;
    add_u32(a, 1);
    add(a, v ? "\1" : "\0", 1);
}

void pg_array_blob(struct args *a, struct span s)
{
    a->elements++;
    add_u32(a, (uint32_t)s.len);
    if (s.len)
        add(a, s.at, s.len);
}

void pg_array_bytes(struct args *a, struct span s)
{
    if (s.len) {
        pg_array_blob(a, s);
        return;
    }
    a->elements++;
    add_u32(a, UINT32_MAX);
}

/* An array without elements has no dimension. */
void pg_array_end(struct args *a)
{
    if (!a->failed && a->elements == 0) {
        memset(a->bytes.data + a->mark, 0, 4);
        a->bytes.len = a->mark + ARRAY_HEAD_BYTES - 8;
    } else if (!a->failed) {
        uint32_t count = htobe32((uint32_t)a->elements);
        memcpy(a->bytes.data + a->mark + ARRAY_HEAD_BYTES - 8, &count, sizeof count);
    }
    ended(a);
}

/* --- results --- */

/* Copies a value of this width; `to` is unchanged if the row or column does not exist, there is no
 * value, or it has another width. The server may return anything, so none of this is asserted. */
static void fixed(const PGresult *r, int row, int col, void *to, int width)
{
    if (!PQgetisnull(r, row, col) && PQgetlength(r, row, col) == width)
        memcpy(to, PQgetvalue(r, row, col), (size_t)width);
}

int64_t pg_col_i8(const PGresult *r, int row, int col)
{
    uint64_t v = 0;
    fixed(r, row, col, &v, sizeof v);
    return (int64_t)be64toh(v);
}

int32_t pg_col_i4(const PGresult *r, int row, int col)
{
    uint32_t v = 0;
    fixed(r, row, col, &v, sizeof v);
    return (int32_t)be32toh(v);
}

int16_t pg_col_i2(const PGresult *r, int row, int col)
{
    uint16_t v = 0;
    fixed(r, row, col, &v, sizeof v);
    return (int16_t)be16toh(v);
}

int64_t pg_col_time(const PGresult *r, int row, int col)
{
    return sound_time(pg_col_i8(r, row, col));
}

uint64_t pg_col_seq(const PGresult *r, int row, int col)
{
    return sound_seq((uint64_t)pg_col_i8(r, row, col));
}

int64_t pg_col_sum(const PGresult *r, int row, int col)
{
    return sound_sum(pg_col_i8(r, row, col));
}

uint64_t pg_col_count(const PGresult *r, int row, int col)
{
    return sound_count(pg_col_i8(r, row, col));
}

uint8_t pg_col_kind(const PGresult *r, int row, int col, unsigned count)
{
    return sound_kind(pg_col_i2(r, row, col), count);
}

bool pg_col_bool(const PGresult *r, int row, int col)
{
    char v = 0;
    fixed(r, row, col, &v, sizeof v);
    return v != 0;
}

struct span pg_col_bytes(const PGresult *r, int row, int col)
{
    if (PQgetisnull(r, row, col))
        return (struct span){NULL, 0};
    return span_of(PQgetvalue(r, row, col), (size_t)PQgetlength(r, row, col));
}
