/* SPDX-License-Identifier: Apache-2.0 */
/* The backend interface, for callers.
 *
 * Everything happens on the thread that runs the loop. backend_submit never calls back before it
 * returns; each op gets exactly one reply. Operations of one batch take effect in their order, and
 * so do the batches of one submitter; replies may come in another order (a claim need not wait for
 * the disk). Claims never wait for jobs: park the client, watch the queue, claim again.
 *
 * OUT_UNAVAILABLE: surely not done. OUT_UNKNOWN: perhaps done; repeat an enqueue under the same
 * idempotency key, an ack, fail, extend or release with the same token, and give back a claim with
 * OP_RELEASE_CLAIM and its nonce. */
#pragma once

#include <uv.h>

#include "base/containers/histogram.h"
#include "base/err.h"
#include "base/log.h"
#include "base/system/clock.h"
#include "ops/op.h"
#include "ops/queue_limits.h"

struct backend;
struct backend_watch;

/* What differs between stores. */
enum backend_cap {
    CAP_STRICT_ORDER = 1u << 0,  /* claims follow (priority, sequence) exactly */
    CAP_DURABLE_REPLY = 1u << 1, /* a success is on stable storage */
    CAP_UNIQUE_GLOBAL = 1u << 2, /* unique keys hold across nodes */
    CAP_SHARED = 1u << 3,        /* several nodes may use the store */
    CAP_WHOLE_JOBS = 1u << 4,    /* takes jobs as they are elsewhere: op_enqueue.moved */
    CAP_CHANGES = 1u << 5,       /* lists schedules by change: op_schedule.by_change */
};

struct backend_config {
    uv_loop_t *loop;
    struct clock clock;
    const struct log *log;             /* may be NULL */
    const struct queue_policy *policy; /* for queues made by the first enqueue; NULL = default */
    bool no_auto_create;
    struct queue_limits queue_limits;
    /* A job that becomes ready is JOB_PENDING until OP_DISPATCHED; shared stores only. */
    bool dispatches;
    /* For tools that read a store, or fill one: what time brings waits for the next opening, as far
     * as it is this process that does it. */
    bool still;
    unsigned node;                  /* 0 … ID_NODE_MAX, part of every id */
    uint64_t capacity;              /* live jobs in all; 0 = no limit */
    uint64_t cache_bytes;           /* payloads kept in memory; 0 = 64 MiB */
    uint64_t key_ttl_ms;            /* idempotency keys; 0 = 24 h */
    uint64_t keys_max;              /* 0 = 4,000,000 */
    uint64_t kv_keys_max;           /* key-value store: keys; 0 = 1,000,000 … */
    uint64_t kv_bytes_max;          /* … and bytes of keys and values; 0 = 1 GiB */
    uint64_t seed;                  /* jitter; 0 = from the kernel */
    uint32_t journal_segment_bytes; /* 0 = 16 MiB */
    uint64_t journal_bytes_max;     /* 0 = 256 MiB: what the store may lag behind */
    int64_t list_wait_ms; /* a list waits so long for the newest records to show; 0 = 250 */
    /* Of stores that several nodes share: how long a leader leads without a sign of life (0 =
     * 10,000), after which silence a node is taken for dead (0 = 15,000), how long the store may
     * take to answer before its connection is given up (0 = 15,000). */
    int64_t leader_ttl_ms, silent_ms, answer_ms;
    /* Key of Redis, where Redis takes part, at which the leader shows its node number and its epoch
     * for leader_ttl_ms; NULL or "" = none. It decides nothing. */
    const char *leader_key;
    const char *version; /* of this program, for the other nodes to see; NULL = not told */
    /* The store failed for good, with this error (-ERR_…); must not return to normal work. NULL =
     * abort. */
    void (*fatal)(void *ctx, int error, const char *why);
    void *fatal_ctx;
};

/* Opens "sqlite:DIR", "memory:"; builds with test hooks also either of them behind "fault+", a
 * wrapper that misbehaves within this contract, seeded by HF_FAULT_SEED. Blocks while it
 * recovers. The note (may be NULL) says why not. */
MUST_CHECK int backend_open(const char *url, const struct backend_config *config,
                            struct backend **ret, struct err_note *note);
/* Whether backend_open would find a server that it can use: connects, checks what backend_open
 * checks, and disconnects. Blocks, uses no loop of the config, and may be called on any thread. 0,
 * also for a store that is not a server; or the error of backend_open. */
MUST_CHECK int backend_check(const char *url, const struct backend_config *config,
                             struct err_note *note);

typedef void (*backend_reply_fn)(void *ctx, const struct reply *reply);
/* -ERR_CLOSED once backend_close was called, -ERR_NOMEM: no op was taken; nothing is called back.
 */
