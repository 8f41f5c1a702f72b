/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/backup and POST /v1/compact.
 *
 * One backup is under way at a time, from the request to the last byte sent, because its copy
 * takes space on the disk until then. */
#include <inttypes.h>
#include <stdio.h>

#include "api/json_members.h"
#include "api/v1/v1_impl.h"

#define FILE_TYPE "application/vnd.sqlite3"

/* One request, in its exchange's arena. */
struct maintenance {
    struct native *n;
    struct http_exchange *x;
    struct now began;
    uint64_t bytes;
};

static struct maintenance *maintenance_new(struct native *n, struct http_exchange *x)
{
    struct maintenance *e = arena_array(http_request(x)->arena, 1, sizeof *e);
    if (e)
        *e = (struct maintenance){.n = n, .x = x, .began = broker_now(n->broker)};
    else
        answer_error(x, -ERR_NOMEM);
    return e;
}

static void answer_failed(struct http_exchange *x, int error, const char *note)
{
    static const struct {
        int error;
        enum problem_code code;
    } codes[] = {
        {-ERR_LOCKED, PROBLEM_BUSY},       {-ERR_INVALID, PROBLEM_NOT_SUPPORTED},
        {-ERR_CLOSED, PROBLEM_DRAINING},   {-ERR_NO_SPACE, PROBLEM_DISK_FULL},
        {-ERR_NOMEM, PROBLEM_UNAVAILABLE},
    };
    enum problem_code code = PROBLEM_STORE_FAILED;
    struct problem p;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i].error == error)
            code = codes[i].code;
    }
    problem_set(&p, http_request(x)->arena, code, NULL, "%s",
                note && *note ? note : err_text(error));
    problem_answer(x, &p);
}

/* ---- backup ---- */

static void backup_count(struct maintenance *e, enum backup_outcome outcome)
{
    struct native *n = e->n;
    struct now now = broker_now(n->broker);
    n->backups.by_outcome[outcome]++;
    n->backup = NULL;
    if (outcome != BACKUP_DONE)
        return;
    n->backups.last = now.wall;
    n->backups.last_ms = (uint64_t)(now.mono.ms - e->began.mono.ms);
    n->backups.last_bytes = e->bytes;
}

static void backup_sent(void *ctx, bool whole)
{
    backup_count(ctx, whole ? BACKUP_DONE : BACKUP_CUT);
}

/* "holdfast-20260131-120000.db": the time at which the backup was requested, from
 * "2026-01-31T12:00:00…". */
static void backup_headers(const struct maintenance *e, uint64_t position)
{
    char t[WALL_TEXT_BYTES], text[96];
    wall_text(e->began.wall, t);
    snprintf(text, sizeof text, "attachment; filename=\"holdfast-%.4s%.2s%.2s-%.2s%.2s%.2s.db\"", t,
             t + 5, t + 8, t + 11, t + 14, t + 17);
    http_answer_header(e->x, "Content-Disposition", span_text(text));
    snprintf(text, sizeof text, "%" PRIu64, position);
    http_answer_header(e->x, "Holdfast-Position", span_text(text));
}

/* Also logged, because the client may be a script whose output is not read. */
static void backup_failed(struct maintenance *e, const struct backup_result *r)
{
    bool cut = r->error == -ERR_CLOSED;
    const char *why = r->note && *r->note ? r->note : err_text(r->error);
    if (!cut)
        log_event(e->n->config.log, LOG_ERROR, "backup_failed", LOG_TEXT("why", why),
                  LOG_TEXT("error", err_name(r->error)));
    backup_count(e, cut ? BACKUP_CUT : BACKUP_FAILED);
    http_watch(e->x, NULL, NULL, NULL);
    answer_failed(e->x, r->error, r->note);
}

static void backup_ready(void *ctx, const struct backup_result *r)
{
    struct maintenance *e = ctx;
    if (r->error) {
        backup_failed(e, r);
        return;
    }
    e->bytes = r->bytes;
    backup_headers(e, r->position);
    http_watch(e->x, NULL, backup_sent, e);
    http_answer_file(e->x, r->fd, r->bytes, FILE_TYPE);
}

static void backup_closed(void *ctx)
{
    struct maintenance *e = ctx;
    broker_backup_cancel(e->n->broker);
    backup_count(e, BACKUP_CUT);
    answer_error(e->x, -ERR_CLOSED);
}

void backup_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct err_note note = {"another backup is being created or sent; try again later"};
    if (!query_none(n->broker, x))
        return;
    if (n->backup) {
        answer_failed(x, -ERR_LOCKED, note.text);
        return;
    }
    struct maintenance *e = maintenance_new(n, x);
    if (!e)
        return;
    struct backup_request request = {.done = backup_ready, .ctx = e};
    int err = broker_backup(n->broker, &request, &note);
    if (err < 0) {
        answer_failed(x, err, note.text);
        return;
    }
    http_alone(x);
    n->backup = e;
    http_watch(x, backup_closed, NULL, e);
}

/* ---- compacting ---- */

static void compacted(void *ctx, const struct compact_result *r)
{
    struct maintenance *e = ctx;
    struct json_writer w;
    e->n->compact = NULL;
    http_watch(e->x, NULL, NULL, NULL);
    if (r->error) {
        answer_failed(e->x, r->error, r->note);
        return;
    }
    answer_object_begin(e->x, &w);
    write_uint(&w, "bytes_before", r->bytes_before);
    write_uint(&w, "bytes_after", r->bytes_after);
    answer_object_end(e->x, &w, 200);
}

static void compact_cut(struct maintenance *e)
{
    broker_compact_cancel(e->n->broker);
    e->n->compact = NULL;
    http_watch(e->x, NULL, NULL, NULL);
    answer_failed(e->x, -ERR_CLOSED, "the server is shutting down; repeat the request soon");
}

static void compact_closed(void *ctx)
{
    compact_cut(ctx);
}

void compact_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct err_note note = {""};
    struct maintenance *e =
        query_none(n->broker, x) && body_none(n->broker, x) ? maintenance_new(n, x) : NULL;
    if (!e)
        return;
    struct compact_request request = {.done = compacted, .ctx = e};
    int err = broker_compact(n->broker, &request, &note);
    if (err < 0) {
        answer_failed(x, err, note.text);
        return;
    }
    n->compact = e;
    http_watch(x, compact_closed, NULL, e);
}

void maintenance_drain(struct native *n)
{
    if (n->compact)
        compact_cut(n->compact);
}
