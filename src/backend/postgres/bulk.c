/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk actions: requeue, cancel or remove what a filter matches, in slices.
 *
 * The intent is a row. The node that was asked works through the jobs in the order of their
 * sequences, a slice a transaction, each with how far it has come; it answers when it is through.
 * What a node leaves behind that dies, the leader takes over. */
#include "backend/postgres/impl.h"
#include "base/mem.h"
#include "core/validate.h"

#define BULKS_MAX 64

static const enum job_move moves[] = {
    [BULK_REQUEUE] = MOVE_REQUEUE, [BULK_CANCEL] = MOVE_CANCEL, [BULK_REMOVE] = MOVE_REMOVE};

static bool action_known(uint8_t action)
{
    return action >= BULK_REQUEUE && action <= BULK_REMOVE;
}

static unsigned startable(enum job_move move)
{
    unsigned states = 0;
    for (unsigned s = STATE_SCHEDULED; s < STATE_COUNT; s++)
        if (move_starts_from(move, (enum job_state)s))
            states |= STATE_BIT(s);
    return states;
}

static size_t bulk_count(const struct pg_store *s)
{
    size_t n = 0;
    for (const struct bulk *b = s->bulks; b; b = b->next)
        n++;
    return n;
}

static void bulk_free(struct bulk *b)
{
    if (b)
        mem_free(b->group);
    mem_free(b);
}

void pg_bulk_free_all(struct pg_store *s)
{
    while (s->bulks) {
        struct bulk *b = s->bulks;
        s->bulks = b->next;
        bulk_free(b);
    }
}

static struct bulk *bulk_new(struct span group)
{
    struct bulk *b = mem_zalloc(sizeof *b);
    if (b)
        b->group = mem_text(group.at ? group.at : "", group.len);
    if (b && b->group)
        return b;
    bulk_free(b);
    return NULL;
}

void pg_work_bulk(struct unit *u, struct turn *t)
{
    const struct op_bulk *want = &t->op->bulk;
    struct wqueue *q = pg_unit_queue_named(u, want->queue);
    struct err_note note;
    if (!action_known(want->action))
        pg_refuse(t, OUT_INVALID, "action must be requeue, cancel or remove");
    else if (bulk_count(u->s) >= BULKS_MAX)
        pg_refuse(t, OUT_INVALID, "64 bulk actions are under way; wait until one has ended");
    else if (want->group.len && validate_text("group", want->group, LIMIT_KEY_BYTES, &note) != 0)
        pg_refuse(t, OUT_INVALID, "group is too long or not valid UTF-8");
    else if (!q)
        pg_refuse(t, OUT_NO_QUEUE, NULL);
    if (!q || t->reply.outcome != OUT_OK)
        return;
    struct bulk *b = bulk_new(want->group);
    if (!b) {
        u->nomem = true;
        return;
    }
    unsigned able = startable(moves[want->action]);
    b->action = want->action;
    b->queue = q->number;
    b->states = want->states ? want->states & able : able;
    b->seq_max = u->seq_high;
    b->at = u->now;
    b->op = t->op;
    b->batch = t->batch;
    bulk_free(u->bulk);
    u->bulk = b;
    u->records++;
}

void pg_bulk_send_begin(struct unit *u)
{
    const struct bulk *b = u->bulk;
    struct args *a = &u->args;
    if (!b)
        return;
    pg_args_i4(a, b->action);
    pg_args_i4(a, (int32_t)b->queue);
    pg_args_i4(a, (int32_t)b->states);
    pg_args_bytes(a, span_text(b->group));
    pg_args_i8(a, (int64_t)b->seq_max);
    pg_args_i8(a, b->at.ms);
    pg_args_i4(a, (int32_t)u->s->facts.epoch);
    u->slots[1] = pg_conn_sent(u->s->lane);
    pg_conn_send(u->s->lane, SQL_BULK_NEW, a);
}

static void bulk_append(struct pg_store *s, struct bulk *b)
{
    struct bulk **link = &s->bulks;
    while (*link)
        link = &(*link)->next;
    *link = b;
}

void pg_bulk_begun(struct pg_store *s, struct unit *u)
{
    if (!u->bulk)
        return;
    u->bulk->number = (uint64_t)pg_col_i8(pg_conn_result(s->lane, u->slots[1]), 0, 0);
    bulk_append(s, u->bulk);
    u->bulk = NULL;
}

void pg_bulk_forget(struct unit *u)
{
    bulk_free(u->bulk);
    u->bulk = NULL;
}

/* Rows of SQL_BULK_ORPHANS: another node, or this one before its last start, had begun them. */
void pg_bulk_adopt(struct pg_store *s, const PGresult *r)
{
    for (int i = 0; i < PQntuples(r); i++) {
        struct bulk *b = bulk_new(pg_col_bytes(r, i, 4));
        if (!b)
            return;
        b->number = (uint64_t)pg_col_i8(r, i, 0);
        b->action = (uint8_t)pg_col_i2(r, i, 1);
        b->queue = (uint32_t)pg_col_i4(r, i, 2);
        b->states = (unsigned)pg_col_i4(r, i, 3);
        b->seq_max = (uint64_t)pg_col_i8(r, i, 5);
        b->at.ms = pg_col_i8(r, i, 6);
        b->cursor = (uint64_t)pg_col_i8(r, i, 7);
        b->changed = (uint64_t)pg_col_i8(r, i, 8);
        b->refused = (uint64_t)pg_col_i8(r, i, 9);
        b->finished = !action_known(b->action);
        bulk_append(s, b);
    }
}

