/* SPDX-License-Identifier: Apache-2.0 */
/* Quick queries, which the write connection answers between two units: get, peek, queues and their
 * counts. */
#include "backend/postgres/impl.h"

/* --- views --- */

/* A row of job_columns, bodies and queue_shown (sql/parts.sql). */
void pg_view_row(const PGresult *r, int at, struct wall_time now, bool body, struct job_view *ret)
{
    struct row row = {.gone = false};
    struct wqueue q = {.name = pg_col_bytes(r, at, JOB_QUEUE_NAME),
                       .owner = pg_col_bytes(r, at, JOB_QUEUE_OWNER),
                       .paused_until = {pg_col_time(r, at, JOB_QUEUE_PAUSED)}};
    if (policy_decode(pg_col_bytes(r, at, JOB_QUEUE_POLICY), &q.policy) != 0)
        policy_default(&q.policy);
    pg_row_load(r, at, &row);
    if (body) {
        row.payload = pg_col_bytes(r, at, JOB_PAYLOAD);
        row.result = pg_col_bytes(r, at, JOB_RESULT);
        row.error = pg_col_bytes(r, at, JOB_ERROR);
    }
    row_view(&row, &q, now, body, ret);
}

/* --- get --- */

static void send_get(struct unit *u, const struct op_job *want)
{
    pg_args_i8(&pg_unit(u)->args, (int64_t)want->job.seq);
    pg_args_bool(&pg_unit(u)->args, want->want_body);
    pg_args_bool(&pg_unit(u)->args, want->want_attempts);
    pg_args_bool(&pg_unit(u)->args, want->want_log);
    pg_conn_send(pg_pipeline_of(u), SQL_GET_JOB, &pg_unit(u)->args);
    pg_args_i8(&pg_unit(u)->args, want->want_attempts ? (int64_t)want->job.seq : 0);
    pg_conn_send(pg_pipeline_of(u), SQL_ATTEMPTS, &pg_unit(u)->args);
    if (want->want_parents) {
        pg_args_i8(&pg_unit(u)->args, (int64_t)want->job.seq);
        pg_conn_send(pg_pipeline_of(u), SQL_WAITS_FOR, &pg_unit(u)->args);
    }
    if (want->want_steps) {
        pg_array_begin(&pg_unit(u)->args, ARRAY_I8);
        pg_array_i8(&pg_unit(u)->args, (int64_t)want->job.seq);
        pg_array_end(&pg_unit(u)->args);
        pg_conn_send(pg_pipeline_of(u), SQL_STEPS, &pg_unit(u)->args);
    }
    if (want->want_wait) {
        pg_args_i8(&pg_unit(u)->args, (int64_t)want->job.seq);
        pg_args_i4(&pg_unit(u)->args, BEFORE_COUNTED + 1);
        pg_conn_send(pg_pipeline_of(u), SQL_JOB_WAIT, &pg_unit(u)->args);
    }
}

bool pg_attempt_read(const void *result, size_t i, struct attempt_view *ret)
{
    const PGresult *r = result;
    int at = (int)i;
    *ret = (struct attempt_view){
        .number = (uint32_t)pg_col_i4(r, at, 0),
        .started_at = {pg_col_time(r, at, 1)},
        .ended_at = {pg_col_time(r, at, 2)},
        .outcome = pg_col_kind(r, at, 3, ATTEMPT_OUTCOME_COUNT),
        .error_kind = pg_col_kind(r, at, 4, ERROR_BUSINESS + 1),
        .worker = pg_col_bytes(r, at, 5),
        .error = pg_col_bytes(r, at, 6),
    };
    return true;
}

static void view_attempts(struct unit *u, const PGresult *job, const PGresult *r,
                          struct job_view *v)
{
    struct row row = {.gone = false};
    int last = PQnfields(job) - 1;
    pg_row_load(job, 0, &row);
    v->progress = progress_shown(pg_col_bytes(job, 0, last - 1), row.token);
    v->log = pg_col_bytes(job, 0, last);
    unit_view_attempts(u, &row, pg_attempt_read, r, (size_t)PQntuples(r), v);
}

