/* SPDX-License-Identifier: Apache-2.0 */
/* Queries that may take long, on the reader's connection: lists, workers, exceptions, history. One
 * at a time; each is sent when everything before it has been committed, and ends at the statement
 * timeout of its session. */
#include "backend/postgres/impl.h"
#include "base/mem.h"

void pg_search_add(struct pg_store *s, const struct op *op, struct batch *b)
{
    struct search *x = mem_zalloc(sizeof *x);
    if (!x) {
        struct reply r = {.kind = op->kind, .tag = op->tag, .outcome = OUT_UNAVAILABLE};
        shared_batch_answer(b, &r);
        return;
    }
    x->op = op;
    x->batch = b;
    *s->search_last = x;
    s->search_last = &x->next;
}

static void answer_first(struct pg_store *s, struct reply *r)
{
    struct search *x = s->searches;
    s->searches = x->next;
    if (!s->searches)
        s->search_last = &s->searches;
    r->kind = x->op->kind;
    r->tag = x->op->tag;
    shared_batch_answer(x->batch, r);
    mem_free(x);
}

void pg_search_fail_all(struct pg_store *s)
{
    while (s->searches) {
        struct reply r = {.outcome = OUT_UNAVAILABLE, .note = "the database cannot be reached"};
        answer_first(s, &r);
    }
}

/* --- lists --- */

