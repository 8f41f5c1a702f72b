/* SPDX-License-Identifier: Apache-2.0 */
/* Queries that may take several steps: lists, pages, workers, exceptions, history.
 *
 * A list examines the jobs in the order of their sequence, a bounded number in each step, until its
 * page is full or it has examined enough of them: then the page is short, and has a cursor. Bodies
 * are fetched last, for the jobs that are shown. */
#include "backend/redis/impl.h"

#define STEP_JOBS 1000
#define LIST_STEPS_MAX 50

static const struct op *op_of(const struct item *it)
{
    return it->unit.turns[0].op;
}

static struct reply *reply_of(struct item *it)
{
    return &it->unit.turns[0].reply;
}

static void answer(struct item *it, enum outcome out, const char *note)
{
    reply_of(it)->outcome = out;
    reply_of(it)->note = note;
    rd_turns_answer(it);
    rd_item_over(it);
}

static void call_look(struct item *it)
{
    rd_item_call(it, SCRIPT_READ_VIEW);
    rd_args_now(rd_of_unit(&it->unit), &it->args);
    redis_args_int(&it->args, LIMIT_ANSWER_BYTES);
}

/* The only answer of a query. */
static const redisReply *only(struct item *it, const redisReply *r)
{
    it->unit.now.ms = rd_reply_time(reply_at(r, 0));
    return reply_at(reply_at(r, 1), 0);
}

/* --- bodies of the jobs that are shown --- */

static void bodies_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    uint32_t shown = 0;
    uint64_t bytes = 0;
    if (!rd_item_answered(it, r, false))
        return;
    const redisReply *list = only(it, r);
    /* A job may have been removed by now, or a body may be missing beyond the size limit. */
    for (size_t i = 0; i + 4 < reply_count(list) && bytes < LIMIT_ANSWER_BYTES; i += 5) {
        uint64_t seq = redis_seq_decode(reply_span(reply_at(list, i)));
        while (shown < it->view_count && it->views[shown].job.seq != seq)
            shown++;
        if (shown == it->view_count)
            break;
        struct job_view *v = &it->views[shown];
        v->payload = reply_span(reply_at(list, i + 2));
        v->result = reply_span(reply_at(list, i + 3));
        v->error = reply_span(reply_at(list, i + 4));
        bytes += v->payload.len + v->result.len;
        shown++;
    }
    if (shown < it->view_count && op_of(it)->kind == OP_LIST && shown > 0)
        reply_of(it)->cursor = it->views[shown - 1].job.seq;
    reply_of(it)->job_count = shown ? shown : it->view_count;
    answer(it, OUT_OK, NULL);
}

static bool wants_body(const struct op *op)
{
    return op->kind == OP_LIST ? op->list.want_body : op->page.want_body;
}

static void show(struct item *it)
{
    struct reply *reply = reply_of(it);
    reply->jobs = it->views;
    reply->job_count = it->view_count;
    reply->as_of = it->unit.s->figures.position;
    if (!wants_body(op_of(it)) || it->view_count == 0) {
        answer(it, OUT_OK, NULL);
        return;
    }
    call_look(it);
    redis_args_text(&it->args, "B");
    redis_args_int(&it->args, it->view_count);
    for (uint32_t i = 0; i < it->view_count; i++)
        redis_args_seq(&it->args, it->views[i].job.seq);
    rd_item_send(it, STAGE_LAST, bodies_cb);
}

/* --- steps --- */

static uint32_t limit_of(const struct op *op)
{
    return shared_limit(op->kind == OP_LIST ? op->list.limit : op->page.limit);
}

static uint64_t bounded(uint64_t v)
{
    return v > LIMIT_SEQ ? LIMIT_SEQ : v;
}

/* The range of sequences that is still to be examined. */
static void range_of(const struct item *it, uint64_t *low, uint64_t *high)
{
    const struct op *op = op_of(it);
    bool list = op->kind == OP_LIST, back = list && op->list.newest_first;
    uint64_t after = it->search_at ? it->search_at : list ? op->list.after : 0;
    *low = list ? bounded(op->list.filter.seq_min) : 0;
    *high = list && op->list.filter.seq_max ? bounded(op->list.filter.seq_max) : LIMIT_SEQ;
    if (after && back && after - 1 < *high)
        *high = after - 1;
    if (after && !back && after >= *low)
        *low = bounded(after) + 1;
}

static unsigned states_of(const struct op *op)
{
    unsigned states = op->kind == OP_LIST ? op->list.filter.states : op->page.states;
    return states ? states & STATES_ALL : STATES_ALL;
}

