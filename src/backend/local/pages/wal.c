/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/pages/wal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/local/store/store_dir.h"
#include "base/buf.h"
#include "base/mem.h"

/* Places in SQLite's WAL format. */
enum { AT_MAGIC = 0, AT_PAGE_BYTES = 8, AT_HEADER_SALTS = 16, AT_HEADER_SUM = 24 };
enum { AT_PAGE = 0, AT_COMMIT = 4, AT_SALTS = 8, AT_SUM = 16 };

#define MAGIC 0x377f0682u /* the lowest bit: checksums are of big-endian words */
#define SCAN_FRAMES 64

static uint32_t get32(const unsigned char *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return be32toh(v);
}

/* ---- checksums ---- */

struct sums {
    uint32_t a, b;
};

static inline struct sums add_words(struct sums s, const unsigned char *p, size_t len, bool big)
{
    for (; len >= 8; len -= 8, p += 8) {
        uint32_t word[2];
        memcpy(word, p, sizeof word);
        s.a += (big ? be32toh(word[0]) : le32toh(word[0])) + s.b;
        s.b += (big ? be32toh(word[1]) : le32toh(word[1])) + s.a;
    }
    return s;
}

static struct sums sums_stored(const unsigned char *at)
{
    return (struct sums){get32(at), get32(at + 4)};
}

static struct sums frame_sums(const unsigned char before[8], const unsigned char *header,
                              const unsigned char *page, bool big)
{
    struct sums s = add_words(sums_stored(before), header, AT_SALTS, big);
    return add_words(s, page, DBPAGE_BYTES, big);
}

static bool sums_equal(struct sums a, struct sums b)
{
    return a.a == b.a && a.b == b.b;
}

/* The order of the bytes is that of the machine which wrote the frame, nearly always this one. */
bool wal_frame_follows(const unsigned char before[8],
                       const unsigned char header[WAL_FRAME_HEADER_BYTES],
                       const unsigned char page[DBPAGE_BYTES])
{
    bool big = BYTE_ORDER == BIG_ENDIAN;
    struct sums stored = sums_stored(header + AT_SUM);
    return sums_equal(frame_sums(before, header, page, big), stored) ||
           sums_equal(frame_sums(before, header, page, !big), stored);
}

/* ---- a whole WAL ---- */

struct scan {
    int fd, db;
    const char *path; /* of the WAL */
    struct err_note *note;
    struct dbpage_wal *ret;
    unsigned char header[WAL_HEADER_BYTES];
    uint32_t count; /* of ret->numbers … */
    size_t room;
    uint32_t committed;      /* … of which this many are of transactions that SQLite will find */
    uint32_t bad;            /* the first frame that does not match; 0 = none */
    unsigned char before[8]; /* checksum of the frame in front, as stored … */
    unsigned char beside[8]; /* … and, behind a bad frame, as it should have been stored */
    bool commit_before;      /* the frame in front, bad or behind a bad one, ends a transaction */
    uint32_t lost;           /* a commit behind `bad` that was synced; 0 = none found */
};

static int damaged(const struct scan *s, const char *why)
{
    return err_note_set(s->note, -ERR_CORRUPT,
                        "%s is damaged: %s; the database without it would be that of an earlier "
                        "time, or of several times at once",
                        s->path, why);
}

static int number_add(struct scan *s, uint32_t number)
{
    uint32_t *grown = mem_more(s->ret->numbers, s->count, &s->room, sizeof *grown);
    if (!grown)
        return -ERR_NOMEM;
    s->ret->numbers = grown;
    s->ret->numbers[s->count++] = number;
    return 0;
}

static void sums_put(unsigned char at[8], struct sums s)
{
    uint32_t words[2] = {htobe32(s.a), htobe32(s.b)};
    memcpy(at, words, sizeof words);
}

/* Behind a bad frame: whether a transaction that was synced is lost. */
static void behind_bad(struct scan *s, uint32_t frame, const unsigned char *header,
                       const unsigned char *page, bool current)
{
    if (frame != s->bad && s->commit_before && current &&
        (wal_frame_follows(s->before, header, page) || wal_frame_follows(s->beside, header, page)))
        s->lost = frame - 1;
    s->commit_before = get32(header + AT_COMMIT) != 0;
    sums_put(s->beside,
             frame_sums(s->before, header, page, (get32(s->header + AT_MAGIC) & 1) != 0));
}

static int frame_take(struct scan *s, uint32_t frame, const unsigned char *header)
{
    const unsigned char *page = header + WAL_FRAME_HEADER_BYTES;
    bool current = memcmp(header + AT_SALTS, s->header + AT_HEADER_SALTS, 8) == 0;
    uint32_t commit = get32(header + AT_COMMIT);
    if (s->bad == 0 && !(current && wal_frame_follows(s->before, header, page)))
        s->bad = frame;
    int rc = current ? number_add(s, get32(header + AT_PAGE)) : 0;
    if (s->bad != 0) {
        behind_bad(s, frame, header, page, current);
    } else if (commit != 0) {
        s->ret->frames = frame;
        s->ret->pages = commit;
        s->committed = s->count;
    }
    memcpy(s->before, header + AT_SUM, sizeof s->before);
    return rc;
}

