/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes are allowed where in a request. Private to the parser. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "http/parse.h"

enum http_char {
    CHAR_TOKEN = 1u << 0,  /* methods and header names */
    CHAR_TARGET = 1u << 1, /* visible ASCII; '#' and '\' are not: readers disagree about them */
    CHAR_VALUE = 1u << 2,  /* header values: visible, space, tab, 0x80 and above */
    CHAR_HOST = 1u << 3,   /* names and IPv4 addresses */
    CHAR_IPV6 = 1u << 4,   /* between the brackets */
    CHAR_BLANK = 1u << 5,  /* space and tab */
};
extern const uint8_t http_chars[256];

static inline bool char_is(char c, enum http_char what)
{
    return (http_chars[(unsigned char)c] & what) != 0;
}

static inline bool char_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline char char_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* The first byte that is not allowed in a header value, or end. */
const char *http_value_end(const char *at, const char *end);

/* "name", "name:80", "192.0.2.1", "[::1]:80"; empty is none. */
bool http_host_valid(struct span host);

/* Fills the fault and returns -1. */
int http_refuse(struct http_fault *fault, unsigned status, const char *text);
