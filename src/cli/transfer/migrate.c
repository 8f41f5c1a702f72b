/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/migrate.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/mem.h"
#include "cli/client/session.h"
#include "cli/client/terminal/interrupt.h"
#include "cli/transfer/migrate_impl.h"

#define SQLITE "sqlite:"

const struct option migrate_options[5] = {
    {"from", 0, "URL", "the store to copy: sqlite:DIR, postgres://…, redis://…", OPTION_TEXT},
    {"to", 0, "URL", "the store to copy it to, which must be empty", OPTION_TEXT},
    {"resume", 0, NULL, "continue with a target that an interrupted migrate left", OPTION_FLAG},
    {"dry_run", 0, NULL, "only count what the source has; the target is not opened", OPTION_FLAG},
    {"json", 'j', NULL, "print the result as JSON", OPTION_FLAG},
};

bool migrate_interrupted(void)
{
    return client_interrupt_pending();
}

/* ---- which stores ---- */

static bool begins(const char *url, const char *scheme)
{
    return strncmp(url, scheme, strlen(scheme)) == 0;
}

/* Whether both addresses name the same store, as far as the texts show. */
static bool same_store(const char *a, const char *b)
{
    char x[PATH_MAX], y[PATH_MAX];
    if (begins(a, SQLITE) && begins(b, SQLITE) && realpath(a + strlen(SQLITE), x) &&
        realpath(b + strlen(SQLITE), y))
        return strcmp(x, y) == 0;
    const char *rest_a = begins(a, "postgresql:") ? a + 11 : begins(a, "postgres:") ? a + 9 : a;
    const char *rest_b = begins(b, "postgresql:") ? b + 11 : begins(b, "postgres:") ? b + 9 : b;
    return strcmp(rest_a, rest_b) == 0;
}

/* A server would create a store that does not exist; a mistyped name must not have this effect. */
static int source_there(const char *url)
{
    char file[PATH_MAX];
    struct stat st;
    if (!begins(url, SQLITE) || url[strlen(SQLITE)] == '\0')
        return CLIENT_DONE;
    int len = snprintf(file, sizeof file, "%s/holdfast.db", url + strlen(SQLITE));
    if (len > 0 && (size_t)len < sizeof file && stat(file, &st) == 0)
        return CLIENT_DONE;
    return client_complain(CLIENT_USAGE,
                           "the source cannot be opened: %s has no store (there is "
                           "no holdfast.db in it)",
                           url + strlen(SQLITE));
}

static int urls_check(const char *from, const char *to)
{
    if (begins(from, "memory:"))
        return client_complain(CLIENT_USAGE,
                               "memory: cannot be the source: its jobs exist only in the running "
                               "server; `holdfast export` reads those of a running server");
    if (begins(to, "memory:"))
        return client_complain(
            CLIENT_USAGE,
            "memory: cannot be the target: the copy would be lost when this command ends");
    if (same_store(from, to))
        return client_complain(CLIENT_USAGE, "source and target are the same store");
    return source_there(from);
}

/* ---- what is said ---- */

static void jobs_print(const struct migrate *m)
{
    const char *between = " (";
    for (int s = STATE_SCHEDULED; s < STATE_COUNT; s++) {
        if (m->found.jobs[s] == 0)
            continue;
        printf("%s%" PRIu64 " %s", between, m->found.jobs[s], state_name((enum job_state)s));
        between = ", ";
    }
    if (counts_jobs(&m->found) > 0)
        putchar(')');
}

static void found_print(const struct migrate *m)
{
    const struct migrate_counts *c = &m->found;
    printf("%" PRIu64 " queues, %" PRIu64 " jobs", c->queues, counts_jobs(c));
    jobs_print(m);
    printf(", %" PRIu64 " keys, %" PRIu64 " schedules, %" PRIu64 " alert rules", c->keys,
           c->schedules, c->alerts);
}

static void found_json(const struct migrate *m)
{
    const struct migrate_counts *c = &m->found;
    printf("\"queues\":%" PRIu64 ",\"jobs\":{", c->queues);
    for (int s = STATE_SCHEDULED; s < STATE_COUNT; s++)
        printf("%s\"%s\":%" PRIu64, s > STATE_SCHEDULED ? "," : "", state_name((enum job_state)s),
               c->jobs[s]);
    printf("},\"keys\":%" PRIu64 ",\"schedules\":%" PRIu64 ",\"alerts\":%" PRIu64, c->keys,
           c->schedules, c->alerts);
}

