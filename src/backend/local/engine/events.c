/* SPDX-License-Identifier: Apache-2.0 */
/* Events: a ring of the newest events, each with the position that must be durable before clients
 * may see it.
 *
 * Event number n of this boot (1, 2, …) is at index n modulo the size of the ring. Positions never
 * decrease with rising numbers, so one number separates the durable events from the others. If the
 * disk is slower than the ring is refilled, events are lost that no client has seen; clients notice
 * the gap in the numbers.
 *
 * Only a step creates events; loading and replaying do not. */
#include "backend/local/engine/engine_impl.h"
#include "backend/record_events.h"

static struct event *event_at(const struct engine *e, uint64_t number)
{
    return &e->events[number & e->event_mask];
}

static uint64_t event_oldest(const struct engine *e)
{
    uint64_t room = e->config.event_ring;
    return e->event_last > room ? e->event_last - room + 1 : 1;
}

static struct event *event_push(struct engine *e)
{
    uint64_t number = ++e->event_last;
    if (e->event_keys) {
        mem_free(e->event_keys[number & e->event_mask]);
        e->event_keys[number & e->event_mask] = NULL;
    }
    return event_at(e, number);
}

/* Keys are kept beside the ring: few stores have events of keys, and most of them few. Without
 * memory for one the event has none, which its listeners take for a gap. */
static void push_key(struct engine *e, enum event_kind kind, struct span key, uint64_t version)
{
    if (!e->event_keys)
        e->event_keys = mem_array(e->config.event_ring, sizeof(struct event_key *));
    *event_push(e) = (struct event){
        .position = e->position,
        .at_ms = e->now.wall.ms,
        .subject = version,
        .kind = (uint8_t)kind,
    };
    struct event_key *kept = e->event_keys ? mem_alloc(sizeof *kept + key.len) : NULL;
    if (!kept)
        return;
    kept->len = (uint32_t)key.len;
    memcpy(kept->text, key.at, key.len);
    e->event_keys[e->event_last & e->event_mask] = kept;
}

static void push_keys(struct engine *e, const struct record *r)
{
    struct span list = r->kv_gone.keys, key;
    if (r->kind == REC_KV_SET)
        push_key(e, EVENT_KV_SET, r->kv_set.key, r->kv_set.version);
    else if (r->kind == REC_KV_FROM_JOB)
        push_key(e, EVENT_KV_SET, r->kv_from_job.key, r->kv_from_job.version);
    else if (r->kind == REC_KV_GONE)
        while (list.len > 0 && record_span_next(&list, &key) == 0)
            push_key(e, EVENT_KV_DELETED, key, r->kv_gone.version);
}

/* Written field by field: every record of every job gets here, and a compound literal would be
 * built elsewhere first and copied. */
static void push_job(struct engine *e, enum event_kind kind, const struct job *j)
{
    struct event *v = event_push(e);
    v->position = e->position;
    v->at_ms = e->now.wall.ms;
    v->subject = j->seq;
    v->id_hi = j->id_hi;
    v->run_at_ms = j->run_at.ms;
    v->queue = j->queue;
    v->schedule = 0;
    v->failures = j->failures;
    v->crashes = j->crashes;
    v->state = j->state;
    v->reason = j->reason;
    v->payload_kind = j->payload_kind;
    v->flags = j->flags;
    v->kind = (uint8_t)kind;
    v->alert = 0;
}

void events_queue(struct engine *e, enum event_kind kind, const struct queue *q, uint64_t count)
{
    *event_push(e) = (struct event){
        .position = e->position,
        .at_ms = e->now.wall.ms,
        .subject = count,
        .queue = q ? q->number : 0,
        .kind = (uint8_t)kind,
    };
}

void events_alert(struct engine *e, const struct alert *a, struct span queue, bool raised,
                  uint64_t value)
{
    *event_push(e) = (struct event){
        .position = e->position,
        .at_ms = e->now.wall.ms,
        .subject = value,
        .queue = queue.len ? engine_queue_number(e, queue) : 0,
        .kind = raised ? EVENT_ALERT_RAISED : EVENT_ALERT_CLEARED,
        .alert = a->number,
    };
}

void events_schedule(struct engine *e, enum event_kind kind, const struct schedule *s,
                     const struct live *job)
{
    struct event *v = event_push(e);
    *v = (struct event){
        .position = e->position,
        .at_ms = e->now.wall.ms,
        .schedule = s->number,
        .kind = (uint8_t)kind,
    };
    if (job) {
        v->subject = job->job.seq;
        v->id_hi = job->job.id_hi;
        v->queue = job->job.queue;
        v->state = job->job.state;
        v->flags = job->job.flags;
    } else {
        v->subject = s->state.failures;
    }
    if (kind == EVENT_SCHEDULE_FAILED && e->alerts.count)
        alerts_happened(e, ALERT_SCHEDULE_FAILED, s->spec.queue, schedule_name(s),
                        span_text(schedule_error_name(s->state.error)));
}

