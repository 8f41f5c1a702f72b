/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast export: the queues and jobs of a running server, page by page, or (--data, see
 * export_store.c) of a store that no server uses.
 *
 * Pages follow the sequence of jobs, which never changes: none comes twice, none is passed over
 * that was in one of the states when its page was read. */
#include <inttypes.h>
#include <string.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/session.h"
#include "cli/transfer/export_file.h"
#include "cli/transfer/export_store.h"
#include "core/limits.h"

#define PAGE_JOBS "500"
#define PAGE_QUEUES "500"
#define STATES_USUAL "scheduled,ready,running,dead"
#define DAMAGE_TOLD 20 /* lines that are named */

static int cannot(const struct err_note *note)
{
    return client_complain(CLIENT_USAGE, "%s", note->text);
}

/* ---- damage ---- */

/* Whether the line just written is damaged and shall be named. Lines stay in the file: who the job
 * was is worth knowing. */
static bool damage_told(const struct export_file *f, uint64_t before)
{
    if (f->damaged > before && before == DAMAGE_TOLD)
        client_complain(CLIENT_REFUSED, "more lines are damaged; these are only counted");
    return f->damaged > before && before < DAMAGE_TOLD;
}

static void job_tell(struct client_session *s, struct span job)
{
    struct client_items items;
    struct span item, id = client_answer_text(job, "id", &s->arena);
    char parts[80] = "";
    size_t len = 0;
    client_items_of(&items, job, "damaged");
    while (client_items_next(&items, &item) && item.len > 2 && len + item.len < sizeof parts)
        len += (size_t)snprintf(parts + len, sizeof parts - len, "%s%.*s", len ? ", " : "",
                                (int)item.len - 2, item.at + 1);
    client_complain(CLIENT_REFUSED,
                    "job %.*s is damaged: the server cannot read this of it as it was written: %s",
                    (int)id.len, id.at, parts);
}

static void key_tell(struct span view)
{
    struct span key = {NULL, 0};
    (void)client_answer_find(view, "key", &key);
    client_complain(CLIENT_REFUSED,
                    "key %.*s is damaged: the server cannot read its value as it was written",
                    (int)key.len, key.at);
}

/* ---- queues ---- */

static bool next_of(struct client_session *s, const char *member, char *into, size_t room)
{
    struct span next = client_answer_text(client_answer(s), member, &s->arena);
    if (next.len == 0 || next.len >= room)
        return false;
    memcpy(into, next.at, next.len);
    into[next.len] = '\0';
    return true;
}

static int queues_page(struct client_session *s, struct export_file *f)
{
    struct client_items items;
    struct span queue;
    client_items_of(&items, client_answer(s), "queues");
    while (client_items_next(&items, &queue))
        if (export_queue(f, queue, &s->note) < 0)
            return cannot(&s->note);
    return CLIENT_DONE;
}

static int queues_all(struct client_session *s, struct export_file *f)
{
    char after[1024] = "";
    bool more = true;
    while (more) {
        client_path_add(&s->path, "/v1/queues");
        client_path_query(&s->path, "limit", PAGE_QUEUES);
        client_path_query(&s->path, "after", *after ? after : NULL);
        int status = client_ask(s, "GET");
        if (status == CLIENT_DONE)
            status = queues_page(s, f);
        if (status != CLIENT_DONE)
            return status;
        more = next_of(s, "next", after, sizeof after);
        arena_reset(&s->arena);
    }
    return CLIENT_DONE;
}

static int queues_named(struct client_session *s, struct export_file *f)
{
    size_t at = 0;
    const char *name;
    while ((name = arguments_next(s->args, "queue", &at))) {
        client_path_add(&s->path, "/v1/queues/");
        client_path_encode(&s->path, name);
        int status = client_ask(s, "GET");
        if (status != CLIENT_DONE)
            return status;
        if (export_queue(f, client_answer(s), &s->note) < 0)
            return cannot(&s->note);
    }
    return CLIENT_DONE;
}

/* ---- jobs ---- */

static int jobs_page(struct client_session *s, struct export_file *f)
{
    struct client_items items;
    struct span job;
    client_items_of(&items, client_answer(s), "jobs");
    while (client_items_next(&items, &job)) {
        uint64_t before = f->damaged;
        if (export_job(f, job, &s->note) < 0)
            return cannot(&s->note);
        if (damage_told(f, before))
            job_tell(s, job);
    }
    return CLIENT_DONE;
}

/* Of one queue, or (NULL) of all. */
static int jobs_of(struct client_session *s, struct export_file *f, const char *queue)
{
    char cursor[256] = "";
    const char *states =
        arguments_has(s->args, "all") ? NULL : arguments_text(s->args, "state", STATES_USUAL);
    bool more = true;
    while (more) {
        client_path_add(&s->path, "/v1/jobs");
        client_path_query(&s->path, "limit", PAGE_JOBS);
        client_path_query(&s->path, "state", states);
        client_path_query(&s->path, "queue", queue);
        client_path_query(&s->path, "cursor", *cursor ? cursor : NULL);
        int status = client_ask(s, "GET");
        if (status == CLIENT_DONE)
            status = jobs_page(s, f);
        if (status != CLIENT_DONE)
            return status;
        more = next_of(s, "cursor", cursor, sizeof cursor);
        arena_reset(&s->arena);
    }
    return CLIENT_DONE;
}

