/* SPDX-License-Identifier: Apache-2.0 */
/* beanstalkd's text protocol: for beanstalkd, for Holdfast's API, and for the null server. */
#include <stdlib.h>

#include "load.h"

#define TTR_S 60

static void hello(struct load_conn *c)
{
    const char *queue = load_options(c)->queue;
    if (c->role == LOAD_PRODUCER)
        load_format(&c->out, "use %s\r\n", queue);
    else
        load_format(&c->out, "watch %s\r\nignore default\r\n", queue);
}

static void put(struct load_conn *c, unsigned jobs)
{
    const struct load_options *o = load_options(c);
    for (; jobs > 0; jobs--) {
        load_text(&c->out, "put ");
        load_number(&c->out, load_priority(c->load));
        load_text(&c->out, " ");
        load_number(&c->out, o->delay_s);
        load_text(&c->out, " ");
        load_number(&c->out, TTR_S);
        load_text(&c->out, " ");
        load_number(&c->out, o->size);
        load_text(&c->out, "\r\n");
        load_payload(c, &c->out);
        load_text(&c->out, "\r\n");
    }
}

static void take(struct load_conn *c, unsigned jobs)
{
    c->asked += jobs;
    for (; jobs > 0; jobs--)
        load_text(&c->out, "reserve\r\n");
}

static void settle(struct load_conn *c)
{
    load_bytes(&c->out, c->held.data, c->held.len);
}

/* The line is RESERVED id bytes; the body and its line end follow. */
static size_t reserved(struct load_conn *c, const char *at, size_t line, size_t len)
{
    char *end;
    const char *id = at + sizeof "RESERVED " - 1;
    (void)strtoull(id, &end, 10);
    size_t id_len = (size_t)(end - id), body = strtoull(end, NULL, 10);
    if (len < line + body + 2)
        return 0;
    load_received(c, at + line, body);
    load_text(&c->held, "delete ");
    load_bytes(&c->held, id, id_len);
    load_text(&c->held, "\r\n");
    c->held_jobs++;
    c->asked--;
    return line + body + 2;
}

/* A producer expects one reply, a consumer two. */
static void take_handshake(struct load_conn *c, const char *at, size_t line)
{
    bool producer = c->role == LOAD_PRODUCER;
    if (!load_begins(at, line, producer ? "USING " : "WATCHING "))
        load_unexpected(producer ? "use" : "watch", at, line);
    if (++c->step == (producer ? 1 : 2))
        load_up(c);
}

static size_t hear(struct load_conn *c, const char *at, size_t len)
{
    size_t line = load_line(at, len);
    if (line == 0)
        return 0;
    if (!c->up)
        take_handshake(c, at, line);
    else if (c->role == LOAD_PRODUCER && load_begins(at, line, "INSERTED "))
        load_confirmed(c, 1);
    else if (c->role == LOAD_CONSUMER && load_begins(at, line, "RESERVED "))
        return reserved(c, at, line, len);
    else if (c->role == LOAD_CONSUMER && load_begins(at, line, "DELETED"))
        load_settled(c, 1);
    else
        load_unexpected(c->role == LOAD_PRODUCER ? "put" : "reserve or delete", at, line);
    return line;
}

const struct load_protocol load_beanstalk = {.name = "beanstalk", LOAD_FUNCTIONS};
