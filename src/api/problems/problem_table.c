/* SPDX-License-Identifier: Apache-2.0 */
#include "api/problems/problem_table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define ROW(name, status, retry_s, title, explanation, advice)                                     \
    {                                                                                              \
        name, status, retry_s, title, explanation "; " advice, explanation, advice                 \
    }

static const struct problem_row rows[PROBLEM_CODE_COUNT] = {
    [PROBLEM_NONE] =
        ROW("none", 200, 0, "No problem", "nothing is wrong", "nothing needs to be done"),
    /* the request */
    [PROBLEM_MALFORMED_JSON] =
        ROW("malformed_json", 400, 0, "The body is not valid JSON",
            "the body is not JSON, or an object has the same member twice",
            "send one JSON value in UTF-8, and give each member of an object once"),
    [PROBLEM_INVALID_FIELD] = ROW(
        "invalid_field", 422, 0, "A field has an invalid value",
        "a field has a value that is not allowed",
        "`field` names the field, `detail` says what is allowed, and `allowed` lists the values if "
        "there are only a few"),
    [PROBLEM_UNKNOWN_FIELD] =
        ROW("unknown_field", 422, 0, "Unknown field", "the request has a field that does not exist",
            "`field` names the field, and `detail` suggests a similar name that exists"),
    [PROBLEM_MISSING_FIELD] =
        ROW("missing_field", 422, 0, "A required field is missing",
            "the request does not have a required field", "add the field that `field` names"),
    [PROBLEM_INVALID_ID] =
        ROW("invalid_id", 422, 0, "Invalid id", "the text in the path is not the id of a job",
            "give the id as a ULID (26 characters), a UUID, or the sequence number"),
    [PROBLEM_TOO_BIG] =
        ROW("too_big", 413, 0, "The request is too large",
            "the payload is larger than the queue's payload_max, or the body is larger than "
            "limits.body_bytes",
            "send less, store the data elsewhere and enqueue a reference, or raise the limit"),
    [PROBLEM_KEY_REUSED] = ROW("key_reused", 422, 0, "The idempotency key was used for another job",
                               "this Idempotency-Key was already used with another body or queue",
                               "use a new key for a new job"),
    /* what it names */
    [PROBLEM_NOT_FOUND] =
        ROW("not_found", 404, 0, "No such job", "there is no job with this id",
            "check the id; a job that has ended is removed after the retention of its queue"),
    [PROBLEM_NO_QUEUE] =
        ROW("no_queue", 404, 0, "No such queue", "there is no queue with this name",
            "PUT /v1/queues/{queue} creates it, as does the first enqueue"),
    [PROBLEM_NO_ALERT] =
        ROW("no_alert", 404, 0, "No such alert", "there is no alert with this name",
            "PUT /v1/alerts/{name} creates it; GET /v1/alerts lists those that exist"),
    [PROBLEM_NO_NOTICE] =
        ROW("no_notice", 404, 0, "No such notice", "there is no notice with this id",
            "it may have been delivered; GET /v1/notices lists those that are not delivered yet"),
    [PROBLEM_NO_BREAKER] =
        ROW("no_breaker", 404, 0, "No such breaker", "there is no breaker with this name",
            "the first allow or report creates it, as does PUT /v1/breakers/{name}; GET "
            "/v1/breakers lists those that exist"),
    [PROBLEM_NO_SCHEDULE] =
        ROW("no_schedule", 404, 0, "No such schedule", "there is no schedule with this name",
            "PUT /v1/schedules/{name} creates it; GET /v1/schedules lists those that exist"),
    [PROBLEM_NO_KEY] = ROW("no_key", 404, 0, "No such key", "the key-value store has no such key",
                           "treat it as absent; it may have been deleted or may have expired"),
    [PROBLEM_NO_ROUTE] =
        ROW("no_route", 404, 0, "No such path", "the server has no such path",
            "`holdfast help routes` lists the paths; the setting `apis` enables further APIs"),
    [PROBLEM_METHOD_NOT_ALLOWED] =
        ROW("method_not_allowed", 405, 0, "Method not allowed",
            "this path does not support this method", "use a method that the header Allow lists"),
    /* its state */
    [PROBLEM_DUPLICATE] = ROW(
        "duplicate", 409, 0, "A job with this unique key exists",
        "another job in this queue has this unique key; nothing was enqueued",
        "`duplicate_of`, `seq` and `state` describe that job; wait until it ends, or use another "
        "key or unique_mode"),
    [PROBLEM_LEASE_LOST] =
        ROW("lease_lost", 409, 0, "The lease is lost",
            "the lease token is not that of the job's current lease",
            "stop this work: the job may be running elsewhere or may have ended"),
    [PROBLEM_CANCELLED] = ROW("cancelled", 409, 0, "The job is cancelled",
                              "the job was cancelled, or its worker did not end it in time "
                              "after a cancel was requested",
                              "stop this work: nothing in this request was recorded"),
    [PROBLEM_ILLEGAL_MOVE] =
        ROW("illegal_move", 409, 0, "Not allowed in the job's state",
            "the job's `state` does not allow this", "`legal_moves` lists what is allowed"),
    [PROBLEM_GONE] = ROW("gone", 410, 0, "The job has ended",
                         "the job has ended, and the server no longer knows how this lease ended",
                         "stop this work: the job was removed, or there have been too many claims "
                         "or restarts since"),
    [PROBLEM_EXISTS] =
        ROW("exists", 409, 0, "Already exists", "a queue or schedule with this name already exists",
            "use another name, or omit If-None-Match to change the existing one"),
    [PROBLEM_REFUSED_NEW] = ROW("refused_new", 409, 0, "The queue does not accept new jobs",
                                "the queue's policy refuses new jobs (refuse_new)",
                                "enqueue elsewhere, or set refuse_new to false"),
    [PROBLEM_NOT_DUE] = ROW("not_due", 409, 0, "The schedule is not due",
                            "the schedule already fired for this time, or it is paused",
                            "nothing needs to be done; GET /v1/schedules/{name} shows next_at"),
    [PROBLEM_VERSION] =
        ROW("version_mismatch", 412, 0, "Version mismatch",
            "a key does not have the version that the request expects; nothing was changed",
            "read the key again, and repeat the request with its current version"),
    /* limits */
    [PROBLEM_QUEUE_FULL] = ROW("queue_full", 429, 1, "The queue is full",
                               "the queue has as many jobs as its capacity allows",
                               "try again when jobs have been processed, or raise its capacity"),
    [PROBLEM_SERVER_FULL] = ROW("server_full", 429, 1, "The server is full",
                                "the server has as many jobs as the setting `capacity` allows",
                                "try again when jobs have been processed, or raise `capacity`"),
    [PROBLEM_QUEUES_FULL] = ROW(
        "queues_full", 429, 0, "Too many queues",
        "the queue was not created, because the server has reached limits.auto_queues or the limit "
        "of 100,000 queues",
        "delete unused queues, create the queue with PUT /v1/queues/{queue}, or raise "
        "limits.auto_queues"),
    [PROBLEM_KEYS_FULL] = ROW("keys_full", 429, 1, "Too many idempotency keys",
                              "the server remembers as many keys as idempotency.keys allows",
                              "try again later or without a key, or raise idempotency.keys"),
    [PROBLEM_RATE_LIMITED] =
        ROW("rate_limited", 429, 1, "Rate limit exceeded",
            "the queue has accepted as many new jobs as its enqueue_rate allows",
            "try again after retry_after_ms, or raise the rate"),
    [PROBLEM_BREAKERS_FULL] = ROW(
        "breakers_full", 507, 0, "Too many breakers",
        "there are 1,000 named breakers, which is the maximum, and none has this name",
        "delete breakers that are not needed; those without their own settings are deleted after "
        "7 days without use"),
    [PROBLEM_KV_FULL] = ROW("kv_full", 507, 0, "The key-value store is full",
                            "the key-value store has reached kv.keys or kv.bytes",
                            "delete keys, or raise that setting"),
    [PROBLEM_STEPS_FULL] = ROW(
        "steps_full", 413, 0, "The job has too many steps",
        "the steps of a job have at most 1 MiB of names and results, and there are at most 1000",
        "store less in each step, or keep the data elsewhere and store a reference"),
    [PROBLEM_DISK_FULL] =
        ROW("disk_full", 507, 0, "The disk is full",
            "the disk has too little free space to add jobs or to write a backup",
            "free disk space; the server then accepts new jobs again without a restart"),
    /* the server */
    [PROBLEM_BUSY] =
        ROW("busy", 409, 5, "Already in progress",
            "a backup or a compaction is already in progress", "try again when it has finished"),
    [PROBLEM_NOT_SUPPORTED] =
        ROW("not_supported", 409, 0, "Not supported by this backend",
            "the backend of this server does not support this request",
            "use a server whose store supports it; for backups and maintenance, use the "
            "tools of the database"),
    [PROBLEM_STORE_FAILED] =
        ROW("store_failed", 500, 0, "The store could not be read", "the store could not be read",
            "see the server's log for the cause; `holdfast check` examines the store"),
    [PROBLEM_DAMAGED] =
        ROW("damaged", 500, 0, "Stored data is damaged",
            "the store returned different bytes than were written, so they are not shown",
            "stop the server and run `holdfast check`, which lists everything that is damaged"),
    [PROBLEM_UNAVAILABLE] =
        ROW("unavailable", 503, 1, "Temporarily unavailable", "nothing was done",
            "try again; if this persists, /readyz and the log give the reason"),
    [PROBLEM_DRAINING] = ROW("draining", 503, 5, "The server is shutting down",
                             "the server is shutting down and does not accept new jobs",
                             "try again soon, or use another server"),
    [PROBLEM_UNKNOWN] =
        ROW("unknown", 504, 0, "Outcome unknown", "the request may or may not have taken effect",
            "repeat it with the same Idempotency-Key or lease token, which is safe"),
    /* HTTP */
    [PROBLEM_BAD_REQUEST] =
        ROW("bad_request", 400, 0, "The request is malformed",
            "the request is not well-formed HTTP", "`detail` says what is wrong"),
    [PROBLEM_FORBIDDEN] =
        ROW("forbidden", 403, 0, "The request is not allowed",
            "a browser sent the request from a web page of another origin, or sent a request that "
            "changes something from its address bar or a link",
            "use a program, or add the origin to the setting `origins`"),
    [PROBLEM_REQUEST_TIMEOUT] =
        ROW("request_timeout", 408, 0, "The request took too long",
            "the request did not arrive completely in time",
            "send it again; the limits are timeouts.head_ms and timeouts.body_ms"),
    [PROBLEM_URI_TOO_LONG] = ROW("uri_too_long", 414, 0, "The path and query are too long",
                                 "the path and query are longer than limits.uri_bytes",
                                 "shorten the query, or raise limits.uri_bytes"),
    [PROBLEM_EXPECTATION_FAILED] =
        ROW("expectation_failed", 417, 0, "The expectation cannot be met",
            "the header Expect asks for something other than 100-continue", "omit the header"),
    [PROBLEM_MISDIRECTED] = ROW("misdirected", 421, 0, "The request is for another host",
                                "the header Host names a host that this server does not serve",
                                "if the name is correct, add it to the setting `hosts`"),
    [PROBLEM_HEAD_TOO_LARGE] = ROW("head_too_large", 431, 0, "The headers are too large",
                                   "the request line and headers are larger than limits.head_bytes",
                                   "send fewer or shorter headers, or raise limits.head_bytes"),
    [PROBLEM_NOT_IMPLEMENTED] = ROW("not_implemented", 501, 0, "Unknown method",
                                    "the server does not know this method or transfer coding",
                                    "use another method; `holdfast help routes` lists the methods"),
    [PROBLEM_VERSION_NOT_SUPPORTED] =
        ROW("version_not_supported", 505, 0, "The HTTP version is not supported",
            "the server supports HTTP/1.1 and HTTP/1.0", "use one of them"),
};

