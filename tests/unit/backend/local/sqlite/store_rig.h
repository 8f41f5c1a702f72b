/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of both stores share: a directory to throw away, and everything a store holds as
 * one text, so that two can be compared. */
#pragma once

#include "backend/local/journal/journal.h"
#include "backend/local/store/store.h"
#include "base/buf.h"

#define RIG_NOW ((struct wall_time){INT64_C(1790000000000)})

/* A new directory under $TMPDIR or /tmp; `ret` holds PATH/store, which is not made yet. */
struct rig_dir {
    char base[128];
    char path[160];
};
void rig_dir_make(struct rig_dir *d);
void rig_dir_remove(struct rig_dir *d); /* and all that is in it */
/* Copies the files of a store as they are, as a crash would leave them. */
void rig_dir_copy(const char *from, const char *to);

struct store *rig_open(const char *path); /* SQLite; must succeed */
void rig_apply(struct store *s, struct span frame);
/* A new store in memory and one in SQLite, for tests that compare the two. */
void rig_open_both(const char *path, struct store *ret[2]);
void rig_apply_both(struct store *const s[2], struct span frame);
void rig_same_both(struct store *const s[2]); /* rig_same, each with a reader of its own */
/* Appends a frame to a journal, which gets as many segments as it needs. */
void rig_journal_put(struct journal *j, struct span frame);
/* Runs SQL on the database of a store that is not open. */
void rig_sql(const char *dir, const char *sql);
/* Gives every page of its database the right checksum, whatever is in it. */
void rig_seal(const char *dir);

/* Bodies with their history. */
MUST_CHECK int rig_read(struct store_reader *r, const uint64_t *seqs, size_t count,
                        struct arena *arena, struct stored_body *bodies);

/* Everything that load gives, then every body with its history, every page and every exception that
 * a reader gives. Identity and hash key are left out. */
void rig_dump(struct store *s, struct store_reader *r, struct buf *ret);
/* The same of a store that may be damaged: the code of load, and how many later reads failed. */
int rig_dump_some(struct store *s, struct store_reader *r, struct buf *ret, size_t *ret_damaged,
                  struct err_note *note);
/* The two hold the same. Prints the first line that differs. */
void rig_same(struct store *a, struct store_reader *ra, struct store *b, struct store_reader *rb);
/* One view as a line. */
void rig_view(struct buf *b, const struct job_view *v);
