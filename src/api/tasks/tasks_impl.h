/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the API share.
 *
 *   tasks.c   the API, its routes, what it counts and logs
 *   words.c   a task in the document's words, both ways
 *   create.c  create, get, list
 *   claim.c   claims: high before low, low with its share
 *   change.c  heartbeat, complete, fail
 *   queued.c  creates that wait until Redis has the id of the task
 *
 * Two queues for each queue of tasks, created with the first task: tasks.high and tasks.low for
 * "default", tasks.NAME.high and tasks.NAME.low for another. In each the task that was due first
 * goes first (policy by_due). */
#pragma once

#include "api/call.h"
#include "api/tasks/tasks.h"

#define TASKS_NAME "tasks"
#define TASKS_OWNER SPAN_LITERAL(TASKS_NAME)

enum task_rank { RANK_HIGH, RANK_LOW, RANK_COUNT };
extern const char *const task_ranks[]; /* "high", "low", NULL */
#define TASK_QUEUE_BYTES_MAX 100
#define TASK_QUEUE_DEFAULT SPAN_LITERAL("default")

enum task_status {
    TASK_SCHEDULED, /* not due */
    TASK_PENDING,   /* due, not dispatched */
    TASK_QUEUED,    /* dispatched */
    TASK_IN_PROGRESS,
    TASK_COMPLETED,
    TASK_FAILED,
    TASK_CANCELLED, /* by /v1 alone */
    TASK_STATUS_COUNT
};
extern const char *const task_words[]; /* NULL-terminated */

struct tasks {
    struct api_config config;
    struct broker *broker;
    struct broker_listener *listener; /* NULL until there is a queue to listen to */
    unsigned looking;                 /* questions of the start that are not answered yet */
    uv_timer_t timer;                 /* runs while creates wait (queued.c) */
    struct queued_wait *waits;
    void (*closed)(void *ctx); /* close was called; NULL = not */
    void *closed_ctx;
    unsigned credit; /* hundredths of a low task that are owed */
    /* since the start */
    uint64_t scanned, queued, missed;
    struct histogram lag_ms; /* scheduled until dispatched */
};

/* ---- tasks.c ---- */

/* There is a queue: from now on its events are counted and logged. */
void tasks_listen(struct tasks *t);

/* ---- words.c ---- */

/* The queue of the engine for this queue and rank, in the arena; empty: no memory. */
struct span task_queue(struct arena *arena, struct span name, enum task_rank rank);
bool task_queue_own(struct span queue); /* does the name look like one of ours? */
enum task_rank task_rank_of(struct span queue);
/* The name is right; else the problem is set. */
bool task_queue_valid(struct arena *arena, struct span name, struct problem *p);
/* A refusal in the words of this API. */
void task_problem(struct problem *p, struct arena *arena, const struct reply *r, bool draining,
                  struct wall_time now);
void task_refuse(struct call *c, const struct reply *r); /* answers with it */
void problem_illegal_task(struct problem *p, struct arena *arena, enum task_status s);

enum task_status task_status_of(const struct job *j, struct wall_time now);
unsigned task_states_of(enum task_status s); /* mask */
/* The policy of both queues, over the server's defaults. */
void task_policy(const struct queue_policy *base, struct queue_policy *ret);
/* {"name":…}, in the arena; -ERR_NOMEM. */
MUST_CHECK int task_attributes(struct arena *arena, struct span name, struct span *ret);
void task_write(struct json_writer *w, const struct job_view *v, struct wall_time now,
                bool with_token);
/* The members without the braces. */
void task_members(struct json_writer *w, const struct job_view *v, struct wall_time now,
                  bool with_token);

/* ---- create.c ---- */

bool task_owned(struct call *c, const struct reply *r); /* false: 404 was answered */
bool task_path(struct http_exchange *x, struct job_ref *ret);
void task_show(struct call *c, struct job_ref job); /* after a change */

/* ---- queued.c ---- */

/* Answers the create with 201 when the id of the task is in a list of Redis, or after
 * tasks.queued_wait_ms, or when the Redis server does not answer; then with why. */
void task_queued_wait(struct call *c, struct job_ref job, enum task_rank rank);

#define TASKS_HANDLER(name) void name(void *ctx, struct http_exchange *x)
TASKS_HANDLER(task_create_handle);
TASKS_HANDLER(task_get_handle);
TASKS_HANDLER(task_list_handle);
TASKS_HANDLER(task_claim_handle);
TASKS_HANDLER(task_claim_one_handle);
TASKS_HANDLER(task_heartbeat_handle);
TASKS_HANDLER(task_complete_handle);
TASKS_HANDLER(task_fail_handle);

static inline struct broker *tasks_broker(const void *ctx)
{
    return ((const struct tasks *)ctx)->broker;
}
