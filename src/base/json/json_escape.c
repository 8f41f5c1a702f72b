/* SPDX-License-Identifier: Apache-2.0 */
/* Escaping, one character at a time. */
#include "base/json/json_escape.h"

#include "base/utf8.h"

size_t json_escape_u(unsigned code, char out[JSON_ESCAPE_MAX])
{
    static const char hex[] = "0123456789abcdef";
    out[0] = '\\';
    out[1] = 'u';
    for (unsigned i = 0; i < 4; i++)
        out[2 + i] = hex[code >> (12 - 4 * i) & 0xf];
    return 6;
}

static char short_form(unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
        return (char)c;
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

size_t json_escape(struct span text, char out[JSON_ESCAPE_MAX], size_t *ret_taken)
{
    unsigned char c = (unsigned char)text.at[0];
    size_t sequence = utf8_sequence(text);
    char letter = short_form(c);
    *ret_taken = sequence ? sequence : 1;
    if (sequence == 0)
        return utf8_encode(0xfffd, out);
    if (letter) {
        out[0] = '\\';
        out[1] = letter;
        return 2;
    }
    if (c < 0x20)
        return json_escape_u(c, out);
    memcpy(out, text.at, sequence);
    return sequence;
}
