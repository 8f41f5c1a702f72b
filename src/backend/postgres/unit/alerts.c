/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules and what they have raised: what a unit reads and writes. */
#include "backend/postgres/impl.h"
#include "base/check.h"

/* --- the rules that this node knows --- */

void pg_alerts_send_version(struct unit *u)
{
    pg_conn_send(pg_pipeline_of(u), SQL_ALERTS_VERSION, &pg_unit(u)->args);
}

bool pg_alerts_stale(const struct unit *u, size_t version_at)
{
    if (version_at == SIZE_MAX)
        return false;
    const PGresult *version = pg_conn_result(pg_pipeline_of(u), version_at);
    if (!version)
        return true;
    return (uint64_t)pg_col_i8(version, 0, 0) != u->s->alerts.version;
}

void pg_alerts_ask(struct unit *u)
{
    pg_unit(u)->asked |= ASKED_ALERTS;
    pg_unit(u)->alerts_at = pg_conn_sent(pg_pipeline_of(u));
    pg_conn_send(pg_pipeline_of(u), SQL_ALERTS, &pg_unit(u)->args);
}

/* Rows of (number of the last change, rule); a row without a rule if there are no rules. */
int pg_alerts_loaded(struct unit *u)
{
    const PGresult *r = pg_conn_result(pg_pipeline_of(u), pg_unit(u)->alerts_at);
    size_t n = PQntuples(r) > 0 && !PQgetisnull(r, 0, 1) ? (size_t)PQntuples(r) : 0;
    struct span *records = unit_alloc(u, (n + 1) * sizeof *records);
    if (!records || PQntuples(r) == 0)
        return records ? -ERR_CORRUPT : -ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        records[i] = pg_col_bytes(r, (int)i, 1);
    return alerts_known_set(u->s, (uint64_t)pg_col_i8(r, 0, 0), records, n);
}

/* --- a unit about them: one round in which everything is loaded --- */

static bool changes_rules(const struct op *op)
{
    return op->kind == OP_ALERT_PUT || op->kind == OP_ALERT_DELETE;
}

static bool edge_safe(const struct op *op)
{
    return op->kind == OP_ALERT_EDGE && unit_text_safe(op->alert_edge.alert) &&
           unit_text_safe(op->alert_edge.queue);
}

static void send_raised(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    for (int part = 0; part < 2; part++) {
        pg_array_begin(a, ARRAY_TEXT);
        for (size_t i = 0; i < u->count; i++)
            if (edge_safe(u->turns[i].op))
                pg_array_blob(a, part ? u->turns[i].op->alert_edge.queue
                                      : u->turns[i].op->alert_edge.alert);
        pg_array_end(a);
    }
    pg_conn_send(pg_pipeline_of(u), SQL_RAISED, a);
    pg_conn_send(pg_pipeline_of(u), SQL_RAISED_COUNT, a);
}

void pg_alerts_send_load(struct unit *u)
{
    struct args *a = &pg_unit(u)->args;
    const struct op *op = u->turns[0].op;
    if (changes_rules(op))
        pg_conn_send(pg_pipeline_of(u), SQL_ALERTS_LOCK, a);
    pg_unit(u)->slots[0] = pg_conn_sent(pg_pipeline_of(u));
    pg_conn_send(pg_pipeline_of(u), SQL_NOW, a);
    pg_unit(u)->alerts_at = pg_conn_sent(pg_pipeline_of(u));
    pg_conn_send(pg_pipeline_of(u), SQL_ALERTS, a);
    if (changes_rules(op)) {
        pg_args_text(a, op->alert.name);
        pg_conn_send(pg_pipeline_of(u), SQL_ALERT_NOTICES, a);
        return;
    }
    send_raised(u);
    pg_notices_send_load(u);
}

static void load_raised(struct unit *u, size_t at)
{
    PGresult *r = pg_conn_take_result(pg_pipeline_of(u), at);
    if (!pg_unit_keep(u, r))
        return;
    for (int i = 0; i < PQntuples(r); i++) {
        struct wraised *w = unit_raised_add(u, pg_col_bytes(r, i, 0), pg_col_bytes(r, i, 1));
        if (!w)
            return;
        w->stored = w->there = true;
        w->since.ms = pg_col_time(r, i, 2);
        w->value = (uint64_t)pg_col_i8(r, i, 3);
        w->mark = (uint64_t)pg_col_i8(r, i, 4);
    }
    u->alerts.raised_there = (uint64_t)pg_col_i8(pg_conn_result(pg_pipeline_of(u), at + 1), 0, 0);
}

int pg_alerts_all_loaded(struct unit *u)
{
    size_t at = pg_unit(u)->slots[0];
    int64_t given = shared_manual_now(u->s);
    u->now.ms = given ? given : pg_col_time(pg_conn_result(pg_pipeline_of(u), at), 0, 0);
    int err = pg_alerts_loaded(u);
    if (err)
        return err;
    at = pg_unit(u)->alerts_at + 1;
    if (!changes_rules(u->turns[0].op)) {
        load_raised(u, at);
        pg_notices_loaded(u, at + 2);
        return u->nomem ? -ERR_NOMEM : 0;
    }
    u->alerts.put = unit_alloc(u, sizeof *u->alerts.put);
    if (!u->alerts.put)
        return -ERR_NOMEM;
    u->alerts.put->notices = (uint64_t)pg_col_i8(pg_conn_result(pg_pipeline_of(u), at), 0, 0);
    return 0;
}

/* --- storing --- */

static void send_named(struct unit *u, enum sql_id id, struct span name)
{
    pg_args_bytes(&pg_unit(u)->args, name);
    pg_conn_send(pg_pipeline_of(u), id, &pg_unit(u)->args);
}