static int frames_scan(struct scan *s)
{
    unsigned char *frames = mem_alloc((size_t)SCAN_FRAMES * WAL_FRAME_BYTES);
    int rc = frames ? 0 : -ERR_NOMEM;
    uint32_t frame = 1;
    for (ssize_t n = 1; rc == 0 && n > 0;) {
        n = pread(s->fd, frames, (size_t)SCAN_FRAMES * WAL_FRAME_BYTES, wal_frame_at(frame));
        if (n < 0)
            rc = err_note_set(s->note, -ERR_IO, "cannot read %s: %s", s->path, strerror(errno));
        ssize_t at = 0;
        for (; rc == 0 && at + WAL_FRAME_BYTES <= n; at += WAL_FRAME_BYTES)
            rc = frame_take(s, frame++, frames + at);
        if (at == 0)
            break;
    }
    mem_free(frames);
    return rc;
}

/* Whether a checkpoint has copied a page from a frame that SQLite will not find. A transaction that
 * was never committed is never copied. */
static void copied_check(struct scan *s)
{
    unsigned char page[DBPAGE_BYTES];
    struct dbpage_fault fault;
    uint32_t salts[2] = {get32(s->header + AT_HEADER_SALTS),
                         get32(s->header + AT_HEADER_SALTS + 4)};
    for (uint32_t i = s->committed; i < s->count && s->lost == 0; i++) {
        uint32_t number = s->ret->numbers[i];
        if (number == 0 || dbpage_read(s->db, number, page, &fault) != 0 ||
            fault.kind != DBPAGE_FINE)
            continue;
        struct dbpage_origin from = dbpage_origin_of(page);
        if (memcmp(from.salts, salts, sizeof salts) == 0 && from.frame > s->ret->frames)
            s->lost = from.frame;
    }
}

/* SQLite ignores a WAL whose header is not right. */
static bool header_good(const struct scan *s)
{
    const unsigned char *h = s->header;
    bool big = (get32(h + AT_MAGIC) & 1) != 0;
    return (get32(h + AT_MAGIC) & ~1u) == MAGIC && get32(h + AT_PAGE_BYTES) == DBPAGE_BYTES &&
           sums_equal(add_words((struct sums){0}, h, AT_HEADER_SUM, big),
                      sums_stored(h + AT_HEADER_SUM));
}

/* The header is synced before the first frame is written. */
static int header_check(struct scan *s, bool *ret_frames)
{
    static const unsigned char zeros[WAL_FRAME_HEADER_BYTES];
    unsigned char first[WAL_FRAME_HEADER_BYTES] = {0};
    ssize_t n = pread(s->fd, s->header, sizeof s->header, 0);
    if (n < 0 || pread(s->fd, first, sizeof first, WAL_HEADER_BYTES) < 0)
        return err_note_set(s->note, -ERR_IO, "cannot read %s: %s", s->path, strerror(errno));
    *ret_frames = n == sizeof s->header && header_good(s);
    if (*ret_frames || memcmp(first, zeros, sizeof first) == 0)
        return 0;
    return damaged(s, "its header cannot be read");
}

static int number_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int scan_all(struct scan *s)
{
    char why[100];
    bool frames = false;
    int rc = header_check(s, &frames);
    if (rc == 0 && frames) {
        memcpy(s->before, s->header + AT_HEADER_SUM, sizeof s->before);
        rc = frames_scan(s);
    }
    if (rc == 0 && s->lost == 0)
        copied_check(s);
    if (rc == 0 && s->committed > 0)
        qsort(s->ret->numbers, s->committed, sizeof s->ret->numbers[0], number_compare);
    s->ret->number_count = s->committed;
    if (rc != 0 || s->lost == 0)
        return rc;
    snprintf(why, sizeof why, "frame %u does not match, and a transaction behind it was committed",
             s->bad ? s->bad : s->ret->frames + 1);
    return damaged(s, why);
}

int dbpage_wal_check(const char *db_path, struct dbpage_wal *ret, struct err_note *note)
{
    struct buf path;
    *ret = (struct dbpage_wal){0};
    buf_init(&path);
    int rc = buf_printf(&path, "%s-wal", db_path);
    if (rc == 0)
        rc = buf_append(&path, "", 1);
    if (rc != 0) {
        buf_done(&path);
        return err_note_set(note, rc, "out of memory");
    }
    struct scan s = {.path = path.data, .note = note, .ret = ret};
    s.fd = open(s.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int error = errno;
    s.db = s.fd >= 0 ? open(db_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (s.fd >= 0)
        rc = scan_all(&s);
    else if (error == ELOOP)
        rc = store_link_refuse(s.path, note);
    else if (error != ENOENT)
        rc = err_note_set(note, -ERR_IO, "cannot open %s: %s", s.path, strerror(error));
    if (s.db >= 0)
        close(s.db);
    if (s.fd >= 0)
        close(s.fd);
    buf_done(&path);
    return rc;
}

void dbpage_wal_done(struct dbpage_wal *w)
{
    mem_free(w->numbers);
    *w = (struct dbpage_wal){0};
}

bool dbpage_wal_covers(const struct dbpage_wal *w, uint32_t number)
{
    return w->pages != 0 &&
           (number > w->pages ||
            (w->number_count > 0 && bsearch(&number, w->numbers, w->number_count,
                                            sizeof w->numbers[0], number_compare) != NULL));
}