static int64_t bounded(uint64_t v)
{
    return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static uint32_t list_limit(const struct op_list *q)
{
    return q->limit == 0 || q->limit > LIMIT_BATCH ? LIMIT_BATCH : q->limit;
}

static void send_range(struct args *a, const struct op_list *q)
{
    uint64_t low = q->filter.seq_min, high = q->filter.seq_max ? q->filter.seq_max : INT64_MAX;
    if (q->newest_first && q->after != 0 && q->after - 1 < high)
        high = q->after - 1;
    if (!q->newest_first && q->after != 0 && q->after >= low)
        low = q->after + 1;
    pg_args_i8(a, bounded(low));
    pg_args_i8(a, bounded(high));
}

static void send_list(struct pg_store *s, const struct op_list *q, uint32_t queue)
{
    struct args *a = &s->search_unit.args;
    const struct job_filter *f = &q->filter;
    bool kept = queue && f->states && !(f->states & STATES_LIVE);
    send_range(a, q);
    pg_args_i4(a, (int32_t)queue);
    pg_args_i4(a, (int32_t)(f->states ? f->states : STATES_ALL));
    pg_args_i4(a, (int32_t)(f->reasons ? f->reasons : 0xffff));
    pg_args_i8(a, f->has_priority ? f->priority_min : INT64_MIN);
    pg_args_i8(a, f->has_priority ? f->priority_max : INT64_MAX);
    pg_args_i8(a, f->created_from.ms ? f->created_from.ms : INT64_MIN);
    pg_args_i8(a, f->created_to.ms ? f->created_to.ms - 1 : INT64_MAX);
    pg_args_bool(a, q->want_body);
    pg_args_i4(a, (int32_t)list_limit(q) + 1);
    for (size_t i = 0; i < JOB_TEXTS; i++)
        pg_args_text(a, job_text_of(f, i));
    pg_conn_send(s->reader,
                 kept ? (q->newest_first ? SQL_LIST_KEPT_NEWEST : SQL_LIST_KEPT)
                      : (q->newest_first ? SQL_LIST_NEWEST : SQL_LIST),
                 a);
}

static void answer_list(struct pg_store *s, const struct op_list *q, struct reply *reply)
{
    const PGresult *r = pg_conn_result(s->reader, 1);
    uint32_t limit = list_limit(q), n = (uint32_t)PQntuples(r);
    size_t bytes = 0;
    struct job_view *views = arena_array(&s->search_unit.unit.arena, (size_t)n + 1, sizeof *views);
    struct wall_time now = s->search_unit.unit.now;
    if (!views) {
        reply->outcome = OUT_UNAVAILABLE;
        return;
    }
    uint32_t shown = 0;
    while (shown < n && shown < limit && bytes < LIMIT_ANSWER_BYTES) {
        pg_view_row(r, (int)shown, now, q->want_body, &views[shown]);
        bytes += views[shown].payload.len + views[shown].result.len;
        shown++;
    }
    reply->jobs = views;
    reply->job_count = shown;
    reply->cursor = shown < n && shown > 0 ? views[shown - 1].job.seq : 0;
    reply->as_of = s->sh.figures.position;
}

/* --- the others --- */

/* The next number of an array in its text form, {1,2}; 0 = no more. */
static uint64_t next_number(const char **at)
{
    char *end;
    while (**at == '{' || **at == ',')
        ++*at;
    uint64_t v = (uint64_t)strtoll(*at, &end, 10);
    *at = end;
    return v;
}

static struct worker_view worker_read(const PGresult *r, int row)
{
    struct worker_view v = {.name = pg_col_bytes(r, row, 0), .running = pg_col_count(r, row, 1)};
    char seqs[WORKER_HELD_SHOWN * 24], his[WORKER_HELD_SHOWN * 24];
    struct span a = pg_col_bytes(r, row, 3), b = pg_col_bytes(r, row, 4);
    if (a.len >= sizeof seqs || b.len >= sizeof his)
        return v;
    snprintf(seqs, sizeof seqs, "%.*s", (int)a.len, a.at);
    snprintf(his, sizeof his, "%.*s", (int)b.len, b.at);
    const char *seq = seqs, *hi = his;
    while (v.held_count < WORKER_HELD_SHOWN) {
        struct job_ref job = {.seq = next_number(&seq), .hi = next_number(&hi)};
        if (!job.seq)
            break;
        v.held[v.held_count++] = job;
    }
    return v;
}

static void send_registry(struct pg_store *s, const struct op_registry *want)
{
    struct args *a = &s->search_unit.args;
    int64_t now = shared_now(&s->sh);
    if (want->count) {
        pg_args_i4(a, (int32_t)s->sh.facts.epoch);
        pg_array_begin(a, ARRAY_TEXT);
        for (uint32_t i = 0; i < want->count; i++)
            pg_array_blob(a, want->entries[i].name);
        pg_array_end(a);
        pg_array_begin(a, ARRAY_I8);
        for (uint32_t i = 0; i < want->count; i++)
            pg_array_i8(a, want->entries[i].keep_until.ms);
        pg_array_end(a);
        pg_array_begin(a, ARRAY_BYTES);
        for (uint32_t i = 0; i < want->count; i++)
            pg_array_blob(a, want->entries[i].facts);
        pg_array_end(a);
        pg_conn_send(s->reader, SQL_REGISTRY_PUT, a);
        pg_args_i8(a, now);
        pg_conn_send(s->reader, SQL_REGISTRY_PRUNE, a);
    }
    pg_args_text(a, want->only.len ? want->only : want->prefix);
    pg_args_i8(a, now);
    pg_args_i4(a, WORKERS_MAX);
    pg_conn_send(s->reader, want->only.len ? SQL_REGISTRY_OF : SQL_REGISTRY, a);
}

static void answer_registry(struct pg_store *s, const struct op_registry *want, struct reply *reply)
{
    const PGresult *r = pg_conn_result(s->reader, want->count ? 3 : 1);
    int n = PQntuples(r);
    struct worker_entry *entries =
        arena_array(&s->search_unit.unit.arena, (size_t)n + 1, sizeof *entries);
    for (int i = 0; entries && i < n; i++)
        entries[i] = (struct worker_entry){.name = pg_col_bytes(r, i, 0),
                                           .keep_until = {pg_col_time(r, i, 1)},
                                           .facts = pg_col_bytes(r, i, 2)};
    reply->entries = entries;
    reply->entry_count = entries ? (uint32_t)n : 0;
}

static void answer_workers(struct pg_store *s, struct reply *reply)
{
    const PGresult *r = pg_conn_result(s->reader, 1);
    int n = PQntuples(r);
    struct worker_view *views =
        arena_array(&s->search_unit.unit.arena, (size_t)n + 1, sizeof *views);
    for (int i = 0; views && i < n; i++)
        views[i] = worker_read(r, i);
    reply->workers = views;
    reply->worker_count = views ? (uint32_t)n : 0;
    reply->worker_total = n ? pg_col_count(r, 0, 2) : 0;
}

static void answer_exceptions(struct pg_store *s, struct reply *reply)
{
    const PGresult *r = pg_conn_result(s->reader, 1);
    int n = PQntuples(r);
    struct attempt_view *views =
        arena_array(&s->search_unit.unit.arena, (size_t)n + 1, sizeof *views);
    for (int i = 0; views && i < n; i++) {
        (void)pg_attempt_read(r, (size_t)i, &views[i]);
        views[i].seq = pg_col_seq(r, i, 7);
        views[i].id_hi = (uint64_t)pg_col_i8(r, i, 8);
        views[i].queue = pg_col_bytes(r, i, 9);
    }
    reply->attempts = views;
    reply->attempt_count = views ? (uint32_t)n : 0;
}

static void answer_history(struct pg_store *s, struct reply *reply)
{
    const PGresult *r = pg_conn_result(s->reader, 1);
    int n = PQntuples(r);
    struct hour_view *views = arena_array(&s->search_unit.unit.arena, (size_t)n + 1, sizeof *views);
    for (int i = 0; views && i < n; i++) {
        views[i].hour = (uint32_t)pg_col_i4(r, i, 0);
        for (int f = 0; f < COUNTER_COUNT; f++)
            views[i].counters.of[f] = pg_col_count(r, i, 1 + f);
    }
    reply->hours = views;
    reply->hour_count = views ? (uint32_t)n : 0;
}

static struct span queue_named(const struct op *op)
{
    if (op->kind == OP_LIST)
        return op->list.queue;
    if (op->kind == OP_EXCEPTIONS)
        return op->exceptions.queue;
    if (op->kind == OP_PAGE)
        return op->page.queue;
    return op->kind == OP_HISTORY ? op->history.queue : (struct span){NULL, 0};
}

/* The page, followed by the total number. */
static void answer_page(struct pg_store *s, const struct op_page *want, struct reply *reply)
{
    const PGresult *r = pg_conn_result(s->reader, 1);
    int n = PQntuples(r);
    size_t bytes = 0;
    struct job_view *views = arena_array(&s->search_unit.unit.arena, (size_t)n + 1, sizeof *views);
    for (int i = 0; views && i < n && bytes < LIMIT_ANSWER_BYTES; i++) {
        pg_view_row(r, i, s->search_unit.unit.now, want->want_body, &views[i]);
        bytes += views[i].payload.len + views[i].result.len;
        reply->job_count++;
    }
    reply->jobs = views;
    reply->job_total = pg_col_count(pg_conn_result(s->reader, 2), 0, 0);
}

static void send_page(struct pg_store *s, const struct op_page *want, uint32_t queue)
{
    struct args *a = &s->search_unit.args;
    int32_t states = (int32_t)(want->states ? want->states : STATES_ALL);
    pg_args_i4(a, (int32_t)queue);
    pg_args_i4(a, states);
    pg_args_bool(a, want->want_body);
    pg_args_text(a, want->unique);
    pg_args_i8(a, bounded(want->offset));
    pg_args_i4(a, want->limit && want->limit < LIMIT_BATCH ? (int32_t)want->limit : LIMIT_BATCH);
    pg_args_i4(a, want->pending);
    pg_conn_send(s->reader, SQL_PAGE, a);
    pg_args_i4(a, (int32_t)queue);
    pg_args_i4(a, states);
    pg_args_text(a, want->unique);
    pg_args_i4(a, want->pending);
    pg_conn_send(s->reader, SQL_PAGE_COUNT, a);
}

static void answer_pending(struct pg_store *s, struct reply *reply)
{
    const PGresult *r = pg_conn_result(s->reader, 1);
    struct unit *u = &s->search_unit.unit;
    int n = PQntuples(r);
    struct job_view *views = arena_array(&u->arena, (size_t)n + 1, sizeof *views);
    for (int i = 0; views && i < n; i++)
        pg_view_row(r, i, u->now, false, &views[i]);
    reply->jobs = views;
    reply->job_count = views ? (uint32_t)n : 0;
}

static void answer(struct pg_store *s, const struct op *op, struct reply *reply)
{
    if (op->kind == OP_PAGE)
        answer_page(s, &op->page, reply);
    else if (op->kind == OP_LIST)
        answer_list(s, &op->list, reply);
    else if (op->kind == OP_PENDING)
        answer_pending(s, reply);
    else if (op->kind == OP_KV_LIST)
        pg_keys_answer_list(s, &op->kv_list, reply);
    else if (op->kind == OP_WORKERS)
        answer_workers(s, reply);
    else if (op->kind == OP_REGISTRY)
        answer_registry(s, &op->registry, reply);
    else if (op->kind == OP_EXCEPTIONS)
        answer_exceptions(s, reply);
    else
        answer_history(s, reply);
}

static void send_what(struct pg_store *s, const struct op *op, uint32_t queue)
{
    struct args *a = &s->search_unit.args;
    pg_conn_send(s->reader, SQL_NOW, a);
    if (op->kind == OP_LIST) {
        send_list(s, &op->list, queue ? queue : op->list.filter.queue);
        return;
    }
    if (op->kind == OP_PAGE) {
        send_page(s, &op->page, queue);
        return;
    }
    if (op->kind == OP_KV_LIST) {
        pg_keys_send_list(s, &op->kv_list);
        return;
    }
    if (op->kind == OP_PENDING) {
        bool bounded = op->pending.limit && op->pending.limit < LIMIT_BATCH;
        pg_args_i8(a, (int64_t)op->pending.after);
        pg_args_i4(a, bounded ? (int32_t)op->pending.limit : LIMIT_BATCH);
        pg_conn_send(s->reader, SQL_PENDING, a);
        return;
    }
    if (op->kind == OP_REGISTRY) {
        send_registry(s, &op->registry);
        return;
    }
    if (op->kind == OP_WORKERS) {
        pg_args_i4(a, WORKERS_MAX);
        pg_conn_send(s->reader, SQL_WORKERS, a);
        return;
    }
    pg_args_text(a, queue_named(op));
    if (op->kind == OP_HISTORY) {
        pg_args_i4(a, (int32_t)op->history.from);
        pg_args_i4(a, op->history.to > INT32_MAX ? INT32_MAX : (int32_t)op->history.to);
        pg_conn_send(s->reader, SQL_HISTORY, a);
        return;
    }
    uint32_t limit = op->exceptions.limit;
    pg_args_i4(a, (int32_t)(limit && limit < LIMIT_EXCEPTIONS ? limit : LIMIT_EXCEPTIONS));
    pg_conn_send(s->reader, SQL_EXCEPTIONS, a);
}

/* What the reply shows must be on the disk first: the round ends with a commit that waits. */
static void send_query(struct pg_store *s, const struct op *op, uint32_t queue)
{
    send_what(s, op, queue);
    if (pg_gate_needed(s))
        pg_send_sync(s, s->reader, &s->search_unit.args);
}

static void round_failed(struct pg_store *s, int err, const struct round_error *error)
{
    struct reply r = {.outcome = OUT_UNAVAILABLE, .note = "the database cannot be reached"};
    if (err == -ERR_INVALID) {
        bool slow = strcmp(error->state, "57014") == 0;
        r.note = slow ? "the query took longer than the database allows; narrow it"
                      : "the database refused the query";
        log_event(s->sh.config.log, LOG_WARN, "postgres_refused", LOG_TEXT("state", error->state),
                  LOG_TEXT("text", error->text));
    }
    answer_first(s, &r);
}

static void answered_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    struct reply r = {.outcome = OUT_OK};
    s->searching = false;
    if (err) {
        round_failed(s, err, error);
    } else {
        int64_t given = shared_manual_now(&s->sh);
        s->search_unit.unit.now.ms =
            given ? given : pg_col_time(pg_conn_result(s->reader, 0), 0, 0);
        answer(s, s->searches->op, &r);
        answer_first(s, &r);
    }
    arena_reset(&s->search_unit.unit.arena);
    pg_search_wake(s);
    if (s->sh.closing)
        pg_pipeline_later(s);
}

