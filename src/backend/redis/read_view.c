/* SPDX-License-Identifier: Apache-2.0 */
/* Quick queries (lua/read_view.lua): get, peek, queues and their counts. */
#include "backend/redis/impl.h"

/* --- views --- */

/* five: sequence, row, payload, result, error; the last three may be missing. False: the job does
 * not exist. */
bool rd_view_row(struct unit *u, const redisReply *const five[5], const struct wqueue *q, bool body,
                 struct job_view *ret)
{
    struct row row = {.gone = false};
    uint64_t seq = redis_seq_decode(reply_span(five[0]));
    if (redis_row_decode(seq, reply_span(five[1]), &row) != 0)
        return false;
    bool waits = (STATE_BIT(row.job.state) & STATES_WAITING) != 0;
    if (waits && row.job.generation != q->generation)
        return false;
    row.payload = reply_span(five[2]);
    row.result = reply_span(five[3]);
    row.error = reply_span(five[4]);
    row_view(&row, q, u->now, body, ret);
    return true;
}

/* --- get --- */

static void send_get(struct rargs *a, const struct op_job *want)
{
    redis_args_text(a, "G");
    redis_args_seq(a, want->job.seq);
    redis_args_text(a, want->want_body ? "1" : "");
    redis_args_text(a, want->want_attempts ? "1" : "");
    redis_args_text(a, want->want_log ? "1" : "");
    redis_args_text(a, want->want_parents ? "1" : "");
    redis_args_text(a, want->want_wait ? "1" : "");
    redis_args_text(a, want->want_steps ? "1" : "");
}

/* list: oldest first */
static bool attempt_read(const void *list, size_t i, struct attempt_view *ret)
{
    const redisReply *r = list;
    return redis_attempt_decode(reply_span(reply_at(r, reply_count(r) - 1 - i)), ret) == 0;
}

static void view_attempts(struct unit *u, const redisReply *job, const redisReply *r,
                          struct job_view *v)
{
    const redisReply *list = reply_at(r, 2);
    struct row row = {.gone = false};
    if (redis_row_decode(v->job.seq, reply_span(job), &row) != 0)
        return;
    unit_view_attempts(u, &row, attempt_read, list, reply_count(list), v);
    v->progress = progress_shown(reply_span(reply_at(r, 3)), row.token);
    v->log = reply_span(reply_at(r, 4));
}

static void view_steps(struct unit *u, const redisReply *job, const redisReply *list,
                       struct job_view *v)
{
    struct row row = {.gone = false};
    if (redis_row_decode(v->job.seq, reply_span(job), &row) != 0)
        return;
    v->step_bytes = (uint32_t)steps_bytes(row.step_index);
    v->steps = rd_steps(u, list);
}

static void view_parents(struct unit *u, const redisReply *list, struct job_view *v)
{
    size_t n = reply_count(list) / 2;
    struct job_ref *refs = arena_array(&u->arena, n + 1, sizeof *refs);
    for (size_t i = 0; refs && i < n; i++) {
        struct row row = {.gone = false};
        uint64_t seq = redis_seq_decode(reply_span(reply_at(list, 2 * i)));
        if (redis_row_decode(seq, reply_span(reply_at(list, 2 * i + 1)), &row) == 0)
            refs[v->parent_count++] = (struct job_ref){seq, row.job.id_hi};
    }
    v->parents = v->parent_count ? refs : NULL;
}

static void view_dependent(struct unit *u, const redisReply *r, bool parents, struct job_view *v)
{
    v->is_dependent = redis_dependent_decode(reply_span(reply_at(r, 5)), &v->dependent);
    if (v->is_dependent && v->job.state == STATE_BLOCKED)
        v->waits = dependent_waits(&v->dependent);
    if (v->is_dependent && parents)
        view_parents(u, reply_at(r, 6), v);
}

/* What is missing in the counts of a queue with limits is asked for when all answers are there. */
static void ask_limits(struct item *it, const redisReply *packed, const struct wqueue *q,
                       struct job_view *v, const struct wait_counts *counts)
{
    struct wait_asked *w = unit_alloc(&it->unit, sizeof *w);
    struct wqueue *queue = unit_alloc(&it->unit, sizeof *queue);
    if (!w || !queue || redis_row_decode(v->job.seq, reply_span(packed), &w->row) != 0)
        return;
    *queue = *q;
    w->row.q = queue;
    w->view = v;
    w->counts = *counts;
    *it->waits_last = w;
    it->waits_last = &w->next;
}

