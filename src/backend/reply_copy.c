/* SPDX-License-Identifier: Apache-2.0 */
/* The same code visits the reply twice: without a block it adds up the size, then it copies. */
#include "backend/reply_copy.h"

#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/jobs/job_texts.h"

struct block {
    char *at; /* NULL = only measuring */
    size_t used;
};

/* Reserves `size` bytes and copies them; NULL while measuring. */
static void *place(struct block *b, const void *from, size_t size, size_t align)
{
    b->used = (b->used + align - 1) / align * align;
    char *to = b->at ? b->at + b->used : NULL;
    if (to && size > 0)
        memcpy(to, from, size);
    b->used += size;
    return to;
}

static struct span place_span(struct block *b, struct span s)
{
    if (s.len == 0)
        return (struct span){NULL, 0};
    return (struct span){place(b, s.at, s.len, 1), s.len};
}

static void place_extra(struct block *b, const struct job_extra *from, struct job_extra *to)
{
    struct job_extra x = *from;
    for (size_t i = 0; i < JOB_TEXTS; i++)
        *job_text_at(&x, i) = place_span(b, job_text_of(from, i));
    x.options = place_span(b, from->options);
    x.undelivered = place_span(b, from->undelivered);
    if (to)
        *to = x;
}

static const struct attempt_view *place_attempts(struct block *b, const struct attempt_view *from,
                                                 uint32_t count)
{
    struct attempt_view *to = place(b, from, count * sizeof *from, alignof(struct attempt_view));
    for (uint32_t i = 0; i < count; i++) {
        struct attempt_view v = from[i];
        v.queue = place_span(b, from[i].queue);
        v.worker = place_span(b, from[i].worker);
        v.error = place_span(b, from[i].error);
        if (to)
            to[i] = v;
    }
    return count > 0 ? to : NULL;
}

static void place_job(struct block *b, const struct job_view *from, struct job_view *to)
{
    struct job_view v = *from;
    v.queue = place_span(b, from->queue);
    v.owner = place_span(b, from->owner);
    v.worker = place_span(b, from->worker);
    v.payload = place_span(b, from->payload);
    v.result = place_span(b, from->result);
    v.error = place_span(b, from->error);
    v.progress = place_span(b, from->progress);
    v.log = place_span(b, from->log);
    v.steps = place_span(b, from->steps);
    place_extra(b, &from->extra, &v.extra);
    v.attempts = place_attempts(b, from->attempts, from->attempt_count);
    if (from->parents)
        v.parents = place(b, from->parents, from->parent_count * sizeof *from->parents,
                          alignof(struct job_ref));
    if (from->wait)
        v.wait = place(b, from->wait, sizeof *from->wait, alignof(struct job_wait));
    if (to)
        *to = v;
}

static void place_queue(struct block *b, const struct queue_view *from, struct queue_view *to)
{
    struct queue_view v = *from;
    v.name = place_span(b, from->name);
    v.owner = place_span(b, from->owner);
    v.note = place_span(b, from->note);
    v.attributes = place_span(b, from->attributes);
    if (from->policy)
        v.policy = place(b, from->policy, sizeof *from->policy, alignof(struct queue_policy));
    if (to)
        *to = v;
}

static void place_schedule(struct block *b, const struct schedule_view *from,
                           struct schedule_view *to)
{
    struct schedule_view v = *from;
    v.name = place_span(b, from->name);
    v.owner = place_span(b, from->owner);
    v.note = place_span(b, from->note);
    v.attributes = place_span(b, from->attributes);
    v.spec.cron = place_span(b, from->spec.cron);
    v.spec.zone = place_span(b, from->spec.zone);
    v.spec.source = place_span(b, from->spec.source);
    v.spec.queue = place_span(b, from->spec.queue);
    v.spec.payload = place_span(b, from->spec.payload);
    place_extra(b, &from->spec.extra, &v.spec.extra);
    if (to)
        *to = v;
}

static struct schedule_view *place_schedules(struct block *b, const struct reply *from)
{
    struct schedule_view *to =
        place(b, from->schedules, from->schedule_count * sizeof *from->schedules,
              alignof(struct schedule_view));
    for (uint32_t i = 0; i < from->schedule_count; i++)
        place_schedule(b, &from->schedules[i], to ? &to[i] : NULL);
    return from->schedule_count > 0 ? to : NULL;
}

