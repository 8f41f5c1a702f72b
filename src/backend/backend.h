/* SPDX-License-Identifier: Apache-2.0 */
/* The backend interface, for callers.
 *
 * Everything happens on the thread that runs the loop. backend_submit never calls back before it
 * returns; each op gets exactly one reply. Operations of one batch take effect in their order, and
 * so do the batches of one submitter; replies may come in another order, because a claim need not
 * wait for the disk. Claims never wait for jobs: park the client, watch the queue, and claim again.
 *
 * OUT_UNAVAILABLE: the operation was certainly not done. OUT_UNKNOWN: it may have been done. Repeat
 * an enqueue under the same idempotency key, and an ack, fail, extend or release with the same
 * token; return the jobs of a claim with OP_RELEASE_CLAIM and its nonce.
 *
 * A folder of src/backend may use ops, core, base and the headers directly in src/backend. It never
 * uses the folder of another store, except shared/; dispatch/ also uses redis/. */
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
    CAP_WHOLE_JOBS = 1u << 4,    /* accepts jobs as they are in another store: op_enqueue.moved */
    CAP_CHANGES = 1u << 5,       /* lists schedules by change: op_schedule.by_change */
    CAP_DEPENDENCIES = 1u << 6,  /* jobs may depend on others: op_enqueue.depends */
};

struct backend_config {
    uv_loop_t *loop;
    struct clock clock;
    const struct log *log; /* may be NULL */
    /* for queues that the first enqueue creates; NULL = default */
    const struct queue_policy *policy;
    bool no_auto_create;
    struct queue_limits queue_limits;
    /* A job that becomes ready is JOB_PENDING until OP_DISPATCHED; shared stores only. */
    bool dispatches;
    /* For tools that read or fill a store: this process does no work that becomes due with time
     * (promotions, expiry, retention). That work waits until the store is opened without `still`.
     */
    bool still;
    unsigned node;                  /* 0 … ID_NODE_MAX, part of every id */
    uint64_t capacity;              /* live jobs in total; 0 = no limit */
    uint64_t cache_bytes;           /* payloads kept in memory; 0 = 64 MiB */
    uint64_t key_ttl_ms;            /* idempotency keys; 0 = 24 h */
    uint64_t keys_max;              /* 0 = 4,000,000 */
    uint64_t kv_keys_max;           /* key-value store: keys; 0 = 1,000,000 … */
    uint64_t kv_bytes_max;          /* … and bytes of keys and values; 0 = 1 GiB */
    uint64_t seed;                  /* jitter; 0 = from the kernel */
    uint32_t journal_segment_bytes; /* 0 = 16 MiB */
    uint64_t journal_bytes_max;     /* how far the store may lag behind; 0 = 256 MiB */
    int64_t list_wait_ms; /* how long a list waits until the newest records are visible; 0 = 250 */
    /* For stores that several nodes share: how long a leader stays the leader without a heartbeat
     * (0 = 10,000), after how long without a heartbeat a node counts as dead (0 = 15,000), and how
     * long the store may take to answer before its connection is closed (0 = 15,000). */
    int64_t leader_ttl_ms, silent_ms, answer_ms;
    /* The key in Redis, if Redis is used, at which the leader shows its node number and its epoch
     * for leader_ttl_ms; NULL or "" = none. It is for information only. */
    const char *leader_key;
    /* The priority of a label, for jobs that come to the store without an API; NULL = there are no
     * labels. False: unknown. */
    bool (*label_find)(void *ctx, struct span label, int64_t *ret);
    void *label_ctx;
    const char *version; /* of this program, shown to the other nodes; NULL = not shown */
    /* The store failed permanently with this error (-ERR_…). The function must not return to normal
     * work. NULL = abort. */
    void (*fatal)(void *ctx, int error, const char *why);
    void *fatal_ctx;
};

/* Opens "sqlite:DIR" or "memory:". Builds with test hooks also accept either of them behind
 * "fault+", a wrapper that injects faults within this contract, seeded by HF_FAULT_SEED. Blocks
 * during recovery. On failure the note (may be NULL) contains the reason. */
