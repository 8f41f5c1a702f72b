/* SPDX-License-Identifier: Apache-2.0 */
/* NATS JetStream: a work-queue stream in a file and one durable pull consumer that all share. One
 * at a time the ack is confirmed, too; pipelined it is not, as clients usually have it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

#define FIELDS_MAX 6

enum nats_step { STEP_INFO, STEP_STREAM, STEP_CONSUMER };

/* Asks the API, with the answer to this connection's inbox for setup. */
static void request(struct load_conn *c, const char *subject, const struct buf *json)
{
    load_format(&c->out, "PUB $JS.API.%s _INBOX.%u.s %zu\r\n", subject, c->index, json->len);
    load_bytes(&c->out, json->data, json->len);
    load_text(&c->out, "\r\n");
}

static void stream_make(struct load_conn *c)
{
    const char *queue = load_options(c)->queue;
    char subject[300];
    struct buf json;
    buf_init(&json);
    load_format(&json,
                "{\"name\":\"%s\",\"subjects\":[\"jobs.%s\"],\"retention\":\"workqueue\","
                "\"storage\":\"file\",\"num_replicas\":1,\"max_consumers\":-1,\"max_msgs\":-1,"
                "\"max_bytes\":-1,\"max_age\":0,\"max_msg_size\":-1,\"discard\":\"old\"}",
                queue, queue);
    snprintf(subject, sizeof subject, "STREAM.CREATE.%s", queue);
    request(c, subject, &json);
    buf_done(&json);
    c->step = STEP_STREAM;
}

static void consumer_make(struct load_conn *c)
{
    const char *queue = load_options(c)->queue;
    char subject[300];
    struct buf json;
    buf_init(&json);
    load_format(&json,
                "{\"stream_name\":\"%s\",\"config\":{\"durable_name\":\"w\","
                "\"deliver_policy\":\"all\",\"ack_policy\":\"explicit\",\"ack_wait\":60000000000,"
                "\"max_ack_pending\":100000,\"max_waiting\":512,\"replay_policy\":\"instant\"}}",
                queue);
    snprintf(subject, sizeof subject, "CONSUMER.DURABLE.CREATE.%s.w", queue);
    request(c, subject, &json);
    buf_done(&json);
    c->step = STEP_CONSUMER;
}

static void hello(struct load_conn *c)
{
    load_text(&c->out, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,"
                       "\"no_responders\":true,\"protocol\":1}\r\n");
    load_format(&c->out, "SUB _INBOX.%u.* 1\r\nPING\r\n", c->index);
}

static void put(struct load_conn *c, unsigned jobs)
{
    for (; jobs > 0; jobs--) {
        load_format(&c->out, "PUB jobs.%s _INBOX.%u.p %u\r\n", load_options(c)->queue, c->index,
                    load_options(c)->size);
        load_payload(c, &c->out);
        load_text(&c->out, "\r\n");
    }
}

/* A pull asks for many; half a window is worth a request. */
static void take(struct load_conn *c, unsigned jobs)
{
    char json[64];
    if (c->asked > load_options(c)->depth / 2)
        return;
    int len = snprintf(json, sizeof json, "{\"batch\":%u}", jobs);
    load_format(&c->out, "PUB $JS.API.CONSUMER.MSG.NEXT.%s.w _INBOX.%u.n %d\r\n%s\r\n",
                load_options(c)->queue, c->index, len, json);
    c->asked += jobs;
}

static void settle(struct load_conn *c)
{
    load_bytes(&c->out, c->held.data, c->held.len);
    if (load_options(c)->depth > 1)
        load_settled(c, c->held_jobs);
}

static void received(struct load_conn *c, struct span reply, const char *payload, size_t len)
{
    load_received(c, payload, len);
    load_text(&c->held, "PUB ");
    load_bytes(&c->held, reply.at, reply.len);
    if (load_options(c)->depth == 1)
        load_format(&c->held, " _INBOX.%u.a", c->index);
    load_text(&c->held, " 4\r\n+ACK\r\n");
    c->held_jobs++;
    c->asked--;
}

static void answered(struct load_conn *c, char inbox, const char *body, size_t len)
{
    if (memmem(body, len, "\"error\"", 7))
        load_unexpected("a request", body, len);
    if (inbox == 'p')
        load_confirmed(c, 1);
    else if (inbox == 'a')
        load_settled(c, 1);
    else if (inbox == 's' && c->step == STEP_STREAM)
        consumer_make(c);
    else if (inbox == 's')
        load_up(c);
    else
        load_unexpected("a pull", body, len);
}

/* MSG subject sid [reply] bytes */
static size_t message(struct load_conn *c, const char *at, size_t line, size_t len)
{
    struct span field[FIELDS_MAX];
    size_t n = 0, i = 0;
    while (n < FIELDS_MAX && i + 2 < line) {
        size_t from = i;
        while (i + 2 < line && at[i] != ' ')
            i++;
        field[n++] = span_of(at + from, i - from);
        i++;
    }
    if (n < 4)
        load_unexpected("a subscription", at, line);
    size_t size = strtoull(field[n - 1].at, NULL, 10);
    if (len < line + size + 2)
        return 0;
    if (n == 5 && load_begins(field[3].at, field[3].len, "$JS.ACK."))
        received(c, field[3], at + line, size);
    else
        answered(c, field[1].at[field[1].len - 1], at + line, size);
    return line + size + 2;
}

static void handshake_done(struct load_conn *c)
{
    if (c->index == 0)
        stream_make(c);
    else
        load_up(c);
}

static size_t hear(struct load_conn *c, const char *at, size_t len)
{
    size_t line = load_line(at, len);
    if (line == 0)
        return 0;
    if (load_begins(at, line, "MSG "))
        return message(c, at, line, len);
    if (load_begins(at, line, "PING"))
        load_text(&c->out, "PONG\r\n");
    else if (load_begins(at, line, "PONG") && !c->up)
        handshake_done(c);
    else if (!load_begins(at, line, "INFO ") && !load_begins(at, line, "+OK"))
        load_unexpected("a command", at, line);
    return line;
}

const struct load_protocol load_nats = {.name = "nats", LOAD_FUNCTIONS};
