/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on standard error; nothing if that is not a terminal, or one without escape
 * sequences (TERM=dumb). The bar is shorter on a narrow terminal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_TEXT_BYTES 128

struct progress {
    const char *what;
    bool terminal;
    uint64_t shown_ns; /* when the line was last drawn */
};

void progress_begin(struct progress *p, const char *what);
/* Draws the bar a few times a second. total 0: unknown. Both numbers are shown as bytes if
 * `bytes` is true, otherwise only as a share. */
void progress_show(struct progress *p, uint64_t done, uint64_t total, bool bytes);
void progress_end(struct progress *p); /* removes the line */
/* The same two, for a caller that writes the text itself; 0 = nothing to write. */
size_t progress_text(struct progress *p, uint64_t done, uint64_t total, bool bytes,
                     char out[PROGRESS_TEXT_BYTES]);
size_t progress_clear(struct progress *p, char out[PROGRESS_TEXT_BYTES]);

/* "\r[#####     ] " for a share of 0 to 1, to begin a line of one's own with. */
void progress_bar(double share);
