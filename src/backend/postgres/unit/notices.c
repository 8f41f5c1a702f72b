/* SPDX-License-Identifier: Apache-2.0 */
/* Notices and breakers: what a unit reads and writes, and the queries. */
#include "backend/postgres/impl.h"

enum notice_column {
    N_NUMBER,
    N_ID_HI,
    N_KIND,
    N_EDGE,
    N_AT,
    N_ALERT,
    N_QUEUE,
    N_JOB_SEQ,
    N_JOB_HI,
    N_REASON,
    N_ATTEMPTS,
    N_VALUE,
    N_MARK,
    N_SUBJECT,
    N_BODY,
    N_STATE,
    N_TRIES,
    N_SINCE,
    N_DUE,
    N_STATUS,
    N_ERROR,
    N_LOOK_AT,
    N_HOLDER,
    N_RULE, /* only of SQL_NOTICE_LIST */
};

static struct wnotice row_of(const PGresult *r, int at)
{
    return (struct wnotice){
        .notice = {.number = pg_col_seq(r, at, N_NUMBER),
                   .id_hi = (uint64_t)pg_col_i8(r, at, N_ID_HI),
                   .on = pg_col_kind(r, at, N_KIND, ALERT_ON_COUNT),
                   .edge = pg_col_kind(r, at, N_EDGE, EDGE_COUNT),
                   .at = {pg_col_time(r, at, N_AT)},
                   .alert = pg_col_bytes(r, at, N_ALERT),
                   .queue = pg_col_bytes(r, at, N_QUEUE),
                   .job_seq = pg_col_seq(r, at, N_JOB_SEQ),
                   .job_hi = (uint64_t)pg_col_i8(r, at, N_JOB_HI),
                   .reason = pg_col_kind(r, at, N_REASON, REASON_COUNT),
                   .attempts = (uint32_t)pg_col_i8(r, at, N_ATTEMPTS),
                   .value = (uint64_t)pg_col_i8(r, at, N_VALUE),
                   .mark = (uint64_t)pg_col_i8(r, at, N_MARK),
                   .subject = pg_col_bytes(r, at, N_SUBJECT),
                   .text = pg_col_bytes(r, at, N_BODY)},
        .tried = {.number = pg_col_seq(r, at, N_NUMBER),
                  .state = pg_col_kind(r, at, N_STATE, NOTICE_STATE_COUNT),
                  .tries = (uint32_t)pg_col_i8(r, at, N_TRIES),
                  .since = {pg_col_time(r, at, N_SINCE)},
                  .due = {pg_col_time(r, at, N_DUE)},
                  .status = (uint16_t)pg_col_i4(r, at, N_STATUS),
                  .error = pg_col_bytes(r, at, N_ERROR)},
        .look_ms = pg_col_time(r, at, N_LOOK_AT),
        .held = pg_col_i4(r, at, N_HOLDER) != 0,
    };
}

/* --- loading --- */

static bool takes(const struct unit *u)
{
    return u->turns[0].op->kind == OP_NOTICE_TAKE;
}

static void send_take(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    const struct op_notice_take *want = &u->turns[0].op->notice_take;
    int64_t now = shared_manual_now(u->s);
    pg_args_i4(a, (int32_t)u->s->facts.epoch);
    pg_args_bool(a, want->reset);
    pg_args_i8(a, now);
    pg_array_begin(a, ARRAY_I8);
    for (uint32_t i = 0; i < want->mine_count; i++)
        pg_array_i8(a, (int64_t)want->mine[i]);
    pg_array_end(a);
    pg_args_i8(a, shared_silent_ms(u->s));
    pg_conn_send(pg_pipeline_of(u), SQL_NOTICE_RELEASE_LOST, a);
    pg_args_i8(a, now);
    pg_args_i4(a, NOTICE_LOOKS);
    pg_conn_send(pg_pipeline_of(u), SQL_NOTICES_DUE, a);
    pg_args_i8(a, now);
    pg_conn_send(pg_pipeline_of(u), SQL_NOTICE_NEXT, a);
}

