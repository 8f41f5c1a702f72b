/* SPDX-License-Identifier: Apache-2.0 */
/* The steps that most handlers of every API take: read the request by a table, ask the broker one
 * thing, begin and end a JSON answer. */
#pragma once

#include "api/fields.h"
#include "api/problem.h"
#include "base/containers/arena.h"
#include "base/json/json.h"
#include "broker/broker.h"
#include "http/http.h"

#define JSON_TYPE "application/json"

/* ---- answers ---- */

/* Begins the JSON body of an answer. */
void answer_begin(struct http_exchange *x, struct json_writer *w);
/* Ends the body with a line break, sends nothing. 0, or -ERR_NOMEM: it could not be built. */
MUST_CHECK int answer_close(struct http_exchange *x, struct json_writer *w);
/* Ends the body and sends it; `unknown` when it could not be built. */
void answer_end(struct http_exchange *x, struct json_writer *w, unsigned status);
/* Sends a problem for an operating error (-ERR_NOMEM …). */
void answer_error(struct http_exchange *x, int error);
/* The headers of an answer whose job is in the spool of this node, and of one in which the part of
 * a store is missing. Once for each answer. */
void answer_mark_spooled(struct http_exchange *x);
void answer_mark_partial(struct http_exchange *x);

/* Whether this node works on its spool: what it shows lacks the part of the shared store. */
bool store_is_missing(const struct broker *b);

/* ---- requests ---- */

/* A reader for the request of x. The problem must outlive it. */
struct field_reader reader_of(const struct broker *b, struct http_exchange *x, struct fields table,
                              void *into, struct problem *problem);
/* The request must have no query: what would be ignored might have been meant to narrow it. false:
 * the problem was answered. */
bool query_none(const struct broker *b, struct http_exchange *x);
/* The same for the members of a body. */
bool body_none(const struct broker *b, struct http_exchange *x);
/* Path parameters, checked. false: the problem was answered. */
bool path_queue(struct http_exchange *x, struct span *ret);
bool path_job(struct http_exchange *x, struct job_ref *ret);

/* ---- one operation, one answer ---- */

struct call;
typedef void (*call_fn)(struct call *c, const struct reply *reply);
struct call {
    struct broker *broker;
    void *api; /* the API's own struct */
    struct http_exchange *x;
    struct arena *arena;
    struct op op;
    call_fn done;    /* called with OUT_OK only; owes the answer */
    call_fn refused; /* likewise with any other outcome; NULL = its problem is answered */
    const struct problem_terms *terms; /* of the API, in its problems; NULL = those of /v1 */
    bool changed; /* a step before this one changed something: it is not undone any more */
    bool spooled; /* call_heard: a job of this request is in the spool */
    bool partial; /* call_heard: the part of a store is missing in the answer */
    void *more;   /* the handler's own */
    struct call_line *line; /* in which it stands, if in any */
    struct call *next;
};
/* In the exchange's arena; NULL after answering that there is no memory. */
struct call *call_new(struct broker *b, void *api, struct http_exchange *x, enum op_kind kind,
                      call_fn done);
void *call_more_new(struct call *c, size_t size);
/* Memory for c->more, all zero; NULL after answering that there is none, or when c is NULL. */
static inline void *call_more(struct call *c, size_t size)
{
    return c ? call_more_new(c, size) : NULL;
}
/* Any other outcome than OUT_OK is answered with its problem, unless the call says otherwise. */
void call_submit(struct call *c);
/* Notes what a reply says about the whole answer: that something was changed, that a job went to
 * the spool, that a part is missing; the latter two also as headers. call_submit and call_line do
 * this; who submits an operation otherwise calls it with the reply. */
void call_heard(struct call *c, const struct reply *reply);
/* "partial": true, if the part of a store is missing. */
void call_write_partial(const struct call *c, struct json_writer *w);
/* The problem of a refusal, in the terms of the API. */
void call_problem(const struct call *c, const struct reply *reply, struct problem *ret);
/* Answers with the problem of a refusal; `unknown` where `unavailable` would deny what was done. */
void call_refuse(struct call *c, const struct reply *reply);
/* The same for an operating error. */
void call_error(struct call *c, int error);

/* ---- several operations, one call after the other ---- */

/* One of its replies, whatever the outcome. True: c->op is the next step, to be submitted; false:
 * the call has been answered, or goes on alone. */
typedef bool (*call_step_fn)(struct call *c, const struct reply *reply);

/* Calls that read a definition before they write it: the next begins when the one before it is
 * through, so that nobody writes in between. All zero: empty. */
struct call_line {
    struct call *first, *last; /* the first is under way */
    call_step_fn step;
};
/* Submits c->op in its turn. A line has one step function. */
void call_line_add(struct call_line *l, struct call *c, call_step_fn step);
