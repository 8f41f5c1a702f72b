/* SPDX-License-Identifier: Apache-2.0 */
/* A closed-loop load generator for queue servers: one thread, one epoll, some connections that
 * enqueue (producers) and some that claim and settle (consumers). The loop, the clock and the
 * figures are the same for every server; a protocol is a table of functions that turn jobs into
 * bytes and bytes into the three events that count:
 *
 *   confirmed   the server answered that it has the job
 *   received    a consumer has the job in hand
 *   settled     the server answered that the job is done; where a protocol has no such answer, when
 *               the message was handed to the kernel
 *
 * Anything that a server should not say ends the program with a sentence: a figure with errors in
 * it is none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/digest/random.h"
#include "cli/bench/histogram.h"

enum load_role { LOAD_PRODUCER, LOAD_CONSUMER };

struct load;
struct load_conn;

/* How a protocol is spoken. Every function appends to c->out, which the loop sends. */
struct load_protocol {
    const char *name;
    /* A request carries up to depth jobs, and the next one waits for its answer; otherwise a
     * request is one job's, and up to depth of them are under way. */
    bool put_batched, take_batched;
    /* The first bytes of a connection, and its setup. It is up when load_up() was called, here or
     * in hear. The first connection is up before any other is opened, so it can create the queue.
     */
    void (*hello)(struct load_conn *c);
    /* Takes one message off the front of the bytes: its length, or 0 when it is not whole. */
    size_t (*hear)(struct load_conn *c, const char *at, size_t len);
    void (*put)(struct load_conn *c, unsigned jobs);  /* enqueues this many */
    void (*take)(struct load_conn *c, unsigned jobs); /* claims up to this many; sets c->asked */
    void (*settle)(struct load_conn *c);              /* sends what c->held holds */
};
/* The functions of a protocol whose file gives them these names. */
#define LOAD_FUNCTIONS .hello = hello, .hear = hear, .put = put, .take = take, .settle = settle

struct load_options {
    const struct load_protocol *protocol;
    const char *queue;
    const char *kind;     /* of queue, where a protocol has several: classic, quorum */
    const char *user;     /* of the database */
    const char *database; /* likewise */
    uint16_t port;        /* on 127.0.0.1 */
    unsigned producers, consumers;
    unsigned depth;       /* jobs in flight on one connection; 1: one at a time */
    unsigned size;        /* bytes of a job */
    unsigned priorities;  /* each job has one of this many, at random; 1: all the same */
    unsigned delay_s;     /* of every job */
    unsigned poll_us;     /* how long a consumer rests that polled in vain */
    uint64_t backlog_max; /* producers rest above; 0: never */
    uint64_t count;       /* stop after this many confirms; 0: by time */
    uint64_t interval_us; /* one job each; 0: as fast as answers come */
    double seconds, warmup_s;
    const char *pids; /* of the server, separated by commas; NULL: not measured */
};

struct load_conn {
    struct load *load;
    int fd;
    unsigned index; /* 0 sets up */
    enum load_role role;
    bool up, dirty, wants_write;
    struct buf in, out;
    size_t in_at, out_at; /* what was read, sent */
    struct buf held;      /* ids or whole commands that settle what is in hand */
    unsigned held_jobs;
    unsigned unconfirmed, asked, settling; /* jobs */
    unsigned step;                         /* the protocol's own */
    uint64_t tag;                          /* likewise */
    uint64_t retry_at_ns;                  /* 0: none */
    uint64_t *sent_ns;                     /* ring of depth places */
    unsigned sent_head, sent_tail;
};

struct load {
    struct load_options options;
    struct load_conn *conns;
    unsigned connections, up;
    int epoll, timer;
    struct random random;
    char *payload; /* size bytes; the first 16 are replaced by the time */
    uint64_t sent, confirmed, received, settled;
    bool measuring;
    struct bench_histogram confirm_ns, wake_ns;
};

/* ---- for protocols ---- */

extern const struct load_protocol load_beanstalk, load_redis_list, load_redis_stream, load_nats,
    load_amqp, load_gearman, load_postgres, load_http, load_healthz;

void load_up(struct load_conn *c);
void load_confirmed(struct load_conn *c, unsigned jobs);
void load_received(struct load_conn *c, const char *payload, size_t len);
void load_settled(struct load_conn *c, unsigned jobs);
/* The consumer found nothing; take is called again after the polling time. */
void load_retry(struct load_conn *c);
_Noreturn void load_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Fails with what the server said instead of an answer to `what`. */
_Noreturn void load_unexpected(const char *what, const char *at, size_t len);

void load_bytes(struct buf *b, const void *bytes, size_t len);
void load_text(struct buf *b, const char *text);
void load_number(struct buf *b, uint64_t n); /* decimal */
void load_big(struct buf *b, uint64_t value, unsigned bytes);
void load_format(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A payload of options.size bytes with the time in it. */
void load_payload(struct load_conn *c, struct buf *b);
unsigned load_priority(struct load *load);

/* The length of the line at the front, its end included; 0 when it is not whole. */
size_t load_line(const char *at, size_t len);
uint64_t load_read_big(const char *at, unsigned bytes);
bool load_begins(const char *at, size_t len, const char *text);

static inline const struct load_options *load_options(const struct load_conn *c)
{
    return &c->load->options;
}

/* ---- for the program ---- */

uint64_t load_now_ns(void);
/* Connects, and returns when every connection is up. */
void load_open(struct load *load);
void load_warm(struct load *load); /* options.warmup_s of the work, not measured */
/* Until options.seconds are over, or options.count jobs are in. Jobs are those that were settled,
 * or confirmed if there are no consumers. */
void load_run(struct load *load, uint64_t *ret_elapsed_ns, uint64_t *ret_jobs);
/* Processor time and resident bytes of options.pids and all their descendants. */
void load_server_usage(const char *pids, double *ret_cpu_us, double *ret_rss_bytes);
double load_own_cpu_us(void);
