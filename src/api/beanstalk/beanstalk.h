/* SPDX-License-Identifier: Apache-2.0 */
/* The beanstalk API: beanstalkd's text protocol on sockets of its own, over the same queues.
 *
 * A tube is a queue, a reserved job a lease that is bound to its connection, TTR the length of that
 * lease, a buried job a dead one; the id of a job is its sequence. Priority N is the engine's -N. A
 * put makes the tube it needs, with a policy that never gives up on a job (tubes.c); docs/apis/
 * beanstalk.md says what differs from beanstalkd.
 *
 * Without access tokens it listens only on loopback addresses and Unix sockets, as HTTP does. */
#pragma once

#include <stdio.h>

#include "broker/broker.h"
#include "net/net.h"

struct beanstalk;
struct metrics;

struct beanstalk_config {
    struct net_config net;             /* a connection beyond its limits is closed */
    const struct queue_policy *policy; /* the server's defaults; copied; NULL = policy_default */
    const char *version;               /* borrowed */
    uint32_t max_job_bytes;            /* larger bodies are refused */
    uint32_t line_ms, body_ms;         /* an incomplete command; guard.c says how they count */
    uint32_t journal_segment_bytes;    /* shown as binlog-max-size */
};

/* Create it before backend and broker, whose prepare handles must run first (net_server_init).
 * -ERR_NOMEM. It ends with beanstalk_close. */
MUST_CHECK int beanstalk_new(const struct beanstalk_config *config, struct beanstalk **ret);
/* Before the first beanstalk_listen. The broker outlives the API. */
void beanstalk_serve(struct beanstalk *b, struct broker *broker);
/* As net_listen. */
MUST_CHECK int beanstalk_listen(struct beanstalk *b, const char *address, struct err_note *note);
/* "beanstalk://127.0.0.1:11300" or "beanstalk+unix:/path" of listener i; NULL past the last. */
const char *beanstalk_address(const struct beanstalk *b, size_t i);

/* Adds its families to /metrics. */
void beanstalk_metrics(const struct beanstalk *b, struct metrics *m);
/* The rows of these families for docs/reference/metrics.md. */
void beanstalk_metrics_reference(FILE *out);

/* Drain mode, which has no end: puts are refused, all else goes on. */
void beanstalk_refuse_puts(struct beanstalk *b);
/* Stops listening; each connection ends when what it has asked for is answered, or after limit_ms.
 * Waiting reserves are the broker's to end. Calls fn once, later, when the last is closed. */
void beanstalk_drain(struct beanstalk *b, uint32_t limit_ms, void (*fn)(void *ctx), void *ctx);
/* Closes everything; fn is called, later, when the broker has answered all that is under way and b
 * is gone. b may be NULL: calls fn at once. */
void beanstalk_close(struct beanstalk *b, void (*fn)(void *ctx), void *ctx);

/* The table of commands, Markdown. */
void beanstalk_commands_print(FILE *out);
