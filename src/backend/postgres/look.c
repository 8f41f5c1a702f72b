/* SPDX-License-Identifier: Apache-2.0 */
/* Quick questions, answered on the lane between two units: get, peek, queues and their counts. */
#include "backend/postgres/impl.h"

#define PEEK_MAX 100u

/* --- views --- */

static void view_lease(const struct row *row, struct wall_time now, struct job_view *ret)
{
    ret->token = row->token;
    ret->lease_ms = row->lease_ms;
    ret->worker = row->worker;
    ret->started_at = row->started_at;
    if (row->lease_ms)
        ret->lease_left_ms = row->until_ms > now.ms ? row->until_ms - now.ms : 0;
    else
        ret->holder = row->holder;
    ret->fates.claims = (uint16_t)(ret->fates.claims + (ret->fates.claims < UINT16_MAX));
}

static void view_queue(const PGresult *r, int at, const struct row *row, struct wall_time now,
                       struct job_view *ret)
{
    struct queue_policy policy;
    struct job_options own;
    struct job_rules rules;
    ret->queue = pg_col_bytes(r, at, JOB_QUEUE_NAME);
    ret->owner = pg_col_bytes(r, at, JOB_QUEUE_OWNER);
    ret->paused = pg_col_i8(r, at, JOB_QUEUE_PAUSED) > now.ms;
    if (policy_decode(pg_col_bytes(r, at, JOB_QUEUE_POLICY), &policy) != 0)
        return;
    bool has_own = row->extra.options.len && options_decode(row->extra.options, &own) == 0;
    rules_of(&policy, has_own ? &own : NULL, &rules);
    ret->own_lease_ms = rules.lease_ms;
    ret->require_token = policy.require_token;
}

/* A row of JOB, bodies and QUEUE_SHOWN. */
void pg_view_row(struct pg_store *s, const PGresult *r, int at, struct wall_time now, bool body,
                 struct arena *arena, struct job_view *ret)
{
    struct row row = {.gone = false};
    (void)s, (void)arena;
    pg_row_load(r, at, &row);
    *ret = (struct job_view){.job = row.job, .fates = row.fates};
    ret->expires_at = row.extra.expires_at;
    view_queue(r, at, &row, now, ret);
    if (row.job.state == STATE_RUNNING)
        view_lease(&row, now, ret);
    if (row.job.state == STATE_DONE || body)
        ret->started_at = row.started_at;
    if (!body)
        return;
    ret->has_body = true;
    ret->holder = row.holder;
    ret->extra = row.extra;
    ret->payload = pg_col_bytes(r, at, JOB_PAYLOAD);
    ret->result_kind = row.result_kind;
    ret->result = pg_col_bytes(r, at, JOB_RESULT);
    ret->error_kind = row.error_kind;
    ret->error = pg_col_bytes(r, at, JOB_ERROR);
}

/* --- get --- */

static void send_get(struct unit *u, const struct op_job *want)
{
    pg_args_i8(&pg_unit(u)->args, (int64_t)want->job.seq);
    pg_args_bool(&pg_unit(u)->args, want->want_body);
    pg_conn_send(pg_of_unit(u)->lane, SQL_GET, &pg_unit(u)->args);
    pg_args_i8(&pg_unit(u)->args, want->want_attempts ? (int64_t)want->job.seq : 0);
    pg_conn_send(pg_of_unit(u)->lane, SQL_ATTEMPTS, &pg_unit(u)->args);
}

static struct attempt_view attempt_read(const PGresult *r, int at)
{
    return (struct attempt_view){
        .number = (uint32_t)pg_col_i4(r, at, 0),
        .started_at = {pg_col_i8(r, at, 1)},
        .ended_at = {pg_col_i8(r, at, 2)},
        .outcome = (uint8_t)pg_col_i2(r, at, 3),
        .error_kind = (uint8_t)pg_col_i2(r, at, 4),
        .worker = pg_col_bytes(r, at, 5),
        .error = pg_col_bytes(r, at, 6),
    };
}

/* The attempt under way, or the one that made it done, is in the job's own row. */
static bool attempt_of_row(const struct row *row, struct attempt_view *ret)
{
    bool done = row->job.state == STATE_DONE;
    if ((row->job.state != STATE_RUNNING && !done) || row->started_at.ms == 0)
        return false;
    *ret = (struct attempt_view){
        .number = (uint32_t)row->job.failures + row->job.crashes + 1,
        .worker = row->worker,
        .started_at = row->started_at,
        .ended_at = {done ? row->job.since.ms : 0},
        .outcome = done ? ATTEMPT_DONE : ATTEMPT_RUNNING,
    };
    return true;
}

