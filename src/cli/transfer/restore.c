/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/restore.h"

#include <inttypes.h>

#include "backend/local/offline/restore.h"
#include "cli/client/terminal/interrupt.h"
#include "cli/progress.h"

const struct option restore_options[1] = {
    {"data", 0, "DIR", "the data directory to create; it must not contain a store", OPTION_DIR},
};

static void progress_cb(void *ctx, uint64_t done, uint64_t total)
{
    progress_show(ctx, done, total, true);
}

static bool stop_cb(void *ctx)
{
    (void)ctx;
    return client_interrupt_pending();
}

/* Refusals are for the user of the command, failures for the operator of the machine. */
static int status_of(int err)
{
    switch (err) {
    case 0:
        return EXIT_DONE;
    case -ERR_NOT_FOUND:
    case -ERR_INVALID:
    case -ERR_VERSION:
    case -ERR_LOCKED:
        return EXIT_USAGE;
    default:
        return EXIT_FAILED;
    }
}

int restore_command(const struct command *cmd, const struct arguments *args)
{
    struct progress bar;
    struct err_note note = {""};
    struct restore_result result;
    struct restore_config config = {.from = args->words[0],
                                    .to = arguments_text(args, "data", NULL),
                                    .progress = progress_cb,
                                    .stop = stop_cb,
                                    .ctx = &bar};
    if (!config.to || !*config.to) {
        fputs("holdfast: --data is missing: the directory for the new store\n", stderr);
        return command_usage(cmd);
    }
    client_interrupt_hold();
    progress_begin(&bar, "restoring");
    int err = restore_run(&config, &result, &note);
    progress_end(&bar);
    if (err)
        fprintf(stderr, "holdfast: %s\n", note.text[0] ? note.text : err_text(err));
    else
        printf("%s: restored %" PRIu64 " job%s in %" PRIu64 " queue%s; start it with `holdfast "
               "serve --data %s`\n",
               config.to, result.jobs, result.jobs == 1 ? "" : "s", result.queues,
               result.queues == 1 ? "" : "s", config.to);
    if (!err && result.problems > 0)
        fprintf(stderr,
                "holdfast: warning: the store has %" PRIu64
                " problem%s that do not keep a server from starting; `holdfast check %s` lists %s. "
                "The first: %s\n",
                result.problems, result.problems == 1 ? "" : "s", config.to,
                result.problems == 1 ? "it" : "them", result.problem);
    return status_of(err);
}
