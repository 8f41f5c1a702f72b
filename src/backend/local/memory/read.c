/* SPDX-License-Identifier: Apache-2.0 */
/* What readers see of the memory store: bodies, history, lists.
 *
 * It runs on the thread that does everything else, so each call does a bounded amount of work: a
 * list that finds little stops early and returns a cursor. */
#include "backend/local/memory/store_memory.h"
#include "backend/local/store/store_attempts.h"
#include "base/check.h"
#include "base/mem.h"
#include "core/jobs/job_texts.h"
#include "core/jobs/progress.h"
#include "core/limits.h"

/* How many jobs, sequences or attempts one call examines at most: some milliseconds. */
#define EXAMINED_MAX 20000

struct reader_memory {
    struct store_reader base;
    struct store_memory *store;
};

static const struct store_reader_ops memory_reader_ops;

struct store_memory *memory_of_reader(struct store_reader *r)
{
    CHECK(r->ops == &memory_reader_ops);
    return ((struct reader_memory *)r)->store;
}

static const struct kept_queue *queue_named(const struct store_memory *m, struct span name)
{
    for (size_t i = 0; i < m->queue_count; i++)
        if (!m->queues[i].gone && span_equal(m->queues[i].put.name, name))
            return &m->queues[i];
    return NULL;
}

/* The job's queue if the job exists for readers; otherwise NULL. */
static const struct kept_queue *shown_in(const struct store_memory *m, const struct job *j)
{
    const struct kept_queue *q = queue_of(m, j->queue);
    if (!q || q->gone)
        return NULL;
    bool waiting = (STATE_BIT(j->state) & STATES_WAITING) != 0;
    return waiting && j->generation != q->put.generation ? NULL : q;
}

static int span_copy(struct arena *arena, struct span from, struct span *ret)
{
    *ret = (struct span){NULL, 0};
    if (from.len == 0)
        return 0;
    void *copy = arena_copy(arena, from.at, from.len);
    if (!copy)
        return -ERR_NOMEM;
    *ret = span_of(copy, from.len);
    return 0;
}

static int extra_read(struct arena *arena, const struct kept_job *k, struct job_extra *ret)
{
    *ret = extra_of(k);
    int rc = job_texts_keep(arena, ret);
    return rc ? rc : span_copy(arena, ret->options, &ret->options);
}

/* ---- bodies ---- */

static int attempt_copy(const struct kept_job *k, struct span queue, struct arena *arena,
                        struct attempt_view *v)
{
    v->seq = k->job.seq;
    v->id_hi = k->job.id_hi;
    int rc = span_copy(arena, queue, &v->queue);
    if (rc == 0)
        rc = span_copy(arena, v->worker, &v->worker);
    return rc ? rc : span_copy(arena, v->error, &v->error);
}

/* Filled from the end, because the newest is known first. */
static int attempts_read(const struct kept_job *k, struct span queue, struct arena *arena,
                         struct stored_body *ret)
{
    uint32_t at = LIMIT_ATTEMPTS_KEPT;
    struct attempt_view *views = arena_array(arena, at, sizeof *views);
    int rc = views ? 0 : -ERR_NOMEM;
    if (rc == 0 && attempt_of_job(&k->job, k->started_at, &views[at - 1])) {
        views[--at].worker = span_of(k->worker, k->worker_len);
        rc = attempt_copy(k, queue, arena, &views[at]);
    }
    for (const struct kept_attempt *a = k->attempts; a && at > 0 && rc == 0; a = a->older) {
        views[--at] = a->view;
        rc = attempt_copy(k, queue, arena, &views[at]);
    }
    if (rc != 0)
        return rc;
    ret->attempts = views + at;
    ret->attempt_count = LIMIT_ATTEMPTS_KEPT - at;
    return 0;
}

