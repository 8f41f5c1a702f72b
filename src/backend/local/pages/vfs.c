/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/pages/vfs.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/local/pages/dbfile.h"
#include "backend/local/pages/wal.h"
#include "base/digest/hash.h"
#include "base/mem.h"

enum trust { TRUST_NONE, TRUST_FIRST, TRUST_ALL };

/* Places in SQLite's file format. */
enum { AT_WRITE_VERSION = 18, AT_READ_VERSION = 19, AT_PAGES = 28 };

struct page_file {
    sqlite3_file base;
    sqlite3_file *real;     /* of the VFS below; in the memory behind this struct */
    struct page_file *main; /* of a WAL: its database; of a database: itself */
    struct page_file *wal;  /* of a database: its WAL while that is open */
    /* of a database */
    struct dbpage_fault fault;
    enum trust trust;
    struct dbpage_fault trusted; /* the first page that was given although it does not match */
    uint32_t pages;              /* that the file is known to have */
    bool checkpoint;             /* one is under way … */
    struct dbpage_origin origin; /* … and this is the frame that it read last */
    /* of a WAL: CRC32C of pages written through this handle, by frame; 0 = not known */
    uint32_t *sums;
    uint32_t sum_room;
};

static struct page_file *file_of(sqlite3_file *f)
{
    return (struct page_file *)f;
}

static int fault_set(struct page_file *f, enum dbpage_fault_kind kind, uint32_t number)
{
    f->main->fault = (struct dbpage_fault){kind, number};
    return SQLITE_IOERR_DATA;
}

/* ---- the database: reading ---- */

static int real_read(struct page_file *f, void *out, int n, sqlite3_int64 at)
{
    return f->real->pMethods->xRead(f->real, out, n, at);
}

/* SQLite takes what lies behind the end of a file for zeros. That is right while it makes a new
 * file, and without a WAL it compares the size of the file with the number of pages itself. */
static int short_check(struct page_file *f, uint32_t number)
{
    sqlite3_int64 bytes = 0;
    int rc = f->real->pMethods->xFileSize(f->real, &bytes);
    if (rc != SQLITE_OK)
        return rc;
    bool behind = bytes <= (sqlite3_int64)(number - 1) * DBPAGE_BYTES;
    return behind && !f->wal ? SQLITE_IOERR_SHORT_READ : fault_set(f, DBPAGE_MISSING, number);
}

/* What is always the same is known; for the rest of the header SQLite has to make do with values
 * that keep it from refusing the file: a WAL is possible, and the number of pages is that of the
 * file. */
static void header_mend(unsigned char *page)
{
    dbfile_mend(page);
    if (dbpage_good(page, 1))
        return;
    page[AT_WRITE_VERSION] = page[AT_READ_VERSION] = 2;
    memset(page + AT_PAGES, 0, 4);
}

static int page_trust(struct page_file *f, unsigned char *page, uint32_t number)
{
    if (f->trusted.kind == DBPAGE_FINE)
        f->trusted = (struct dbpage_fault){DBPAGE_WRONG, number};
    if (number == 1)
        header_mend(page);
    return SQLITE_OK;
}

static int page_check(struct page_file *f, int rc, unsigned char *page, uint32_t number)
{
    if (rc == SQLITE_IOERR_SHORT_READ)
        return short_check(f, number);
    if (rc != SQLITE_OK || dbpage_good(page, number))
        return rc;
    if (f->trust == TRUST_ALL || (f->trust == TRUST_FIRST && number == 1))
        return page_trust(f, page, number);
    return fault_set(f, DBPAGE_WRONG, number);
}

/* A part of one page: SQLite looks at the header of the file before it knows whether there is a
 * WAL. A power cut during a checkpoint may leave the first page torn; the WAL has it then, and
 * SQLite reads it there before it uses it. */
