/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from the source to the target. Every step can be repeated: existing definitions are put
 * again, and existing jobs are left alone. */
#include <inttypes.h>
#include <stdio.h>

#include "base/failpoint.h"
#include "base/mem.h"
#include "cli/client/session.h"
#include "cli/transfer/migrate_impl.h"
#include "core/limits.h"

#define PAGE_NAMES 500
#define PAGE_KEYS 500
#define BATCH_JOBS 500
#define BATCH_BYTES                                                                                \
    ((uint64_t)24 << 20) /* of bodies in one submit, unless a single job has more                  \
                          */

/* ---- lists ---- */

int migrate_each_queue(struct migrate *m, queue_fn fn)
{
    int status = CLIENT_DONE;
    for (size_t p = 0; p < m->queue_pages && status == CLIENT_DONE; p++)
        for (uint32_t i = 0; i < m->queues[p]->queue_count && status == CLIENT_DONE; i++)
            status = fn(m, &m->queues[p]->queues[i]);
    return status;
}

int each_keys(struct migrate *m, struct migrate_store *s, bool values, keys_fn fn, void *ctx)
{
    struct reply *page, *before = NULL; /* the cursor points into the last page */
    struct op op = {.kind = OP_KV_LIST};
    int status = CLIENT_DONE;
    op.kv_list.limit = PAGE_KEYS;
    op.kv_list.want_value = values;
    while (status == CLIENT_DONE && (page = migrate_need(s, op, "keys", &status))) {
        mem_free(before);
        before = page;
        status = fn(m, page, ctx);
        op.kv_list.after = page->kv_cursor;
        if (op.kv_list.after.len == 0)
            break;
    }
    mem_free(before);
    return status;
}

int each_schedules(struct migrate *m, struct migrate_store *s, schedules_fn fn, void *ctx)
{
    struct reply *page, *before = NULL;
    struct op op = {.kind = OP_SCHEDULE_LIST};
    int status = CLIENT_DONE;
    op.schedule.limit = PAGE_NAMES;
    while (status == CLIENT_DONE && (page = migrate_need(s, op, "schedules", &status))) {
        mem_free(before);
        before = page;
        status = fn(m, page, ctx);
        if (page->schedule_count == 0)
            break;
        op.schedule.after = page->schedules[page->schedule_count - 1].name;
    }
    mem_free(before);
    return status;
}

struct reply *alerts_of(struct migrate_store *s, int *ret_status)
{
    struct op op = {.kind = OP_ALERT_LIST};
    op.alert.with_secrets = true;
    return migrate_need(s, op, "alert rules", ret_status);
}

/* Submits an operation to the target; a refusal ends the migration. */
static int put(struct migrate *m, struct op op, const char *what, struct span name)
{
    char words[LIMIT_QUEUE_NAME_BYTES + 40];
    int status;
    snprintf(words, sizeof words, "%s %.*s", what, (int)name.len, name.at);
    struct reply *r = migrate_need(&m->to, op, words, &status);
    mem_free(r);
    return status;
}

/* ---- queues ---- */

static struct op queue_op_of(const struct queue_view *q, const struct queue_policy *policy,
                             struct wall_time until)
{
    struct op op = {.kind = OP_QUEUE_PUT};
    op.queue = (struct op_queue){.name = q->name,
                                 .policy = policy,
                                 .has_owner = true,
                                 .has_note = true,
                                 .has_attributes = true,
                                 .owner = q->owner,
                                 .note = q->note,
                                 .attributes = q->attributes,
                                 .has_until = true,
                                 .until = until};
    return op;
}

/* Limits that the existing jobs exceed, and retention that would remove them, must not apply
 * yet. */
static int put_waiting(struct migrate *m, const struct queue_view *q)
{
    struct queue_policy open = *q->policy;
    open.capacity = UINT64_MAX;
    open.payload_max = LIMIT_PAYLOAD_BYTES;
    open.warn_depth = 0;
    open.keep_done = open.keep_dead = UINT64_MAX;
    open.keep_done_ms = open.keep_dead_ms = INT64_MAX;
    return put(m, queue_op_of(q, &open, (struct wall_time){LIMIT_WALL_MS}), "queue", q->name);
}

static int put_released(struct migrate *m, const struct queue_view *q)
{
    return put(m, queue_op_of(q, q->policy, q->paused_until), "queue", q->name);
}

int copy_queues(struct migrate *m)
{
    return migrate_each_queue(m, put_waiting);
}

int release_queues(struct migrate *m)
{
    FAILPOINT("migrate.release");
    return migrate_each_queue(m, put_released);
}

/* ---- jobs ---- */

