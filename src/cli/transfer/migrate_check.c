/* SPDX-License-Identifier: Apache-2.0 */
/* Checks before anything is copied: what the source contains, and whether the target is empty. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/client/session.h"
#include "cli/transfer/migrate_impl.h"
#include "core/limits.h"

#define PAGE_NAMES 500

/* ---- the source ---- */

static int queue_page_keep(struct migrate *m, struct reply *page)
{
    struct reply **grown = mem_regrow(m->queues, m->queue_pages + 1, sizeof(struct reply *));
    if (!grown) {
        mem_free(page);
        return client_no_memory();
    }
    m->queues = grown;
    m->queues[m->queue_pages++] = page;
    return CLIENT_DONE;
}

static int queues_read(struct migrate *m)
{
    struct op op = {.kind = OP_QUEUE_LIST};
    struct reply *page;
    int status = CLIENT_DONE;
    op.queue.limit = PAGE_NAMES;
    while (status == CLIENT_DONE && (page = migrate_need(&m->from, op, "queues", &status))) {
        uint32_t count = page->queue_count;
        status = queue_page_keep(m, page);
        if (status != CLIENT_DONE || count == 0)
            break;
        op.queue.after = page->queues[count - 1].name;
    }
    return status;
}

static int queue_count(struct migrate *m, const struct queue_view *q)
{
    m->found.queues++;
    for (int s = STATE_SCHEDULED; s < STATE_COUNT; s++)
        m->found.jobs[s] += q->counts.by_state[s];
    return CLIENT_DONE;
}

static int keys_count(struct migrate *m, const struct reply *page, void *ctx)
{
    (void)ctx;
    for (uint32_t i = 0; i < page->kv_count; i++)
        m->found.keys += !key_expired(m, &page->kvs[i]);
    return CLIENT_DONE;
}

static int schedules_count(struct migrate *m, const struct reply *page, void *ctx)
{
    (void)ctx;
    m->found.schedules += page->schedule_count;
    return CLIENT_DONE;
}

/* A secret that the source does not reveal cannot be copied. */
static int alerts_count(struct migrate *m)
{
    int status;
    struct reply *r = alerts_of(&m->from, &status);
    for (uint32_t i = 0; r && i < r->alert_count; i++) {
        const struct alert_view *a = &r->alerts[i];
        m->found.alerts++;
        if (a->has_secret && a->rule.secret.len == 0)
            status =
                client_complain(CLIENT_REFUSED,
                                "alert rule %.*s has a secret that the source does not reveal; "
                                "delete the rule first, and create it again afterwards",
                                (int)a->name.len, a->name.at);
    }
    mem_free(r);
    return status;
}

/* Items that a trigger's job holds cannot be moved: there is no way to transfer this relation to
 * another store. */
static int held_find(const struct job_page *page)
{
    for (uint32_t i = 0; i < page->count; i++) {
        const struct job_view *v = &page->jobs[i];
        if (v->job.state != STATE_RUNNING || (v->holder.seq == 0 && v->lease_ms != 0))
            continue;
        return client_complain(CLIENT_REFUSED,
                               "queue %.*s has items that a trigger's job holds; let such jobs "
                               "end before the source is moved",
                               (int)v->queue.len, v->queue.at);
    }
    return CLIENT_DONE;
}

static int held_none(struct migrate *m)
{
    struct job_page page;
    uint64_t after = 0;
    if (m->found.jobs[STATE_RUNNING] == 0 || m->found.schedules == 0)
        return CLIENT_DONE;
    do {
        int status = job_page_read(&m->from, after, PAGE_BARE, &page);
        if (status != CLIENT_DONE)
            return status;
        status = held_find(&page);
        after = page.next;
        job_page_free(&page);
        if (status != CLIENT_DONE)
            return status;
    } while (after != 0);
    return CLIENT_DONE;
}

/* ---- the inbox of PostgreSQL ---- */

static void settled_cb(void *ctx)
{
    *(bool *)ctx = true;
}

int check_inbox(struct migrate *m)
{
    struct backend_figures figures;
    bool settled = false;
    if (strcmp(backend_kind(m->from.backend), "postgres") != 0)
        return CLIENT_DONE;
    if (backend_settle(m->from.backend, settled_cb, &settled) != 0)
        return client_no_memory();
    while (!settled)
        (void)uv_run(m->from.loop, UV_RUN_ONCE);
    backend_figures(m->from.backend, &figures);
    if (figures.inbox_waiting == 0)
        return CLIENT_DONE;
    return client_complain(CLIENT_REFUSED,
                           "the inbox of the source has %" PRIu64 " jobs that no server has taken "
                           "(holdfast.enqueue); stop the programs that enqueue, let a server run "
                           "on the source until holdfast_inbox_waiting is 0, and try again",
                           figures.inbox_waiting);
}

int check_source(struct migrate *m)
{
    int status = queues_read(m);
    if (status == CLIENT_DONE)
        status = migrate_each_queue(m, queue_count);
    if (status == CLIENT_DONE)
        status = each_keys(m, &m->from, false, keys_count, NULL);
    if (status == CLIENT_DONE)
        status = each_schedules(m, &m->from, schedules_count, NULL);
    if (status == CLIENT_DONE)
        status = alerts_count(m);
    if (status == CLIENT_DONE)
        status = held_none(m);
    return status == CLIENT_DONE ? check_inbox(m) : status;
}

/* ---- the target ---- */

