/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a command: a table for each command, one parser for all.
 *
 * Accepted are `--name value`, `--name=value`, `-n value`, `--flag`, and `--`, behind which
 * everything is a word. Options and words may be mixed; a lone `-` is a word, and so is `-5`. In a
 * name '-', '_' and '.' are the same sign. An option that is given twice counts the last time, or
 * each time when it is a list. The same table makes the help text, the man page and the completion.
 */
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
    OPTION_DURATION, /* milliseconds: 500, 30s */
    OPTION_CHOICE,   /* one of the words of `argument`, which are separated by '|' */
    OPTION_LIST,     /* text, may be repeated */
    OPTION_FILE,     /* text; completed as the name of a file */
    OPTION_DIR,      /* text; completed as the name of a directory */
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): rows read in this order */
struct option {
    const char *name;     /* without dashes; '_' and '.' are shown as '-' */
    char letter;          /* for `-n`; 0 = none */
    const char *argument; /* the word for its value in help texts ("MS"); NULL for a flag;
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
    const char **words; /* what is no option; NULL-terminated */
    size_t word_count;
    size_t words_before; /* of the words, those before `--`; all of them without one */
    bool help;           /* --help or -h was there; nothing behind it was read */
};

/* Reads argv[1..argc). On success *ret borrows the table and the texts of argv and is given back
 * with arguments_done. -ERR_INVALID with a note for the user, -ERR_NOMEM; *ret is untouched then.
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
/* For OPTION_LIST: walks the values; *at starts at 0. NULL behind the last. */
const char *arguments_next(const struct arguments *a, const char *name, size_t *at);

#define OPTION_NAME_MAX 64
/* The name as it is typed, without the dashes: "limits.body_bytes" → "limits-body-bytes". Returns
 * out. */
const char *option_name(const struct option *o, char out[OPTION_NAME_MAX]);
/* The choices of an OPTION_CHOICE or OPTION_SWITCH one by one: moves *rest (first: o->argument) on;
 * false behind the last. */
bool option_choice(const char **rest, const char **ret, size_t *ret_len);

/* Writes text in lines of at most 96 columns that begin with `indent`; in the first one the caller
 * has filled those columns already. */
void help_wrap(FILE *out, const char *indent, const char *text);
