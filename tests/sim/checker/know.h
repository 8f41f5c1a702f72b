/* SPDX-License-Identifier: Apache-2.0 */
/* What the checker knows while it reads a history; shared by its files.
 *
 * For each job it keeps the set of states the job may be in (`can`). A reply narrows the set; an
 * outcome that is not known, and time, widen it. A reply that no member of the set explains is a
 * violation. So an uncertain outcome never raises a false alarm, and an observation ends the
 * uncertainty. */
#pragma once

#include "sim/checker/checker.h"

#define CAN(state) STATE_BIT(state)
#define CAN_GONE STATE_BIT(STATE_NONE)
#define CAN_ANY (CAN_GONE | STATES_ALL)

#define RUN_AT_UNKNOWN INT64_MIN
#define NOT_ENDED INT64_MIN
#define CAN_ENDED (STATES_FINISHED | CAN(STATE_DEAD))
#define COUNT_UNKNOWN UINT32_MAX
#define KNOW_QUEUES 16
#define KNOW_PAYLOADS 4

/* The newest lease whose claim is known. */
struct know_lease {
    struct job_token token; /* counter 0 = none yet */
    uint32_t lease_ms;
    int64_t end_min; /* mono; it cannot have run out before */
    uint64_t nonce;
    bool bound;
    bool unheld;   /* its claim had no reply: the server may give it back, uncounted, at any time */
    bool counted;  /* that it ran out is already in the upper bounds */
    bool followed; /* by a claim that had no reply, perhaps */
    /* What limits it besides: see struct lease_limits. */
    enum { CANCEL_NONE, CANCEL_MAYBE, CANCEL_SURE } cancel; /* requested */
    bool timed;                                             /* it may have a timeout */
    int64_t limit_min, limit_max; /* mono; its first limit; INT64_MAX = none, or not known */
};

struct know {
    uint64_t seq;
    uint32_t queue;                /* index in facts.queues */
    size_t made;                   /* entry of the enqueue that made it */
    const struct op_enqueue *born; /* of that entry */
    unsigned can;                  /* mask of the states it may be in */
    int64_t touched;               /* mono; when `can` was last narrowed */
    int64_t ended;                 /* mono; may have ended since then; NOT_ENDED = it cannot have */
    bool hidden;                   /* a claim without a reply may hold it */
    bool vague;                    /* which enqueue made it is not known; `born` has the queue */
    bool priority_sure;
    int64_t priority;
    int64_t run_at;  /* wall, or RUN_AT_UNKNOWN */
    int64_t run_set; /* mono; since when run_at holds */
    uint32_t fail_min, fail_max, crash_min, crash_max;
    struct know_lease lease;
    struct span payload[KNOW_PAYLOADS]; /* what it may be; the first is the likeliest */
    unsigned payload_count;             /* 0 = too many to say */
};

struct know_queue {
    struct span name;
    struct queue_policy policy;
    bool policy_sure;
    bool pause_sure;
    int64_t paused_until;
};

/* A bulk action: may touch its jobs at any time from `from` to `upto`. */
struct know_bulk {
    uint32_t queue;
    size_t entry;
    const struct op_bulk *op;
    int64_t from, upto;
};

struct facts {
    struct know *jobs; /* in the order of their enqueues */
    size_t job_count, job_room;
    size_t silent; /* enqueues without a reply: jobs that may be there besides */
    struct know_queue queues[KNOW_QUEUES];
    uint32_t queue_count;
    struct know_bulk *bulks;
    size_t bulk_count, bulk_room;
};

struct wall_segment {
    int64_t from;   /* mono */
    int64_t offset; /* wall = mono + offset */
};

struct checker {
    const struct history *h;
    struct facts facts; /* now */
    struct facts saved; /* at the last boot */
    bool *erased;       /* by entry: a crash undid it */
    size_t boot_entry;  /* first entry since the last crash */
    bool second_pass;   /* going over the entries before a crash again, without the erased ones */
    size_t at;          /* entry at work */
    const struct hist_entry *e;
    struct wall_segment *walls;
    size_t wall_count, wall_room;
    struct job_token token_newest; /* ever issued, crash or not */
    bool drained;                  /* HIST_DRAINED has been read */
    struct pool pool;
    struct violation bad;
};

/* Notes the first violation; the formatted text says what was seen and what was known. */
void blame(struct checker *c, enum check check, uint64_t seq, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
const char *states_text(unsigned can); /* a static buffer */

/* ---- facts.c: keeping and widening what is known --------------------------------------------- */
void facts_init(struct facts *f);
void facts_done(struct facts *f);
void facts_copy(struct facts *to, const struct facts *from);
struct know_queue *facts_queue(struct checker *c, struct span name, uint32_t *ret_index);
struct know *facts_job(struct checker *c, uint64_t seq); /* NULL = not seen yet */
struct know *facts_new(struct checker *c, uint64_t seq, size_t made);
/* A job is named that is not known: finds the enqueue without a reply that made it. What is empty
 * in `like` matches everything; when more than one fits, the job is vague. NULL: nothing fits. */
struct know *facts_bind(struct checker *c, uint64_t seq, const struct op_enqueue *like);
/* Adds the states that time and bulk actions may have led to. */
void drift(struct checker *c, struct know *k);
void narrow(struct checker *c, struct know *k, unsigned can);
/* Limits for this job: policy and the job's own options. */
struct know_rules {
    uint32_t max_attempts, max_crashes;
    uint8_t lease_end;
    bool sure;
};
struct know_rules rules_for(struct checker *c, const struct know *k);
unsigned lease_end_states(struct checker *c, const struct know *k);
void wall_set(struct checker *c, int64_t mono, int64_t wall);
int64_t wall_peak(const struct checker *c, int64_t from, int64_t upto);
int64_t wall_low(const struct checker *c, int64_t from, int64_t upto);
bool maybe(const struct checker *c); /* the entry at work has no known outcome */
/* An answer that says the job is in this state, or gone, must be possible. */
bool state_possible(struct checker *c, struct know *k, unsigned states, enum check check,
                    const char *what);

/* ---- check_lease.c, check_job.c, check_queue.c: one function an operation -------------------- */
void check_claim(struct checker *c);
void check_lease_op(struct checker *c);
void check_release_claim(struct checker *c);
void check_enqueue(struct checker *c);
void check_cancel(struct checker *c);
/* Where the end of its lease leaves the job that would otherwise be in one of these states. */
unsigned cancel_states(const struct know *k, unsigned states);
/* A cancel may have been requested. */
void cancel_maybe(struct checker *c, struct know *k);
void check_requeue(struct checker *c);
void check_patch(struct checker *c);
void check_remove(struct checker *c);
void check_get(struct checker *c);
void check_peek(struct checker *c);
void check_list(struct checker *c);
void check_queue_put(struct checker *c);
void check_queue_delete(struct checker *c);
void check_queue_get(struct checker *c);
void check_pause(struct checker *c);
void check_purge(struct checker *c);
void check_bulk(struct checker *c);
/* The body of a view must be what was sent. */
void check_payload(struct checker *c, struct know *k, const struct hist_job *j);
/* Progress and log of a view must be what was reported. */
void check_report(struct checker *c, const struct know *k, const struct hist_job *j);
/* The steps of a view or of a claim must be those that were stored. */
void check_steps(struct checker *c, const struct know *k, const struct hist_job *j);
/* The job of a view: known, or made by an enqueue without a reply; else C2. NULL after blame. */
struct know *check_known(struct checker *c, const struct hist_job *j);