static void view_steps(struct unit *u, const PGresult *job, const PGresult *r, struct job_view *v)
{
    v->step_bytes = (uint32_t)steps_bytes(pg_col_bytes(job, 0, JOB_STEP_INDEX));
    unit_steps_begin(u);
    for (int i = 0; i < PQntuples(r); i++)
        unit_steps_add(u, pg_col_bytes(r, i, 1), pg_col_bytes(r, i, 2));
    v->steps = unit_steps_end(u);
}

static void view_dependent(const PGresult *job, struct job_view *v)
{
    v->is_dependent = pg_dependent_read(job, 0, JOB_DEPENDENT, &v->dependent);
    if (v->is_dependent && v->job.state == STATE_BLOCKED)
        v->waits = dependent_waits(&v->dependent);
}

static void view_parents(struct unit *u, const PGresult *r, struct job_view *v)
{
    int n = PQntuples(r);
    struct job_ref *refs = arena_array(&u->arena, (size_t)n + 1, sizeof *refs);
    for (int i = 0; refs && i < n; i++)
        refs[i] = (struct job_ref){pg_col_seq(r, i, 0), (uint64_t)pg_col_i8(r, i, 1)};
    v->parents = n ? refs : NULL;
    v->parent_count = refs ? (uint32_t)n : 0;
}

static const struct job_wait *view_wait(struct unit *u, const PGresult *job, const PGresult *r)
{
    struct queue_policy policy;
    if (PQntuples(r) != 1 || policy_decode(pg_col_bytes(job, 0, JOB_QUEUE_POLICY), &policy) != 0)
        policy_default(&policy);
    struct wait_counts counts = {.paused_until = {pg_col_time(job, 0, JOB_QUEUE_PAUSED)}};
    if (PQntuples(r) == 1) {
        counts.running = pg_col_count(r, 0, 0);
        counts.ready = pg_col_count(r, 0, 1);
        counts.queue = (struct claim_use){pg_col_count(r, 0, 2), pg_col_i8(r, 0, 3)};
        counts.group = (struct claim_use){pg_col_count(r, 0, 4), pg_col_i8(r, 0, 5)};
        counts.before = pg_col_count(r, 0, 6);
        counts.more_before = pg_col_bool(r, 0, 7);
    }
    if (counts.before > BEFORE_COUNTED) {
        counts.before = BEFORE_COUNTED;
        counts.more_before = true;
    }
    return unit_wait_view(u, &policy, &counts);
}

static size_t answer_get(struct unit *u, struct turn *t, size_t at)
{
    const struct op_job *want = &t->op->job;
    const PGresult *r = pg_conn_result(pg_pipeline_of(u), at);
    struct job_view *v = arena_array(&u->arena, 1, sizeof *v);
    bool found = PQntuples(r) == 1 &&
                 (!want->job.hi || (uint64_t)pg_col_i8(r, 0, JOB_ID_HI) == want->job.hi);
    size_t steps = 2u + want->want_parents;
    size_t results = steps + want->want_steps + want->want_wait;
    if (!found || !v) {
        unit_refuse(t, found ? OUT_UNAVAILABLE : OUT_NOT_FOUND, NULL);
        return results;
    }
    pg_view_row(r, 0, u->now, want->want_body || want->want_texts, v);
    view_dependent(r, v);
    turn_show_job(t, v);
    if (want->want_attempts)
        view_attempts(u, r, pg_conn_result(pg_pipeline_of(u), at + 1), v);
    if (want->want_parents && v->is_dependent)
        view_parents(u, pg_conn_result(pg_pipeline_of(u), at + 2), v);
    if (want->want_steps)
        view_steps(u, r, pg_conn_result(pg_pipeline_of(u), at + steps), v);
    if (want->want_wait && unit_view_waits(v))
        v->wait = view_wait(u, r, pg_conn_result(pg_pipeline_of(u), at + results - 1));
    return results;
}

