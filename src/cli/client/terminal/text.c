/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/terminal/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/utf8.h"

/* One character as it is shown. */
struct piece {
    size_t taken; /* bytes of the text */
    size_t width; /* columns */
    size_t len;
    char shown[12];
};

struct range {
    uint32_t from, to;
};

/* Sorted. Controls, and what changes the order or the lines of the text around it. */
static const struct range steering[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},     {0x61c, 0x61c},   {0x200e, 0x200f},
    {0x2028, 0x202e}, {0x2066, 0x2069}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
};
/* Sorted. What combines with the character before it. */
static const struct range combining[] = {
    {0x300, 0x36f},     {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},   {0x64b, 0x65f},
    {0x6d6, 0x6dc},     {0x900, 0x902},   {0x93c, 0x93c},   {0x941, 0x948},   {0xe31, 0xe31},
    {0xe34, 0xe3a},     {0xe47, 0xe4e},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200d},
    {0x20d0, 0x20ff},   {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0x1f3fb, 0x1f3ff},
    {0xe0100, 0xe01ef},
};
/* Sorted. East Asian wide characters and pictures. */
static const struct range wide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x2614, 0x2615},
    {0x26a1, 0x26a1},   {0x2705, 0x2705},   {0x274c, 0x274c},   {0x2753, 0x2757},
    {0x2795, 0x2797},   {0x2b50, 0x2b55},   {0x2e80, 0x303e},   {0x3041, 0x33ff},
    {0x3400, 0x4dbf},   {0x4e00, 0xa4cf},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},
    {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
    {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};

#define IN(ranges, c) in_ranges((ranges), sizeof(ranges) / sizeof((ranges)[0]), (c))

static bool in_ranges(const struct range *ranges, size_t count, uint32_t c)
{
    for (size_t i = 0; i < count && ranges[i].from <= c; i++) {
        if (c <= ranges[i].to)
            return true;
    }
    return false;
}

static uint32_t decode(const char *at, size_t len)
{
    static const unsigned char lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = (unsigned char)at[0] & lead[len];
    for (size_t i = 1; i < len; i++)
        c = c << 6 | ((unsigned char)at[i] & 0x3f);
    return c;
}

/* \xNN for a byte or a character below U+0080, \uNNNN for others. */
static struct piece piece_escape(size_t taken, uint32_t c, bool byte)
{
    struct piece p = {.taken = taken};
    int len = byte || c < 0x80 ? snprintf(p.shown, sizeof p.shown, "\\x%02x", c)
                               : snprintf(p.shown, sizeof p.shown, "\\u%04x", c);
    p.len = p.width = (size_t)len;
    return p;
}

static struct piece piece_control(size_t taken, uint32_t c)
{
    static const char short_form[] = {['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    if (c < sizeof short_form && short_form[c])
        return (struct piece){.taken = taken, .width = 2, .len = 2, .shown = {'\\', short_form[c]}};
    return piece_escape(taken, c, false);
}

static struct piece piece_of(struct span rest)
{
    size_t len = utf8_sequence(rest);
    if (len == 0)
        return piece_escape(1, (unsigned char)rest.at[0], true);
    uint32_t c = decode(rest.at, len);
    if (IN(steering, c))
        return piece_control(len, c);
    struct piece p = {.taken = len, .len = len};
    memcpy(p.shown, rest.at, len);
    p.width = c < 0x300 ? 1 : IN(combining, c) ? 0 : IN(wide, c) ? 2 : 1;
    return p;
}

size_t client_text_width(struct span text)
{
    size_t width = 0;
    for (size_t at = 0; at < text.len;) {
        struct piece p = piece_of(span_of(text.at + at, text.len - at));
        at += p.taken;
        width += p.width;
    }
    return width;
}

/* true if the rest takes at most `width` columns; reads no further than needed. */
static bool fits(struct span rest, size_t width)
{
    size_t bytes_max = width > SIZE_MAX / 8 ? SIZE_MAX : width * 8;
    if (rest.len > bytes_max) /* many combining marks in a row are escaped as well */
        return false;
    size_t used = 0;
    for (size_t at = 0; at < rest.len && used <= width;) {
        struct piece p = piece_of(span_of(rest.at + at, rest.len - at));
        at += p.taken;
        used += p.width;
    }
    return used <= width;
}

int client_text_show(struct buf *out, struct span text, size_t width)
{
    bool cut = !fits(text, width);
    size_t left = cut && width > 0 ? width - 1 : width;
    size_t bytes_left = cut ? left * 8 : SIZE_MAX;
    for (size_t at = 0; at < text.len;) {
        struct piece p = piece_of(span_of(text.at + at, text.len - at));
        if (p.width > left || p.len > bytes_left)
            break;
        int rc = buf_append(out, p.shown, p.len);
        if (rc < 0)
            return rc;
        at += p.taken;
        left -= p.width;
        bytes_left -= cut ? p.len : 0;
    }
    return cut && width > 0 ? buf_append_text(out, "…") : 0;
}

int client_text_json(struct buf *out, struct span json, bool escape)
{
    while (json.len > 0 && strchr(" \t\r\n", json.at[json.len - 1]))
        json.len--;
    for (size_t at = 0; at < json.len;) {
        struct span rest = span_of(json.at + at, json.len - at);
        size_t len = utf8_sequence(rest);
        uint32_t c = len ? decode(rest.at, len) : 0xfffd;
        int rc;
        if (c == '\n' || c == '\r')
            rc = buf_append(out, " ", 1);
        else if (escape && c >= 0x7f && c <= 0x9f)
            rc = buf_printf(out, "\\u%04x", c);
        else
            rc = buf_append(out, rest.at, len ? len : 1);
        if (rc < 0)
            return rc;
        at += len ? len : 1;
    }
    return 0;
}
