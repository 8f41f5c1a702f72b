/* SPDX-License-Identifier: Apache-2.0 */
/* src/api/problems has the answers to requests that are refused. It may use http, broker, ops, core
 * and base.
 *
 * Problems (RFC 9457): the answers to requests that are refused.
 *
 * A problem is a code of the table in problem_table.c, the only file that knows HTTP statuses,
 * and a sentence for this case. The name of a code is stable; clients can rely on it. Texts of a
 * problem are borrowed: they are in the request's arena or static. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/containers/arena.h"
#include "base/json/json.h"
#include "broker/broker.h"
#include "http/http.h"

enum problem_code {
    PROBLEM_NONE,
    PROBLEM_MALFORMED_JSON,
    PROBLEM_INVALID_FIELD,
    PROBLEM_UNKNOWN_FIELD,
    PROBLEM_MISSING_FIELD,
    PROBLEM_INVALID_ID,
    PROBLEM_NOT_FOUND,
    PROBLEM_NO_QUEUE,
    PROBLEM_NO_ALERT,
    PROBLEM_NO_NOTICE,
    PROBLEM_NO_BREAKER,
    PROBLEM_NO_SCHEDULE,
    PROBLEM_NO_ROUTE,
    PROBLEM_METHOD_NOT_ALLOWED,
    PROBLEM_DUPLICATE,
    PROBLEM_LEASE_LOST,
    PROBLEM_CANCELLED,
    PROBLEM_ILLEGAL_MOVE,
    PROBLEM_GONE,
    PROBLEM_EXISTS,
    PROBLEM_NOT_DUE,
    PROBLEM_QUEUE_FULL,
    PROBLEM_SERVER_FULL,
    PROBLEM_QUEUES_FULL,
    PROBLEM_KEYS_FULL,
    PROBLEM_RATE_LIMITED,
    PROBLEM_REFUSED_NEW,
    PROBLEM_TOO_BIG,
    PROBLEM_KEY_REUSED,
    PROBLEM_DISK_FULL,
    PROBLEM_BUSY,
    PROBLEM_NOT_SUPPORTED,
    PROBLEM_STORE_FAILED,
    PROBLEM_UNAVAILABLE,
    PROBLEM_UNKNOWN,
    PROBLEM_DRAINING,
    PROBLEM_NO_KEY,
    PROBLEM_VERSION,
    PROBLEM_BREAKERS_FULL,
    PROBLEM_KV_FULL,
    PROBLEM_STEPS_FULL,
    PROBLEM_DAMAGED,
    /* The server's own refusals. */
    PROBLEM_BAD_REQUEST,
    PROBLEM_FORBIDDEN,
    PROBLEM_REQUEST_TIMEOUT,
    PROBLEM_URI_TOO_LONG,
    PROBLEM_EXPECTATION_FAILED,
    PROBLEM_MISDIRECTED,
    PROBLEM_HEAD_TOO_LARGE,
    PROBLEM_NOT_IMPLEMENTED,
    PROBLEM_VERSION_NOT_SUPPORTED,
    PROBLEM_CODE_COUNT
};

/* The terms and ids of an API that differ from those of /v1. */
struct problem_terms {
    const char *noun;                /* its noun for a job */
    bool uuid;                       /* its ids are UUIDs, else ULIDs */
    const char *states[STATE_COUNT]; /* its name for each state */
    const char *const
        *legal[STATE_COUNT]; /* the calls that it allows in each state, NULL-terminated */
};

struct problem {
    enum problem_code code;
    const char *detail; /* a sentence; NULL = that of the code */
    const char *field;  /* NULL = none */
    const char *const
        *allowed; /* the allowed values; with ILLEGAL_MOVE, the allowed calls of an API */
    size_t allowed_count;
    uint64_t seq, id_hi;  /* seq ≠ 0: the job concerned, or the one that holds the unique key */
    enum job_state state; /* NONE = not given; with ILLEGAL_MOVE the legal moves are listed */
    int64_t retry_ms;     /* when to retry, if known; 0 = as the code says */
    const struct problem_terms *terms; /* NULL = those of /v1 */
    bool seq_only; /* for an API whose ids are sequence numbers: the job is shown as job_id */
};

#define PROBLEM_TYPE_BYTES 64
/* The path at which the server explains a code. Returns out. */
const char *problem_type(const char *name, char out[PROBLEM_TYPE_BYTES]);
const char *problem_name(enum problem_code code);
unsigned problem_status(enum problem_code code);
const char *problem_sentence(const struct problem *p); /* its detail, or that of the code */

/* Sets code, field and a formatted sentence, and clears the rest. `field` must outlive the
 * problem. Without memory for the sentence, that of the code is used. */
void problem_set(struct problem *p, struct arena *arena, enum problem_code code, const char *field,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Sets the problem for an operating error of this server (-ERR_NOMEM, -ERR_CLOSED …): nothing
 * was done. */
void problem_of_error(struct problem *p, int error);
/* Sets the problem for an outcome other than OUT_OK; the note is copied. */
void problem_of_reply(struct problem *p, struct arena *arena, const struct reply *reply,
                      bool draining);
/* The code of an outcome; PROBLEM_NONE for OUT_OK. */
enum problem_code problem_of_outcome(enum outcome o);
/* The field that a note of core/ or of the backend names ("lease_ms is 5; …"), copied into the
 * arena; NULL if it names none. */
const char *problem_note_field(struct arena *arena, const char *note);

/* Writes the problem as an object. */
void problem_write(struct json_writer *w, const struct problem *p);
/* Answers an exchange with the problem. Nothing may have been answered before; a body that was
 * begun is discarded. */
void problem_answer(struct http_exchange *x, const struct problem *p);
/* For http_server_config.problem: the body of a refusal by the HTTP server. */
void problem_of_server(struct http_exchange *x, unsigned status, const char *type,
                       const char *title, const char *detail);
