/* SPDX-License-Identifier: Apache-2.0 */
/* src/core/jobs has the rules of one job: its record, states and moves, its texts and reports. It
 * may use core and base, and does no I/O.
 *
 * The job record: what is durable about one unit of work, without its bytes.
 *
 * Counting. failures counts attempts that the worker failed, crashes counts expired leases (or lost
 * connections); both only increase until a requeue sets them to zero. The number of the current
 * attempt is failures + crashes + 1; an attempt that ends with a release is not counted at all.
 *
 * A token is (boot epoch, counter). The epoch is increased durably before any job is claimed, and
 * the counter increases with each claim, so no token is issued twice. */
#pragma once

#include <stdint.h>

#include "base/system/clock.h"
#include "core/jobs/id.h"
#include "core/jobs/state.h"

enum payload_kind { PAYLOAD_NONE = 0, PAYLOAD_JSON = 1, PAYLOAD_BYTES = 2 };
enum error_kind { ERROR_APP = 0, ERROR_BUSINESS = 1 };

/* How an attempt ended. Numbers are on disk: never renumber. */
enum attempt_outcome {
    ATTEMPT_RUNNING,
    ATTEMPT_DONE,
    ATTEMPT_FAILED,
    ATTEMPT_LEASE_EXPIRED, /* or its connection was lost */
    ATTEMPT_RELEASED,
    ATTEMPT_CANCELLED,
    ATTEMPT_TIMED_OUT,           /* it took longer than timeout_ms */
    ATTEMPT_RELEASED_WITH_ERROR, /* its worker said why; not counted */
    ATTEMPT_OUTCOME_COUNT
};
/* Attempts that are listed among the exceptions. */
static inline bool attempt_went_wrong(uint8_t outcome)
{
    return outcome == ATTEMPT_FAILED || outcome == ATTEMPT_LEASE_EXPIRED ||
           outcome == ATTEMPT_TIMED_OUT || outcome == ATTEMPT_RELEASED_WITH_ERROR;
}
/* The outcome of the attempt that has just ended, by the reason of the job. */
extern const uint8_t attempt_of_reason[REASON_COUNT];
/* The same, for a job that goes back to its queue. */
static inline uint8_t attempt_of_back(uint8_t reason, struct span error)
{
    return reason == REASON_RELEASED && error.len > 0 ? (uint8_t)ATTEMPT_RELEASED_WITH_ERROR
                                                      : attempt_of_reason[reason];
}

struct job_token {
    uint64_t counter; /* 0 = no token */
    uint32_t epoch;
};

static inline bool token_equal(struct job_token a, struct job_token b)
{
    return a.counter == b.counter && a.epoch == b.epoch;
}

static inline bool token_older(struct job_token a, struct job_token b)
{
    return a.epoch != b.epoch ? a.epoch < b.epoch : a.counter < b.counter;
}

/* "e-c" in lower-case base 32; the NUL included. */
#define TOKEN_TEXT_BYTES 24
void token_text(struct job_token t, char out[TOKEN_TEXT_BYTES]);
MUST_CHECK int token_parse(struct span text, struct job_token *ret);

/* The limits of a lease besides its length; all zero = none. They are durable, belong to the lease
 * and end with it. An extend never prolongs the lease beyond a limit. */
struct lease_limits {
    uint32_t timeout_ms;        /* the attempt ends this long after it began; 0 = no limit */
    uint32_t cancel_grace_ms;   /* how long the worker has after cancel_at */
    struct wall_time cancel_at; /* when a cancel was requested; 0 = not requested */
};

static inline bool cancel_requested(const struct lease_limits *l)
{
    return l->cancel_at.ms != 0;
}

/* When the grace time of a requested cancel ends; 0 = no cancel was requested. */
static inline struct wall_time cancel_deadline(const struct lease_limits *l)
{
    return (struct wall_time){cancel_requested(l) ? l->cancel_at.ms + l->cancel_grace_ms : 0};
}

