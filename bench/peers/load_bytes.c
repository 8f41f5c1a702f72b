/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with which the protocols read and write. If memory runs out, the program ends. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

#define SHOWN_MAX 200 /* of an answer that was not expected */

void load_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("peerload: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void load_unexpected(const char *what, const char *at, size_t len)
{
    char shown[SHOWN_MAX + 1];
    size_t n = len < SHOWN_MAX ? len : SHOWN_MAX;
    for (size_t i = 0; i < n; i++)
        shown[i] = at[i] >= ' ' && at[i] < 0x7f ? at[i] : '.';
    shown[n] = '\0';
    load_fail("the answer to %s was: %s", what, shown);
}

static void room(struct buf *b, size_t more)
{
    if (buf_reserve(b, more) < 0)
        load_fail("out of memory");
}

void load_bytes(struct buf *b, const void *bytes, size_t len)
{
    room(b, len);
    buf_put_bytes(b, bytes, len);
}

void load_text(struct buf *b, const char *text)
{
    load_bytes(b, text, strlen(text));
}

/* Not printf: this runs for each job, and the generator must stay faster than the servers. */
void load_number(struct buf *b, uint64_t n)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    load_bytes(b, digits + at, sizeof digits - at);
}

void load_big(struct buf *b, uint64_t value, unsigned bytes)
{
    room(b, bytes);
    while (bytes > 0)
        buf_put_u8(b, (uint8_t)(value >> (8 * --bytes)));
}

void load_format(struct buf *b, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof text)
        load_fail("a message of more than %zu bytes", sizeof text);
    load_bytes(b, text, (size_t)len);
}

void load_payload(struct load_conn *c, struct buf *b)
{
    static const char hex[] = "0123456789abcdef";
    unsigned size = load_options(c)->size;
    uint64_t now = load_now_ns();
    char *at = c->load->payload;
    for (int i = 0; i < 16; i++)
        at[i] = hex[now >> (60 - 4 * i) & 15];
    load_bytes(b, at, size);
}

unsigned load_priority(struct load *load)
{
    unsigned n = load->options.priorities;
    return n > 1 ? (unsigned)random_below(&load->random, n) : 0;
}

size_t load_line(const char *at, size_t len)
{
    const char *end = len > 0 ? memchr(at, '\n', len) : NULL;
    return end ? (size_t)(end - at) + 1 : 0;
}

uint64_t load_read_big(const char *at, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v = v << 8 | (uint8_t)at[i];
    return v;
}

bool load_begins(const char *at, size_t len, const char *text)
{
    size_t n = strlen(text);
    return len >= n && memcmp(at, text, n) == 0;
}
