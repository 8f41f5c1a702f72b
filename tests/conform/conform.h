/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite: what every backend must do, one small case at a time.
 *
 * A case is a function that gets a struct env: a new, empty backend, a loop and a clock that only
 * the case advances. EXPECT… leaves the case if an expectation fails; the env owns whatever a case
 * allocated.
 *
 * Profiles. Each case runs on memory, SQLite, both under the fault wrapper (late and reordered
 * replies, spurious and late signals), under the tracing wrapper, behind the router, and, unless it
 * is marked EXACT, "lossy": replies are OUT_UNKNOWN or OUT_UNAVAILABLE and other nodes interfere.
 * run() then repeats ops as backend.h prescribes. EXACT cases test values that such repeats change
 * (counters since the start, flags of a reply, several ops in one batch). */
#pragma once

#include <setjmp.h>
#include <stdio.h>

#include "backend/backend.h"
#include "backend/backend_impl.h"
#include "backend/router/router.h"
#include "base/containers/arena.h"
#include "wrappers/fault.h"

/* What a case needs beyond an empty backend. */
#define EXACT 1u   /* not under a profile that loses replies */
#define RESTART 2u /* keeps its jobs when it is closed and opened again */

/* Parts that not every store has; a profile names those that its store lacks, and cases or topics
 * that need one are reported as left out. */
#define NEEDS_KV 1u        /* keys and values */
#define NEEDS_SCHEDULES 2u /* schedules, triggers */
#define NEEDS_OWN_CLOCK                                                                            \
    4u /* the time is that of this process: it may be suspect, and stand still */
#define NEEDS_OWN_STORE 8u     /* only this process uses the store */
#define NEEDS_ONE_STORE 16u    /* all queues are in one store: what two share, one commit changes */
#define NEEDS_WHOLE_JOBS 32u   /* CAP_WHOLE_JOBS */
#define NEEDS_DEPENDENCIES 64u /* CAP_DEPENDENCIES */

struct conform_profile {
    const char *name;
    bool on_disk;    /* sqlite:DIR, else memory: */
    bool postgres;   /* the database that HF_POSTGRES names */
    bool redis;      /* the server that HF_REDIS names */
    bool others;     /* another node seems to be alive, but does nothing */
    bool dispatched; /* to the server that HF_REDIS names */
    unsigned lacks;  /* NEEDS_… */
    /* Behind a router of three stores, numbers 0, 5 and 63; ends with a pattern that is NULL. */
    struct router_route routes[3];
    bool traced;
    bool faulty;
    bool lossy;
};

struct kept_reply {
    struct kept_reply *next;
    struct reply *reply;
};

struct env {
    const struct conform_profile *profile;
    uv_loop_t loop;
    struct clock_manual clock;
    struct backend_config config;
    struct fault_config faults; /* used when the profile is faulty, or once use_faults is set */
    bool use_faults;
    struct backend *b; /* NULL while closed */
    char dir[64];      /* on disk */
    FILE *trace;
    bool lossy; /* run() repeats ops until they have a reply */
    struct arena arena;
    struct kept_reply *kept;
    uint64_t next_tag, next_nonce, next_key;
    unsigned settled; /* answers of backend_settle */
    struct {
        const char *name;
        uint64_t seq;
    } named[64]; /* jobs, see tell.h */
    size_t named_count;
    const char *differs; /* the known difference that was reported last */
    jmp_buf leave;
    const char *file; /* of the last EXPECT that was passed */
    int line;
    char why[600];
    char broken[200]; /* a breach seen inside a callback */
};

struct conform_case {
    const char *name; /* requirement IDs first */
    void (*run)(struct env *e);
    unsigned flags;                              /* EXACT, RESTART */
    void (*configure)(struct backend_config *c); /* before the backend is opened; may be NULL */
    unsigned needs;                              /* NEEDS_… */
};

struct conform_topic {
    const struct conform_case *cases;
    size_t count;
    unsigned needs; /* all of its cases do */
};
#define CASE(text, function, ...)                                                                  \
    {                                                                                              \
        .name = text, .run = function __VA_OPT__(, ) __VA_ARGS__                                   \
    }
#define TOPIC(name, list, ...)                                                                     \
    const struct conform_topic name = {.cases = list,                                              \
                                       .count = sizeof list / sizeof list[0],                      \
                                       .needs = 0 __VA_OPT__(|) __VA_ARGS__}

