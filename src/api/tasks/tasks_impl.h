/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the API share.
 *
 *   tasks.c   the API, its routes, what it counts and logs
 *   words.c   a task in the document's words, both ways
 *   create.c  create, get, list
 *   claim.c   claims: high before low, low with its share
 *   change.c  heartbeat, complete, fail
 *
 * Two queues, made when the first task comes. In each the oldest goes first: a task's number of
 * priority is its scheduled time (else that of its creation), turned round. */
#pragma once

#include "api/call.h"
#include "api/tasks/tasks.h"

#define TASKS_NAME "tasks"
#define TASKS_OWNER SPAN_LITERAL(TASKS_NAME)

enum task_rank { RANK_HIGH, RANK_LOW, RANK_COUNT };
extern const struct span task_queues[RANK_COUNT];
extern const char *const task_ranks[]; /* "high", "low", NULL */

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
    void (*closed)(void *ctx);        /* close was called; NULL = not */
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

enum task_status task_status_of(const struct job *j, struct wall_time now);
unsigned task_states_of(enum task_status s); /* mask */
/* The policy of both queues, over the server's defaults. */
void task_policy(const struct queue_policy *base, struct queue_policy *ret);
int64_t task_order(struct wall_time due);
/* {"name":…}, in the arena; -ERR_NOMEM. */
MUST_CHECK int task_attributes(struct arena *arena, struct span name, struct span *ret);
void task_write(struct json_writer *w, const struct job_view *v, struct wall_time now,
                bool with_token);

/* ---- create.c ---- */

bool task_owned(struct call *c, const struct reply *r); /* false: 404 was answered */
bool task_path(struct http_exchange *x, struct job_ref *ret);
void task_show(struct call *c, struct job_ref job);

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