static void view_attempts(struct unit *u, const PGresult *job, const PGresult *r,
                          struct job_view *v)
{
    struct row row = {.gone = false};
    uint32_t at = LIMIT_ATTEMPTS_KEPT;
    struct attempt_view *views = arena_array(&u->arena, at, sizeof *views);
    if (!views)
        return;
    pg_row_load(job, 0, &row);
    if (attempt_of_row(&row, &views[at - 1]))
        at--;
    for (int i = 0; i < PQntuples(r) && at > 0; i++)
        views[--at] = attempt_read(r, i);
    for (uint32_t i = at; i < LIMIT_ATTEMPTS_KEPT; i++) {
        views[i].seq = row.job.seq;
        views[i].id_hi = row.job.id_hi;
        views[i].queue = v->queue;
    }
    v->attempts = views + at;
    v->attempt_count = LIMIT_ATTEMPTS_KEPT - at;
}

static size_t answer_get(struct unit *u, struct turn *t, size_t at)
{
    const struct op_job *want = &t->op->job;
    const PGresult *r = pg_conn_result(pg_of_unit(u)->lane, at);
    struct job_view *v = arena_array(&u->arena, 1, sizeof *v);
    bool found = PQntuples(r) == 1 &&
                 (!want->job.hi || (uint64_t)pg_col_i8(r, 0, JOB_ID_HI) == want->job.hi);
    if (!found || !v) {
        unit_refuse(t, found ? OUT_UNAVAILABLE : OUT_NOT_FOUND, NULL);
        return 2;
    }
    pg_view_row(pg_of_unit(u), r, 0, u->now, want->want_body || want->want_texts, &u->arena, v);
    t->reply.seq = v->job.seq;
    t->reply.id_hi = v->job.id_hi;
    t->reply.state = v->job.state;
    t->reply.jobs = v;
    t->reply.job_count = 1;
    if (want->want_attempts) {
        v->started_at.ms = pg_col_i8(r, 0, JOB_STARTED_AT);
        view_attempts(u, r, pg_conn_result(pg_of_unit(u)->lane, at + 1), v);
    }
    return 2;
}

/* --- peek --- */

static void send_peek(struct unit *u, const struct op_peek *want)
{
    bool back = want->newest_first && want->state >= STATE_RUNNING;
    uint32_t most = want->newest_first ? LIMIT_BATCH : PEEK_MAX;
    uint32_t limit = want->limit && want->limit < most ? want->limit : most;
    pg_array_begin(&pg_unit(u)->args, ARRAY_TEXT);
    if (unit_text_safe(want->queue))
        pg_array_blob(&pg_unit(u)->args, want->queue);
    pg_array_end(&pg_unit(u)->args);
    pg_array_begin(&pg_unit(u)->args, ARRAY_I4);
    pg_array_end(&pg_unit(u)->args);
    pg_args_i4(&pg_unit(u)->args, 0);
    pg_args_bytes(&pg_unit(u)->args, SPAN_LITERAL(""));
    pg_conn_send(pg_of_unit(u)->lane, SQL_QUEUE_VIEWS, &pg_unit(u)->args);
    pg_args_text(&pg_unit(u)->args, want->queue);
    pg_args_i4(&pg_unit(u)->args, (int32_t)limit);
    pg_args_bool(&pg_unit(u)->args, want->want_body);
    if (want->state >= STATE_DONE || back)
        pg_args_i4(&pg_unit(u)->args, want->state);
    if (back)
        pg_args_i8(&pg_unit(u)->args, (int64_t)want->skip);
    pg_conn_send(pg_of_unit(u)->lane,
                 back                             ? SQL_PEEK_NEWEST
                 : want->state == STATE_READY     ? SQL_PEEK_READY
                 : want->state == STATE_SCHEDULED ? SQL_PEEK_SCHEDULED
                 : want->state == STATE_RUNNING   ? SQL_PEEK_RUNNING
                 : want->state >= STATE_DONE      ? SQL_PEEK_KEPT
                                                  : SQL_PEEK_READY,
                 &pg_unit(u)->args);
}

