/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/offline/reading.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/local/pages/vfs.h"
#include "base/buf.h"

/* A path may have signs that mean something in a URI. */
static int uri_path(struct buf *uri, const char *path)
{
    int rc = 0;
    for (; *path && rc == 0; path++) {
        unsigned char c = (unsigned char)*path;
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                     c == '/' || c == '.' || c == '-' || c == '_';
        rc = plain ? buf_append(uri, path, 1) : buf_printf(uri, "%%%02X", c);
    }
    return rc;
}

static bool has_wal(const struct store_dir *dir)
{
    struct stat st;
    return fstatat(dir->fd, "holdfast.db-wal", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0;
}

static int uri_make(struct buf *uri, const struct store_dir *dir, bool wal, bool trust)
{
    int rc = buf_append_text(uri, "file:");
    if (rc == 0)
        rc = uri_path(uri, dir->db_path);
    if (rc == 0)
        rc = buf_append_text(uri, wal ? "?mode=ro&vfs=" DBPAGE_VFS_NOLOCK : "?mode=ro&immutable=1");
    if (rc == 0 && trust)
        rc = buf_append_text(uri, "&" DBPAGE_VFS_TRUST "=1");
    return rc ? rc : buf_append(uri, "", 1);
}

int reading_open(const struct store_dir *dir, bool trust, sqlite3 **ret, struct err_note *note)
{
    struct buf uri;
    bool wal = has_wal(dir);
    buf_init(&uri);
    int rc = uri_make(&uri, dir, wal, trust);
    rc = rc == 0 ? sql_open_uri(uri.data, dir->db_path, ret, note)
                 : err_note_set(note, rc, "out of memory");
    buf_done(&uri);
    if (rc != 0)
        return rc;
    sqlite3_db_config(*ret, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return sql_exec(*ret,
                    wal ? "PRAGMA locking_mode = EXCLUSIVE; PRAGMA query_only = ON;"
                          "PRAGMA temp_store = MEMORY;"
                        : "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY;",
                    note);
}

int reading_journal_files(const char *dir, struct files **ret, struct err_note *note)
{
    struct buf path;
    buf_init(&path);
    int rc = buf_printf(&path, "%s/journal", dir);
    if (rc == 0)
        rc = buf_append(&path, "", 1);
    if (rc == 0)
        rc = files_open_dir(path.data, false, true, ret, note);
    buf_done(&path);
    return rc;
}

/* A server that was killed early may have left the note of its journal in a WAL that is lost; the
 * next start goes on from the position, too. */
struct journal_config reading_journal_config(const struct store_meta *meta, struct files *files)
{
    uint64_t from = meta->journal_from < 0 ? meta->position : (uint64_t)meta->journal_from;
    struct journal_config config = {
        .files = files, .from = from, .applied = meta->position, .read_only = true};
    memcpy(config.store_id, meta->store_id, sizeof config.store_id);
    return config;
}