static uint32_t list_count(const struct reply *r)
{
    enum reply_family family = reply_family(r);
    return family == REPLY_QUEUES      ? r->queue_count
           : family == REPLY_KV        ? r->kv_count
           : family == REPLY_SCHEDULES ? r->schedule_count
                                       : r->alert_count;
}

static int has_any(struct migrate_store *s, struct op op, const char *what, bool *ret)
{
    int status;
    struct reply *r = migrate_need(s, op, what, &status);
    if (r)
        *ret |= list_count(r) > 0;
    mem_free(r);
    return status;
}

int target_empty(struct migrate *m, bool *ret)
{
    struct op queues = {.kind = OP_QUEUE_LIST}, keys = {.kind = OP_KV_LIST},
              schedules = {.kind = OP_SCHEDULE_LIST}, alerts = {.kind = OP_ALERT_LIST};
    bool any = false;
    queues.queue.limit = keys.kv_list.limit = schedules.schedule.limit = 1;
    int status = has_any(&m->to, queues, "queues", &any);
    if (status == CLIENT_DONE)
        status = has_any(&m->to, keys, "keys", &any);
    if (status == CLIENT_DONE)
        status = has_any(&m->to, schedules, "schedules", &any);
    if (status == CLIENT_DONE)
        status = has_any(&m->to, alerts, "alert rules", &any);
    *ret = !any;
    return status;
}

/* ---- going on ---- */

static int foreign(const char *what)
{
    return client_complain(CLIENT_REFUSED,
                           "the target has %s; --resume continues only an interrupted "
                           "migration of the same source",
                           what);
}

static bool source_has_queue(const struct migrate *m, struct span name)
{
    for (size_t p = 0; p < m->queue_pages; p++)
        for (uint32_t i = 0; i < m->queues[p]->queue_count; i++)
            if (span_equal(m->queues[p]->queues[i].name, name))
                return true;
    return false;
}

/* Whether the queue is in the state in which copy_queues leaves it. */
static bool waits(const struct queue_view *q)
{
    return q->paused_until.ms == LIMIT_WALL_MS && q->policy->capacity == UINT64_MAX &&
           q->policy->keep_dead == UINT64_MAX;
}

static int queue_known(struct migrate *m, const struct queue_view *q)
{
    if (!source_has_queue(m, q->name))
        return foreign("a queue that the source does not have");
    m->released |= !waits(q);
    return CLIENT_DONE;
}

static int queues_known(struct migrate *m)
{
    struct op op = {.kind = OP_QUEUE_LIST};
    struct reply *page, *before = NULL;
    int status = CLIENT_DONE;
    op.queue.limit = PAGE_NAMES;
    while (status == CLIENT_DONE && (page = migrate_need(&m->to, op, "queues", &status))) {
        mem_free(before);
        before = page;
        for (uint32_t i = 0; i < page->queue_count && status == CLIENT_DONE; i++)
            status = queue_known(m, &page->queues[i]);
        if (page->queue_count == 0)
            break;
        op.queue.after = page->queues[page->queue_count - 1].name;
    }
    mem_free(before);
    return status;
}

/* Counts the jobs up to this sequence; *ret_id_hi is the upper half of the id of the job with
 * this sequence. */
static int jobs_upto(struct migrate_store *s, uint64_t last, uint64_t *ret_count,
                     uint64_t *ret_id_hi)
{
    struct job_page page;
    uint64_t after = 0;
    *ret_count = *ret_id_hi = 0;
    do {
        int status = job_page_read(s, after, PAGE_BARE, &page);
        if (status != CLIENT_DONE)
            return status;
        for (uint32_t i = 0; i < page.count; i++) {
            const struct job *j = &page.jobs[i].job;
            if (j->seq > last)
                continue;
            ++*ret_count;
            *ret_id_hi = j->seq == last ? j->id_hi : *ret_id_hi;
        }
        bool beyond = page.count > 0 && page.jobs[page.count - 1].job.seq >= last;
        after = beyond ? 0 : page.next;
        job_page_free(&page);
    } while (after != 0);
    return CLIENT_DONE;
}

/* The last job that the target got; seq 0 = it has none. */
static int newest_job(struct migrate *m, struct job_ref *ret)
{
    struct op op = {.kind = OP_LIST};
    struct reply *r;
    int status;
    *ret = (struct job_ref){0, 0};
    op.list.limit = 1;
    op.list.newest_first = true;
    while ((r = migrate_need(&m->to, op, "its newest job", &status))) {
        bool found = r->job_count > 0;
        if (found)
            *ret = (struct job_ref){r->jobs[0].job.seq, r->jobs[0].job.id_hi};
        op.list.after = r->cursor;
        mem_free(r);
        if (found || op.list.after == 0)
            break;
    }
    return status;
}

int resume_point(struct migrate *m, uint64_t *ret_after)
{
    struct job_ref last;
    uint64_t here, there, hi, unused;
    int status = queues_known(m);
    if (status == CLIENT_DONE)
        status = newest_job(m, &last);
    *ret_after = 0;
    if (status != CLIENT_DONE || last.seq == 0)
        return status;
    status = jobs_upto(&m->from, last.seq, &here, &hi);
    if (status == CLIENT_DONE)
        status = jobs_upto(&m->to, LIMIT_SEQ, &there, &unused);
    if (status != CLIENT_DONE)
        return status;
    if (hi != last.hi || here != there)
        return foreign("jobs that are not the first ones of the source");
    m->there = there;
    *ret_after = last.seq;
    return CLIENT_DONE;
}
