/* SPDX-License-Identifier: Apache-2.0 */
/* The broker: the use cases, for APIs.
 *
 * Requests and replies are those of ops/op.h: the caller keeps an op and everything it points to
 * valid and unchanged until its reply; a reply is valid only during the call that delivers it. The
 * broker collects the operations of one iteration of the loop and submits them as one batch, so
 * nothing is ever called back before the requesting function returns.
 *
 * On top of a backend it parks claims that wait, feeds streams, counts, remembers workers, refuses
 * enqueues while it drains, and releases jobs that a lost reply may have claimed.
 *
 * src/broker may use the headers directly in src/backend except backend_impl.h, ops, core and base,
 * and libuv; only alerts/ uses libcurl. It knows nothing about HTTP requests, SQL or the kind of
 * the store. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "backend/backend.h"
#include "base/err.h"
#include "base/log.h"
#include "base/system/clock.h"
#include "broker/alerts/webhook.h"
#include "ops/op.h"

struct broker;

/* A priority by name. */
struct broker_label {
    const char *name;
    int64_t priority; /* higher first */
};

/* Notices of alerts to webhooks. */
struct broker_webhooks {
    struct webhook_policy policy; /* what it points to is borrowed */
    uint32_t concurrency;         /* deliveries at once, ≥ 1 */
    uint64_t give_up_ms;          /* an older notice is not tried again */
    struct breaker_rules breaker;
};

struct broker_config {
    uv_loop_t *loop;
    struct clock clock;
    struct clock_manual *test_clock; /* the clock behind `clock` if it is manual, otherwise NULL */
    const struct log *log;           /* may be NULL */
    struct backend *backend;         /* not owned; outlives the broker */
    const struct broker_label *labels; /* NULL = high 10, normal 0, low -10 */
    size_t label_count;
    uint32_t silent_ms; /* a worker that made no request for this long is silent; 0 = 60,000 */
    const struct broker_webhooks
        *webhooks; /* NULL = conditions are not evaluated and notices not sent */
};

MUST_CHECK int broker_open(const struct broker_config *config, struct broker **ret);
/* Ends waiting claims (empty) and streams, releases jobs that no client will get, waits for
 * everything outstanding, frees b, then calls fn. The backend stays open. */
void broker_close(struct broker *b, void (*fn)(void *ctx), void *ctx);
/* From now on enqueues are refused, waiting claims are answered at once with the jobs that are
 * ready, and streams end and release their jobs uncounted. Operations that empty queues continue.
 */
void broker_drain(struct broker *b);
bool broker_draining(const struct broker *b);

/* ---- everything but claims ---- */

typedef void (*broker_reply_fn)(void *ctx, const struct reply *reply);
/* One reply for each op, with its op.tag. -ERR_NOMEM, -ERR_CLOSED: nothing was taken. Never
 * OP_CLAIM. */
MUST_CHECK int broker_submit(struct broker *b, const struct op *ops, size_t count,
                             broker_reply_fn fn, void *ctx);
/* An OP_LIST whose jobs have more than a list has: their progress and log, or what they depend on
 * and, if they are blocked, wait for. At most LIMIT_LIST_DETAILS jobs. One reply; errors as above.
 */
enum list_detail { LIST_REPORTS = 1, LIST_DEPENDENCIES = 2 };
MUST_CHECK int broker_list_details(struct broker *b, const struct op *op, unsigned what,
                                   broker_reply_fn fn, void *ctx);

/* ---- claims ---- */

struct broker_claim;
#define BROKER_WAIT_FOREVER UINT32_MAX
/* Takes jobs now, or waits up to wait_ms (real time, also under a test clock) for the first one; fn
 * is called once, with OUT_OK and no jobs if the wait has expired. Waiting claims of a queue are
 * served first come, first served; each job that becomes ready wakes one. `want` is copied; the
 * broker sets its nonce. *ret stays valid until fn was called. */
MUST_CHECK int broker_claim(struct broker *b, const struct op_claim *want, uint32_t wait_ms,
                            broker_reply_fn fn, void *ctx, struct broker_claim **ret);
