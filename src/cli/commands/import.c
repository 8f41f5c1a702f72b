/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast import: imports the queues and jobs of an export into a running server.
 *
 * Queues are created as their lines are read; jobs are sent in batches to POST /v1/import, which
 * accepts each old id once, so that the same file can be sent again after an interruption. Blocked
 * jobs are then connected with the jobs for which they wait. A line that is invalid or refused is
 * named by its number, and the import continues. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/input.h"
#include "cli/client/session.h"
#include "cli/transfer/export_file.h"
#include "cli/transfer/import_alerts.h"
#include "cli/transfer/import_keys.h"
#include "cli/transfer/import_nomarr.h"
#include "cli/transfer/import_waits.h"
#include "cli/transfer/web_types.h"

#define BATCH_JOBS 1000
#define BATCH_BYTES ((size_t)8 << 20) /* of lines in one request, unless a single one is larger */
#define PROBLEMS_SHOWN 20

struct import_line {
    uint64_t number;
    size_t at, len;     /* in the batch */
    struct hash128 job; /* its old id */
};

struct import {
    struct client_session *s;
    const char *unit; /* the unit of the numbers in messages */
    struct client_lines lines;
    struct buf batch;
    struct import_line *jobs; /* in the batch */
    size_t job_count;
    uint64_t queue_lines, job_lines, schedule_lines;
    uint64_t schedules_made, schedules_kept;
    struct import_keys keys;
    struct import_alerts alerts;
    struct import_waits waits;
    struct web_types types;                        /* --nomarr */
    uint64_t made, changed, kept;                  /* queues */
    uint64_t imported, existing, skipped, refused; /* jobs; refused: lines of any kind */
    bool ended;                                    /* the last line has been read */
    bool progress;
};

/* Reports a line that is not imported. */
static void refuse(struct import *im, uint64_t number, struct span why)
{
    if (im->refused++ < PROBLEMS_SHOWN)
        client_complain(CLIENT_REFUSED, "%s %" PRIu64 ": %.*s", im->unit, number, (int)why.len,
                        why.at);
    else if (im->refused == PROBLEMS_SHOWN + 1)
        client_complain(CLIENT_REFUSED, "more %ss are refused; these are only counted", im->unit);
}

/* ---- jobs ---- */

static struct span problem_text(struct import *im, struct span problem)
{
    struct arena *arena = &im->s->arena;
    struct span code = client_answer_text(problem, "code", arena);
    if (span_equal(code, SPAN_LITERAL("key_reused")))
        return SPAN_LITERAL("a job of this id was imported before, with another queue or payload");
    return client_answer_text(problem, "detail", arena);
}

static int outcomes_count(struct import *im, size_t first, size_t count)
{
    struct client_items items;
    struct span item, error;
    size_t i = 0;
    client_items_of(&items, client_answer(im->s), "jobs");
    for (; client_items_next(&items, &item) && i < count; i++) {
        int64_t seq = client_answer_int(item, "seq", 0);
        if (client_answer_find(item, "error", &error))
            refuse(im, im->jobs[first + i].number, problem_text(im, error));
        else if (client_answer_true(item, "created"))
            im->imported++;
        else
            im->existing++;
        if (!import_waits_there(&im->waits, im->jobs[first + i].job, (uint64_t)seq))
            return client_no_memory();
    }
    for (; i < count; i++) /* an answer must have an outcome for each job */
        refuse(im, im->jobs[first + i].number,
               SPAN_LITERAL("the server returned no outcome for it"));
    return CLIENT_DONE;
}

static void progress_show(const struct import *im)
{
    if (im->progress)
        fprintf(stderr, "\r%" PRIu64 " imported, %" PRIu64 " already present, %" PRIu64 " refused ",
                im->imported, im->existing, im->refused);
}

static int stopped(const struct import *im, int status, uint64_t number)
{
    return client_complain(status,
                           "stopped at %s %" PRIu64 " after %" PRIu64 " jobs; %s: what is there "
                           "is not imported twice",
                           im->unit, number, im->imported + im->existing,
                           status == CLIENT_REFUSED
                               ? "correct what was refused, then run the command again"
                               : "the same command continues from there");
}

