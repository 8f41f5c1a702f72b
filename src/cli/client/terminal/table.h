/* SPDX-License-Identifier: Apache-2.0 */
/* Aligned tables for users: a row of titles, then the rows, each column as wide as needed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/span.h"

/* The capabilities of the output. */
struct client_screen {
    bool terminal;
    bool colour;      /* a terminal with colours, and NO_COLOR is not set */
    unsigned columns; /* 0: no limit, as in a file or a pipe */
};

struct client_column {
    const char *title;
    bool right;    /* figures */
    uint16_t most; /* maximum width, longer texts are truncated; 0: no limit */
};

struct client_cell {
    size_t at, len, width;
};

struct client_table {
    const struct client_column *columns; /* borrowed */
    size_t count;
    struct buf text;  /* of all cells, escaped */
    struct buf cells; /* struct client_cell, row by row */
    int error;        /* first failure; later cells are not added */
};

struct client_screen client_screen_of(FILE *out);

void client_table_init(struct client_table *t, const struct client_column *columns, size_t count);
void client_table_done(struct client_table *t);
/* The next cell, from left to right, row after row; the text is copied and escaped. */
void client_table_add(struct client_table *t, struct span text);
void client_table_addf(struct client_table *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Writes titles and rows. On a terminal the last column is truncated to fit. An incomplete last
 * row is left out. Returns 0 or the first error (-ERR_NOMEM). */
MUST_CHECK int client_table_print(const struct client_table *t, FILE *out,
                                  const struct client_screen *screen);