/* The client has disconnected: fn will not be called; jobs that it may have been given are
 * released, uncounted. */
void broker_claim_cancel(struct broker *b, struct broker_claim *c);
/* The client waits no longer, but still expects a reply: fn is called now if c waits for a job,
 * otherwise with the reply to the outstanding operation. */
void broker_claim_end_wait(struct broker *b, struct broker_claim *c);
/* The reply to a claim did not reach the client: its jobs are released, uncounted. */
struct broker_held {
    uint64_t seq;
    struct job_token token;
};
void broker_give_back(struct broker *b, const struct broker_held *jobs, size_t count);

/* ---- streams: repeated claims, bound to a connection ---- */

struct broker_stream;
struct broker_stream_config {
    struct span queue;  /* copied */
    struct span worker; /* copied */
    uint32_t lease_ms;
    uint32_t prefetch; /* limit of jobs delivered and not ended yet; 1 … 1,000 */
    /* A job for the client; the view has its body. false: it cannot be written (it is released,
     * uncounted, and the stream makes no further claims until broker_stream_resume). */
    bool (*job)(void *ctx, const struct job_view *job);
    /* the broker drains or closes: end the connection; not called after close */
    void (*ended)(void *ctx);
    void *ctx;
};
MUST_CHECK int broker_stream_open(struct broker *b, const struct broker_stream_config *config,
                                  struct broker_stream **ret);
void broker_stream_resume(struct broker_stream *s);
/* lost: the connection was lost; the jobs that it held count as crashed. Otherwise they are
 * released uncounted. */
void broker_stream_close(struct broker_stream *s, bool lost);

/* ---- events ---- */

struct broker_event {
    struct job_texts; /* of its job: those that events show; its members are members of this struct
                       */
    struct backend_event event;
    struct span progress; /* of a progress event: the present value; empty = not known */
    /* the present value of a key, if values are wanted; NULL = not known */
    const struct kv_view *kv;
};

struct broker_listener;
struct broker_listener_config {
    struct span queue; /* empty = all; copied */
    uint64_t kinds;    /* mask of 1 << enum event_kind; 0 = all */
    /* Events of keys: only of those with this prefix (encoded), copied. With values, each event has
     * the present value of the key, and a change that was replaced by a later one may be left out.
     */
    struct span prefix;
    bool values;
    bool no_texts; /* texts of jobs are not needed and not read from the store */
    bool resume;   /* begin after `after`; otherwise with the next event */
    uint64_t after;
    /* false: no room now; the same event is delivered again after broker_listener_resume. */
    bool (*event)(void *ctx, const struct broker_event *event);
    /* Events between the last one and `oldest` are lost to this listener. Same return value. */
    bool (*gap)(void *ctx, uint64_t oldest);
    /* Everything that has happened so far was delivered, or was not wanted; NULL = not called */
    void (*caught_up)(void *ctx);
    void (*ended)(void *ctx); /* the broker drains: end the connection; NULL = not called */
    void *ctx;
};
MUST_CHECK int broker_listen(struct broker *b, const struct broker_listener_config *config,
                             struct broker_listener **ret);
void broker_listener_resume(struct broker_listener *l);
/* Whether it has delivered all events that it knows; *ret_after: the id of the last event that it
 * has seen. */
bool broker_listener_at_rest(const struct broker_listener *l, uint64_t *ret_after);
size_t broker_listener_bytes(void);                    /* size of a listener in memory */
void broker_listener_close(struct broker_listener *l); /* NULL is allowed */

/* ---- figures ---- */

/* Figures of one queue since the start, as seen by this server. */
struct broker_queue_figures {
    struct span queue;
    struct histogram waited_us; /* ready until claimed */
    struct histogram ran_us;    /* claimed until acked or failed */
    uint64_t enqueued, dequeued, failures, acked;
};
/* Calls fn for each queue seen so far (at most 10,000), in no order. */
void broker_queue_figures(const struct broker *b,
                          void (*fn)(void *ctx, const struct broker_queue_figures *f), void *ctx);