static int report_read(const struct kept_job *k, bool log, struct arena *arena,
                       struct stored_body *ret)
{
    const struct kept_report *r = k->report;
    if (!r)
        return 0;
    struct span shown = progress_shown(span_of(r->progress, r->progress_len), k->token);
    int rc = span_copy(arena, shown, &ret->progress);
    return rc || !log ? rc : span_copy(arena, span_of(r->log, r->log_len), &ret->log);
}

static int body_read(const struct kept_job *k, bool texts_only, struct arena *arena,
                     struct stored_body *ret)
{
    const struct kept_outcome *o = k->outcome;
    *ret = (struct stored_body){.found = true, .started_at = k->started_at, .holder = k->holder};
    size_t payload = texts_only ? 0 : k->job.payload_bytes;
    int rc = span_copy(arena, span_of(k->payload, payload), &ret->payload);
    if (rc == 0 && k->extra)
        rc = extra_read(arena, k, &ret->extra);
    if (rc == 0) /* the keys belong to the job itself, not to its extra */
        rc = span_copy(arena, span_of(k->undelivered, k->undelivered_len), &ret->extra.undelivered);
    if (rc != 0 || !o)
        return rc;
    ret->result_kind = o->result_kind;
    ret->error_kind = o->error_kind;
    rc = span_copy(arena, span_of(o->result, texts_only ? 0 : o->result_len), &ret->result);
    return rc ? rc : span_copy(arena, span_of(o->error, o->error_len), &ret->error);
}

static int memory_read(struct store_reader *r, const struct store_query *query, struct arena *arena,
                       struct stored_body *bodies)
{
    const struct store_memory *m = memory_of_reader(r);
    int rc = 0;
    for (size_t i = 0; i < query->count && rc == 0; i++) {
        const struct kept_job *k = job_of(m, query->seqs[i]);
        const struct kept_queue *q = k ? shown_in(m, &k->job) : NULL;
        bodies[i] = (struct stored_body){0};
        if (!q)
            continue;
        rc = body_read(k, query->texts_only, arena, &bodies[i]);
        if (rc == 0 && query->attempts)
            rc = attempts_read(k, q->put.name, arena, &bodies[i]);
        if (rc == 0 && query->attempts)
            rc = report_read(k, query->log, arena, &bodies[i]);
        if (rc == 0 && query->steps && k->report)
            rc = span_copy(arena, buf_span(&k->report->steps), &bodies[i].steps);
    }
    return rc;
}

/* ---- failed attempts ---- */

static int memory_exceptions(struct store_reader *r, const struct op_exceptions *query,
                             struct arena *arena, struct attempt_view **ret, uint32_t *ret_count)
{
    const struct store_memory *m = memory_of_reader(r);
    uint32_t limit =
        query->limit == 0 || query->limit > LIMIT_EXCEPTIONS ? LIMIT_EXCEPTIONS : query->limit;
    uint32_t count = 0, looks = 0;
    struct attempt_view *views = arena_array(arena, limit, sizeof *views);
    int rc = views ? 0 : -ERR_NOMEM;
    for (const struct kept_attempt *a = m->wrong; a && rc == 0 && count < limit;
         a = a->wrong_older) {
        if (looks++ == EXAMINED_MAX)
            break;
        const struct kept_job *k = job_of(m, a->view.seq);
        const struct kept_queue *q = k ? shown_in(m, &k->job) : NULL;
        if (!q || (query->queue.len && !span_equal(query->queue, q->put.name)))
            continue;
        views[count] = a->view;
        rc = attempt_copy(k, q->put.name, arena, &views[count++]);
    }
    *ret = views;
    *ret_count = count;
    return rc;
}

/* ---- by the hour ---- */

