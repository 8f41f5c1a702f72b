/* SPDX-License-Identifier: Apache-2.0 */
/* A slice of the work list: the ends of jobs reach their dependents (shared/dependencies.h).
 *
 * A slice takes entries of the list, skipping those that another node has taken, and reads a number
 * of their edges; locks the queues and the dependents, as every unit does; and then reads again
 * which of these edges exist, because another node may have removed some of them meanwhile, as the
 * edges of their other end. It follows the unit in which the jobs ended, on the same node; the
 * leader finds entries whose node has died with its heartbeat. */
#include "backend/postgres/impl.h"

#define ENTRIES_MAX 200 /* of one slice */

enum work_column { WORK_SEQ, WORK_HOW, WORK_CHILD, WORK_PARENT };
enum dependents_slot {
    SLOT_LOCKS,
    SLOT_QUEUES,
    SLOT_JOBS,
    SLOT_DEPENDENTS,
    SLOT_EDGES,
    SLOT_ALERTS
};

bool pg_dependencies_due(const struct pg_store *s)
{
    return s->dependency_work && !s->sh.config.still && !s->sh.closing;
}

/* Slices and operations of clients alternate, and a slice comes first. */
bool pg_dependencies_turn(struct pg_store *s)
{
    s->dependency_last = pg_dependencies_due(s) && (!s->sh.first || !s->dependency_last);
    return s->dependency_last;
}

/* The column of a result as an array; rows without an edge are left out. */
static void column_arg(struct unit *u, const PGresult *r, int col)
{
    struct args *a = &pg_unit(u)->args;
    pg_array_begin(a, ARRAY_I8);
    for (int i = 0; i < PQntuples(r); i++)
        if (!PQgetisnull(r, i, WORK_CHILD))
            pg_array_i8(a, pg_col_i8(r, i, col));
    pg_array_end(a);
}

static void empty_arg(struct unit *u, enum array_of of)
{
    pg_array_begin(&pg_unit(u)->args, of);
    pg_array_end(&pg_unit(u)->args);
}

static void send_dependents(struct pg_store *s)
{
    struct unit *u = s->unit;
    struct args *a = &pg_unit(u)->args;
    const PGresult *work = s->work_taken;
    for (int part = 0; part < 2; part++) {
        empty_arg(u, ARRAY_TEXT);
        column_arg(u, work, WORK_CHILD);
        if (part)
            empty_arg(u, ARRAY_I4);
        pg_conn_send(s->pipeline, part ? SQL_QUEUES : SQL_LOCK_SHARED, a);
    }
    column_arg(u, work, WORK_CHILD);
    pg_conn_send(s->pipeline, SQL_JOBS, a);
    column_arg(u, work, WORK_CHILD);
    pg_conn_send(s->pipeline, SQL_DEPENDENTS, a);
    column_arg(u, work, WORK_CHILD);
    column_arg(u, work, WORK_PARENT);
    pg_conn_send(s->pipeline, SQL_EDGES_THERE, a);
    pg_alerts_send_version(u);
}

/* How each edge counts: as the end of its parent, unless it is taken for its dependent's. */
static bool note_how(struct unit *u, const PGresult *work)
{
    for (int i = 0; i < PQntuples(work); i++) {
        uint64_t parent = pg_col_seq(work, i, WORK_PARENT);
        if (parent && parent == pg_col_seq(work, i, WORK_SEQ))
            unit_edge_ends(u, pg_col_seq(work, i, WORK_CHILD), parent,
                           pg_col_kind(work, i, WORK_HOW, DEPENDENCY_END_COUNT));
    }
    return !u->nomem;
}

static void tell(struct pg_store *s)
{
    struct unit *u = s->unit;
    unit_dependencies_told(u);
    if (u->nomem)
        pg_give_back(s, false, "out of memory");
    else
        pg_store_and_commit(s);
}

