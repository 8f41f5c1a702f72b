/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast export: the queues and jobs of a running server, page by page, or (--data, see
 * export_store.c) of a store that no server uses.
 *
 * Pages follow the sequence of jobs, which never changes: no job is exported twice, and every
 * job is exported that was in one of the states when its page was read. */
#include <inttypes.h>
#include <string.h>

#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/session.h"
#include "cli/transfer/export_file.h"
#include "cli/transfer/export_store.h"
#include "core/limits.h"

#define PAGE_ITEMS "500"
#define STATES_USUAL "scheduled,blocked,ready,running,dead"
#define DAMAGE_TOLD 20 /* damaged lines that are named */

static int cannot(const struct err_note *note)
{
    return client_complain(CLIENT_USAGE, "%s", note->text);
}

/* ---- damage ---- */

/* Whether the line just written is damaged and must be named. Such lines stay in the file: they
 * show which job it was. */
static bool damage_printed(const struct export_file *f, uint64_t before)
{
    if (f->damaged > before && before == DAMAGE_TOLD)
        client_complain(CLIENT_REFUSED, "more lines are damaged; these are only counted");
    return f->damaged > before && before < DAMAGE_TOLD;
}

static void job_print(struct client_session *s, struct span job)
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
                    "job %.*s is damaged: the server cannot read these parts of it: %s",
                    (int)id.len, id.at, parts);
}

static void key_print(struct client_session *s, struct span view)
{
    (void)s;
    struct span key = {NULL, 0};
    (void)client_answer_find(view, "key", &key);
    client_complain(CLIENT_REFUSED, "key %.*s is damaged: the server cannot read its value",
                    (int)key.len, key.at);
}

/* ---- lists that the server gives page by page ---- */

struct export_list {
    const char *path, *items;
    int (*item)(struct export_file *f, struct span item, struct err_note *note);
    void (*tell)(struct client_session *s,
                 struct span item); /* names a damaged item; NULL = never */
};

static int item_named(struct client_session *s, struct export_file *f,
                      const struct export_list *list, struct span item)
{
    uint64_t before = f->damaged;
    if (list->item(f, item, &s->note) < 0)
        return cannot(&s->note);
    if (damage_printed(f, before) && list->tell)
        list->tell(s, item);
    return CLIENT_DONE;
}

static int page_write(struct client_session *s, struct export_file *f,
                      const struct export_list *list)
{
    struct client_items items;
    struct span item;
    int status = CLIENT_DONE;
    client_items_of(&items, client_answer(s), list->items);
    while (status == CLIENT_DONE && client_items_next(&items, &item))
        status = item_named(s, f, list, item);
    return status;
}

static bool next_of(struct client_session *s, char *into, size_t room)
{
    struct span next = client_answer_text(client_answer(s), "next_cursor", &s->arena);
    if (next.len == 0 || next.len >= room)
        return false;
    memcpy(into, next.at, next.len);
    into[next.len] = '\0';
    return true;
}

/* queue and states are for lists of jobs only; NULL = all. */
static int list_write(struct client_session *s, struct export_file *f,
                      const struct export_list *list, const char *queue, const char *states)
{
    const char *details = list->item == export_job ? "true" : NULL;
    char cursor[2 * LIMIT_KV_KEY_BYTES + 2] = "";
    bool more = true;
    while (more) {
        client_path_add(&s->path, list->path);
        client_path_query(&s->path, "limit", PAGE_ITEMS);
        client_path_query(&s->path, "reports", details);
        client_path_query(&s->path, "dependencies", details);
        client_path_query(&s->path, "state", states);
        client_path_query(&s->path, "queue", queue);
        client_path_query(&s->path, "cursor", *cursor ? cursor : NULL);
        int status = client_ask(s, "GET");
        if (status == CLIENT_DONE)
            status = page_write(s, f, list);
        if (status != CLIENT_DONE)
            return status;
        more = next_of(s, cursor, sizeof cursor);
        arena_reset(&s->arena);
    }
    return CLIENT_DONE;
}

static const struct export_list queues = {"/v1/queues", "queues", export_queue, NULL};
static const struct export_list keys = {"/v1/kv", "keys", export_key, key_print};
static const struct export_list jobs = {"/v1/jobs", "jobs", export_job, job_print};
static const struct export_list schedules = {"/v1/schedules", "schedules", export_schedule, NULL};
static const struct export_list alerts = {"/v1/alerts", "alerts", export_alert, NULL};

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

static int jobs_named(struct client_session *s, struct export_file *f, const char *states)
{
    size_t at = 0;
    const char *name;
    int status = CLIENT_DONE;
    while (status == CLIENT_DONE && (name = arguments_next(s->args, "queue", &at)))
        status = list_write(s, f, &jobs, name, states);
    return status;
}

/* ---- the command ---- */

static int write_all(struct client_session *s, struct export_file *f)
{
    struct clock clock = clock_system();
    if (export_begin(f, client_server(s->client), clock_now(&clock).wall, &s->note) < 0)
        return cannot(&s->note);
    const char *states =
        arguments_has(s->args, "all") ? NULL : arguments_text(s->args, "state", STATES_USUAL);
    /* Keys, schedules and rules have no queue: they are only in an export of everything. */
    bool everything = !arguments_has(s->args, "queue");
    int status = everything ? list_write(s, f, &queues, NULL, NULL) : queues_named(s, f);
    if (status == CLIENT_DONE && everything)
        status = list_write(s, f, &keys, NULL, NULL);
    if (status == CLIENT_DONE)
        status = everything ? list_write(s, f, &jobs, NULL, states) : jobs_named(s, f, states);
    if (status == CLIENT_DONE && everything)
        status = list_write(s, f, &schedules, NULL, NULL);
    if (status == CLIENT_DONE && everything)
        status = list_write(s, f, &alerts, NULL, NULL);
    if (status == CLIENT_DONE && export_end(f, 0, &s->note) < 0)
        status = cannot(&s->note);
    return status;
}

/* The same status as for the export of a damaged store, so that scripts need only one. */
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
        return client_complain(CLIENT_USAGE, "--all and --state cannot be combined");
    if (arguments_has(args, "data") && arguments_has(args, "server"))
        return client_complain(
            CLIENT_USAGE,
            "--data reads a store that no server uses; it cannot be combined with --server");
    static const char *const filters[] = {"queue", "state"};
    int status = client_filters_check(args, filters, CLIENT_COUNT(filters));
    if (status != CLIENT_DONE)
        return status;
    return arguments_has(args, "data") ? export_store(args) : client_run(cmd, args, export);
}
