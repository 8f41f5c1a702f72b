/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the journal: the table of segments, and which thread uses which part.
 *
 * The lock guards the table, the fields of the segments and what is marked (lock) below; it is
 * never held over I/O. A segment's memory stays where it is until it leaves the table, and only
 * journal_provide takes one out: one that is free, which neither writer nor applier looks at.
 *
 * While an entry is on its way into a new segment, that segment is taken but not yet current: the
 * segment with the newest synced entry must not be freed before a newer one is synced. */
#pragma once

#include <stdatomic.h>
#include <string.h>
#include <uv.h>

#include "backend/local/journal/entry.h"
#include "backend/local/journal/journal.h"
#include "backend/local/journal/key.h"

/* What an operator can do about damage; ends a sentence. */
#define JOURNAL_ADVICE                                                                             \
    "; nothing was changed: restore the newest backup, or save what can still be read (holdfast "  \
    "export --data DIR)"

enum segment_state {
    SEGMENT_BLANK,   /* found without an entry; nothing is known of it until journal_begin */
    SEGMENT_MAKING,  /* journal_provide is at it */
    SEGMENT_FREE,    /* whole and synced, and nothing in it is needed */
    SEGMENT_TAKEN,   /* the writer puts a first entry into it */
    SEGMENT_USED,    /* holds entries */
    SEGMENT_SURPLUS, /* to be removed */
};

struct segment {
    enum segment_state state;
    uint32_t number;     /* its name */
    bool there;          /* the file exists */
    int file;            /* -1: not open */
    uint64_t size;       /* bytes of the file */
    uint64_t generation; /* of the entries in it; 0: never used */
    /* Of the entries that count. last = first - 1: none does. */
    uint64_t first, last;
    uint64_t end;         /* where the next one would begin */
    uint64_t applied_end; /* where the first one begins that the store may lack */
    uint32_t previous;    /* CRC of the entry before its first */
    bool head_torn;       /* blank: it begins with an entry of ours that is not whole */
};

/* Where the applier reads. */
struct journal_cursor {
    uint64_t generation, at; /* of the next entry; generation 0: nowhere yet */
    uint64_t last;           /* position of the last record given */
    struct buf entry;        /* the entry that is being given away */
    struct span rest;        /* frames in it that are still to be given */
};

struct journal {
    struct files *files;
    uint8_t store_id[16];
    uint64_t from;
    uint64_t segment_bytes, bytes_max;
    bool read_only;
    unsigned defects;

    uv_mutex_t lock;
    struct segment **segments; /* (lock) by generation after journal_open */
    size_t count, room;        /* (lock) */
    uint64_t applied;          /* (lock) */
    uint64_t need;             /* (lock) bytes an append found no segment for */
    uint32_t busy_peak;        /* (lock) segments in use at once, of late */
    struct segment *current;   /* (lock to change) with the newest entry */
    uint64_t generation;       /* (lock to change) the newest */
    uint64_t torn_generation;  /* the newest that a torn first entry names; 0 = none */
    _Atomic uint64_t position; /* of the last synced record */

    bool begun; /* (lock to change) */
    struct journal_key key;
    struct journal_torn torn;

    struct journal_seal reading; /* for recovery and then the applier; mac NULL: there is no key */

    /* The writer's alone. */
    struct journal_seal writing;
    uint32_t crc;  /* of the last entry */
    uint64_t tail; /* where the last entry begins, in current; for journal_begin */
    int failed;    /* code; 0: not */
    struct err_note failure;
    struct span *parts;
    size_t parts_room;

    struct journal_cursor cursor; /* the applier's alone */
};

static inline bool segment_counts(const struct segment *s)
{
    return s->state == SEGMENT_USED && s->last + 1 > s->first;
}

static inline bool journal_owns(const struct journal *j, const struct journal_entry *e)
{
    return memcmp(e->store_id, j->store_id, sizeof e->store_id) == 0;
}

/* ---- journal.c ---- */

/* A journal without a key and segments yet. NULL: out of memory; the files are given back then. */
struct journal *journal_new(const struct journal_config *config, struct err_note *note);
/* Prepares the key that was loaded or drawn. */
MUST_CHECK int journal_seals_open(struct journal *j, struct err_note *note);

/* ---- journal/segments.c ---- */

/* Adds a segment to the table. Takes the lock. */
MUST_CHECK int segment_add(struct journal *j, uint32_t number, uint64_t size,
                           enum segment_state state, struct segment **ret);
void segments_free(struct journal *j); /* the memory; closes the files */
/* Makes a file of this size, filled with zeros and synced, and puts it among the free ones. */
MUST_CHECK int segment_make(struct journal *j, uint64_t size, struct err_note *note);
/* Removes a surplus segment. */
MUST_CHECK int segment_remove(struct journal *j, struct segment *s, struct err_note *note);
/* Takes a free segment with room for this many bytes; NULL: no such segment. Call with the lock. */
struct segment *segment_take(struct journal *j, uint64_t bytes);
/* Frees what holds nothing that counts any more, once the journal is begun. Call with the lock. */
void segments_release(struct journal *j);

/* ---- journal/read.c ---- */

/* Reads the header at `at`. `into` is for entry_load. -ERR_CORRUPT: it is not one that this store
 * wrote here (the note is not filled); -ERR_VERSION: one of a newer version, which is filled. */
MUST_CHECK int entry_peek(struct journal *j, const struct segment *s, uint64_t at, struct buf *into,
                          struct journal_entry *ret, struct err_note *note);
/* Reads the rest of the entry whose header entry_peek gave and checks all of it. -ERR_CORRUPT as
 * above. */
MUST_CHECK int entry_load(struct journal *j, const struct segment *s, uint64_t at, struct buf *into,
                          const struct journal_entry *e, struct err_note *note);
struct span entry_body(const struct buf *entry, const struct journal_entry *e);

/* ---- journal/recover.c ---- */

#define JOURNAL_STEPS 4 /* entries the walk can go back over */

struct journal_step {
    struct segment *segment;
    uint64_t at;
    struct journal_entry entry;
};

/* Recovery on its way through the segments. */
struct journal_walk {
    struct journal *j;
    struct err_note *note;
    struct buf buf;
    char *pages;                              /* JOURNAL_SCAN_BYTES, from the first scan on */
    struct journal_step steps[JOURNAL_STEPS]; /* the last entries walked, the newest last */
    size_t count;
    uint64_t position; /* after the last of them */
    uint32_t crc;
};

/* Finds the files: fills the table and opens them. *key: there is one named key. */
MUST_CHECK int journal_files_find(struct journal *j, bool *key, struct err_note *note);
/* Loads the key and prepares it, if it can be used. */
MUST_CHECK int journal_key_find(struct journal *j, bool there, struct err_note *note);
/* Finds the segments and their entries and checks them: journal_open without giving frames. */
MUST_CHECK int journal_recover(struct journal *j, struct err_note *note);

/* ---- journal/end.c ---- */

#define JOURNAL_SCAN_BYTES (256u << 10)

/* The segment with this number, which must exist. */
struct segment *journal_segment_of(const struct journal *j, uint32_t number);

/* What lies behind the last entry walked: nothing, an entry that is not whole (j->torn), or proof
 * that something is missing, which is refused. newest: the segment with that entry, or NULL. */
MUST_CHECK int journal_end_check(struct journal_walk *w, struct segment *newest);
/* Whether the journal can be begun although it has no key: it was never used. */
MUST_CHECK int journal_keyless_check(struct journal_walk *w);