static int ask_for(struct import *im, size_t first, size_t count)
{
    struct client_session *s = im->s;
    const struct import_line *last = &im->jobs[first + count - 1];
    size_t from = im->jobs[first].at;
    CHECK(im->batch.data);
    if (buf_append(&s->body, im->batch.data + from, last->at + last->len - from) < 0)
        return client_no_memory();
    client_path_add(&s->path, "/v1/import");
    return client_ask_with(
        s, (struct client_request){.method = "POST", .content_type = "application/x-ndjson"});
}

/* The batch is too large for the server: sends its halves, down to a single line. */
static int jobs_send(struct import *im, size_t first, size_t count)
{
    int status = ask_for(im, first, count);
    if (status == CLIENT_DONE) {
        status = outcomes_count(im, first, count);
    } else if (status == CLIENT_REFUSED && im->s->reply.status == 413 && count > 1) {
        status = jobs_send(im, first, count / 2);
        if (status == CLIENT_DONE)
            status = jobs_send(im, first + count / 2, count - count / 2);
    } else if (status == CLIENT_REFUSED && im->s->reply.status == 413) {
        refuse(im, im->jobs[first].number,
               SPAN_LITERAL("the job is larger than the server accepts (limits.large_body_bytes)"));
        status = CLIENT_DONE;
    } else {
        status = stopped(im, status, im->jobs[first].number);
    }
    arena_reset(&im->s->arena);
    return status;
}

/* end: of the file, when no more jobs come. */
static int waits_connect(struct import *im, bool end)
{
    int status = import_waits_connect(&im->waits, end);
    return status == CLIENT_DONE ? status : stopped(im, status, im->lines.number);
}

static int batch_flush(struct import *im)
{
    int status = im->job_count > 0 ? jobs_send(im, 0, im->job_count) : CLIENT_DONE;
    im->job_count = 0;
    buf_clear(&im->batch);
    progress_show(im);
    return status == CLIENT_DONE ? waits_connect(im, false) : status;
}

/* Sends the batch if this job does not fit into it. */
static int batch_room(struct import *im, struct span job)
{
    bool full = im->job_count == BATCH_JOBS ||
                (im->job_count > 0 && im->batch.len + job.len + 1 > BATCH_BYTES);
    return full ? batch_flush(im) : CLIENT_DONE;
}

static int batch_put(struct import *im, struct span job)
{
    size_t at = im->batch.len;
    struct span id = client_answer_text(job, "id", &im->s->arena);
    if (buf_append_span(&im->batch, job) < 0 || buf_append(&im->batch, "\n", 1) < 0)
        return client_no_memory();
    im->jobs[im->job_count++] =
        (struct import_line){im->lines.number, at, job.len + 1, import_waits_id(id)};
    return CLIENT_DONE;
}

static int batch_add(struct import *im, struct span job)
{
    int status = batch_room(im, job);
    return status == CLIENT_DONE ? batch_put(im, job) : status;
}

static void wait_refused(void *ctx, uint64_t number, struct span why)
{
    refuse(ctx, number, why);
}

/* It is connected after the batch that it goes into. */
static int blocked_take(struct import *im, struct span job)
{
    int status = batch_room(im, job);
    if (status == CLIENT_DONE)
        status = import_waits_note(&im->waits, im->lines.number, job);
    if (status == CLIENT_REFUSED)
        return CLIENT_DONE;
    return status == CLIENT_DONE ? batch_put(im, job) : status;
}

/* Done jobs of an export stay with the server that ran them. */
static int job_take(struct import *im, struct span job)
{
    struct span state = client_answer_text(job, "state", &im->s->arena);
    im->job_lines++;
    if (span_equal(state, SPAN_LITERAL("done")) || span_equal(state, SPAN_LITERAL("cancelled"))) {
        im->skipped++;
        return CLIENT_DONE;
    }
    if (span_equal(state, SPAN_LITERAL("blocked")))
        return blocked_take(im, job);
    return batch_add(im, job);
}

/* ---- queues ---- */