extern const struct conform_topic topic_enqueue, topic_order, topic_claim, topic_token, topic_lease,
    topic_cancel, topic_retry, topic_move, topic_unique, topic_key, topic_queue, topic_purge,
    topic_bulk, topic_retention, topic_query, topic_list, topic_batch, topic_watch, topic_restart,
    topic_fault, topic_events, topic_settle, topic_workers, topic_history, topic_import, topic_kv,
    topic_undelivered, topic_rate, topic_notice, topic_breaker, topic_api, topic_schedule,
    topic_trigger, topic_beanstalk, topic_moved, topic_dispatch, topic_refuse_enqueue,
    topic_refuse_lease, topic_refuse_unique, topic_refuse_change, topic_refuse_queue,
    topic_refuse_kv, topic_refuse_batch, topic_refuse_alerts, topic_refuse_schedules,
    topic_envelope, topic_progress, topic_steps, topic_reports, topic_handoff, topic_limits,
    topic_fair, topic_dependencies, topic_graph, topic_why;

/* --- env.c: opening, closing, time --- */

#define START_WALL_MS INT64_C(1767225600000) /* 2026-01-01T00:00:00Z */

void env_init(struct env *e, const struct conform_profile *profile, uint64_t seed);
void env_open(struct env *e);
void env_close(struct env *e);
void env_restart(struct env *e); /* closes and opens the same store */
void env_done(struct env *e);    /* closes what is open; removes the directory */

/* Moves both clocks, in steps short enough that no lease is given extra time, and lets the backend
 * see each of them. */
void advance(struct env *e, int64_t ms);
/* As if the process had been stopped: one step of any length. */
void stand_still(struct env *e, int64_t ms);
/* Until the backend has seen the current time and done what is due. */
void settle(struct env *e);
/* backend_settle, answered: nothing is due and everything is durable. */
void settle_due(struct env *e);
struct wall_time now_plus(const struct env *e, int64_t ms);

/* --- asking --- */

/* Runs one op to its reply. Under a lossy profile it is repeated until it has a definite reply. */
const struct reply *run(struct env *e, struct op op);
/* Several ops in one submit, never repeated; replies[i] answers ops[i]. */
void run_batch(struct env *e, const struct op *ops, size_t count, const struct reply **replies);
/* The same without waiting; replies[i] is NULL until it has arrived. */
struct pending;
struct pending *submit(struct env *e, const struct op *ops, size_t count,
                       const struct reply **replies);
void wait_for(struct env *e, struct pending *p);
size_t pending_left(const struct pending *p);

struct watcher {
    unsigned signals;
    struct backend_watch *handle;
};
struct watcher *watch(struct env *e, const char *queue);
/* Runs the loop until there is a signal; false if none came. */
bool signalled(struct env *e, struct watcher *w);

/* --- expecting --- */

__attribute__((noreturn, format(printf, 4, 5))) void leave_case(struct env *e, const char *file,
                                                                int line, const char *format, ...);
