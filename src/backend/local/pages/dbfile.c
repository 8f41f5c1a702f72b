/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/pages/dbfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "backend/local/pages/dbpage.h"
#include "backend/local/sqlite/store_sqlite.h"

#define RESERVE_BYTES (UINT64_C(64) << 20)
#define RESERVE_SHARE 20 /* one part of this many */
#define BUSY_MS 1000

/* ---- the header ---- */

/* Places in SQLite's file format. */
enum {
    AT_PAGE_BYTES = 16,
    AT_WRITE_VERSION = 18,
    AT_READ_VERSION = 19,
    AT_RESERVED = 20, /* and three numbers that never change */
    AT_PAGES = 28,
    AT_SCHEMA_FORMAT = 44,
    AT_ENCODING = 56,
    AT_ID = 68
};
#define MAGIC "SQLite format 3" /* with its last zero */

static uint32_t big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The first page; what is missing of it is zeros. */
static int header_read(int fd, unsigned char page[DBPAGE_BYTES], const char *name,
                       uint64_t *ret_bytes, struct err_note *note)
{
    struct stat st;
    memset(page, 0, DBPAGE_BYTES);
    if (fstat(fd, &st) != 0 || pread(fd, page, DBPAGE_BYTES, 0) < 0)
        return err_note_set(note, -ERR_IO, "cannot read %s: %s", name, strerror(errno));
    *ret_bytes = (uint64_t)st.st_size;
    return 0;
}

static uint32_t page_bytes_of(const unsigned char *page)
{
    return (uint32_t)page[AT_PAGE_BYTES] << 8 | page[AT_PAGE_BYTES + 1];
}

static enum dbfile_kind kind_of(const unsigned char *page)
{
    if (memcmp(page, MAGIC, sizeof MAGIC) != 0)
        return DBFILE_NO_DATABASE;
    if (big_endian(page + AT_ID) != STORE_APPLICATION_ID)
        return DBFILE_FOREIGN;
    bool ours = page_bytes_of(page) == DBPAGE_BYTES && page[AT_RESERVED] == DBPAGE_RESERVED;
    return ours ? DBFILE_OURS : DBFILE_DRAFT;
}

static int header_check(const unsigned char *page, const char *name, struct err_note *note)
{
    switch (kind_of(page)) {
    case DBFILE_NO_DATABASE:
        return err_note_set(note, -ERR_INVALID, "%s is not a holdfast store (not even a database)",
                            name);
    case DBFILE_FOREIGN:
        return err_note_set(note, -ERR_INVALID, "%s is the database of another program", name);
    case DBFILE_DRAFT:
        return sql_draft(name, note);
    case DBFILE_DAMAGED:
    case DBFILE_OURS:
        break;
    }
    return 0;
}

static void big_endian_put(unsigned char *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(v >> (24 - 8 * i));
}

void dbfile_mend(unsigned char *page)
{
    static const unsigned char fixed[] = {DBPAGE_RESERVED, 64, 32, 32};
    memcpy(page, MAGIC, sizeof MAGIC);
    page[AT_PAGE_BYTES] = DBPAGE_BYTES >> 8;
    page[AT_PAGE_BYTES + 1] = DBPAGE_BYTES & 0xff;
    memcpy(page + AT_RESERVED, fixed, sizeof fixed);
    big_endian_put(page + AT_SCHEMA_FORMAT, 4);
    big_endian_put(page + AT_ENCODING, 1); /* UTF-8 */
    big_endian_put(page + AT_ID, STORE_APPLICATION_ID);
}

/* A draft had pages of this size and nothing reserved. One flipped bit makes that of our header,
 * too; then the checksum matches when it is put right. */
static bool is_draft(const unsigned char *page)
{
    unsigned char mended[DBPAGE_BYTES];
    memcpy(mended, page, sizeof mended);
    dbfile_mend(mended);
    return kind_of(page) == DBFILE_DRAFT && page_bytes_of(page) == DBPAGE_BYTES &&
           page[AT_RESERVED] == 0 && !dbpage_good(mended, 1);
}

int dbfile_kind(int fd, const char *dir, enum dbfile_kind *ret)
{
    unsigned char page[DBPAGE_BYTES] = {0};
    if (pread(fd, page, sizeof page, 0) < 0)
        return -ERR_IO;
    *ret = kind_of(page);
    if (*ret != DBFILE_OURS && !is_draft(page) && store_dir_journaled(dir))
        *ret = DBFILE_DAMAGED;
    return 0;
}

int dbfile_header(int fd, const char *name, struct dbfile_facts *ret, struct err_note *note)
{
    unsigned char page[DBPAGE_BYTES];
    *ret = (struct dbfile_facts){0};
    int rc = header_read(fd, page, name, &ret->bytes, note);
    if (rc == 0)
        rc = header_check(page, name, note);
    if (rc != 0)
        return rc;
    ret->pages = big_endian(page + AT_PAGES);
    ret->wal = page[AT_READ_VERSION] == 2;
    ret->sound = dbpage_good(page, 1);
    if (!ret->wal && (uint64_t)ret->pages * DBPAGE_BYTES != ret->bytes)
        return err_note_set(note, -ERR_CORRUPT,
                            "%s has %" PRIu64 " bytes where its header says %" PRIu64
                            ": it is not whole",
                            name, ret->bytes, (uint64_t)ret->pages * DBPAGE_BYTES);
    return 0;
}

