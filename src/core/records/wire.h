/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and reading encoded fields, for the encoders of this folder.
 *
 * Writing goes through a bare pointer into room that was reserved for the largest case, so that a
 * field costs no check. Reading goes through a cursor whose error sticks: after the first bad field
 * every take_ gives zero, and the caller looks at `bad` once, at the end. */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/span.h"
#include "base/system/clock.h"
#include "core/limits.h"
#include "core/validate.h"

/* Bytes that a field takes at most. */
#define WIRE_U8 1
#define WIRE_U16 3
#define WIRE_U32 5
#define WIRE_U64 BUF_VARINT_MAX
#define WIRE_SEQ 8
#define WIRE_WALL 7
#define WIRE_FIXED64 8
#define WIRE_LENGTH 5 /* of a span; its bytes come on top */

static inline size_t varint_bytes(uint64_t v)
{
    return (size_t)(70 - __builtin_clzll(v | 1)) / 7;
}

static inline uint8_t *put_u8(uint8_t *at, uint8_t v)
{
    *at = v;
    return at + 1;
}

static inline uint8_t *put_varint(uint8_t *at, uint64_t v)
{
    while (v >= 0x80) {
        *at++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *at++ = (uint8_t)v;
    return at;
}

static inline uint8_t *put_zigzag(uint8_t *at, int64_t v)
{
    return put_varint(at, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}

static inline uint8_t *put_wall(uint8_t *at, struct wall_time t)
{
    return put_varint(at, (uint64_t)t.ms);
}

/* For what uses all its bits: hashes, halves of ids. */
static inline uint8_t *put_fixed64(uint8_t *at, uint64_t v)
{
    v = htole64(v);
    memcpy(at, &v, sizeof v);
    return at + sizeof v;
}

static inline uint8_t *put_span(uint8_t *at, struct span s)
{
    at = put_varint(at, s.len);
    if (s.len > 0)
        memcpy(at, s.at, s.len);
    return at + s.len;
}

struct wire_in {
    struct span rest;
    bool bad;
};

static inline void wire_spoil(struct wire_in *in)
{
    in->bad = true;
    in->rest.len = 0;
}

static inline bool wire_ended(const struct wire_in *in)
{
    return !in->bad && in->rest.len == 0;
}

/* The low seven bits of each byte of v, put together. */
static inline uint64_t varint_gather(uint64_t v)
{
    v = (v & UINT64_C(0x007f007f007f007f)) | (v & UINT64_C(0x7f007f007f007f00)) >> 1;
    v = (v & UINT64_C(0x00003fff00003fff)) | (v & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (v & UINT64_C(0x000000000fffffff)) | (v & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* One byte, or up to eight at once where eight can be read; span_take_varint for the rest. */
static inline uint64_t take_varint(struct wire_in *in)
{
    uint64_t word, v = 0;
    if (in->rest.len > 0 && (uint8_t)in->rest.at[0] < 0x80) {
        v = (uint8_t)in->rest.at[0];
        in->rest.at++;
        in->rest.len--;
        return v;
    }
    if (in->rest.len >= sizeof word) {
        memcpy(&word, in->rest.at, sizeof word);
        word = le64toh(word);
        uint64_t last = ~word & UINT64_C(0x8080808080808080);
        unsigned bits = last ? (unsigned)__builtin_ctzll(last) + 1 : 0;
        if (last && (word >> (bits - 8) & 0x7f) != 0) {
            in->rest.at += bits / 8;
            in->rest.len -= bits / 8;
            return varint_gather(word & (~UINT64_C(0) >> (64 - bits)));
        }
    }
    if (span_take_varint(&in->rest, &v) < 0)
        wire_spoil(in);
    return v;
}

static inline uint64_t take_upto(struct wire_in *in, uint64_t max)
{
    uint64_t v = take_varint(in);
    if (v > max) {
        wire_spoil(in);
        return 0;
    }
    return v;
}

static inline uint8_t take_u8(struct wire_in *in)
{
    return (uint8_t)take_upto(in, 0x7f);
}

static inline bool take_bool(struct wire_in *in)
{
    return take_upto(in, 1) != 0;
}

static inline uint16_t take_u16(struct wire_in *in)
{
    return (uint16_t)take_upto(in, UINT16_MAX);
}

static inline uint32_t take_u32(struct wire_in *in)
{
    return (uint32_t)take_upto(in, UINT32_MAX);
}

static inline int64_t take_zigzag(struct wire_in *in)
{
    uint64_t v = take_varint(in);
    return (int64_t)((v >> 1) ^ (~(v & 1) + 1));
}

static inline struct wall_time take_wall(struct wire_in *in)
{
    return (struct wall_time){(int64_t)take_upto(in, LIMIT_WALL_MS)};
}

static inline uint64_t take_fixed64(struct wire_in *in)
{
    uint64_t v = 0;
    if (span_take_u64(&in->rest, &v) < 0)
        wire_spoil(in);
    return v;
}

static inline struct span take_span(struct wire_in *in)
{
    struct span s = {NULL, 0};
    if (span_take_bytes(&in->rest, take_varint(in), &s) < 0)
        wire_spoil(in);
    return s;
}

/* A span that holds text by the rules of validate_text. */
static inline struct span take_text(struct wire_in *in, size_t max)
{
    struct span s = take_span(in);
    if (s.len > 0 && validate_text("text", s, max, NULL) < 0)
        wire_spoil(in);
    return s;
}

static inline bool wall_fits(struct wall_time t)
{
    return t.ms >= 0 && t.ms <= LIMIT_WALL_MS;
}

static inline bool seq_fits(uint64_t seq)
{
    return seq - 1 < LIMIT_SEQ;
}

/* ---- members ----
 *
 * Where one member follows the other, the order is written once, in a list:
 *     #define JOB_READY(F) F(seq, seq) F(wall, at)
 * The first argument is the encoding, the second the member of the struct to which `m` points; an
 * encoding `text` has its limit behind that. A file may add an encoding NAME: put_NAME, take_NAME
 * and wire_max_NAME, the most bytes that a value takes. */

#define put_bool put_u8
#define put_u16 put_varint
#define put_u32 put_varint
#define put_u64 put_varint
#define put_seq put_varint
#define put_text put_span
#define take_u64 take_varint
#define take_seq take_varint

#define wire_max_u8(v) WIRE_U8
#define wire_max_bool(v) WIRE_U8
#define wire_max_u16(v) WIRE_U16
#define wire_max_u32(v) WIRE_U32
#define wire_max_u64(v) WIRE_U64
#define wire_max_zigzag(v) WIRE_U64
#define wire_max_seq(v) WIRE_SEQ
#define wire_max_wall(v) WIRE_WALL
#define wire_max_fixed64(v) WIRE_FIXED64
#define wire_max_span(v) (WIRE_LENGTH + (v).len)
#define wire_max_text(v) wire_max_span(v)

#define WIRE_PUT(encoding, member, ...) at = put_##encoding(at, m->member);
#define WIRE_TAKE(encoding, member, ...) m->member = take_##encoding(in __VA_OPT__(, ) __VA_ARGS__);
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a term of a sum that begins before the list */
#define WIRE_MAX(encoding, member, ...) +wire_max_##encoding(m->member)