static int dry_run_print(const struct migrate *m)
{
    if (arguments_has(m->args, "json")) {
        fputs("{\"dry_run\":true,\"source\":{", stdout);
        found_json(m);
        puts("}}");
    } else {
        fputs("the source has ", stdout);
        found_print(m);
        puts("; nothing was copied");
    }
    return CLIENT_DONE;
}

static int result_print(const struct migrate *m, uint64_t copied)
{
    if (arguments_has(m->args, "json")) {
        fputs("{\"source\":{", stdout);
        found_json(m);
        printf("},\"copied\":%" PRIu64 ",\"there\":%" PRIu64 ",\"verified\":true}\n", copied,
               m->there);
        return CLIENT_DONE;
    }
    fputs("the source has ", stdout);
    found_print(m);
    printf("; %" PRIu64 " jobs copied, %" PRIu64
           " already present, and all of the target compared\n",
           copied, m->there);
    return CLIENT_DONE;
}

/* ---- the way ---- */

static int target_ready(struct migrate *m, uint64_t *ret_after)
{
    bool empty;
    *ret_after = 0;
    int status = target_empty(m, &empty);
    if (status == CLIENT_DONE && !empty && !arguments_has(m->args, "resume"))
        return client_complain(CLIENT_REFUSED,
                               "the target is not empty; name an empty one, or use --resume if an "
                               "interrupted migrate left it so");
    return status == CLIENT_DONE && !empty ? resume_point(m, ret_after) : status;
}

static int copy(struct migrate *m, uint64_t after)
{
    progress_begin(&m->bar, "copying");
    int status = copy_queues(m);
    if (status == CLIENT_DONE)
        status = copy_jobs(m, after);
    if (status == CLIENT_DONE)
        status = copy_dependencies(m);
    if (status == CLIENT_DONE)
        status = copy_keys(m);
    progress_end(&m->bar);
    return status;
}

/* A target whose queues were resumed was compared before: it is compared again, and changed only
 * if nothing has happened in it since. */
static int copy_and_compare(struct migrate *m, uint64_t after)
{
    static int (*const before[])(struct migrate *) = {verify_jobs, verify_keys};
    static int (*const behind[])(struct migrate *) = {
        copy_schedules, verify_schedules, copy_alerts,
        verify_alerts,  check_inbox, /* it may have got some meanwhile */
        release_queues, verify_queues};
    int status = m->released ? CLIENT_DONE : copy(m, after);
    uint64_t copied = m->done;
    progress_begin(&m->bar, "comparing");
    for (size_t i = 0; i < CLIENT_COUNT(before) && status == CLIENT_DONE; i++)
        status = before[i](m);
    progress_end(&m->bar);
    for (size_t i = 0; i < CLIENT_COUNT(behind) && status == CLIENT_DONE; i++)
        status = behind[i](m);
    return status == CLIENT_DONE ? result_print(m, copied) : status;
}

static int migrate_run(struct migrate *m)
{
    uint64_t after;
    int status = migrate_open(&m->from, (struct wall_time){1}, m->now);
    if (status == CLIENT_DONE)
        status = check_source(m);
    if (status != CLIENT_DONE || arguments_has(m->args, "dry_run"))
        return status == CLIENT_DONE ? dry_run_print(m) : status;
    status = migrate_open(&m->to, m->now, m->now);
    if (status == CLIENT_DONE)
        status = target_ready(m, &after);
    return status == CLIENT_DONE ? copy_and_compare(m, after) : status;
}

static void migrate_end(struct migrate *m)
{
    migrate_close(&m->to);
    migrate_close(&m->from);
    migrate_answers_free(m->queues, m->queue_pages);
    mem_free(m->queues);
    arena_done(&m->arena);
    (void)uv_run(&m->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&m->loop);
}

int migrate_command(const struct command *cmd, const struct arguments *args)
{
    struct clock clock = clock_system();
    const char *from = arguments_text(args, "from", ""), *to = arguments_text(args, "to", "");
    if (*from == '\0' || *to == '\0') {
        client_complain(CLIENT_USAGE,
                        "--from and --to are required: the stores to copy from and to");
        return command_usage(cmd);
    }
    int status = urls_check(from, to);
    if (status != CLIENT_DONE)
        return status;
    struct migrate m = {.args = args,
                        .from = {.role = "source", .url = from},
                        .to = {.role = "target", .url = to, .needs = CAP_WHOLE_JOBS},
                        .now = clock_now(&clock).wall};
    CHECK(uv_loop_init(&m.loop) == 0);
    m.from.loop = m.to.loop = &m.loop;
    arena_init(&m.arena);
    client_interrupt_hold();
    status = migrate_run(&m);
    migrate_end(&m);
    return status;
}
