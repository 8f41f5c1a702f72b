/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/local/reader.h"

#include <uv.h>

#include "base/check.h"
#include "base/mem.h"

#define LISTS_MAX 64 /* further lists would not be answered in time */

struct job_chain {
    struct reader_job *first, *last;
};

struct reader {
    struct store_reader *from;
    void (*notify)(void *ctx);
    void *ctx;
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t wake;
    struct job_chain asked, answered; /* under lock */
    size_t asked_count;
    size_t answered_bytes;
    bool stopping;
};

static void chain_add(struct job_chain *c, struct reader_job *j)
{
    j->next = NULL;
    if (c->last)
        c->last->next = j;
    else
        c->first = j;
    c->last = j;
}

static struct reader_job *chain_take(struct job_chain *c)
{
    struct reader_job *j = c->first;
    if (j) {
        c->first = j->next;
        if (!c->first)
            c->last = NULL;
    }
    return j;
}

void reader_job_free(struct reader_job *j)
{
    if (!j)
        return;
    arena_done(&j->arena);
    mem_free(j);
}

void reader_work(struct store_reader *from, struct reader_job *j)
{
    const struct store_query *q = &j->query;
    if (q->list) {
        j->error = from->ops->list(from, q->list, &j->arena, &j->jobs, &j->job_count, &j->cursor,
                                   &j->as_of);
        return;
    }
    if (q->exceptions) {
        j->error =
            from->ops->exceptions(from, q->exceptions, &j->arena, &j->attempts, &j->attempt_count);
        return;
    }
    if (q->kv_list) {
        j->error = from->ops->kv_list(from, q->kv_list, &j->arena, &j->kvs, &j->kv_count,
                                      &j->kv_cursor, &j->as_of);
        return;
    }
    if (q->kvs) {
        j->error = from->ops->kv_get(from, q->kvs, q->kv_count, &j->arena);
        return;
    }
    if (q->history) {
        j->error = from->ops->history(from, q->history, &j->arena, &j->hours, &j->hour_count);
        return;
    }
    j->bodies = arena_array(&j->arena, q->count ? q->count : 1, sizeof(*j->bodies));
    j->error = j->bodies ? from->ops->read(from, q, &j->arena, j->bodies) : -ERR_NOMEM;
}

static void run(void *arg)
{
    struct reader *r = arg;
    uv_mutex_lock(&r->lock);
    while (!r->stopping) {
        struct reader_job *j = r->answered_bytes < READER_BYTES_MAX ? chain_take(&r->asked) : NULL;
        if (!j) {
            uv_cond_wait(&r->wake, &r->lock);
            continue;
        }
        r->asked_count--;
        uv_mutex_unlock(&r->lock);
        reader_work(r->from, j);
        j->bytes = arena_bytes(&j->arena);
        uv_mutex_lock(&r->lock);
        chain_add(&r->answered, j);
        r->answered_bytes += j->bytes;
        r->notify(r->ctx);
    }
    uv_mutex_unlock(&r->lock);
}

int reader_start(struct store_reader *from, void (*notify)(void *ctx), void *ctx,
                 struct reader **ret)
{
    struct reader *r = mem_zalloc(sizeof(*r));
    if (!r)
        return -ERR_NOMEM;
    r->from = from;
    r->notify = notify;
    r->ctx = ctx;
    CHECK(uv_mutex_init(&r->lock) == 0 && uv_cond_init(&r->wake) == 0);
    if (uv_thread_create(&r->thread, run, r) != 0) {
        uv_cond_destroy(&r->wake);
        uv_mutex_destroy(&r->lock);
        mem_free(r);
        return -ERR_NOMEM;
    }
    *ret = r;
    return 0;
}

int reader_ask(struct reader *r, void *request, const struct store_query *query)
{
    struct reader_job *j = mem_zalloc(sizeof(*j));
    if (!j)
        return -ERR_NOMEM;
    arena_init(&j->arena);
    j->request = request;
    j->query = *query;
    uv_mutex_lock(&r->lock);
    bool full = (query->list || query->exceptions || query->kv_list || query->history) &&
                r->asked_count >= LISTS_MAX;
    if (!full) {
        chain_add(&r->asked, j);
        r->asked_count++;
    }
    uv_cond_signal(&r->wake);
    uv_mutex_unlock(&r->lock);
    if (full)
        reader_job_free(j);
    return full ? -ERR_TIMEOUT : 0;
}

struct reader_job *reader_done(struct reader *r)
{
    uv_mutex_lock(&r->lock);
    struct reader_job *j = chain_take(&r->answered);
    if (j && r->answered_bytes >= READER_BYTES_MAX)
        uv_cond_signal(&r->wake);
    r->answered_bytes -= j ? j->bytes : 0;
    uv_mutex_unlock(&r->lock);
    return j;
}

void reader_stop(struct reader *r)
{
    if (!r)
        return;
    uv_mutex_lock(&r->lock);
    r->stopping = true;
    uv_cond_signal(&r->wake);
    uv_mutex_unlock(&r->lock);
    uv_thread_join(&r->thread);
    struct reader_job *j;
    while ((j = chain_take(&r->asked)) || (j = chain_take(&r->answered)))
        reader_job_free(j);
    r->from->ops->close(r->from);
    uv_cond_destroy(&r->wake);
    uv_mutex_destroy(&r->lock);
    mem_free(r);
}