/* r: running, ready, before */
static void view_wait(struct item *it, const redisReply *packed, const struct wqueue *q,
                      const redisReply *r, struct job_view *v)
{
    struct wait_counts counts = {
        .paused_until = q->paused_until,
        .running = rd_reply_count(reply_at(r, 0)),
        .ready = rd_reply_count(reply_at(r, 1)),
        .before = rd_reply_count(reply_at(r, 2)),
    };
    v->wait = unit_wait_view(&it->unit, &q->policy, &counts);
    if (claim_limited(&q->policy))
        ask_limits(it, packed, q, v, &counts);
}

static void answer_get(struct item *it, struct turn *t, const redisReply *r)
{
    struct unit *u = &it->unit;
    const struct op_job *want = &t->op->job;
    const redisReply *job = reply_at(r, 0);
    const redisReply *five[5] = {reply_at(job, 0), reply_at(job, 1), reply_at(job, 2),
                                 reply_at(job, 3), reply_at(job, 4)};
    struct wqueue q = {.number = 0};
    struct job_view *v = unit_alloc(u, sizeof *v);
    bool found = v && reply_count(job) == 5 &&
                 redis_queue_decode(reply_span(reply_at(r, 1)), &q) == 0 &&
                 rd_view_row(u, five, &q, want->want_body || want->want_texts, v) &&
                 (!want->job.hi || v->job.id_hi == want->job.hi);
    if (!found) {
        unit_refuse(t, v ? OUT_NOT_FOUND : OUT_UNAVAILABLE, NULL);
        return;
    }
    view_dependent(u, r, want->want_parents, v);
    turn_show_job(t, v);
    if (want->want_attempts)
        view_attempts(u, five[1], r, v);
    if (want->want_steps)
        view_steps(u, five[1], reply_at(r, 8), v);
    if (want->want_wait && unit_view_waits(v))
        view_wait(it, five[1], &q, reply_at(r, 7), v);
}

/* --- peek --- */

static void send_peek(struct rargs *a, const struct op_peek *want)
{
    bool back = want->newest_first && want->state >= STATE_RUNNING;
    redis_args_text(a, "P");
    redis_args_bytes(a, want->queue);
    redis_args_int(a, peek_state_known(want) ? want->state : STATE_READY);
    redis_args_int(a, peek_limit(want));
    redis_args_text(a, back ? "1" : "");
    redis_args_int(a, back && want->skip < LIMIT_SEQ ? (int64_t)want->skip : 0);
    redis_args_text(a, want->want_body ? "1" : "");
}

static void answer_peek(struct unit *u, struct turn *t, const redisReply *r)
{
    const struct op_peek *want = &t->op->peek;
    const redisReply *list = reply_at(r, 1);
    size_t n = reply_count(list) / 5;
    struct wqueue *q = unit_alloc(u, sizeof *q);
    uint64_t bytes = 0;
    if (!q) {
        unit_refuse(t, OUT_UNAVAILABLE, NULL);
        return;
    }
    if (!turn_peek_allowed(t, redis_queue_decode(reply_span(reply_at(r, 0)), q) == 0))
        return;
    struct job_view *views = arena_array(&u->arena, n + 1, sizeof *views);
    for (size_t i = 0; views && i < n && (!want->want_body || bytes < LIMIT_ANSWER_BYTES); i++) {
        const redisReply *five[5];
        for (size_t k = 0; k < 5; k++)
            five[k] = reply_at(list, 5 * i + k);
        if (!rd_view_row(u, five, q, want->want_body, &views[t->reply.job_count]))
            continue;
        bytes += views[t->reply.job_count++].job.payload_bytes;
    }
    t->reply.jobs = views;
}

/* --- queues --- */

static void send_views(struct rargs *a, const struct op *op)
{
    const struct op_queue *want = &op->queue;
    if (op->kind == OP_QUEUE_LIST) {
        redis_args_text(a, "L");
        redis_args_bytes(a, want->after);
        redis_args_int(a, want->limit && want->limit < LIMIT_BATCH ? want->limit : LIMIT_BATCH);
        return;
    }
    redis_args_text(a, "Q");
    redis_args_bytes(a, want->name);
    redis_args_int(a, want->number);
    redis_args_bytes(a, want->group);
}

/* list: number, definition, sums, oldest, next due, limits … */
static bool view_of_queue(struct unit *u, const redisReply *list, size_t at, struct queue_view *v)
{
    struct wqueue *q = unit_alloc(u, sizeof *q);
    if (!q || redis_queue_decode(reply_span(reply_at(list, at + 1)), q) != 0)
        return false;
    for (int sum = 0; sum < SUM_COUNT; sum++)
        q->sums[sum] = rd_reply_int(reply_at(reply_at(list, at + 2), (size_t)sum));
    wqueue_view(q, u->now, rd_reply_time(reply_at(list, at + 3)),
                rd_reply_time(reply_at(list, at + 4)), v);
    rd_limits_view(q, reply_at(list, at + 5), u->now, &v->counts);
    return true;
}

