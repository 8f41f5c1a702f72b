/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: what a unit reads and writes, and the queries.
 *
 * The definition of a schedule says which job a firing creates. A unit with schedules therefore
 * begins with a separate round, which locks and loads them; then it loads the rest like any other
 * unit. */
#include "backend/postgres/impl.h"

enum schedule_column {
    S_NUMBER,
    S_NAME,
    S_OWNER,
    S_NOTE,
    S_ATTRIBUTES,
    S_SPEC,
    S_PAUSED,
    S_CREATED_AT,
    S_UPDATED_AT,
    S_NEXT_AT,
    S_RETRY_AT,
    S_LAST_AT,
    S_FIRED_AT,
    S_SEQ,
    S_ID_HI,
    S_ITEM,
    S_FIRED,
    S_MISSED,
    S_FAILURES,
    S_ERROR,
    S_CHANGED,
    S_LIVE,
};

static struct wschedule row_of(const PGresult *r, int at)
{
    return (struct wschedule){
        .number = (uint32_t)pg_col_i4(r, at, S_NUMBER),
        .name = pg_col_bytes(r, at, S_NAME),
        .owner = pg_col_bytes(r, at, S_OWNER),
        .note = pg_col_bytes(r, at, S_NOTE),
        .attributes = pg_col_bytes(r, at, S_ATTRIBUTES),
        .text = pg_col_bytes(r, at, S_SPEC),
        .paused = pg_col_bool(r, at, S_PAUSED),
        .created_at = {pg_col_time(r, at, S_CREATED_AT)},
        .updated_at = {pg_col_time(r, at, S_UPDATED_AT)},
        .state = {.next_at = {pg_col_time(r, at, S_NEXT_AT)},
                  .retry_at = {pg_col_time(r, at, S_RETRY_AT)},
                  .last_at = {pg_col_time(r, at, S_LAST_AT)},
                  .fired_at = {pg_col_time(r, at, S_FIRED_AT)},
                  .seq = pg_col_seq(r, at, S_SEQ),
                  .id_hi = (uint64_t)pg_col_i8(r, at, S_ID_HI),
                  .item = pg_col_seq(r, at, S_ITEM),
                  .fired = (uint64_t)pg_col_i8(r, at, S_FIRED),
                  .missed = (uint64_t)pg_col_i8(r, at, S_MISSED),
                  .failures = (uint32_t)pg_col_i8(r, at, S_FAILURES),
                  .error = pg_col_kind(r, at, S_ERROR, SCHEDULE_ERROR_COUNT)},
        .last_live = pg_col_bool(r, at, S_LIVE),
    };
}

/* --- the first round --- */

static bool is_put(const struct unit *u)
{
    return u->turns[0].op->kind == OP_SCHEDULE_PUT;
}

void pg_schedules_send_load(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    /* A pause is a change, too; see sql/schedules.sql. */
    if (is_put(u) || u->turns[0].op->kind == OP_SCHEDULE_PAUSE)
        pg_conn_send(pg_pipeline_of(u), SQL_SCHEDULE_LOCK, a);
    pg_unit(u)->slots[0] = pg_conn_sent(pg_pipeline_of(u));
    pg_conn_send(pg_pipeline_of(u), SQL_NOW, a);
    pg_array_begin(a, ARRAY_TEXT);
    for (size_t i = 0; i < u->count; i++)
        if (unit_text_safe(u->turns[i].op->schedule.name))
            pg_array_blob(a, u->turns[i].op->schedule.name);
    pg_array_end(a);
    pg_conn_send(pg_pipeline_of(u), SQL_SCHEDULES, a);
    if (!is_put(u))
        return;
    pg_conn_send(pg_pipeline_of(u), SQL_SCHEDULE_NUMBER, a);
    pg_args_text(a, u->turns[0].op->schedule.name);
    pg_conn_send(pg_pipeline_of(u), SQL_SCHEDULE_FLOWS, a);
}

static void load_flows(struct unit *u, PGresult *r)
{
    if (!pg_unit_keep(u, r))
        return;
    u->flow_count = (size_t)PQntuples(r);
    u->flows = unit_alloc(u, (u->flow_count + 1) * sizeof *u->flows);
    for (size_t i = 0; u->flows && i < u->flow_count; i++)
        u->flows[i] =
            (struct schedule_flow){pg_col_bytes(r, (int)i, 0), pg_col_bytes(r, (int)i, 1)};
}

