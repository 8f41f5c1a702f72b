/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/work.h"

#include <string.h>

#include "cli/client/session.h"
#include "cli/work/config.h"
#include "cli/work/fleet.h"
#include "cli/work/options.h"
#include "cli/work/runner/runner.h"

/* Only options that all workers can share are allowed besides --config. */
static int beside_config(const struct arguments *args)
{
    char name[OPTION_NAME_MAX];
    if (args->word_count > 0)
        return client_complain(EXIT_USAGE, "with --config, the file names the queues and commands");
    for (size_t i = 0; i < args->given_count; i++) {
        const char *given = args->given[i].option->name;
        if (strcmp(given, "config") != 0 && !client_endpoint_option(given) &&
            strcmp(given, "json") != 0)
            return client_complain(EXIT_USAGE, "--%s must be set in the file of --config",
                                   option_name(args->given[i].option, name));
    }
    return EXIT_DONE;
}

static int run_file(const struct arguments *args)
{
    struct work_entries entries;
    struct err_note note;
    struct arena arena;
    int status = beside_config(args);
    if (status != EXIT_DONE)
        return status;
    arena_init(&arena);
    if (work_config_read(arguments_text(args, "config", ""), args, &arena, &entries, &note) < 0)
        status = client_complain(EXIT_USAGE, "%s", note.text);
    else
        status = fleet_run(&entries);
    arena_done(&arena);
    return status;
}

int work_command(const struct command *cmd, const struct arguments *args)
{
    struct work_plan plan;
    struct err_note note;
    struct arena arena;
    int status;
    (void)cmd;
    if (arguments_has(args, "config"))
        return run_file(args);
    arena_init(&arena);
    if (work_plan_build(args, &arena, &plan, &note) < 0)
        status = client_complain(EXIT_USAGE, "%s", note.text);
    else
        status = runner_run(&plan);
    arena_done(&arena);
    return status;
}
