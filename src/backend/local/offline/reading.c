/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/offline/reading.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "backend/local/pages/vfs.h"
#include "backend/local/sqlite/store_sqlite.h"
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