static struct worker_view *place_workers(struct block *b, const struct reply *from)
{
    struct worker_view *to = place(b, from->workers, from->worker_count * sizeof *from->workers,
                                   alignof(struct worker_view));
    for (uint32_t i = 0; i < from->worker_count; i++) {
        struct span name = place_span(b, from->workers[i].name);
        if (to)
            to[i].name = name;
    }
    return from->worker_count > 0 ? to : NULL;
}

static struct worker_entry *place_entries(struct block *b, const struct reply *from)
{
    struct worker_entry *to = place(b, from->entries, from->entry_count * sizeof *from->entries,
                                    alignof(struct worker_entry));
    for (uint32_t i = 0; i < from->entry_count; i++) {
        struct span name = place_span(b, from->entries[i].name);
        struct span facts = place_span(b, from->entries[i].facts);
        if (to)
            to[i].name = name;
        if (to)
            to[i].facts = facts;
    }
    return from->entry_count > 0 ? to : NULL;
}

static struct kv_view *place_kvs(struct block *b, const struct reply *from)
{
    struct kv_view *to =
        place(b, from->kvs, from->kv_count * sizeof *from->kvs, alignof(struct kv_view));
    for (uint32_t i = 0; i < from->kv_count; i++) {
        struct span key = place_span(b, from->kvs[i].key);
        struct span value = place_span(b, from->kvs[i].value);
        if (to) {
            to[i].key = key;
            to[i].value = value;
        }
    }
    return from->kv_count > 0 ? to : NULL;
}

static void place_rule(struct block *b, const struct alert_rule *from, struct alert_rule *to)
{
    to->queue = place_span(b, from->queue);
    to->url = place_span(b, from->url);
    to->secret = place_span(b, from->secret);
}

static const struct alert_view *place_alerts(struct block *b, const struct reply *from)
{
    struct alert_view *to = place(b, from->alerts, from->alert_count * sizeof *from->alerts,
                                  alignof(struct alert_view));
    for (uint32_t i = 0; i < from->alert_count; i++) {
        struct alert_view v = from->alerts[i];
        struct raised_view *raised =
            place(b, v.raised, v.raised_count * sizeof *v.raised, alignof(struct raised_view));
        for (uint32_t k = 0; k < v.raised_count; k++) {
            struct span queue = place_span(b, v.raised[k].queue);
            if (raised)
                raised[k].queue = queue;
        }
        v.name = place_span(b, v.name);
        place_rule(b, &from->alerts[i].rule, &v.rule);
        v.raised = raised;
        if (to)
            to[i] = v;
    }
    return from->alert_count > 0 ? to : NULL;
}

static const struct notice_view *place_notices(struct block *b, const struct reply *from)
{
    struct notice_view *to = place(b, from->notices, from->notice_count * sizeof *from->notices,
                                   alignof(struct notice_view));
    for (uint32_t i = 0; i < from->notice_count; i++) {
        struct notice_view v = from->notices[i];
        v.notice.alert = place_span(b, v.notice.alert);
        v.notice.queue = place_span(b, v.notice.queue);
        v.notice.subject = place_span(b, v.notice.subject);
        v.notice.text = place_span(b, v.notice.text);
        v.tried.error = place_span(b, v.tried.error);
        v.url = place_span(b, v.url);
        v.secret = place_span(b, v.secret);
        if (to)
            to[i] = v;
    }
    return from->notice_count > 0 ? to : NULL;
}

static const struct breaker_view *place_breakers(struct block *b, const struct reply *from)
{
    struct breaker_view *to = place(b, from->breakers, from->breaker_count * sizeof *from->breakers,
                                    alignof(struct breaker_view));
    for (uint32_t i = 0; i < from->breaker_count; i++) {
        struct span target = place_span(b, from->breakers[i].target);
        if (to)
            to[i].target = target;
    }
    return from->breaker_count > 0 ? to : NULL;
}

