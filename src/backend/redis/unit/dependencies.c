/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that depend on others: what a unit reads and writes (shared/dependencies.h; lua/store.lua
 * lists the keys).
 *
 * A store requires that the parents of new edges still exist, not that they are unchanged: it would
 * be refused too often beside nodes that work on them. Whether one of them has ended since the load
 * is what the script finds when it adds the edges. What a job depends on changes only with the
 * revision of its row. */
#include "backend/redis/impl.h"

/* --- load --- */

static void put_seqs(struct rargs *a, const uint64_t *seqs, size_t count)
{
    redis_args_int(a, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        redis_args_seq(a, seqs[i]);
}

static void count_edge(struct unit *u, uint64_t child, uint64_t parent)
{
    (void)u, (void)child, (void)parent;
}

static void put_edge(struct unit *u, uint64_t child, uint64_t parent)
{
    redis_args_seq(&item_of(u)->args, child);
    redis_args_seq(&item_of(u)->args, parent);
}

void rd_dependencies_put_section(struct unit *u, struct rargs *a)
{
    const struct unit_dependencies *d = &u->deps;
    put_seqs(a, d->wanted, d->wanted_count);
    put_seqs(a, d->open, d->open_count);
    redis_args_int(a, (int64_t)unit_dependencies_each_new(u, count_edge));
    unit_dependencies_each_new(u, put_edge);
}

void rd_dependencies_put_none(struct rargs *a)
{
    for (int i = 0; i < 3; i++)
        redis_args_int(a, 0);
}

static void load_parents(struct unit *u, const redisReply *list)
{
    for (size_t i = 0; i + 1 < reply_count(list); i += 2) {
        struct row row = {.gone = false};
        uint64_t seq = redis_seq_decode(reply_span(reply_at(list, i)));
        if (redis_row_decode(seq, reply_span(reply_at(list, i + 1)), &row) == 0)
            unit_parent_loaded(
                u, &(struct wparent){.seq = seq, .hi = row.job.id_hi, .state = row.job.state});
    }
}

void rd_dependents_loaded(struct unit *u, const redisReply *list)
{
    struct dependent d;
    for (size_t i = 0; i + 1 < reply_count(list); i += 2)
        if (redis_dependent_decode(reply_span(reply_at(list, i + 1)), &d))
            unit_dependent_loaded(u, redis_seq_decode(reply_span(reply_at(list, i))), &d);
}

void rd_dependencies_loaded(struct unit *u, const redisReply *r)
{
    const redisReply *settling = reply_at(r, 1), *edges = reply_at(r, 3);
    load_parents(u, reply_at(r, 0));
    for (size_t i = 0; i < reply_count(settling); i++)
        unit_parent_settling(u, redis_seq_decode(reply_span(reply_at(settling, i))));
    rd_dependents_loaded(u, reply_at(r, 2));
    for (size_t i = 0; i + 1 < reply_count(edges); i += 2)
        unit_edge_loaded(u, redis_seq_decode(reply_span(reply_at(edges, i))),
                         redis_seq_decode(reply_span(reply_at(edges, i + 1))));
}

/* --- store --- */

/* Rows that change are checked with their revision; one that was only read, because a key named
 * the job, is not. */
static bool parent_elsewhere(const struct unit *u, const struct wedge *e)
{
    const struct row *r = unit_row(u, e->parent);
    return !r || (!r->fresh && !r->changed);
}

void rd_dependencies_checks(struct item *it)
{
    const struct unit *u = &it->unit;
    const struct edge_list *added = &u->deps.added;
    const char exists[] = {ROW_VERSION}; /* every row begins with it */
    size_t n = 0;
    for (size_t i = 0; i < added->count; i++)
        n += parent_elsewhere(u, &added->at[i]);
    if (n == 0)
        return;
    redis_args_text(&it->args, "row");
    redis_args_int(&it->args, (int64_t)(2 * n));
    for (size_t i = 0; i < added->count; i++) {
        if (!parent_elsewhere(u, &added->at[i]))
            continue;
        redis_args_seq(&it->args, added->at[i].parent);
        redis_args_bytes(&it->args, span_of(exists, sizeof exists));
    }
}

static void change_edges(struct rargs *a, const char *command, const struct edge_list *list)
{
    if (list->count == 0)
        return;
    rd_change(a, command, "");
    for (size_t i = 0; i < list->count; i++) {
        redis_args_seq(a, list->at[i].child);
        redis_args_seq(a, list->at[i].parent);
    }
    rd_change_end(a);
}

static void change_ends(struct item *it)
{
    const struct unit *u = &it->unit;
    struct rargs *a = &it->args;
    struct rargs_mark before = redis_args_mark(a);
    rd_change(a, "ENDED", "");
    for (size_t i = 0; i < u->row_count; i++)
        if (u->rows[i]->end != DEPENDENCY_END_NONE) {
            redis_args_seq(a, u->rows[i]->job.seq);
            redis_args_int(a, u->rows[i]->end);
        }
    if (!rd_change_end(a))
        redis_args_undo(a, before);
}

void rd_dependencies_changes(struct item *it)
{
    change_edges(&it->args, "UNEDGE", &it->unit.deps.told);
    change_edges(&it->args, "EDGES", &it->unit.deps.added);
    change_ends(it);
    if (it->kind == ITEM_DEPENDENCIES)
        rd_dependencies_worked(it);
}