/* When an attempt that began at this time must end; 0 = never. */
static inline struct wall_time timeout_at(const struct lease_limits *l, struct wall_time began)
{
    return (struct wall_time){l->timeout_ms ? began.ms + l->timeout_ms : 0};
}

/* The first of the two limits of such an attempt; INT64_MAX = it has none. */
static inline int64_t limit_at_ms(const struct lease_limits *l, struct wall_time began)
{
    int64_t cancel = cancel_requested(l) ? cancel_deadline(l).ms : INT64_MAX;
    int64_t timeout = l->timeout_ms ? timeout_at(l, began).ms : INT64_MAX;
    return cancel < timeout ? cancel : timeout;
}

struct job {
    uint64_t seq;            /* ≥ 1; increases in the order of enqueue */
    uint64_t id_hi;          /* upper half of the id; contains the time of creation */
    int64_t priority;        /* higher first */
    struct wall_time run_at; /* not before; 0 = at once */
    struct wall_time since;  /* when it entered its state */
    uint32_t queue;          /* queue number */
    uint32_t payload_bytes;
    uint16_t failures;
    uint16_t crashes;
    uint32_t generation; /* the queue's purge generation when the job last began to wait */
    uint8_t state;       /* enum job_state */
    uint8_t reason;      /* enum job_reason of the state it is in */
    uint8_t payload_kind;
    uint8_t flags; /* JOB_… */
};

#define JOB_HAS_EXTRA 1u /* has a struct job_extra */
#define JOB_BOUND 2u     /* its lease ends with a connection */
#define JOB_PENDING 4u   /* ready, but not dispatched yet; only if ready jobs are dispatched */

/* Texts of a client; core/jobs/job_texts.h has a row for each. Borrowed from the source of the
 * struct; empty = none. */
struct job_texts {
    struct span unique; /* key */
    struct span group;
    struct span correlation;
    struct span label;
    struct span attributes; /* an API's own fields, JSON */
    struct span kind;       /* what sort of work it is */
    struct span headers;    /* JSON, as core/jobs/headers.h writes it */
};

/* The fields that few jobs have. */
struct job_extra {
    struct job_texts;            /* its members are members of this struct */
    struct wall_time expires_at; /* 0 = never */
    struct span options;         /* encoded struct job_options; empty = the queue's policy */
    /* Keys of the key-value store under which its payload is stored when it dies, as
     * record_span_append writes them. They have a separate record and table, so JOB_HAS_EXTRA does
     * not include them. */
    struct span undelivered;
};

/* The history of a job from another store: an enqueue with it is an import. */
struct job_past {
    uint8_t state;  /* dead; or ready, which its run_at may make scheduled */
    uint8_t reason; /* of that state */
    uint16_t failures, crashes;
    uint8_t error_kind;
    struct span error; /* the last one, packed (core/jobs/job_error.h); empty = none */
    /* What workers reported about it, in the stored forms of core/jobs/progress.h; empty = nothing.
     * The progress has no token: it is shown until the job is claimed. */
    struct span progress, log;
    struct span steps; /* the list of its steps (core/jobs/steps.h); empty = it has none */
};

/* A queue whose policy is `by_due` orders its jobs by priority and then by the time at which they
 * were due. Both are in job.priority, which is the order of every store: the priority in units of
 * 2^43, minus the due time in ms. A number that is already such an order stays unchanged. */
int64_t priority_by_due(int64_t priority, struct wall_time due);
/* The priority that the client gave the job. */
int64_t priority_given(int64_t order);
/* The time at which the job was due; 0 = the number is a priority alone. */
struct wall_time priority_due(int64_t order);

/* The number shown as "attempt" (running, done: the current or the last one) or "attempts". */
static inline uint32_t job_attempts(const struct job *j)
{
    uint32_t under_way = j->state == STATE_RUNNING || j->state == STATE_DONE;
    return (uint32_t)j->failures + j->crashes + under_way;
}
