/* SPDX-License-Identifier: Apache-2.0 */
#include "api/problems/problem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "api/problems/problem_table.h"
#include "base/check.h"

#define PROBLEM_CONTENT "application/problem+json"
#define DETAIL_BYTES_MAX 768

static const enum problem_code by_outcome[OUT_COUNT] = {
    [OUT_OK] = PROBLEM_NONE,
    [OUT_DUPLICATE] = PROBLEM_DUPLICATE,
    [OUT_NOT_FOUND] = PROBLEM_NOT_FOUND,
    [OUT_NO_QUEUE] = PROBLEM_NO_QUEUE,
    [OUT_LEASE_LOST] = PROBLEM_LEASE_LOST,
    [OUT_GONE] = PROBLEM_GONE,
    [OUT_CANCELLED] = PROBLEM_CANCELLED,
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
    [OUT_STEPS_FULL] = PROBLEM_STEPS_FULL,
    [OUT_DAMAGED] = PROBLEM_DAMAGED,
    [OUT_RATE_LIMIT] = PROBLEM_RATE_LIMITED,
    [OUT_NO_SCHEDULE] = PROBLEM_NO_SCHEDULE,
    [OUT_BREAKERS_FULL] = PROBLEM_BREAKERS_FULL,
    [OUT_NOT_DUE] = PROBLEM_NOT_DUE,
    [OUT_UNAVAILABLE] = PROBLEM_UNAVAILABLE,
    [OUT_UNKNOWN] = PROBLEM_UNKNOWN,
};

const char *problem_name(enum problem_code code)
{
    return problem_row(code)->name;
}

unsigned problem_status(enum problem_code code)
{
    return problem_row(code)->status;
}

enum problem_code problem_of_outcome(enum outcome o)
{
    CHECK((unsigned)o < OUT_COUNT);
    return by_outcome[o];
}

/* ---- making one ---- */

const char *problem_sentence(const struct problem *p)
{
    return p->detail ? p->detail : problem_row(p->code)->detail;
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
    static const char *const verbs[] = {" is ", " has ", " must ", " cannot "};
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
    if (reply->outcome == OUT_NOT_FOUND && reply->kind == OP_BREAKER_DELETE)
        p->code = PROBLEM_NO_BREAKER;
    if (reply->outcome == OUT_EXISTS && alert)
        p->detail = "an alert with this name exists; leave out If-None-Match to change it";
}

/* ---- writing one ---- */

/* Writes the job by the id and in the terms of the API. */
static void write_job_of(struct json_writer *w, const struct problem *p)
{
    char id[ID_UUID_BYTES];
    bool named = p->seq != 0 && p->id_hi != 0;
    if (named && p->terms->uuid)
        id_uuid(id_make(p->id_hi, p->seq), id);
    else if (named)
        id_ulid(id_make(p->id_hi, p->seq), id);
    if (named) {
        json_write_key(w, p->code == PROBLEM_DUPLICATE ? "duplicate_of" : "id");
        json_write_text(w, span_text(id));
    }
    if (p->state != STATE_NONE) {
        json_write_key(w, "state");
        json_write_text(w, span_text(p->terms->states[p->state]));
    }
}

