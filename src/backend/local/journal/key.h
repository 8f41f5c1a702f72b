/* SPDX-License-Identifier: Apache-2.0 */
/* The file journal/key: the secret with which a store tags the entries of its journal.
 *
 * It is random, belongs to one store, and never leaves this file and the process: it is in no
 * backup, no export, no reply and no log. The file has two copies, on pages of their own, so that
 * one damaged sector does not make the journal unreadable:
 *
 *    0  "HFk1"  magic; the digit is the version
 *    4  u32     CRC32C of the copy with this field zero
 *    8  16      id of the store
 *   24  32      the key
 *
 * It is written and synced, with its name, before the first entry. As long as there is no entry it
 * may be written again; afterwards only a damaged copy is, from the other one. */
#pragma once

#include "backend/local/journal/entry.h"
#include "backend/local/journal/files.h"

#define JOURNAL_KEY_NAME "key"
#define JOURNAL_KEY_COPIES 2

enum journal_key_state {
    JOURNAL_KEY_MISSING, /* no such file */
    JOURNAL_KEY_DAMAGED, /* neither copy can be used, or they contradict each other */
    JOURNAL_KEY_HALF,    /* one copy is damaged */
    JOURNAL_KEY_WHOLE,
};

struct journal_key {
    enum journal_key_state state;
    uint8_t bytes[JOURNAL_KEY_BYTES];
    bool damaged[JOURNAL_KEY_COPIES];
};

/* Reads the file, unless it is not there. -ERR_CORRUPT: it is another store's; -ERR_VERSION: of a
 * newer version. A file that is missing or damaged is a state, not an error. */
MUST_CHECK int journal_key_load(struct files *files, bool there, const uint8_t store_id[16],
                                struct journal_key *ret, struct err_note *note);
static inline bool journal_key_usable(const struct journal_key *k)
{
    return k->state == JOURNAL_KEY_HALF || k->state == JOURNAL_KEY_WHOLE;
}
/* Draws a key if no usable one exists, writes both copies and syncs the file and its name. Only
 * while the journal has no entry. */
MUST_CHECK int journal_key_begin(struct files *files, const uint8_t store_id[16],
                                 struct journal_key *k, struct err_note *note);
/* Writes the damaged copy again. */
MUST_CHECK int journal_key_mend(struct files *files, const uint8_t store_id[16],
                                struct journal_key *k, struct err_note *note);