static void send_rule(struct unit *u, const struct walert_put *p)
{
    if (!p->name.len) /* refused */
        return;
    if (p->gone) {
        send_named(u, SQL_ALERT_DEL, p->name);
    } else {
        pg_args_bytes(&pg_unit(u)->args, p->name);
        pg_args_bytes(&pg_unit(u)->args, p->record);
        pg_conn_send(pg_pipeline_of(u), SQL_ALERT_PUT, &pg_unit(u)->args);
    }
    pg_conn_send(pg_pipeline_of(u), SQL_ALERTS_CHANGED, &pg_unit(u)->args);
    if (p->forget)
        send_named(u, SQL_RAISED_DEL_ALL, p->name);
    if (p->drop)
        send_named(u, SQL_NOTICE_DEL_ALL, p->name);
}

/* If two nodes raise the same condition at once, the second insert fails, and its unit begins
 * again. */
static void send_edges(struct unit *u, bool fresh)
{
    struct args *a = &pg_unit(u)->args;
    size_t n = 0;
    for (int part = 0; part < (fresh ? 5 : 2); part++) {
        pg_array_begin(a, part < 2 ? ARRAY_TEXT : ARRAY_I8);
        for (const struct wraised *r = u->alerts.raised; r; r = r->next) {
            if (!r->changed || !(fresh ? r->there : r->stored))
                continue;
            n++;
            if (part < 2)
                pg_array_blob(a, part ? r->queue : r->alert);
            else
                pg_array_i8(a, part == 2   ? r->since.ms
                               : part == 3 ? (int64_t)r->value
                                           : (int64_t)r->mark);
        }
        pg_array_end(a);
    }
    if (n)
        pg_conn_send(pg_pipeline_of(u), fresh ? SQL_RAISED_NEW : SQL_RAISED_DEL, a);
    else
        pg_args_clear(a);
}

void pg_alerts_send_store(struct unit *u)
{
    if (u->alerts.put)
        send_rule(u, u->alerts.put);
    if (u->alerts.raised) {
        send_edges(u, false);
        send_edges(u, true);
    }
    pg_notices_send_store(u);
}

void pg_alerts_stored(struct unit *u)
{
    if (u->alerts.put && u->alerts.put->name.len)
        alerts_known_done(u->s); /* the next unit that needs them reads them again */
    pg_notices_stored(u);
}

/* --- queries --- */

void pg_alerts_send_view(struct unit *u, const struct op *op)
{
    for (int part = 0; part < 2; part++) {
        pg_args_text(&pg_unit(u)->args, op->alert.name);
        pg_conn_send(pg_pipeline_of(u), part ? SQL_RAISED_LIST : SQL_ALERT_LIST, &pg_unit(u)->args);
    }
}

bool pg_alerts_rule(const PGresult *r, int row, int col, struct rec_alert_put *ret)
{
    struct span bytes = pg_col_bytes(r, row, col);
    struct record rec;
    if (record_decode(&bytes, &rec) != 0 || rec.kind != REC_ALERT_PUT)
        return false;
    *ret = rec.alert_put;
    return true;
}

/* The raised conditions of this alert, which are consecutive from *place on. */
static void view_raised(struct unit *u, const PGresult *r, int *place, struct alert_view *v)
{
    uint32_t n = 0;
    while (*place + (int)n < PQntuples(r) &&
           span_equal(pg_col_bytes(r, *place + (int)n, 0), v->name))
        n++;
    struct raised_view *views = arena_array(&u->arena, n + 1, sizeof *views);
    for (uint32_t i = 0; views && i < n; i++)
        views[i] = (struct raised_view){.queue = pg_col_bytes(r, *place + (int)i, 1),
                                        .since = {pg_col_time(r, *place + (int)i, 2)},
                                        .value = (uint64_t)pg_col_i8(r, *place + (int)i, 3),
                                        .mark = (uint64_t)pg_col_i8(r, *place + (int)i, 4)};
    v->raised = views;
    v->raised_count = views ? n : 0;
    *place += (int)n;
}

static bool view_alert(struct unit *u, const PGresult *rules, int at, const PGresult *raised,
                       int *place, bool secret, struct alert_view *v)
{
    struct rec_alert_put put;
    if (!pg_alerts_rule(rules, at, 0, &put))
        return false;
    *v = (struct alert_view){.name = put.name,
                             .rule = put.rule,
                             .has_secret = put.rule.secret.len > 0,
                             .created_at = put.created_at,
                             .updated_at = put.updated_at,
                             .pending = (uint64_t)pg_col_i8(rules, at, 1),
                             .dead = (uint64_t)pg_col_i8(rules, at, 2),
                             .raised_total = (uint64_t)pg_col_i8(rules, at, 3)};
    if (!secret)
        v->rule.secret = (struct span){NULL, 0};
    view_raised(u, raised, place, v);
    return true;
}

void pg_alerts_answer(struct unit *u, struct turn *t, size_t at)
{
    const PGresult *rules = pg_conn_result(pg_pipeline_of(u), at),
                   *raised = pg_conn_result(pg_pipeline_of(u), at + 1);
    int n = PQntuples(rules), place = 0;
    struct alert_view *views = arena_array(&u->arena, (size_t)n + 1, sizeof *views);
    if (t->op->alert.name.len && n == 0) {
        unit_refuse(t, OUT_NOT_FOUND, NULL);
        return;
    }
    for (int i = 0; i < n; i++)
        if (!views ||
            !view_alert(u, rules, i, raised, &place, t->op->alert.with_secrets, &views[i])) {
            unit_refuse(t, OUT_UNAVAILABLE, "out of memory, or the row of an alert is damaged");
            return;
        }
    t->reply.alerts = views;
    t->reply.alert_count = (uint32_t)n;
}
