/* SPDX-License-Identifier: Apache-2.0 */
/* The dispatching wrapper, inside.
 *
 *   dispatch.c     the table of the backend; opening and closing
 *   list_server.c  a Redis server, and the pushes on their way to it
 *   relist.c       the leader's loop: what is pending, what was lost */
#pragma once

#include "backend/dispatch/dispatch.h"
#include "backend/redis/connection/conn.h"
#include "backend/settles.h"
#include "base/containers/map.h"
#include "core/id.h"
#include "core/limits.h"

#define PUSH_TRIES 4         /* of one job, one after the other … */
#define PUSH_BACKOFF_MS 50   /* … after this, twice this, … */
#define PUSHES_AT_ONCE 500   /* on their way to one server */
#define PUSHES_WAITING 10000 /* beyond it the leader's loop finds them */
#define MARKS_AT_ONCE 100
#define LIST_KEY_BYTES (REDIS_PREFIX_BYTES + LIMIT_QUEUE_NAME_BYTES + 32)

struct push {
    struct push *next;
    struct side *side;
    struct job_ref job; /* without a sequence: the queue is gone, and its list with it */
    unsigned tries;
    size_t len;
    char queue[];
};

struct push_list {
    struct push *first, *last;
    size_t count;
};

struct side {
    struct dispatch *d;
    const char *name; /* "high", "low" */
    struct redis_url url;
    struct redis_tls_context *tls;
    struct rconn *conn;
    bool greeted, down_told, refused_told;
    struct push_list waiting, sent; /* answers come in the order of sent */
    int64_t resume_ms;              /* not before: a push was refused; 0 = at once */
};

enum { SIDE_HIGH, SIDE_LOW, SIDE_COUNT };

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
    struct side sides[SIDE_COUNT];
    uint64_t seen; /* events up to here were looked at */
    backend_news_fn news;
    void *news_ctx;
    struct map64 busy; /* jobs on their way */
    struct push_list marks;
    struct marking *marking; /* under way; NULL = none */
    struct walk *walk;       /* the same */
    struct map64 suspects;   /* queues whose lists had too few ids or too many (relist.c) */
    bool walk_now;           /* not in its turn: Redis is back, or events were missed */
    int64_t walked_ms;
    uint64_t pushed, failed;
    uv_timer_t timer;
    struct settles settles;
    unsigned handles;
    bool closing;
    backend_closed_fn closed;
    void *closed_ctx;
};

/* list_server.c */
MUST_CHECK int side_open(struct side *s, const char *url, struct err_note *note);
void side_close(struct side *s);
struct side *side_of(struct dispatch *d, struct span queue);
void side_key(const struct side *s, struct span queue, struct rargs *a); /* the list's name */
bool side_up(const struct side *s);
void side_show_leader(struct side *s, const char *key, uint64_t epoch, int64_t ttl_ms);
/* Unless it is on its way already. */
void push_add(struct dispatch *d, struct span queue, struct job_ref job);
void push_again(struct dispatch *d, struct span queue, struct job_ref job); /* … also then */
void push_forget(struct dispatch *d, struct span queue); /* behind its pushes, its list goes */
void pushes_wake(struct dispatch *d);
bool pushes_idle(const struct dispatch *d);
bool pushes_full(const struct dispatch *d); /* nobody should add many */

/* relist.c */
void walk_wake(struct dispatch *d); /* when it is time */
void walk_forget(struct dispatch *d);

/* dispatch.c */
int64_t dispatch_ms(void);               /* of the process */
void dispatch_after(struct dispatch *d); /* something ended */