/* Called after every record of a job: each rise of the depth is one job's. */
void events_depth(struct engine *e, struct queue *q)
{
    uint64_t depth = q->lists[STATE_READY].count + q->lists[STATE_SCHEDULED].count;
    if (depth_warns(q->policy.warn_depth, depth, &q->deep))
        events_queue(e, EVENT_QUEUE_DEEP, q, depth);
}

void events_record(struct engine *e, const struct record *r)
{
    enum event_kind kind = record_event(r);
    if (kind == EVENT_KIND_COUNT) {
        if (r->kind >= REC_KV_SET && r->kind <= REC_KV_FROM_JOB)
            push_keys(e, r);
        return;
    }
    const struct job *j = &r->job_new.job;
    if (r->kind != REC_JOB_NEW) {
        /* The sequence is the first member of each of these; applying it has just found the job. */
        uint64_t seq = r->job_ready.seq;
        const struct live *l =
            e->memo_seq == seq ? live_at(e, e->memo_handle) : jobs_by_seq(e, seq, NULL);
        if (!l)
            return;
        j = &l->job;
    }
    if (kind == EVENT_PROGRESS && !progress_pace_take(&e->pace, j->seq, e->now.wall.ms))
        return;
    push_job(e, kind, j);
    struct queue *q = queue_at(e, j->queue);
    if (q->policy.warn_depth)
        events_depth(e, q);
}

void events_boot(struct engine *e)
{
    e->event_last = e->event_durable = 0;
    for (size_t n = 0; n < e->queue_total; n++) {
        struct queue *q = e->queues[n];
        uint64_t depth = q ? q->lists[STATE_READY].count + q->lists[STATE_SCHEDULED].count : 0;
        if (q)
            q->deep = q->policy.warn_depth && depth >= q->policy.warn_depth;
    }
}

/* --- names of queues that are gone --- */

void events_keep_name(struct engine *e, struct queue *q)
{
    struct ghost *g = &e->ghosts[e->ghost_next++ % GHOSTS];
    mem_free(g->name);
    *g = (struct ghost){.queue = q->number, .name = q->name, .len = q->name_len};
    q->name = NULL;
}

void events_free(struct engine *e)
{
    for (size_t i = 0; i < GHOSTS; i++)
        mem_free(e->ghosts[i].name);
    for (size_t i = 0; e->event_keys && i <= e->event_mask; i++)
        mem_free(e->event_keys[i]);
    mem_free(e->event_keys);
    progress_pace_done(&e->pace);
    mem_free(e->events);
}

static struct span name_of(const struct engine *e, uint32_t queue)
{
    if (queue_at(e, queue))
        return engine_queue_name(e, queue);
    for (size_t i = 0; queue && i < GHOSTS; i++)
        if (e->ghosts[i].queue == queue)
            return span_of(e->ghosts[i].name, e->ghosts[i].len);
    return (struct span){NULL, 0};
}

/* --- telling --- */

void engine_events_durable(struct engine *e, uint64_t position)
{
    uint64_t first = event_oldest(e);
    while (e->event_durable < e->event_last) {
        uint64_t next = e->event_durable + 1 > first ? e->event_durable + 1 : first;
        if (event_at(e, next)->position > position)
            return;
        e->event_durable = next;
    }
}

uint64_t engine_events_last(const struct engine *e)
{
    return event_id(e->epoch, e->event_durable);
}

static void tell(const struct engine *e, uint64_t number, struct backend_event *ret)
{
    const struct event *v = event_at(e, number);
    struct job counts = {.failures = v->failures, .crashes = v->crashes, .state = v->state};
    *ret = (struct backend_event){
        .id = event_id(e->epoch, number),
        .kind = v->kind,
        .at = {v->at_ms},
        .seq = v->id_hi ? v->subject : 0,
        .id_hi = v->id_hi,
        .queue = name_of(e, v->queue),
        .state = v->state,
        .reason = v->reason,
        .attempts = job_attempts(&counts),
        .run_at = {v->run_at_ms},
        .has_extra = (v->flags & JOB_HAS_EXTRA) != 0,
        .count = v->id_hi ? 0 : v->subject,
        .alert = v->alert ? alert_name_of(e, v->alert) : (struct span){NULL, 0},
    };
    const struct schedule *schedule = v->schedule ? schedule_at(e, v->schedule) : NULL;
    if (schedule)
        ret->schedule = schedule_name(schedule);
    if (v->kind != EVENT_KV_SET && v->kind != EVENT_KV_DELETED)
        return;
    const struct event_key *key = e->event_keys ? e->event_keys[number & e->event_mask] : NULL;
    ret->count = 0;
    ret->version = v->subject;
    if (key)
        ret->key = span_of(key->text, key->len);
}

size_t engine_events(const struct engine *e, uint64_t after, uint64_t mask,
                     struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    uint64_t number = event_oldest(e);
    size_t n = 0;
    *ret_oldest = event_id(e->epoch, number);
    if (after >= *ret_oldest)
        number = after - event_id(e->epoch, 0) + 1;
    for (; n < max && number <= e->event_durable; number++)
        if (!mask || mask >> event_at(e, number)->kind & 1)
            tell(e, number, &out[n++]);
    return n;
}
