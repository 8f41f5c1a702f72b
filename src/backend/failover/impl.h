/* SPDX-License-Identifier: Apache-2.0 */
/* Inside failover.
 *
 *   failover.c  opening, closing, watches, events, figures
 *   health.c    whether the primary is available: it is asked at intervals, and every reply counts
 *   calls.c     which of the two stores an operation goes to, and what its reply becomes
 *   notices.c   operations on notices, which both stores have
 *   ids.c       ids and queue numbers of the spool ↔ those that callers see
 *   mirror.c    copies the queues of the primary to the spool
 *   rules.c     copies the alert rules on failover to the spool, and raises and clears them
 *   spool_drain.c   moves the jobs of the spool to the primary
 *   reach.c     whether a server accepts connections at an address
 *
 * Ids. The spool counts from 1, as any store does. For callers its sequences have ID_SPOOL_BIT and
 * the number of this node, and are counted from a random value that was chosen when the spool was
 * created, so that no other store gives the same ones, not even an earlier spool of this node. An
 * id therefore says which store to ask first. The primary takes the job with that id, so the client
 * can keep the id that it was given. Nothing has to be reserved in advance, so an outage can last
 * any time and begin before the first start. If two spools chose the same value, the primary
 * refuses the id of the second job and gives it another one: no job is mistaken for another.
 *
 * A job is in the spool until it has been moved. Then the spool does not know it any more, and the
 * primary is asked.
 *
 * Moving one job has three steps:
 *   1. the job is seized in the spool (worker DRAIN_WORKER), so that no one else gets it;
 *   2. the primary takes it, under its id and an idempotency key that is derived from the id;
 *   3. the spool removes it.
 * After a crash between the steps the job is found seized, and step 2 is repeated, which the
 * primary recognises. While it is unknown whether step 2 was done, the job stays seized: it is not
 * lost, it does not run twice, and it waits for the primary. Jobs that run from the spool end
 * there; if they fail, they are moved with their failures. */
#pragma once

#include "backend/backend_impl.h"
#include "backend/event_merge.h"
#include "backend/failover/failover.h"
#include "backend/fanout.h"
#include "base/containers/map.h"
#include "core/alerts/alert.h"
#include "core/limits.h"

#define DRAIN_WORKER "holdfast: moving to the shared store"
#define DRAIN_BATCH 64

enum { SOURCE_PRIMARY, SOURCE_SPOOL, SOURCE_COUNT };

struct failover;

struct fo_call {
    struct fanout_call base;
    bool asked_primary;
    bool checks_queue;         /* the spool is asked for the queue of an enqueue, see calls.c */
    bool checks_job;           /* the spool is asked for the job of an ack, see calls.c */
    const char *note;          /* refused: why */
    struct wall_time next_due; /* notice_take: of the spool */
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

enum drain_outcome {
    DRAIN_NONE,    /* it is not to be moved: it runs, or no longer exists */
    DRAIN_UNKNOWN, /* it is being moved, or it is not known whether the primary has it */
    DRAIN_MOVED,   /* the primary has it */
    DRAIN_REFUSED, /* the primary does not have it */
};

struct drain_job {
    struct job_ref at; /* in the spool */
    uint8_t state;     /* in the spool, before it was seized */
    uint8_t reason;
    struct job_token token; /* counter 0 = not seized (a dead job) */
    enum drain_outcome outcome;
    bool renamed;       /* another job has its id: the primary gives it a new one */
    bool maybe_done;    /* an earlier attempt to move it may have succeeded */
    bool no_queue;      /* the primary does not have its queue */
    struct reply *held; /* a copy of the spool's reply about it, with its body */
    char key[48];
    struct job_options options;
    struct job_past past;
};

enum drain_phase { DRAIN_IDLE, DRAIN_FIND, DRAIN_SEIZE, DRAIN_MOVE, DRAIN_QUEUES, DRAIN_END };

struct drain {
    enum drain_phase phase;
    bool resumed;      /* the spool was searched for jobs that an earlier process had seized */
    bool refused;      /* in this pass the primary refused a job, and the log says so */
    bool queues_asked; /* in this round queues were created in the primary */
    uint64_t after;
    struct drain_job jobs[DRAIN_BATCH];
    size_t count;
    struct op ops[2 * DRAIN_BATCH];    /* of the present phase */
    size_t waiting;                    /* replies that are still to come */
    struct reply *queues[DRAIN_BATCH]; /* of the spool, that the primary lacks */
    size_t queue_count;
};

#define MIRROR_PAGE 100

struct mirror {
    bool busy;
    bool complete;       /* the present pass has read all queues of the primary */
    uint64_t looked_ms;  /* when a pass began, as uv_now; 0 = the next one is due */
    uint64_t pass;       /* the number of the present pass */
    struct map128 seen;  /* by the hash of the name: what the spool was told */
    struct map128 found; /* by the hash of the name: the last pass that found the queue */
    char after[LIMIT_QUEUE_NAME_BYTES];
    size_t after_len;
    struct op list, ops[MIRROR_PAGE];
    struct arena notes; /* of ops */
    struct reply *page;
    size_t waiting;
    struct map64 to_primary, to_spool; /* numbers of queues, from one store to the other */
};

struct rules {
    bool busy;
    bool copy_due;         /* the rules of the primary are to be copied to the spool */
    bool copying;          /* a copy is under way */
    bool told, told_up;    /* the edges of the spool's rules are those of this value of `up` */
    bool telling_up;       /* … and will be, when the operations under way are done */
    bool created;          /* the primary has the rule of the settings */
    struct alert_rule own; /* the rule of the settings */
    struct op ops[2 * LIMIT_ALERTS];
    size_t op_count, waiting;
    bool failed;                    /* one of the operations under way */
    struct reply *wanted, *present; /* the rules of the primary and of the spool */
    char text[240];                 /* of the edges that are being told */
};

struct failover {
    struct backend base;
    struct fanout fanout;   /* store index: SOURCE_… */
    struct backend_ops ops; /* a copy: the kind names the primary */
    char kind[64];
    struct failover_setup setup;
    struct backend_config config;
    struct backend *primary; /* NULL until it was reached for the first time, and once closed */
    struct backend *spool;   /* NULL once closed */
    bool up;
    struct wall_time since; /* when `up` changed last */
    char why[200];          /* why it was last unavailable */
    uint64_t first;         /* callers see the spool's sequences counted from here; see ids.c */
    struct fo_watch *watches;
    struct event_merge events;
    backend_news_fn news;
    void *news_ctx;

