/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the API.
 *
 *   tasks.c      the API, its routes, metrics and log lines
 *   task_json.c  tasks in the document's terms, both ways
 *   create.c     create, get, list
 *   claim.c      claims: high before low, with a minimum share for low
 *   change.c     heartbeat, complete, fail
 *   queued.c     creates that wait until Redis has the id of the task
 *
 * Each queue of tasks has two queues in the store, which the first task creates: tasks.high and
 * tasks.low for "default", tasks.NAME.high and tasks.NAME.low for others. In each, the task that
 * was due first is claimed first (policy by_due). */
#pragma once

#include "api/call.h"
#include "api/owned_job.h"
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
    TASK_CANCELLED, /* only through /v1 */
    TASK_STATUS_COUNT
};
extern const char *const task_status_names[]; /* NULL-terminated */

struct tasks {
    struct api_config config;
    struct broker *broker;
    struct broker_listener *listener; /* NULL until there is a queue to listen to */
    unsigned reading;                 /* reads at the start that have not been answered */
    uv_timer_t timer;                 /* runs while creates wait (queued.c) */
    struct queued_wait *waits;
    void (*closed)(void *ctx); /* close was called; NULL = not */
    void *closed_ctx;
    unsigned credit; /* hundredths of a low task that are owed */
    /* since the start */
    uint64_t scanned, queued, missed;
    struct histogram lag_ms; /* time from scheduled_at until dispatched */
};

/* ---- tasks.c ---- */

/* Starts to count and log the events of the queues. Called when a queue exists. */
void tasks_listen(struct tasks *t);

/* ---- task_json.c ---- */

/* The engine's queue for this queue and rank, in the arena; empty: no memory. */
struct span task_queue(struct arena *arena, struct span name, enum task_rank rank);
bool task_queue_own(struct span queue); /* whether the name has the form of this API's queues */
enum task_rank task_rank_of(struct span queue);
/* Whether the name is valid; sets the problem if not. */
bool task_queue_valid(struct arena *arena, struct span name, struct problem *p);
/* Sets the problem of a refusal in the terms of this API. */
void task_problem(struct problem *p, struct arena *arena, const struct reply *r, bool draining,
                  struct wall_time now);
void task_refuse(struct call *c, const struct reply *r); /* answers with it */
void problem_illegal_task(struct problem *p, struct arena *arena, enum task_status s);

enum task_status task_status_of(const struct job *j, struct wall_time now);
unsigned task_states_of(enum task_status s); /* mask */
/* Sets the policy of both queues, based on the server's defaults. */
void task_policy(const struct queue_policy *base, struct queue_policy *ret);
/* {"name":…}, in the arena; -ERR_NOMEM. */
MUST_CHECK int task_attributes(struct arena *arena, struct span name, struct span *ret);
void task_write(struct json_writer *w, const struct job_view *v, struct wall_time now,
                bool with_token);
/* Writes the members without the braces. */
void task_members(struct json_writer *w, const struct job_view *v, struct wall_time now,
                  bool with_token);

/* ---- create.c ---- */

extern const struct owned_jobs task_jobs;
void task_show(struct call *c, struct job_ref job); /* after a change */

/* ---- queued.c ---- */

/* Answers the create with 201 when the id of the task is in a list of Redis, or, with the
 * reason, after tasks.queued_wait_ms or when the Redis server does not answer. */
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
