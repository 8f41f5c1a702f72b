/* SPDX-License-Identifier: Apache-2.0 */
/* AMQP 0-9-1 as implemented by RabbitMQ: persistent messages with publisher confirms, a consumer
 * with a prefetch of depth. Acks of consumers have no reply, so a job counts as settled when its
 * ack is sent. */
#include <string.h>

#include "load.h"

enum frame { FRAME_METHOD = 1, FRAME_HEADER = 2, FRAME_BODY = 3, FRAME_HEARTBEAT = 8 };

#define FRAME_HEAD 7
#define FRAME_END 0xce
#define METHOD(class, number) ((class) << 16 | (number))

enum method {
    CONNECTION_START = METHOD(10, 10),
    CONNECTION_START_OK = METHOD(10, 11),
    CONNECTION_TUNE = METHOD(10, 30),
    CONNECTION_TUNE_OK = METHOD(10, 31),
    CONNECTION_OPEN = METHOD(10, 40),
    CONNECTION_OPEN_OK = METHOD(10, 41),
    CHANNEL_OPEN = METHOD(20, 10),
    CHANNEL_OPEN_OK = METHOD(20, 11),
    QUEUE_DECLARE = METHOD(50, 10),
    QUEUE_DECLARE_OK = METHOD(50, 11),
    BASIC_QOS = METHOD(60, 10),
    BASIC_QOS_OK = METHOD(60, 11),
    BASIC_CONSUME = METHOD(60, 20),
    BASIC_CONSUME_OK = METHOD(60, 21),
    BASIC_PUBLISH = METHOD(60, 40),
    BASIC_DELIVER = METHOD(60, 60),
    BASIC_ACK = METHOD(60, 80),
    CONFIRM_SELECT = METHOD(85, 10),
    CONFIRM_SELECT_OK = METHOD(85, 11),
};

/* ---- writing ---- */

static size_t frame_begin(struct load_conn *c, enum frame kind, unsigned channel)
{
    load_big(&c->out, kind, 1);
    load_big(&c->out, channel, 2);
    load_big(&c->out, 0, 4);
    return c->out.len;
}

static void frame_end(struct load_conn *c, size_t begin)
{
    size_t len = c->out.len - begin;
    for (unsigned i = 0; i < 4; i++)
        c->out.data[begin - 4 + i] = (char)(len >> (24 - 8 * i));
    load_big(&c->out, FRAME_END, 1);
}

static size_t method_begin(struct load_conn *c, enum method m)
{
    size_t begin = frame_begin(c, FRAME_METHOD, m >> 16 == 10 ? 0 : 1);
    load_big(&c->out, m, 4);
    return begin;
}

static void short_text(struct load_conn *c, const char *text)
{
    load_big(&c->out, strlen(text), 1);
    load_text(&c->out, text);
}

static void long_text(struct load_conn *c, const char *text, size_t len)
{
    load_big(&c->out, len, 4);
    load_bytes(&c->out, text, len);
}

/* ---- the handshake, one answer after the other ---- */

static void start_ok(struct load_conn *c, const char *args)
{
    (void)args;
    size_t f = method_begin(c, CONNECTION_START_OK);
    load_big(&c->out, 0, 4); /* no properties */
    short_text(c, "PLAIN");
    long_text(c, "\0guest\0guest", 12);
    short_text(c, "en_US");
    frame_end(c, f);
}

static void tune_ok(struct load_conn *c, const char *args)
{
    size_t f = method_begin(c, CONNECTION_TUNE_OK);
    load_bytes(&c->out, args, 6); /* channels and frame size that the server proposes */
    load_big(&c->out, 0, 2);      /* no heartbeat */
    frame_end(c, f);
    f = method_begin(c, CONNECTION_OPEN);
    short_text(c, "/");
    short_text(c, "");
    load_big(&c->out, 0, 1);
    frame_end(c, f);
}

static void channel_open(struct load_conn *c, const char *args)
{
    (void)args;
    size_t f = method_begin(c, CHANNEL_OPEN);
    short_text(c, "");
    frame_end(c, f);
}

static void queue_declare(struct load_conn *c, const char *args)
{
    static const char key[] = "\014x-queue-typeS";
    const char *kind = load_options(c)->kind;
    (void)args;
    size_t f = method_begin(c, QUEUE_DECLARE);
    load_big(&c->out, 0, 2);
    short_text(c, load_options(c)->queue);
    load_big(&c->out, 2, 1); /* durable */
    load_big(&c->out, sizeof key - 1 + 4 + strlen(kind), 4);
    load_bytes(&c->out, key, sizeof key - 1);
    long_text(c, kind, strlen(kind));
    frame_end(c, f);
}

static void mode_set(struct load_conn *c, const char *args)
{
    (void)args;
    size_t f;
    if (c->role == LOAD_PRODUCER) {
        f = method_begin(c, CONFIRM_SELECT);
        load_big(&c->out, 0, 1);
    } else {
        f = method_begin(c, BASIC_QOS);
        load_big(&c->out, 0, 4);
        load_big(&c->out, load_options(c)->depth, 2);
        load_big(&c->out, 0, 1);
    }
    frame_end(c, f);
}

