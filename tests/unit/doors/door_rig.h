/* SPDX-License-Identifier: Apache-2.0 */
/* The native door as it is served: a real HTTP server on a loop, a broker, a backend on a manual
 * clock; and clients that turn the loop while they wait. */
#pragma once

#include "unit/base/support.h"

#include "doors/native/native.h"
#include "unit/broker/broker_rig.h"

struct door_rig {
    struct broker_rig broker;
    struct native *native;
    struct http_server *http;
    bool http_closed, native_closed;
};

void door_rig_init(struct door_rig *r, const char *url);
void door_rig_done(struct door_rig *r);
void door_rig_turn(struct door_rig *r);

/* A connection and what came over it. */
struct door_client {
    int fd;
    char *data; /* NUL-terminated */
    size_t len, room;
    bool eof;
};
void door_open(struct door_rig *r, struct door_client *c);
void door_close(struct door_client *c);
void door_send(struct door_rig *r, struct door_client *c, const char *text, size_t len);
/* "METHOD PATH" and headers, each line ended by \r\n, and a body. */
void door_request(struct door_rig *r, struct door_client *c, const char *line, const char *headers,
                  const char *body, size_t len);
/* Turns the loop until the text has come. */
void door_until(struct door_rig *r, struct door_client *c, const char *needle);
/* Takes what has come; true once the server has closed. */
bool door_ended(struct door_client *c);
/* Takes one answer off the front: its status; the body is NUL-terminated in `body`, the head in
 * `head`. */
struct door_answer {
    unsigned status;
    char head[2048];
    char body[1 << 20];
    size_t len;
};
void door_answer(struct door_rig *r, struct door_client *c, struct door_answer *ret);

/* One request on a connection of its own. The answer is the rig's until the next. */
const struct door_answer *ask(struct door_rig *r, const char *line, const char *body);
const struct door_answer *ask_with(struct door_rig *r, const char *line, const char *headers,
                                   const char *body, size_t len);
/* … and its status and a piece of the body are as said. */
void expect(struct door_rig *r, const char *line, const char *body, unsigned status,
            const char *piece);
/* Turns the loop until the condition holds. */
#define DOOR_UNTIL(rig, condition)                                                                 \
    do {                                                                                           \
        uint64_t door_deadline = clock_ns() + UINT64_C(20000000000);                               \
        while (!(condition)) {                                                                     \
            if (clock_ns() > door_deadline)                                                        \
                fail_msg("never became true: %s", #condition);                                     \
            door_rig_turn(rig);                                                                    \
        }                                                                                          \
    } while (0)
