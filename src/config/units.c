/* SPDX-License-Identifier: Apache-2.0 */
#include "config/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "base/utf8.h"

struct unit {
    const char *name;
    int64_t factor;
};

/* The name "" is for plain numbers. A value is printed with the last row from print_from on
 * whose factor divides it, so the row there has the smallest factor. */
static const struct unit none_units[] = {{"", 1}, {NULL, 0}};
static const struct unit byte_units[] = {
    {"kB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", INT64_C(1000000000000)},
    {"B", 1},
    {"", 1},
    {"KiB", INT64_C(1) << 10},
    {"MiB", INT64_C(1) << 20},
    {"GiB", INT64_C(1) << 30},
    {"TiB", INT64_C(1) << 40},
    {NULL, 0},
};
static const struct unit ms_units[] = {
    {"", 1},        {"min", 60000},  {"ms", 1},           {"s", 1000}, {"m", 60000},
    {"h", 3600000}, {"d", 86400000}, {"w", 7 * 86400000}, {NULL, 0},
};
static const struct unit second_units[] = {
    {"", 1000},     {"min", 60000},  {"ms", 1},           {"s", 1000}, {"m", 60000},
    {"h", 3600000}, {"d", 86400000}, {"w", 7 * 86400000}, {NULL, 0},
};

static const struct {
    const struct unit *units;
    size_t print_from;
    const char *expected;
} kinds[] = {
    [UNIT_NONE] = {none_units, 0, "a whole number"},
    [UNIT_BYTES] = {byte_units, 5, "bytes, such as 65536, 512KiB or 64MiB"},
    [UNIT_MS] = {ms_units, 2, "milliseconds, or a time such as 500ms, 30s, 5m, 24h or 7d"},
    [UNIT_DURATION] = {ms_units, 2, "a number with its unit, such as 500ms, 30s, 5m, 24h or 7d"},
    [UNIT_SECONDS] = {second_units, 2, "seconds, or a time such as 500ms, 2.5s or 1m"},
};

struct decimal {
    int64_t whole;
    int64_t fraction; /* of scale */
    int64_t scale;    /* a power of ten, 1 without a fraction */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Both loops advance *at past the digits. */
static int whole_parse(struct span text, size_t *at, int64_t *ret)
{
    int64_t value = 0;
    size_t start = *at;
    for (; *at < text.len && is_digit(text.at[*at]); ++*at) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text.at[*at] - '0', &value))
            return -ERR_RANGE;
    }
    size_t digits = *at - start;
    if (digits == 0 || (digits > 1 && text.at[start] == '0'))
        return -ERR_SYNTAX;
    *ret = value;
    return 0;
}

static int decimal_parse(struct span text, size_t *at, struct decimal *ret)
{
    struct decimal d = {.scale = 1};
    int err = whole_parse(text, at, &d.whole);
    if (err < 0 || *at == text.len || text.at[*at] != '.') {
        *ret = d;
        return err;
    }
    ++*at;
    for (; *at < text.len && is_digit(text.at[*at]); ++*at) {
        if (d.scale >= 1000000000)
            return -ERR_SYNTAX;
        d.scale *= 10;
        d.fraction = d.fraction * 10 + (text.at[*at] - '0');
    }
    *ret = d;
    return d.scale > 1 ? 0 : -ERR_SYNTAX;
}

static const struct unit *unit_find(enum unit_kind kind, struct span name)
{
    for (const struct unit *u = kinds[kind].units; u->name; u++) {
        if (strlen(u->name) == name.len && strncasecmp(u->name, name.at, name.len) == 0)
            return u;
    }
    return NULL;
}

static int decimal_times(struct decimal d, int64_t factor, int64_t *ret)
{
    int64_t product;
    int64_t part;
    if (__builtin_mul_overflow(d.whole, factor, &product) ||
        __builtin_mul_overflow(d.fraction, factor, &part))
        return -ERR_RANGE;
    if (part % d.scale != 0)
        return -ERR_SYNTAX;
    if (__builtin_add_overflow(product, part / d.scale, &product))
        return -ERR_RANGE;
    *ret = product;
    return 0;
}

int units_parse(struct span text, enum unit_kind kind, int64_t *ret)
{
    struct decimal d;
    int64_t value;
    size_t at = 0;
    bool negative = kind == UNIT_NONE && text.len > 0 && text.at[0] == '-';
    if (negative)
        at++;
    int err = decimal_parse(text, &at, &d);
    if (err < 0)
        return err;
    if (at + 1 < text.len && text.at[at] == ' ')
        at++;
    const struct unit *unit = unit_find(kind, span_of(text.at + at, text.len - at));
    bool plain = at == text.len && (d.whole != 0 || d.scale > 1);
    if (!unit || (kind == UNIT_NONE && d.scale > 1) || (kind == UNIT_DURATION && plain))
        return -ERR_SYNTAX;
    if ((err = decimal_times(d, unit->factor, &value)) < 0)
        return err;
    *ret = negative ? -value : value;
    return 0;
}

const char *units_expected(enum unit_kind kind)
{
    return kinds[kind].expected;
}

const char *units_text(int64_t value, enum unit_kind kind, char out[UNITS_TEXT_MAX])
{
    const struct unit *best = &kinds[kind].units[kinds[kind].print_from];
    for (const struct unit *u = best; u->name && value != 0; u++) {
        if (value % u->factor == 0)
            best = u;
    }
    /* Plain numbers are in the base unit, except for durations, which always have their unit. */
    bool plain = best->factor == 1 && kind != UNIT_SECONDS && kind != UNIT_DURATION;
    snprintf(out, UNITS_TEXT_MAX, "%" PRId64 "%s", value / best->factor, plain ? "" : best->name);
    return out;
}

const char *quoted(struct span text, char out[QUOTED_MAX])
{
    size_t len = 0;
    size_t at = 0;
    out[len++] = '\'';
    while (at < text.len && len < QUOTED_MAX - 8) {
        size_t n = utf8_sequence(span_of(text.at + at, text.len - at));
        unsigned char c = (unsigned char)text.at[at];
        /* C1 controls are C2 80 … C2 9F. */
        bool control =
            c < 0x20 || c == 0x7f || (n == 2 && c == 0xc2 && (unsigned char)text.at[at + 1] < 0xa0);
        if (n == 0 || control) {
            out[len++] = '?';
            at += n ? n : 1;
            continue;
        }
        memcpy(out + len, text.at + at, n);
        len += n;
        at += n;
    }
    snprintf(out + len, QUOTED_MAX - len, "'%s", at < text.len ? "…" : "");
    return out;
}