static const struct job_view *place_jobs(struct block *b, const struct reply *from)
{
    struct job_view *to =
        place(b, from->jobs, from->job_count * sizeof *from->jobs, alignof(struct job_view));
    for (uint32_t i = 0; i < from->job_count; i++)
        place_job(b, &from->jobs[i], to ? &to[i] : NULL);
    return from->job_count > 0 ? to : NULL;
}

static const struct queue_view *place_queues(struct block *b, const struct reply *from)
{
    struct queue_view *to = place(b, from->queues, from->queue_count * sizeof *from->queues,
                                  alignof(struct queue_view));
    for (uint32_t i = 0; i < from->queue_count; i++)
        place_queue(b, &from->queues[i], to ? &to[i] : NULL);
    return from->queue_count > 0 ? to : NULL;
}

static const struct enqueued_view *place_enqueued(struct block *b, const struct enqueued_view *from,
                                                  uint32_t count)
{
    const struct enqueued_view *to =
        place(b, from, count * sizeof *from, alignof(struct enqueued_view));
    return count > 0 ? to : NULL;
}

static const struct kv_commit_reply *place_handoff(struct block *b,
                                                   const struct kv_commit_reply *from)
{
    if (!from)
        return NULL;
    struct kv_commit_reply *to = place(b, from, sizeof *from, alignof(struct kv_commit_reply));
    const struct enqueued_view *views = place_enqueued(b, from->enqueued, from->enqueued_count);
    if (to)
        to->enqueued = views;
    return to;
}

static const struct hour_view *place_hours(struct block *b, const struct reply *from)
{
    const struct hour_view *to =
        place(b, from->hours, from->hour_count * sizeof *from->hours, alignof(struct hour_view));
    return from->hour_count > 0 ? to : NULL;
}

/* Copies what the struct of the reply's family points to; `r` is a copy of `from`. */
static void place_family(struct block *b, const struct reply *from, struct reply *r)
{
    switch (reply_family(from)) {
    case REPLY_CHANGE:
        if (from->kind == OP_ACK)
            r->handoff = place_handoff(b, from->handoff);
        r->queue = place_span(b, from->queue);
        r->worker = place_span(b, from->worker);
        break;
    case REPLY_JOBS:
        r->jobs = place_jobs(b, from);
        break;
    case REPLY_QUEUES:
        r->queues = place_queues(b, from);
        break;
    case REPLY_WORKERS:
        r->workers = place_workers(b, from);
        break;
    case REPLY_REGISTRY:
        r->entries = place_entries(b, from);
        break;
    case REPLY_ATTEMPTS:
        r->attempts = place_attempts(b, from->attempts, from->attempt_count);
        break;
    case REPLY_HISTORY:
        r->hours = place_hours(b, from);
        break;
    case REPLY_KV_COMMIT:
        r->enqueued = place_enqueued(b, from->enqueued, from->enqueued_count);
        break;
    case REPLY_KV:
        r->kvs = place_kvs(b, from);
        r->kv_cursor = place_span(b, from->kv_cursor);
        break;
    case REPLY_ALERTS:
        r->alerts = place_alerts(b, from);
        break;
    case REPLY_NOTICES:
        r->notices = place_notices(b, from);
        break;
    case REPLY_BREAKERS:
        r->breakers = place_breakers(b, from);
        break;
    case REPLY_SCHEDULES:
        r->schedules = place_schedules(b, from);
        break;
    case REPLY_PLAIN:
    case REPLY_ENQUEUE:
    case REPLY_BULK:
    case REPLY_CLOCK:
    case REPLY_FAMILY_COUNT:
        break;
    }
}

static struct reply *place_reply(struct block *b, const struct reply *from)
{
    struct reply *to = place(b, from, sizeof *from, alignof(max_align_t));
    struct reply r = *from;
    place_family(b, from, &r);
    r.note = from->note ? place(b, from->note, strlen(from->note) + 1, 1) : NULL;
    if (to)
        *to = r;
    return to;
}

struct reply *reply_copy(const struct reply *reply)
{
    struct block block = {NULL, 0};
    place_reply(&block, reply);
    size_t room = block.used;
    block = (struct block){mem_alloc(room), 0};
    if (!block.at)
        return NULL;
    struct reply *copy = place_reply(&block, reply);
    CHECK(block.used == room);
    return copy;
}