/* false: nothing has been seen of this queue yet. */
bool broker_queue_figures_of(const struct broker *b, struct span queue,
                             struct broker_queue_figures *ret);

struct broker_figures {
    uint64_t waiting;                        /* claims parked now */
    uint64_t streams, listeners, heartbeats; /* heartbeats: those that wait */
    uint64_t workers;                        /* known to this node */
    uint64_t batches, ops;                   /* submitted so far */
    bool draining;
    /* webhooks, since the start: delivered, failed, those of the failed ones that were refused for
     * their address; and in progress now */
    uint64_t notices_delivered, notices_failed, notices_refused, notices_under_way;
};
void broker_figures(const struct broker *b, struct broker_figures *ret);
void broker_backend_figures(const struct broker *b, struct backend_figures *ret);
void broker_cluster(const struct broker *b, struct backend_cluster *ret);
/* backend_store: each store separately, if there are several. */
bool broker_store(const struct broker *b, unsigned index, struct backend_store *ret);
bool broker_answers(const struct broker *b); /* backend_answers */
unsigned broker_caps(const struct broker *b);
const char *broker_backend_kind(const struct broker *b);
/* Whether jobs are in Redis, are dispatched to it, or are in the shared store behind failover; and
 * whether that server answers. */
bool broker_uses_redis(const struct broker *b, bool *ret_up);

#define WORKER_HOST_BYTES 200
#define WORKER_VERSION_BYTES 64

enum broker_worker_state {
    WORKER_ACTIVE,
    WORKER_SILENT,  /* no request for silent_ms, whether it holds jobs or not */
    WORKER_STOPPED, /* it announced that it stops; a lease that it left may still run */
};

struct broker_worker {
    struct span name, host, version; /* host and version: from heartbeats; empty = not known */
    uint32_t pid;                    /* 0 = not known */
    enum broker_worker_state state;
    struct wall_time last_seen; /* 0 = not since the start */
    uint64_t running;
    struct job_ref held[WORKER_HELD_SHOWN]; /* some of its running jobs */
    uint32_t held_count;
    uint64_t claimed, done, failed, released; /* as seen by the nodes */
    bool told; /* heartbeats contain its own numbers, which are shown instead: */
    uint64_t told_done, told_failed;
    bool stopped; /* according to the last heartbeat */
    /* ends of its longest lease and of a request that waits for a reply; 0 = none */
    struct wall_time held_until, waits_until;
};
/* One call with all of them, by name (at most 10,000). */
typedef void (*broker_workers_fn)(void *ctx, const struct broker_worker *workers, size_t count,
                                  int error);
void broker_set_silent_ms(struct broker *b, uint32_t silent_ms);
MUST_CHECK int broker_workers(struct broker *b, broker_workers_fn fn, void *ctx);

/* ---- heartbeats of workers ---- */

struct broker_lease {
    struct job_ref job;
    struct job_token token;
};

struct broker_heartbeat_in {
    struct span worker;        /* name */
    struct span host, version; /* at most WORKER_HOST_BYTES, WORKER_VERSION_BYTES */
    uint32_t pid;
    bool has_done, has_failed;
    uint64_t done, failed;
    bool stopping;
    const struct broker_lease *leases;
    size_t lease_count; /* at most LIMIT_BATCH */
    uint32_t extend_ms; /* 0 = as long as before */
    uint32_t wait_ms;   /* 0 = reply at once */
};

struct broker_heartbeat_result {
    enum outcome refused; /* OUT_OK; otherwise the outcome of one of the leases */
    const struct broker_lease *cancel, *lost; /* a job may have been claimed again: see the token */
    size_t cancel_count, lost_count;
};

struct broker_heartbeat;
typedef void (*broker_heartbeat_fn)(void *ctx, const struct broker_heartbeat_result *result);
/* Registers the worker and renews its leases in one batch; calls fn once, when one of them is lost
 * or to be cancelled, otherwise when the wait has expired. `in` is copied. A lease may be reported
 * as lost although its holder has just ended it through another node. *ret stays valid until fn was
 * called. -ERR_CLOSED: the broker drains. */