/* --- peek --- */

static void send_peek(struct unit *u, const struct op_peek *want)
{
    bool back = want->newest_first && want->state >= STATE_RUNNING && want->state != STATE_BLOCKED;
    pg_array_begin(&pg_unit(u)->args, ARRAY_TEXT);
    if (unit_text_safe(want->queue))
        pg_array_blob(&pg_unit(u)->args, want->queue);
    pg_array_end(&pg_unit(u)->args);
    pg_array_begin(&pg_unit(u)->args, ARRAY_I4);
    pg_array_end(&pg_unit(u)->args);
    pg_args_i4(&pg_unit(u)->args, 0);
    pg_args_bytes(&pg_unit(u)->args, SPAN_LITERAL(""));
    pg_args_i8(&pg_unit(u)->args, shared_now(u->s) * 1000);
    pg_conn_send(pg_pipeline_of(u), SQL_QUEUE_VIEWS, &pg_unit(u)->args);
    pg_args_text(&pg_unit(u)->args, want->queue);
    pg_args_i4(&pg_unit(u)->args, (int32_t)peek_limit(want));
    pg_args_bool(&pg_unit(u)->args, want->want_body);
    if ((want->state >= STATE_DONE && want->state != STATE_BLOCKED) || back)
        pg_args_i4(&pg_unit(u)->args, want->state);
    if (back)
        pg_args_i8(&pg_unit(u)->args, (int64_t)want->skip);
    pg_conn_send(pg_pipeline_of(u),
                 back                             ? SQL_PEEK_NEWEST
                 : want->state == STATE_READY     ? SQL_PEEK_READY
                 : want->state == STATE_SCHEDULED ? SQL_PEEK_SCHEDULED
                 : want->state == STATE_BLOCKED   ? SQL_PEEK_BLOCKED
                 : want->state == STATE_RUNNING   ? SQL_PEEK_RUNNING
                 : want->state >= STATE_DONE      ? SQL_PEEK_KEPT
                                                  : SQL_PEEK_READY,
                 &pg_unit(u)->args);
}

