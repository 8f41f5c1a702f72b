/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: tables of commands, each row with the words that help, man page and completion
 * print. A new command is a row in a table and a function with the signature of command_fn.
 *
 * Exit status of every command: 0 done, 1 the command ran and failed, 2 the command line was wrong,
 * or what it names is not there to be worked on; from 3 on a command's own, in its detail. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "config/options.h"

struct command;

/* args holds the options, checked against the table, and the words behind the command's name, whose
 * number is within the row's bounds. Returns the exit status. */
typedef int (*command_fn)(const struct command *cmd, const struct arguments *args);

struct command {
    const char *name;
    const char *args;    /* the words it takes, as shown in the usage line; "" when none */
    const char *summary; /* one line, for the list */
    const char *detail;  /* what `help NAME` adds; whole lines */
    const struct option *options;
    size_t option_count;
    size_t words_min;
    size_t words_max;
    command_fn run;
};

#define COMMAND_WORDS_ANY ((size_t)-1) /* words_max: no bound */
#define COMMAND_OPTIONS(table) (table), sizeof(table) / sizeof((table)[0])
#define COMMAND_NO_OPTIONS NULL, 0

/* A table of commands under a heading. The count is a pointer, since it is known to the file with
 * the rows. */
struct command_group {
    const char *title;
    const struct command *rows;
    const size_t *count;
};

/* Every group, ended by one without a title. */
const struct command_group *command_groups(void);
/* The row i over all groups, in order; NULL behind the last. */
const struct command *command_at(size_t i);
const struct command *command_find(const char *name); /* NULL: not found */

/* Says on standard error that there is no such command and which is near; EXIT_USAGE. */
int command_unknown(const char *name);
/* Says on standard error how the command is called; EXIT_USAGE. */
int command_usage(const struct command *cmd);
/* The line "holdfast NAME [OPTION]... ARGS" without a line break. */
void command_synopsis(const struct command *cmd, FILE *out);

/* All of the program but main: finds the command of argv[1], reads its options, runs it. Returns
 * the exit status. */
int command_line(int argc, char **argv);
