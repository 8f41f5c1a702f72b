/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/reply.h"

#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "HTTP/1.1 200 …" */
static int status_read(struct span head)
{
    const char *at = head.at;
    if (head.len < 12 || memcmp(at, "HTTP/1.", 7) != 0 || at[8] != ' ' || !is_digit(at[9]) ||
        !is_digit(at[10]) || !is_digit(at[11]))
        return -ERR_SYNTAX;
    return (at[9] - '0') * 100 + (at[10] - '0') * 10 + (at[11] - '0');
}

static int length_read(struct span value, size_t *ret)
{
    size_t length = 0, i = 0;
    while (i < value.len && value.at[i] == ' ')
        i++;
    if (i == value.len)
        return -ERR_SYNTAX;
    for (; i < value.len; i++) {
        if (!is_digit(value.at[i]) || length > BENCH_BODY_MAX)
            return -ERR_SYNTAX;
        length = length * 10 + (size_t)(value.at[i] - '0');
    }
    *ret = length;
    return 0;
}

static bool line_named(struct span line, struct span name)
{
    return line.len > name.len && line.at[name.len] == ':' &&
           strncasecmp(line.at, name.at, name.len) == 0;
}

/* Finds Content-Length among the header lines. */
static int head_read(struct span head, bool *ret_has, size_t *ret_length)
{
    static const struct span length = {"content-length", sizeof("content-length") - 1};
    static const struct span coding = {"transfer-encoding", sizeof("transfer-encoding") - 1};
    *ret_has = false;
    while (head.len > 0) {
        const char *end = memmem(head.at, head.len, "\r\n", 2);
        size_t len = end ? (size_t)(end - head.at) : head.len;
        struct span line = span_of(head.at, len);
        if (line_named(line, coding))
            return -ERR_SYNTAX;
        if (line_named(line, length)) {
            size_t from = length.len + 1;
            int rc = length_read(span_of(line.at + from, line.len - from), ret_length);
            if (rc < 0 || *ret_has)
                return -ERR_SYNTAX;
            *ret_has = true;
        }
        size_t step = end ? len + 2 : len;
        head = span_of(head.at + step, head.len - step);
    }
    return 0;
}

int bench_reply_read(struct span input, struct bench_reply *ret)
{
    size_t look = input.len < BENCH_HEAD_MAX ? input.len : BENCH_HEAD_MAX;
    const char *end = look > 0 ? memmem(input.at, look, "\r\n\r\n", 4) : NULL;
    if (!end)
        return look < BENCH_HEAD_MAX ? 0 : -ERR_SYNTAX;
    struct span head = span_of(input.at, (size_t)(end - input.at));
    size_t length = 0;
    bool has;
    int status = status_read(head);
    if (status < 200 || head_read(head, &has, &length) < 0)
        return -ERR_SYNTAX;
    bool empty = status == 204 || status == 304;
    if (!has && !empty)
        return -ERR_SYNTAX;
    size_t bytes = head.len + 4 + (empty ? 0 : length);
    if (input.len < bytes)
        return 0;
    *ret = (struct bench_reply){
        .status = status, .body = span_of(end + 4, bytes - head.len - 4), .bytes = bytes};
    return 1;
}

size_t bench_reply_count(struct span text, const char *needle)
{
    size_t len = strlen(needle), count = 0;
    while (text.len > 0) {
        const char *found = memmem(text.at, text.len, needle, len);
        if (!found)
            break;
        count++;
        size_t step = (size_t)(found - text.at) + len;
        text = span_of(text.at + step, text.len - step);
    }
    return count;
}