const struct problem_row *problem_row(enum problem_code code)
{
    return &rows[code];
}

const struct problem_row *problem_row_find(struct span name)
{
    for (unsigned c = PROBLEM_NONE + 1; c < PROBLEM_CODE_COUNT; c++)
        if (span_equal(span_text(rows[c].name), name))
            return &rows[c];
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    const struct problem_row *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

void problem_rows_sorted(const struct problem_row *ret[PROBLEM_CODE_COUNT - 1])
{
    for (unsigned c = PROBLEM_NONE + 1; c < PROBLEM_CODE_COUNT; c++)
        ret[c - 1] = &rows[c];
    qsort(ret, PROBLEM_CODE_COUNT - 1, sizeof(*ret), by_name);
}

/* ---- pages ---- */

static void sentence_print(FILE *out, const char *text)
{
    fprintf(out, "%c%s.", toupper((unsigned char)text[0]), text + 1);
}

static void markdown_print(FILE *out, const struct problem_row *row)
{
    fprintf(out, "\n## %s\n\n%u: ", row->name, row->status);
    sentence_print(out, row->title);
    fputc(' ', out);
    sentence_print(out, row->explanation);
    fputs("\n\nWhat to do: ", out);
    fprintf(out, "%s.\n", row->advice);
    if (row->retry_s)
        fprintf(out, "The header `Retry-After` gives the number of seconds to wait.\n");
}

static void text_print(FILE *out, const struct problem_row *row)
{
    fprintf(out, "%s (%u): %s\n  ", row->name, row->status, row->title);
    sentence_print(out, row->explanation);
    fputs("\n  ", out);
    sentence_print(out, row->advice);
    fputc('\n', out);
}

void problems_print(FILE *out, bool markdown)
{
    const struct problem_row *sorted[PROBLEM_CODE_COUNT - 1];
    problem_rows_sorted(sorted);
    if (markdown)
        fputs(
            "# Problems\n\n"
            "<!-- Generated by `holdfast help problems --markdown`; edit "
            "src/api/problems/problem_table.c instead. -->\n\n"
            "The reply to a refused request is a problem document (RFC 9457). Its `code` is one of "
            "these, and its `type` is\nthe path `/problems/{code}`, where the server explains it. "
            "Codes are stable; see [the API](../api.md#problems).\n",
            out);
    for (size_t i = 0; i < PROBLEM_CODE_COUNT - 1; i++) {
        if (markdown)
            markdown_print(out, sorted[i]);
        else
            text_print(out, sorted[i]);
    }
}
