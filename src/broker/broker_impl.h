/* SPDX-License-Identifier: Apache-2.0 */
/* Internals that the broker's files share. Included by src/broker only.
 *
 *   broker.c   open, close, drain; batches: ops collected in one iteration, replies routed back
 *   retry_release.c  ops that must be repeated until the backend has replied for certain
 *   claims.c   claims, and those that wait
 *   streams.c  repeated claims, bound to a connection
 *   events.c   listeners
 *   reads.c    large reads, a few at a time;  list_details.c  lists with progress and logs
 *   announce.c lines in the log about jobs and queues
 *   event_json.c  the JSON of an event, for streams, webhooks and lists of notices
 *   figures.c  figures of each queue;  workers.c  the registry of workers
 *   claimed.c  who claims from each queue;  why.c  why a job is not running
 *   heartbeats.c  heartbeats of workers, and those that wait
 *
 *   schedules/ when schedules fire
 *   alerts/    when alerts are raised (conditions.c); notices to webhooks (webhook_delivery.c)
 *
 * A batch exists until its last reply, because the backend reads its ops until then. */
#pragma once

#include "base/containers/arena.h"
#include "base/containers/heap.h"
#include "base/containers/map.h"
#include "base/digest/hash.h"
#include "broker/broker.h"
#include "broker/schedules/schedules.h"
#include "core/limits.h"
#include "ops/jobs/why.h"

/* ---- batches ---- */

struct broker_slot {
    broker_reply_fn fn;
    void *ctx;
    uint64_t tag; /* the caller's */
};

