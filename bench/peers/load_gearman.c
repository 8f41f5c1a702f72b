/* SPDX-License-Identifier: Apache-2.0 */
/* gearmand: background jobs, in its memory. A worker that finds no job sleeps until the server
 * notifies it; the end of a job has no reply, so a job counts as settled when it is sent. */
#include <string.h>

#include "load.h"

enum packet {
    CAN_DO = 1,
    PRE_SLEEP = 4,
    NOOP = 6,
    JOB_CREATED = 8,
    GRAB_JOB = 9,
    NO_JOB = 10,
    JOB_ASSIGN = 11,
    WORK_COMPLETE = 13,
    SUBMIT_JOB_BG = 18,
    ERROR = 19,
};

#define HEAD 12

static void packet(struct buf *b, enum packet kind, size_t len)
{
    load_bytes(b, "\0REQ", 4);
    load_big(b, kind, 4);
    load_big(b, len, 4);
}

static void hello(struct load_conn *c)
{
    const char *queue = load_options(c)->queue;
    if (c->role == LOAD_CONSUMER) {
        packet(&c->out, CAN_DO, strlen(queue));
        load_text(&c->out, queue);
    }
    load_up(c);
}

/* The name, an empty key of uniqueness, the payload. */
static void put(struct load_conn *c, unsigned jobs)
{
    const char *queue = load_options(c)->queue;
    for (; jobs > 0; jobs--) {
        packet(&c->out, SUBMIT_JOB_BG, strlen(queue) + 2 + load_options(c)->size);
        load_bytes(&c->out, queue, strlen(queue) + 1);
        load_bytes(&c->out, "", 1);
        load_payload(c, &c->out);
    }
}

static void take(struct load_conn *c, unsigned jobs)
{
    c->asked += jobs;
    for (; jobs > 0; jobs--)
        packet(&c->out, GRAB_JOB, 0);
}

static void settle(struct load_conn *c)
{
    load_bytes(&c->out, c->held.data, c->held.len);
    load_settled(c, c->held_jobs);
}

/* Handle, name, payload. */
static void assigned(struct load_conn *c, const char *at, size_t len)
{
    const char *end = at + len, *name = memchr(at, '\0', len);
    const char *payload = name ? memchr(name + 1, '\0', (size_t)(end - name - 1)) : NULL;
    if (!payload)
        load_unexpected("GRAB_JOB", at, len);
    load_received(c, payload + 1, (size_t)(end - payload - 1));
    packet(&c->held, WORK_COMPLETE, (size_t)(name - at) + 1);
    load_bytes(&c->held, at, (size_t)(name - at) + 1);
    c->held_jobs++;
    c->asked--;
}

/* The last answer of several sends the worker to sleep; `asked` stays 1, so that it does not ask.
 */
static void nothing(struct load_conn *c)
{
    if (c->asked > 1) {
        c->asked--;
        return;
    }
    packet(&c->out, PRE_SLEEP, 0);
}

static void heard(struct load_conn *c, uint64_t kind, const char *at, size_t len)
{
    if (kind == JOB_CREATED)
        load_confirmed(c, 1);
    else if (kind == JOB_ASSIGN)
        assigned(c, at, len);
    else if (kind == NO_JOB)
        nothing(c);
    else if (kind == NOOP)
        c->asked = 0;
    else
        load_unexpected("a packet", at, len);
}

static size_t hear(struct load_conn *c, const char *at, size_t len)
{
    if (len < HEAD)
        return 0;
    size_t size = load_read_big(at + 8, 4);
    if (len < HEAD + size)
        return 0;
    heard(c, load_read_big(at + 4, 4), at + HEAD, size);
    return HEAD + size;
}

/* take_batched: the next grabs wait until all answers are here, or the sleep would be one of many.
 */
const struct load_protocol load_gearman = {.name = "gearman", .take_batched = true, LOAD_FUNCTIONS};
