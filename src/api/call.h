/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that most handlers of every API have in common: read the request by a table, submit one
 * operation to the broker, begin and end a JSON answer. */
#pragma once

#include "api/fields/fields.h"
#include "api/problems/problem.h"
#include "base/containers/arena.h"
#include "base/json/json.h"
#include "broker/broker.h"
#include "http/http.h"

#define JSON_TYPE "application/json"

/* ---- answers ---- */

/* Begins the JSON body of an answer. */
void answer_begin(struct http_exchange *x, struct json_writer *w);
/* Ends the body with a line break and does not send it. 0, or -ERR_NOMEM: the body could not be
 * built. */
MUST_CHECK int answer_close(struct http_exchange *x, struct json_writer *w);
/* Ends the body and sends it; sends `unknown` if the body could not be built. */
void answer_end(struct http_exchange *x, struct json_writer *w, unsigned status);
/* The same for a body that is an object: its braces are written, too. */
void answer_object_begin(struct http_exchange *x, struct json_writer *w);
void answer_object_end(struct http_exchange *x, struct json_writer *w, unsigned status);
/* Ends an array and sends it with the header X-Total-Count. */
void answer_end_page(struct http_exchange *x, struct json_writer *w, uint64_t total);
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
/* Read the body, a body that may be empty, or the query by the reader's table. false: the problem
 * was answered. */
bool body_read(struct field_reader *r, struct http_exchange *x);
bool body_read_optional(struct field_reader *r, struct http_exchange *x);
bool query_read(struct field_reader *r, struct http_exchange *x);
/* The request must have no query: a parameter that is ignored may have been meant as a filter.
 * false: the problem was answered. */
bool query_none(const struct broker *b, struct http_exchange *x);
/* The same for a body. */
bool body_none(const struct broker *b, struct http_exchange *x);
/* Read and check a parameter of the path. false: the problem was answered. */
bool path_queue(struct http_exchange *x, struct span *ret);
bool path_name(struct http_exchange *x, int (*check)(struct span name, struct err_note *note),
               struct span *ret);
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
    call_fn done;    /* called with OUT_OK only; must answer the exchange */
    call_fn refused; /* the same for every other outcome; NULL = the problem of the outcome is
                        answered */
    const struct problem_terms *terms; /* terms of the API for its problems; NULL = those of /v1 */
    bool changed;                      /* an earlier step changed something, which is not undone */
    bool spooled;                      /* call_note_reply: a job of this request is in the spool */
    bool partial;           /* call_note_reply: the part of a store is missing in the answer */
    void *more;             /* for the handler */
    struct call_line *line; /* the line that it is in; NULL = none */
    struct call *next;
};
/* Allocated in the exchange's arena; NULL after out of memory was answered. */
struct call *call_new(struct broker *b, void *api, struct http_exchange *x, enum op_kind kind,
                      call_fn done);
void *call_more_new(struct call *c, size_t size);
/* Allocates c->more, all zero. NULL if c is NULL, or after out of memory was answered. */
static inline void *call_more(struct call *c, size_t size)
{
    return c ? call_more_new(c, size) : NULL;
}
/* Submits c->op; does nothing if c is NULL, after a problem was answered. Unless `refused` is set,
 * an outcome other than OUT_OK is answered with its problem. */
void call_submit(struct call *c);
/* Reads a job with its payload; `done` gets it. */
void call_read_job(struct call *c, struct job_ref job, call_fn done);
/* Submits c->op. `fn` gets the call and the reply, whatever the outcome is. */
void call_ask(struct call *c, broker_reply_fn fn);
/* Notes what a reply says about the whole answer: that something was changed, that a job went to
 * the spool, that a part is missing; the latter two also as headers. call_submit and call_line do
 * this; code that submits an operation in another way calls it with the reply. */
void call_note_reply(struct call *c, const struct reply *reply);
/* Writes "partial": true if the part of a store is missing. */
void call_write_partial(const struct call *c, struct json_writer *w);
/* Sets *ret to the problem of a refusal, in the terms of the API. */
void call_problem(const struct call *c, const struct reply *reply, struct problem *ret);
/* Answers with the problem of a refusal; with `unknown` if something was changed and
 * `unavailable` would deny it. */
void call_refuse(struct call *c, const struct reply *reply);
/* The same for an operating error. */
void call_error(struct call *c, int error);
/* Whether the reply has the job that was asked for. False: 404 was answered. */
bool call_has_job(struct call *c, const struct reply *reply);

/* ---- several operations, one call after the other ---- */

/* Gets each reply of the call, whatever the outcome is. true: c->op is the next step, to be
 * submitted; false: the call has been answered, or continues outside the line. */
typedef bool (*call_step_fn)(struct call *c, const struct reply *reply);

/* Calls that read a definition before they write it. A call begins after the previous one has
 * ended, so that no other call writes in between. All zero: empty. */
struct call_line {
    struct call *first, *last; /* the first one is under way */
    call_step_fn step;
};
/* Submits c->op after the calls that are in the line. A line has one step function. */
void call_line_add(struct call_line *l, struct call *c, call_step_fn step);