/* Every tag of the window has a byte: whether it was confirmed out of order. */
static void ready(struct load_conn *c, const char *args)
{
    static const char none[1];
    (void)args;
    for (unsigned i = 0; c->role == LOAD_PRODUCER && i < load_options(c)->depth; i++)
        load_bytes(&c->held, none, 1);
    load_up(c);
}

/* ---- confirms ---- */

static bool early(struct load_conn *c, uint64_t tag, bool set)
{
    char *place = &c->held.data[tag % load_options(c)->depth];
    bool was = *place;
    *place = set;
    return was;
}

/* c->tag is the last one up to which all are confirmed. */
static void confirmed(struct load_conn *c, const char *args)
{
    uint64_t tag = load_read_big(args, 8);
    bool multiple = args[8] & 1;
    unsigned jobs = 0;
    if (tag <= c->tag || tag > c->tag + c->unconfirmed)
        load_unexpected("a publish", args, 9);
    if (!multiple) {
        early(c, tag, true);
        jobs = 1;
    }
    for (; multiple && c->tag < tag; c->tag++)
        jobs += !early(c, c->tag + 1, false);
    while (c->tag < UINT64_MAX && early(c, c->tag + 1, false))
        c->tag++;
    load_confirmed(c, jobs);
}

/* ---- hearing ---- */

static void delivered(struct load_conn *c, const char *args)
{
    c->tag = load_read_big(args + 1 + (uint8_t)args[0], 8); /* after the consumer's tag */
}

static void consuming(struct load_conn *c, const char *args)
{
    (void)c;
    (void)args;
}

/* On the first connection the declaration of the queue follows. */
static void opened(struct load_conn *c, const char *args)
{
    if (c->index == 0)
        queue_declare(c, args);
    else
        mode_set(c, args);
}

static const struct {
    enum method method;
    void (*heard)(struct load_conn *c, const char *args);
} methods[] = {
    {BASIC_ACK, confirmed},        {BASIC_DELIVER, delivered},         {CONNECTION_START, start_ok},
    {CONNECTION_TUNE, tune_ok},    {CONNECTION_OPEN_OK, channel_open}, {CHANNEL_OPEN_OK, opened},
    {QUEUE_DECLARE_OK, mode_set},  {CONFIRM_SELECT_OK, ready},         {BASIC_QOS_OK, ready},
    {BASIC_CONSUME_OK, consuming},
};

static void method(struct load_conn *c, const char *at, size_t len)
{
    uint64_t m = load_read_big(at, 4);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].method == m) {
            methods[i].heard(c, at + 4);
            return;
        }
    load_unexpected("a method", at, len);
}

static size_t hear(struct load_conn *c, const char *at, size_t len)
{
    if (len < FRAME_HEAD)
        return 0;
    size_t size = load_read_big(at + 3, 4);
    if (len < FRAME_HEAD + size + 1)
        return 0;
    if (at[0] == FRAME_METHOD)
        method(c, at + FRAME_HEAD, size);
    else if (at[0] == FRAME_BODY) {
        load_received(c, at + FRAME_HEAD, size);
        c->held_jobs++;
    } else if (at[0] != FRAME_HEADER && at[0] != FRAME_HEARTBEAT)
        load_unexpected("a frame", at, len);
    return FRAME_HEAD + size + 1;
}

/* ---- jobs ---- */

static void hello(struct load_conn *c)
{
    load_bytes(&c->out, "AMQP\0\0\x09\x01", 8);
}

static void put(struct load_conn *c, unsigned jobs)
{
    for (; jobs > 0; jobs--) {
        size_t f = method_begin(c, BASIC_PUBLISH);
        load_big(&c->out, 0, 2);
        short_text(c, "");
        short_text(c, load_options(c)->queue);
        load_big(&c->out, 0, 1);
        frame_end(c, f);
        f = frame_begin(c, FRAME_HEADER, 1);
        load_big(&c->out, 60, 2);
        load_big(&c->out, 0, 2);
        load_big(&c->out, load_options(c)->size, 8);
        load_big(&c->out, 0x1000, 2); /* only the delivery mode: */
        load_big(&c->out, 2, 1);      /* persistent */
        frame_end(c, f);
        f = frame_begin(c, FRAME_BODY, 1);
        load_payload(c, &c->out);
        frame_end(c, f);
    }
}

/* Sent once; from then on the server pushes as many as the prefetch allows. */
static void take(struct load_conn *c, unsigned jobs)
{
    size_t f = method_begin(c, BASIC_CONSUME);
    load_big(&c->out, 0, 2);
    short_text(c, load_options(c)->queue);
    short_text(c, "");
    load_big(&c->out, 0, 1);
    load_big(&c->out, 0, 4);
    frame_end(c, f);
    c->asked = jobs;
}

static void settle(struct load_conn *c)
{
    size_t f = method_begin(c, BASIC_ACK);
    load_big(&c->out, c->tag, 8);
    load_big(&c->out, 1, 1); /* all up to this one */
    frame_end(c, f);
    load_settled(c, c->held_jobs);
}

const struct load_protocol load_amqp = {.name = "amqp", LOAD_FUNCTIONS};