/* The members of the policy and of the queue, as PUT takes them. */
static int queue_body(struct client_session *s, struct span queue)
{
    static const char *const beside[] = {"description", "owner", "attributes"};
    struct client_members members;
    struct span policy = {NULL, 0}, name, value;
    client_body_begin(s);
    if (client_answer_find(queue, "policy", &policy)) {
        client_members_open(&members, policy, &s->arena);
        while (client_members_next(&members, &name, &value)) {
            json_write_key_span(&s->writer, name);
            json_write_raw(&s->writer, value);
        }
    }
    for (size_t i = 0; i < CLIENT_COUNT(beside); i++) {
        if (!client_answer_find(queue, beside[i], &value))
            continue;
        json_write_key(&s->writer, beside[i]);
        json_write_raw(&s->writer, value);
    }
    return client_body_end(s);
}

static int queue_ask(struct client_session *s, const char *name, const char *verb,
                     struct client_request request)
{
    client_path_add(&s->path, "/v1/queues/");
    client_path_encode(&s->path, name);
    client_path_add(&s->path, verb);
    return client_ask_with(s, request);
}

/* A queue that was paused in the export must not run its jobs here. */
static int queue_pause(struct client_session *s, const char *name, struct span queue)
{
    struct span until;
    if (!client_answer_true(queue, "paused"))
        return CLIENT_DONE;
    client_body_begin(s);
    if (client_answer_find(queue, "paused_until", &until)) {
        json_write_key(&s->writer, "until");
        json_write_raw(&s->writer, until);
    }
    int status = client_body_end(s);
    return status == CLIENT_DONE
               ? queue_ask(s, name, "/pause", (struct client_request){.method = "POST"})
               : status;
}

static int queue_put(struct import *im, const char *name, struct span queue)
{
    struct client_session *s = im->s;
    bool there = false;
    int status = import_find(s, "/v1/queues/", name, &there);
    if (status != CLIENT_DONE)
        return status;
    if (there && !arguments_has(s->args, "update_queues")) {
        im->kept++;
        return CLIENT_DONE;
    }
    status = queue_body(s, queue);
    if (status == CLIENT_DONE)
        status = queue_ask(s, name, "",
                           (struct client_request){.method = "PUT",
                                                   .headers = {there ? NULL : "If-None-Match: *"}});
    if (status != CLIENT_DONE)
        return status;
    if (there)
        im->changed++;
    else
        im->made++;
    return there ? CLIENT_DONE : queue_pause(s, name, queue);
}

/* Without its queue, a job would get another policy, so the import ends. */
static int queue_take(struct import *im, struct span queue)
{
    struct span name = client_answer_text(queue, "name", &im->s->arena);
    const char *text = arena_text(&im->s->arena, name);
    im->queue_lines++;
    if (!text)
        return client_no_memory();
    if (*text == '\0') {
        refuse(im, im->lines.number, SPAN_LITERAL("the queue has no name"));
        return CLIENT_DONE;
    }
    int status = queue_put(im, text, queue);
    arena_reset(&im->s->arena);
    return status == CLIENT_DONE ? status : stopped(im, status, im->lines.number);
}

/* ---- schedules ---- */

static int schedule_body(struct client_session *s, struct span schedule)
{
    struct client_members members;
    struct span name, value;
    client_body_begin(s);
    client_members_open(&members, schedule, &s->arena);
    while (client_members_next(&members, &name, &value)) {
        if (span_equal(name, SPAN_LITERAL("name")))
            continue;
        json_write_key_span(&s->writer, name);
        json_write_raw(&s->writer, value);
    }
    return client_body_end(s);
}

/* An existing schedule stays unchanged. The jobs before it are sent first, because its jobs may
 * depend on them. */
