/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/export_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "cli/client/answer.h"
#include "cli/client/terminal/text.h"
#include "server/version.h"

#define PROGRESS_EVERY 1000

static int failed(const struct export_file *f, struct err_note *note)
{
    int code = errno == ENOSPC || errno == EDQUOT ? -ERR_NO_SPACE : -ERR_IO;
    return err_note_set(note, code, "cannot write %s: %s", f->part ? f->part : "standard output",
                        strerror(errno));
}

static int no_memory(struct err_note *note)
{
    return err_note_set(note, -ERR_NOMEM, "out of memory");
}

/* ---- opening ---- */

static int taken(const struct export_file *f, struct err_note *note)
{
    struct stat st;
    if (f->force || lstat(f->name, &st) != 0)
        return 0;
    return err_note_set(note, -ERR_INVALID,
                        "%s exists; give another name, or --force to replace it", f->name);
}

/* Readable only by the owner, because of the payloads. A file that another run left is replaced,
 * and a symbolic link is not followed. */
static int file_open(struct export_file *f, struct err_note *note)
{
    int rc = taken(f, note);
    if (rc < 0)
        return rc;
    (void)unlink(f->part);
    int fd = open(f->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    f->out = fd >= 0 ? fdopen(fd, "we") : NULL;
    if (f->out)
        return 0;
    rc = failed(f, note);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int names_init(struct export_file *f, const char *name)
{
    struct buf part;
    buf_init(&part);
    f->name = mem_text(name, strlen(name));
    if (buf_printf(&part, "%s.part", name) == 0)
        f->part = mem_text(part.data, part.len);
    buf_done(&part);
    return f->name && f->part ? 0 : -ERR_NOMEM;
}

int export_open(struct export_file *f, const char *name, bool force, struct err_note *note)
{
    *f = (struct export_file){.force = force, .progress = isatty(STDERR_FILENO)};
    buf_init(&f->line);
    arena_init(&f->arena);
    int rc = 0;
    if (!name)
        f->out = stdout;
    else if (names_init(f, name) < 0)
        rc = no_memory(note);
    else
        rc = file_open(f, note);
    if (rc < 0)
        export_close(f);
    return rc;
}

void export_close(struct export_file *f)
{
    if (f->out && f->part) {
        (void)fclose(f->out);
        (void)unlink(f->part);
    }
    f->out = NULL;
    mem_free(f->name);
    mem_free(f->part);
    f->name = f->part = NULL;
    buf_done(&f->line);
    arena_done(&f->arena);
}

/* ---- lines ---- */

static void line_begin(struct export_file *f, struct json_writer *w)
{
    buf_clear(&f->line);
    arena_reset(&f->arena);
    json_writer_init(w, &f->line);
    json_write_object(w);
}

static int line_end(struct export_file *f, struct json_writer *w, struct err_note *note)
{
    json_write_object_end(w);
    if (json_writer_finish(w) < 0 || buf_append(&f->line, "\n", 1) < 0)
        return no_memory(note);
    return fwrite(f->line.data, 1, f->line.len, f->out) == f->line.len ? 0 : failed(f, note);
}

static void progress_show(const struct export_file *f)
{
    if (f->progress && f->jobs % PROGRESS_EVERY == 0)
        fprintf(stderr, "\r%" PRIu64 " jobs ", f->jobs);
}

static bool has_break(struct span value)
{
    return value.len > 0 &&
           (memchr(value.at, '\n', value.len) || memchr(value.at, '\r', value.len));
}

/* Writes a value on one line: a payload, a result or a key's value that has line breaks becomes
 * a text under NAME_json, so that its bytes are preserved; elsewhere white space is not
 * significant. */
static int value_write(struct json_writer *w, struct span name, struct span value)
{
    static const char *const exact[][2] = {
        {"payload", "payload_json"}, {"result", "result_json"}, {"value", "value_json"}};
    for (size_t i = 0; i < 3 && has_break(value); i++) {
        if (!span_equal(name, span_text(exact[i][0])))
            continue;
        json_write_key(w, exact[i][1]);
        json_write_text(w, value);
        return 0;
    }
    struct buf flat;
    buf_init(&flat);
    int rc = has_break(value) ? client_text_json(&flat, value, false) : 0;
    json_write_key_span(w, name);
    json_write_raw(w, flat.len > 0 ? buf_span(&flat) : value);
    buf_done(&flat);
    return rc;
}

static bool among(struct span name, const char *const *names)
{
    for (; *names; names++)
        if (span_equal(name, span_text(*names)))
            return true;
    return false;
}

static bool is_null(struct span value)
{
    return span_equal(value, SPAN_LITERAL("null"));
}

/* Whether the server could not read this part of the job. */
static bool is_damaged(struct span view, const char *part)
{
    struct client_items items;
    struct span item, list = {NULL, 0};
    if (!client_answer_find(view, "damaged", &list))
        return false;
    client_items_open(&items, list);
    while (client_items_next(&items, &item))
        if (!part || (item.len == strlen(part) + 2 && memcmp(item.at + 1, part, item.len - 2) == 0))
            return true;
    return false;
}

/* Members that are not exported: those that are valid only in this store, follow from others, or
 * are null, except a payload, which may be null itself. */
static bool job_member(struct span name, struct span value, bool no_payload)
{
    static const char *const left_out[] = {
        "uuid",          "started_at", "lease_until", "worker", "history",
        "payload_bytes", "waited_ms",  "token",       "job",    NULL};
    if (among(name, left_out))
        return false;
    if (span_equal(name, SPAN_LITERAL("payload")))
        return !(no_payload && is_null(value));
    return !is_null(value);
}

int export_job(struct export_file *f, struct span view, struct err_note *note)
{
    struct json_writer w;
    struct client_members members;
    struct span name, value;
    /* A payload that cannot be read must not be exported as null. */
    bool no_payload =
        client_answer_int(view, "payload_bytes", 1) == 0 || is_damaged(view, "payload");
    int rc = 0;
    line_begin(f, &w);
    json_write_key(&w, "job");
    json_write_object(&w);
    client_members_open(&members, view, &f->arena);
    while (rc == 0 && client_members_next(&members, &name, &value))
        if (job_member(name, value, no_payload))
            rc = value_write(&w, name, value);
    json_write_object_end(&w);
    if (rc < 0)
        return no_memory(note);
    f->jobs++;
    f->damaged += is_damaged(view, NULL);
    progress_show(f);
    return line_end(f, &w, note);
}

/* Writes a line with the exported members of a view. */
static int members_write(struct export_file *f, const char *kind, struct span view,
                         const char *const *kept, uint64_t *count, struct err_note *note)
{
    struct json_writer w;
    struct client_members members;
    struct span name, value;
    int rc = 0;
    line_begin(f, &w);
    json_write_key(&w, kind);
    json_write_object(&w);
    client_members_open(&members, view, &f->arena);
    while (rc == 0 && client_members_next(&members, &name, &value))
        if (among(name, kept) && (!is_null(value) || span_equal(name, SPAN_LITERAL("value"))))
            rc = value_write(&w, name, value);
    json_write_object_end(&w);
    if (rc < 0)
        return no_memory(note);
    ++*count;
    return line_end(f, &w, note);
}

int export_queue(struct export_file *f, struct span view, struct err_note *note)
{
    static const char *const kept[] = {"name",   "owner",        "description",
                                       "paused", "paused_until", "created_at",
                                       "policy", "attributes",   NULL};
    return members_write(f, "queue", view, kept, &f->queues, note);
}

/* The definition, without its state. */
int export_schedule(struct export_file *f, struct span view, struct err_note *note)
{
    static const char *const kept[] = {"name",
                                       "owner",
                                       "description",
                                       "paused",
                                       "queue",
                                       "cron",
                                       "timezone",
                                       "dst_gap",
                                       "dst_fold",
                                       "every_ms",
                                       "start_at",
                                       "misfire",
                                       "misfire_window_ms",
                                       "overlap",
                                       "source_queue",
                                       "batch_size",
                                       "interval_ms",
                                       "eager",
                                       "job",
                                       NULL};
    return members_write(f, "schedule", view, kept, &f->schedules, note);
}

/* null is a value. Versions are specific to a server. */
int export_key(struct export_file *f, struct span view, struct err_note *note)
{
    static const char *const kept[] = {"key",          "value",      "value_text", "damaged",
                                       "value_base64", "expires_at", NULL};
    f->damaged += client_answer_true(view, "damaged");
    return members_write(f, "kv", view, kept, &f->keys, note);
}

/* Whether a secret exists is reported; the secret is not. */
static void webhook_write(struct json_writer *w, struct span webhook, struct arena *arena)
{
    struct span secret = client_answer_text(webhook, "secret", arena), url;
    json_write_key(w, "webhook");
    json_write_object(w);
    if (client_answer_find(webhook, "url", &url)) {
        json_write_key(w, "url");
        json_write_raw(w, url);
    }
    json_write_key(w, "signed");
    json_write_bool(w, span_equal(secret, SPAN_LITERAL("set")));
    json_write_object_end(w);
}

/* The rule, without the notices that it raised. */
int export_alert(struct export_file *f, struct span view, struct err_note *note)
{
    static const char *const kept[] = {"name",     "on",           "queue",     "enabled",
                                       "depth",    "percent",      "window_ms", "min_ends",
                                       "after_ms", "with_payload", NULL};
    struct json_writer w;
    struct client_members members;
    struct span name, value;
    line_begin(f, &w);
    json_write_key(&w, "alert");
    json_write_object(&w);
    client_members_open(&members, view, &f->arena);
    while (client_members_next(&members, &name, &value)) {
        if (span_equal(name, SPAN_LITERAL("webhook")) && !is_null(value)) {
            webhook_write(&w, value, &f->arena);
        } else if (among(name, kept)) {
            json_write_key_span(&w, name);
            json_write_raw(&w, value);
        }
    }
    json_write_object_end(&w);
    f->alerts++;
    return line_end(f, &w, note);
}

int export_begin(struct export_file *f, const char *source, struct wall_time now,
                 struct err_note *note)
{
    struct json_writer w;
    char time[WALL_TEXT_BYTES];
    wall_text(now, time);
    line_begin(f, &w);
    json_write_key(&w, "holdfast");
    json_write_text(&w, SPAN_LITERAL("export"));
    json_write_key(&w, "version");
    json_write_uint(&w, EXPORT_VERSION);
    json_write_key(&w, "created_at");
    json_write_text(&w, span_text(time));
    json_write_key(&w, "source");
    json_write_text(&w, span_text(source));
    json_write_key(&w, "made_by");
    json_write_text(&w, span_text(version_number()));
    json_write_key(&w, "secrets");
    json_write_bool(&w, false);
    return line_end(f, &w, note);
}

/* ---- the end ---- */

/* Syncs the directory, so that the new name is durable as well. */
static int name_sync(struct export_file *f, struct err_note *note)
{
    char *copy = mem_text(f->name, strlen(f->name));
    if (!copy)
        return no_memory(note);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 && fsync(fd) == 0 ? 0 : failed(f, note);
    if (fd >= 0)
        close(fd);
    mem_free(copy);
    return rc;
}

static int file_finish(struct export_file *f, struct err_note *note)
{
    if (fflush(f->out) != 0 || fsync(fileno(f->out)) != 0)
        return failed(f, note);
    int rc = taken(f, note);
    if (rc < 0)
        return rc;
    if (rename(f->part, f->name) != 0)
        return failed(f, note);
    rc = fclose(f->out) == 0 ? 0 : failed(f, note);
    f->out = NULL;
    return rc < 0 ? rc : name_sync(f, note);
}

int export_end(struct export_file *f, uint64_t skipped, struct err_note *note)
{
    struct json_writer w;
    line_begin(f, &w);
    json_write_key(&w, "end");
    json_write_object(&w);
    json_write_key(&w, "queues");
    json_write_uint(&w, f->queues);
    json_write_key(&w, "jobs");
    json_write_uint(&w, f->jobs);
    if (f->schedules > 0) {
        json_write_key(&w, "schedules");
        json_write_uint(&w, f->schedules);
    }
    if (f->keys > 0) {
        json_write_key(&w, "keys");
        json_write_uint(&w, f->keys);
    }
    if (f->alerts > 0) {
        json_write_key(&w, "alerts");
        json_write_uint(&w, f->alerts);
    }
    if (f->damaged > 0) {
        json_write_key(&w, "damaged");
        json_write_uint(&w, f->damaged);
    }
    if (skipped > 0) {
        json_write_key(&w, "skipped");
        json_write_uint(&w, skipped);
    }
    json_write_object_end(&w);
    int rc = line_end(f, &w, note);
    if (f->progress)
        fputs("\r\033[K", stderr);
    if (rc < 0)
        return rc;
    if (!f->part)
        return fflush(f->out) == 0 ? 0 : failed(f, note);
    return file_finish(f, note);
}