static size_t answer_peek(struct unit *u, struct turn *t, size_t at)
{
    const struct op_peek *want = &t->op->peek;
    const PGresult *r = pg_conn_result(pg_pipeline_of(u), at + 1);
    uint64_t bytes = 0;
    if (!turn_peek_allowed(t, PQntuples(pg_conn_result(pg_pipeline_of(u), at)) > 0))
        return 2;
    int n = PQntuples(r);
    struct job_view *views = arena_array(&u->arena, (size_t)n + 1, sizeof *views);
    for (int i = 0; views && i < n && (!want->want_body || bytes < LIMIT_ANSWER_BYTES); i++) {
        pg_view_row(r, i, u->now, want->want_body, &views[i]);
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
    pg_args_i8(&pg_unit(u)->args, shared_now(u->s) * 1000);
    pg_conn_send(pg_pipeline_of(u), SQL_QUEUE_VIEWS, &pg_unit(u)->args);
    if (!list && want->group.len) {
        pg_args_text(&pg_unit(u)->args, want->name);
        pg_args_i4(&pg_unit(u)->args, (int32_t)want->number);
        pg_args_text(&pg_unit(u)->args, want->group);
        pg_conn_send(pg_pipeline_of(u), SQL_GROUP_COUNTS, &pg_unit(u)->args);
    }
}

/* Behind the columns of QUEUE: since of the oldest ready, next due, the sums, limits at the claim.
 */
#define VIEW_OLDEST 11
#define VIEW_DUE 12
#define VIEW_SUMS 13
#define VIEW_LIMITS (VIEW_SUMS + SUM_COUNT)

static bool view_of_queue(struct unit *u, const PGresult *r, int at, struct queue_view *v)
{
    struct wqueue *q = unit_alloc(u, sizeof *q);
    if (!q || pg_queue_read(r, at, q) != 0)
        return false;
    for (int sum = 0; sum < SUM_COUNT; sum++)
        q->sums[sum] = pg_col_sum(r, at, VIEW_SUMS + sum);
    wqueue_view(q, u->now, pg_col_time(r, at, VIEW_OLDEST), pg_col_time(r, at, VIEW_DUE), v);
    q->use =
        (struct claim_use){pg_col_count(r, at, VIEW_LIMITS), pg_col_i8(r, at, VIEW_LIMITS + 1)};
    if (claim_limited(&q->policy))
        unit_limited_view(q, u->now, pg_col_count(r, at, VIEW_LIMITS + 2),
                          pg_col_count(r, at, VIEW_LIMITS + 3), &v->counts);
    return true;
}

static void group_counts(const PGresult *r, struct queue_counts *c)
{
    memset(c->by_state, 0, sizeof c->by_state);
    for (int i = 0; i < PQntuples(r); i++) {
        int state = pg_col_i2(r, i, 0);
        if (state > STATE_NONE && state < STATE_COUNT)
            c->by_state[state] = pg_col_count(r, i, 1);
    }
}

static size_t answer_views(struct unit *u, struct turn *t, size_t at)
{
    const PGresult *r = pg_conn_result(pg_pipeline_of(u), at);
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
        group_counts(pg_conn_result(pg_pipeline_of(u), at + 1), &views[0].counts);
    return group ? 2 : 1;
}

/* --- all of them --- */

void pg_read_view_send(struct pg_store *s)
{
    struct unit *u = s->unit;
    pg_conn_send(s->pipeline, SQL_NOW, &pg_unit(u)->args);
    for (size_t i = 0; i < u->count; i++) {
        const struct op *op = u->turns[i].op;
        if (op->kind == OP_GET)
            send_get(u, &op->job);
        else if (op->kind == OP_PEEK)
            send_peek(u, &op->peek);
        else if (op->kind == OP_KV_GET)
            pg_keys_send_get(u, &op->kv_get);
        else if (op->kind == OP_SCHEDULE_GET || op->kind == OP_SCHEDULE_LIST)
            pg_schedules_send_view(u, op);
        else if (op->kind == OP_ALERT_LIST)
            pg_alerts_send_view(u, op);
        else if (op->kind == OP_NOTICE_LIST || op->kind == OP_BREAKER_LIST)
            pg_notices_send_view(u, op);
        else
            send_views(u, op);
    }
}

void pg_read_view_answer(struct pg_store *s)
{
    struct unit *u = s->unit;
    size_t at = 1;
    int64_t given = shared_manual_now(&s->sh);
    u->now.ms = given ? given : pg_col_time(pg_conn_result(s->pipeline, 0), 0, 0);
    for (size_t i = 0; i < u->count; i++) {
        struct turn *t = &u->turns[i];
        if (t->op->kind == OP_GET)
            at += answer_get(u, t, at);
        else if (t->op->kind == OP_PEEK)
            at += answer_peek(u, t, at);
        else if (t->op->kind == OP_KV_GET)
            pg_keys_answer_get(u, t, pg_conn_result(s->pipeline, at++));
        else if (t->op->kind == OP_SCHEDULE_GET || t->op->kind == OP_SCHEDULE_LIST)
            pg_schedules_answer(u, t, pg_conn_result(s->pipeline, at++));
        else if (t->op->kind == OP_NOTICE_LIST || t->op->kind == OP_BREAKER_LIST)
            pg_notices_answer(u, t, pg_conn_result(s->pipeline, at++));
        else if (t->op->kind == OP_ALERT_LIST) {
            pg_alerts_answer(u, t, at);
            at += 2;
        } else
            at += answer_views(u, t, at);
    }
}
