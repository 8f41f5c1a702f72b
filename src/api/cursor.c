/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cursor.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/limits.h"

static char letter(bool newest_first)
{
    return newest_first ? 'n' : 'o';
}

void cursor_text(uint64_t seq, bool newest_first, char out[CURSOR_TEXT_BYTES])
{
    snprintf(out, CURSOR_TEXT_BYTES, "%c%" PRIx64, letter(newest_first), seq);
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int cursor_parse(struct span text, bool newest_first, uint64_t *ret)
{
    uint64_t seq = 0;
    if (text.len < 2 || text.len >= CURSOR_TEXT_BYTES || text.at[0] != letter(newest_first) ||
        text.at[1] == '0')
        return -ERR_SYNTAX;
    for (size_t i = 1; i < text.len; i++) {
        int digit = digit_of(text.at[i]);
        if (digit < 0)
            return -ERR_SYNTAX;
        seq = seq << 4 | (uint64_t)digit;
    }
    if (seq > LIMIT_SEQ)
        return -ERR_SYNTAX;
    *ret = seq;
    return 0;
}

int cursor_refuse(const struct field_reader *r)
{
    problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "cursor",
                "cursor must be the next_cursor of an earlier reply to the same list");
    return -ERR_INVALID;
}
