/* SPDX-License-Identifier: Apache-2.0 */
/* What jobs depend on: the rows of dependents, dependencies and parents_ended, and over them what
 * the journal has.
 *
 * A parent that has ended may still be one for which a job waits, because the server counts the
 * ends in slices. Here all of them are counted. One that cannot be read is given as it is named by
 * the row, without the other half of its id: an import does not find it in the file. */
#include <inttypes.h>

#include "backend/local/offline/salvage/salvage_impl.h"
#include "base/mem.h"
#include "core/limits.h"

/* ---- what the journal has ---- */

/* A dependent as the journal leaves it. */
struct salvage_dependent {
    uint64_t seq;
    bool is_dependent, broken;
    struct dependent dependent;
    uint64_t *parents;
    size_t count, room;
};

static int parent_add(struct salvage_dependent *d, uint64_t parent)
{
    uint64_t *parents = mem_more(d->parents, d->count, &d->room, sizeof *parents);
    if (!parents)
        return -ERR_NOMEM;
    d->parents = parents;
    d->parents[d->count++] = parent;
    return 0;
}

/* Its place; count = it is not one. */
static size_t parent_find(const struct salvage_dependent *d, uint64_t parent)
{
    size_t i = 0;
    while (i < d->count && d->parents[i] != parent)
        i++;
    return i;
}

static int dependent_row(sqlite3_stmt *st, struct dependent *ret)
{
    *ret = (struct dependent){.rule = (uint8_t)sqlite3_column_int64(st, 0),
                              .open = sqlite3_column_int64(st, 1) != 0};
    for (int i = 0; i < DEPENDENCY_END_COUNT; i++)
        ret->counts[i] = (uint32_t)sqlite3_column_int64(st, 2 + i);
    return dependent_fits(ret, 0) ? 0 : -ERR_CORRUPT;
}