MUST_CHECK int backend_submit(struct backend *b, const struct op *ops, size_t count,
                              backend_reply_fn fn, void *ctx);

/* After it returns, any job of the queue that becomes ready gives at least one signal (spurious
 * ones happen). A queue that does not exist yet can be watched. */
typedef void (*backend_signal_fn)(void *ctx);
MUST_CHECK int backend_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                             struct backend_watch **ret);
void backend_unwatch(struct backend *b, struct backend_watch *w); /* w may be NULL */

unsigned backend_caps(const struct backend *b);
/* Whether this node is to do what one of several should: firing schedules, looking at conditions,
 * delivering notices. Always true where the store is not shared. A saving, not a promise: two may
 * think so for a moment, and what they then do is decided in the store. */
bool backend_leads(const struct backend *b);
const char *backend_kind(const struct backend *b); /* "sqlite", "memory", "fault+memory", … */
/* Figures for metrics; a backend fills what it has. */
struct backend_figures {
    uint64_t position, durable; /* records made, records on stable storage */
    uint64_t commits, commit_ns_total, commit_ns_last;
    uint64_t jobs, bytes; /* resident jobs, memory of the index */
    uint64_t cache_bytes, cache_hits, cache_misses;
    bool clock_suspect; /* the wall clock leapt: nothing expires, history is not pruned */
    struct histogram commit_us, commit_records; /* how long each commit took, how many records */
    uint64_t keys, queues;                      /* idempotency keys, queues */
    uint64_t kv_keys, kv_bytes; /* key-value store: keys, bytes of keys and values */
    uint64_t live, capacity;    /* waiting or running jobs, and how many may be; 0 = no limit */
    uint64_t by_state[STATE_COUNT];
    /* notices to be delivered, given up, and (since start) pushed out of a full outbox */
    uint64_t notices_pending, notices_dead, notices_dropped;
    bool disk_full;            /* new jobs are refused until there is room again */
    uint32_t epoch;            /* of this boot */
    uint64_t stalls_ms;        /* time the process stood still, added to every lease */
    uint64_t restored_leases;  /* taken over from before the last start */
    uint64_t forgotten_claims; /* tokens of before it that no lease knew */
    uint64_t jobs_damaged;     /* set aside since the start: their bodies could not be read */
    uint64_t read_errors;      /* reads of the store that failed since the start */
    uint64_t applied;          /* records that queries of the store can see */
    bool has_journal;          /* else what follows is 0 */
    uint64_t journal_lag_ms, journal_lag_bytes; /* what is durable but not applied yet */
    uint64_t journal_bytes, journal_bytes_max;  /* of all segments */
    uint64_t journal_segments, journal_segments_free;
    uint64_t journal_stuck_ms;   /* how long records have waited for a free segment */
    uint64_t journal_torn_bytes; /* of the incomplete last entry that the start found; 0 = none */
    uint64_t journal_torn_files; /* copies of such entries that were there at the start or made */
    uint64_t sweeps, sweep_ns_total;
    uint64_t store_bytes;                /* files of the store; 0 = it has none */
    uint64_t backup_pages, backup_total; /* of the backup under way, copied; total 0 = none, or not
                                            known yet */
    bool compacting;
    bool dispatches;     /* to Redis; else the rest about dispatch is 0 */
    bool dispatch_up[2]; /* high, low */
    bool has_spool;      /* behind failover; else primary_up and spool_jobs are 0 */
    bool primary_up;     /* the shared store answers */
    uint64_t dispatch_pushed, dispatch_failed;
    uint64_t mark;         /* drawn when the store was made; 0 = it has none to tell */
    uint64_t spool_jobs;   /* waiting, running or dead, that this node keeps */
    uint64_t compact_left; /* pages that compacting has still to give back, as far as known */
};
void backend_figures(const struct backend *b, struct backend_figures *ret);

/* --- who shares the store, and how it is --- */

#define BACKEND_NODES_MAX 64

struct backend_node {
    uint32_t epoch; /* of its boot */
    unsigned number;
    struct wall_time seen_at; /* its last sign of life */
    bool self, leader;
    bool silent;      /* it said nothing for so long that it is taken for dead */
    char version[24]; /* "" = it did not tell */
};

/* Which server keeps a store. */
enum backend_server { SERVER_NONE, SERVER_POSTGRES, SERVER_REDIS };

/* How the server of a store is reached. */
enum backend_link {
    LINK_NONE,  /* the store is no server */
    LINK_LOCAL, /* without TLS, on this machine: a Unix socket or a loopback address */
    LINK_PLAIN, /* without TLS, over a network */
    LINK_TLS,
};

/* As of the last sign of life that this node gave; asking costs nothing and waits for nobody. An
 * embedded store has one node, which leads. */