int pg_schedules_loaded(struct unit *u)
{
    size_t at = pg_unit(u)->slots[0];
    int64_t given = shared_manual_now(u->s);
    u->now.ms = given ? given : pg_col_time(pg_conn_result(pg_pipeline_of(u), at), 0, 0);
    PGresult *r = pg_conn_take_result(pg_pipeline_of(u), at + 1);
    int err = pg_unit_keep(u, r) ? 0 : -ERR_NOMEM;
    for (int i = 0; !err && i < PQntuples(r); i++) {
        struct wschedule loaded = row_of(r, i);
        (void)unit_schedule_add(u, &loaded, &err);
    }
    if (!err && is_put(u)) {
        const PGresult *n = pg_conn_result(pg_pipeline_of(u), at + 2);
        u->schedule_number = (uint32_t)pg_col_i4(n, 0, 0);
        u->schedules_there = pg_col_count(n, 0, 1);
        load_flows(u, pg_conn_take_result(pg_pipeline_of(u), at + 3));
    }
    if (!err)
        unit_firings_prepare(u);
    return u->nomem ? -ERR_NOMEM : err;
}

/* --- storing --- */

static void send_put(struct unit *u, const struct wschedule *s)
{
    struct args *a = &pg_unit(u)->args;
    const struct schedule_state *st = &s->state;
    bool takes = s->spec.kind == SCHEDULE_QUEUE;
    pg_args_i4(a, (int32_t)s->number);
    pg_args_bytes(a, s->name);
    pg_args_bytes(a, s->owner);
    pg_args_bytes(a, s->note);
    pg_args_bytes(a, s->attributes);
    pg_args_bytes(a, s->text);
    pg_args_bool(a, s->paused);
    const int64_t numbers[] = {s->created_at.ms,   s->updated_at.ms,    st->next_at.ms,
                               st->retry_at.ms,    st->last_at.ms,      st->fired_at.ms,
                               (int64_t)st->seq,   (int64_t)st->id_hi,  (int64_t)st->item,
                               (int64_t)st->fired, (int64_t)st->missed, (int64_t)st->failures};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        pg_args_i8(a, numbers[i]);
    pg_args_i4(a, st->error);
    pg_args_i4(a, s->spec.kind);
    pg_args_bytes(a, takes ? s->spec.source : SPAN_LITERAL(""));
    pg_args_bytes(a, s->spec.queue);
    pg_conn_send(pg_pipeline_of(u), SQL_SCHEDULE_PUT, a);
}

typedef int64_t (*state_fn)(const struct schedule_state *s);
#define STATE_COLUMN(name, expression)                                                             \
    static int64_t s_##name(const struct schedule_state *s)                                        \
    {                                                                                              \
        return (int64_t)(expression);                                                              \
    }
STATE_COLUMN(next_at, s->next_at.ms)
STATE_COLUMN(retry_at, s->retry_at.ms)
STATE_COLUMN(last_at, s->last_at.ms)
STATE_COLUMN(fired_at, s->fired_at.ms)
STATE_COLUMN(seq, s->seq)
STATE_COLUMN(id_hi, s->id_hi)
STATE_COLUMN(item, s->item)
STATE_COLUMN(fired, s->fired)
STATE_COLUMN(missed, s->missed)
STATE_COLUMN(failures, s->failures)

static bool only_moved(const struct wschedule *s)
{
    return s->moved && !s->put && !s->gone;
}

static bool is_gone(const struct wschedule *s)
{
    return s->gone;
}

typedef bool (*schedule_pick_fn)(const struct wschedule *s);

/* Collects the numbers of those that are picked; returns how many. */
static size_t numbers(struct unit *u, schedule_pick_fn pick)
{
    size_t n = 0;
    pg_array_begin(&pg_unit(u)->args, ARRAY_I4);
    for (size_t i = 0; i < u->schedule_count; i++)
        if (pick(u->schedules[i])) {
            pg_array_i4(&pg_unit(u)->args, (int32_t)u->schedules[i]->number);
            n++;
        }
    pg_array_end(&pg_unit(u)->args);
    return n;
}