static uint64_t number_of(const struct op *op)
{
    if (op->kind == OP_NOTICE_END)
        return op->notice_end.number;
    return op->kind == OP_NOTICE_AGAIN || op->kind == OP_NOTICE_DISCARD ? op->notice.id.seq : 0;
}

static bool names_breakers(const struct unit *u)
{
    for (size_t i = 0; i < u->count; i++)
        if (unit_breaker_name(u->turns[i].op).len > 0)
            return true;
    return false;
}

/* The breakers of webhooks are needed if the end of a delivery is reported. */
static bool calls_targets(const struct unit *u)
{
    for (size_t i = 0; i < u->count; i++)
        if (u->turns[i].op->kind == OP_NOTICE_TAKE || u->turns[i].op->kind == OP_NOTICE_END)
            return true;
    return false;
}

static void send_breakers_load(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    pg_args_bool(a, calls_targets(u));
    pg_array_begin(a, ARRAY_TEXT);
    for (size_t i = 0; i < u->count; i++)
        if (unit_breaker_name(u->turns[i].op).len > 0)
            pg_array_blob(a, unit_breaker_name(u->turns[i].op));
    pg_array_end(a);
    pg_conn_send(pg_pipeline_of(u), SQL_BREAKERS, a);
    if (names_breakers(u))
        pg_conn_send(pg_pipeline_of(u), SQL_BREAKER_NAMED_COUNT, a);
}

void pg_notices_send_load(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    if (takes(u)) {
        send_take(u);
    } else {
        pg_array_begin(a, ARRAY_I8);
        for (size_t i = 0; i < u->count; i++)
            if (number_of(u->turns[i].op))
                pg_array_i8(a, (int64_t)number_of(u->turns[i].op));
        pg_array_end(a);
        pg_conn_send(pg_pipeline_of(u), SQL_NOTICES, a);
    }
    send_breakers_load(u);
}

static struct breaker breaker_of(const PGresult *r, int at)
{
    return (struct breaker){.state = pg_col_kind(r, at, 1, BREAKER_STATE_COUNT),
                            .failures = (uint32_t)pg_col_i8(r, at, 2),
                            .probes = (uint32_t)pg_col_i8(r, at, 3),
                            .until = {pg_col_time(r, at, 4)},
                            .changed_at = {pg_col_time(r, at, 5)},
                            .own = {(uint32_t)pg_col_i8(r, at, 6), (uint32_t)pg_col_i8(r, at, 7),
                                    (uint32_t)pg_col_i8(r, at, 8)},
                            .used_at = {pg_col_time(r, at, 9)}};
}

void pg_notices_loaded(struct unit *u, size_t at)
{
    if (takes(u)) {
        at++; /* after the result of the release */
        u->alerts.next_look.ms = pg_col_time(pg_conn_result(pg_pipeline_of(u), at + 1), 0, 0);
    }
    PGresult *r = pg_conn_take_result(pg_pipeline_of(u), at);
    PGresult *breakers = pg_conn_take_result(pg_pipeline_of(u), at + 1 + takes(u));
    if (names_breakers(u))
        u->alerts.named_there = pg_col_count(pg_conn_result(pg_pipeline_of(u), at + 2), 0, 0);
    if (!pg_unit_keep(u, r) || !pg_unit_keep(u, breakers))
        return;
    for (int i = 0; i < PQntuples(r); i++) {
        struct wnotice loaded = row_of(r, i);
        if (!unit_notice_add(u, &loaded))
            return;
    }
    if (takes(u) && PQntuples(r) >= NOTICE_LOOKS)
        u->alerts.next_look = u->now; /* there may be more */
    for (int i = 0; i < PQntuples(breakers); i++) {
        struct breaker b = breaker_of(breakers, i);
        if (!unit_breaker_add(u, pg_col_bytes(breakers, i, 0), &b))
            return;
    }
}

