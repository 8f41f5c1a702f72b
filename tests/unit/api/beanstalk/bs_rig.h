/* SPDX-License-Identifier: Apache-2.0 */
/* The beanstalk API as it is served: on a loop, with a broker and a backend in memory on a manual
 * clock; and the clients of unit/net/client.h. The tests run over plain and over split streams. */
#pragma once

#include "api/beanstalk/beanstalk.h"
#include "unit/broker/broker_rig.h"
#include "unit/net/client.h"
#include "unit/net/split_stream.h"

struct bs_rig {
    struct broker_rig broker;
    struct beanstalk_config config; /* to be changed between bs_rig_init and bs_rig_start */
    struct beanstalk *api;
    unsigned drained, closed;
};

void bs_rig_init(struct bs_rig *r);
void bs_rig_start(struct bs_rig *r); /* listens on 127.0.0.1:0 */
void bs_rig_done(struct bs_rig *r);  /* closes everything and checks that nothing is left */
void bs_rig_client(struct bs_rig *r, struct client *c);
void bs_rig_begin(struct bs_rig *r, struct client *c); /* init, start, one client */
void bs_rig_end(struct bs_rig *r, struct client *c);   /* closes the client and everything else */
void bs_rig_send(struct bs_rig *r, struct client *c, const char *text);
/* Sends, and expects exactly this reply, after which nothing more has come. */
void bs_rig_expect(struct bs_rig *r, struct client *c, const char *text, const char *reply);
/* The value of a line "name: value" of `stats`. */
uint64_t bs_rig_stat(struct bs_rig *r, const char *name);
#define BS_UNTIL(rig, condition) LOOP_UNTIL(&(rig)->broker.loop, condition)
