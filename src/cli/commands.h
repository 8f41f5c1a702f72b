/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli is the program `holdfast`: the command line, its help and its commands. It may use
 * everything; nothing else may use it.
 *
 * The command line: tables of commands, whose rows have the texts of help, man page and
 * completion. A new command is a row in a table and a function with the signature of command_fn.
 *
 * Exit status of every command: 0 success, 1 the command ran and failed, 2 the command line is
 * wrong or names something that does not exist; statuses from 3 on are described in the detail
 * of the command. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "config/options.h"

struct command;

/* args has the options, checked against the table, and the arguments after the command's name,
 * whose number is within the limits of the row. Returns the exit status. */
typedef int (*command_fn)(const struct command *cmd, const struct arguments *args);

struct command {
    const char *name;
    const char *args;    /* its arguments, as shown in the usage line; "" = none */
    const char *summary; /* one line, for the list */
    const char *detail;  /* the text that `help NAME` adds; complete lines */
    const struct option *options;
    size_t option_count;
    size_t words_min;
    size_t words_max;
    command_fn run;
};

#define COMMAND_WORDS_ANY ((size_t)-1) /* words_max: no limit */
#define COMMAND_OPTIONS(table) (table), sizeof(table) / sizeof((table)[0])
#define COMMAND_NO_OPTIONS NULL, 0

/* A table of commands under a heading. The count is a pointer, because only the file with the
 * rows knows it. */
struct command_group {
    const char *title;
    const struct command *rows;
    const size_t *count;
};

/* All groups; the last one has no title. */
const struct command_group *command_groups(void);
/* Row i of all groups, in order; NULL past the last. */
const struct command *command_at(size_t i);
const struct command *command_find(const char *name); /* NULL: not found */

/* Prints on standard error that the command does not exist, and the nearest one; EXIT_USAGE. */
int command_unknown(const char *name);
/* Prints the usage of the command on standard error; EXIT_USAGE. */
int command_usage(const struct command *cmd);
/* The line "holdfast NAME [OPTION]... ARGS" without a line break. */
void command_synopsis(const struct command *cmd, FILE *out);

/* The program without main: finds the command of argv[1], reads its options and runs it. Returns
 * the exit status. */
int command_line(int argc, char **argv);
