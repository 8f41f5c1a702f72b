/* SPDX-License-Identifier: Apache-2.0 */
#include "api/problem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"

#define TYPE_BASE "https://holdfast.dev/problems/"
#define PROBLEM_TYPE "application/problem+json"
#define DETAIL_BYTES_MAX 768

struct problem_row {
    const char *name;
    unsigned status;
    unsigned retry_s; /* Retry-After; 0 = none */
    const char *title, *detail;
};

static const struct problem_row rows[PROBLEM_CODE_COUNT] = {
    [PROBLEM_NONE] = {"none", 200, 0, "No problem", "nothing is wrong"},
    [PROBLEM_MALFORMED_JSON] = {"malformed_json", 400, 0, "The body is not valid JSON",
                                "the body must be one JSON value in UTF-8, with each member of an "
                                "object given once"},
    [PROBLEM_INVALID_FIELD] = {"invalid_field", 422, 0, "A field has a value that cannot be used",
                               "a field has a value that cannot be used"},
    [PROBLEM_UNKNOWN_FIELD] = {"unknown_field", 422, 0, "There is no such field",
                               "there is no such field"},
    [PROBLEM_MISSING_FIELD] = {"missing_field", 422, 0, "A field is missing", "a field is missing"},
    [PROBLEM_INVALID_ID] = {"invalid_id", 422, 0, "Not a job id",
                            "a job id is a ULID (26 characters), a UUID, or the sequence number"},
    [PROBLEM_NOT_FOUND] = {"not_found", 404, 0, "No such job",
                           "there is no job with this id; it may have been removed after its "
                           "retention"},
    [PROBLEM_NO_QUEUE] = {"no_queue", 404, 0, "No such queue",
                          "there is no queue with this name; PUT /v1/queues/{queue} creates it"},
    [PROBLEM_NO_ALERT] = {"no_alert", 404, 0, "No such alert",
                          "there is no alert with this name; PUT /v1/alerts/{name} creates it"},
    [PROBLEM_NO_NOTICE] = {"no_notice", 404, 0, "No such notice",
                           "there is no notice with this id; it may have been delivered"},
    [PROBLEM_NO_SCHEDULE] = {"no_schedule", 404, 0, "No such schedule",
                             "there is no schedule with this name; PUT /v1/schedules/{name} "
                             "creates it"},
    [PROBLEM_NO_ROUTE] = {"no_route", 404, 0, "No such path", "there is nothing at this path"},
    [PROBLEM_METHOD_NOT_ALLOWED] = {"method_not_allowed", 405, 0,
                                    "The path does not know this method",
                                    "the path does not know this method; Allow lists those it "
                                    "knows"},
    [PROBLEM_DUPLICATE] = {"duplicate", 409, 0, "A job with this unique key exists",
                           "another job of this queue has this unique key; nothing was enqueued"},
    [PROBLEM_LEASE_LOST] = {"lease_lost", 409, 0, "The lease is lost",
                            "the lease token is not that of the job's current lease; the job "
                            "may be running elsewhere or have ended, so drop this work"},
    [PROBLEM_ILLEGAL_MOVE] = {"illegal_move", 409, 0, "Not possible in the job's state",
                              "the job's state does not allow this; legal_moves lists what it "
                              "allows"},
    [PROBLEM_GONE] = {"gone", 410, 0, "The job has ended",
                      "the job has ended, and the server no longer knows how this lease ended"},
    [PROBLEM_EXISTS] = {"exists", 409, 0, "It exists already",
                        "a queue or schedule with this name exists; leave out If-None-Match to "
                        "change it"},
    [PROBLEM_NOT_DUE] = {"not_due", 409, 0, "The schedule is not due",
                         "this time was fired before, or the schedule is paused"},
    [PROBLEM_QUEUE_FULL] = {"queue_full", 429, 1, "The queue is full",
                            "the queue holds as many jobs as its capacity allows; try again when "
                            "some have been worked off, or raise its capacity"},
    [PROBLEM_SERVER_FULL] = {"server_full", 429, 1, "The server is full",
                             "the server holds as many jobs as its capacity allows; try again when "
                             "some have been worked off"},
    [PROBLEM_QUEUES_FULL] = {"queues_full", 429, 0, "No room for another queue",
                             "the queue was not created: the server has as many queues as "
                             "limits.auto_queues lets an enqueue create, or 100,000; delete unused "
                             "queues, define the queue (PUT /v1/queues/{queue}), or raise "
                             "limits.auto_queues"},
    [PROBLEM_KEYS_FULL] = {"keys_full", 429, 1, "No room for another idempotency key",
                           "the server remembers as many idempotency keys as it may; try again "
                           "later, or without a key"},
    [PROBLEM_RATE_LIMITED] = {"rate_limited", 429, 1, "Too many jobs in a short time",
                              "the queue's enqueue_rate lets no more jobs in for now; "
                              "retry_after_ms says when the next one is let in"},
    [PROBLEM_REFUSED_NEW] = {"refused_new", 409, 0, "The queue takes no new jobs",
                             "the queue's policy refuses new jobs (refuse_new)"},
    [PROBLEM_TOO_BIG] = {"too_big", 413, 0, "Too large",
                         "the payload is larger than the queue's payload_max"},
    [PROBLEM_KEY_REUSED] = {"key_reused", 422, 0, "The idempotency key was used for another job",
                            "this Idempotency-Key came before with another body or queue; use a "
                            "new key for a new job"},
    [PROBLEM_DISK_FULL] = {"disk_full", 507, 0, "No room on the disk",
                           "the disk is full; no job can be added until there is room"},
    [PROBLEM_BUSY] = {"busy", 409, 5, "Another one is under way",
                      "another one is under way; try again when it has ended"},
    [PROBLEM_NOT_SUPPORTED] = {"not_supported", 409, 0, "Not possible with this backend",
                               "the backend of this server cannot do this"},
    [PROBLEM_STORE_FAILED] = {"store_failed", 500, 0, "The store could not be read",
                              "the store could not be read"},
    [PROBLEM_UNAVAILABLE] = {"unavailable", 503, 1, "Not available now",
                             "nothing was done; try again"},
    [PROBLEM_UNKNOWN] = {"unknown", 504, 0, "Perhaps done",
                         "it is not known whether this was done; repeat it with the same "
                         "Idempotency-Key or token"},
    [PROBLEM_DRAINING] = {"draining", 503, 5, "The server is shutting down",
                          "the server is shutting down and takes no new jobs; try again soon"},
    [PROBLEM_NO_KEY] = {"no_key", 404, 0, "No such key",
                        "the key-value store has no such key; it may have been deleted, or have "
                        "expired"},
    [PROBLEM_VERSION] =
        {"version_mismatch", 412, 0, "A key has another version",
         "a key does not have the version it was to have; nothing was changed: read "
         "it again and decide anew"},
    [PROBLEM_KV_FULL] = {"kv_full", 507, 0, "The key-value store is full",
                         "the key-value store holds as much as it may; delete keys, or raise "
                         "kv.keys or kv.bytes"},
    [PROBLEM_DAMAGED] = {"damaged", 500, 0, "What is stored is damaged",
                         "the store gave other bytes than it was given, so they are not shown; "
                         "`holdfast check` tells what else is damaged"},
};

