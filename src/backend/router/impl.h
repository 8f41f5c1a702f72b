/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the router.
 *
 *   router.c         replies, watches, opening and closing; fanout.h takes batches apart
 *   routing_table.c  the table: which op goes where, and which cannot be done across backends
 *   id_map.c         converts sequences and numbers of the children to those of callers, and back
 *   gather.c         ops that need several children: which of them is asked next
 *   merge.c          makes one reply of the replies of several children
 *
 * An op becomes a call. Most calls go to one child, whose reply is returned with its numbers
 * converted. The others ask one child after the other (struct gather). The first of these steps is
 * part of the batch of its child; each later one is submitted alone when the one before it has its
 * reply. The order of such an op between children is therefore only that of the replies.
 *
 * Order. Ops of one batch for the same queue or job go to the same child, in one submit, in order.
 *
 * Children that do not answer. A claim over several children returns what the others have; it is
 * unavailable when none of them answers. The same applies to taking notices, and to lists of
 * queues, breakers and alerts if the caller accepts partial ones; the reply names the children that
 * are missing. Alerts are never listed without the default backend, because another one may have
 * missed changes of the rules while it did not answer. Any other op that asks several
 * children gets the first refusal as its reply.
 *
 * Without memory for a reply, the outcome is OUT_UNKNOWN (of a query OUT_UNAVAILABLE). */
#pragma once

#include "backend/backend_impl.h"
#include "backend/event_merge.h"
#include "backend/fanout.h"
#include "backend/router/router.h"

#define SLOT_SHIFT 47 /* of sequences: 6 bits for the number of the backend */
#define SEQ_INNER_MAX ((UINT64_C(1) << SLOT_SHIFT) - 1)
#define QUEUE_SHIFT 26 /* of queue numbers */
#define QUEUE_INNER_MAX ((UINT32_C(1) << QUEUE_SHIFT) - 1)

struct router;

struct child {
    struct router *router;
    struct backend *backend; /* NULL once it is closed */
    unsigned number;
    unsigned index;
};

struct answer {
    const struct reply *reply; /* in outside numbers */
    struct reply *own;         /* the same when it is a copy; NULL = valid during the callback */
    struct child *from;
    struct answer *next;
};

struct gather;

struct router_call {
    struct fanout_call base;
    struct child *child;         /* that is asked; NULL = there was no memory to ask */
    const char *note;            /* refused: why */
    const struct gather *gather; /* NULL = one child, one answer */
    struct child *only;          /* of a gather that asks one alone, for its cursors' sake */
    unsigned first, turns;       /* gather: the child to begin with, how many had their turn */
    uint64_t got, bytes;         /* gather: jobs or rows so far, bytes of their payloads */
    uint64_t passed_over;        /* gather: children that were not asked, 1 << number */
    struct answer *answers, **answers_end;
};

struct gather {
    /* Fills inner and child for the next step; false = no further step. last is NULL at first, else
     * the answer to the step before, in outside numbers. */
    bool (*next)(struct router_call *c, const struct reply *last);
    /* Goes on though a child answered so; NULL = never. OUT_OK always does. */
    bool (*goes_on)(const struct router_call *c, enum outcome outcome);
    /* One answer of c->answers (at least one). 0 or -ERR_NOMEM. */
    int (*merge)(struct router_call *c, struct reply *out);
};

struct router_watch {
    struct child *child;
    struct backend_watch *inner;
    struct router_watch *prev, *next;
};

struct router {
    struct backend base;
    struct fanout fanout;   /* store index = index of the child */
    struct backend_ops ops; /* an own copy: the kind names the default backend */
    char kind[64];
    struct child *children; /* by number */
    unsigned child_count;
    struct router_route *routes;
    unsigned route_count;
    unsigned turn; /* rises with every claim over several children */
    struct router_watch *watches;
    struct event_merge events;
    backend_news_fn news;
    void *news_ctx;
    bool finished; /* the fan-out is being closed */
    backend_closed_fn closed_fn;
    void *closed_ctx;
};

static inline struct router *router_of_call(const struct router_call *c)
{
    return fanout_ctx(&c->base);
}

/* routing_table.c */
/* Fills child and inner, or note, or gather. */
void router_plan(struct router *r, struct router_call *c);
struct child *router_child_of(const struct router *r, struct span queue);
struct child *router_child_by_number(const struct router *r, unsigned number); /* NULL = none */

/* id_map.c */
uint64_t router_bit(const struct child *child);                   /* 1 << its number */
uint64_t router_seq_out(const struct child *child, uint64_t seq); /* 0 stays 0 */
unsigned router_slot(uint64_t seq);
uint64_t router_seq_in(uint64_t seq);
/* An answer of the child, in outside numbers; arrays that change are copied into the arena. 0 or
 * -ERR_NOMEM. */
MUST_CHECK int router_reply_out(const struct child *child, struct reply *reply, struct arena *a);
/* Σ positions of all children but those asked. */
uint64_t router_position_besides(const struct router_call *c);

/* gather.c */
/* The child whose jobs come behind those of `from` (NULL: the first) in a list, with what is asked
 * of it in *ret (may be NULL); NULL = none. */
struct child *router_list_child(const struct router_call *c, const struct child *from,
                                struct op_list *ret);
extern const struct gather gather_claim, gather_list, gather_queues, gather_workers,
    gather_exceptions, gather_release_claim, gather_accept_clock, gather_alert_put,
    gather_alert_delete, gather_alerts, gather_notice_take, gather_notices, gather_breakers,
    gather_fire;

/* merge.c */
int merge_claim(struct router_call *c, struct reply *out);
int merge_list(struct router_call *c, struct reply *out);
int merge_queues(struct router_call *c, struct reply *out);
int merge_workers(struct router_call *c, struct reply *out);
int merge_exceptions(struct router_call *c, struct reply *out);
int merge_changed(struct router_call *c, struct reply *out);
int merge_accept_clock(struct router_call *c, struct reply *out);
int merge_first(struct router_call *c, struct reply *out);
int merge_last(struct router_call *c, struct reply *out);
int merge_any(struct router_call *c, struct reply *out);
int merge_alerts(struct router_call *c, struct reply *out);
int merge_notices_due(struct router_call *c, struct reply *out);
int merge_notices(struct router_call *c, struct reply *out);
int merge_breakers(struct router_call *c, struct reply *out);