/* For helpers: names the place by the last EXPECT. */
#define LEAVE(...) leave_case(e, NULL, 0, __VA_ARGS__)
#define PASSED (e->file = __FILE__, e->line = __LINE__)
#define EXPECT(condition)                                                                          \
    ((condition) ? (void)PASSED : leave_case(e, __FILE__, __LINE__, "not true: %s", #condition))
#define EXPECT_INT(is, should)                                                                     \
    do {                                                                                           \
        long long is_ = (long long)(is), should_ = (long long)(should);                            \
        if (is_ != should_)                                                                        \
            leave_case(e, __FILE__, __LINE__, "%s is %lld, not %lld", #is, is_, should_);          \
        PASSED;                                                                                    \
    } while (0)
#define EXPECT_SPAN(is, should)                                                                    \
    do {                                                                                           \
        struct span is_ = (is), should_ = (should);                                                \
        if (!span_equal(is_, should_))                                                             \
            leave_case(e, __FILE__, __LINE__, "%s is \"%.*s\", not \"%.*s\"", #is,                 \
                       (int)(is_.len > 80 ? 80 : is_.len), is_.at,                                 \
                       (int)(should_.len > 80 ? 80 : should_.len), should_.at);                    \
        PASSED;                                                                                    \
    } while (0)
#define EXPECT_TEXT(is, text) EXPECT_SPAN(is, span_text(text))
#define EXPECT_OUT(answer, should)                                                                 \
    do {                                                                                           \
        const struct reply *answer_ = (answer);                                                    \
        if (answer_->outcome != (should))                                                          \
            leave_case(e, __FILE__, __LINE__, "%s: outcome %s, not %s%s%s", #answer,               \
                       outcome_name(answer_->outcome), outcome_name(should),                       \
                       answer_->note ? ": " : "", answer_->note ? answer_->note : "");             \
        PASSED;                                                                                    \
    } while (0)
/* By get and by list: two ways to the same job. STATE_NONE: it does not exist. */
#define EXPECT_STATE(seq, state) expect_state(e, __FILE__, __LINE__, (seq), (state))
/* The numbers of jobs by state; those not named are 0. */
#define EXPECT_COUNTS(queue, ...)                                                                  \
    expect_counts(e, __FILE__, __LINE__, (queue), (struct headcount){__VA_ARGS__})

struct headcount {
    uint64_t scheduled, ready, running, done, dead, cancelled, blocked;
};
void expect_state(struct env *e, const char *file, int line, uint64_t seq, enum job_state state);
void expect_counts(struct env *e, const char *file, int line, const char *queue,
                   struct headcount expected);

/* --- client.c: operations and short helpers --- */

struct held { /* a job and the token it was claimed with */
    uint64_t seq, hi;
    struct job_token token;
};

struct op enqueue_op(const char *queue); /* with a small JSON payload */
uint64_t put_op(struct env *e, struct op op);
uint64_t put(struct env *e, const char *queue);
uint64_t put_priority(struct env *e, const char *queue, int64_t priority);
uint64_t put_delayed(struct env *e, const char *queue, int64_t delay_ms);
uint64_t put_unique(struct env *e, const char *queue, const char *unique);
uint64_t put_grouped(struct env *e, const char *queue, const char *group);

struct op claim_op(struct env *e, const char *queue, uint32_t count); /* with bodies */
const struct reply *claim(struct env *e, const char *queue, uint32_t count);
struct held take(struct env *e, const char *queue); /* exactly one job */
struct held take_for(struct env *e, const char *queue, uint32_t lease_ms);
struct held seize(struct env *e, uint64_t seq);
struct held held_of(const struct job_view *v);
struct op lease_op(enum op_kind kind, struct held h);
struct op lease_op_by_id(enum op_kind kind, uint64_t seq); /* any_token */
const struct reply *ack(struct env *e, struct held h);
const struct reply *fail(struct env *e, struct held h);
const struct reply *release(struct env *e, struct held h);
struct op job_op(enum op_kind kind, uint64_t seq); /* a cancel: with force */
const struct reply *cancel(struct env *e, uint64_t seq);
const struct reply *requeue(struct env *e, uint64_t seq);

/* Where seq stands; leaves the case when it is none of them. */
size_t index_of(struct env *e, const uint64_t *seqs, size_t count, uint64_t seq);

/* With its body; NULL if the job does not exist. */
const struct job_view *get(struct env *e, uint64_t seq);
const struct job_view *get_whole(struct env *e, uint64_t seq); /* with attempts and log */
struct span kv_key(struct env *e, const char *json);           /* the key of these parts */
const struct queue_view *queue_get(struct env *e, const char *queue);
const struct reply *peek(struct env *e, const char *queue, enum job_state state, uint32_t limit);
/* Waits until the store has passed what is known now. */
const struct reply *list(struct env *e, struct op_list query);

/* Short, exact and without jitter: lease 10 s, 3 attempts, 3 crashes, back-off 1 s, 2 s. */
struct queue_policy test_policy(void);
void queue_make(struct env *e, const char *queue, const struct queue_policy *policy);
struct op queue_op(enum op_kind kind, const char *queue);
void pause_queue(struct env *e, const char *queue, struct wall_time until);
/* Creates a job in this state; the queue must be empty of ready jobs. Its lease goes to *ret_held
 * (may be NULL) when it ever had one. */
uint64_t job_in(struct env *e, const char *queue, enum job_state state, struct held *ret_held);
