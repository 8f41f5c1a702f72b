/* SPDX-License-Identifier: Apache-2.0 */
/* The beanstalk API: beanstalkd's text protocol on its own sockets, over the same queues.
 *
 * A tube is a queue, a reserved job is a lease that is bound to its connection, TTR is the
 * length of that lease, and a buried job is a dead one. The id of a job is its sequence number.
 * Priority N is the engine's -N. A put creates the tube that it needs, with a policy that never
 * gives up on a job (tubes.c). docs/apis/beanstalk.md lists the differences from beanstalkd.
 *
 * Without access tokens it listens only on loopback addresses and Unix sockets, as HTTP does.
 *
 * src/api/beanstalk may use net, broker, ops, core, base and the files directly in src/api, but not
 * HTTP. */
#pragma once

#include <stdio.h>

#include "broker/broker.h"
#include "net/net.h"

struct beanstalk;
struct metrics;

extern const struct net_schemes beanstalk_schemes;

struct beanstalk_config {
    struct net_config net;             /* a connection beyond its limits is closed */
    const struct queue_policy *policy; /* the server's defaults; copied; NULL = policy_default */
    const char *version;               /* borrowed */
    uint32_t max_job_bytes;            /* larger bodies are refused */
    uint32_t line_ms, body_ms;         /* time limits of an incomplete command, see guard.c */
    uint32_t journal_segment_bytes;    /* shown as binlog-max-size */
};

/* Create it before backend and broker, whose prepare handles must run first (net_server_init).
 * -ERR_NOMEM. Free it with beanstalk_close. */
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

/* Starts drain mode, which does not end: puts are refused, other commands still work. */
void beanstalk_refuse_puts(struct beanstalk *b);
/* Stops listening. Each connection is closed when its commands are answered, or after limit_ms.
 * The broker ends reserves that wait. Calls fn once, later, when the last connection is closed. */
void beanstalk_drain(struct beanstalk *b, uint32_t limit_ms, void (*fn)(void *ctx), void *ctx);
/* Closes everything. Calls fn later, when the broker has answered all operations under way and b
 * has been freed. b may be NULL: calls fn at once. */
void beanstalk_close(struct beanstalk *b, void (*fn)(void *ctx), void *ctx);

/* The table of commands, Markdown. */
void beanstalk_commands_print(FILE *out);