static bool matches(const struct op *op, const struct job_view *v)
{
    if (op->kind == OP_LIST) {
        struct job_filter f = op->list.filter;
        f.queue = 0; /* the script has checked it */
        return filter_match(&f, &v->job, &v->extra);
    }
    if (op->page.pending != PAGE_ALL && v->job.state == STATE_READY &&
        ((v->job.flags & JOB_PENDING) != 0) != (op->page.pending == PAGE_PENDING))
        return false;
    return !op->page.unique.len || span_equal(op->page.unique, v->extra.unique);
}

static const struct wqueue *queue_of(const struct unit *u, const redisReply *row)
{
    struct row space = {.gone = false};
    if (redis_row_decode(1, reply_span(row), &space) != 0)
        return NULL;
    return unit_queue(u, space.job.queue);
}

/* Takes a match: to be shown, skipped, or only counted. False: the page is full. */
static bool take_match(struct item *it, struct job_view *v)
{
    const struct op *op = op_of(it);
    bool list = op->kind == OP_LIST;
    if (list && it->view_count == limit_of(op)) {
        reply_of(it)->cursor = it->views[it->view_count - 1].job.seq;
        return false;
    }
    it->search_count++;
    if (!list && it->search_count <= op->page.offset)
        return true;
    if (it->view_count == limit_of(op))
        return true;
    v->has_body = wants_body(op);
    it->views[it->view_count++] = *v;
    return true;
}

/* False: no more jobs are wanted. */
static bool take_step(struct item *it, const redisReply *rows)
{
    struct unit *u = &it->unit;
    for (size_t i = 0; i + 1 < reply_count(rows); i += 2) {
        const redisReply *five[5] = {reply_at(rows, i), reply_at(rows, i + 1), NULL, NULL, NULL};
        const struct wqueue *q = queue_of(u, five[1]);
        struct job_view v;
        if (!q || !rd_view_row(u, five, q, true, &v) || !matches(op_of(it), &v))
            continue;
        if (!take_match(it, &v))
            return false;
    }
    return true;
}

static void send_step(struct item *it);

static void step_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    bool list = op_of(it)->kind == OP_LIST;
    if (!rd_item_answered(it, r, false))
        return;
    it->unit.now.ms = rd_reply_time(reply_at(r, 0));
    it->search_at = rd_reply_count(reply_at(r, 1));
    if (rd_load_queues(&it->unit, reply_at(r, 3)) != 0) {
        answer(it, OUT_UNAVAILABLE, "out of memory, or a queue is damaged");
        return;
    }
    bool more = take_step(it, reply_at(r, 2)) && it->search_at != 0;
    if (!list)
        reply_of(it)->job_total = it->search_count;
    if (more && (!list || ++it->search_steps < LIST_STEPS_MAX)) {
        send_step(it);
        return;
    }
    if (more) /* it has examined enough */
        reply_of(it)->cursor = it->search_at;
    show(it);
}

static void send_step(struct item *it)
{
    const struct op *op = op_of(it);
    uint64_t low, high;
    range_of(it, &low, &high);
    rd_item_call(it, SCRIPT_SCAN);
    rd_args_now(rd_of_unit(&it->unit), &it->args);
    redis_args_int(&it->args, it->search_queue);
    redis_args_int(&it->args, (int64_t)low);
    redis_args_int(&it->args, (int64_t)high);
    redis_args_text(&it->args, op->kind == OP_LIST && op->list.newest_first ? "1" : "");
    redis_args_int(&it->args, states_of(op));
    redis_args_int(&it->args, STEP_JOBS);
    rd_item_send(it, STAGE_ASKING, step_cb);
}

static void begin_steps(struct item *it)
{
    it->search_at = it->search_count = 0;
    it->search_steps = 0;
    it->views = arena_array(&it->unit.arena, limit_of(op_of(it)), sizeof *it->views);
    it->view_count = 0;
    if (it->views)
        send_step(it);
    else
        answer(it, OUT_UNAVAILABLE, "out of memory");
}

/* --- the others --- */

/* Each worker once, in the order of the oldest lease. */
struct found_worker {
    struct span name;
    uint64_t running;
    struct wall_time since;
    struct job_token token;
    struct job_ref held[WORKER_HELD_SHOWN];
    uint32_t held_count;
};

static int longest_first(const void *x, const void *y)
{
    const struct found_worker *a = x, *b = y;
    if (a->since.ms != b->since.ms)
        return a->since.ms < b->since.ms ? -1 : 1;
    return a->token.counter < b->token.counter ? -1 : a->token.counter > b->token.counter;
}