/* --- a slice --- */

void pg_bulk_send(struct pg_store *s)
{
    struct unit *u = s->unit;
    const struct bulk *b = s->bulks;
    struct args *a = &u->args;
    pg_conn_send(s->lane, SQL_BEGIN, a);
    pg_args_i4(a, (int32_t)b->queue);
    pg_conn_send(s->lane, SQL_LOCK_NUMBER, a);
    pg_array_begin(a, ARRAY_TEXT);
    pg_array_end(a);
    pg_array_begin(a, ARRAY_I8);
    pg_array_end(a);
    pg_array_begin(a, ARRAY_I4);
    pg_array_i4(a, (int32_t)b->queue);
    pg_array_end(a);
    pg_conn_send(s->lane, SQL_QUEUES, a);
    pg_args_i4(a, (int32_t)b->queue);
    pg_args_i4(a, (int32_t)b->states);
    pg_args_i8(a, (int64_t)b->cursor);
    pg_args_i8(a, (int64_t)b->seq_max);
    pg_args_bytes(a, span_text(b->group));
    pg_args_i4(a, LIMIT_SLICE);
    pg_conn_send(s->lane, SQL_BULK_JOBS, a);
    pg_args_i4(a, (int32_t)b->queue);
    pg_args_i4(a, b->action == BULK_REQUEUE ? (int32_t)b->states : 0);
    pg_args_i8(a, (int64_t)b->cursor);
    pg_args_i8(a, (int64_t)b->seq_max);
    pg_args_bytes(a, span_text(b->group));
    pg_args_i4(a, LIMIT_SLICE);
    pg_conn_send(s->lane, SQL_BULK_RIVALS, a);
}

static void change_one(struct unit *u, struct bulk *b, struct row *r)
{
    struct record rec;
    if (b->action == BULK_REMOVE) {
        pg_row_remove(u, r);
        b->slice_changed++;
        return;
    }
    if (b->action == BULK_REQUEUE && pg_row_rival(u, r)) {
        b->slice_refused++;
        return;
    }
    if (b->action == BULK_REQUEUE) {
        decide_requeue(&r->job, (struct wall_time){0}, r->q->generation, u->now, &rec);
        r->fates.requeues = (uint8_t)(r->fates.requeues + (r->fates.requeues < UINT8_MAX));
    } else {
        rec.kind = REC_JOB_CANCELLED;
        rec.job_cancelled =
            (struct rec_job_cancelled){.seq = r->job.seq, .reason = REASON_CANCELLED, .at = u->now};
    }
    pg_row_take(u, r, &rec);
    b->slice_changed++;
}

/* The slice's jobs come first among the rows, in their order; behind them those that hold keys. */
int pg_bulk_work(struct pg_store *s)
{
    struct unit *u = s->unit;
    struct bulk *b = s->bulks;
    PGresult *queues = pg_conn_take_result(s->lane, 2);
    int n = PQntuples(pg_conn_result(s->lane, 3));
    u->now.ms = pg_db_now(s);
    int err = pg_unit_keep(u, queues) ? pg_load_queues(u, queues) : -ERR_NOMEM;
    if (err)
        return err;
    pg_load_rows(u, 3, false);
    size_t slice = u->row_count;
    pg_load_rows(u, 4, false);
    b->slice_changed = b->slice_refused = 0;
    b->slice_cursor = b->cursor;
    for (size_t i = 0; i < slice && !u->nomem; i++) {
        struct row *r = u->rows[i];
        b->slice_cursor = r->job.seq;
        if (pg_row_there(r))
            change_one(u, b, r);
    }
    b->slice_last = n < LIMIT_SLICE;
    s->trim_wanted = true;
    return u->nomem ? -ERR_NOMEM : 0;
}

void pg_bulk_send_store(struct pg_store *s)
{
    const struct bulk *b = s->bulks;
    struct args *a = &s->unit->args;
    pg_args_i8(a, (int64_t)b->number);
    if (b->slice_last) {
        pg_conn_send(s->lane, SQL_BULK_END, a);
        return;
    }
    pg_args_i8(a, (int64_t)b->slice_cursor);
    pg_args_i8(a, (int64_t)(b->changed + b->slice_changed));
    pg_args_i8(a, (int64_t)(b->refused + b->slice_refused));
    pg_args_i4(a, (int32_t)s->facts.epoch);
    pg_conn_send(s->lane, SQL_BULK_STEP, a);
}

void pg_bulk_stored(struct pg_store *s)
{
    struct bulk *b = s->bulks;
    b->changed += b->slice_changed;
    b->refused += b->slice_refused;
    b->cursor = b->slice_cursor;
    if (!b->slice_last)
        return;
    s->bulks = b->next;
    if (b->op) {
        struct unit *u = s->unit;
        u->turns[0] = (struct turn){.op = b->op, .batch = b->batch};
        u->turns[0].reply.count = b->changed;
        u->turns[0].reply.refused = b->refused;
        u->count = 1;
    }
    bulk_free(b);
}

/* The connection broke, or the backend closes: the intent stays, for whoever comes next. */
void pg_bulk_answer_all(struct pg_store *s, enum outcome out)
{
    for (struct bulk *b = s->bulks; b; b = b->next) {
        if (!b->op)
            continue;
        struct reply r = {.kind = OP_BULK, .tag = b->op->tag, .outcome = out};
        struct batch *batch = b->batch;
        b->op = NULL;
        pg_batch_answer(s, batch, &r);
    }
}