MUST_CHECK int broker_heartbeat(struct broker *b, const struct broker_heartbeat_in *in,
                                broker_heartbeat_fn fn, void *ctx, struct broker_heartbeat **ret);
/* The client has disconnected: fn will not be called. */
void broker_heartbeat_cancel(struct broker_heartbeat *h);

/* ---- why a job is not running ---- */

struct why_answer; /* ops/jobs/why.h */
/* refusal: the reply to the query, if it is no answer; otherwise NULL. The answer is valid during
 * the call. */
typedef void (*broker_why_fn)(void *ctx, const struct reply *refusal,
                              const struct why_answer *answer);
/* fn is called once, never before this returns. */
MUST_CHECK int broker_why(struct broker *b, struct job_ref job, broker_why_fn fn, void *ctx);
/* A worker of these queues consults the breaker before it claims. */
void broker_breaker_used(struct broker *b, struct span breaker, const struct span *queues,
                         size_t count);

/* ---- webhooks ---- */

/* NULL: this URL may be called as far as known. Otherwise why its address may not be called
 * ("loopback", …); names are checked only when a notice is sent. */
const char *broker_webhook_refused(const struct broker *b, struct span url);
/* The defaults of the settings breaker.*. */
struct breaker_rules broker_breaker_rules(const struct broker *b);

/* ---- schedules ---- */

/* From now on schedules are fired when they are due. Their definitions are changed with
 * broker_submit; the broker fills in next_at of a put or resume. */
void broker_schedules_start(struct broker *b);
/* Completes a definition (start_at, and how it treats changes of the zone's offset unless that was
 * given) and checks it, including its zone. -ERR_INVALID with a note. */
MUST_CHECK int broker_schedule_fill(struct broker *b, struct schedule_spec *spec, bool has_gap,
                                    bool has_fold, struct err_note *note);
/* A time at which a schedule is due. */
struct broker_firing {
    struct wall_time at;
    int32_t offset_s; /* of the local time, seconds east of UTC */
    const char *note; /* "near", "moved", "first", "second" (core/schedules/cron.h); NULL = none */
};
MUST_CHECK int broker_schedule_preview(struct broker *b, const struct schedule_spec *spec,
                                       struct wall_time after, struct broker_firing *out,
                                       size_t count, size_t *ret_count, struct err_note *note);

/* ---- maintenance ---- */

/* As backend_backup and backend_compact; refused with -ERR_CLOSED once the broker drains. */
MUST_CHECK int broker_backup(struct broker *b, const struct backup_request *request,
                             struct err_note *note);
void broker_backup_cancel(struct broker *b);
MUST_CHECK int broker_compact(struct broker *b, const struct compact_request *request,
                              struct err_note *note);
void broker_compact_cancel(struct broker *b);

/* ---- labels and time ---- */

/* The priority of a label; false: unknown. labels: as in struct broker_config. */
bool broker_labels_find(const struct broker_label *labels, size_t count, struct span name,
                        int64_t *ret);
bool broker_label_find(const struct broker *b, struct span name, int64_t *ret);
/* Label i, or NULL after the last; for error messages. */
const struct broker_label *broker_label_at(const struct broker *b, size_t i);
struct now broker_now(const struct broker *b); /* its wall time is that of the store */
bool broker_has_test_clock(const struct broker *b);
/* Moves the test clock and calls fn when everything that became due has happened, schedules in
 * order and each at its time. -ERR_INVALID if there is no test clock. */
MUST_CHECK int broker_clock_advance(struct broker *b, int64_t ms, void (*fn)(void *ctx), void *ctx);
/* The same without passing through the time in between: firing times that it skips are misfires. */
MUST_CHECK int broker_clock_jump(struct broker *b, int64_t ms, void (*fn)(void *ctx), void *ctx);
