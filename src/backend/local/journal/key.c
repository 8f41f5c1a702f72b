/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/journal/key.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "backend/local/journal/journal_impl.h"
#include "base/digest/hash.h"
#include "base/digest/random.h"
#include "base/failpoint.h"

static const char magic[4] = {'H', 'F', 'k', '1'};

/* Offsets in a copy. */
enum { AT_CRC = 4, AT_STORE = 8, AT_KEY = 24, COPY_BYTES = AT_KEY + JOURNAL_KEY_BYTES };

static uint32_t copy_crc(const char copy[COPY_BYTES])
{
    char zeroed[COPY_BYTES];
    memcpy(zeroed, copy, sizeof zeroed);
    memset(zeroed + AT_CRC, 0, sizeof(uint32_t));
    uint32_t crc = htole32(crc32c(0, zeroed, sizeof zeroed));
    explicit_bzero(zeroed, sizeof zeroed);
    return crc;
}

/* ---- reading ---- */

struct copies {
    char bytes[JOURNAL_KEY_COPIES][COPY_BYTES];
    bool good[JOURNAL_KEY_COPIES];
};

static bool copy_good(const char copy[COPY_BYTES])
{
    uint32_t crc = copy_crc(copy);
    return memcmp(copy, magic, sizeof magic - 1) == 0 &&
           memcmp(copy + AT_CRC, &crc, sizeof crc) == 0;
}

static int copies_read(struct files *files, struct copies *ret, struct err_note *note)
{
    int file, rc = files->ops->open(files, JOURNAL_KEY_NAME, false, &file, note);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < JOURNAL_KEY_COPIES && rc == 0; i++) {
        size_t got = 0;
        rc = files->ops->read(files, file, (uint64_t)i * JOURNAL_PAGE, ret->bytes[i], COPY_BYTES,
                              &got, note);
        ret->good[i] = rc == 0 && got == COPY_BYTES && copy_good(ret->bytes[i]);
    }
    files->ops->close(files, file);
    return rc;
}

static int stranger_note(const char *copy, struct err_note *note)
{
    char id[2 * (AT_KEY - AT_STORE) + 1];
    for (size_t i = 0; i < AT_KEY - AT_STORE; i++)
        snprintf(id + 2 * i, 3, "%02x", (unsigned char)copy[AT_STORE + i]);
    return err_note_set(note, -ERR_CORRUPT,
                        "journal/key belongs to another store (%s): the directory journal and "
                        "holdfast.db must come from the same data directory; put the right "
                        "journal back" JOURNAL_ADVICE,
                        id);
}

static int copies_take(const struct copies *c, const uint8_t store_id[16], struct journal_key *ret,
                       struct err_note *note)
{
    const char *found = c->good[0] ? c->bytes[0] : c->good[1] ? c->bytes[1] : NULL;
    *ret = (struct journal_key){.state = JOURNAL_KEY_DAMAGED, .damaged = {true, true}};
    if (!found || (c->good[0] && c->good[1] && memcmp(c->bytes[0], c->bytes[1], COPY_BYTES) != 0))
        return 0;
    if (found[sizeof magic - 1] != magic[sizeof magic - 1])
        return err_note_set(note, -ERR_VERSION,
                            "journal/key was written by a newer version of holdfast; start that "
                            "version");
    if (memcmp(found + AT_STORE, store_id, AT_KEY - AT_STORE) != 0)
        return stranger_note(found, note);
    memcpy(ret->bytes, found + AT_KEY, sizeof ret->bytes);
    for (unsigned i = 0; i < JOURNAL_KEY_COPIES; i++)
        ret->damaged[i] = !c->good[i];
    ret->state = c->good[0] && c->good[1] ? JOURNAL_KEY_WHOLE : JOURNAL_KEY_HALF;
    return 0;
}

int journal_key_load(struct files *files, bool there, const uint8_t store_id[16],
                     struct journal_key *ret, struct err_note *note)
{
    struct copies copies = {0};
    *ret = (struct journal_key){.state = JOURNAL_KEY_MISSING, .damaged = {true, true}};
    if (!there)
        return 0;
    int rc = copies_read(files, &copies, note);
    if (rc == 0)
        rc = copies_take(&copies, store_id, ret, note);
    explicit_bzero(&copies, sizeof copies);
    return rc;
}

/* ---- writing ---- */

/* A whole page, so that no sector is left as it was. */
static int copy_write(struct files *files, int file, unsigned i, const uint8_t store_id[16],
                      const uint8_t key[JOURNAL_KEY_BYTES], struct err_note *note)
{
    char page[JOURNAL_PAGE] = {0};
    struct span bytes = span_of(page, sizeof page);
    memcpy(page, magic, sizeof magic);
    memcpy(page + AT_STORE, store_id, AT_KEY - AT_STORE);
    memcpy(page + AT_KEY, key, JOURNAL_KEY_BYTES);
    uint32_t crc = copy_crc(page);
    memcpy(page + AT_CRC, &crc, sizeof crc);
    int rc = files->ops->write(files, file, (uint64_t)i * JOURNAL_PAGE, &bytes, 1, note);
    explicit_bzero(page, sizeof page);
    return rc;
}

/* Those copies that are damaged, each synced before the next: one that can be read is always left.
 */
static int copies_write(struct files *files, bool make, const uint8_t store_id[16],
                        struct journal_key *k, struct err_note *note)
{
    int file, rc = files->ops->open(files, JOURNAL_KEY_NAME, make, &file, note);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < JOURNAL_KEY_COPIES && rc == 0; i++) {
        if (!k->damaged[i])
            continue;
        rc = copy_write(files, file, i, store_id, k->bytes, note);
        FAILPOINT("journal.key.write");
        if (rc == 0)
            rc = files->ops->sync(files, file, note);
    }
    files->ops->close(files, file);
    if (rc == 0) {
        k->state = JOURNAL_KEY_WHOLE;
        memset(k->damaged, 0, sizeof k->damaged);
    }
    return rc;
}

int journal_key_begin(struct files *files, const uint8_t store_id[16], struct journal_key *k,
                      struct err_note *note)
{
    bool make = k->state == JOURNAL_KEY_MISSING;
    if (!journal_key_usable(k) && random_bytes(k->bytes, sizeof k->bytes) < 0)
        return err_note_set(note, -ERR_IO,
                            "cannot create a key for the journal: the system did not "
                            "provide random bytes");
    /* Also copies that are merely found: an earlier process may have ended before it synced. */
    k->damaged[0] = k->damaged[1] = true;
    int rc = copies_write(files, make, store_id, k, note);
    if (rc == 0)
        rc = files->ops->sync_names(files, note);
    return rc;
}

int journal_key_mend(struct files *files, const uint8_t store_id[16], struct journal_key *k,
                     struct err_note *note)
{
    return copies_write(files, false, store_id, k, note);
}
