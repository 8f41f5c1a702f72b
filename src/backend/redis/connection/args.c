/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/redis/connection/args.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

#define LIST_DIGITS                                                                                \
    8 /* the length of a list is written before it is known, with zeros in front                   \
       */

void redis_args_init(struct rargs *a)
{
    *a = (struct rargs){.count = 0};
    buf_init(&a->body);
}

void redis_args_done(struct rargs *a)
{
    buf_done(&a->body);
}

void redis_args_clear(struct rargs *a)
{
    buf_clear(&a->body);
    a->count = 0;
    a->failed = false;
    a->into = NULL;
    a->plain = NULL;
}

/* Writes backwards, ending here; called very often. */
static char *decimal(char *end, uint64_t v)
{
    do
        *--end = (char)('0' + v % 10);
    while ((v /= 10) != 0);
    return end;
}

void redis_args_bytes(struct rargs *a, struct span s)
{
    if (a->into)
        a = a->into;
    char text[24];
    char *number = decimal(text + sizeof text, s.len);
    size_t n = (size_t)(text + sizeof text - number);
    if (buf_reserve(&a->body, n + s.len + 5) != 0) {
        a->failed = true;
        return;
    }
    buf_put_u8(&a->body, '$');
    buf_put_bytes(&a->body, number, n);
    buf_put_bytes(&a->body, "\r\n", 2);
    if (s.len)
        buf_put_bytes(&a->body, s.at, s.len);
    buf_put_bytes(&a->body, "\r\n", 2);
    a->count++;
}

void redis_args_text(struct rargs *a, const char *text)
{
    redis_args_bytes(a, span_text(text));
}

void redis_args_int(struct rargs *a, int64_t v)
{
    char text[24];
    char *at = decimal(text + sizeof text, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
    if (v < 0)
        *--at = '-';
    redis_args_bytes(a, span_of(at, (size_t)(text + sizeof text - at)));
}

void redis_args_seq(struct rargs *a, uint64_t seq)
{
    uint64_t wire = htobe64(seq);
    redis_args_bytes(a, span_of(&wire, sizeof wire));
}

void redis_args_list_begin(struct rargs *a)
{
    static const char zeros[LIST_DIGITS] = "00000000";
    redis_args_bytes(a, span_of(zeros, LIST_DIGITS));
    a->list = a->body.len - LIST_DIGITS - 2;
    a->list_from = a->count;
}

size_t redis_args_list_end(struct rargs *a)
{
    size_t n = a->count - a->list_from;
    char digits[LIST_DIGITS + 1];
    CHECK(n < 100000000);
    if (a->failed)
        return n;
    snprintf(digits, sizeof digits, "%08u", (unsigned)n);
    memcpy(a->body.data + a->list, digits, LIST_DIGITS);
    return n;
}

void redis_plain_init(struct rargs_plain *p)
{
    *p = (struct rargs_plain){.commands = 0};
    redis_args_init(&p->command);
    buf_init(&p->out);
}

void redis_plain_done(struct rargs_plain *p)
{
    redis_args_done(&p->command);
    buf_done(&p->out);
}

void redis_plain_clear(struct rargs_plain *p)
{
    redis_args_clear(&p->command);
    buf_clear(&p->out);
    p->commands = 0;
    p->failed = false;
}

void redis_plain_add(struct rargs_plain *p, struct rargs *command)
{
    char text[24];
    char *number = decimal(text + sizeof text, command->count);
    size_t n = (size_t)(text + sizeof text - number);
    bool room = !command->failed && buf_reserve(&p->out, n + 3 + command->body.len) == 0;
    p->failed |= !room;
    if (room) {
        buf_put_u8(&p->out, '*');
        buf_put_bytes(&p->out, number, n);
        buf_put_bytes(&p->out, "\r\n", 2);
        buf_put_bytes(&p->out, command->body.data, command->body.len);
        p->commands++;
    }
    redis_args_clear(command);
}

struct rargs_mark redis_args_mark(const struct rargs *a)
{
    return (struct rargs_mark){a->body.len, a->count};
}

void redis_args_undo(struct rargs *a, struct rargs_mark m)
{
    a->body.len = m.len;
    a->count = m.count;
}
