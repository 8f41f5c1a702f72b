/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that depend on others: what a unit reads and writes (shared/dependencies.h).
 *
 * Jobs that are to become parents are locked with FOR SHARE until the unit is committed: a parent
 * that another unit is about to end is read after that, and one that ends later finds the edge.
 * What follows from a lock is read by a statement behind it, because the snapshot of the statement
 * that waited may be older. */
#include "backend/postgres/impl.h"

static void send_as(struct unit *u, enum load_slot slot, enum sql_id id)
{
    pg_unit(u)->slots[slot] = pg_conn_sent(pg_pipeline_of(u));
    pg_conn_send(pg_pipeline_of(u), id, &pg_unit(u)->args);
}

static void seqs_arg(struct unit *u, const uint64_t *seqs, size_t count)
{
    struct args *a = &pg_unit(u)->args;
    pg_array_begin(a, ARRAY_I8);
    for (size_t i = 0; i < count; i++)
        pg_array_i8(a, (int64_t)seqs[i]);
    pg_array_end(a);
}

/* --- load --- */

static void add_child(struct unit *u, uint64_t child, uint64_t parent)
{
    (void)parent;
    pg_array_i8(&pg_unit(u)->args, (int64_t)child);
}

static void add_parent(struct unit *u, uint64_t child, uint64_t parent)
{
    (void)child;
    pg_array_i8(&pg_unit(u)->args, (int64_t)parent);
}

static void send_new_edges(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    pg_array_begin(a, ARRAY_I8);
    size_t n = unit_dependencies_each_new(u, add_child);
    pg_array_end(a);
    pg_array_begin(a, ARRAY_I8);
    unit_dependencies_each_new(u, add_parent);
    pg_array_end(a);
    if (n)
        send_as(u, LOAD_EDGES, SQL_EDGES_THERE);
    else
        pg_args_clear(a);
}

static void keys_arg(struct unit *u, bool low)
{
    const struct unit_dependencies *d = &u->deps;
    struct args *a = &pg_unit(u)->args;
    pg_array_begin(a, ARRAY_I8);
    for (size_t i = 0; i < d->wanted_key_count; i++)
        pg_array_i8(a, (int64_t)(low ? d->wanted_keys[i].lo : d->wanted_keys[i].hi));
    pg_array_end(a);
}

static void send_parents(struct unit *u, enum load_slot slot, enum sql_id id)
{
    seqs_arg(u, u->deps.wanted, u->deps.wanted_count);
    keys_arg(u, false);
    keys_arg(u, true);
    send_as(u, slot, id);
}

void pg_dependencies_send_load(struct unit *u)
{
    const struct unit_dependencies *d = &u->deps;
    if (d->wanted_count || d->wanted_key_count) {
        send_parents(u, LOAD_PARENTS, SQL_PARENTS);
        send_parents(u, LOAD_SETTLING, SQL_SETTLING);
    }
    if (d->open_count) {
        seqs_arg(u, d->open, d->open_count);
        send_as(u, LOAD_DEPENDENTS, SQL_DEPENDENTS);
        send_new_edges(u);
    }
}

static PGresult *take(struct unit *u, enum load_slot slot)
{
    size_t at = pg_unit(u)->slots[slot];
    PGresult *r = at == SIZE_MAX ? NULL : pg_conn_take_result(pg_pipeline_of(u), at);
    return r && pg_unit_keep(u, r) ? r : NULL;
}

/* A count that is out of range makes the row unfit (unit_dependent_loaded). */
static uint32_t count_at(const PGresult *r, int row, int col)
{
    int32_t n = pg_col_i4(r, row, col);
    return n < 0 ? UINT32_MAX : (uint32_t)n;
}

bool pg_dependent_read(const PGresult *r, int row, int col, struct dependent *ret)
{
    *ret = (struct dependent){.rule = pg_col_kind(r, row, col, DEPENDENCY_RULE_COUNT),
                              .open = pg_col_bool(r, row, col + 1)};
    for (int i = 0; i < DEPENDENCY_END_COUNT; i++)
        ret->counts[i] = count_at(r, row, col + 2 + i);
    return !PQgetisnull(r, row, col) && dependent_right(ret);
}

void pg_dependents_loaded(struct unit *u, const PGresult *r)
{
    struct dependent d;
    for (int i = 0; i < PQntuples(r); i++)
        if (pg_dependent_read(r, i, 1, &d))
            unit_dependent_loaded(u, pg_col_seq(r, i, 0), &d);
}

