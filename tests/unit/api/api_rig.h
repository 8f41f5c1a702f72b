/* SPDX-License-Identifier: Apache-2.0 */
/* The native API as it is served: a real HTTP server on a loop, a broker, a backend on a manual
 * clock; and clients that turn the loop while they wait. */
#pragma once

#include "unit/base/support.h"

#include "api/v1/v1.h"
#include "unit/broker/broker_rig.h"

struct api_rig {
    struct broker_rig broker;
    struct native *native;
    struct http_server *http;
    bool http_closed, native_closed;
};

void api_rig_init(struct api_rig *r, const char *url);
void api_rig_done(struct api_rig *r);
void api_rig_turn(struct api_rig *r);

/* A connection and what came over it. */
struct api_client {
    int fd;
    char *data; /* NUL-terminated */
    size_t len, room;
    bool eof;
};
void api_open(struct api_rig *r, struct api_client *c);
void api_close(struct api_client *c);
void api_send(struct api_rig *r, struct api_client *c, const char *text, size_t len);
/* "METHOD PATH" and headers, each line ended by \r\n, and a body. */
void api_request(struct api_rig *r, struct api_client *c, const char *line, const char *headers,
                 const char *body, size_t len);
/* Turns the loop until the text has come. */
void api_until(struct api_rig *r, struct api_client *c, const char *needle);
/* Takes what has come; true once the server has closed. */
bool api_ended(struct api_client *c);
/* Takes one answer off the front: its status; the body is NUL-terminated in `body`, the head in
 * `head`. */
struct api_answer {
    unsigned status;
    char head[2048];
    char body[1 << 20];
    size_t len;
};
void api_answer(struct api_rig *r, struct api_client *c, struct api_answer *ret);

/* One request on a new connection. The answer is valid until the next one. */
const struct api_answer *ask(struct api_rig *r, const char *line, const char *body);
const struct api_answer *ask_with(struct api_rig *r, const char *line, const char *headers,
                                  const char *body, size_t len);
/* … and its status and a piece of the body are as said. */
void expect(struct api_rig *r, const char *line, const char *body, unsigned status,
            const char *piece);
/* Turns the loop until the condition holds. */
#define API_UNTIL(rig, condition)                                                                  \
    do {                                                                                           \
        uint64_t api_deadline = clock_ns() + UINT64_C(60000000000);                                \
        while (!(condition)) {                                                                     \
            if (clock_ns() > api_deadline)                                                         \
                fail_msg("never became true: %s", #condition);                                     \
            api_rig_turn(rig);                                                                     \
        }                                                                                          \
    } while (0)
