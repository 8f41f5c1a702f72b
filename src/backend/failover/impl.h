/* SPDX-License-Identifier: Apache-2.0 */
/* Inside failover.
 *
 *   failover.c  opening, closing, watching, events, figures
 *   health.c    is the primary there: asked all the time, and by every answer it gives
 *   calls.c     which of the two an op goes to, and what becomes of its answer
 *   ids.c       ids of the spool ↔ those outside
 *   mirror.c    the queues of the primary, in the spool
 *   flow.c      the way back of the spool's jobs
 *   reach.c     whether anybody listens at an address
 *
 * Ids. The spool counts from 1 as any store; outside its sequences carry ID_SPOOL_BIT and the
 * number of this node, and are counted from a place that was drawn when the spool was made, so they
 * are nobody else's, not even of an earlier spool of this node; and an id says where to ask first.
 * The primary takes the job with that id, so it stays what the client was given. There is nothing
 * to reserve beforehand, and no outage is too long, or too early, for it. Should two spools draw
 * alike, the primary refuses the second job's id and gives it another: no job is taken for another.
 *
 * Where a job is: in the spool until it has flowed back; then the spool does not know it any more,
 * and the primary is asked.
 *
 * The way back of one job:
 *   1. it is seized in the spool (worker FLOW_WORKER), so that nobody else gets it;
 *   2. the primary takes it, under its id and an idempotency key made of it;
 *   3. the spool gives it up.
 * After a crash in between it is found seized, and 2 is done again, which the primary knows to be a
 * repeat. While it is not known whether 2 was done, the job stays seized: it is not lost, it runs
 * once, and it waits for the primary. Jobs that run from the spool end there; if they fail, they
 * flow back with their failures. */
#pragma once

#include "backend/backend_impl.h"
#include "backend/event_merge.h"
#include "backend/failover/failover.h"
#include "backend/fanout.h"
#include "base/containers/map.h"
#include "core/limits.h"

#define FLOW_WORKER "holdfast: flowing back"
#define FLOW_BATCH 64

enum { SOURCE_PRIMARY, SOURCE_SPOOL, SOURCE_COUNT };

struct failover;

struct fo_call {
    struct fanout_call base;
    bool been_at_primary;
    const char *note; /* refused: why */
};

struct fo_watch {
    struct failover *f;
    backend_signal_fn fn;
    void *ctx;
    struct backend_watch *primary, *spool; /* primary: NULL until it is open */
    char *queue;
    size_t queue_len;
    struct fo_watch *prev, *next;
};

enum flow_fate {
    FATE_NONE,    /* not ours to move: it runs, or is gone */
    FATE_DOUBT,   /* being moved, or whether the primary has it is not known */
    FATE_MOVED,   /* the primary has it */
    FATE_REFUSED, /* it surely has not */
};

struct flow_job {
    struct job_ref at; /* in the spool */
    uint8_t state;     /* there, before it was seized */
    uint8_t reason;
    struct job_token token; /* counter 0 = not seized (a dead job) */
    enum flow_fate fate;
    bool renamed;       /* its id is another job's: the primary gives it one */
    bool doubt;         /* an earlier attempt to move it may have been done */
    struct reply *held; /* a copy of what the spool said of it, with its body */
    char key[48];
    struct job_options options;
    struct job_past past;
};

enum flow_phase { FLOW_IDLE, FLOW_FIND, FLOW_SEIZE, FLOW_MOVE, FLOW_END };

struct flow {
    enum flow_phase phase;
    bool resumed; /* jobs that an earlier process had seized were looked for */
    bool refused; /* the last round found some that the primary does not take */
    uint64_t after;
    struct flow_job jobs[FLOW_BATCH];
    size_t count;
    struct op ops[2 * FLOW_BATCH]; /* of the phase under way */
    size_t waiting;                /* answers still to come */
};

#define MIRROR_PAGE 100

struct mirror {
    bool busy;
    uint64_t looked_ms; /* uv_now; 0 = never */
    struct map128 seen; /* by the hash of the name: what the spool was told */
    char after[LIMIT_QUEUE_NAME_BYTES];
    size_t after_len;
    struct op list, ops[MIRROR_PAGE];
    struct reply *page;
    size_t waiting;
};

struct failover {
    struct backend base;
    struct fanout fanout;   /* store index: SOURCE_… */
    struct backend_ops ops; /* an own copy: the kind names the primary */
    char kind[64];
    struct failover_setup setup;
    struct backend_config config;
    struct backend *primary; /* NULL until it was reached for the first time, and once closed */
    struct backend *spool;   /* NULL once closed */
    bool up;
    struct wall_time since; /* it is up, or away */
    char why[200];          /* it was last away */
    uint64_t first;         /* the spool's sequences are counted from here outside; see ids.c */
    struct fo_watch *watches;
    struct event_merge events;
    backend_news_fn news;
    void *news_ctx;

    uv_timer_t timer; /* health */
    uv_work_t reach;
    bool reaching, reached; /* somebody asks whether anybody listens; the answer */
    struct op probe;
    bool probing, slow; /* a question is out; its answer does not count any more */
    uint64_t probed_ms; /* since when */

    struct flow flow;
    struct mirror mirror;

    bool signal_all;
    unsigned handles;
    bool finished; /* the handles are being closed */
    backend_closed_fn closed_fn;
    void *closed_ctx;
};

/* ids.c */
bool fo_own(const struct failover *f, uint64_t seq); /* of this node's spool */
uint64_t fo_seq_out(const struct failover *f, uint64_t seq);
uint64_t fo_seq_in(const struct failover *f, uint64_t seq); /* of one that is fo_own */
MUST_CHECK int fo_reply_out(const struct failover *f, struct reply *reply, struct arena *a);

/* calls.c */
extern const struct fanout_owner fo_calls;

/* failover.c */
void fo_iteration(struct fanout *fanout);
void fo_primary_opened(struct failover *f); /* watches and events of it count from now on */
void fo_close_further(struct failover *f);

/* health.c */
void fo_health_start(struct failover *f);
/* The primary has settings under which jobs could be lost: the log says so once; 0. */
int fo_not_usable(struct failover *f, const struct err_note *note);
void fo_down(struct failover *f, const char *why); /* the primary did not do something */
uint64_t fo_spool_jobs(const struct failover *f);

/* flow.c */
void fo_flow_wake(struct failover *f);
void fo_flow_done(struct failover *f);
enum flow_fate fo_flow_fate(const struct failover *f, uint64_t inner_seq);

/* mirror.c */
void fo_mirror_wake(struct failover *f);
void fo_mirror_done(struct failover *f);

/* reach.c */
/* Whether somebody takes connections at the address of this URL within so long. An address that is
 * not understood, or none: true, whoever opens it will see. Blocks. */
bool reach_url(const char *url, uint32_t timeout_ms);
