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
    [PROBLEM_NONE] = ROW("none", 200, 0, "No problem", "nothing is wrong", "carry on"),
    /* the request */
    [PROBLEM_MALFORMED_JSON] =
        ROW("malformed_json", 400, 0, "The body is not valid JSON",
            "the body is not JSON, or a member of an object is given twice",
            "send one JSON value in UTF-8, with each member of an object given once"),
    [PROBLEM_INVALID_FIELD] =
        ROW("invalid_field", 422, 0, "A field has a value that cannot be used",
            "a field has a value that cannot be used",
            "`field` names it, `detail` says what is allowed, and `allowed` lists the values where "
            "there are only a few"),
    [PROBLEM_UNKNOWN_FIELD] = ROW("unknown_field", 422, 0, "There is no such field",
                                  "the request has a field that does not exist",
                                  "`field` names it, and `detail` the nearest name that does"),
    [PROBLEM_MISSING_FIELD] =
        ROW("missing_field", 422, 0, "A field is missing",
            "the request lacks a field that it must have", "add the field that `field` names"),
    [PROBLEM_INVALID_ID] =
        ROW("invalid_id", 422, 0, "Not a job id", "the text in the path is not the id of a job",
            "give the id as a ULID (26 characters), a UUID, or the sequence number"),
    [PROBLEM_TOO_BIG] =
        ROW("too_big", 413, 0, "Too large",
            "the payload is larger than the queue's payload_max, or the body than "
            "limits.body_bytes",
            "send less, store the data elsewhere and enqueue a reference, or raise the limit"),
    [PROBLEM_KEY_REUSED] = ROW("key_reused", 422, 0, "The idempotency key was used for another job",
                               "this Idempotency-Key came before with another body or queue",
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
            "it may have been delivered; GET /v1/notices lists those that wait"),
    [PROBLEM_NO_BREAKER] =
        ROW("no_breaker", 404, 0, "No such breaker", "there is no breaker with this name",
            "the first allow or report creates it, as does PUT /v1/breakers/{name}; GET "
            "/v1/breakers lists those that exist"),
    [PROBLEM_NO_SCHEDULE] =
        ROW("no_schedule", 404, 0, "No such schedule", "there is no schedule with this name",
            "PUT /v1/schedules/{name} creates it; GET /v1/schedules lists those that exist"),
    [PROBLEM_NO_KEY] = ROW("no_key", 404, 0, "No such key", "the key-value store has no such key",
                           "treat it as absent; it may have been deleted, or have expired"),
    [PROBLEM_NO_ROUTE] =
        ROW("no_route", 404, 0, "No such path", "there is nothing at this path",
            "`holdfast help routes` lists the paths; the setting `apis` enables further APIs"),
    [PROBLEM_METHOD_NOT_ALLOWED] =
        ROW("method_not_allowed", 405, 0, "The path does not have this method",
            "the path exists, but not with this method", "use one that the header Allow lists"),
    /* its state */
    [PROBLEM_DUPLICATE] =
        ROW("duplicate", 409, 0, "A job with this unique key exists",
            "another job of this queue has this unique key; nothing was enqueued",
            "`duplicate_of`, `seq` and `state` tell which; wait for it, or use another key or "
            "unique_mode"),
    [PROBLEM_LEASE_LOST] = ROW("lease_lost", 409, 0, "The lease is lost",
                               "the lease token is not that of the job's current lease",
                               "drop this work: the job may be running elsewhere or have ended"),
    [PROBLEM_CANCELLED] = ROW("cancelled", 409, 0, "The job is cancelled",
                              "the job was cancelled, or the time is over that its worker had "
                              "after a cancel was requested",
                              "drop this work: nothing that the call said was recorded"),
    [PROBLEM_ILLEGAL_MOVE] =
        ROW("illegal_move", 409, 0, "Not possible in the job's state",
            "the job's `state` does not allow this", "`legal_moves` lists what it allows"),
    [PROBLEM_GONE] =
        ROW("gone", 410, 0, "The job has ended",
            "the job has ended, and the server no longer knows how this lease ended",
            "drop this work: the job was removed, or too many claims or restarts have passed"),
    [PROBLEM_EXISTS] =
        ROW("exists", 409, 0, "It exists already", "a queue or schedule with this name exists",
            "leave out If-None-Match to change it"),
    [PROBLEM_REFUSED_NEW] = ROW("refused_new", 409, 0, "The queue takes no new jobs",
                                "the queue's policy refuses new jobs (refuse_new)",
                                "enqueue elsewhere, or set refuse_new to false"),
    [PROBLEM_NOT_DUE] = ROW("not_due", 409, 0, "The schedule is not due",
                            "this time was fired before, or the schedule is paused",
                            "nothing needs to be done; GET /v1/schedules/{name} shows next_at"),
    [PROBLEM_VERSION] =
        ROW("version_mismatch", 412, 0, "A key has another version",
            "a key does not have the version that the request expects; nothing was changed",
            "read the key again and decide again"),
    /* room */
    [PROBLEM_QUEUE_FULL] = ROW("queue_full", 429, 1, "The queue is full",
                               "the queue holds as many jobs as its capacity allows",
                               "try again when some have been worked off, or raise its capacity"),
    [PROBLEM_SERVER_FULL] = ROW("server_full", 429, 1, "The server is full",
                                "the server holds as many jobs as its capacity allows",
                                "try again when some have been worked off"),
    [PROBLEM_QUEUES_FULL] =
        ROW("queues_full", 429, 0, "No room for another queue",
            "the queue was not created: the server has as many queues as limits.auto_queues lets "
            "an enqueue create, or 100,000",
            "delete unused queues, define the queue (PUT /v1/queues/{queue}), or raise "
            "limits.auto_queues"),
    [PROBLEM_KEYS_FULL] = ROW("keys_full", 429, 1, "No room for another idempotency key",
                              "the server remembers as many idempotency keys as it may",
                              "try again later, or without a key"),
    [PROBLEM_RATE_LIMITED] = ROW("rate_limited", 429, 1, "Too many jobs in a short time",
                                 "the queue's enqueue_rate lets no more jobs in for now",
                                 "try again after retry_after_ms, or raise the rate"),
    [PROBLEM_BREAKERS_FULL] = ROW(
        "breakers_full", 507, 0, "Too many breakers",
        "there are as many named breakers as there may be (1000), and this name is not among them",
        "delete breakers that are not needed; those without settings of their own are deleted "
        "when they were not used for 7 days"),
    [PROBLEM_KV_FULL] = ROW("kv_full", 507, 0, "The key-value store is full",
                            "the key-value store holds as much as it may",
                            "delete keys, or raise kv.keys or kv.bytes"),
    [PROBLEM_DISK_FULL] =
        ROW("disk_full", 507, 0, "No room on the disk",
            "the disk is full; no job can be added, and no backup written, until there is room",
            "make room; acks are answered as soon as there is some"),
    /* the server */
    [PROBLEM_BUSY] =
        ROW("busy", 409, 5, "Another one is under way",
            "another backup, or another compaction, is under way", "try again when it has ended"),
    [PROBLEM_NOT_SUPPORTED] = ROW("not_supported", 409, 0, "Not possible with this backend",
                                  "the backend of this server cannot do this",
                                  "use the tools of the database for backups and maintenance"),
    [PROBLEM_STORE_FAILED] =
        ROW("store_failed", 500, 0, "The store could not be read", "the store could not be read",
            "look at the server's log; `holdfast check` examines the store"),
    [PROBLEM_DAMAGED] =
        ROW("damaged", 500, 0, "What is stored is damaged",
            "the store returned other bytes than were written, so they are not shown",
            "`holdfast check` tells what else is damaged"),
    [PROBLEM_UNAVAILABLE] = ROW("unavailable", 503, 1, "Not available now", "nothing was done",
                                "try again; /readyz and the log say why if it persists"),
    [PROBLEM_DRAINING] = ROW("draining", 503, 5, "The server is shutting down",
                             "the server is shutting down and takes no new jobs",
                             "try again soon, or at another server"),
    [PROBLEM_UNKNOWN] =
        ROW("unknown", 504, 0, "Perhaps done", "it is not known whether this was done",
            "repeat it with the same Idempotency-Key or lease token, which is safe"),
    /* HTTP */
    [PROBLEM_BAD_REQUEST] =
        ROW("bad_request", 400, 0, "The request is malformed",
            "the request is not well-formed HTTP", "`detail` says what is wrong"),
    [PROBLEM_FORBIDDEN] =
        ROW("forbidden", 403, 0, "The request is not allowed",
            "the request comes from a web page of another origin, or from the address bar or a "
            "link of a browser where it would change something",
            "use a program, or add the origin to the setting `origins`"),
    [PROBLEM_REQUEST_TIMEOUT] =
        ROW("request_timeout", 408, 0, "The request took too long",
            "the request did not arrive completely in time",
            "send it again; timeouts.head_ms and timeouts.body_ms are the limits"),
    [PROBLEM_URI_TOO_LONG] = ROW("uri_too_long", 414, 0, "The path and query are too long",
                                 "the path and query are longer than the server accepts",
                                 "send less in the query, or raise limits.uri_bytes"),
    [PROBLEM_EXPECTATION_FAILED] =
        ROW("expectation_failed", 417, 0, "The expectation cannot be met",
            "the header Expect asks for something other than 100-continue", "leave it out"),
    [PROBLEM_MISDIRECTED] = ROW("misdirected", 421, 0, "The request is for another host",
                                "the header Host names a host that this server does not serve",
                                "add the name to the setting `hosts` if it is right"),
    [PROBLEM_HEAD_TOO_LARGE] = ROW("head_too_large", 431, 0, "The headers are too large",
                                   "the headers are larger than the server accepts",
                                   "send fewer or shorter headers, or raise limits.head_bytes"),
    [PROBLEM_NOT_IMPLEMENTED] = ROW("not_implemented", 501, 0, "The method is not known",
                                    "the server does not know this method or transfer coding",
                                    "use another; `holdfast help routes` lists the methods"),
    [PROBLEM_VERSION_NOT_SUPPORTED] =
        ROW("version_not_supported", 505, 0, "The HTTP version is not supported",
            "the server speaks HTTP/1.1 and HTTP/1.0", "use one of them"),
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
        fprintf(out, "The header `Retry-After` says after how many seconds.\n");
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
            "<!-- written by `make docs` from src/api/problems/problem_table.c -->\n\n"
            "A request that is refused gets a problem document (RFC 9457). Its `code` is one of "
            "these, and its `type` is\nthe path `/problems/{code}`, where the server explains it. "
            "Codes are stable; see [api.md](api.md#problems).\n",
            out);
    for (size_t i = 0; i < PROBLEM_CODE_COUNT - 1; i++) {
        if (markdown)
            markdown_print(out, sorted[i]);
        else
            text_print(out, sorted[i]);
    }
}