static int memory_history(struct store_reader *r, const struct op_history *query,
                          struct arena *arena, struct hour_view **ret, uint32_t *ret_count)
{
    const struct store_memory *m = memory_of_reader(r);
    const struct kept_queue *q = queue_named(m, query->queue);
    uint32_t count = 0;
    struct hour_view *hours = arena_array(arena, HISTORY_HOURS + 1, sizeof *hours);
    if (!hours)
        return -ERR_NOMEM;
    for (uint32_t i = 0; q && i < q->hour_count && count <= HISTORY_HOURS; i++)
        if (q->hours[i].hour >= query->from && q->hours[i].hour < query->to)
            hours[count++] = q->hours[i];
    *ret = hours;
    *ret_count = count;
    return 0;
}

/* ---- lists ---- */

static int view_make(const struct kept_job *k, const struct kept_queue *q, bool want_body,
                     struct arena *arena, struct job_view *ret)
{
    *ret = (struct job_view){.job = k->job, .started_at = job_started_at(k)};
    if (k->extra)
        ret->expires_at = extra_of(k).expires_at;
    int rc = span_copy(arena, q->put.name, &ret->queue);
    if (rc == 0 && k->job.state == STATE_RUNNING) {
        ret->token = k->token;
        ret->lease_ms = k->lease_ms;
        ret->limits = k->limits;
        ret->lease_left_ms = -1; /* only the engine knows it */
        rc = span_copy(arena, span_of(k->worker, k->worker_len), &ret->worker);
    }
    if (rc != 0 || !want_body)
        return rc;
    struct stored_body body;
    rc = body_read(k, false, arena, &body);
    stored_body_show(&body, ret);
    return rc;
}

/* Searches from the first job towards seq: the first job at or after it, or 0 if it is too far
 * away. */
static uint32_t reach_up(const struct store_memory *m, uint64_t seq)
{
    uint32_t handle = m->first;
    for (uint32_t n = 0; n < EXAMINED_MAX && handle; n++) {
        const struct kept_job *k = job_at(m, handle);
        if (k->job.seq >= seq)
            return handle;
        handle = k->next;
    }
    return 0;
}

/* Searches from the last job towards seq: the last job at or before it, or 0 if it is too far
 * away. */
static uint32_t reach_down(const struct store_memory *m, uint64_t seq)
{
    uint32_t handle = m->last;
    for (uint32_t n = 0; n < EXAMINED_MAX && handle; n++) {
        const struct kept_job *k = job_at(m, handle);
        if (k->job.seq <= seq)
            return handle;
        handle = k->prev;
    }
    return 0;
}

/* A sequence may be in a wide gap: its neighbour is searched for by number, then from both ends. */
static uint32_t chain_find(const struct store_memory *m, uint64_t seq, bool back,
                           uint64_t *ret_cursor)
{
    uint32_t handle = 0;
    for (uint32_t i = 0; i < EXAMINED_MAX && !handle; i++)
        handle = seqdir_get(&m->by_seq, back ? seq - i : seq + i);
    if (handle)
        return handle;
    if ((handle = reach_up(m, seq)))
        return back ? job_at(m, handle)->prev : handle;
    if ((handle = reach_down(m, seq)))
        return back ? handle : job_at(m, handle)->next;
    *ret_cursor = back ? seq - EXAMINED_MAX + 1 : seq + EXAMINED_MAX - 1;
    return 0;
}

/* The first job of the page; 0 with a cursor if even this search used up the limit. */
static uint32_t list_start(const struct store_memory *m, const struct op_list *q,
                           uint64_t *ret_cursor)
{
    if (!m->first)
        return 0;
    uint64_t least = job_at(m, m->first)->job.seq, most = job_at(m, m->last)->job.seq;
    uint64_t low = q->filter.seq_min, high = q->filter.seq_max ? q->filter.seq_max : UINT64_MAX;
    if (q->newest_first) {
        if (q->after != 0 && q->after - 1 < high)
            high = q->after - 1;
        if (high < least)
            return 0;
        return high >= most ? m->last : chain_find(m, high, true, ret_cursor);
    }
    if (q->after >= low)
        low = q->after == UINT64_MAX ? UINT64_MAX : q->after + 1;
    if (low > most)
        return 0;
    return low <= least ? m->first : chain_find(m, low, false, ret_cursor);
}