struct job_batch {
    struct op *ops;
    struct job_moving *moving;
    struct job_view *views;
    struct reply **answers;
    size_t count;
    uint64_t bytes;
};

static int batch_init(struct job_batch *b)
{
    *b = (struct job_batch){.ops = mem_array(BATCH_JOBS, sizeof *b->ops),
                            .moving = mem_array(BATCH_JOBS, sizeof *b->moving),
                            .views = mem_array(BATCH_JOBS, sizeof *b->views),
                            .answers = mem_array(BATCH_JOBS, sizeof *b->answers)};
    return b->ops && b->moving && b->views && b->answers ? CLIENT_DONE : client_no_memory();
}

static void batch_done(struct job_batch *b)
{
    mem_free(b->ops);
    mem_free(b->moving);
    mem_free(b->views);
    mem_free(b->answers);
}

static int job_refused(struct migrate *m, const struct job_view *v, const struct reply *r)
{
    char what[LIMIT_QUEUE_NAME_BYTES + ID_ULID_BYTES + 40], id[ID_ULID_BYTES];
    id_ulid(id_make(v->job.id_hi, v->job.seq), id);
    snprintf(what, sizeof what, "job %s of queue %.*s", id, (int)v->queue.len, v->queue.at);
    return migrate_refused(&m->to, what, r);
}

static int answers_take(struct migrate *m, struct job_batch *b)
{
    int status = CLIENT_DONE;
    for (size_t i = 0; i < b->count && status == CLIENT_DONE; i++) {
        const struct reply *r = b->answers[i];
        const struct job_view *v = &b->views[i];
        bool same = r->outcome == OUT_EXISTS && r->seq == v->job.seq && r->id_hi == v->job.id_hi;
        if (r->outcome == OUT_OK)
            m->done++;
        else if (same)
            m->there++;
        else
            status = job_refused(m, v, r);
    }
    return status;
}

static int batch_send(struct migrate *m, struct job_batch *b)
{
    if (b->count == 0)
        return CLIENT_DONE;
    int status = migrate_ask_all(&m->to, b->ops, b->count, b->answers);
    if (status == CLIENT_DONE)
        status = answers_take(m, b);
    FAILPOINT("migrate.batch");
    migrate_answers_free(b->answers, b->count);
    b->count = 0;
    b->bytes = 0;
    progress_show(&m->bar, m->done + m->there, counts_jobs(&m->found), false);
    return status;
}

static int job_broken(const struct job_view *v, int err)
{
    char id[ID_ULID_BYTES];
    id_ulid(id_make(v->job.id_hi, v->job.seq), id);
    if (err == -ERR_NOMEM)
        return client_no_memory();
    return client_complain(CLIENT_REFUSED, "job %s of queue %.*s has options that cannot be read",
                           id, (int)v->queue.len, v->queue.at);
}

static int job_damaged(const struct job_view *v)
{
    char id[ID_ULID_BYTES];
    id_ulid(id_make(v->job.id_hi, v->job.seq), id);
    return client_complain(CLIENT_REFUSED,
                           "job %s of queue %.*s is damaged in the source (see `holdfast check`): "
                           "delete it there, then continue with --resume",
                           id, (int)v->queue.len, v->queue.at);
}

static int batch_add(struct migrate *m, struct job_batch *b, const struct job_view *from)
{
    if (from->damage)
        return job_damaged(from);
    uint64_t bytes = from->payload.len + from->result.len + from->log.len + from->steps.len;
    bool full = b->count == BATCH_JOBS || (b->count > 0 && b->bytes + bytes > BATCH_BYTES);
    int status = full ? batch_send(m, b) : CLIENT_DONE;
    if (status != CLIENT_DONE)
        return status;
    struct job_view *v = &b->views[b->count];
    int err = job_arrives(m->now, from, &m->arena, v);
    if (err == 0)
        err = job_op(v, &b->moving[b->count], &b->ops[b->count]);
    if (err)
        return job_broken(from, err);
    b->ops[b->count].tag = b->count;
    b->bytes += bytes;
    b->count++;
    return CLIENT_DONE;
}

static int page_copy(struct migrate *m, struct job_batch *b, const struct job_page *page)
{
    int status = CLIENT_DONE;
    for (uint32_t i = 0; i < page->count && status == CLIENT_DONE; i++)
        status = batch_add(m, b, &page->jobs[i]);
    if (status == CLIENT_DONE)
        status = batch_send(m, b); /* the cursor points into the page */
    arena_reset(&m->arena);
    return status;
}