struct broker_batch {
    struct broker *broker;
    struct broker_batch *next; /* in the list of free ones */
    struct op *ops;
    struct broker_slot *slots;
    size_t count, room;
    size_t left; /* outstanding replies */
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

/* A queue that a claim waits for. It stays for a while after the last one. */
struct watched {
    struct broker *broker;
    struct hash128 key;
    struct backend_watch *watch;
    struct waiter_link *first, *last;
    size_t parked;                         /* of them, CLAIM_PARKED */
    struct watched *idle_prev, *idle_next; /* among those that no claim waits for */
    bool idle;
};

enum claim_state {
    CLAIM_ASKED,  /* an op is outstanding */
    CLAIM_PARKED, /* the last reply was empty */
};

struct broker_claim {
    struct broker *broker;
    struct broker_claim *prev, *next; /* all of the broker's */
    struct op_claim want;             /* its texts follow the struct */
    broker_reply_fn fn;
    void *ctx;
    enum claim_state state;
    bool cancelled, expired;
    bool signalled;    /* a job may have become ready since the outstanding op was submitted */
    bool waits;        /* linked to watched queues */
    uint64_t deadline; /* loop time; 0 = none */
    size_t heap_index; /* in broker.deadlines, if deadline ≠ 0 */
    uint32_t link_count;
    struct waiter_link *links;
};

struct claims {
    struct broker_claim *first;
    struct broker_claim *drained_next; /* of a drain in progress */
    size_t count, parked;
    uint64_t next_nonce;
    struct map128 watched;                  /* queue name → struct watched * */
    struct watched *idle_first, *idle_last; /* longest idle first */
    size_t idle_count;
    struct heap deadlines;
    bool starved; /* a claim could not be submitted for lack of memory: try again soon */
    uv_timer_t timer;
};

/* ---- streams ---- */

struct broker_stream {
    struct broker *broker;
    struct broker_stream *prev, *next;
    struct broker_stream_config config;
    struct broker_claim *claim; /* NULL = no claim is outstanding */
    struct broker_held *held;   /* room for prefetch */
    uint32_t held_count;
    uint32_t stride; /* jobs to claim at once */
    bool paused;     /* the client accepts no more for now */
    bool told;       /* ended() was called */
    bool checking;   /* reads of the held jobs are outstanding … */
    bool check_again;
    uint32_t checks_left;
    bool closed; /* freed after the last check */
    struct op *checks;
};

struct streams {
    struct broker_stream *first;
    size_t count;
    struct map128 holders; /* sequence of a held job → the stream that holds it */
    uint64_t seen;         /* newest event that was read */
};

/* ---- listeners ---- */

struct listeners {
    struct broker_listener *first;
    size_t count;
    bool fresh; /* one was opened in this iteration: it may have events to catch up with */
};

/* ---- figures and workers ---- */

struct queue_figures {
    struct broker_queue_figures public;
    struct hash128 key;
};

struct figures {
    struct map128 by_name;      /* → index + 1 */
    struct queue_figures *last; /* the last queue that was searched for; NULL = none */
    struct queue_figures **list;
    size_t count, room;
};

struct worker {
    struct worker *prev, *next; /* newest request first */
    struct hash128 key;
    bool changed; /* since it was last written to the store */
    /* the texts to which public points */
    char host[WORKER_HOST_BYTES], version[WORKER_VERSION_BYTES];
    struct broker_worker public;
};

struct workers {
    struct map128 by_name; /* → struct worker * */
    struct worker *first, *last;
    size_t count;
    struct wall_time since; /* requests before this are not known */
    /* of this node: its own entries are ignored when the entries of all nodes are merged */
    uint32_t epoch;
    bool flushing;
    uv_timer_t timer; /* writes entries that have changed */
};

/* ---- who claims from each queue ---- */

#define CLAIMED_BREAKERS WHY_BREAKERS_SHOWN

/* A breaker that workers of a queue consult before they claim. */
struct claimed_breaker {
    struct wall_time at; /* when one last did */
    uint8_t len;         /* of the name; 0 = none */
    char name[LIMIT_BREAKER_NAME_BYTES];
};

struct claimed_queue {
    struct claimed_queue *prev, *next; /* newest claim first */
    struct hash128 key;
    struct span name;
    struct wall_time at; /* the last claim; 0 = none */
    bool changed;        /* since it was last written to the store, at: */
    uint64_t written_ms; /* loop time; 0 = never */
    struct claimed_breaker breakers[CLAIMED_BREAKERS];
};

struct claimed_queues {
    struct map128 by_name; /* → struct claimed_queue * */
    struct claimed_queue *first, *last;
    size_t count;
};

/* What all nodes know of one queue. */
struct claimed_facts {
    bool waiting;        /* a claim waits now */
    struct wall_time at; /* the last claim; 0 = none is known */
    struct claimed_breaker breakers[CLAIMED_BREAKERS];
    uint32_t breaker_count;
};

/* ---- heartbeats that wait ---- */

struct heartbeats {
    struct broker_heartbeat *first;
    size_t count;
    struct map128 holders; /* sequence of a job → the heartbeat that has its lease */
    uint64_t seen;         /* newest event that was read */
    uv_timer_t timer;
};

/* ---- large reads ---- */

struct reads {
    size_t weight;                     /* of the outstanding ones */
    struct waiting_read *first, *last; /* counted as outstanding */
};

struct broker {
    struct broker_config config;
    struct hash_key hash_key;
    struct broker_batch *open, *refused; /* being filled in this iteration */
    struct broker_batch *spare;
    size_t spare_count;
    size_t outstanding; /* outstanding replies */
    uint64_t batches, ops;
    bool draining, closing;
    void (*closed_fn)(void *ctx);
    void *closed_ctx;
    unsigned open_handles;
    uv_prepare_t prepare; /* submits what the iteration has collected … */
    uv_idle_t idle;       /* … and prevents the loop from sleeping meanwhile */
    uv_timer_t retry_timer;
    struct release_retry *retries; /* to be submitted when the timer fires */
    struct reads reads;
    struct claims claims;
    struct streams streams;
    struct listeners listeners;
    struct broker_listener *announcer; /* NULL = there is no log */
    struct figures figures;
    struct workers workers;
    struct claimed_queues claimed;
    struct heartbeats heartbeats;
    struct webhook_deliveries *deliveries; /* NULL = none */
    struct schedules schedules;
};

/* Repeats an OP_RELEASE or OP_RELEASE_CLAIM until the backend has replied for certain. If memory is
 * short, the job waits for the end of its lease. */
void broker_retry_release(struct broker *b, const struct op *op);
void retries_free(struct broker *b);

unsigned reads_weight(const struct op *op); /* 0 = never waits */
bool reads_must_wait(const struct broker *b, const struct op *op);
MUST_CHECK int reads_wait(struct broker *b, const struct op *op, broker_reply_fn fn, void *ctx);
/* One of them was answered: the next may start. */
void reads_ended(struct broker *b, unsigned weight);
/* Adds an op that already counts as outstanding to the batch of this iteration; -ERR_NOMEM. */
MUST_CHECK int broker_collect(struct broker *b, const struct op *op, broker_reply_fn fn, void *ctx);

MUST_CHECK int claims_init(struct broker *b);
void claims_done(struct broker *b);
void claims_drain(struct broker *b);

void streams_init(struct broker *b);
void streams_done(struct broker *b);
void streams_drain(struct broker *b);
/* A lease has ended by request. */
void streams_lease_ended(struct broker *b, uint64_t seq);
/* Reads new events to find leases that ended without a request. */
void streams_news(struct broker *b);
void listeners_news(struct broker *b);
void listeners_drain(struct broker *b);
/* Completes the close when nothing is outstanding. */
void broker_maybe_closed(struct broker *b);
/* Makes the iteration end soon, although nothing was submitted. */
void broker_wake(struct broker *b);
/* Submits what this iteration has collected so far now, not at its end. */
void broker_submit_open(struct broker *b);
/* Listens to the events of the backend only while they are needed. */
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
/* Entries of this node have changed; a store that is shared gets them soon. */
void workers_write_later(struct broker *b);
/* The names of the registry begin with what an entry is about. */
#define REGISTRY_WORKER 'w'
#define REGISTRY_QUEUE 'q'
struct span registry_name(struct arena *a, char about, struct span name); /* empty = no memory */

void claimed_init(struct broker *b);
void claimed_done(struct broker *b);
void claimed_seen(struct broker *b, const struct span *queues, uint32_t count); /* a claim */
void claimed_observe(struct broker *b, const struct op *op, const struct reply *r);
/* Entries that are to be written now, at most `room`; they count as written. */
uint32_t claimed_gather(struct broker *b, struct arena *a, struct worker_entry *entries,
                        uint32_t room);
bool claimed_unwritten(const struct broker *b); /* some are still to be written */
void claimed_lost(struct broker *b);            /* the last ones were not written */
/* What this node knows of a queue; then an entry that another node has written is added. */
void claimed_here(const struct broker *b, struct span queue, struct claimed_facts *ret);
void claimed_elsewhere(const struct broker *b, const struct worker_entry *e,
                       struct claimed_facts *ret);
bool claims_wait_for(const struct broker *b, struct span queue);
void heartbeats_init(struct broker *b);
void heartbeats_done(struct broker *b);
void heartbeats_drain(struct broker *b);
void heartbeats_news(struct broker *b);
/* A lease has ended by request. */
void heartbeats_lease_ended(struct broker *b, uint64_t seq);
void workers_observe(struct broker *b, const struct op *op, const struct reply *r);
