/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys a damaged page hides is found by asking for ever smaller ranges. */
#include "backend/local/offline/row_walk.h"

#define DEPTH_MAX 80 /* halvings of 64 bits, and some */
#define GRAIN_STEP 16

struct range {
    uint64_t from, to;
};

/* What tells damage from trouble of another kind. */
static bool damaged(int step)
{
    int code = step & 0xff;
    return code == SQLITE_CORRUPT || code == SQLITE_IOERR || code == SQLITE_NOTADB ||
           code == SQLITE_TOOBIG;
}

static void lost_tell(struct row_walk *w)
{
    if (w->lost_from != 0)
        w->lost(w->ctx, w->lost_from, w->lost_to);
    w->lost_from = 0;
}

static void lost_add(struct row_walk *w, const struct range *r)
{
    if (w->lost_from == 0 || r->from != w->lost_to + 1) {
        lost_tell(w);
        w->lost_from = r->from;
    }
    w->lost_to = r->to;
}

static int read_failed(struct row_walk *w, int step, struct err_note *note)
{
    sqlite3 *db = sqlite3_db_handle(w->st);
    if (!damaged(step))
        return sql_error(db, "read", note);
    if (w->why)
        (void)!sql_error(db, "read", w->why);
    return -ERR_CORRUPT;
}

/* Reads on in the range and moves its beginning behind each row. 0: read to its end; -ERR_CORRUPT:
 * what is left of it cannot be read as a whole. */
static int range_read(struct row_walk *w, struct range *r, struct err_note *note)
{
    int rc = 0, step = SQLITE_ROW;
    bind_number(w->st, 1, r->from);
    bind_number(w->st, 2, r->to);
    while (rc == 0 && r->from <= r->to && (step = sqlite3_step(w->st)) == SQLITE_ROW) {
        uint64_t key = (uint64_t)sqlite3_column_int64(w->st, 0);
        if (key < r->from || key > r->to) { /* keys out of order: a damaged page */
            rc = err_note_set(w->why, -ERR_CORRUPT, "keys are out of order");
            break;
        }
        lost_tell(w);
        rc = w->row(w->ctx, w->st);
        r->from = key + 1;
        rc = rc == -ERR_CORRUPT ? 0 : rc;
    }
    if (rc == 0 && step != SQLITE_ROW && step != SQLITE_DONE)
        rc = read_failed(w, step, note);
    sqlite3_reset(w->st);
    return rc;
}

int row_walk(struct row_walk *w, uint64_t from, uint64_t to, struct err_note *note)
{
    struct range left[DEPTH_MAX] = {{from, to}};
    size_t count = 1;
    w->grain = 1;
    while (count > 0) {
        struct range *r = &left[count - 1];
        int rc = range_read(w, r, note);
        if (rc == 0) {
            count--;
            continue;
        }
        if (rc != -ERR_CORRUPT)
            return rc;
        if (++w->failures % w->patience == 0 && w->grain < UINT64_MAX / GRAIN_STEP)
            w->grain *= GRAIN_STEP;
        if (r->to - r->from < w->grain || count == DEPTH_MAX) {
            lost_add(w, r);
            count--;
        } else { /* the lower half next, the upper one after it */
            uint64_t middle = r->from + (r->to - r->from) / 2;
            left[count++] = (struct range){r->from, middle};
            r->from = middle + 1;
        }
    }
    lost_tell(w);
    return 0;
}
