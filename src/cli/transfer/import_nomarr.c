/* SPDX-License-Identifier: Apache-2.0 */
/* A row becomes a job of the queue webqueue.TYPE, in the form of the API webqueue: path as
 * payload and unique key, library as group. The old id with its time makes the import
 * repeatable, also for several databases. The row's times are kept as attributes: the API
 * webqueue and the view `queue` show them, and the retention period begins with the import. */
#include "cli/transfer/import_nomarr.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/json_members.h"
#include "api/webqueue/webqueue.h"
#include "backend/local/offline/nomarr.h"
#include "base/buf.h"
#include "base/containers/arena.h"
#include "base/json/json.h"
#include "core/validate.h"

struct nomarr_run {
    const struct nomarr_take *take;
    struct buf text;
    struct arena arena;
};

static int give(struct nomarr_run *run, struct json_writer *w, const int64_t *number)
{
    int err = json_writer_finish(w);
    if (err < 0)
        return err;
    err = number ? run->take->job(run->take->ctx, (uint64_t)*number, buf_span(&run->text))
                 : run->take->queue(run->take->ctx, buf_span(&run->text));
    arena_reset(&run->arena);
    return err;
}

static void begin(struct nomarr_run *run, struct json_writer *w)
{
    buf_clear(&run->text);
    json_writer_init(w, &run->text);
    json_write_object(w);
}

static void write_null(struct json_writer *w, const char *key)
{
    json_write_key(w, key);
    json_write_null(w);
}

static void write_queue_name(struct nomarr_run *run, struct json_writer *w, const char *key,
                             struct span type)
{
    size_t prefix = sizeof WEBQUEUE_PREFIX - 1;
    char *name = arena_alloc(&run->arena, prefix + type.len);
    if (name) {
        memcpy(name, WEBQUEUE_PREFIX, prefix);
        memcpy(name + prefix, type.at, type.len);
    }
    write_span(w, key, span_of(name, name ? prefix + type.len : 0));
}

/* The policy that the API gives a new queue; the API takes the queue over when it finds it. */
static int type_take(void *ctx, struct span type)
{
    struct nomarr_run *run = ctx;
    struct json_writer w;
    begin(run, &w);
    write_queue_name(run, &w, "name", type);
    json_write_key(&w, "policy");
    json_write_object(&w);
    write_int(&w, "lease_ms", WEBQUEUE_TIMEOUT_MS);
    write_text(&w, "lease_end", "fail");
    write_int(&w, "max_attempts", 1);
    write_int(&w, "max_crashes", 0);
    write_int(&w, "keep_done_ms", WEBQUEUE_KEEP_MS);
    write_null(&w, "keep_done");
    write_null(&w, "keep_dead_ms");
    write_null(&w, "keep_dead");
    json_write_object_end(&w);
    json_write_object_end(&w);
    return give(run, &w, NULL);
}

static bool ended(const struct nomarr_row *row)
{
    return row->status == NOMARR_COMPLETED || row->status == NOMARR_ERROR;
}

static void write_attributes(struct json_writer *w, const struct nomarr_row *row)
{
    json_write_key(w, "attributes");
    json_write_object(w);
    write_int(w, "enqueued_at", row->enqueued_at);
    if (ended(row) && row->started_at)
        write_int(w, "started_at", row->started_at);
    if (ended(row) && row->completed_at)
        write_int(w, "completed_at", row->completed_at);
    json_write_object_end(w);
}

static void write_state(struct json_writer *w, const struct nomarr_row *row)
{
    static const char *const states[] = {[NOMARR_PENDING] = "ready",
                                         [NOMARR_RUNNING] = "running",
                                         [NOMARR_COMPLETED] = "done",
                                         [NOMARR_ERROR] = "dead"};
    write_text(w, "state", states[row->status]);
    if (row->status == NOMARR_ERROR) {
        write_text(w, "reason", "failed");
        write_int(w, "failures", 1);
    }
    if (!ended(row))
        return;
    write_span_if(w, "error", row->error);
    write_span_if(w, "result_json", row->results);
}

static void wrong_take(void *ctx, int64_t id, const char *sentence)
{
    struct nomarr_run *run = ctx;
    run->take->wrong(run->take->ctx, (uint64_t)id, sentence);
}

static int row_type_take(void *ctx, int64_t id, struct span queue_type)
{
    struct nomarr_run *run = ctx;
    return run->take->row_type(run->take->ctx, (uint64_t)id, queue_type);
}

static int results_check(struct span results, struct err_note *note)
{
    const char *error;
    size_t at;
    if (results.len == 0 || json_check(results, &error, &at) == 0)
        return 0;
    return err_note_set(note, -ERR_INVALID, "its results_json is not JSON at byte %zu: %s", at,
                        error);
}

static int row_take(void *ctx, const struct nomarr_row *row)
{
    struct nomarr_run *run = ctx;
    struct json_writer w;
    struct err_note note;
    if (validate_text("its path", row->path, WEBQUEUE_PATH_BYTES_MAX, &note) < 0 ||
        results_check(row->results, &note) < 0) {
        wrong_take(run, row->id, note.text);
        return 0;
    }
    char id[64], library[24];
    snprintf(id, sizeof id, "nomarr/%" PRId64 "@%" PRId64, row->id, row->enqueued_at);
    snprintf(library, sizeof library, "%" PRId64, row->library_id);
    begin(run, &w);
    write_text(&w, "id", id);
    write_queue_name(run, &w, "queue", row->queue_type);
    write_state(&w, row);
    write_int(&w, "priority", row->priority);
    write_span(&w, "unique", webqueue_path_key(&run->arena, row->path));
    write_text(&w, "group", library);
    write_attributes(&w, row);
    write_span(&w, "payload", row->path);
    json_write_object_end(&w);
    return give(run, &w, &row->id);
}

int import_nomarr(const char *file, const struct nomarr_take *take, struct err_note *note)
{
    struct nomarr_run run = {.take = take};
    const struct nomarr_sink sink = {&run, row_type_take, type_take, row_take, wrong_take};
    buf_init(&run.text);
    arena_init(&run.arena);
    int err = nomarr_read(file, &sink, note);
    if (err == -ERR_NOMEM)
        err = err_note_set(note, err, "out of memory");
    buf_done(&run.text);
    arena_done(&run.arena);
    return err;
}
