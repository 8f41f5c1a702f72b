/* SPDX-License-Identifier: Apache-2.0 */
/* Redis as a queue, the two usual ways:
 *
 *   list    LPUSH; BLMOVE into a list of the consumer's own; LREM from there. No lease, no
 * priority, no delay: who dies leaves the job in its list. stream  XADD; XREADGROUP; XACK and XDEL.
 * Pending entries stand for leases. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

#define NAME_MAX_BYTES 300

static void word(struct buf *b, const char *text, size_t len)
{
    load_text(b, "$");
    load_number(b, len);
    load_text(b, "\r\n");
    load_bytes(b, text, len);
    load_text(b, "\r\n");
}

static void text(struct buf *b, const char *t)
{
    word(b, t, strlen(t));
}

static void words(struct buf *b, unsigned n)
{
    load_text(b, "*");
    load_number(b, n);
    load_text(b, "\r\n");
}

static void payload(struct load_conn *c)
{
    load_text(&c->out, "$");
    load_number(&c->out, load_options(c)->size);
    load_text(&c->out, "\r\n");
    load_payload(c, &c->out);
    load_text(&c->out, "\r\n");
}

/* One reply of any kind; the bulk strings in it, up to `max` of them, into `bulk`. Its length, or 0
 * when it is not whole. */
struct reply {
    struct span *bulk;
    size_t max, count;
};

static size_t reply_read(struct reply *r, const char *at, size_t len)
{
    size_t line = load_line(at, len), used = line;
    if (line == 0)
        return 0;
    long n = strtol(at + 1, NULL, 10);
    if (*at == '$' && n >= 0) {
        used += (size_t)n + 2;
        if (len < used)
            return 0;
        if (r->count < r->max)
            r->bulk[r->count++] = span_of(at + line, (size_t)n);
    }
    for (long i = 0; *at == '*' && i < n; i++) {
        size_t part = reply_read(r, at + used, len - used);
        if (part == 0)
            return 0;
        used += part;
    }
    return used;
}

static size_t number_heard(struct load_conn *c, const char *at, size_t len, const char *what)
{
    size_t line = load_line(at, len);
    (void)c;
    if (line > 0 && *at != ':')
        load_unexpected(what, at, line);
    return line;
}

/* ---- lists ---- */

static void own_list(const struct load_conn *c, char name[NAME_MAX_BYTES])
{
    snprintf(name, NAME_MAX_BYTES, "%s:%u", load_options(c)->queue, c->index);
}

static void list_hello(struct load_conn *c)
{
    load_up(c);
}

static void list_put(struct load_conn *c, unsigned jobs)
{
    for (; jobs > 0; jobs--) {
        words(&c->out, 3);
        text(&c->out, "LPUSH");
        text(&c->out, load_options(c)->queue);
        payload(c);
    }
}

static void list_take(struct load_conn *c, unsigned jobs)
{
    char own[NAME_MAX_BYTES];
    own_list(c, own);
    c->asked += jobs;
    for (; jobs > 0; jobs--) {
        words(&c->out, 6);
        text(&c->out, "BLMOVE");
        text(&c->out, load_options(c)->queue);
        text(&c->out, own);
        text(&c->out, "RIGHT");
        text(&c->out, "LEFT");
        text(&c->out, "0");
    }
}

static void list_settle(struct load_conn *c)
{
    load_bytes(&c->out, c->held.data, c->held.len);
}

static void list_received(struct load_conn *c, struct span job)
{
    char own[NAME_MAX_BYTES];
    own_list(c, own);
    load_received(c, job.at, job.len);
    words(&c->held, 4);
    text(&c->held, "LREM");
    text(&c->held, own);
    text(&c->held, "-1"); /* from the tail: the oldest, where it is found at once */
    word(&c->held, job.at, job.len);
    c->held_jobs++;
    c->asked--;
}

static size_t list_hear(struct load_conn *c, const char *at, size_t len)
{
    struct span job;
    struct reply r = {&job, 1, 0};
    if (c->role == LOAD_CONSUMER && *at == '$') {
        size_t used = reply_read(&r, at, len);
        if (used > 0 && r.count == 1)
            list_received(c, job);
        return used;
    }
    size_t used = number_heard(c, at, len, c->role == LOAD_PRODUCER ? "LPUSH" : "BLMOVE or LREM");
    if (used > 0 && c->role == LOAD_PRODUCER)
        load_confirmed(c, 1);
    else if (used > 0)
        load_settled(c, 1);
    return used;
}