struct backend_cluster {
    bool up;                 /* the store answers; behind failover always: the node works */
    bool spooling;           /* behind failover: the shared store does not answer */
    struct wall_time since;  /* it (there: the shared store) does, or does not, since then */
    char trouble[200];       /* why it did not when it last did not; "" = it always did */
    int64_t offset_ms;       /* the store's clock minus ours */
    unsigned connections;    /* that this node has to it, and how many it wants; 0, 0 = it is no */
    unsigned connections_of; /* server */
    enum backend_server server;
    enum backend_link link; /* of the connection that writes, when it was last opened */
    char sslmode[16];       /* PostgreSQL: what the URL asks for, or the default; else "" */
    uint64_t leader_epoch;  /* rises with each change of the leader; 0 = nobody ever led */
    int64_t lease_left_ms;  /* of the leader's lease; 0 = it has run out, or needs none */
    uint64_t overtaken;     /* times that this node led and found that another does */
    struct wall_time as_of;
    size_t node_count;                            /* the leader among them, unless it is gone */
    struct backend_node nodes[BACKEND_NODES_MAX]; /* by epoch; with more the oldest are left out */
};
void backend_cluster(const struct backend *b, struct backend_cluster *ret);

/* One of the stores behind a backend: a router has several, any other backend is one itself. */
struct backend_store {
    unsigned number; /* of its routes; 0 = the default */
    const char *kind;
    unsigned caps;
    struct backend_cluster cluster;
};
/* The index-th by number; false = there are no more. */
bool backend_store(const struct backend *b, unsigned index, struct backend_store *ret);
/* Whether a query would be answered now, by one of the stores at least: none while they are away,
 * or wait for their disk. Asking costs nothing and waits for nobody. */
bool backend_answers(const struct backend *b);
/* Whether this node has notices to deliver: it leads on one of the stores at least, or has an
 * outbox of which it delivers the notices in any case. */
bool backend_leads_any(const struct backend *b);
/* The store's clock, which counts, minus this machine's, as far as known: what is to happen in so
 * and so long happens that long after the store's now. */
int64_t backend_clock_offset(const struct backend *b);

/* --- what happened --- */

enum event_kind {
    EVENT_ENQUEUED, /* state: ready, or scheduled */
    EVENT_READY,    /* its time has come */
    EVENT_CLAIMED,
    EVENT_RETRIED,  /* failed, will run again */
    EVENT_CRASHED,  /* lease ran out or connection lost, will run again */
    EVENT_RELEASED, /* handed back, uncounted: by its holder, or by a restart */
    EVENT_DONE,
    EVENT_DEAD,
    EVENT_CANCEL_REQUESTED, /* of a running job: its worker has a grace time to end it */
    EVENT_CANCELLED,
    EVENT_REQUEUED,
    EVENT_PATCHED,
    EVENT_QUEUE_CREATED,
    EVENT_QUEUE_CHANGED,
    EVENT_QUEUE_DELETED, /* count: jobs that went with it */
    EVENT_QUEUE_PAUSED,
    EVENT_QUEUE_RESUMED,   /* also when a pause with an end has come to it */
    EVENT_QUEUE_PURGED,    /* count: jobs that ceased to exist */
    EVENT_QUEUE_DEEP,      /* count: waiting jobs; they reached the queue's warn_depth. Again only
                              after falling below 90 % of it */
    EVENT_CLOCK_SUSPECT,   /* the wall clock leapt: nothing expires until OP_ACCEPT_CLOCK */
    EVENT_KV_SET,          /* a key of the key-value store has a new value */
    EVENT_KV_DELETED,      /* deleted, or expired */
    EVENT_ALERT_RAISED,    /* alert: the rule; count: what was measured */
    EVENT_ALERT_CLEARED,   /* the same */
    EVENT_SCHEDULE_FAILED, /* a time is due and no job can be made; once per streak */
    EVENT_SCHEDULE_FIRED,  /* the job that it made */
    EVENT_PROGRESS,        /* its worker reported; at most one a second for each job */
    EVENT_KIND_COUNT
};
const char *event_name(enum event_kind k); /* "enqueued", … "queue_deep" */

struct backend_event {
    uint64_t id; /* rises; (boot epoch << 40) + counter: also across restarts */
    enum event_kind kind;
    struct wall_time at;
    uint64_t seq, id_hi;     /* the job; 0 = none */
    struct wall_time run_at; /* the job's; 0 = at once, or about no job */
    struct span queue;    /* name; empty when the queue is long gone, or there is none; valid until
                             control returns to the loop */
    enum job_state state; /* after it; STATE_NONE when it is about no job */
    enum job_reason reason;
    uint32_t attempts;
    bool has_extra;   /* the job has texts (correlation id …) that OP_GET can tell */
    uint64_t count;   /* purged, deleted, deep: how many */
    struct span key;  /* key-value: which, encoded; empty when there was no memory to keep it; valid
                         as long as queue */
    uint64_t version; /* key-value: of the change */
    struct span alert; /* raised, cleared: the rule's name; empty when it is gone; valid as queue */
    struct span schedule; /* fired, failed: its name; valid as queue */
};