void pg_dependencies_loaded(struct unit *u)
{
    const PGresult *parents = take(u, LOAD_PARENTS), *settling = take(u, LOAD_SETTLING);
    const PGresult *dependents = take(u, LOAD_DEPENDENTS), *edges = take(u, LOAD_EDGES);
    for (int i = 0; parents && i < PQntuples(parents); i++)
        unit_parent_loaded(u, &(struct wparent){
                                  .seq = pg_col_seq(parents, i, 0),
                                  .hi = (uint64_t)pg_col_i8(parents, i, 1),
                                  .state = pg_col_kind(parents, i, 2, STATE_COUNT),
                                  .queue = pg_col_bytes(parents, i, 3),
                              });
    for (int i = 0; settling && i < PQntuples(settling); i++)
        unit_parent_settling(u, pg_col_seq(settling, i, 0));
    if (dependents)
        pg_dependents_loaded(u, dependents);
    for (int i = 0; edges && i < PQntuples(edges); i++)
        unit_edge_loaded(u, pg_col_seq(edges, i, 0), pg_col_seq(edges, i, 1));
}

/* --- store --- */

static bool is_put(const struct row *r)
{
    return r->dependent && r->dependent->changed && !r->gone;
}

#define ROW_COLUMN(pick, of, one)                                                                  \
    do {                                                                                           \
        pg_array_begin(a, of);                                                                     \
        for (size_t i = 0; i < u->row_count; i++) {                                                \
            const struct row *r = u->rows[i];                                                      \
            if (pick)                                                                              \
                (one);                                                                             \
        }                                                                                          \
        pg_array_end(a);                                                                           \
    } while (0)

static void send_dependents(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    size_t n = 0;
    for (size_t i = 0; i < u->row_count; i++)
        n += is_put(u->rows[i]);
    if (n == 0)
        return;
    ROW_COLUMN(is_put(r), ARRAY_I8, pg_array_i8(a, (int64_t)r->job.seq));
    ROW_COLUMN(is_put(r), ARRAY_I2, pg_array_i2(a, r->dependent->dependent.rule));
    ROW_COLUMN(is_put(r), ARRAY_BOOL, pg_array_bool(a, r->dependent->dependent.open));
    for (int c = 0; c < DEPENDENCY_END_COUNT; c++)
        ROW_COLUMN(is_put(r), ARRAY_I4, pg_array_i4(a, (int32_t)r->dependent->dependent.counts[c]));
    pg_conn_send(pg_pipeline_of(u), SQL_DEPENDENT_PUT, a);
}

static void send_edges(struct unit *u, const struct edge_list *list, enum sql_id id)
{
    struct args *a = &pg_unit(u)->args;
    if (list->count == 0)
        return;
    pg_array_begin(a, ARRAY_I8);
    for (size_t i = 0; i < list->count; i++)
        pg_array_i8(a, (int64_t)list->at[i].child);
    pg_array_end(a);
    pg_array_begin(a, ARRAY_I8);
    for (size_t i = 0; i < list->count; i++)
        pg_array_i8(a, (int64_t)list->at[i].parent);
    pg_array_end(a);
    pg_conn_send(pg_pipeline_of(u), id, a);
}

static void send_work(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    size_t n = 0;
    for (size_t i = 0; i < u->row_count; i++)
        n += u->rows[i]->end != DEPENDENCY_END_NONE;
    if (n == 0)
        return;
    ROW_COLUMN(r->end != DEPENDENCY_END_NONE, ARRAY_I8, pg_array_i8(a, (int64_t)r->job.seq));
    ROW_COLUMN(r->end != DEPENDENCY_END_NONE, ARRAY_I2, pg_array_i2(a, r->end));
    pg_unit(u)->work_at = pg_conn_sent(pg_pipeline_of(u));
    pg_conn_send(pg_pipeline_of(u), SQL_WORK_NEW, a);
}

void pg_dependencies_send_removed(struct unit *u, const PGresult *seqs)
{
    struct args *a = &pg_unit(u)->args;
    pg_array_begin(a, ARRAY_I8);
    for (int i = 0; i < PQntuples(seqs); i++)
        pg_array_i8(a, pg_col_i8(seqs, i, 0));
    pg_array_end(a);
    pg_array_begin(a, ARRAY_I2);
    for (int i = 0; i < PQntuples(seqs); i++)
        pg_array_i2(a, DEPENDENCY_END_REMOVED);
    pg_array_end(a);
    pg_unit(u)->removed_at = pg_conn_sent(pg_pipeline_of(u));
    pg_conn_send(pg_pipeline_of(u), SQL_WORK_NEW, a);
}

void pg_dependencies_send_store(struct unit *u)
{
    send_edges(u, &u->deps.told, SQL_EDGE_DEL);
    send_edges(u, &u->deps.added, SQL_EDGE_NEW);
    send_dependents(u);
    send_work(u);
}

static bool any_rows(const struct pg_store *s, size_t at)
{
    return at != SIZE_MAX && PQntuples(pg_conn_result(s->pipeline, at)) > 0;
}

static void wake(struct unit *u, struct span queue)
{
    struct pg_store *s = pg_of_unit(u);
    pg_notify_queue(s, queue);
    shared_watches_wake(&s->sh, queue);
}

void pg_dependencies_stored(struct pg_store *s)
{
    struct unit *u = s->unit;
    s->dependency_work |= any_rows(s, pg_unit(u)->work_at) || any_rows(s, pg_unit(u)->removed_at);
    unit_dependencies_wake(u, wake);
}
