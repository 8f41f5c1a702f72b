/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of torn entries, which an operator can inspect. The file torn-N is in the folder of the
 * segments; N is the generation in which the journal continues. The server does not read it. */
#include <inttypes.h>
#include <stdio.h>

#include "backend/local/journal/journal_impl.h"
#include "base/mem.h"

#define PIECE_BYTES (256u << 10)
#define NUMBER_DIGITS_MAX 19

/* ---- what there is ---- */

struct saved {
    unsigned count;
    uint64_t oldest; /* number; of those that there are */
};

static bool saved_number(const char *name, uint64_t *ret)
{
    size_t prefix = sizeof JOURNAL_TORN_NAME - 1;
    if (strncmp(name, JOURNAL_TORN_NAME, prefix) != 0)
        return false;
    const char *digits = name + prefix;
    size_t len = strlen(digits);
    if (len == 0 || len > NUMBER_DIGITS_MAX || strspn(digits, "0123456789") != len)
        return false;
    *ret = 0;
    for (; *digits; digits++)
        *ret = *ret * 10 + (uint64_t)(*digits - '0');
    return true;
}

static void name_cb(void *ctx, const char *name, uint64_t size)
{
    struct saved *s = ctx;
    uint64_t number;
    (void)size;
    if (!saved_number(name, &number))
        return;
    if (s->count++ == 0 || number < s->oldest)
        s->oldest = number;
}

int journal_torn_count(struct files *files, unsigned *ret, struct err_note *note)
{
    struct saved saved = {0};
    int rc = files->ops->list(files, name_cb, &saved, note);
    *ret = saved.count;
    return rc;
}

/* ---- one more ---- */

static void name_make(uint64_t number, char name[JOURNAL_TORN_NAME_BYTES])
{
    snprintf(name, JOURNAL_TORN_NAME_BYTES, JOURNAL_TORN_NAME "%" PRIu64, number);
}

/* Until there is room for one more. */
static int oldest_remove(struct files *files, struct err_note *note)
{
    char name[JOURNAL_TORN_NAME_BYTES];
    for (;;) {
        struct saved saved = {0};
        int rc = files->ops->list(files, name_cb, &saved, note);
        if (rc < 0 || saved.count < JOURNAL_TORN_KEPT)
            return rc;
        name_make(saved.oldest, name);
        rc = files->ops->remove(files, name, note);
        if (rc < 0)
            return rc;
    }
}

static int bytes_copy(struct journal *j, int to, char *piece, struct err_note *note)
{
    const struct segment *s = journal_segment_of(j, j->torn.segment);
    struct files *files = j->files;
    size_t got = PIECE_BYTES;
    int rc = 0;
    for (uint64_t done = 0; rc == 0 && done < j->torn.bytes && got > 0; done += got) {
        uint64_t left = j->torn.bytes - done;
        rc = files->ops->read(files, s->file, j->torn.at + done, piece,
                              left < PIECE_BYTES ? (size_t)left : PIECE_BYTES, &got, note);
        struct span bytes = span_of(piece, got);
        if (rc == 0 && got > 0)
            rc = files->ops->write(files, to, done, &bytes, 1, note);
    }
    return rc == 0 ? files->ops->sync(files, to, note) : rc;
}

static int file_save(struct journal *j, const char *name, struct err_note *note)
{
    struct files *files = j->files;
    char *piece = mem_alloc(PIECE_BYTES);
    int file = -1, rc = piece ? files->ops->open(files, name, true, &file, note)
                              : err_note_set(note, -ERR_NOMEM, "out of memory");
    if (rc == 0) {
        rc = bytes_copy(j, file, piece, note);
        files->ops->close(files, file);
        if (rc < 0)
            (void)!files->ops->remove(files, name, NULL);
    }
    mem_free(piece);
    return rc;
}

int journal_torn_save(struct journal *j, char name[JOURNAL_TORN_NAME_BYTES], struct err_note *note)
{
    uint64_t newest = j->torn_generation > j->generation ? j->torn_generation : j->generation;
    name_make(newest + 1, name);
    (void)!j->files->ops->remove(j->files, name, NULL); /* of a start that did not get further */
    int rc = oldest_remove(j->files, note);
    if (rc == 0)
        rc = file_save(j, name, note);
    if (rc == 0)
        rc = j->files->ops->sync_names(j->files, note);
    return rc;
}