    uv_timer_t timer; /* health */
    uv_work_t reach;
    bool reaching;              /* the other thread is looking for a server */
    bool reached;               /* what it found: a server accepts connections … */
    int check_err;              /* … and can be used (0), or not */
    struct err_note check_note; /* why not */
    uint64_t refused_wait_ms;   /* until the next check after a refusal; 0 = none was refused */
    struct op probe;
    bool probing, slow; /* a query is under way; its reply does not count any more */
    uint64_t probed_ms; /* since when */

    struct drain drain;
    struct mirror mirror;
    struct rules rules;

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
void fo_ask_primary(struct fo_call *c);

/* notices.c */
/* As fanout_owner.plan: fills the inner operation, or sets the note. */
void fo_notice_plan(struct fo_call *c);
/* A reply of the spool, renumbered, or of the primary: delivers it, or asks the primary. */
void fo_notice_spool_replied(struct fo_call *c, struct reply *reply);
void fo_notice_primary_replied(struct fo_call *c, const struct reply *reply);

/* failover.c */
void fo_iteration(struct fanout *fanout);
void fo_primary_opened(struct failover *f); /* its watches and events count from now on */
void fo_close_further(struct failover *f);

/* health.c */
void fo_health_start(struct failover *f);
/* The primary has settings under which jobs could be lost: logs this once; returns 0. */
int fo_not_usable(struct failover *f, const struct err_note *note);
void fo_down(struct failover *f, const char *why); /* the primary did not do something */
uint64_t fo_spool_jobs(const struct failover *f);

/* spool_drain.c */
void fo_drain_wake(struct failover *f);
void fo_drain_done(struct failover *f);
enum drain_outcome fo_drain_outcome(const struct failover *f, uint64_t inner_seq);

/* mirror.c */
void fo_mirror_init(struct failover *f);
void fo_mirror_start(struct failover *f); /* learns the numbers of the queues from the spool */
void fo_mirror_wake(struct failover *f);
void fo_mirror_changed(struct failover *f); /* the primary has changed a queue */
void fo_mirror_done(struct failover *f);
/* The numbers of a queue in the primary and in the spool; 0 = the queue is not a copy. */
uint32_t fo_queue_out(const struct failover *f, uint32_t number);
uint32_t fo_queue_in(const struct failover *f, uint32_t number);
/* The note of a queue as the primary has it. */
struct span fo_note_out(struct span note);

/* rules.c */
void fo_rules_start(struct failover *f); /* puts the rule of the settings into the spool */
void fo_rules_copy(struct failover *f);  /* from the primary to the spool */
void fo_rules_wake(struct failover *f);  /* tells the rules of the spool how the primary is */
void fo_rules_done(struct failover *f);

/* reach.c */
/* Whether a server accepts connections at the address of this URL within this time. true if the
 * URL has no address that is understood: opening it will tell. Blocks. */
bool reach_url(const char *url, uint32_t timeout_ms);