static int schedule_take(struct import *im, struct span schedule)
{
    struct client_session *s = im->s;
    im->schedule_lines++;
    bool there = false;
    int status = batch_flush(im); /* which clears the arena */
    const char *name = arena_text(&s->arena, client_answer_text(schedule, "name", &s->arena));
    if (status == CLIENT_DONE && !name)
        status = client_no_memory();
    if (status == CLIENT_DONE)
        status = import_find(s, "/v1/schedules/", name, &there);
    if (status == CLIENT_DONE && !there)
        status = schedule_body(s, schedule);
    if (status == CLIENT_DONE && !there) {
        client_path_add(&s->path, "/v1/schedules/");
        client_path_encode(&s->path, name);
        status = client_ask_with(
            s, (struct client_request){.method = "PUT", .headers = {"If-None-Match: *"}});
    }
    if (status != CLIENT_DONE)
        return stopped(im, status, im->lines.number);
    im->schedules_kept += there;
    im->schedules_made += !there;
    return CLIENT_DONE;
}

/* ---- alert rules ---- */

/* A rule that is refused counts as a refused line; the import continues. */
static int alert_take(struct import *im, struct span alert)
{
    int status = batch_flush(im);
    if (status == CLIENT_DONE)
        status = import_alert(&im->alerts, alert);
    if (status != CLIENT_REFUSED)
        return status == CLIENT_DONE ? status : stopped(im, status, im->lines.number);
    refuse(im, im->lines.number,
           SPAN_LITERAL("the alert rule is not imported; see the message above"));
    return CLIENT_DONE;
}

/* ---- keys ---- */

static void key_refused(void *ctx, uint64_t number, struct span why)
{
    refuse(ctx, number, why);
}

static int key_take(struct import *im, struct span key)
{
    int status = import_keys_add(&im->keys, im->lines.number, key);
    return status == CLIENT_DONE ? status : stopped(im, status, im->lines.number);
}

/* Keys are imported before the jobs that may read them. */
static int keys_flush(struct import *im)
{
    int status = im->keys.count > 0 ? import_keys_flush(&im->keys) : CLIENT_DONE;
    return status == CLIENT_DONE ? status : stopped(im, status, im->lines.number);
}

/* ---- lines ---- */

static int first_take(struct import *im, struct span line)
{
    struct span kind = client_answer_text(line, "holdfast", &im->s->arena);
    int64_t version = client_answer_int(line, "version", 0);
    if (!span_equal(kind, SPAN_LITERAL("export")))
        return client_complain(CLIENT_USAGE, "line 1 is not the first line of an export: "
                                             "{\"holdfast\":\"export\",\"version\":1,…}");
    if (version != EXPORT_VERSION)
        return client_complain(CLIENT_USAGE,
                               "the export has format %" PRId64 "; this holdfast reads format %d",
                               version, EXPORT_VERSION);
    return CLIENT_DONE;
}

/* Compares the counts of the last line with the lines that were read. */
static int end_take(struct import *im, struct span end)
{
    int64_t queues = client_answer_int(end, "queues", -1),
            jobs = client_answer_int(end, "jobs", -1);
    im->ended = true;
    int64_t schedules = client_answer_int(end, "schedules", 0),
            keys = client_answer_int(end, "keys", 0), alerts = client_answer_int(end, "alerts", 0);
    if (queues == (int64_t)im->queue_lines && jobs == (int64_t)im->job_lines &&
        schedules == (int64_t)im->schedule_lines && keys == (int64_t)im->keys.seen &&
        alerts == (int64_t)im->alerts.seen)
        return CLIENT_DONE;
    char why[320];
    snprintf(why, sizeof why,
             "the file should have %" PRId64 " queues, %" PRId64 " jobs, %" PRId64
             " schedules, %" PRId64 " keys and %" PRId64 " alert rules, but had %" PRIu64
             ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 " and %" PRIu64
             ": lines are missing or were added",
             queues, jobs, schedules, keys, alerts, im->queue_lines, im->job_lines,
             im->schedule_lines, im->keys.seen, im->alerts.seen);
    refuse(im, im->lines.number, span_text(why));
    return CLIENT_DONE;
}