static size_t answer_peek(struct unit *u, struct turn *t, size_t at)
{
    const struct op_peek *want = &t->op->peek;
    const PGresult *r = pg_conn_result(pg_of_unit(u)->lane, at + 1);
    uint64_t bytes = 0;
    if (PQntuples(pg_conn_result(pg_of_unit(u)->lane, at)) == 0) {
        unit_refuse(t, OUT_NO_QUEUE, NULL);
        return 2;
    }
    if (want->state == STATE_NONE || want->state >= STATE_COUNT) {
        unit_refuse(t, OUT_INVALID,
                    "state must be scheduled, ready, running, done, dead or cancelled");
        return 2;
    }
    int n = PQntuples(r);
    struct job_view *views = arena_array(&u->arena, (size_t)n + 1, sizeof *views);
    for (int i = 0; views && i < n && (!want->want_body || bytes < LIMIT_ANSWER_BYTES); i++) {
        pg_view_row(pg_of_unit(u), r, i, u->now, want->want_body, &u->arena, &views[i]);
        bytes += views[i].job.payload_bytes;
        t->reply.job_count++;
    }
    t->reply.jobs = views;
    return 2;
}

/* --- queues --- */

static void send_views(struct unit *u, const struct op *op)
{
    const struct op_queue *want = &op->queue;
    bool list = op->kind == OP_QUEUE_LIST;
    pg_array_begin(&pg_unit(u)->args, ARRAY_TEXT);
    if (!list && want->name.len && unit_text_safe(want->name))
        pg_array_blob(&pg_unit(u)->args, want->name);
    pg_array_end(&pg_unit(u)->args);
    pg_array_begin(&pg_unit(u)->args, ARRAY_I4);
    if (!list && !want->name.len && want->number)
        pg_array_i4(&pg_unit(u)->args, (int32_t)want->number);
    pg_array_end(&pg_unit(u)->args);
    uint32_t limit = want->limit && want->limit < LIMIT_BATCH ? want->limit : LIMIT_BATCH;
    pg_args_i4(&pg_unit(u)->args, list ? (int32_t)limit : 0);
    pg_args_text(&pg_unit(u)->args, list ? want->after : SPAN_LITERAL(""));
    pg_conn_send(pg_of_unit(u)->lane, SQL_QUEUE_VIEWS, &pg_unit(u)->args);
    if (!list && want->group.len) {
        pg_args_text(&pg_unit(u)->args, want->name);
        pg_args_i4(&pg_unit(u)->args, (int32_t)want->number);
        pg_args_text(&pg_unit(u)->args, want->group);
        pg_conn_send(pg_of_unit(u)->lane, SQL_GROUP, &pg_unit(u)->args);
    }
}

/* Behind the columns of QUEUE: since of the oldest ready, next due, the sums. */
#define VIEW_OLDEST 11
#define VIEW_DUE 12
#define VIEW_SUMS 13

static uint64_t sum_of(const PGresult *r, int at, int sum)
{
    int64_t v = pg_col_i8(r, at, VIEW_SUMS + sum);
    return v > 0 ? (uint64_t)v : 0;
}

static void view_counts(const PGresult *r, int at, struct wall_time now, struct queue_view *v)
{
    struct queue_counts *c = &v->counts;
    for (int s = STATE_SCHEDULED; s < STATE_COUNT; s++)
        c->by_state[s] = sum_of(r, at, s - 1);
    for (int f = 0; f < TALLY_COUNT; f++)
        v->totals.of[f] = sum_of(r, at, SUM_TALLY + f);
    const uint64_t *t = v->totals.of;
    c->urgent = sum_of(r, at, SUM_URGENT);
    c->removed = sum_of(r, at, SUM_REMOVED);
    c->enqueued = t[TALLY_ENQUEUED];
    c->claimed = t[TALLY_CLAIMED];
    c->acked = t[TALLY_ACKED];
    c->failed = t[TALLY_FAILED_APP] + t[TALLY_FAILED_BUSINESS];
    c->crashed = t[TALLY_CRASHED];
    c->released = t[TALLY_RELEASED];
    c->died = t[TALLY_DIED];
    c->cancelled = t[TALLY_CANCELLED];
    int64_t since = pg_col_i8(r, at, VIEW_OLDEST);
    c->oldest_ready_ms = since == 0 ? -1 : now.ms > since ? now.ms - since : 0;
    c->next_due.ms = pg_col_i8(r, at, VIEW_DUE);
}