static int part_read(struct page_file *f, void *out, int n, sqlite3_int64 at)
{
    unsigned char page[DBPAGE_BYTES];
    uint32_t number = (uint32_t)(at / DBPAGE_BYTES) + 1;
    int from = (int)(at % DBPAGE_BYTES);
    if (n > DBPAGE_BYTES - from)
        return SQLITE_IOERR_READ;
    int rc = real_read(f, page, DBPAGE_BYTES, (sqlite3_int64)(number - 1) * DBPAGE_BYTES);
    if (f->trust != TRUST_NONE && number == 1 && rc == SQLITE_OK && !dbpage_good(page, 1))
        header_mend(page);
    if (rc == SQLITE_OK || rc == SQLITE_IOERR_SHORT_READ)
        memcpy(out, page + from, (size_t)n);
    if (number == 1 && rc == SQLITE_OK)
        return SQLITE_OK;
    return page_check(f, rc, page, number);
}

static int db_read(sqlite3_file *file, void *out, int n, sqlite3_int64 at)
{
    struct page_file *f = file_of(file);
    if (n != DBPAGE_BYTES || at % DBPAGE_BYTES != 0)
        return part_read(f, out, n, at);
    return page_check(f, real_read(f, out, n, at), out, (uint32_t)(at / DBPAGE_BYTES) + 1);
}

/* ---- the database: writing ---- */

static int page_write(struct page_file *f, unsigned char *page, uint32_t number)
{
    static const struct dbpage_origin none;
    dbpage_seal(page, number, f->checkpoint ? &f->origin : &none);
    return f->real->pMethods->xWrite(f->real, page, DBPAGE_BYTES,
                                     (sqlite3_int64)(number - 1) * DBPAGE_BYTES);
}

/* SQLite may leave out pages without content when a file grows; no page of zeros may be left. */
static int gap_fill(struct page_file *f, uint32_t number)
{
    unsigned char page[DBPAGE_BYTES];
    sqlite3_int64 bytes = 0;
    int rc = f->real->pMethods->xFileSize(f->real, &bytes);
    f->pages = (uint32_t)(bytes / DBPAGE_BYTES);
    while (rc == SQLITE_OK && f->pages + 1 < number) {
        memset(page, 0, sizeof page);
        rc = page_write(f, page, ++f->pages);
    }
    return rc;
}

static int db_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
    struct page_file *f = file_of(file);
    unsigned char page[DBPAGE_BYTES];
    uint32_t number = (uint32_t)(at / DBPAGE_BYTES) + 1;
    if (n != DBPAGE_BYTES || at % DBPAGE_BYTES != 0)
        return SQLITE_IOERR_WRITE;
    int rc = number > f->pages ? gap_fill(f, number) : SQLITE_OK;
    if (rc != SQLITE_OK)
        return rc;
    memcpy(page, bytes, sizeof page);
    rc = page_write(f, page, number);
    if (rc == SQLITE_OK && number > f->pages)
        f->pages = number;
    return rc;
}

static int db_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct page_file *f = file_of(file);
    f->pages = 0;
    return f->real->pMethods->xTruncate(f->real, size);
}

/* ---- the WAL ---- */

/* The frame whose page begins at this place; 0 = none does. */
static uint32_t frame_of(int n, sqlite3_int64 at)
{
    sqlite3_int64 from = at - WAL_HEADER_BYTES;
    if (n != DBPAGE_BYTES || from < 0 || from % WAL_FRAME_BYTES != WAL_FRAME_HEADER_BYTES)
        return 0;
    return (uint32_t)(from / WAL_FRAME_BYTES) + 1;
}

static int sums_grow(struct page_file *f, uint32_t frame)
{
    uint32_t room = f->sum_room ? f->sum_room : 256;
    while (room < frame)
        room *= 2;
    uint32_t *sums = mem_regrow(f->sums, room, sizeof *sums);
    if (!sums)
        return SQLITE_IOERR_NOMEM;
    memset(sums + f->sum_room, 0, (room - f->sum_room) * sizeof *sums);
    f->sums = sums;
    f->sum_room = room;
    return SQLITE_OK;
}

static int wal_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
    struct page_file *f = file_of(file);
    uint32_t frame = frame_of(n, at);
    if (frame > f->sum_room && sums_grow(f, frame) != SQLITE_OK)
        return SQLITE_IOERR_NOMEM;
    int rc = f->real->pMethods->xWrite(f->real, bytes, n, at);
    if (frame != 0)
        f->sums[frame - 1] = rc == SQLITE_OK ? crc32c(0, bytes, (size_t)n) : 0;
    return rc;
}