/* --- storing --- */

typedef bool (*notice_pick_fn)(const struct wnotice *n);
typedef void (*notice_column_fn)(struct args *a, const struct unit *u, const struct wnotice *n);

#define I8(name, expression)                                                                       \
    static void c_##name(struct args *a, const struct unit *u, const struct wnotice *n)            \
    {                                                                                              \
        (void)u;                                                                                   \
        pg_array_i8(a, (int64_t)(expression));                                                     \
    }
#define I4(name, expression)                                                                       \
    static void c_##name(struct args *a, const struct unit *u, const struct wnotice *n)            \
    {                                                                                              \
        (void)u;                                                                                   \
        pg_array_i4(a, (int32_t)(expression));                                                     \
    }
#define I2(name, expression)                                                                       \
    static void c_##name(struct args *a, const struct unit *u, const struct wnotice *n)            \
    {                                                                                              \
        (void)u;                                                                                   \
        pg_array_i2(a, (int16_t)(expression));                                                     \
    }
#define BYTES(name, expression)                                                                    \
    static void c_##name(struct args *a, const struct unit *u, const struct wnotice *n)            \
    {                                                                                              \
        (void)u;                                                                                   \
        pg_array_blob(a, expression);                                                              \
    }
I8(number, n->notice.number)
I8(id_hi, n->notice.id_hi)
I2(kind, n->notice.on)
I2(edge, n->notice.edge)
I8(at, n->notice.at.ms)
BYTES(alert, n->notice.alert)
BYTES(queue, n->notice.queue)
I8(job_seq, n->notice.job_seq)
I8(job_hi, n->notice.job_hi)
I2(reason, n->notice.reason)
I8(attempts, n->notice.attempts)
I8(value, n->notice.value)
I8(mark, n->notice.mark)
BYTES(subject, n->notice.subject)
BYTES(body, n->notice.text)
I2(state, n->tried.state)
I8(tries, n->tried.tries)
I8(since, n->tried.since.ms)
I8(due, n->tried.due.ms)
I4(status, n->tried.status)
BYTES(error, n->tried.error)
I8(look_at, n->look_ms)
I4(holder, n->held ? u->s->facts.epoch : 0)

struct notice_column_of {
    enum array_of of;
    notice_column_fn add;
};

static const struct notice_column_of new_columns[] = {
    {ARRAY_I8, c_id_hi},      {ARRAY_I2, c_kind},     {ARRAY_I2, c_edge},    {ARRAY_I8, c_at},
    {ARRAY_TEXT, c_alert},    {ARRAY_TEXT, c_queue},  {ARRAY_I8, c_job_seq}, {ARRAY_I8, c_job_hi},
    {ARRAY_I2, c_reason},     {ARRAY_I8, c_attempts}, {ARRAY_I8, c_value},   {ARRAY_I8, c_mark},
    {ARRAY_BYTES, c_subject}, {ARRAY_BYTES, c_body},
};
static const struct notice_column_of set_columns[] = {
    {ARRAY_I8, c_number},   {ARRAY_I2, c_state},   {ARRAY_I8, c_tries},
    {ARRAY_I8, c_since},    {ARRAY_I8, c_due},     {ARRAY_I4, c_status},
    {ARRAY_BYTES, c_error}, {ARRAY_I8, c_look_at}, {ARRAY_I4, c_holder},
};
static const struct notice_column_of number_column[] = {{ARRAY_I8, c_number}};
#define COLUMNS(table) table, sizeof(table) / sizeof(table)[0]

static bool any(const struct wnotice *n)
{
    (void)n;
    return true;
}

static bool is_set(const struct wnotice *n)
{
    return n->changed && !n->gone;
}

static bool is_gone(const struct wnotice *n)
{
    return n->gone;
}