/* The queue exists: its number is known, and the query can be sent. */
static void named_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    uint32_t number = 0;
    if (err) {
        answered_cb(ctx, err, error);
        return;
    }
    const PGresult *r = pg_conn_result(s->reader, 0);
    if (PQntuples(r) == 1)
        number = (uint32_t)pg_col_i4(r, 0, 0);
    struct queue_policy policy = {.ranked = true};
    if (number && s->searches->op->kind == OP_PAGE)
        (void)!policy_decode(pg_col_bytes(r, 0, 5), &policy);
    if (number == 0 || !policy.ranked) {
        struct reply reply = {.outcome = number ? OUT_INVALID : OUT_NO_QUEUE};
        if (number)
            reply.note = "queue is not ranked; set ranked in its policy, or list without an offset";
        s->searching = false;
        answer_first(s, &reply);
        pg_search_wake(s);
        return;
    }
    send_query(s, s->searches->op, number);
    if (pg_conn_round(s->reader, answered_cb, s) != 0)
        answered_cb(s, -ERR_IO, NULL);
}

void pg_search_wake(struct pg_store *s)
{
    if (!s->searches || s->searching || !pg_conn_usable(s->reader))
        return;
    const struct op *op = s->searches->op;
    struct args *a = &s->search_unit.args;
    struct span name = queue_named(op);
    bool by_name = name.len || op->kind == OP_HISTORY || op->kind == OP_PAGE;
    if (by_name) {
        pg_array_begin(a, ARRAY_TEXT);
        if (unit_text_safe(name))
            pg_array_blob(a, name);
        pg_array_end(a);
        pg_array_begin(a, ARRAY_I8);
        pg_array_end(a);
        pg_array_begin(a, ARRAY_I4);
        pg_array_end(a);
        pg_conn_send(s->reader, SQL_QUEUES, a);
    } else {
        send_query(s, op, 0);
    }
    s->searching = pg_conn_round(s->reader, by_name ? named_cb : answered_cb, s) == 0;
    if (!s->searching)
        pg_pipeline_later(s);
}

void pg_reader_lost_cb(void *ctx)
{
    struct pg_store *s = ctx;
    s->searching = false;
    pg_pipeline_later(s);
    pg_timer_set(s);
}

void pg_reader_opened_cb(void *ctx)
{
    pg_search_wake(ctx);
}