/* Copies up to max events with an id above `after` that are durable, oldest first, of the kinds in
 * the mask (1 << enum event_kind; 0 = all); returns how many. Fewer than max: everything up to
 * backend_events_last() was looked at. Events are kept in memory: the last 16,384 of this boot.
 * What retention, removal and the slices of a purge take away, and extended leases, make none.
 *
 * Gaps. Within one boot ids have no holes: the first is (epoch << 40) + 1, and so on. *ret_oldest
 * is the id of the oldest event still kept, or, when there is none yet, the id that the first will
 * get; 0 = this backend keeps no events. So a caller that has seen everything up to `after` has
 * missed something exactly when *ret_oldest > after + 1 or after > backend_events_last(): then look
 * at everything afresh. An `after` of an earlier boot always counts as missed, since nobody knows
 * what that boot told nobody. To begin, take `after` from backend_events_last(). */
size_t backend_events(const struct backend *b, uint64_t after, uint64_t kinds,
                      struct backend_event *out, size_t max, uint64_t *ret_oldest);
/* The rule above. False where no events are kept. */
bool backend_events_missed(const struct backend *b, uint64_t after);
/* The id of the newest durable event; before the first of this boot epoch << 40; 0 = no events are
 * kept. */
uint64_t backend_events_last(const struct backend *b);

/* One listener: called on the loop thread, never from inside a call of the backend, after events
 * became durable that were not when it was set; one call may stand for many events. NULL = stop. */
typedef void (*backend_news_fn)(void *ctx);
void backend_on_news(struct backend *b, backend_news_fn fn, void *ctx);

/* --- maintenance: one backup and one compacting at a time --- */

struct backup_result {
    int error;         /* 0, or -ERR_… with a note and nothing else */
    const char *note;  /* why not, for the operator; valid during the call */
    int fd;            /* the backup: a file without a name, which goes when this is closed; the
                          receiver's from now on. Open for reading and writing */
    uint64_t bytes;    /* of the file */
    uint64_t position; /* the last record that is in it */
};
struct backup_request {
    void (*done)(void *ctx, const struct backup_result *result);
    void *ctx;
};
/* Copies the store, of one moment, into one SQLite file: everything that was answered is in it.
 * Takes as long as the disk needs for the copy; work goes on meanwhile, backend_figures shows how
 * far it is. Then calls done once, never before returning; a close cuts it short with -ERR_CLOSED.
 * A copy for which the disk has no room, with some to spare, is not begun: -ERR_NO_SPACE there.
 *
 * Not begun, with a note, and done is not called: -ERR_LOCKED another is under way, -ERR_INVALID
 * the backend has nothing on a disk of its own, -ERR_CLOSED, -ERR_NOMEM. */
MUST_CHECK int backend_backup(struct backend *b, const struct backup_request *request,
                              struct err_note *note);
/* For whoever began the one under way: it stops soon, and done is not called any more. */
void backend_backup_cancel(struct backend *b);

struct compact_result {
    int error;
    const char *note; /* as above */
    uint64_t bytes_before, bytes_after;
};
struct compact_request {
    void (*done)(void *ctx, const struct compact_result *result);
    void *ctx;
};
/* Gives the pages of removed jobs back to the file system, in small steps between commits. Calls
 * and refusals as for backend_backup. A full disk ends it early with -ERR_NO_SPACE. */
MUST_CHECK int backend_compact(struct backend *b, const struct compact_request *request,
                               struct err_note *note);
void backend_compact_cancel(struct backend *b);

typedef void (*backend_closed_fn)(void *ctx);

/* The (manual) clock was moved: does everything that is now due (promotions, lease ends, expiry,
 * retention, slices of bulk work), then calls fn once that is durable and all its signals have been
 * given. Never before returning. -ERR_CLOSED once backend_close was called, -ERR_NOMEM: fn is not
 * called. A close cuts it short: fn is then called before the close is over. */
MUST_CHECK int backend_settle(struct backend *b, backend_closed_fn fn, void *ctx);

/* Answers everything outstanding, makes it durable, then calls back; b is gone then. While the disk
 * is full it does not wait for room: what is not durable is answered OUT_UNKNOWN (queries:
 * OUT_UNAVAILABLE) and lost. */
void backend_close(struct backend *b, backend_closed_fn fn, void *ctx);