MUST_CHECK int backend_open(const char *url, const struct backend_config *config,
                            struct backend **ret, struct err_note *note);
/* Whether backend_open would find a server that it can use: connects, checks what backend_open
 * checks, and disconnects. Blocks, uses no loop of the config, and may be called on any thread. 0,
 * also for a store that is not a server; or the error of backend_open. */
MUST_CHECK int backend_check(const char *url, const struct backend_config *config,
                             struct err_note *note);

typedef void (*backend_reply_fn)(void *ctx, const struct reply *reply);
/* -ERR_CLOSED after backend_close was called, -ERR_NOMEM: no op was taken and nothing is called
 * back. */
MUST_CHECK int backend_submit(struct backend *b, const struct op *ops, size_t count,
                              backend_reply_fn fn, void *ctx);

/* After it returns, each job of the queue that becomes ready causes at least one signal; a job that
 * a limit of the queue keeps back (core/queues/claim_limits.h) when it can start. Spurious signals
 * happen. A queue that does not exist yet can be watched. */
typedef void (*backend_signal_fn)(void *ctx);
MUST_CHECK int backend_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                             struct backend_watch **ret);
void backend_unwatch(struct backend *b, struct backend_watch *w); /* w may be NULL */

unsigned backend_caps(const struct backend *b);
/* Whether this node should do the work that one of several nodes does: fire schedules, evaluate
 * conditions, deliver notices. Always true if the store is not shared. This only saves work: two
 * nodes may be leaders for a moment, and the store decides which of their changes take effect. */
bool backend_leads(const struct backend *b);
const char *backend_kind(const struct backend *b); /* "sqlite", "memory", "fault+memory", … */
/* Figures for metrics; a backend fills in those that it has. */
struct backend_figures {
    uint64_t position, durable; /* records created, records on stable storage */
    uint64_t commits, commit_ns_total, commit_ns_last;
    uint64_t jobs, bytes; /* resident jobs, memory of the index */
    uint64_t cache_bytes, cache_hits, cache_misses;
    bool clock_suspect; /* the wall clock jumped: nothing expires, and history is not pruned */
    /* duration of each commit, records in each commit */
    struct histogram commit_us, commit_records;
    uint64_t keys, queues;      /* idempotency keys, queues */
    uint64_t kv_keys, kv_bytes; /* key-value store: keys, bytes of keys and values */
    uint64_t live, capacity;    /* waiting or running jobs, and their limit; 0 = no limit */
    uint64_t by_state[STATE_COUNT];
    /* notices to be delivered, notices given up, and (since the start) notices removed from a full
     * outbox */
    uint64_t notices_pending, notices_dead, notices_dropped;
    bool disk_full;            /* new jobs are refused until space is free again */
    uint32_t epoch;            /* of this boot */
    uint64_t stalls_ms;        /* time during which the process was stopped; added to every lease */
    uint64_t restored_leases;  /* leases that were taken over from before the last start */
    uint64_t forgotten_claims; /* tokens from before the last start that belong to no lease */
    /* jobs set aside since the start because their bodies could not be read */
    uint64_t jobs_damaged;
    uint64_t read_errors;                       /* reads of the store that failed since the start */
    uint64_t applied;                           /* records that queries of the store can see */
    bool has_journal;                           /* if not, the journal figures below are 0 */
    uint64_t journal_lag_ms, journal_lag_bytes; /* durable but not applied yet */
    uint64_t journal_bytes, journal_bytes_max;  /* of all segments */
    uint64_t journal_segments, journal_segments_free;
    uint64_t journal_stuck_ms; /* how long records have waited for a free segment */
    /* size of the incomplete last entry that the start found; 0 = none */
    uint64_t journal_torn_bytes;
    /* copies of such entries that existed at the start or were created by it */
    uint64_t journal_torn_files;
    uint64_t sweeps, sweep_ns_total;
    uint64_t store_bytes; /* size of the store's files; 0 = it has no files */
    /* pages copied by the running backup; total 0 = no backup, or not known yet */
    uint64_t backup_pages, backup_total;
    bool compacting;
    /* PostgreSQL, jobs from transactions of users: rows that wait and refusals that are kept (both
     * as of the last heartbeat, counted up to 10,000), and what this node did since its start */
    uint64_t inbox_waiting, inbox_kept, inbox_taken, inbox_refused;
    bool dispatches;     /* to Redis; if not, the other dispatch figures are 0 */
    bool dispatch_up[2]; /* high, low */
    bool has_spool;      /* behind failover; if not, primary_up and spool_jobs are 0 */
    bool primary_up;     /* the shared store answers */
    uint64_t dispatch_pushed, dispatch_failed;
    /* random number drawn when the store was created; 0 = the store has none */
    uint64_t mark;
    uint64_t spool_jobs;   /* waiting, running or dead jobs that this node stores */
    uint64_t compact_left; /* pages that compacting still has to return, as far as known */
};
void backend_figures(const struct backend *b, struct backend_figures *ret);