static bool list_past(const struct op_list *q, uint64_t seq)
{
    return q->newest_first ? seq < q->filter.seq_min
                           : q->filter.seq_max != 0 && seq > q->filter.seq_max;
}

/* Bytes of the newest view, for the limit of a page. */
static size_t view_bytes(const struct job_view *views, uint32_t count)
{
    return count > 0 ? views[count - 1].payload.len + views[count - 1].result.len : 0;
}

/* Fills the page, which ends early when its bodies reach LIMIT_ANSWER_BYTES; one more job shows
 * whether there is another page. */
static int list_page(const struct store_memory *m, const struct op_list *query,
                     const struct job_filter *filter, uint32_t limit, struct arena *arena,
                     struct job_view *views, uint32_t *ret_count, uint64_t *ret_cursor)
{
    uint32_t handle = list_start(m, query, ret_cursor);
    size_t bytes = 0;
    for (uint32_t looks = 0; handle; looks++) {
        const struct kept_job *k = job_at(m, handle);
        if (list_past(query, k->job.seq))
            break;
        handle = query->newest_first ? k->prev : k->next;
        const struct kept_queue *q = shown_in(m, &k->job);
        struct job_extra extra = extra_of(k);
        bool match = q && filter_match(filter, &k->job, &extra);
        if (match && (*ret_count == limit || bytes >= LIMIT_ANSWER_BYTES)) {
            *ret_cursor = views[*ret_count - 1].job.seq;
            break;
        }
        int rc = match ? view_make(k, q, query->want_body, arena, &views[(*ret_count)++]) : 0;
        if (rc != 0)
            return rc;
        bytes += match ? view_bytes(views, *ret_count) : 0;
        if (looks == EXAMINED_MAX && handle) {
            *ret_cursor = k->job.seq;
            break;
        }
    }
    return 0;
}

static int memory_list(struct store_reader *r, const struct op_list *query, struct arena *arena,
                       struct job_view **ret_jobs, uint32_t *ret_count, uint64_t *ret_cursor,
                       uint64_t *ret_as_of)
{
    const struct store_memory *m = memory_of_reader(r);
    struct job_filter filter = query->filter;
    uint32_t limit = query->limit == 0 || query->limit > LIMIT_BATCH ? LIMIT_BATCH : query->limit;
    const struct kept_queue *q = query->queue.len ? queue_named(m, query->queue) : NULL;
    struct job_view *views = arena_array(arena, limit, sizeof *views);
    if (!views)
        return -ERR_NOMEM;
    if (q)
        filter.queue = q->put.queue;
    /* The result may be stored where the query is. */
    uint32_t count = 0;
    uint64_t cursor = 0;
    int rc = query->queue.len && !q
                 ? 0
                 : list_page(m, query, &filter, limit, arena, views, &count, &cursor);
    *ret_jobs = views;
    *ret_count = count;
    *ret_cursor = cursor;
    *ret_as_of = m->meta.position;
    return rc;
}

static void memory_reader_close(struct store_reader *r)
{
    memory_of_reader(r)->readers--;
    mem_free(r);
}

static const struct store_reader_ops memory_reader_ops = {
    .read = memory_read,
    .list = memory_list,
    .exceptions = memory_exceptions,
    .kv_list = memory_kv_list,
    .kv_get = memory_kv_get,
    .history = memory_history,
    .close = memory_reader_close,
};

int memory_reader_open(struct store *s, struct store_reader **ret, struct err_note *note)
{
    struct reader_memory *r = mem_zalloc(sizeof *r);
    if (!r)
        return err_note_set(note, -ERR_NOMEM, "out of memory");
    r->base.ops = &memory_reader_ops;
    r->store = store_memory_of(s);
    r->store->readers++;
    *ret = &r->base;
    return 0;
}