static const enum problem_code by_outcome[OUT_COUNT] = {
    [OUT_OK] = PROBLEM_NONE,
    [OUT_DUPLICATE] = PROBLEM_DUPLICATE,
    [OUT_NOT_FOUND] = PROBLEM_NOT_FOUND,
    [OUT_NO_QUEUE] = PROBLEM_NO_QUEUE,
    [OUT_LEASE_LOST] = PROBLEM_LEASE_LOST,
    [OUT_GONE] = PROBLEM_GONE,
    [OUT_ILLEGAL] = PROBLEM_ILLEGAL_MOVE,
    [OUT_QUEUE_FULL] = PROBLEM_QUEUE_FULL,
    [OUT_SERVER_FULL] = PROBLEM_SERVER_FULL,
    [OUT_QUEUES_FULL] = PROBLEM_QUEUES_FULL,
    [OUT_REFUSED_NEW] = PROBLEM_REFUSED_NEW,
    [OUT_TOO_BIG] = PROBLEM_TOO_BIG,
    [OUT_INVALID] = PROBLEM_INVALID_FIELD,
    [OUT_KEY_REUSED] = PROBLEM_KEY_REUSED,
    [OUT_KEYS_FULL] = PROBLEM_KEYS_FULL,
    [OUT_DISK_FULL] = PROBLEM_DISK_FULL,
    [OUT_EXISTS] = PROBLEM_EXISTS,
    [OUT_VERSION] = PROBLEM_VERSION,
    [OUT_KV_FULL] = PROBLEM_KV_FULL,
    [OUT_DAMAGED] = PROBLEM_DAMAGED,
    [OUT_RATE_LIMIT] = PROBLEM_RATE_LIMITED,
    [OUT_NO_SCHEDULE] = PROBLEM_NO_SCHEDULE,
    [OUT_NOT_DUE] = PROBLEM_NOT_DUE,
    [OUT_UNAVAILABLE] = PROBLEM_UNAVAILABLE,
    [OUT_UNKNOWN] = PROBLEM_UNKNOWN,
};