static void answer_views(struct unit *u, struct turn *t, const redisReply *r)
{
    const redisReply *list = reply_at(r, 0), *group = reply_at(r, 1);
    bool by_group = t->op->kind == OP_QUEUE_GET && t->op->queue.group.len;
    size_t n = reply_count(list) / 6;
    struct queue_view *views = arena_array(&u->arena, n + 1, sizeof *views);
    for (size_t i = 0; i < n; i++)
        if (!views || !view_of_queue(u, list, 6 * i, &views[i])) {
            unit_refuse(t, OUT_UNAVAILABLE, "out of memory, or a queue is damaged");
            return;
        }
    t->reply.queues = views;
    t->reply.queue_count = (uint32_t)n;
    if (t->op->kind == OP_QUEUE_GET && n == 0)
        unit_refuse(t, OUT_NO_QUEUE, NULL);
    for (size_t s = STATE_SCHEDULED; by_group && n && s < STATE_COUNT; s++) {
        int64_t v = rd_reply_int(reply_at(group, s - 1));
        views[0].counts.by_state[s] = v > 0 ? (uint64_t)v : 0;
    }
}

/* --- all of them --- */

static void limits_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    size_t i = 0;
    if (!rd_item_answered(it, r, false))
        return;
    for (struct wait_asked *w = it->waits; w; w = w->next)
        if (rd_limits_wait_loaded(r, i, w->row.q, &w->counts)) {
            w->view->wait = unit_wait_view(&it->unit, &w->row.q->policy, &w->counts);
            i++;
        }
    rd_turns_answer(it);
    rd_item_over(it);
}

static void send_limits(struct item *it)
{
    int64_t n = 0;
    for (const struct wait_asked *w = it->waits; w; w = w->next)
        n++;
    rd_item_call(it, SCRIPT_GROUPS);
    redis_args_int(&it->args, n);
    for (const struct wait_asked *w = it->waits; w; w = w->next)
        rd_limits_send_wait(&it->args, &w->row);
    rd_item_send(it, STAGE_LAST, limits_cb);
}

static bool may_ask_limits(const struct item *it)
{
    bool any = false;
    for (size_t i = 0; i < it->unit.count && !any; i++)
        any = it->unit.turns[i].op->kind == OP_GET && it->unit.turns[i].op->job.want_wait;
    return any;
}

static void viewed_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    struct unit *u = &it->unit;
    if (!rd_item_answered(it, r, false))
        return;
    u->now.ms = rd_reply_time(reply_at(r, 0));
    for (size_t i = 0; i < u->count; i++) {
        struct turn *t = &u->turns[i];
        const redisReply *answer = reply_at(reply_at(r, 1), i);
        if (t->op->kind == OP_GET)
            answer_get(it, t, answer);
        else if (t->op->kind == OP_PEEK)
            answer_peek(u, t, answer);
        else if (t->op->kind == OP_SCHEDULE_GET || t->op->kind == OP_SCHEDULE_LIST)
            rd_schedules_answer(u, t, answer);
        else if (t->op->kind == OP_KV_GET)
            rd_kv_answer_get(u, t, answer);
        else if (t->op->kind == OP_ALERT_LIST)
            rd_alerts_answer(u, t, answer);
        else if (t->op->kind == OP_NOTICE_LIST || t->op->kind == OP_BREAKER_LIST)
            rd_notices_answer(u, t, answer);
        else
            answer_views(u, t, answer);
    }
    if (it->waits) {
        send_limits(it);
        return;
    }
    rd_turns_answer(it);
    rd_item_over(it);
}

void rd_read_view_begin(struct item *it)
{
    rd_item_call(it, SCRIPT_READ_VIEW);
    rd_args_now(rd_of_unit(&it->unit), &it->args);
    redis_args_int(&it->args, LIMIT_ANSWER_BYTES);
    for (size_t i = 0; i < it->unit.count; i++) {
        const struct op *op = it->unit.turns[i].op;
        if (op->kind == OP_GET)
            send_get(&it->args, &op->job);
        else if (op->kind == OP_PEEK)
            send_peek(&it->args, &op->peek);
        else if (op->kind == OP_SCHEDULE_GET || op->kind == OP_SCHEDULE_LIST)
            rd_schedules_send_view(&it->args, op);
        else if (op->kind == OP_KV_GET)
            rd_kv_send_get(&it->args, &op->kv_get);
        else if (op->kind == OP_ALERT_LIST)
            rd_alerts_send_view(&it->args, op);
        else if (op->kind == OP_NOTICE_LIST || op->kind == OP_BREAKER_LIST)
            rd_notices_send_view(&it->args, op);
        else
            send_views(&it->args, op);
    }
    rd_item_send(it, may_ask_limits(it) ? STAGE_ASKING : STAGE_LAST, viewed_cb);
}