static int line_take(struct import *im, struct span line)
{
    static const struct {
        const char *name;
        int (*take)(struct import *im, struct span value);
    } kinds[] = {
        {"job", job_take}, {"queue", queue_take}, {"schedule", schedule_take},
        {"kv", key_take},  {"alert", alert_take}, {"end", end_take},
    };
    struct span value;
    for (size_t i = 0; i < CLIENT_COUNT(kinds); i++) {
        if (!client_answer_find(line, kinds[i].name, &value))
            continue;
        int status = kinds[i].take == key_take ? CLIENT_DONE : keys_flush(im);
        return status == CLIENT_DONE ? kinds[i].take(im, value) : status;
    }
    refuse(im, im->lines.number,
           SPAN_LITERAL("it is neither {\"queue\":…} nor {\"kv\":…} nor {\"job\":…} nor "
                        "{\"schedule\":…} nor {\"alert\":…} nor {\"end\":…}"));
    return CLIENT_DONE;
}

static int line_check(struct import *im, struct span line)
{
    const char *error;
    size_t at;
    char why[160];
    bool first = im->lines.number == 1;
    if (im->ended) {
        refuse(im, im->lines.number, SPAN_LITERAL("it follows the line that ends the export"));
        return CLIENT_DONE;
    }
    if (json_check_deep(line, &error, &at) == 0)
        return first ? first_take(im, line) : line_take(im, line);
    if (first)
        return first_take(im, SPAN_LITERAL("{}"));
    snprintf(why, sizeof why, "it is not JSON at byte %zu: %s", at, error);
    refuse(im, im->lines.number, span_text(why));
    return CLIENT_DONE;
}

static int lines_take(struct import *im)
{
    struct span line;
    int status = CLIENT_DONE, more = 1;
    while (status == CLIENT_DONE &&
           (more = client_lines_next(&im->lines, &line, &im->s->note)) == 1) {
        status = line_check(im, line);
        if (im->job_count == 0)
            arena_reset(&im->s->arena);
    }
    if (more < 0)
        status = client_complain(CLIENT_USAGE, "%s", im->s->note.text);
    bool flushes = status == CLIENT_DONE || more < 0;
    int flushed = flushes ? batch_flush(im) : CLIENT_DONE;
    if (flushes && flushed == CLIENT_DONE)
        flushed = waits_connect(im, true);
    if (flushes && flushed == CLIENT_DONE)
        flushed = keys_flush(im);
    return status == CLIENT_DONE ? flushed : status;
}

/* ---- the command ---- */

static void summary_print(const struct import *im)
{
    if (im->s->json)
        printf("{\"imported\":%" PRIu64 ",\"existing\":%" PRIu64 ",\"skipped\":%" PRIu64
               ",\"refused\":%" PRIu64 ",\"queues_created\":%" PRIu64 ",\"queues_changed\":%" PRIu64
               ",\"queues_kept\":%" PRIu64 "}\n",
               im->imported, im->existing, im->skipped, im->refused, im->made, im->changed,
               im->kept);
    else
        printf("%" PRIu64 " imported, %" PRIu64 " already present, %" PRIu64
               " skipped (done or cancelled), %" PRIu64 " %ss refused; queues: %" PRIu64
               " created, %" PRIu64 " changed, %" PRIu64 " kept\n",
               im->imported, im->existing, im->skipped, im->refused, im->unit, im->made,
               im->changed, im->kept);
    if (im->schedule_lines > 0 && !im->s->json)
        printf("schedules: %" PRIu64 " created, %" PRIu64 " kept\n", im->schedules_made,
               im->schedules_kept);
    if (im->keys.seen > 0 && !im->s->json)
        printf("keys: %" PRIu64 " created, %" PRIu64 " kept\n", im->keys.made, im->keys.kept);
    if (im->alerts.seen > 0 && !im->s->json)
        printf("alert rules: %" PRIu64 " created, %" PRIu64 " kept\n", im->alerts.made,
               im->alerts.kept);
}

