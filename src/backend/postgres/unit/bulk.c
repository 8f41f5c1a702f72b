/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk actions: requeue, cancel or remove what a filter matches, in slices.
 *
 * The action is a row. The node that received the request processes the jobs in the order of their
 * sequences, one slice in each transaction, which also stores the position reached; it replies at
 * the end. If a node dies, the leader takes over its actions. */
#include "backend/postgres/impl.h"

void pg_bulk_send_begin(struct unit *u)
{
    const struct bulk *b = u->bulk;
    struct args *a = &pg_unit(u)->args;
    if (!b)
        return;
    pg_args_i4(a, b->action);
    pg_args_i4(a, (int32_t)b->queue);
    pg_args_i4(a, (int32_t)b->states);
    pg_args_bytes(a, span_text(b->group));
    pg_args_i8(a, (int64_t)b->seq_max);
    pg_args_i8(a, b->at.ms);
    pg_args_i4(a, (int32_t)u->s->facts.epoch);
    pg_args_bytes(a, span_text(b->kind));
    pg_unit(u)->slots[1] = pg_conn_sent(pg_pipeline_of(u));
    pg_conn_send(pg_pipeline_of(u), SQL_BULK_NEW, a);
}

void pg_bulk_begun(struct pg_store *s, struct unit *u)
{
    if (!u->bulk)
        return;
    u->bulk->number = (uint64_t)pg_col_i8(pg_conn_result(s->pipeline, pg_unit(u)->slots[1]), 0, 0);
    shared_bulk_append(&s->sh, u->bulk);
    u->bulk = NULL;
}

/* Rows of SQL_BULK_ORPHANS: actions that another node, or this one before its last start, had
 * begun. */
void pg_bulk_adopt(struct pg_store *s, const PGresult *r)
{
    for (int i = 0; i < PQntuples(r); i++) {
        uint8_t action = pg_col_kind(r, i, 1, BULK_CANCEL_NOW + 1);
        struct bulk *b =
            action ? shared_bulk_new(pg_col_bytes(r, i, 4), pg_col_bytes(r, i, 10)) : NULL;
        if (!b)
            continue;
        b->number = (uint64_t)pg_col_i8(r, i, 0);
        b->action = action;
        b->queue = (uint32_t)pg_col_i4(r, i, 2);
        b->states = (unsigned)pg_col_i4(r, i, 3);
        b->seq_max = (uint64_t)pg_col_i8(r, i, 5);
        b->at.ms = pg_col_time(r, i, 6);
        b->cursor = (uint64_t)pg_col_i8(r, i, 7);
        b->changed = (uint64_t)pg_col_i8(r, i, 8);
        b->refused = (uint64_t)pg_col_i8(r, i, 9);
        shared_bulk_append(&s->sh, b);
    }
}

/* --- a slice --- */

static void bulk_send(struct pg_store *s)
{
    struct unit *u = s->unit;
    const struct bulk *b = s->sh.bulks;
    struct args *a = &pg_unit(u)->args;
    pg_conn_send(s->pipeline, SQL_BEGIN, a);
    pg_args_i4(a, (int32_t)b->queue);
    pg_conn_send(s->pipeline, SQL_LOCK_NUMBER, a);
    pg_array_begin(a, ARRAY_TEXT);
    pg_array_end(a);
    pg_array_begin(a, ARRAY_I8);
    pg_array_end(a);
    pg_array_begin(a, ARRAY_I4);
    pg_array_i4(a, (int32_t)b->queue);
    pg_array_end(a);
    pg_conn_send(s->pipeline, SQL_QUEUES, a);
    pg_args_i4(a, (int32_t)b->queue);
    pg_args_i4(a, (int32_t)b->states);
    pg_args_i8(a, (int64_t)b->cursor);
    pg_args_i8(a, (int64_t)b->seq_max);
    pg_args_bytes(a, span_text(b->group));
    pg_args_i4(a, LIMIT_SLICE);
    pg_args_bytes(a, span_text(b->kind));
    pg_conn_send(s->pipeline, SQL_BULK_JOBS, a);
    pg_args_i4(a, (int32_t)b->queue);
    pg_args_i4(a, b->action == BULK_REQUEUE ? (int32_t)b->states : 0);
    pg_args_i8(a, (int64_t)b->cursor);
    pg_args_i8(a, (int64_t)b->seq_max);
    pg_args_bytes(a, span_text(b->group));
    pg_args_i4(a, LIMIT_SLICE);
    pg_args_bytes(a, span_text(b->kind));
    pg_conn_send(s->pipeline, SQL_BULK_RIVALS, a);
}

/* The jobs of the slice come first among the rows, in their order, followed by those that hold
 * keys. */
static int bulk_work(struct pg_store *s)
{
    struct unit *u = s->unit;
    struct bulk *b = s->sh.bulks;
    PGresult *queues = pg_conn_take_result(s->pipeline, 2);
    int n = PQntuples(pg_conn_result(s->pipeline, 3));
    u->now.ms = shared_now(&s->sh);
    int err = pg_unit_keep(u, queues) ? pg_load_queues(u, queues) : -ERR_NOMEM;
    if (err)
        return err;
    if (!pg_limits_locked(u, pg_conn_result(s->pipeline, 1), NULL))
        return -ERR_LOCKED; /* its limits are new: the slice begins again */
    pg_load_rows(u, 3, false);
    size_t slice = u->row_count;
    pg_load_rows(u, 4, false);
    return shared_bulk_work(u, b, slice, n < LIMIT_SLICE);
}

void pg_bulk_send_store(struct pg_store *s)
{
    const struct bulk *b = s->sh.bulks;
    struct args *a = &pg_unit(s->unit)->args;
    pg_args_i8(a, (int64_t)b->number);
    if (b->slice_last) {
        pg_conn_send(s->pipeline, SQL_BULK_END, a);
        return;
    }
    pg_args_i8(a, (int64_t)b->slice_cursor);
    pg_args_i8(a, (int64_t)(b->changed + b->slice_changed));
    pg_args_i8(a, (int64_t)(b->refused + b->slice_refused));
    pg_args_i4(a, (int32_t)s->sh.facts.epoch);
    pg_conn_send(s->pipeline, SQL_BULK_STEP, a);
}

/* --- a slice, from begin to commit --- */

static void slice_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    if (err)
        pg_round_failed(s, err, error);
    else if ((err = bulk_work(s)) != 0)
        pg_give_back(s, err == -ERR_LOCKED, "out of memory");
    else
        pg_store_and_commit(s);
}

void pg_begin_bulk(struct pg_store *s)
{
    pg_unit_reset(s->unit);
    s->unit->count = 0;
    work_begin(&s->progress, WORK_BULK);
    pg_unit(s->unit)->began_ns = clock_ns();
    bulk_send(s);
    pg_go(s, slice_cb);
}
