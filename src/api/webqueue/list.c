/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of jobs: list and stale; and one job: job/{id}.
 *
 * A list reads all types in parallel, newest first. Each type has a cursor: pages of ids that
 * the store returns without bodies. The cursors are merged; the jobs after the offset are read
 * in small groups and written. So the current state is shown, at most one group of bodies is in
 * memory besides the answer, and an offset costs only ids.
 *
 * A job that has left the requested status since its page was read is left out. */
#include "api/json_members.h"
#include "api/webqueue/webqueue_impl.h"
#include "core/limits.h"

#define LIST_LIMIT 100
#define OFFSET_MAX 10000000
#define GROUP 50
/* A page ends early when it has reached this size: results may be large. */
#define PAGE_BYTES_MAX ((size_t)16 << 20)
#define TIMEOUT_S_MAX (INT64_C(366) * 24 * 3600)

struct list_in {
    struct web_scope scope;
    uint8_t status; /* enum web_status + 1; 0 = any */
    int64_t limit, offset, timeout_s;
};

#define AT(member) offsetof(struct list_in, member)
#define LIMIT_ROW                                                                                  \
    {                                                                                              \
        "limit", FIELD_INT, AT(limit), 1, LIMIT_BATCH, NULL, 0                                     \
    }
static const struct field list_rows[] = {
    {"status", FIELD_ENUM, AT(status), 1, 0, web_status_names, 0},
    SCOPE_ROWS(struct list_in),
    LIMIT_ROW,
    {"offset", FIELD_INT, AT(offset), 0, OFFSET_MAX, NULL, 0},
};
static const struct field stale_rows[] = {
    {"timeout", FIELD_INT, AT(timeout_s), 0, TIMEOUT_S_MAX, NULL, 0},
    SCOPE_ROWS(struct list_in),
    LIMIT_ROW,
};

/* The ids of one type, page by page. */
struct type_cursor {
    struct op op;
    uint64_t *seqs;
    size_t count, at;
    bool ended; /* the store has no more */
};

struct list {
    struct webqueue *w;
    struct http_exchange *x;
    struct arena *arena;
    struct web_reach reach;
    struct list_in in;
    unsigned states;
    struct type_cursor *cursors;
    struct op *counts; /* total, of a list */
    uint64_t total;
    uint64_t skip, looked; /* jobs still to be skipped; jobs read after the offset */
    struct op group[GROUP];
    size_t group_count;
    struct span texts[GROUP]; /* at = NULL: the job is not shown */
    size_t waiting;
    struct json_writer writer;
    uint64_t shown;
    bool stale, begun;
    bool partial; /* the part of the shared store is missing */
    struct problem problem;
};

static void list_step(struct list *l);

/* ---- the answer ---- */

static void list_begin(struct list *l)
{
    if (l->begun)
        return;
    l->begun = true;
    answer_object_begin(l->x, &l->writer);
    write_array(&l->writer, "jobs");
}

/* more: there are jobs after the last one that was read. */
static void list_answer(struct list *l, bool more)
{
    struct json_writer *w = &l->writer;
    list_begin(l);
    json_write_array_end(w);
    if (l->stale) {
        write_int(w, "timeout", l->in.timeout_s);
    } else {
        write_uint(w, "total", l->total);
        write_int(w, "limit", l->in.limit);
        write_int(w, "offset", l->in.offset);
        json_write_key(w, "next_offset");
        if (more)
            json_write_uint(w, (uint64_t)l->in.offset + l->looked);
        else
            json_write_null(w);
    }
    if (l->partial) {
        answer_mark_partial(l->x);
        write_bool(w, "partial", true);
    }
    answer_object_end(l->x, w, 200);
}

static void list_fail(struct list *l, const struct reply *r)
{
    web_problem(&l->problem, l->arena, r, broker_draining(l->w->broker));
}

/* One of the operations under way was answered; true: it was the last and all succeeded. */
static bool list_arrived(struct list *l)
{
    if (--l->waiting > 0)
        return false;
    if (l->problem.code == PROBLEM_NONE)
        return true;
    problem_answer(l->x, &l->problem);
    return false;
}

/* ---- a group of jobs ---- */

/* The lease shows when the worker last renewed it. */
static bool silent(const struct list *l, const struct job_view *v)
{
    return v->lease_left_ms >= 0 &&
           (int64_t)v->lease_ms - v->lease_left_ms >= l->in.timeout_s * 1000;
}

static void group_show(struct list *l)
{
    list_begin(l);
    for (size_t i = 0; i < l->group_count; i++) {
        if (l->texts[i].at) {
            json_write_raw(&l->writer, l->texts[i]);
            l->shown++;
        }
        l->texts[i] = (struct span){NULL, 0};
    }
    l->group_count = 0;
}

