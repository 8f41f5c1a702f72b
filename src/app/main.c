/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: one table of commands, each with the words that `holdfast help` prints. A new
 * command is a row here and a function with the signature of command_fn.
 *
 * Exit status: 0 done, 1 the command ran and failed, 2 the command line was wrong, or what it names
 * is not there to be worked on. */

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "app/version.h"
#include "backend/local/check.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command;

/* argv[0] is the word the user typed for the command; argc counts it. */
typedef int (*command_fn)(const struct command *cmd, int argc, char **argv);

struct command {
    const char *name;
    const char *args;    /* as shown in the usage line, "" when it takes none */
    const char *summary; /* one line, for the list */
    const char *detail;  /* what `help NAME` adds; whole lines */
    command_fn run;
};

static int check_command(const struct command *cmd, int argc, char **argv);
static int version_run(const struct command *cmd, int argc, char **argv);
static int help_run(const struct command *cmd, int argc, char **argv);

static const struct command commands[] = {
    {"check", "DIR", "look over the store in DIR while no server uses it",
     "Reads the whole store and changes nothing. Prints a sentence for each problem, the jobs of\n"
     "each queue by state, what to do, and in the last line the verdict. Payloads, keys and error\n"
     "texts are never printed.\n"
     "\n"
     "Exit status: 0 no problems found, 1 problems found, 2 not checked (DIR has no store, or one\n"
     "that a server is using or that another version of holdfast made).\n",
     check_command},
    {"help", "[COMMAND]", "list the commands, or explain one",
     "Without COMMAND, lists every command with one line each.\n", help_run},
    {"version", "", "print version and commit",
     "Prints one line: `holdfast VERSION`, followed by the commit in brackets when the build\n"
     "knew it; a + behind the commit says that the sources had been changed since.\n",
     version_run},
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static void usage_print(FILE *out)
{
    fputs("Holdfast, a durable job queue in one binary.\n"
          "\n"
          "Usage: holdfast COMMAND [ARGUMENT]...\n"
          "\n"
          "Commands:\n",
          out);
    for (size_t i = 0; i < COMMANDS; i++) {
        char left[40];
        snprintf(left, sizeof(left), "%s %s", commands[i].name, commands[i].args);
        fprintf(out, "  %-24s %s\n", left, commands[i].summary);
    }
    fputs("\n`holdfast help COMMAND` says more about one of them.\n", out);
}

static int command_unknown(const char *name)
{
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    const char *near = suggest_nearest(name, names, COMMANDS);

    fprintf(stderr, "holdfast: unknown command '%s'", name);
    if (near)
        fprintf(stderr, "; did you mean '%s'?\n", near);
    else
        fputs("; `holdfast help` lists the commands\n", stderr);
    return EXIT_USAGE;
}

static int usage_error(const struct command *cmd)
{
    fprintf(stderr, "usage: holdfast %s%s%s\n", cmd->name, *cmd->args ? " " : "", cmd->args);
    return EXIT_USAGE;
}

static int check_command(const struct command *cmd, int argc, char **argv)
{
    return argc == 2 ? check_run(argv[1], stdout) : usage_error(cmd);
}

static int version_run(const struct command *cmd, int argc, char **argv)
{
    (void)argv;
    if (argc != 1)
        return usage_error(cmd);
    version_print(stdout);
    return EXIT_DONE;
}

static int help_run(const struct command *cmd, int argc, char **argv)
{
    if (argc > 2)
        return usage_error(cmd);
    if (argc == 1) {
        usage_print(stdout);
        return EXIT_DONE;
    }
    const struct command *topic = command_find(argv[1]);
    if (!topic)
        return command_unknown(argv[1]);
    printf("holdfast %s%s%s: %s\n\n%s", topic->name, *topic->args ? " " : "", topic->args,
           topic->summary, topic->detail);
    return EXIT_DONE;
}

/* The spellings people try first, whatever the program. */
static const char *command_alias(const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return "help";
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        return "version";
    return word;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage_print(stderr);
        return EXIT_USAGE;
    }
    const struct command *cmd = command_find(command_alias(argv[1]));
    if (!cmd)
        return command_unknown(argv[1]);
    int status = cmd->run(cmd, argc - 1, argv + 1);

    /* Output that did not reach its file (a full disk, a closed pipe) is a failure, not a success.
     */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("holdfast: standard output");
        return EXIT_FAILED;
    }
    return status;
}
