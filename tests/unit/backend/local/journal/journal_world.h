/* SPDX-License-Identifier: Apache-2.0 */
/* A journal on a disk of memory (files_torn), and a log of all frames that were appended to it: for
 * tests that close the journal, change bytes of it and open it again. */
#pragma once

#include "unit/backend/local/journal/journal_rig.h"

#define SEGMENT (4 * JOURNAL_PAGE)

struct world {
    struct files_torn *disk;
    struct journal *j; /* NULL = closed */
    struct journal_config config;
    struct journal_rig_log log;
    size_t given; /* frames that the last open gave to the store */
    struct err_note note;
};

void world_init(struct world *w, uint32_t segment_bytes, uint64_t seed);
void world_close(struct world *w);
void world_done(struct world *w);
/* Fails the test unless rc is 0. */
void world_must(struct world *w, int rc);
/* Expects the next frame of the log. */
int world_frame_cb(void *ctx, struct span frame, uint64_t first, uint64_t last,
                   struct err_note *note);
/* Closes the journal and opens it again: the code of journal_open. */
int world_try_open(struct world *w);
/* The same; it must succeed and end with this position. */
void world_open_up_to(struct world *w, uint64_t last);
/* The position of the last record of the log. */
uint64_t world_last(const struct world *w);
/* Opens the journal and begins to write. */
void world_start(struct world *w);
/* Appends the last frame of the log. */
void world_append_put(struct world *w);
/* Adds frames of one record; each entry takes a page. */
void world_append(struct world *w, unsigned count);
/* The store has applied everything. */
void world_applied(struct world *w);
/* Records 1 … count, four in each of the files 1, 2, 3, …, and the journal closed. */
void world_fill(struct world *w, unsigned count);
/* Inverts a bit of a byte of a file. */
void world_flip(struct world *w, const char *name, uint64_t at);
/* Opening fails with this code and a sentence that contains these words. */
void world_refuses(struct world *w, int code, const char *words);
