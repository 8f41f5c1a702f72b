/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a command: a table for each command, one parser for all.
 *
 * Accepted are `--name value`, `--name=value`, `-n value`, `--flag`, and `--`, after which every
 * argument is a word. Options and words may be mixed; a single `-` is a word, and so is `-5`. In
 * a name '-', '_' and '.' are equivalent. If an option is given twice, the last value counts, or
 * all of them for a list. The help text, the man page and the completion come from the same
 * table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/* The exit statuses of every command. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

enum option_kind {
    OPTION_FLAG,     /* no value */
    OPTION_SWITCH,   /* `--name` is "true"; --name=true or --name=false */
    OPTION_TEXT,     /* any text */
    OPTION_NUMBER,   /* whole, signed */
    OPTION_SIZE,     /* bytes: 65536, 64MiB */
    OPTION_DURATION, /* 30s, 500ms, 0; a plain number only if the name ends in _ms */
    OPTION_CHOICE,   /* one of the words of `argument`, which are separated by '|' */
    OPTION_LIST,     /* text, may be repeated */
    OPTION_FILE,     /* text; completed as the name of a file */
    OPTION_DIR,      /* text; completed as the name of a directory */
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): rows read in this order */
struct option {
    const char *name;     /* without dashes; '_' and '.' are shown as '-' */
    char letter;          /* for `-n`; 0 = none */
    const char *argument; /* placeholder of its value in help texts ("MS"); NULL for a flag;
                             "true|false" for a switch */
    const char *doc;      /* one line, without a full stop */
    enum option_kind kind;
};

struct option_given {
    const struct option *option;
    const char *value; /* NULL for a flag */
};

struct arguments {
    const struct option *options; /* the table it was read with */
    size_t option_count;
    struct option_given *given; /* in the order of the command line */
    size_t given_count;
    const char **words; /* arguments that are not options; NULL-terminated */
    size_t word_count;
    size_t words_before; /* number of words before `--`; all of them without it */
    bool help;           /* --help or -h was given; nothing after it was read */
};

/* Reads argv[1..argc). On success *ret borrows the table and the texts of argv; free it with
 * arguments_done. -ERR_INVALID with a note for the user, -ERR_NOMEM; then *ret is unchanged.
 * Values of numbers, sizes, times and choices are checked here. */
MUST_CHECK int options_parse(const struct option *options, size_t count, int argc, char **argv,
                             struct arguments *ret, struct err_note *note);
void arguments_done(struct arguments *a);

/* By the name in the table; a name that is not there is a programmer error. */
bool arguments_has(const struct arguments *a, const char *name);
/* The (last) value, or `fallback`, which may be NULL. */
const char *arguments_text(const struct arguments *a, const char *name, const char *fallback);
/* For OPTION_NUMBER, _SIZE and _DURATION: in units of 1, bytes, milliseconds. */
int64_t arguments_number(const struct arguments *a, const char *name, int64_t fallback);
/* For OPTION_LIST: iterates over the values; *at starts at 0. NULL past the last. */
const char *arguments_next(const struct arguments *a, const char *name, size_t *at);

#define OPTION_NAME_MAX 64
/* The name as it is typed, without the dashes: "limits.body_bytes" → "limits-body-bytes". Returns
 * out. */
const char *option_name(const struct option *o, char out[OPTION_NAME_MAX]);
/* The choices of an OPTION_CHOICE or OPTION_SWITCH one by one: advances *rest (first:
 * o->argument); false past the last. */
bool option_choice(const char **rest, const char **ret, size_t *ret_len);

/* Writes text in lines of at most 96 columns that begin with `indent`; in the first line the
 * caller has already written that many columns. */
void help_wrap(FILE *out, const char *indent, const char *text);