static bool send_those(struct unit *u, enum sql_id id, const struct wnotice *first,
                       notice_pick_fn pick, const struct notice_column_of *columns, size_t count)
{
    struct args *a = &pg_unit(u)->args;
    size_t n = 0;
    for (const struct wnotice *x = first; x; x = x->next)
        n += pick(x);
    for (size_t c = 0; n && c < count; c++) {
        pg_array_begin(a, columns[c].of);
        for (const struct wnotice *x = first; x; x = x->next)
            if (pick(x))
                columns[c].add(a, u, x);
        pg_array_end(a);
    }
    if (n)
        pg_conn_send(pg_pipeline_of(u), id, a);
    return n > 0;
}

static bool is_new_breaker(const struct wbreaker *b)
{
    return b->changed && !b->stored && !b->gone;
}

static bool is_set_breaker(const struct wbreaker *b)
{
    return b->changed && b->stored && !b->gone;
}

static bool is_gone_breaker(const struct wbreaker *b)
{
    return b->gone && b->stored;
}

#define BREAKER_COLUMNS 10

static int64_t breaker_number(const struct breaker *b, int column)
{
    const int64_t numbers[BREAKER_COLUMNS] = {0,
                                              b->state,
                                              b->failures,
                                              b->probes,
                                              b->until.ms,
                                              b->changed_at.ms,
                                              b->own.failure_threshold,
                                              b->own.open_cooldown_seconds,
                                              b->own.half_open_probe_count,
                                              b->used_at.ms};
    return numbers[column];
}

/* If two nodes use a new target at once, the second insert fails, and its unit begins again. */
static void send_breakers(struct unit *u, enum sql_id id, bool (*pick)(const struct wbreaker *b),
                          int columns)
{
    struct args *a = &pg_unit(u)->args;
    size_t n = 0;
    for (int c = 0; c < columns; c++) {
        pg_array_begin(a, c == 0 ? ARRAY_TEXT : c == 1 ? ARRAY_I2 : ARRAY_I8);
        for (const struct wbreaker *b = u->alerts.breakers; b; b = b->next) {
            if (!pick(b))
                continue;
            n++;
            if (c == 0)
                pg_array_blob(a, b->target);
            else if (c == 1)
                pg_array_i2(a, b->breaker.state);
            else
                pg_array_i8(a, breaker_number(&b->breaker, c));
        }
        pg_array_end(a);
    }
    if (n)
        pg_conn_send(pg_pipeline_of(u), id, a);
    else
        pg_args_clear(a);
}

static void send_let_go(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    if (u->alerts.let_go_count == 0)
        return;
    pg_array_begin(a, ARRAY_TEXT);
    for (size_t i = 0; i < u->alerts.let_go_count; i++)
        pg_array_blob(a, u->alerts.let_go[i]);
    pg_array_end(a);
    pg_conn_send(pg_pipeline_of(u), SQL_NOTICE_RELEASE, a);
}

void pg_notices_send_store(struct unit *u)
{
    struct pg_unit *p = pg_unit(u);
    bool touched = u->alerts.put && u->alerts.put->drop;
    p->trim_at = p->counts_at = SIZE_MAX;
    if (u->alerts.notices) {
        touched |=
            send_those(u, SQL_NOTICE_DEL, u->alerts.notices, is_gone, COLUMNS(number_column));
        touched |= send_those(u, SQL_NOTICE_SET, u->alerts.notices, is_set, COLUMNS(set_columns));
    }
    if (send_those(u, SQL_NOTICE_NEW, u->alerts.fresh, any, COLUMNS(new_columns))) {
        p->trim_at = pg_conn_sent(pg_pipeline_of(u));
        pg_conn_send(pg_pipeline_of(u), SQL_NOTICE_TRIM, &p->args);
        touched = true;
    }
    if (u->alerts.breakers) {
        send_breakers(u, SQL_BREAKER_DEL, is_gone_breaker, 1);
        send_breakers(u, SQL_BREAKER_NEW, is_new_breaker, BREAKER_COLUMNS);
        send_breakers(u, SQL_BREAKER_SET, is_set_breaker, BREAKER_COLUMNS);
    }
    send_let_go(u);
    if (touched) {
        p->counts_at = pg_conn_sent(pg_pipeline_of(u));
        pg_conn_send(pg_pipeline_of(u), SQL_NOTICE_COUNTS, &p->args);
    }
}