int copy_jobs(struct migrate *m, uint64_t after)
{
    struct job_page page;
    struct job_batch b;
    int status = batch_init(&b);
    do {
        if (status == CLIENT_DONE)
            status = job_page_read(&m->from, after, PAGE_WHOLE, &page);
        if (status != CLIENT_DONE)
            break;
        status = page_copy(m, &b, &page);
        after = page.next;
        job_page_free(&page);
        if (status == CLIENT_DONE && after != 0 && migrate_interrupted())
            status = client_complain(CLIENT_REFUSED,
                                     "interrupted after %" PRIu64
                                     " jobs; the same command with --resume continues from there",
                                     m->done + m->there);
    } while (status == CLIENT_DONE && after != 0);
    batch_done(&b);
    return status;
}

/* ---- dependencies ---- */

/* One that an earlier run has closed is not open any more. */
static int waits_copy(struct migrate *m, const struct job_view *v)
{
    struct reply *r = migrate_ask(&m->to, job_waits_op(v));
    if (!r)
        return client_no_memory();
    int status =
        r->outcome == OUT_OK || r->outcome == OUT_ILLEGAL ? CLIENT_DONE : job_refused(m, v, r);
    mem_free(r);
    return status;
}

int copy_dependencies(struct migrate *m)
{
    struct job_page page;
    uint64_t after = 0;
    int status = CLIENT_DONE;
    if (m->found.jobs[STATE_BLOCKED] == 0)
        return CLIENT_DONE;
    do {
        status = job_page_read(&m->from, after, PAGE_BLOCKED, &page);
        if (status != CLIENT_DONE)
            return status;
        for (uint32_t i = 0; i < page.count && status == CLIENT_DONE; i++)
            status = waits_copy(m, &page.jobs[i]);
        FAILPOINT("migrate.dependencies");
        after = page.next;
        job_page_free(&page);
    } while (status == CLIENT_DONE && after != 0);
    return status;
}

/* ---- keys ---- */

static int keys_copy(struct migrate *m, const struct reply *page, void *ctx)
{
    (void)ctx;
    struct kv_set *sets = mem_array(page->kv_count + 1, sizeof *sets);
    struct op op = {.kind = OP_KV_COMMIT};
    uint32_t count = 0;
    if (!sets)
        return client_no_memory();
    for (uint32_t i = 0; i < page->kv_count; i++) {
        const struct kv_view *k = &page->kvs[i];
        if (k->damaged) {
            mem_free(sets);
            return client_complain(CLIENT_REFUSED,
                                   "the value of version %" PRIu64 " in the key-value store is "
                                   "damaged in the source: set or delete its key there first",
                                   k->version);
        }
        if (!key_expired(m, k))
            sets[count++] = (struct kv_set){
                .key = k->key, .expires_at = k->expires_at, .kind = k->kind, .value = k->value};
    }
    op.kv_commit.sets = sets;
    op.kv_commit.set_count = count;
    int status = count > 0 ? put(m, op, "keys and values", SPAN_LITERAL("")) : CLIENT_DONE;
    mem_free(sets);
    return status;
}

int copy_keys(struct migrate *m)
{
    return each_keys(m, &m->from, true, keys_copy, NULL);
}

/* ---- schedules and rules ---- */

static int schedules_copy(struct migrate *m, const struct reply *page, void *ctx)
{
    int status = CLIENT_DONE;
    (void)ctx;
    for (uint32_t i = 0; i < page->schedule_count && status == CLIENT_DONE; i++) {
        const struct schedule_view *s = &page->schedules[i];
        struct op op = {.kind = OP_SCHEDULE_PUT};
        op.schedule = (struct op_schedule){.name = s->name,
                                           .spec = &s->spec,
                                           .has_owner = true,
                                           .has_note = true,
                                           .has_attributes = true,
                                           .has_paused = true,
                                           .owner = s->owner,
                                           .note = s->note,
                                           .attributes = s->attributes,
                                           .paused = s->paused,
                                           .next_at = s->state.next_at};
        status = put(m, op, "schedule", s->name);
    }
    return status;
}

int copy_schedules(struct migrate *m)
{
    return each_schedules(m, &m->from, schedules_copy, NULL);
}

int copy_alerts(struct migrate *m)
{
    int status;
    struct reply *r = alerts_of(&m->from, &status);
    for (uint32_t i = 0; r && i < r->alert_count && status == CLIENT_DONE; i++) {
        struct op op = {.kind = OP_ALERT_PUT};
        op.alert.name = r->alerts[i].name;
        op.alert.rule = &r->alerts[i].rule;
        status = put(m, op, "alert rule", r->alerts[i].name);
    }
    mem_free(r);
    return status;
}