/* Read together: the checksum in front, for which the page in front comes along, and the frame. */
static int frame_check(struct page_file *f, uint32_t frame, unsigned char *out)
{
    unsigned char bytes[8 + DBPAGE_BYTES + WAL_FRAME_BYTES];
    size_t before = frame == 1 ? 0 : DBPAGE_BYTES; /* between that checksum and the frame */
    size_t n = 8 + before + WAL_FRAME_BYTES;
    const unsigned char *header = bytes + 8 + before;
    int rc = real_read(f, bytes, (int)n, wal_frame_at(frame) - (sqlite3_int64)(8 + before));
    if (rc == SQLITE_IOERR_SHORT_READ)
        return fault_set(f, DBPAGE_FRAME, frame);
    if (rc != SQLITE_OK)
        return rc;
    memcpy(out, header + WAL_FRAME_HEADER_BYTES, DBPAGE_BYTES);
    return wal_frame_follows(bytes, header, header + WAL_FRAME_HEADER_BYTES)
               ? SQLITE_OK
               : fault_set(f, DBPAGE_FRAME, frame);
}

static int wal_read(sqlite3_file *file, void *out, int n, sqlite3_int64 at)
{
    struct page_file *f = file_of(file);
    uint32_t frame = frame_of(n, at);
    if (frame == 0) /* headers, and whole frames, which SQLite checks itself */
        return real_read(f, out, n, at);
    f->main->origin.frame = frame;
    if (frame <= f->sum_room && f->sums[frame - 1] != 0) {
        int rc = real_read(f, out, n, at);
        if (rc == SQLITE_OK && crc32c(0, out, (size_t)n) == f->sums[frame - 1])
            return SQLITE_OK;
    }
    return frame_check(f, frame, out);
}

static int wal_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct page_file *f = file_of(file);
    mem_free(f->sums);
    f->sums = NULL;
    f->sum_room = 0;
    return f->real->pMethods->xTruncate(f->real, size);
}

/* ---- what both have in common ---- */

static int any_close(sqlite3_file *file)
{
    struct page_file *f = file_of(file);
    if (f->main != f)
        f->main->wal = NULL;
    mem_free(f->sums);
    return f->real->pMethods->xClose(f->real);
}

static int any_sync(sqlite3_file *file, int flags)
{
    struct page_file *f = file_of(file);
    return f->real->pMethods->xSync(f->real, flags);
}

static int any_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    struct page_file *f = file_of(file);
    return f->real->pMethods->xFileSize(f->real, ret);
}

static int any_lock(sqlite3_file *file, int kind)
{
    struct page_file *f = file_of(file);
    return f->real->pMethods->xLock(f->real, kind);
}

static int any_unlock(sqlite3_file *file, int kind)
{
    struct page_file *f = file_of(file);
    return f->real->pMethods->xUnlock(f->real, kind);
}

static int any_reserved(sqlite3_file *file, int *ret)
{
    struct page_file *f = file_of(file);
    return f->real->pMethods->xCheckReservedLock(f->real, ret);
}

/* The salts do not change while a checkpoint is under way. */
static void checkpoint_begin(struct page_file *f)
{
    unsigned char salts[8] = {0};
    f->origin = (struct dbpage_origin){0};
    f->checkpoint = f->wal && real_read(f->wal, salts, sizeof salts, 16) == SQLITE_OK;
    for (int i = 0; i < 8; i++)
        f->origin.salts[i / 4] = f->origin.salts[i / 4] << 8 | salts[i];
}

static int any_control(sqlite3_file *file, int op, void *arg)
{
    struct page_file *f = file_of(file);
    switch (op) {
    case SQLITE_FCNTL_CKPT_START:
        checkpoint_begin(f);
        return SQLITE_OK;
    case SQLITE_FCNTL_CKPT_DONE:
        f->checkpoint = false;
        return SQLITE_OK;
    case SQLITE_FCNTL_SIZE_HINT: /* would leave pages of zeros */
    case SQLITE_FCNTL_CHUNK_SIZE:
        return SQLITE_OK;
    default:
        return f->real->pMethods->xFileControl(f->real, op, arg);
    }
}

static int any_sector(sqlite3_file *file)
{
    struct page_file *f = file_of(file);
    return f->real->pMethods->xSectorSize(f->real);
}