int dbfile_set_alone(int fd, const char *name, struct err_note *note)
{
    static const struct dbpage_origin none;
    unsigned char page[DBPAGE_BYTES];
    struct dbpage_fault fault;
    int rc = dbpage_read(fd, 1, page, &fault);
    if (rc != 0 || fault.kind != DBPAGE_FINE)
        return err_note_set(note, rc ? rc : -ERR_CORRUPT, "cannot read the first page of %s", name);
    page[AT_WRITE_VERSION] = page[AT_READ_VERSION] = 1;
    dbpage_seal(page, 1, &none);
    if (pwrite(fd, page, sizeof page, 0) != (ssize_t)sizeof page)
        return err_note_set(note, -ERR_IO, "cannot write %s: %s", name, strerror(errno));
    return 0;
}

bool dbfile_is_alone(const char *path)
{
    struct dbfile_facts facts = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool alone = fd >= 0 && dbfile_header(fd, path, &facts, NULL) == 0 && facts.sound && !facts.wal;
    if (fd >= 0)
        close(fd);
    return alone;
}

/* ---- room ---- */

int dbfile_room(const char *dir, uint64_t bytes, struct err_note *note)
{
    struct statvfs fs;
    if (statvfs(dir, &fs) != 0)
        return err_note_set(note, -ERR_IO, "cannot determine the free space in %s: %s", dir,
                            strerror(errno));
    uint64_t unit = fs.f_frsize, reserve = fs.f_blocks * unit / RESERVE_SHARE;
    uint64_t room = fs.f_bavail * unit;
    if (reserve < RESERVE_BYTES)
        reserve = RESERVE_BYTES;
    if (room >= reserve && room - reserve >= bytes)
        return 0;
    return err_note_set(note, -ERR_NO_SPACE,
                        "%s has %" PRIu64 " MiB free; the copy takes %" PRIu64
                        " MiB and must leave %" PRIu64 " MiB",
                        dir, room >> 20, (bytes >> 20) + 1, reserve >> 20);
}

/* ---- the whole ---- */

static int check_quick(sqlite3 *db, const char *path, struct err_note *note)
{
    sqlite3_stmt *st = NULL;
    int rc = sql_prepare(db, "PRAGMA quick_check(1)", &st, note);
    if (rc != 0)
        return rc;
    if (sqlite3_step(st) != SQLITE_ROW) {
        rc = sql_error(db, "check it", note);
    } else {
        const char *line = (const char *)sqlite3_column_text(st, 0);
        if (!line || strcmp(line, "ok") != 0)
            rc = err_note_set(note, -ERR_CORRUPT, "%s is damaged: SQLite says: %s", path,
                              line ? line : "nothing");
    }
    sqlite3_finalize(st);
    return rc;
}

static int read_contents(sqlite3 *db, struct dbfile_contents *ret, struct err_note *note)
{
    struct store_meta meta;
    int64_t jobs = 0, queues = 0;
    uint64_t gone = 0;
    int rc = sqlite_load_meta(db, &meta, note);
    if (rc == 0)
        rc = sql_number(db, "SELECT count(*) FROM jobs", &jobs, note);
    if (rc == 0)
        rc = gone_count(db, &gone, note);
    if (rc == 0)
        rc = sql_number(db, "SELECT count(*) FROM queues WHERE gone = 0", &queues, note);
    if (rc == 0) {
        ret->jobs = (uint64_t)jobs > gone ? (uint64_t)jobs - gone : 0;
        ret->queues = (uint64_t)queues;
        ret->position = meta.position;
    }
    return rc;
}

struct page_count {
    uint64_t bad;
    struct dbpage_fault first;
};

static void page_bad(void *ctx, const struct dbpage_fault *fault)
{
    struct page_count *count = ctx;
    if (count->bad++ == 0)
        count->first = *fault;
}

static int check_pages(int fd, const char *path, uint32_t pages, struct err_note *note)
{
    char text[100];
    struct page_count count = {0};
    const struct dbpage_walk walk = {.ctx = &count, .bad = page_bad, .count = pages};
    int rc = dbpage_walk(fd, &walk);
    if (rc != 0)
        return err_note_set(note, rc, "cannot read %s: %s", path, err_text(rc));
    if (count.bad == 0)
        return 0;
    dbpage_fault_text(&count.first, text, sizeof text);
    return err_note_set(note, -ERR_CORRUPT, "%s is damaged in %" PRIu64 " page%s; %s", path,
                        count.bad, count.bad == 1 ? "" : "s", text);
}

/* Before SQLite opens the file: closing it here would give up SQLite's locks. */
static int probe(const char *path, struct dbfile_contents *ret, struct err_note *note)
{
    struct dbfile_facts facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ELOOP)
        return store_link_refuse(path, note);
    if (fd < 0)
        return err_note_set(note, errno == ENOENT ? -ERR_NOT_FOUND : -ERR_IO, "cannot open %s: %s",
                            path, strerror(errno));
    int rc = dbfile_header(fd, path, &facts, note);
    if (rc == 0)
        rc = check_pages(fd, path, facts.wal ? 0 : facts.pages, note);
    close(fd);
    ret->bytes = rc == 0 ? facts.bytes : 0;
    return rc;
}

int dbfile_verify(const char *path, struct dbfile_contents *ret, struct err_note *note)
{
    sqlite3 *db = NULL;
    int rc = probe(path, ret, note);
    if (rc != 0)
        return rc;
    rc = sql_open(path, SQLITE_OPEN_READONLY, BUSY_MS, &db, note);
    if (rc == 0)
        rc = check_quick(db, path, note);
    if (rc == 0)
        rc = schema_check(db, path, note);
    if (rc == 0)
        rc = read_contents(db, ret, note);
    sqlite3_close(db);
    return rc;
}
