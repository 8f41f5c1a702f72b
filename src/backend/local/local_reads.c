/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of the store. A query may need records that are only in the journal. Then the applier is
 * woken, and the query waits here and not in a reader thread, where it would block others. A list
 * waits a quarter of a second and then shows what the store has; a body must be there. */
#include "backend/local/local_impl.h"
#include <stdio.h>

#include "base/mem.h"

#define LIST_WAIT_MS 250
#define BODY_WAIT_MS 5000

void local_damaged(void *ctx, const struct job_view *v)
{
    struct local *l = ctx;
    char id[ID_ULID_BYTES];
    id_ulid(id_make(v->job.id_hi, v->job.seq), id);
    l->jobs_damaged++;
    log_event(
        l->config.log, LOG_ERROR, "job_damaged", LOG_TEXT("job", id), LOG_SPAN("queue", v->queue),
        LOG_TEXT("part", damage_name(damage_fatal(v->damage))),
        LOG_TEXT("effect", "the job is dead, reason damaged; `holdfast check` shows details"));
}

/* A query that took too long, or found no memory, says nothing about the store. */
static void note_reading(struct local *l, int error)
{
    if (error == -ERR_TIMEOUT || error == -ERR_NOMEM)
        return;
    if (error == 0) {
        l->read_trouble[0] = '\0';
        return;
    }
    l->read_errors++;
    if (l->read_trouble[0] == '\0')
        log_event(l->config.log, LOG_ERROR, "store_read_failed", LOG_TEXT("why", err_text(error)),
                  LOG_TEXT("effect", "requests that need the store are answered 503"));
    snprintf(l->read_trouble, sizeof l->read_trouble, "the store cannot be read: %s",
             err_text(error));
}

void local_answer(struct local *l, const struct reader_job *j)
{
    note_reading(l, j->error);
    struct gate_page page = {.jobs = j->jobs,
                             .count = j->job_count,
                             .cursor = j->cursor,
                             .as_of = j->as_of,
                             .attempts = j->attempts,
                             .attempt_count = j->attempt_count,
                             .kvs = j->kvs,
                             .kv_count = j->kv_count,
                             .kv_cursor = j->kv_cursor,
                             .hours = j->hours,
                             .hour_count = j->hour_count};
    gate_bodies(l->gate, j->request, j->bodies, j->bodies ? NULL : &page, j->error, local_now(l));
}

static bool is_list(const struct store_query *q)
{
    return q->list || q->exceptions || q->kv_list || q->history;
}

/* Lists and exceptions go to a separate thread, because workers wait for bodies. */
static void ask(struct local *l, void *request, const struct store_query *query)
{
    int err = reader_ask(is_list(query) ? l->lister : l->reader, request, query);
    if (err)
        gate_bodies(l->gate, request, NULL, NULL, err, local_now(l));
}

static void read_here(struct local *l, void *request, const struct store_query *query)
{
    struct reader_job j = {.request = request, .query = *query};
    arena_init(&j.arena);
    reader_work(l->direct, &j);
    local_answer(l, &j);
    arena_done(&j.arena);
}

static void wait_for_sweep(struct local *l, void *request, const struct store_query *query)
{
    struct read_wait *w = mem_alloc(sizeof(*w));
    if (!w) {
        gate_bodies(l->gate, request, NULL, NULL, -ERR_NOMEM, local_now(l));
        return;
    }
    int64_t list_ms = l->config.list_wait_ms ? l->config.list_wait_ms : LIST_WAIT_MS;
    int64_t most = is_list(query) ? list_ms : BODY_WAIT_MS;
    *w = (struct read_wait){.request = request,
                            .query = *query,
                            .until = (int64_t)(clock_ns() / 1000000) + most,
                            .next = l->waits};
    l->waits = w;
    applier_want(l->applier, query->need);
}

void local_read(void *ctx, void *request, const struct store_query *query)
{
    struct local *l = ctx;
    if (l->direct)
        read_here(l, request, query);
    else if (query->need > l->applied)
        wait_for_sweep(l, request, query);
    else
        ask(l, request, query);
}

static void end_wait(struct local *l, const struct read_wait *w)
{
    if (w->query.need <= l->applied || is_list(&w->query))
        ask(l, w->request, &w->query);
    else
        gate_bodies(l->gate, w->request, NULL, NULL, -ERR_TIMEOUT, local_now(l));
}

void local_reads_go_on(struct local *l)
{
    int64_t now = l->waits ? (int64_t)(clock_ns() / 1000000) : 0;
    struct read_wait *ready = NULL;
    for (struct read_wait **link = &l->waits; *link;) {
        struct read_wait *w = *link;
        if (w->query.need > l->applied && now < w->until) {
            link = &w->next;
            continue;
        }
        *link = w->next;
        w->next = ready;
        ready = w;
    }
    /* Only now, because an answer may add new waits. The oldest comes first here. */
    while (ready) {
        struct read_wait *w = ready;
        ready = w->next;
        end_wait(l, w);
        mem_free(w);
    }
}

int64_t local_reads_wait_ms(const struct local *l)
{
    int64_t wait = INT64_MAX;
    int64_t now = l->waits ? (int64_t)(clock_ns() / 1000000) : 0;
    for (const struct read_wait *w = l->waits; w; w = w->next)
        if (w->until - now < wait)
            wait = w->until - now;
    return wait < 0 ? 0 : wait;
}

void local_reads_free(struct local *l)
{
    while (l->waits) {
        struct read_wait *w = l->waits;
        l->waits = w->next;
        mem_free(w);
    }
}