static int jobs_all(struct client_session *s, struct export_file *f)
{
    size_t at = 0;
    int status = CLIENT_DONE;
    if (!arguments_has(s->args, "queue"))
        return jobs_of(s, f, NULL);
    const char *name;
    while (status == CLIENT_DONE && (name = arguments_next(s->args, "queue", &at)))
        status = jobs_of(s, f, name);
    return status;
}

/* ---- keys ---- */

static int keys_page(struct client_session *s, struct export_file *f)
{
    struct client_items items;
    struct span key;
    client_items_of(&items, client_answer(s), "keys");
    while (client_items_next(&items, &key)) {
        uint64_t before = f->damaged;
        if (export_key(f, key, &s->note) < 0)
            return cannot(&s->note);
        if (damage_told(f, before))
            key_tell(key);
    }
    return CLIENT_DONE;
}

static int keys_all(struct client_session *s, struct export_file *f)
{
    char cursor[2 * LIMIT_KV_KEY_BYTES + 2] = "";
    bool more = true;
    while (more) {
        client_path_add(&s->path, "/v1/kv");
        client_path_query(&s->path, "limit", PAGE_JOBS);
        client_path_query(&s->path, "cursor", *cursor ? cursor : NULL);
        int status = client_ask(s, "GET");
        if (status == CLIENT_DONE)
            status = keys_page(s, f);
        if (status != CLIENT_DONE)
            return status;
        more = next_of(s, "cursor", cursor, sizeof cursor);
        arena_reset(&s->arena);
    }
    return CLIENT_DONE;
}

/* ---- schedules ---- */

static int schedules_page(struct client_session *s, struct export_file *f)
{
    struct client_items items;
    struct span schedule;
    client_items_of(&items, client_answer(s), "schedules");
    while (client_items_next(&items, &schedule))
        if (export_schedule(f, schedule, &s->note) < 0)
            return cannot(&s->note);
    return CLIENT_DONE;
}

static int schedules_all(struct client_session *s, struct export_file *f)
{
    char after[1024] = "";
    bool more = true;
    while (more) {
        client_path_add(&s->path, "/v1/schedules");
        client_path_query(&s->path, "limit", PAGE_QUEUES);
        client_path_query(&s->path, "after", *after ? after : NULL);
        int status = client_ask(s, "GET");
        if (status == CLIENT_DONE)
            status = schedules_page(s, f);
        if (status != CLIENT_DONE)
            return status;
        more = next_of(s, "next", after, sizeof after);
        arena_reset(&s->arena);
    }
    return CLIENT_DONE;
}

/* ---- alert rules ---- */

static int alerts_all(struct client_session *s, struct export_file *f)
{
    struct client_items items;
    struct span alert;
    client_path_add(&s->path, "/v1/alerts");
    int status = client_ask(s, "GET");
    if (status != CLIENT_DONE)
        return status;
    client_items_of(&items, client_answer(s), "alerts");
    while (client_items_next(&items, &alert))
        if (export_alert(f, alert, &s->note) < 0)
            return cannot(&s->note);
    return CLIENT_DONE;
}

/* ---- the command ---- */

static int write_all(struct client_session *s, struct export_file *f)
{
    struct clock clock = clock_system();
    if (export_begin(f, client_server(s->client), clock_now(&clock).wall, &s->note) < 0)
        return cannot(&s->note);
    int status = arguments_has(s->args, "queue") ? queues_named(s, f) : queues_all(s, f);
    /* Keys, schedules and rules belong to no queue: they are in an export of everything. */
    bool everything = !arguments_has(s->args, "queue");
    if (status == CLIENT_DONE && everything)
        status = keys_all(s, f);
    if (status == CLIENT_DONE)
        status = jobs_all(s, f);
    if (status == CLIENT_DONE && everything)
        status = schedules_all(s, f);
    if (status == CLIENT_DONE && everything)
        status = alerts_all(s, f);
    if (status == CLIENT_DONE && export_end(f, 0, &s->note) < 0)
        status = cannot(&s->note);
    return status;
}

/* The status is that of an export of a damaged store, so that scripts need to know only one. */
static int verdict(const struct export_file *f)
{
    if (f->name || f->damaged > 0)
        fprintf(stderr, "%" PRIu64 " jobs and %" PRIu64 " queues exported", f->jobs, f->queues);
    if (f->damaged > 0)
        fprintf(stderr,
                "; %" PRIu64 " lines are marked as damaged, and an import refuses those without a "
                "payload, keys or value",
                f->damaged);
    if (f->name || f->damaged > 0)
        fputc('\n', stderr);
    return f->damaged > 0 ? CLIENT_REFUSED : CLIENT_DONE;
}

static int export(struct client_session *s)
{
    struct export_file f;
    if (export_open(&f, arguments_text(s->args, "output", NULL), arguments_has(s->args, "force"),
                    &s->note) < 0)
        return cannot(&s->note);
    int status = write_all(s, &f);
    if (status == CLIENT_DONE)
        status = verdict(&f);
    export_close(&f);
    return status;
}

int client_export(const struct command *cmd, const struct arguments *args)
{
    if (arguments_has(args, "all") && arguments_has(args, "state"))
        return client_complain(CLIENT_USAGE, "--all and --state exclude each other");
    if (arguments_has(args, "data") && arguments_has(args, "server"))
        return client_complain(CLIENT_USAGE, "--data reads a store that no server uses; it goes "
                                             "without --server");
    static const char *const filters[] = {"queue", "state"};
    int status = client_filters_check(args, filters, CLIENT_COUNT(filters));
    if (status != CLIENT_DONE)
        return status;
    return arguments_has(args, "data") ? export_store(args) : client_run(cmd, args, export);
}