static void send_states(struct unit *u)
{
    static const state_fn columns[] = {s_next_at, s_retry_at, s_last_at, s_fired_at, s_seq,
                                       s_id_hi,   s_item,     s_fired,   s_missed,   s_failures};
    struct args *a = &pg_unit(u)->args;
    if (numbers(u, only_moved) == 0) {
        pg_args_clear(a);
        return;
    }
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
        pg_array_begin(a, ARRAY_I8);
        for (size_t i = 0; i < u->schedule_count; i++)
            if (only_moved(u->schedules[i]))
                pg_array_i8(a, columns[c](&u->schedules[i]->state));
        pg_array_end(a);
    }
    pg_array_begin(a, ARRAY_I2);
    for (size_t i = 0; i < u->schedule_count; i++)
        if (only_moved(u->schedules[i]))
            pg_array_i2(a, u->schedules[i]->state.error);
    pg_array_end(a);
    pg_conn_send(pg_pipeline_of(u), SQL_SCHEDULE_STATE, a);
}

void pg_schedules_send_store(struct unit *u)
{
    for (size_t i = 0; i < u->schedule_count; i++)
        if (u->schedules[i]->put)
            send_put(u, u->schedules[i]);
    send_states(u);
    if (numbers(u, is_gone))
        pg_conn_send(pg_pipeline_of(u), SQL_SCHEDULE_DEL, &pg_unit(u)->args);
    else
        pg_args_clear(&pg_unit(u)->args);
}

/* --- queries --- */

void pg_schedules_send_view(struct unit *u, const struct op *op)
{
    struct args *a = &pg_unit(u)->args;
    const struct op_schedule *want = &op->schedule;
    if (op->kind == OP_SCHEDULE_GET) {
        pg_args_text(a, want->name);
        pg_args_i4(a, want->number > INT32_MAX ? INT32_MAX : (int32_t)want->number);
        pg_conn_send(pg_pipeline_of(u), SQL_SCHEDULE_GET, a);
        return;
    }
    if (want->by_change)
        pg_args_i8(a, (int64_t)want->since);
    else
        pg_args_text(a, want->after);
    pg_args_i4(a, (int32_t)shared_limit(want->limit) + 1);
    pg_conn_send(pg_pipeline_of(u), want->by_change ? SQL_SCHEDULE_CHANGES : SQL_SCHEDULE_LIST, a);
}

static bool view_row(struct unit *u, const PGresult *r, int at, struct schedule_view *ret)
{
    struct wschedule s = row_of(r, at);
    s.last_seq = s.state.seq;
    if (schedule_decode(s.text, &s.spec) != 0)
        return false;
    *ret = unit_schedule_view(u, &s);
    return true;
}

void pg_schedules_answer(struct unit *u, struct turn *t, const PGresult *r)
{
    const struct op_schedule *want = &t->op->schedule;
    bool list = t->op->kind == OP_SCHEDULE_LIST;
    uint32_t n = (uint32_t)PQntuples(r), most = list ? shared_limit(want->limit) : 1, shown = 0;
    size_t bytes = 0;
    struct schedule_view *views = arena_array(&u->arena, (size_t)n + 1, sizeof *views);
    if (!list && n == 0) {
        unit_refuse(t, OUT_NO_SCHEDULE, NULL);
        return;
    }
    t->reply.change_mark = list && want->by_change ? want->since : 0;
    while (shown < n && shown < most && bytes < LIMIT_ANSWER_BYTES) {
        if (!views || !view_row(u, r, (int)shown, &views[shown])) {
            unit_refuse(t, OUT_UNAVAILABLE, "out of memory, or the row of a schedule is damaged");
            return;
        }
        if (list && want->by_change)
            t->reply.change_mark = (uint64_t)pg_col_i8(r, (int)shown, S_CHANGED);
        bytes += pg_col_bytes(r, (int)shown++, S_SPEC).len;
    }
    t->reply.schedules = views;
    t->reply.schedule_count = shown;
    t->reply.more = list && shown < n;
}