static int any_device(sqlite3_file *file)
{
    struct page_file *f = file_of(file);
    return f->real->pMethods->xDeviceCharacteristics(f->real);
}

static int db_shm_map(sqlite3_file *file, int page, int bytes, int extend, void volatile **ret)
{
    struct page_file *f = file_of(file);
    return f->real->pMethods->xShmMap
               ? f->real->pMethods->xShmMap(f->real, page, bytes, extend, ret)
               : SQLITE_IOERR_SHMMAP;
}

static int db_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    struct page_file *f = file_of(file);
    return f->real->pMethods->xShmLock(f->real, offset, n, flags);
}

static void db_shm_barrier(sqlite3_file *file)
{
    struct page_file *f = file_of(file);
    f->real->pMethods->xShmBarrier(f->real);
}

static int db_shm_unmap(sqlite3_file *file, int remove)
{
    struct page_file *f = file_of(file);
    return f->real->pMethods->xShmUnmap ? f->real->pMethods->xShmUnmap(f->real, remove) : SQLITE_OK;
}

#define ANY_METHODS                                                                                \
    .xClose = any_close, .xSync = any_sync, .xFileSize = any_size, .xLock = any_lock,              \
    .xUnlock = any_unlock, .xCheckReservedLock = any_reserved, .xFileControl = any_control,        \
    .xSectorSize = any_sector, .xDeviceCharacteristics = any_device

/* Version 2 has no xFetch, so that SQLite never maps the file. */
static const sqlite3_io_methods db_methods = {
    .iVersion = 2,
    ANY_METHODS,
    .xRead = db_read,
    .xWrite = db_write,
    .xTruncate = db_truncate,
    .xShmMap = db_shm_map,
    .xShmLock = db_shm_lock,
    .xShmBarrier = db_shm_barrier,
    .xShmUnmap = db_shm_unmap,
};

static const sqlite3_io_methods wal_methods = {
    .iVersion = 1,
    ANY_METHODS,
    .xRead = wal_read,
    .xWrite = wal_write,
    .xTruncate = wal_truncate,
};

/* ---- the VFS ---- */

static sqlite3_vfs *below(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

/* NULL when the WAL is not of a database that was opened here. */
static struct page_file *main_of(const char *wal_name)
{
    sqlite3_file *db = sqlite3_database_file_object(wal_name);
    return db && db->pMethods == &db_methods ? file_of(db) : NULL;
}

static int vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                    int *ret_flags)
{
    sqlite3_vfs *base = below(vfs);
    struct page_file *f = file_of(file);
    bool wal = (flags & SQLITE_OPEN_WAL) != 0;
    if (!name || !(flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)))
        return base->xOpen(base, name, file, flags, ret_flags);
    memset(f, 0, sizeof *f);
    f->real = (sqlite3_file *)(f + 1);
    f->main = wal ? main_of(name) : f;
    if (!f->main)
        return SQLITE_CANTOPEN;
    int rc = base->xOpen(base, name, f->real, flags, ret_flags);
    if (f->real->pMethods)
        f->base.pMethods = wal ? &wal_methods : &db_methods;
    if (wal && f->real->pMethods)
        f->main->wal = f;
    if (!wal && sqlite3_uri_boolean(name, DBPAGE_VFS_TRUST, 0))
        f->trust = TRUST_ALL;
    return rc;
}

/* The directory's real name and the file's own: the VFS below opens files with O_NOFOLLOW, but
 * would resolve a link in the name first. */
