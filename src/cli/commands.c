/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of commands, the rows of the program itself, and how a command is found and run. */
#include "cli/commands.h"

#include <string.h>

#include "backend/local/offline/check/check.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "cli/client/client.h"
#include "cli/completion.h"
#include "cli/help.h"
#include "cli/man.h"
#include "cli/transfer/migrate.h"
#include "cli/transfer/restore.h"
#include "config/config.h"
#include "config/units.h"
#include "server/serve.h"
#include "server/version.h"

/* ---- the commands of the program itself ---- */

static int check_command(const struct command *cmd, const struct arguments *args)
{
    (void)cmd;
    return check_run(args->words[0], stdout);
}

static int version_command(const struct command *cmd, const struct arguments *args)
{
    (void)cmd;
    (void)args;
    version_print(stdout);
    return EXIT_DONE;
}

static const struct command core_commands[] = {
    {"serve", "", "run the server",
     "Runs until SIGTERM or SIGINT, and then finishes the requests that are being processed. When\n"
     "it is ready, prints one line `listening on http://HOST:PORT` for each address. SIGHUP reads\n"
     "the settings again. `holdfast help config` explains the settings; each of them is an option\n"
     "here, an environment variable HOLDFAST_..., and a key in the file of --config.\n",
     COMMAND_OPTIONS(config_flags), 0, 0, serve_command},
    {"check", "DIR", "check the store in DIR while no server is using it",
     "Reads the whole store and changes nothing. Prints a sentence for each problem, the number\n"
     "of jobs of each queue by state, what to do, and the result in the last line. Payloads, keys "
     "and error\n"
     "texts are never printed.\n"
     "\n"
     "Exit status: 0 no problems found, 1 problems found, 2 not checked (DIR has no store, or a\n"
     "server is using it, or another version of holdfast created it), 3 no problems found, but\n"
     "warnings: the last entry of the journal is or was incomplete, so that work may be missing.\n",
     COMMAND_NO_OPTIONS, 1, 1, check_command},
    {"restore", "BACKUP", "create a store from a backup",
     "BACKUP is a directory that `holdfast backup` created, the holdfast.db in it, or the data\n"
     "directory of a stopped server. --data DIR names the data directory to create; a directory\n"
     "that already has a store is not changed. The backup is checked and not changed.\n"
     "\n"
     "The new store never issues an id or a lease token that the old one may have issued since\n"
     "the backup. Jobs that were running in the backup are still held by their workers, whose\n"
     "lease tokens are accepted.\n"
     "\n"
     "Exit status: 0 restored, 1 failed, and DIR has no store, 2 wrong usage, or BACKUP or DIR\n"
     "cannot be used.\n",
     COMMAND_OPTIONS(restore_options), 1, 1, restore_command},
    {"migrate", "", "copy a whole store into another",
     "--from and --to name the stores in the same way as `serve --backend`: sqlite:DIR, "
     "postgres://…,\n"
     "redis://…. No server may be using either of them. The source is not changed. The target\n"
     "must be empty; its queues stay paused until everything that was copied has been read back\n"
     "and compared.\n"
     "\n"
     "Copies queues, jobs in every state with their ids and history, keys, schedules and alert\n"
     "rules. Running jobs become ready, uncounted. If the command is interrupted, run it again\n"
     "with --resume.\n"
     "\n"
     "Exit status: 0 copied, and equal in both stores; 1 refused, interrupted, or not equal; 2\n"
     "wrong usage, or a store cannot be used; 3 a store cannot be reached.\n",
     COMMAND_OPTIONS(migrate_options), 0, 0, migrate_command},
    {"completion", "bash|zsh", "print the completion script for a shell",
     "For one session: `source <(holdfast completion bash)`, and the same for zsh. `make install`\n"
     "installs both where the shells look for them.\n",
     COMMAND_NO_OPTIONS, 1, 1, completion_command},
    {"help", "[COMMAND|commands|config|events|metrics|policy|problems|reasons|routes]",
     "explain a command or a topic",
     "Without arguments, lists every command. The topics:\n"
     "  commands  every command\n"
     "  config    every setting of the server\n"
     "  events    every event of GET /v1/events\n"
     "  metrics   every metric of GET /metrics\n"
     "  policy    every setting of a queue\n"
     "  problems  every code of a refused request\n"
     "  reasons   every reason why a job is not running\n"
     "  routes    every route of the HTTP APIs\n",
     COMMAND_OPTIONS(help_options), 0, 1, help_command},
    {"man", "", "print the man page",
     "Prints holdfast(1) as roff: `holdfast man | man -l -` shows it. `make install` installs "
     "it.\n",
     COMMAND_NO_OPTIONS, 0, 0, man_command},
    {"version", "", "print version and commit",
     "Prints one line: `holdfast VERSION`, followed by the commit in brackets if it was known "
     "when\n"
     "the program was built; a + after the commit means that the sources had uncommitted "
     "changes.\n",
     COMMAND_NO_OPTIONS, 0, 0, version_command},
};
static const size_t core_command_count = sizeof(core_commands) / sizeof(core_commands[0]);