/* --- the nodes that share the store, and the state of the store --- */

#define BACKEND_NODES_MAX 64

struct backend_node {
    uint32_t epoch; /* of its boot */
    unsigned number;
    struct wall_time seen_at; /* its last heartbeat */
    bool self, leader;
    bool silent;      /* it has sent no heartbeat for silent_ms and counts as dead */
    char version[24]; /* "" = not known */
};

/* The kind of server that holds a store. */
enum backend_server { SERVER_NONE, SERVER_POSTGRES, SERVER_REDIS };

/* How the connection to the server of a store is protected. */
enum backend_link {
    LINK_NONE,  /* the store is not a server */
    LINK_LOCAL, /* without TLS, on this machine: a Unix socket or a loopback address */
    LINK_PLAIN, /* without TLS, over a network */
    LINK_TLS,
};

/* The state at the last heartbeat of this node. Reading it costs nothing and does not block. An
 * embedded store has one node, which is the leader. */
struct backend_cluster {
    /* the store answers; always true behind failover, because the node can work */
    bool up;
    bool spooling; /* behind failover: the shared store does not answer */
    /* since when the store (behind failover: the shared store) has been in this state */
    struct wall_time since;
    char trouble[200]; /* why it last did not answer; "" = it has always answered */
    int64_t offset_ms; /* the store's clock minus this machine's */
    /* open connections of this node to the store; 0 = the store is not a server */
    unsigned connections;
    unsigned connections_of; /* connections that the node wants to have open */
    enum backend_server server;
    enum backend_link link; /* of the write connection when it was last opened */
    char sslmode[16];       /* PostgreSQL: what the URL says, or the default; otherwise "" */
    /* increases with each change of the leader; 0 = there has been no leader */
    uint64_t leader_epoch;
    int64_t lease_left_ms; /* of the leader's lease; 0 = it has expired, or is not needed */
    uint64_t overtaken;    /* times that this node was the leader and found that another node is */
    struct wall_time as_of;
    /* includes the leader unless its row was removed */
    size_t node_count;
    /* by epoch; if there are more, the oldest are left out */
    struct backend_node nodes[BACKEND_NODES_MAX];
};
void backend_cluster(const struct backend *b, struct backend_cluster *ret);

/* One of the stores behind a backend. A router has several; any other backend is one itself. */
struct backend_store {
    unsigned number; /* the number in its routes; 0 = the default */
    const char *kind;
    unsigned caps;
    struct backend_cluster cluster;
};
/* The store with this index, ordered by number; false = there are no more. */
bool backend_store(const struct backend *b, unsigned index, struct backend_store *ret);
/* Whether at least one of the stores would answer a query now: it is connected and does not wait
 * for its disk. Asking costs nothing and does not block. */
bool backend_answers(const struct backend *b);
/* Whether this node has notices to deliver: it is the leader on at least one of the stores, or has
 * an outbox whose notices it always delivers. */
