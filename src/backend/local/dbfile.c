/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/dbfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "backend/local/store_sqlite.h"

#define RESERVE_BYTES (UINT64_C(64) << 20)
#define RESERVE_SHARE 20 /* one part of so many */
#define BUSY_MS 1000

/* ---- the header ---- */

/* Places in SQLite's file format. */
enum { AT_PAGE_BYTES = 16, AT_WRITE_VERSION = 18, AT_READ_VERSION = 19, AT_PAGES = 28, AT_ID = 68 };

static uint32_t big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int header_read(int fd, unsigned char header[DBFILE_HEADER_BYTES], const char *name,
                       uint64_t *ret_bytes, struct err_note *note)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || pread(fd, header, DBFILE_HEADER_BYTES, 0) < 0)
        return err_note_set(note, -ERR_IO, "cannot read %s: %s", name, strerror(errno));
    *ret_bytes = (uint64_t)st.st_size;
    return 0;
}

int dbfile_header(int fd, const char *name, struct dbfile_facts *ret, struct err_note *note)
{
    unsigned char header[DBFILE_HEADER_BYTES] = {0};
    *ret = (struct dbfile_facts){0};
    int rc = header_read(fd, header, name, &ret->bytes, note);
    if (rc != 0)
        return rc;
    if (memcmp(header, "SQLite format 3", 16) != 0)
        return err_note_set(note, -ERR_INVALID, "%s is not a holdfast store (not even a database)",
                            name);
    if (big_endian(header + AT_ID) != STORE_APPLICATION_ID)
        return err_note_set(note, -ERR_INVALID, "%s is the database of another program", name);
    uint32_t size = (uint32_t)header[AT_PAGE_BYTES] << 8 | header[AT_PAGE_BYTES + 1];
    ret->page_bytes = size == 1 ? 65536 : size;
    ret->pages = big_endian(header + AT_PAGES);
    ret->wal = header[AT_READ_VERSION] == 2;
    if (!ret->wal && (uint64_t)ret->pages * ret->page_bytes != ret->bytes)
        return err_note_set(note, -ERR_CORRUPT,
                            "%s has %" PRIu64 " bytes where its header says %" PRIu64
                            ": it is not whole",
                            name, ret->bytes, (uint64_t)ret->pages * ret->page_bytes);
    return 0;
}

int dbfile_set_alone(int fd, const char *name, struct err_note *note)
{
    static const unsigned char versions[2] = {1, 1};
    _Static_assert(AT_READ_VERSION == AT_WRITE_VERSION + 1, "written together");
    if (pwrite(fd, versions, sizeof versions, AT_WRITE_VERSION) != (ssize_t)sizeof versions)
        return err_note_set(note, -ERR_IO, "cannot write %s: %s", name, strerror(errno));
    return 0;
}

bool dbfile_is_alone(const char *path)
{
    struct dbfile_facts facts = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool alone = fd >= 0 && dbfile_header(fd, path, &facts, NULL) == 0 && !facts.wal;
    if (fd >= 0)
        close(fd);
    return alone;
}

/* ---- room ---- */

int dbfile_room(const char *dir, uint64_t bytes, struct err_note *note)
{
    struct statvfs fs;
    if (statvfs(dir, &fs) != 0)
        return err_note_set(note, -ERR_IO, "cannot see how much room there is in %s: %s", dir,
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

static int check_version(sqlite3 *db, const char *path, struct err_note *note)
{
    int64_t version = 0;
    int rc = sql_number(db, "PRAGMA user_version", &version, note);
    if (rc == 0 && (version < 1 || version > schema_steps.count))
        rc = err_note_set(note, -ERR_VERSION,
                          "%s has format %" PRId64 "; this holdfast reads formats 1 to %d: use the "
                          "one that made it",
                          path, version, schema_steps.count);
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

static int probe(const char *path, struct dbfile_contents *ret, struct err_note *note)
{
    struct dbfile_facts facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_note_set(note, errno == ENOENT ? -ERR_NOT_FOUND : -ERR_IO, "cannot open %s: %s",
                            path, strerror(errno));
    int rc = dbfile_header(fd, path, &facts, note);
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
        rc = check_version(db, path, note);
    if (rc == 0)
        rc = read_contents(db, ret, note);
    sqlite3_close(db);
    return rc;
}