static void count_worker(struct item *it, struct found_worker *all, size_t *count,
                         const struct row *r)
{
    struct hash128 key = hash128_of(it->unit.s->facts.hash_key, r->worker);
    uint64_t at = map128_get(&it->unit.name_map, key);
    if (!at) {
        all[(*count)++] =
            (struct found_worker){.name = r->worker, .since = r->job.since, .token = r->token};
        at = *count;
        it->unit.nomem |= map128_put(&it->unit.name_map, key, at) != 0;
    }
    struct found_worker *w = &all[at - 1];
    w->running++;
    if (w->held_count < WORKER_HELD_SHOWN)
        w->held[w->held_count++] = (struct job_ref){.seq = r->job.seq, .hi = r->job.id_hi};
    if (r->job.since.ms < w->since.ms ||
        (r->job.since.ms == w->since.ms && r->token.counter < w->token.counter)) {
        w->since = r->job.since;
        w->token = r->token;
    }
}

static bool answer_workers(struct item *it, const redisReply *list)
{
    size_t most = reply_count(list) / 2, count = 0;
    struct found_worker *all = arena_array(&it->unit.arena, most + 1, sizeof *all);
    struct worker_view *views = arena_array(&it->unit.arena, most + 1, sizeof *views);
    for (size_t i = 0; all && views && i < most; i++) {
        struct row row = {.gone = false};
        uint64_t seq = redis_seq_decode(reply_span(reply_at(list, 2 * i)));
        if (redis_row_decode(seq, reply_span(reply_at(list, 2 * i + 1)), &row) == 0 &&
            row.worker.len)
            count_worker(it, all, &count, &row);
    }
    if (!all || !views || it->unit.nomem)
        return false;
    qsort(all, count, sizeof *all, longest_first);
    for (size_t i = 0; i < count; i++) {
        views[i] = (struct worker_view){
            .name = all[i].name, .running = all[i].running, .held_count = all[i].held_count};
        memcpy(views[i].held, all[i].held, sizeof views[i].held);
    }
    reply_of(it)->workers = views;
    reply_of(it)->worker_count = (uint32_t)(count < WORKERS_MAX ? count : WORKERS_MAX);
    reply_of(it)->worker_total = count;
    return true;
}

static void send_registry(struct item *it, const struct op_registry *want)
{
    redis_args_text(&it->args, "Y");
    redis_args_int(&it->args, rd_of_unit(&it->unit)->sh.facts.epoch);
    redis_args_int(&it->args, want->count);
    for (uint32_t i = 0; i < want->count; i++) {
        redis_args_bytes(&it->args, want->entries[i].name);
        redis_args_int(&it->args, want->entries[i].keep_until.ms);
        redis_args_bytes(&it->args, want->entries[i].facts);
    }
    redis_args_bytes(&it->args, want->prefix);
    redis_args_bytes(&it->args, want->only);
}

static bool answer_registry(struct item *it, const redisReply *list)
{
    size_t n = reply_count(list) / 3;
    struct worker_entry *entries = arena_array(&it->unit.arena, n + 1, sizeof *entries);
    for (size_t i = 0; entries && i < n; i++)
        entries[i] = (struct worker_entry){.name = reply_span(reply_at(list, 3 * i)),
                                           .keep_until = {rd_reply_int(reply_at(list, 3 * i + 1))},
                                           .facts = reply_span(reply_at(list, 3 * i + 2))};
    reply_of(it)->entries = entries;
    reply_of(it)->entry_count = entries ? (uint32_t)n : 0;
    return entries != NULL;
}

static bool answer_exceptions(struct item *it, const redisReply *list)
{
    size_t n = reply_count(list) / 4, count = 0;
    struct attempt_view *views = arena_array(&it->unit.arena, n + 1, sizeof *views);
    for (size_t i = 0; views && i < n; i++) {
        struct row row = {.gone = false};
        struct wqueue q = {.number = 0};
        struct attempt_view *v = &views[count];
        uint64_t seq = redis_seq_decode(reply_span(reply_at(list, 4 * i)));
        if (redis_row_decode(seq, reply_span(reply_at(list, 4 * i + 1)), &row) != 0 ||
            redis_queue_decode(reply_span(reply_at(list, 4 * i + 2)), &q) != 0 ||
            redis_attempt_decode(reply_span(reply_at(list, 4 * i + 3)), v) != 0)
            continue;
        v->seq = seq;
        v->id_hi = row.job.id_hi;
        v->queue = q.name;
        count++;
    }
    reply_of(it)->attempts = views;
    reply_of(it)->attempt_count = (uint32_t)count;
    return views != NULL;
}