static int import_run(struct import *im, const char *word)
{
    struct client_session *s = im->s;
    if (client_lines_open(&im->lines, word, &s->note) < 0)
        return client_complain(CLIENT_USAGE, "%s", s->note.text);
    int status = lines_take(im);
    uint64_t lines = im->lines.number;
    client_lines_close(&im->lines);
    if (im->progress)
        fputs("\r\033[K", stderr);
    if (lines == 0)
        return client_complain(CLIENT_USAGE, "the input is empty; it must be an export");
    if (status == CLIENT_DONE && !im->ended) {
        im->refused++;
        client_complain(CLIENT_REFUSED,
                        "the file ends after line %" PRIu64 " without the line that ends an "
                        "export: it is truncated; its lines were imported",
                        lines);
    }
    if (status != CLIENT_USAGE)
        summary_print(im);
    return status == CLIENT_DONE && im->refused > 0 ? CLIENT_REFUSED : status;
}

/* ---- another program's database ---- */

static int nomarr_row_type(void *ctx, uint64_t number, struct span type)
{
    struct import *im = ctx;
    char why[128];
    if (web_types_has(&im->types, type))
        return CLIENT_DONE;
    snprintf(why, sizeof why, "the server has no queue type %.*s",
             (int)(type.len < 64 ? type.len : 64), type.at);
    refuse(im, number, span_text(why));
    return CLIENT_DONE;
}

/* The types of all rows are known at this point. */
static int nomarr_queue(void *ctx, struct span queue)
{
    struct import *im = ctx;
    if (im->types.rows > 0)
        return web_types_complain(&im->types);
    im->lines.number++;
    return queue_take(im, queue);
}

static int nomarr_job(void *ctx, uint64_t number, struct span job)
{
    struct import *im = ctx;
    im->lines.number = number;
    int status = batch_add(im, job);
    if (im->job_count == 0)
        arena_reset(&im->s->arena);
    return status;
}

static void nomarr_wrong(void *ctx, uint64_t number, const char *why)
{
    refuse(ctx, number, span_text(why));
}

static int nomarr_run(struct import *im, const char *file)
{
    const struct nomarr_take take = {im, nomarr_row_type, nomarr_queue, nomarr_job, nomarr_wrong};
    im->unit = "row";
    web_types_init(&im->types);
    int status = web_types_ask(&im->types, im->s);
    if (status == CLIENT_DONE)
        status = import_nomarr(file, &take, &im->s->note);
    web_types_done(&im->types);
    if (status < 0)
        status = client_complain(CLIENT_USAGE, "%s", im->s->note.text);
    else if (status == CLIENT_DONE)
        status = batch_flush(im);
    if (im->progress)
        fputs("\r\033[K", stderr);
    if (status != CLIENT_USAGE)
        summary_print(im);
    return status == CLIENT_DONE && im->refused > 0 ? CLIENT_REFUSED : status;
}

static int import(struct client_session *s)
{
    struct import im = {.s = s,
                        .unit = "line",
                        .keys = {.s = s, .refuse = key_refused},
                        .alerts = {.s = s},
                        .waits = {.s = s,
                                  .refuse = wait_refused,
                                  .ignore_missing = arguments_has(s->args, "ignore_missing")},
                        .progress = isatty(STDERR_FILENO)};
    const char *nomarr = arguments_text(s->args, "nomarr", NULL);
    const char *file = s->args->word_count > 0 ? s->args->words[0] : "-";
    struct buf word;
    buf_init(&im.batch);
    import_waits_init(&im.waits);
    buf_init(&word);
    im.jobs = mem_array(BATCH_JOBS, sizeof *im.jobs);
    bool named = strcmp(file, "-") != 0;
    int status = CLIENT_DONE;
    im.keys.ctx = im.waits.ctx = &im;
    if (import_keys_init(&im.keys) < 0 || !im.jobs ||
        buf_printf(&word, "%s%s", named ? "@" : "", file) < 0 || buf_append(&word, "", 1) < 0)
        status = client_no_memory();
    else
        status = nomarr ? nomarr_run(&im, nomarr) : import_run(&im, word.data);
    mem_free(im.jobs);
    import_keys_done(&im.keys);
    import_waits_done(&im.waits);
    buf_done(&im.batch);
    buf_done(&word);
    return status;
}

int client_import(const struct command *cmd, const struct arguments *args)
{
    if (arguments_has(args, "nomarr") && args->word_count > 0)
        return client_complain(CLIENT_USAGE, "--nomarr names the file to read; give no other file");
    return client_run(cmd, args, import);
}