static void more_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        pg_round_failed(s, err, error);
        return;
    }
    if (pg_unit(s->unit)->asked & ASKED_KEYS)
        pg_keys_of_rows_loaded(s->unit);
    if (!pg_rules_wrong(s))
        tell(s);
}

static int load(struct pg_store *s)
{
    struct unit *u = s->unit;
    PGresult *queues = pg_conn_take_result(s->pipeline, SLOT_QUEUES);
    int err = pg_unit_keep(u, queues) ? pg_load_queues(u, queues) : -ERR_NOMEM;
    if (err)
        return err;
    if (!pg_limits_locked(u, pg_conn_result(s->pipeline, SLOT_LOCKS), NULL))
        return -ERR_LOCKED; /* its limits are new: the slice begins again */
    pg_load_rows(u, SLOT_JOBS, false);
    pg_dependents_loaded(u, pg_conn_result(s->pipeline, SLOT_DEPENDENTS));
    const PGresult *edges = pg_conn_result(s->pipeline, SLOT_EDGES);
    for (int i = 0; i < PQntuples(edges); i++)
        unit_edge_loaded(u, pg_col_seq(edges, i, 0), pg_col_seq(edges, i, 1));
    return note_how(u, s->work_taken) ? 0 : -ERR_NOMEM;
}

static void dependents_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        pg_round_failed(s, err, error);
        return;
    }
    err = load(s);
    if (err) {
        pg_give_back(s, err == -ERR_LOCKED,
                     err == -ERR_NOMEM ? "out of memory" : "a queue's row is damaged");
        return;
    }
    bool stale = pg_alerts_stale(s->unit, SLOT_ALERTS);
    bool keys = pg_keys_needed_by_rows(s->unit, true);
    if (stale)
        pg_alerts_ask(s->unit);
    if (stale || keys)
        pg_go(s, more_cb);
    else
        tell(s);
}

static void taken_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err) {
        pg_round_failed(s, err, error);
        return;
    }
    PGresult *r = pg_conn_take_result(s->pipeline, 1);
    s->work_taken = r;
    if (!pg_unit_keep(s->unit, r)) {
        pg_give_back(s, false, "out of memory");
    } else if (PQntuples(r) == 0) {
        pg_give_back(s, false, NULL);
    } else {
        send_dependents(s);
        pg_go(s, dependents_cb);
    }
}

void pg_begin_dependencies(struct pg_store *s)
{
    struct unit *u = s->unit;
    struct args *a = &pg_unit(u)->args;
    pg_unit_reset(u);
    u->count = 0;
    u->now.ms = shared_now(&s->sh);
    s->dependency_work = false;
    work_begin(&s->progress, WORK_DEPENDENCIES);
    pg_unit(u)->began_ns = clock_ns();
    pg_conn_send(s->pipeline, SQL_BEGIN, a);
    pg_args_i4(a, ENTRIES_MAX);
    pg_args_i4(a, LIMIT_SLICE);
    pg_conn_send(s->pipeline, SQL_WORK_TAKE, a);
    pg_go(s, taken_cb);
}

/* Rows of one entry follow each other. */
static bool first_of_entry(const PGresult *r, int i)
{
    return i == 0 || pg_col_i8(r, i, WORK_SEQ) != pg_col_i8(r, i - 1, WORK_SEQ);
}

void pg_dependencies_send_end(struct pg_store *s)
{
    struct args *a = &pg_unit(s->unit)->args;
    const PGresult *r = s->work_taken;
    int entries = 0;
    pg_array_begin(a, ARRAY_I8);
    for (int i = 0; i < PQntuples(r); i++)
        if (first_of_entry(r, i)) {
            pg_array_i8(a, pg_col_i8(r, i, WORK_SEQ));
            entries++;
        }
    pg_array_end(a);
    pg_conn_send(s->pipeline, SQL_WORK_END, a);
    s->dependency_work |= entries >= ENTRIES_MAX || PQntuples(r) >= LIMIT_SLICE;
}