static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int bytes, char *ret)
{
    char dir[PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(name, '/');
    size_t len = slash ? (size_t)(slash - name) : 0;
    if (len >= sizeof dir)
        return SQLITE_CANTOPEN_FULLPATH;
    snprintf(dir, sizeof dir, "%.*s", (int)len, name);
    if (!realpath(slash ? (len ? dir : "/") : ".", real))
        return below(vfs)->xFullPathname(below(vfs), name, bytes, ret);
    int n = snprintf(ret, (size_t)bytes, "%s/%s", strcmp(real, "/") == 0 ? "" : real,
                     slash ? slash + 1 : name);
    return n > 0 && n < bytes ? SQLITE_OK : SQLITE_CANTOPEN_FULLPATH;
}

struct registration {
    pthread_once_t once;
    int rc;
    sqlite3_vfs vfs[2];
};

/* SQLite keeps the VFSs of a process in a list; they do not change once they are in it. */
static struct registration registered = {.once = PTHREAD_ONCE_INIT};

static int register_one(sqlite3_vfs *vfs, const char *name, const char *base_name)
{
    sqlite3_vfs *base = sqlite3_vfs_find(base_name);
    if (!base)
        return -ERR_IO;
    *vfs = *base;
    vfs->pNext = NULL;
    vfs->zName = name;
    vfs->pAppData = base;
    vfs->szOsFile = (int)sizeof(struct page_file) + base->szOsFile;
    vfs->xOpen = vfs_open;
    vfs->xFullPathname = vfs_full_path;
    return sqlite3_vfs_register(vfs, 0) == SQLITE_OK ? 0 : -ERR_IO;
}

static void register_both(void)
{
    registered.rc = register_one(&registered.vfs[0], DBPAGE_VFS, "unix");
    if (registered.rc == 0)
        registered.rc = register_one(&registered.vfs[1], DBPAGE_VFS_NOLOCK, "unix-none");
}

int dbpage_vfs_register(void)
{
    (void)pthread_once(&registered.once, register_both);
    return registered.rc;
}

/* ---- for those who use a connection ---- */

static struct page_file *main_file(sqlite3 *db)
{
    sqlite3_file *file = NULL;
    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK || !file ||
        file->pMethods != &db_methods)
        return NULL;
    return file_of(file);
}

struct dbpage_fault dbpage_vfs_fault(sqlite3 *db)
{
    const struct page_file *f = main_file(db);
    return f ? f->fault : (struct dbpage_fault){DBPAGE_FINE, 0};
}

struct dbpage_fault dbpage_vfs_trusted(sqlite3 *db)
{
    const struct page_file *f = main_file(db);
    return f ? f->trusted : (struct dbpage_fault){DBPAGE_FINE, 0};
}

void dbpage_vfs_trust_end(sqlite3 *db)
{
    struct page_file *f = main_file(db);
    if (f && f->trust == TRUST_ALL)
        f->trust = TRUST_FIRST;
}

static int map_read(void *ctx, uint32_t number, unsigned char page[DBPAGE_BYTES])
{
    int rc = real_read(ctx, page, DBPAGE_BYTES, (sqlite3_int64)(number - 1) * DBPAGE_BYTES);
    return rc == SQLITE_OK && dbpage_good(page, number) ? 0 : -ERR_CORRUPT;
}

bool dbpage_vfs_owner(sqlite3 *db, uint32_t page, char *name, size_t bytes)
{
    struct page_file *f = main_file(db);
    sqlite3_stmt *st = NULL;
    uint32_t root = f ? dbpage_root(map_read, f, page) : 0;
    bool found = false;
    if (root == 0 || sqlite3_prepare_v2(db, "SELECT name FROM sqlite_schema WHERE rootpage = ?1",
                                        -1, &st, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_int64(st, 1, root);
    if (sqlite3_step(st) == SQLITE_ROW && sqlite3_column_text(st, 0)) {
        snprintf(name, bytes, "%s", (const char *)sqlite3_column_text(st, 0));
        found = true;
    }
    sqlite3_finalize(st);
    return found;
}

int dbpage_vfs_format(sqlite3 *db, enum dbpage_format *ret)
{
    unsigned char header[24] = {0};
    sqlite3_int64 bytes = 0;
    struct page_file *f = main_file(db);
    *ret = DBPAGE_FORMAT_NONE;
    if (!f || any_size(&f->base, &bytes) != SQLITE_OK)
        return -ERR_IO;
    if (bytes == 0)
        return 0;
    int rc = part_read(f, header, sizeof header, 0);
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_DATA && rc != SQLITE_IOERR_SHORT_READ)
        return -ERR_IO;
    bool ours = (header[16] << 8 | header[17]) == DBPAGE_BYTES && header[20] == DBPAGE_RESERVED;
    *ret = ours ? DBPAGE_FORMAT_OURS : DBPAGE_FORMAT_OTHER;
    return 0;
}