static const struct command_group groups[] = {
    {"Commands", core_commands, &core_command_count},
    {"Commands that connect to a server", client_commands, &client_command_count},
    {NULL, NULL, NULL},
};

/* ---- looking them up ---- */

const struct command_group *command_groups(void)
{
    return groups;
}

const struct command *command_at(size_t i)
{
    for (const struct command_group *g = groups; g->title; g++) {
        if (i < *g->count)
            return &g->rows[i];
        i -= *g->count;
    }
    return NULL;
}

const struct command *command_find(const char *name)
{
    const struct command *cmd;
    for (size_t i = 0; (cmd = command_at(i)); i++) {
        if (strcmp(cmd->name, name) == 0)
            return cmd;
    }
    return NULL;
}

/* Without memory for the list, no command is suggested. */
static const char *command_near(const char *name)
{
    size_t count = 0;
    while (command_at(count))
        count++;
    const char **names = mem_array(count, sizeof *names);
    if (!names)
        return NULL;
    for (size_t i = 0; i < count; i++)
        names[i] = command_at(i)->name;
    const char *near = suggest_nearest(name, names, count);
    mem_free(names);
    return near;
}

int command_unknown(const char *name)
{
    char shown[QUOTED_MAX];
    const char *near = command_near(name);
    fprintf(stderr, "holdfast: unknown command %s", quoted(span_text(name), shown));
    if (near)
        fprintf(stderr, "; did you mean '%s'?\n", near);
    else
        fputs("; `holdfast help` lists the commands\n", stderr);
    return EXIT_USAGE;
}

/* ---- running one ---- */

void command_synopsis(const struct command *cmd, FILE *out)
{
    fprintf(out, "holdfast %s%s%s%s", cmd->name, cmd->option_count ? " [OPTION]..." : "",
            *cmd->args ? " " : "", cmd->args);
}

int command_usage(const struct command *cmd)
{
    fputs("usage: ", stderr);
    command_synopsis(cmd, stderr);
    fputc('\n', stderr);
    return EXIT_USAGE;
}

static int command_run(const struct command *cmd, int argc, char **argv)
{
    struct arguments args;
    struct err_note note;
    if (options_parse(cmd->options, cmd->option_count, argc, argv, &args, &note) < 0) {
        fprintf(stderr, "holdfast: %s\n", note.text);
        return EXIT_USAGE;
    }
    int status = EXIT_DONE;
    if (args.help)
        help_print(cmd, stdout);
    else if (args.word_count < cmd->words_min || args.word_count > cmd->words_max)
        status = command_usage(cmd);
    else
        status = cmd->run(cmd, &args);
    arguments_done(&args);
    return status;
}

/* Spellings that users of other programs try first. */
static const char *command_alias(const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return "help";
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        return "version";
    return word;
}

int command_line(int argc, char **argv)
{
    if (argc < 2) {
        help_list(stderr);
        return EXIT_USAGE;
    }
    const struct command *cmd = command_find(command_alias(argv[1]));
    return cmd ? command_run(cmd, argc - 1, argv + 1) : command_unknown(argv[1]);
}