void pg_notices_stored(struct unit *u)
{
    struct pg_unit *p = pg_unit(u);
    struct backend_figures *f = &u->s->figures;
    if (p->trim_at != SIZE_MAX)
        f->notices_dropped += (uint64_t)PQntuples(pg_conn_result(pg_pipeline_of(u), p->trim_at));
    if (p->counts_at == SIZE_MAX)
        return;
    f->notices_pending = pg_col_count(pg_conn_result(pg_pipeline_of(u), p->counts_at), 0, 0);
    f->notices_dead = pg_col_count(pg_conn_result(pg_pipeline_of(u), p->counts_at), 0, 1);
}

/* --- queries --- */

static uint32_t limit_of(const struct op_notice *want)
{
    return want->id.seq ? 1 : shared_limit(want->limit);
}

void pg_notices_send_view(struct unit *u, const struct op *op)
{
    struct args *a = &pg_unit(u)->args;
    if (op->kind == OP_BREAKER_LIST) {
        pg_conn_send(pg_pipeline_of(u), SQL_BREAKER_LIST, a);
        return;
    }
    pg_args_i8(a, (int64_t)op->notice.id.seq);
    pg_args_i8(a, op->notice.id.seq ? 0 : (int64_t)op->notice.after);
    pg_args_i4(a, (int32_t)limit_of(&op->notice) + 1);
    pg_conn_send(pg_pipeline_of(u), SQL_NOTICE_LIST, a);
}

static void answer_breakers(struct unit *u, struct turn *t, const PGresult *r)
{
    int n = PQntuples(r);
    struct breaker_view *views = arena_array(&u->arena, (size_t)n + 1, sizeof *views);
    for (int i = 0; views && i < n; i++)
        views[i] =
            (struct breaker_view){.target = pg_col_bytes(r, i, 0), .breaker = breaker_of(r, i)};
    t->reply.breakers = views;
    t->reply.breaker_count = views ? (uint32_t)n : 0;
}

static bool view_row(const PGresult *r, int at, struct notice_view *ret)
{
    struct wnotice n = row_of(r, at);
    struct rec_alert_put put;
    if (!pg_alerts_rule(r, at, N_RULE, &put))
        return false;
    *ret = (struct notice_view){.notice = n.notice,
                                .tried = n.tried,
                                .with_payload = put.rule.with_payload,
                                .url = put.rule.url};
    return true;
}

void pg_notices_answer(struct unit *u, struct turn *t, const PGresult *r)
{
    const struct op_notice *want = &t->op->notice;
    if (t->op->kind == OP_BREAKER_LIST) {
        answer_breakers(u, t, r);
        return;
    }
    uint32_t n = (uint32_t)PQntuples(r), most = limit_of(want), shown = 0;
    struct notice_view *views = arena_array(&u->arena, (size_t)n + 1, sizeof *views);
    if (want->id.seq &&
        (n == 0 || (want->id.hi && want->id.hi != (uint64_t)pg_col_i8(r, 0, N_ID_HI)))) {
        unit_refuse(t, OUT_NOT_FOUND, NULL);
        return;
    }
    for (; shown < n && shown < most; shown++)
        if (!views || !view_row(r, (int)shown, &views[shown])) {
            unit_refuse(t, OUT_UNAVAILABLE, "out of memory, or the row of an alert is damaged");
            return;
        }
    t->reply.notices = views;
    t->reply.notice_count = shown;
    t->reply.notice_cursor = !want->id.seq && shown < n ? views[shown - 1].notice.number : 0;
}