static void group_reply(void *ctx, const struct reply *r)
{
    struct list *l = ctx;
    struct buf text;
    struct json_writer w;
    const struct job_view *v = r->outcome == OUT_OK && r->job_count == 1 ? &r->jobs[0] : NULL;
    if (r->outcome != OUT_OK && r->outcome != OUT_NOT_FOUND)
        list_fail(l, r);
    if (v && (STATE_BIT(v->job.state) & l->states) && (!l->stale || silent(l, v))) {
        buf_init(&text);
        json_writer_init(&w, &text);
        json_write_object(&w);
        job_dict_members(&w, v, l->arena);
        json_write_object_end(&w);
        if (json_writer_finish(&w) == 0)
            l->texts[r->tag] = span_of(arena_copy(l->arena, text.data, text.len), text.len);
        if (!l->texts[r->tag].at)
            problem_of_error(&l->problem, -ERR_NOMEM);
        buf_done(&text);
    }
    if (!list_arrived(l))
        return;
    group_show(l);
    list_step(l);
}

/* ---- cursors ---- */

static void page_reply(void *ctx, const struct reply *r)
{
    struct list *l = ctx;
    l->partial = l->partial || r->left_out;
    if (r->kind == OP_QUEUE_GET) {
        for (unsigned s = 0; r->outcome == OUT_OK && s < STATE_COUNT; s++)
            if (r->queue_count == 1 && (l->states & STATE_BIT(s)))
                l->total += r->queues[0].counts.by_state[s];
    } else {
        struct type_cursor *c = &l->cursors[r->tag];
        c->count = c->at = 0;
        c->ended = r->outcome != OUT_OK || r->cursor == 0;
        c->op.list.after = r->cursor;
        for (uint32_t i = 0; r->outcome == OUT_OK && i < r->job_count; i++)
            c->seqs[c->count++] = r->jobs[i].job.seq;
    }
    if (r->outcome != OUT_OK && r->outcome != OUT_NO_QUEUE)
        list_fail(l, r);
    if (list_arrived(l))
        list_step(l);
}

/* Reads the next page of each cursor that is exhausted; there is at least one. */
static void cursors_fill(struct list *l)
{
    struct op *ops = arena_array(l->arena, 2 * l->reach.count, sizeof *ops);
    size_t count = 0;
    if (!ops) {
        answer_error(l->x, -ERR_NOMEM);
        return;
    }
    for (size_t i = 0; i < l->reach.count; i++) {
        if (l->cursors[i].at < l->cursors[i].count || l->cursors[i].ended)
            continue;
        uint64_t need = l->skip + (uint64_t)l->in.limit;
        l->cursors[i].op.list.limit =
            need < LIMIT_BATCH && !l->stale ? (uint32_t)need : LIMIT_BATCH;
        ops[count++] = l->cursors[i].op;
    }
    for (size_t i = 0; l->counts && i < l->reach.count; i++)
        ops[count++] = l->counts[i];
    l->counts = NULL;
    l->waiting = count;
    int err = broker_submit(l->w->broker, ops, count, page_reply, l);
    if (err < 0)
        answer_error(l->x, err);
}

/* The cursor with the newest job; NULL: all have ended. */
static struct type_cursor *cursor_newest(struct list *l)
{
    struct type_cursor *best = NULL;
    for (size_t i = 0; i < l->reach.count; i++) {
        struct type_cursor *c = &l->cursors[i];
        if (c->at < c->count && (!best || c->seqs[c->at] > best->seqs[best->at]))
            best = c;
    }
    return best;
}

static bool cursor_needs_page(const struct list *l)
{
    for (size_t i = 0; i < l->reach.count; i++)
        if (l->cursors[i].at == l->cursors[i].count && !l->cursors[i].ended)
            return true;
    return false;
}

/* Moves ids from the cursors to the group until it is full; true: a cursor needs its next page
 * first. */
static bool cursors_merge(struct list *l)
{
    uint64_t left = (uint64_t)l->in.limit - (l->stale ? l->shown : l->looked);
    struct type_cursor *c;
    while (l->group_count < GROUP && l->group_count < left) {
        if (cursor_needs_page(l))
            return true;
        if (!(c = cursor_newest(l)))
            return false;
        uint64_t seq = c->seqs[c->at++];
        if (l->skip > 0) {
            l->skip--;
            continue;
        }
        l->group[l->group_count] = (struct op){
            .kind = OP_GET, .tag = l->group_count, .job = {.job = {.seq = seq}, .want_body = true}};
        l->group_count++;
    }
    return false;
}