bool backend_leads_any(const struct backend *b);
/* The store's clock, which is the one that counts, minus this machine's clock, as far as known. A
 * delay starts at the time of the store's clock. */
int64_t backend_clock_offset(const struct backend *b);

/* --- events --- */

/* "To add an event" in ARCHITECTURE.md lists the places that a new one needs. */
enum event_kind {
    EVENT_ENQUEUED, /* state: ready, scheduled or blocked */
    EVENT_READY,    /* a scheduled job became due */
    EVENT_CLAIMED,
    EVENT_RETRIED,  /* failed, will be retried */
    EVENT_CRASHED,  /* the lease expired or the connection was lost; will be retried */
    EVENT_RELEASED, /* returned without counting the attempt, by its holder or by a restart */
    EVENT_DONE,
    EVENT_DEAD,
    EVENT_CANCEL_REQUESTED, /* for a running job: its worker has a grace time to end it */
    EVENT_CANCELLED,
    EVENT_REQUEUED,
    EVENT_PATCHED,
    EVENT_QUEUE_CREATED,
    EVENT_QUEUE_CHANGED,
    EVENT_QUEUE_DELETED, /* count: jobs that were deleted with it */
    EVENT_QUEUE_PAUSED,
    EVENT_QUEUE_RESUMED, /* also when a pause with an end time ends */
    EVENT_QUEUE_PURGED,  /* count: jobs that were removed */
    /* count: waiting jobs, which reached the queue's warn_depth. Sent again only after the count
     * has fallen below 90 % of it */
    EVENT_QUEUE_DEEP,
    EVENT_CLOCK_SUSPECT, /* the wall clock jumped: nothing expires until OP_ACCEPT_CLOCK */
    EVENT_KV_SET,        /* a key of the key-value store has a new value */
    EVENT_KV_DELETED,    /* deleted, or expired */
    EVENT_ALERT_RAISED,  /* alert: the rule; count: what was measured */
    EVENT_ALERT_CLEARED, /* likewise */
    /* a firing time is due and no job can be created; once per series of failures */
    EVENT_SCHEDULE_FAILED,
    EVENT_SCHEDULE_FIRED, /* the job that it created */
    /* a worker reported progress; at most one event per second for each job */
    EVENT_PROGRESS,
    /* PostgreSQL: the rules refused a job that was enqueued in a transaction of a user */
    EVENT_INBOX_REFUSED,
    EVENT_UNBLOCKED, /* what it depended on has ended; state: ready, or scheduled */
    EVENT_KIND_COUNT
};
const char *event_name(enum event_kind k); /* "enqueued", … "queue_deep" */

struct backend_event {
    uint64_t id; /* increases, also across restarts: (boot epoch << 40) + counter */
    enum event_kind kind;
    struct wall_time at;
    uint64_t seq, id_hi;     /* the job; 0 = the event concerns no job */
    struct wall_time run_at; /* the job's; 0 = at once, or the event concerns no job */
    /* name; empty if the queue no longer exists or the event concerns no queue; valid until control
     * returns to the loop */
    struct span queue;
    enum job_state state; /* after the event; STATE_NONE if it concerns no job */
    enum job_reason reason;
    uint32_t attempts;
    bool has_extra; /* the job has texts (correlation id …) that OP_GET returns */
    uint64_t count; /* purged, deleted, deep: how many */
    /* key-value store: the encoded key; empty if there was no memory to store it; valid as long as
     * queue */
    struct span key;
    uint64_t version; /* key-value store: version of the change */
    /* raised, cleared: the name of the rule; empty if the rule no longer exists; valid as long as
     * queue */
    struct span alert;
    struct span schedule; /* fired, failed: name of the schedule; valid as long as queue */
};