const char *problem_name(enum problem_code code)
{
    return rows[code].name;
}

unsigned problem_status(enum problem_code code)
{
    return rows[code].status;
}

enum problem_code problem_of_outcome(enum outcome o)
{
    CHECK((unsigned)o < OUT_COUNT);
    return by_outcome[o];
}

/* ---- making one ---- */

const char *problem_sentence(const struct problem *p)
{
    return p->detail ? p->detail : rows[p->code].detail;
}

void problem_set(struct problem *p, struct arena *arena, enum problem_code code, const char *field,
                 const char *format, ...)
{
    char text[DETAIL_BYTES_MAX];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    *p = (struct problem){.code = code, .field = field};
    if (len > 0)
        p->detail = arena_text(arena, span_text(text));
}

void problem_of_error(struct problem *p, int error)
{
    *p = (struct problem){.code = PROBLEM_UNAVAILABLE};
    if (error == -ERR_NOMEM)
        p->detail = "the server is out of memory; nothing was done; try again";
    else if (error == -ERR_CLOSED)
        p->code = PROBLEM_DRAINING;
}

static bool field_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

const char *problem_note_field(struct arena *arena, const char *note)
{
    static const char *const verbs[] = {" is ", " has ", " must "};
    size_t len = 0;
    while (note && field_byte(note[len]))
        len++;
    for (size_t i = 0; len > 0 && i < sizeof verbs / sizeof *verbs; i++) {
        if (strncmp(note + len, verbs[i], strlen(verbs[i])) == 0)
            return arena_text(arena, span_of(note, len));
    }
    return NULL;
}

void problem_of_reply(struct problem *p, struct arena *arena, const struct reply *reply,
                      bool draining)
{
    *p = (struct problem){
        .code = problem_of_outcome(reply->outcome), .seq = reply->seq, .id_hi = reply->id_hi};
    if (reply->outcome == OUT_ILLEGAL || reply->outcome == OUT_DUPLICATE)
        p->state = reply->state;
    p->retry_ms = reply->retry_ms;
    if (reply->note)
        p->detail = arena_text(arena, span_text(reply->note));
    if (reply->outcome == OUT_INVALID)
        p->field = problem_note_field(arena, reply->note);
    if (reply->outcome == OUT_UNAVAILABLE && reply->kind == OP_ENQUEUE && draining)
        p->code = PROBLEM_DRAINING;
    bool alert = reply->kind == OP_ALERT_PUT || reply->kind == OP_ALERT_LIST ||
                 reply->kind == OP_ALERT_DELETE;
    bool notice = reply->kind == OP_NOTICE_LIST || reply->kind == OP_NOTICE_AGAIN ||
                  reply->kind == OP_NOTICE_DISCARD;
    if (reply->outcome == OUT_NOT_FOUND && (alert || notice))
        p->code = alert ? PROBLEM_NO_ALERT : PROBLEM_NO_NOTICE;
    if (reply->outcome == OUT_EXISTS && alert)
        p->detail = "an alert with this name exists; leave out If-None-Match to change it";
}

/* ---- writing one ---- */

static void write_job(struct json_writer *w, const struct problem *p)
{
    char id[ID_ULID_BYTES];
    if (p->seq_only) {
        if (p->seq != 0) {
            json_write_key(w, "job_id");
            json_write_uint(w, p->seq);
        }
        return;
    }
    if (p->seq != 0) {
        if (p->id_hi != 0) {
            id_ulid(id_make(p->id_hi, p->seq), id);
            json_write_key(w, "id");
            json_write_text(w, span_text(id));
        }
        json_write_key(w, "seq");
        json_write_uint(w, p->seq);
    }
    if (p->code == PROBLEM_DUPLICATE && p->seq != 0 && p->id_hi != 0) {
        json_write_key(w, "duplicate_of");
        json_write_text(w, span_text(id));
    }
    if (p->state != STATE_NONE) {
        json_write_key(w, "state");
        json_write_text(w, span_text(state_name(p->state)));
    }
}