static void write_job(struct json_writer *w, const struct problem *p)
{
    char id[ID_ULID_BYTES];
    if (p->terms) {
        write_job_of(w, p);
        return;
    }
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

/* Writes the names of a static list "ack, fail, extend", or those of the API. */
static void write_legal_moves(struct json_writer *w, const struct problem *p)
{
    const char *at = p->terms ? "" : state_legal_moves(p->state);
    json_write_key(w, "legal_moves");
    json_write_array(w);
    for (size_t i = 0; p->terms && p->terms->legal[p->state][i]; i++)
        json_write_text(w, span_text(p->terms->legal[p->state][i]));
    while (*at) {
        size_t len = strcspn(at, ",");
        json_write_text(w, span_of(at, len));
        at += len;
        at += strspn(at, ", ");
    }
    json_write_array_end(w);
}

const char *problem_type(const char *name, char out[PROBLEM_TYPE_BYTES])
{
    snprintf(out, PROBLEM_TYPE_BYTES, "/problems/%s", name);
    return out;
}

static void write_head(struct json_writer *w, const char *name, const char *title, unsigned status,
                       const char *detail)
{
    char type[PROBLEM_TYPE_BYTES];
    json_write_key(w, "type");
    json_write_text(w, span_text(problem_type(name, type)));
    json_write_key(w, "title");
    json_write_text(w, span_text(title));
    json_write_key(w, "status");
    json_write_uint(w, status);
    json_write_key(w, "detail");
    json_write_text(w, span_text(detail));
    json_write_key(w, "code");
    json_write_text(w, span_text(name));
}

/* The text with "job" replaced by the noun of the API. Returns out, or text for /v1. */
static const char *in_terms(const struct problem *p, const char *text, char out[DETAIL_BYTES_MAX])
{
    size_t len = 0;
    if (!p->terms)
        return text;
    while (*text && len + 1 < DETAIL_BYTES_MAX) {
        bool job = strncmp(text, "job", 3) == 0;
        int n = snprintf(out + len, DETAIL_BYTES_MAX - len, "%.*s", job ? 16 : 1,
                         job ? p->terms->noun : text);
        len += (size_t)n;
        text += job ? 3 : 1;
    }
    out[len < DETAIL_BYTES_MAX ? len : DETAIL_BYTES_MAX - 1] = '\0';
    return out;
}

void problem_write(struct json_writer *w, const struct problem *p)
{
    const struct problem_row *row = problem_row(p->code);
    char title[DETAIL_BYTES_MAX], detail[DETAIL_BYTES_MAX];
    json_write_object(w);
    write_head(w, row->name, in_terms(p, row->title, title), row->status,
               p->detail ? p->detail : in_terms(p, row->detail, detail));
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
        write_legal_moves(w, p);
    json_write_object_end(w);
}

void problem_answer(struct http_exchange *x, const struct problem *p)
{
    const struct problem_row *row = problem_row(p->code);
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
    http_answer(x, row->status, err < 0 ? NULL : PROBLEM_CONTENT);
}

/* ---- refusals of the server itself ---- */

static const enum problem_code server_codes[] = {
    PROBLEM_BAD_REQUEST,          PROBLEM_FORBIDDEN,       PROBLEM_NO_ROUTE,
    PROBLEM_METHOD_NOT_ALLOWED,   PROBLEM_REQUEST_TIMEOUT, PROBLEM_TOO_BIG,
    PROBLEM_URI_TOO_LONG,         PROBLEM_MISDIRECTED,     PROBLEM_HEAD_TOO_LARGE,
    PROBLEM_EXPECTATION_FAILED,   PROBLEM_NOT_IMPLEMENTED, PROBLEM_UNAVAILABLE,
    PROBLEM_VERSION_NOT_SUPPORTED};

/* The row of a status; NULL if the HTTP server has a status that no API has. */
static const struct problem_row *server_row(unsigned status)
{
    for (size_t i = 0; i < sizeof server_codes / sizeof *server_codes; i++)
        if (problem_row(server_codes[i])->status == status)
            return problem_row(server_codes[i]);
    return NULL;
}

void problem_of_server(struct http_exchange *x, unsigned status, const char *type,
                       const char *title, const char *detail)
{
    const struct problem_row *row = server_row(status);
    struct buf *body = http_answer_body(x);
    struct json_writer w;
    buf_clear(body);
    json_writer_init(&w, body);
    json_write_object(&w);
    write_head(&w, row ? row->name : type, row ? row->title : title, status,
               detail ? detail : title);
    json_write_object_end(&w);
    int err = json_writer_finish(&w);
    if (err == 0)
        err = buf_append(body, "\n", 1);
    if (err < 0)
        buf_clear(body);
    http_answer(x, status, err < 0 ? NULL : PROBLEM_CONTENT);
}