/* Copies up to max durable events with an id above `after`, oldest first, of the kinds in the mask
 * (1 << enum event_kind; 0 = all). Returns how many were copied; if fewer than max, everything up
 * to backend_events_last() was examined. Events are stored in memory: the last 16,384 of this boot.
 * Removal by retention, by a request or by a slice of a purge creates no event, and neither does
 * the extension of a lease.
 *
 * Gaps. Within one boot ids have no gaps: the first is (epoch << 40) + 1, and so on. *ret_oldest is
 * the id of the oldest event still stored or, before the first event, the id that the first will
 * get; 0 = this backend stores no events. A caller that has seen everything up to `after` has
 * missed something exactly when *ret_oldest > after + 1 or after > backend_events_last(); it must
 * then read the whole state again. An `after` of an earlier boot always counts as missed, because
 * the last events of that boot may not have been delivered. To begin, take `after` from
 * backend_events_last(). */
size_t backend_events(const struct backend *b, uint64_t after, uint64_t kinds,
                      struct backend_event *out, size_t max, uint64_t *ret_oldest);
/* Whether events after `after` were missed, by the rule above. False if the backend stores no
 * events. */
bool backend_events_missed(const struct backend *b, uint64_t after);
/* The id of the newest durable event; epoch << 40 before the first event of this boot; 0 = the
 * backend stores no events. */
uint64_t backend_events_last(const struct backend *b);

/* Sets the only listener. It is called on the loop thread, never from inside a call of the backend,
 * after events have become durable that were not durable when it was set. One call may stand for
 * many events. NULL = stop. */
typedef void (*backend_news_fn)(void *ctx);
void backend_on_news(struct backend *b, backend_news_fn fn, void *ctx);

/* --- maintenance: at most one backup and one compaction at a time --- */

struct backup_result {
    int error;        /* 0, or -ERR_… with a note and nothing else */
    const char *note; /* the reason, for the operator; valid during the call */
    /* the backup, open for reading and writing: a file without a name, which is deleted when the
     * descriptor is closed. The receiver owns the descriptor */
    int fd;
    uint64_t bytes;    /* of the file */
    uint64_t position; /* the last record in it */
};
struct backup_request {
    void (*done)(void *ctx, const struct backup_result *result);
    void *ctx;
};
/* Copies the store, as of one moment, into one SQLite file. Everything that was acknowledged is in
 * it. The copy takes as long as the disk needs; other work continues meanwhile, and backend_figures
 * shows the progress. `done` is called once, never before this returns; a close ends the backup
 * early with -ERR_CLOSED. If the disk has not enough free space for the copy and a reserve, `done`
 * gets -ERR_NO_SPACE and nothing is copied.
 *
 * On failure the note says why, and `done` is not called: -ERR_LOCKED if another backup is running,
 * -ERR_INVALID if the backend has no files, -ERR_CLOSED, -ERR_NOMEM. */
MUST_CHECK int backend_backup(struct backend *b, const struct backup_request *request,
                              struct err_note *note);
/* For the caller that started the running backup: it stops soon, and `done` is not called. */
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
/* Returns the pages of removed jobs to the file system, in small steps between commits. Calls and
 * errors as for backend_backup. A full disk ends it early with -ERR_NO_SPACE. */
MUST_CHECK int backend_compact(struct backend *b, const struct compact_request *request,
                               struct err_note *note);
void backend_compact_cancel(struct backend *b);

typedef void (*backend_closed_fn)(void *ctx);

/* The (manual) clock was moved: does everything that is now due (promotions, expiry of leases and
 * jobs, retention, slices of bulk work), then calls fn once that is durable and all its signals
 * have been sent; never before it returns. -ERR_CLOSED after backend_close was called, -ERR_NOMEM:
 * fn is not called. A close ends it early: fn is then called before the close is complete. */
MUST_CHECK int backend_settle(struct backend *b, backend_closed_fn fn, void *ctx);

/* Replies to everything outstanding, makes it durable, frees b, then calls back. While the disk is
 * full it does not wait for free space: what is not durable is lost, and its reply is OUT_UNKNOWN
 * (OUT_UNAVAILABLE for queries). */
void backend_close(struct backend *b, backend_closed_fn fn, void *ctx);