static void group_submit(struct list *l)
{
    l->looked += l->group_count;
    l->waiting = l->group_count;
    int err = broker_submit(l->w->broker, l->group, l->group_count, group_reply, l);
    if (err < 0)
        answer_error(l->x, err);
}

static void list_step(struct list *l)
{
    uint64_t done = l->stale ? l->shown : l->looked;
    bool large = l->begun && http_answer_body(l->x)->len > PAGE_BYTES_MAX;
    if (done >= (uint64_t)l->in.limit || large)
        list_answer(l, cursor_newest(l) || cursor_needs_page(l));
    else if (cursors_merge(l))
        cursors_fill(l);
    else if (l->group_count > 0)
        group_submit(l);
    else
        list_answer(l, false);
}

/* ---- the request ---- */

static int cursors_open(struct list *l)
{
    l->cursors = arena_array(l->arena, l->reach.count, sizeof *l->cursors);
    l->counts = l->stale ? NULL : arena_array(l->arena, l->reach.count, sizeof *l->counts);
    if (!l->cursors || (!l->stale && !l->counts))
        return -ERR_NOMEM;
    for (size_t i = 0; i < l->reach.count; i++) {
        struct span queue = l->reach.types[i].queue;
        struct type_cursor *c = &l->cursors[i];
        if (!(c->seqs = arena_array(l->arena, LIMIT_BATCH, sizeof *c->seqs)))
            return -ERR_NOMEM;
        c->op = (struct op){.kind = OP_LIST,
                            .tag = i,
                            .list = {.filter = {.states = l->states, .group = l->reach.group},
                                     .queue = queue,
                                     .newest_first = true}};
        if (l->counts)
            l->counts[i] = (struct op){.kind = OP_QUEUE_GET,
                                       .queue = {.name = queue, .group = l->reach.group}};
    }
    return 0;
}

static void list_handle(struct webqueue *w, struct http_exchange *x, struct fields table,
                        bool stale)
{
    struct problem p;
    struct list *l = arena_array(http_request(x)->arena, 1, sizeof *l);
    if (!l) {
        answer_error(x, -ERR_NOMEM);
        return;
    }
    *l = (struct list){.w = w, .x = x, .arena = http_request(x)->arena, .stale = stale};
    l->in = (struct list_in){.scope.library_id = NO_LIBRARY,
                             .limit = LIST_LIMIT,
                             .timeout_s = WEBQUEUE_TIMEOUT_MS / 1000};
    struct field_reader r = reader_of(w->broker, x, table, &l->in, &p);
    if (fields_read_query(&r, http_request(x)->query) < 0 ||
        scope_take(w, l->arena, &l->in.scope, &l->reach, &p) < 0) {
        problem_answer(x, &p);
        return;
    }
    l->states = stale               ? STATE_BIT(STATE_RUNNING)
                : l->in.status != 0 ? web_status_states((enum web_status)(l->in.status - 1))
                                    : STATES_ALL & ~STATE_BIT(STATE_CANCELLED);
    l->skip = (uint64_t)l->in.offset;
    http_alone(x);
    if (cursors_open(l) < 0)
        answer_error(x, -ERR_NOMEM);
    else
        list_step(l);
}

void web_list_handle(void *ctx, struct http_exchange *x)
{
    list_handle(ctx, x, FIELDS(list_rows), false);
}

void web_stale_handle(void *ctx, struct http_exchange *x)
{
    list_handle(ctx, x, FIELDS(stale_rows), true);
}

/* ---- GET job/{id} ---- */

static void job_got(struct call *c, const struct reply *r)
{
    struct problem p = {.code = PROBLEM_NOT_FOUND};
    struct json_writer w;
    if (r->job_count == 0 || !type_of_queue(c->api, r->jobs[0].queue) ||
        r->jobs[0].job.state == STATE_CANCELLED) {
        problem_answer(c->x, &p);
        return;
    }
    answer_object_begin(c->x, &w);
    job_dict_members(&w, &r->jobs[0], c->arena);
    answer_object_end(c->x, &w, 200);
}

void web_job_handle(void *ctx, struct http_exchange *x)
{
    struct webqueue *w = ctx;
    struct job_ref job;
    struct call *c = query_none(w->broker, x) && path_job(x, &job)
                         ? call_new(w->broker, w, x, OP_GET, job_got)
                         : NULL;
    if (!c)
        return;
    http_alone(x);
    c->op.job = (struct op_job){.job = job, .want_body = true};
    web_submit(c);
}