static int parents_read(struct salvage *s, struct salvage_dependent *d)
{
    sqlite3_stmt *st = s->stmts[SALVAGE_WAITS];
    int step = 0, rc = 0;
    bind_number(st, 1, d->seq);
    while (rc == 0 && (step = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t parent = sqlite3_column_int64(st, 0);
        bool fits = parent > 0 && parent <= (int64_t)LIMIT_SEQ;
        rc = fits ? parent_add(d, (uint64_t)parent) : -ERR_CORRUPT;
    }
    sqlite3_reset(st);
    if (rc == 0 && step != SQLITE_DONE)
        rc = (step & 0xff) == SQLITE_NOMEM ? -ERR_NOMEM : -ERR_CORRUPT;
    return rc;
}

/* As the database has it. */
static int dependent_read(struct salvage *s, struct salvage_dependent *d)
{
    int rc = salvage_side_row(s, SALVAGE_DEPENDENT, d->seq);
    d->is_dependent = rc == 0;
    if (rc == 0)
        rc = dependent_row(s->stmts[SALVAGE_DEPENDENT], &d->dependent);
    sqlite3_reset(s->stmts[SALVAGE_DEPENDENT]);
    if (rc == -ERR_NOT_FOUND)
        rc = 0;
    if (rc == 0)
        rc = parents_read(s, d);
    d->broken = rc == -ERR_CORRUPT;
    return d->broken ? 0 : rc;
}

static struct salvage_dependent *dependent_of(const struct salvage *s, uint64_t seq)
{
    uint32_t place = map64_get(&s->dependent_places, seq);
    return place ? &s->dependents[place - 1] : NULL;
}

static int dependent_for(struct salvage *s, uint64_t seq, struct salvage_dependent **ret)
{
    *ret = dependent_of(s, seq);
    if (*ret)
        return 0;
    struct salvage_dependent *more =
        mem_more(s->dependents, s->dependent_count, &s->dependent_room, sizeof *more);
    if (!more)
        return -ERR_NOMEM;
    s->dependents = more;
    if (map64_put(&s->dependent_places, seq, (uint32_t)s->dependent_count + 1) != 0)
        return -ERR_NOMEM;
    *ret = &s->dependents[s->dependent_count++];
    **ret = (struct salvage_dependent){.seq = seq};
    return dependent_read(s, *ret);
}

/* One that the database has already is not counted again. */
static int take_new(struct salvage_dependent *d, const struct rec_dependencies_new *r)
{
    struct span list = r->parents;
    uint64_t previous = 0, parent;
    int rc = 0;
    for (uint32_t i = 0; i < r->count && rc == 0; i++) {
        rc = record_seq_next(&list, &previous, &parent);
        if (rc != 0 || parent_find(d, parent) < d->count)
            continue;
        rc = parent_add(d, parent);
        d->dependent.counts[DEPENDENCY_END_NONE]++;
    }
    return rc;
}

static int take_end(struct salvage *s, struct salvage_dependent *d,
                    const struct rec_dependency_end *r)
{
    size_t at = parent_find(d, r->parent);
    if (at < d->count) {
        d->parents[at] = d->parents[--d->count];
        d->dependent.counts[r->how] += r->how != DEPENDENCY_END_NONE;
    }
    return r->last ? map64_put(&s->ended, r->parent, DEPENDENCY_END_NONE + 1) : 0;
}

int salvage_dependency_record(struct salvage *s, const struct record *r)
{
    struct salvage_dependent *d;
    uint64_t seq = r->kind == REC_DEPENDENT_PUT      ? r->dependent_put.seq
                   : r->kind == REC_DEPENDENCIES_NEW ? r->dependencies_new.seq
                   : r->kind == REC_DEPENDENCY_END   ? r->dependency_end.seq
                                                     : r->dependent.seq;
    if (r->kind == REC_PARENT_ENDED)
        return map64_put(&s->ended, seq, r->dependent.how + 1u);
    int rc = dependent_for(s, seq, &d);
    if (rc != 0)
        return rc;
    d->is_dependent = r->kind != REC_DEPENDENT_GONE;
    if (r->kind == REC_DEPENDENT_PUT)
        d->dependent = r->dependent_put.dependent;
    else if (r->kind == REC_DEPENDENCIES_NEW)
        rc = take_new(d, &r->dependencies_new);
    else if (r->kind == REC_DEPENDENCY_END)
        rc = take_end(s, d, &r->dependency_end);
    d->broken = d->broken || rc == -ERR_CORRUPT;
    return rc == -ERR_CORRUPT ? 0 : rc;
}

void salvage_dependents_done(struct salvage *s)
{
    for (size_t i = 0; i < s->dependent_count; i++)
        mem_free(s->dependents[i].parents);
    mem_free(s->dependents);
    mem_free(s->waits);
    map64_done(&s->dependent_places);
    map64_done(&s->ended);
}

/* ---- how a parent has ended ---- */

/* Of a job whose state no longer says it; NONE: nothing is noted. */
static enum dependency_end end_noted(struct salvage *s, uint64_t parent)
{
    uint32_t over = map64_get(&s->ended, parent);
    int64_t how = DEPENDENCY_END_NONE;
    if (over)
        return (enum dependency_end)(over - 1);
    if (salvage_side_row(s, SALVAGE_ENDED, parent) == 0)
        how = sqlite3_column_int64(s->stmts[SALVAGE_ENDED], 0);
    sqlite3_reset(s->stmts[SALVAGE_ENDED]);
    return how > DEPENDENCY_END_NONE && how < DEPENDENCY_END_COUNT ? (enum dependency_end)how
                                                                   : DEPENDENCY_END_NONE;
}

static bool job_read(struct salvage *s, uint64_t seq, struct job *ret)
{
    const struct salvage_job *over = salvage_job_of(s, seq);
    struct stored_job row;
    if (over) {
        *ret = over->job;
        return !over->broken;
    }
    bool there =
        salvage_side_row(s, SALVAGE_JOB, seq) == 0 && row_job(s->stmts[SALVAGE_JOB], 0, &row) == 0;
    if (there)
        *ret = row.job;
    sqlite3_reset(s->stmts[SALVAGE_JOB]);
    return there;
}

/* NONE: it has not ended, and *ret is its id; or it cannot be read. */
static enum dependency_end end_of(struct salvage *s, uint64_t parent, struct job_ref *ret)
{
    const struct salvage_job *over = salvage_job_of(s, parent);
    enum dependency_end noted = end_noted(s, parent);
    struct job job;
    *ret = (struct job_ref){.seq = parent};
    if (noted != DEPENDENCY_END_NONE)
        return noted;
    if ((over && over->gone) || salvage_is_gone(s, parent))
        return DEPENDENCY_END_REMOVED;
    if (!job_read(s, parent, &job))
        return DEPENDENCY_END_NONE;
    ret->hi = job.id_hi;
    return salvage_was_purged(s, &job) ? DEPENDENCY_END_REMOVED : dependency_end_of(job.state);
}

/* ---- giving ---- */

/* Counts those that have ended; the others are what a blocked job waits for. */
static int waits_fill(struct salvage *s, const struct salvage_dependent *d, struct job_view *v)
{
    static const struct job_ref none;
    for (size_t i = 0; i < d->count; i++) {
        struct job_ref *waits = mem_more(s->waits, v->waits, &s->waits_room, sizeof *waits);
        if (!waits)
            return -ERR_NOMEM;
        s->waits = waits;
        enum dependency_end end = end_of(s, d->parents[i], &waits[v->waits]);
        v->waits += end == DEPENDENCY_END_NONE;
        v->dependent.counts[end] += end != DEPENDENCY_END_NONE;
    }
    v->parents = v->waits ? s->waits : &none; /* an empty list is one, too */
    v->parent_count = v->waits;
    return 0;
}

int salvage_depends_take(struct salvage *s, struct job_view *v, bool *ret_lost)
{
    struct salvage_dependent row = {.seq = v->job.seq};
    const struct salvage_dependent *d = dependent_of(s, v->job.seq);
    bool blocked = v->job.state == STATE_BLOCKED;
    int rc = d ? 0 : dependent_read(s, &row);
    d = d ? d : &row;
    *ret_lost = rc == 0 && (d->broken || (blocked && !d->is_dependent));
    if (rc == 0 && !*ret_lost && d->is_dependent) {
        v->is_dependent = true;
        v->dependent = d->dependent;
        rc = blocked ? waits_fill(s, d, v) : 0;
    }
    mem_free(row.parents);
    return rc;
}
