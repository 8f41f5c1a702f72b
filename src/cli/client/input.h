/* SPDX-License-Identifier: Apache-2.0 */
/* The source of a command's payload: the argument itself, standard input ("-") or a file
 * ("@NAME"). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"

#define CLIENT_INPUT_MAX ((size_t)256 << 20) /* bytes read as one payload, or one line */

/* Appends the bytes that the argument stands for. -ERR_IO or -ERR_TOO_BIG with a sentence,
 * -ERR_NOMEM. */
MUST_CHECK int client_input_read(const char *word, struct buf *out, struct err_note *note);

/* Lines one by one, without their line breaks. */
struct client_lines {
    FILE *from;
    bool owned; /* to be closed */
    struct buf read;
    size_t at;       /* where the next line begins in read */
    uint64_t number; /* of the line last given, from 1 */
    bool over;
};

MUST_CHECK int client_lines_open(struct client_lines *l, const char *word, struct err_note *note);
void client_lines_close(struct client_lines *l);
/* 1 and the next line, which is valid until the next call; 0 past the last; -ERR_IO,
 * -ERR_TOO_BIG, -ERR_NOMEM with a sentence. */
MUST_CHECK int client_lines_next(struct client_lines *l, struct span *ret, struct err_note *note);