/* The names of a static list "ack, fail, extend". */
static void write_legal_moves(struct json_writer *w, enum job_state state)
{
    const char *at = state_legal_moves(state);
    json_write_key(w, "legal_moves");
    json_write_array(w);
    while (*at) {
        size_t len = strcspn(at, ",");
        json_write_text(w, span_of(at, len));
        at += len;
        at += strspn(at, ", ");
    }
    json_write_array_end(w);
}

static void write_head(struct json_writer *w, const char *name, const char *title, unsigned status,
                       const char *detail)
{
    char type[128];
    snprintf(type, sizeof type, TYPE_BASE "%s", name);
    json_write_key(w, "type");
    json_write_text(w, span_text(type));
    json_write_key(w, "title");
    json_write_text(w, span_text(title));
    json_write_key(w, "status");
    json_write_uint(w, status);
    json_write_key(w, "detail");
    json_write_text(w, span_text(detail));
    json_write_key(w, "code");
    json_write_text(w, span_text(name));
}

void problem_write(struct json_writer *w, const struct problem *p)
{
    const struct problem_row *row = &rows[p->code];
    json_write_object(w);
    write_head(w, row->name, row->title, row->status, problem_sentence(p));
    if (p->field) {
        json_write_key(w, "field");
        json_write_text(w, span_text(p->field));
    }
    bool own_moves = p->code == PROBLEM_ILLEGAL_MOVE && p->allowed_count > 0;
    if (p->allowed_count > 0) {
        json_write_key(w, own_moves ? "legal_moves" : "allowed");
        json_write_array(w);
        for (size_t i = 0; i < p->allowed_count; i++)
            json_write_text(w, span_text(p->allowed[i]));
        json_write_array_end(w);
    }
    if (p->retry_ms > 0) {
        json_write_key(w, "retry_after_ms");
        json_write_int(w, p->retry_ms);
    }
    write_job(w, p);
    if (p->code == PROBLEM_ILLEGAL_MOVE && p->state != STATE_NONE && !own_moves)
        write_legal_moves(w, p->state);
    json_write_object_end(w);
}

void problem_answer(struct http_exchange *x, const struct problem *p)
{
    const struct problem_row *row = &rows[p->code];
    struct buf *body = http_answer_body(x);
    struct json_writer w;
    char seconds[24];
    int64_t retry_s = p->retry_ms > 0 ? (p->retry_ms + 999) / 1000 : row->retry_s;
    buf_clear(body);
    json_writer_init(&w, body);
    problem_write(&w, p);
    int err = json_writer_finish(&w);
    if (err == 0)
        err = buf_append(body, "\n", 1);
    if (retry_s > 0) {
        snprintf(seconds, sizeof seconds, "%" PRId64, retry_s);
        http_answer_header(x, "Retry-After", span_text(seconds));
    }
    if (err < 0)
        buf_clear(body);
    http_answer(x, row->status, err < 0 ? NULL : PROBLEM_TYPE);
}

/* ---- refusals of the server itself ---- */

/* Statuses of the server that are codes of the API, too. */
static const enum problem_code server_codes[] = {PROBLEM_NO_ROUTE, PROBLEM_METHOD_NOT_ALLOWED,
                                                 PROBLEM_TOO_BIG, PROBLEM_UNAVAILABLE};

static const char *server_name(unsigned status, const char *type)
{
    for (size_t i = 0; i < sizeof server_codes / sizeof *server_codes; i++) {
        if (rows[server_codes[i]].status == status)
            return rows[server_codes[i]].name;
    }
    return type;
}

void problem_of_server(struct http_exchange *x, unsigned status, const char *type,
                       const char *title, const char *detail)
{
    struct buf *body = http_answer_body(x);
    struct json_writer w;
    buf_clear(body);
    json_writer_init(&w, body);
    json_write_object(&w);
    write_head(&w, server_name(status, type), title, status, detail ? detail : title);
    json_write_object_end(&w);
    int err = json_writer_finish(&w);
    if (err == 0)
        err = buf_append(body, "\n", 1);
    if (err < 0)
        buf_clear(body);
    http_answer(x, status, err < 0 ? NULL : PROBLEM_TYPE);
}
