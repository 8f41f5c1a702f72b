/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kv_keys.h"

#include <string.h>

#include "core/kvkey.h"
#include "core/records/record.h"

int kv_keys_pack(struct arena *arena, struct texts_in keys, struct span *ret)
{
    struct buf list;
    int err = 0;
    buf_init(&list);
    for (size_t i = 0; !err && i < keys.count; i++)
        err = record_span_append(&list, keys.list[i]);
    char *copy = err ? NULL : arena_copy(arena, list.data, list.len);
    if (copy)
        *ret = span_of(copy, list.len);
    buf_done(&list);
    return copy ? 0 : -ERR_NOMEM;
}

static char letter(bool reverse)
{
    return reverse ? 'r' : 'k';
}

const char *kv_cursor_text(struct arena *arena, struct span key, bool reverse)
{
    static const char digits[] = "0123456789abcdef";
    char *text = arena_alloc(arena, 2 * key.len + 2);
    if (!text)
        return NULL;
    text[0] = letter(reverse);
    for (size_t i = 0; i < key.len; i++) {
        text[1 + 2 * i] = digits[(unsigned char)key.at[i] >> 4];
        text[2 + 2 * i] = digits[(unsigned char)key.at[i] & 15];
    }
    text[1 + 2 * key.len] = 0;
    return text;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int kv_cursor_parse(struct arena *arena, struct span text, bool reverse, struct span *ret)
{
    size_t len = text.len / 2;
    if (text.len % 2 == 0 || text.at[0] != letter(reverse))
        return -ERR_SYNTAX;
    char *key = arena_alloc(arena, len + 1);
    if (!key)
        return -ERR_NOMEM;
    for (size_t i = 0; i < len; i++) {
        int high = digit_of(text.at[1 + 2 * i]), low = digit_of(text.at[2 + 2 * i]);
        if (high < 0 || low < 0)
            return -ERR_SYNTAX;
        key[i] = (char)(high << 4 | low);
    }
    *ret = span_of(key, len);
    return kvkey_check(*ret) == 0 ? 0 : -ERR_SYNTAX;
}