const struct load_protocol load_redis_list = {.name = "redis-list",
                                              .hello = list_hello,
                                              .hear = list_hear,
                                              .put = list_put,
                                              .take = list_take,
                                              .settle = list_settle};

/* ---- streams ---- */

#define GROUP "workers"
#define ENTRY_BULKS 3 /* id, field, value */
#define ENTRIES_MAX 1000

static void stream_hello(struct load_conn *c)
{
    if (c->index > 0) {
        load_up(c);
        return;
    }
    words(&c->out, 6);
    text(&c->out, "XGROUP");
    text(&c->out, "CREATE");
    text(&c->out, load_options(c)->queue);
    text(&c->out, GROUP);
    text(&c->out, "0");
    text(&c->out, "MKSTREAM");
}

static void stream_put(struct load_conn *c, unsigned jobs)
{
    for (; jobs > 0; jobs--) {
        words(&c->out, 5);
        text(&c->out, "XADD");
        text(&c->out, load_options(c)->queue);
        text(&c->out, "*");
        text(&c->out, "d");
        payload(c);
    }
}

static void stream_take(struct load_conn *c, unsigned jobs)
{
    char number[32];
    snprintf(number, sizeof number, "%u", jobs);
    c->asked = jobs;
    words(&c->out, 11);
    text(&c->out, "XREADGROUP");
    text(&c->out, "GROUP");
    text(&c->out, GROUP);
    snprintf(number, sizeof number, "c%u", c->index);
    text(&c->out, number);
    text(&c->out, "COUNT");
    snprintf(number, sizeof number, "%u", jobs);
    text(&c->out, number);
    text(&c->out, "BLOCK");
    text(&c->out, "0");
    text(&c->out, "STREAMS");
    text(&c->out, load_options(c)->queue);
    text(&c->out, ">");
}

/* XACK and XDEL of the same entries: two answers, and the second one counts. */
static void stream_settle(struct load_conn *c)
{
    const char *queue = load_options(c)->queue;
    words(&c->out, 3 + c->held_jobs);
    text(&c->out, "XACK");
    text(&c->out, queue);
    text(&c->out, GROUP);
    load_bytes(&c->out, c->held.data, c->held.len);
    words(&c->out, 2 + c->held_jobs);
    text(&c->out, "XDEL");
    text(&c->out, queue);
    load_bytes(&c->out, c->held.data, c->held.len);
    c->step = 2;
}

static size_t stream_entries(struct load_conn *c, const char *at, size_t len)
{
    static struct span bulk[1 + ENTRY_BULKS * ENTRIES_MAX]; /* the stream's name, then entries */
    struct reply r = {bulk, sizeof bulk / sizeof *bulk, 0};
    size_t used = reply_read(&r, at, len);
    if (used == 0)
        return 0;
    if (r.count < 1 + ENTRY_BULKS)
        load_unexpected("XREADGROUP", at, used);
    for (size_t i = 1; i + ENTRY_BULKS <= r.count; i += ENTRY_BULKS) {
        load_received(c, bulk[i + 2].at, bulk[i + 2].len);
        word(&c->held, bulk[i].at, bulk[i].len);
        c->held_jobs++;
    }
    c->asked = 0;
    return used;
}

static size_t stream_hear(struct load_conn *c, const char *at, size_t len)
{
    struct reply r = {NULL, 0, 0};
    if (c->up && c->role == LOAD_CONSUMER && *at == '*')
        return stream_entries(c, at, len);
    if (c->up && c->role == LOAD_CONSUMER) {
        size_t used = number_heard(c, at, len, "XACK or XDEL");
        if (used > 0 && --c->step == 0)
            load_settled(c, c->settling);
        return used;
    }
    size_t used = reply_read(&r, at, len);
    /* A stream that is filled in several runs has its group from the first. */
    if (used > 0 && *at == '-' && (c->up || !load_begins(at, used, "-BUSYGROUP")))
        load_unexpected(c->up ? "XADD" : "XGROUP", at, used);
    if (used > 0 && c->up)
        load_confirmed(c, 1);
    else if (used > 0)
        load_up(c);
    return used;
}

const struct load_protocol load_redis_stream = {.name = "redis-stream",
                                                .take_batched = true,
                                                .hello = stream_hello,
                                                .hear = stream_hear,
                                                .put = stream_put,
                                                .take = stream_take,
                                                .settle = stream_settle};
