/* SPDX-License-Identifier: Apache-2.0 */
/* The checksums of the database file and of its WAL. Every page of the file is read, used or not,
 * but for those of which the WAL has a newer version: a power cut during a checkpoint may leave
 * them torn, and no one reads them again. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "backend/local/offline/check/check_impl.h"
#include "backend/local/pages/vfs.h"
#include "backend/local/pages/wal.h"
#include "base/mem.h"

struct pages_look {
    struct check *c;
    struct dbpage_wal wal;
    bool nomem;
};

static bool skip_cb(void *ctx, uint32_t number)
{
    const struct pages_look *look = ctx;
    return dbpage_wal_covers(&look->wal, number);
}

static void bad_cb(void *ctx, const struct dbpage_fault *fault)
{
    struct pages_look *look = ctx;
    struct check *c = look->c;
    struct dbpage_fault *faults =
        mem_more(c->faults, c->fault_count, &c->fault_room, sizeof *faults);
    look->nomem = look->nomem || !faults;
    if (!faults)
        return;
    c->faults = faults;
    c->faults[c->fault_count++] = *fault;
}

int check_pages_read(struct check *c, const char *path, struct err_note *note)
{
    struct err_note why = {""};
    struct pages_look look = {.c = c};
    int rc = dbpage_wal_check(path, &look.wal, &why);
    if (rc == -ERR_CORRUPT) {
        check_problem(c, ADVICE_FILE, "%s", why.text);
        rc = 0;
    }
    int fd = rc == 0 ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (rc != 0) {
        *note = why;
    } else if (fd < 0 && errno == ELOOP) {
        rc = store_link_refuse(path, note);
    } else if (fd < 0) {
        rc = err_note_set(note, -ERR_IO, "cannot open %s: %s", path, strerror(errno));
    } else {
        rc = dbpage_walk(fd, &(struct dbpage_walk){.ctx = &look, .skip = skip_cb, .bad = bad_cb});
        if (rc == 0 && look.nomem)
            rc = -ERR_NOMEM;
        if (rc != 0)
            (void)!err_note_set(note, rc, "cannot read %s: %s", path, err_text(rc));
        close(fd);
    }
    dbpage_wal_done(&look.wal);
    return rc;
}

void check_pages_tell(struct check *c, const char *path)
{
    char text[100], name[100];
    for (size_t i = 0; i < c->fault_count; i++) {
        dbpage_fault_text(&c->faults[i], text, sizeof text);
        if (dbpage_vfs_owner(c->db, c->faults[i].number, name, sizeof name))
            check_problem(c, ADVICE_FILE, "%s: %s (it belongs to %s)", path, text, name);
        else
            check_problem(c, ADVICE_FILE, "%s: %s", path, text);
    }
    mem_free(c->faults);
    c->faults = NULL;
    c->fault_count = c->fault_room = 0;
}