static bool answer_history(struct item *it, const redisReply *list)
{
    size_t n = reply_count(list) / 2;
    struct hour_view *views = arena_array(&it->unit.arena, n + 1, sizeof *views);
    for (size_t i = 0; views && i < n; i++) {
        const redisReply *of = reply_at(list, 2 * i + 1);
        views[i].hour = (uint32_t)rd_reply_int(reply_at(list, 2 * i));
        for (size_t k = 0; k + 1 < reply_count(of); k += 2) {
            int64_t field = rd_reply_int(reply_at(of, k));
            if (field >= 0 && field < COUNTER_COUNT)
                views[i].counters.of[field] = rd_reply_count(reply_at(of, k + 1));
        }
    }
    reply_of(it)->hours = views;
    reply_of(it)->hour_count = views ? (uint32_t)n : 0;
    return views != NULL;
}

static void found_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    enum op_kind kind = op_of(it)->kind;
    if (!rd_item_answered(it, r, false))
        return;
    const redisReply *found = only(it, r);
    if (kind != OP_WORKERS && kind != OP_KV_LIST && kind != OP_REGISTRY && reply_count(found) < 2) {
        answer(it, OUT_NO_QUEUE, NULL);
        return;
    }
    bool done = kind == OP_WORKERS    ? answer_workers(it, found)
                : kind == OP_REGISTRY ? answer_registry(it, found)
                : kind == OP_KV_LIST
                    ? rd_kv_answer_list(it, &op_of(it)->kv_list, found, reply_of(it))
                : kind == OP_EXCEPTIONS ? answer_exceptions(it, reply_at(found, 1))
                                        : answer_history(it, reply_at(found, 1));
    answer(it, done ? OUT_OK : OUT_UNAVAILABLE, done ? NULL : "out of memory");
}

/* Hours outside the stored range do not exist, whatever the request says. */
static void send_history(struct item *it, const struct op_history *want)
{
    int64_t now = shared_now(&rd_of_unit(&it->unit)->sh) / 3600000;
    int64_t from = now - (int64_t)HISTORY_HOURS + 1, to = now + 2;
    redis_args_text(&it->args, "H");
    redis_args_bytes(&it->args, want->queue);
    redis_args_int(&it->args, want->from > from ? want->from : from);
    redis_args_int(&it->args, want->to < to ? want->to : to);
}

static void send_other(struct item *it)
{
    const struct op *op = op_of(it);
    uint32_t limit = op->exceptions.limit;
    call_look(it);
    if (op->kind == OP_HISTORY) {
        send_history(it, &op->history);
    } else if (op->kind == OP_EXCEPTIONS) {
        redis_args_text(&it->args, "X");
        redis_args_bytes(&it->args, op->exceptions.queue);
        redis_args_int(&it->args, limit && limit < LIMIT_EXCEPTIONS ? limit : LIMIT_EXCEPTIONS);
    } else if (op->kind == OP_REGISTRY) {
        send_registry(it, &op->registry);
    } else if (op->kind == OP_KV_LIST) {
        rd_kv_send_list(it, &op->kv_list);
    } else {
        redis_args_text(&it->args, "W");
    }
    rd_item_send(it, STAGE_LAST, found_cb);
}

/* --- by name first --- */

static void named_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    struct wqueue q = {.number = 0};
    if (!rd_item_answered(it, r, false))
        return;
    if (op_of(it)->kind == OP_PENDING) { /* not from inside the submit */
        answer(it, OUT_INVALID, "this store does not dispatch jobs");
        return;
    }
    if (redis_queue_decode(reply_span(reply_at(only(it, r), 1)), &q) != 0) {
        answer(it, OUT_NO_QUEUE, NULL);
        return;
    }
    if (op_of(it)->kind == OP_PAGE && !q.policy.ranked) {
        answer(it, OUT_INVALID,
               "queue is not ranked; set ranked in its policy, or list without an offset");
        return;
    }
    it->search_queue = q.number;
    begin_steps(it);
}

void rd_search_begin(struct item *it)
{
    const struct op *op = op_of(it);
    struct span name = op->kind == OP_LIST   ? op->list.queue
                       : op->kind == OP_PAGE ? op->page.queue
                                             : (struct span){NULL, 0};
    if (op->kind != OP_LIST && op->kind != OP_PAGE && op->kind != OP_PENDING) {
        send_other(it);
        return;
    }
    if (op->kind == OP_LIST && !name.len) {
        it->search_queue = op->list.filter.queue;
        begin_steps(it);
        return;
    }
    call_look(it);
    redis_args_text(&it->args, "D");
    redis_args_bytes(&it->args, name);
    rd_item_send(it, STAGE_ASKING, named_cb);
}