static bool view_of_queue(struct unit *u, const PGresult *r, int at, struct queue_view *v)
{
    struct queue_policy *policy = arena_array(&u->arena, 1, sizeof *policy);
    if (!policy || policy_decode(pg_col_bytes(r, at, 5), policy) != 0)
        return false;
    *v = (struct queue_view){
        .number = (uint32_t)pg_col_i4(r, at, 0),
        .name = pg_col_bytes(r, at, 1),
        .owner = pg_col_bytes(r, at, 2),
        .note = pg_col_bytes(r, at, 3),
        .attributes = pg_col_bytes(r, at, 4),
        .policy = policy,
        .created_at = {pg_col_i8(r, at, 7)},
        .updated_at = {pg_col_i8(r, at, 8)},
        .paused_until = {pg_col_i8(r, at, 9)},
    };
    view_counts(r, at, u->now, v);
    return true;
}

static void group_counts(const PGresult *r, struct queue_counts *c)
{
    memset(c->by_state, 0, sizeof c->by_state);
    for (int i = 0; i < PQntuples(r); i++) {
        int state = pg_col_i2(r, i, 0);
        if (state > STATE_NONE && state < STATE_COUNT)
            c->by_state[state] = (uint64_t)pg_col_i8(r, i, 1);
    }
}

static size_t answer_views(struct unit *u, struct turn *t, size_t at)
{
    const PGresult *r = pg_conn_result(pg_of_unit(u)->lane, at);
    bool group = t->op->kind == OP_QUEUE_GET && t->op->queue.group.len;
    int n = PQntuples(r);
    struct queue_view *views = arena_array(&u->arena, (size_t)n + 1, sizeof *views);
    for (int i = 0; i < n; i++)
        if (!views || !view_of_queue(u, r, i, &views[i])) {
            unit_refuse(t, OUT_UNAVAILABLE, "out of memory");
            return group ? 2 : 1;
        }
    t->reply.queues = views;
    t->reply.queue_count = (uint32_t)n;
    if (t->op->kind == OP_QUEUE_GET && n == 0)
        unit_refuse(t, OUT_NO_QUEUE, NULL);
    else if (group)
        group_counts(pg_conn_result(pg_of_unit(u)->lane, at + 1), &views[0].counts);
    return group ? 2 : 1;
}

/* --- all of them --- */

void pg_look_send(struct pg_store *s)
{
    struct unit *u = s->unit;
    pg_conn_send(s->lane, SQL_NOW, &pg_unit(u)->args);
    for (size_t i = 0; i < u->count; i++) {
        const struct op *op = u->turns[i].op;
        if (op->kind == OP_GET)
            send_get(u, &op->job);
        else if (op->kind == OP_PEEK)
            send_peek(u, &op->peek);
        else if (op->kind == OP_KV_GET)
            pg_keys_send_get(u, &op->kv_get);
        else if (op->kind == OP_SCHEDULE_GET || op->kind == OP_SCHEDULE_LIST)
            pg_schedules_send_look(u, op);
        else if (op->kind == OP_ALERT_LIST)
            pg_alerts_send_look(u, op);
        else if (op->kind == OP_NOTICE_LIST || op->kind == OP_BREAKER_LIST)
            pg_notices_send_look(u, op);
        else
            send_views(u, op);
    }
}

void pg_look_answer(struct pg_store *s)
{
    struct unit *u = s->unit;
    size_t at = 1;
    int64_t given = pg_manual_now(s);
    u->now.ms = given ? given : pg_col_i8(pg_conn_result(s->lane, 0), 0, 0);
    for (size_t i = 0; i < u->count; i++) {
        struct turn *t = &u->turns[i];
        if (t->op->kind == OP_GET)
            at += answer_get(u, t, at);
        else if (t->op->kind == OP_PEEK)
            at += answer_peek(u, t, at);
        else if (t->op->kind == OP_KV_GET)
            pg_keys_answer_get(u, t, pg_conn_result(s->lane, at++));
        else if (t->op->kind == OP_SCHEDULE_GET || t->op->kind == OP_SCHEDULE_LIST)
            pg_schedules_answer(u, t, pg_conn_result(s->lane, at++));
        else if (t->op->kind == OP_NOTICE_LIST || t->op->kind == OP_BREAKER_LIST)
            pg_notices_answer(u, t, pg_conn_result(s->lane, at++));
        else if (t->op->kind == OP_ALERT_LIST) {
            pg_alerts_answer(u, t, at);
            at += 2;
        } else
            at += answer_views(u, t, at);
    }
}
