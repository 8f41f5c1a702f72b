/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the dispatching wrapper.
 *
 *   dispatch.c     the table of the backend; opening and closing
 *   list_server.c  a Redis server, and the pushes in progress
 *   relist.c       the leader's loop: pending jobs, lost ids */
#pragma once

#include "backend/dispatch/dispatch.h"
#include "backend/redis/connection/conn.h"
#include "backend/settle_calls.h"
#include "base/containers/map.h"
#include "core/jobs/id.h"
#include "core/limits.h"

#define PUSH_TRIES 4         /* attempts to push one job … */
#define PUSH_BACKOFF_MS 50   /* … after this, twice this, … */
#define PUSHES_AT_ONCE 500   /* in progress at one server */
#define PUSHES_WAITING 10000 /* more are found by the leader's loop */
#define MARKS_AT_ONCE 100
#define LIST_KEY_BYTES (REDIS_PREFIX_BYTES + LIMIT_QUEUE_NAME_BYTES + 32)

struct push {
    struct push *next;
    struct list_server *side;
    /* without a sequence: the queue was deleted, and its list is to be deleted */
    struct job_ref job;
    unsigned tries;
    size_t len;
    char queue[];
};

struct push_list {
    struct push *first, *last;
    size_t count;
};

struct list_server {
    struct dispatch *d;
    const char *name; /* "high", "low" */
    struct redis_url url;
    struct redis_tls_context *tls;
    struct rconn *conn;
    bool ready, down_logged, refused_logged;
    struct push_list waiting, sent; /* replies come in the order of sent */
    int64_t resume_ms;              /* not before: a push was refused; 0 = at once */
};

enum { LIST_SERVER_HIGH, LIST_SERVER_LOW, LIST_SERVER_COUNT };

struct dispatch {
    struct backend base;
    struct backend_ops ops;
    char kind[64];
    struct backend *inner;
    struct backend_config config;
    struct span *urgent;
    size_t urgent_count;
    int64_t interval_ms;
    uint32_t batch;
    int64_t shown_ms; /* when the leader last showed itself in Redis */
    struct list_server servers[LIST_SERVER_COUNT];
    uint64_t seen; /* events up to this one have been read */
    backend_news_fn news;
    void *news_ctx;
    struct map64 busy; /* jobs whose push is in progress */
    struct push_list marks;
    struct marking *marking;  /* in progress; NULL = none */
    struct relist_pass *pass; /* likewise */
    struct map64 suspects;    /* queues whose lists had too few or too many ids (relist.c) */
    bool pass_now;            /* before its time: Redis is connected again, or events were missed */
    int64_t passed_ms;
    uint64_t pushed, failed;
    uv_timer_t timer;
    struct settle_calls settle_calls;
    unsigned handles;
    bool closing;
    backend_closed_fn closed;
    void *closed_ctx;
};

/* list_server.c */
MUST_CHECK int list_server_open(struct list_server *s, const char *url, struct err_note *note);
void list_server_close(struct list_server *s);
struct list_server *list_server_of(struct dispatch *d, struct span queue);
void list_server_key(const struct list_server *s, struct span queue,
                     struct rargs *a); /* the name of the list */
bool list_server_up(const struct list_server *s);
void list_server_show_leader(struct list_server *s, const char *key, uint64_t epoch,
                             int64_t ttl_ms);
/* Does nothing if its push is already in progress. */
void push_add(struct dispatch *d, struct span queue, struct job_ref job);
/* … pushes it in any case */
void push_again(struct dispatch *d, struct span queue, struct job_ref job);
void push_forget(struct dispatch *d, struct span queue); /* deletes its list after its pushes */
void pushes_wake(struct dispatch *d);
bool pushes_idle(const struct dispatch *d);
bool pushes_full(const struct dispatch *d); /* callers should not add many */

/* relist.c */
void pass_wake(struct dispatch *d); /* when it is due */
void pass_cancel(struct dispatch *d);

/* dispatch.c */
int64_t dispatch_ms(void);               /* monotonic time */
void dispatch_after(struct dispatch *d); /* something ended */
