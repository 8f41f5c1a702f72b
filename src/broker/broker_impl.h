/* SPDX-License-Identifier: Apache-2.0 */
/* What the broker's files share. Included by src/broker only.
 *
 * broker.c   open, close, drain; batches: ops collected in one turn, replies routed back
 * retry_release.c  ops that must be repeated until the backend answered for certain
 * claims.c   claims, and those that wait
 * streams.c  claims that go on, bound to a connection
 * events.c   listeners
 * reads.c    large reads, a few at a time
 * announce.c lines in the log
 * schedules.h, schedule*.c  what is fired when
 * figures.c  what each queue did, and workers.c who did it
 * heartbeats.c  heartbeats of workers, and those that wait
 * webhook_delivery.c  notices to webhooks (webhook.c), and conditions.c when alerts are raised
 *
 * A batch lives until its last reply, because the backend reads its ops until then. */
#pragma once

#include "base/containers/arena.h"
#include "base/containers/heap.h"
#include "base/containers/map.h"
#include "base/digest/hash.h"
#include "broker/broker.h"
#include "broker/schedules.h"

/* ---- batches ---- */

struct broker_slot {
    broker_reply_fn fn;
    void *ctx;
    uint64_t tag; /* the caller's */
};

struct broker_batch {
    struct broker *broker;
    struct broker_batch *next; /* of the free ones */
    struct op *ops;
    struct broker_slot *slots;
    size_t count, room;
    size_t left; /* replies still to come */
};

/* ---- repeating ---- */

struct release_retry {
    struct release_retry *next;
    struct broker *broker;
    struct op op; /* points to nothing */
};

/* ---- waiting claims ---- */

struct waiter_link {
    struct broker_claim *claim;
    struct watched *watched;
    struct waiter_link *prev, *next;
};

/* A queue somebody waits for. Stays for a while when nobody does any more. */
struct watched {
    struct broker *broker;
    struct hash128 key;
    struct backend_watch *watch;
    struct waiter_link *first, *last;
    size_t parked;                         /* of them, CLAIM_PARKED */
    struct watched *idle_prev, *idle_next; /* among those nobody waits for */
    bool idle;
};

enum claim_state {
    CLAIM_ASKED,  /* an op is under way */
    CLAIM_PARKED, /* the last answer was empty */
};

struct broker_claim {
    struct broker *broker;
    struct broker_claim *prev, *next; /* all of the broker's */
    struct op_claim want;             /* its texts lie behind the struct */
    broker_reply_fn fn;
    void *ctx;
    enum claim_state state;
    bool cancelled, expired;
    bool signalled;    /* a job may have become ready since the op under way was submitted */
    bool waits;        /* linked to watched queues */
    uint64_t deadline; /* loop time; 0 = none */
    size_t heap_index; /* in broker.deadlines, when deadline ≠ 0 */
    uint32_t link_count;
    struct waiter_link *links;
};

struct claims {
    struct broker_claim *first;
    struct broker_claim *drained_next; /* of a drain under way */
    size_t count, parked;
    uint64_t next_nonce;
    struct map128 watched;                  /* queue name → struct watched * */
    struct watched *idle_first, *idle_last; /* longest idle first */
    size_t idle_count;
    struct heap deadlines;
    bool starved; /* somebody was not asked for lack of memory: soon again */
    uv_timer_t timer;
};

/* ---- streams ---- */

struct broker_stream {
    struct broker *broker;
    struct broker_stream *prev, *next;
    struct broker_stream_config config;
    struct broker_claim *claim; /* NULL = not asking */
    struct broker_held *held;   /* room for prefetch */
    uint32_t held_count;
    uint32_t stride; /* jobs to ask for at once */
    bool paused;     /* the client takes no more for now */
    bool told;       /* ended() was called */
    bool checking;   /* gets of the held jobs are under way … */
    bool check_again;
    uint32_t checks_left;
    bool closed; /* freed when the last check came back */
    struct op *checks;
};

struct streams {
    struct broker_stream *first;
    size_t count;
    struct map128 holders; /* sequence of a held job → the stream that holds it */
    uint64_t seen;         /* newest event looked at */
};

/* ---- listeners ---- */

struct listeners {
    struct broker_listener *first;
    size_t count;
    bool fresh; /* one was opened in this turn: it may have events to catch up with */
};

/* ---- figures and workers ---- */

struct queue_figures {
    struct broker_queue_figures public;
    struct hash128 key;
};

struct figures {
    struct map128 by_name;      /* → index + 1 */
    struct queue_figures *last; /* whose figures were asked for last; NULL = none */
    struct queue_figures **list;
    size_t count, room;
};

struct worker {
    struct worker *prev, *next; /* newest request first */
    struct hash128 key;
    bool changed; /* since it was last written to the store */
    char host[WORKER_HOST_BYTES], version[WORKER_VERSION_BYTES]; /* what public points to */
    struct broker_worker public;
};

struct workers {
    struct map128 by_name; /* → struct worker * */
    struct worker *first, *last;
    size_t count;
    struct wall_time since; /* requests before this are not known */
    uint32_t epoch;         /* of this node: its own entries are left out of what others tell */
    bool flushing;
    uv_timer_t timer; /* writes what has changed */
};

/* ---- heartbeats that wait ---- */

struct heartbeats {
    struct broker_heartbeat *first;
    size_t count;
    struct map128 holders; /* sequence of a job → the heartbeat that has its lease */
    uint64_t seen;         /* newest event looked at */
    uv_timer_t timer;
};

/* ---- large reads ---- */

struct reads {
    size_t weight;                     /* of those under way */
    struct waiting_read *first, *last; /* counted as outstanding */
};

struct broker {
    struct broker_config config;
    struct hash_key hash_key;
    struct broker_batch *open, *refused; /* being filled in this turn */
    struct broker_batch *spare;
    size_t spare_count;
    size_t outstanding; /* replies still to come */
    uint64_t batches, ops;
    bool draining, closing;
    void (*closed_fn)(void *ctx);
    void *closed_ctx;
    unsigned open_handles;
    uv_prepare_t prepare; /* submits what the turn collected … */
    uv_idle_t idle;       /* … and keeps the loop from sleeping on it */
    uv_timer_t retry_timer;
    struct release_retry *retries; /* to be submitted when the timer fires */
    struct reads reads;
    struct claims claims;
    struct streams streams;
    struct listeners listeners;
    struct broker_listener *announcer; /* NULL = there is no log */
    struct figures figures;
    struct workers workers;
    struct heartbeats heartbeats;
    struct webhook_deliveries *deliveries; /* NULL = none */
    struct schedules schedules;
};

/* A reply to be had until the backend is certain: OP_RELEASE, OP_RELEASE_CLAIM. Lack of memory
 * leaves the job to its lease. */
void broker_retry_release(struct broker *b, const struct op *op);
void retries_free(struct broker *b);

unsigned reads_weight(const struct op *op); /* 0 = never waits */
bool reads_must_wait(const struct broker *b, const struct op *op);
MUST_CHECK int reads_wait(struct broker *b, const struct op *op, broker_reply_fn fn, void *ctx);
/* One of them was answered: the next may go. */
void reads_ended(struct broker *b, unsigned weight);
/* Adds an op that is outstanding already to the batch of this turn; -ERR_NOMEM. */
MUST_CHECK int broker_collect(struct broker *b, const struct op *op, broker_reply_fn fn, void *ctx);

MUST_CHECK int claims_init(struct broker *b);
void claims_done(struct broker *b);
void claims_drain(struct broker *b);

void streams_init(struct broker *b);
void streams_done(struct broker *b);
void streams_drain(struct broker *b);
/* A lease has ended by request. */
void streams_lease_ended(struct broker *b, uint64_t seq);
/* Looks at new events for leases that ended by themselves. */
void streams_news(struct broker *b);
void listeners_news(struct broker *b);
void listeners_drain(struct broker *b);
/* Ends the closing once nothing is outstanding. */
void broker_maybe_closed(struct broker *b);
/* Makes the turn end soon, although nothing was submitted. */
void broker_wake(struct broker *b);
/* What this turn has brought so far goes to the backend now, not at the end of the turn. */
void broker_submit_open(struct broker *b);
/* Asks the backend for news exactly while somebody wants them. */
void broker_want_news(struct broker *b);

MUST_CHECK int announce_open(struct broker *b);
void announce_close(struct broker *b);

void figures_init(struct broker *b);
void figures_done(struct broker *b);
void figures_observe(struct broker *b, const struct op *op, const struct reply *r);
void workers_init(struct broker *b);
void workers_done(struct broker *b);
void workers_wait_begun(struct broker *b, struct span name, uint32_t wait_ms);
void workers_wait_ended(struct broker *b, struct span name);
void workers_heard(struct broker *b, const struct broker_heartbeat_in *in);
void heartbeats_init(struct broker *b);
void heartbeats_done(struct broker *b);
void heartbeats_drain(struct broker *b);
void heartbeats_news(struct broker *b);
/* A lease has ended by request. */
void heartbeats_lease_ended(struct broker *b, uint64_t seq);
void workers_observe(struct broker *b, const struct op *op, const struct reply *r);
