/* SPDX-License-Identifier: Apache-2.0 */
/* Events: a ring of what this node did, filled after the commit. It also has the keys that other
 * nodes changed and the cancels that other nodes requested, because the worker of the job may be
 * connected here. Other changes by other nodes cause no events here; a client that needs all
 * events asks each node. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/record_events.h"
#include "backend/shared/shared.h"
#include "base/mem.h"

static struct told_event *told_at(const struct shared *s, uint64_t number)
{
    return &s->events[number % EVENT_RING];
}

static uint64_t told_oldest(const struct shared *s)
{
    uint64_t kept = s->event_last > EVENT_RING ? s->event_last - EVENT_RING + 1 : 1;
    return kept > s->event_floor ? kept : s->event_floor;
}

int shared_events_init(struct shared *s)
{
    progress_pace_init(&s->pace);
    s->events = mem_array(EVENT_RING, sizeof *s->events);
    return s->events ? 0 : -ERR_NOMEM;
}

void shared_events_free(struct shared *s)
{
    for (size_t i = 0; s->events && i < EVENT_RING; i++) {
        mem_free(s->events[i].queue);
        mem_free(s->events[i].subject);
    }
    mem_free(s->events);
    progress_pace_done(&s->pace);
}

/* What the subject of an event is depends on its kind. */
static void set_subject(struct backend_event *e, struct span subject)
{
    if (e->kind == EVENT_KV_SET || e->kind == EVENT_KV_DELETED) {
        e->key = subject;
        e->version = e->count;
        e->count = 0;
    }
    if (e->kind == EVENT_SCHEDULE_FIRED || e->kind == EVENT_SCHEDULE_FAILED)
        e->schedule = subject;
    if (e->kind == EVENT_ALERT_RAISED || e->kind == EVENT_ALERT_CLEARED)
        e->alert = subject;
}

static char *keep(char *old, struct span text)
{
    mem_free(old);
    return text.len ? mem_text(text.at, text.len) : NULL;
}

/* When memory is short, the event is stored without the text. */
static void told_push(struct shared *s, const struct happened *h)
{
    if (h->kind == EVENT_PROGRESS && !progress_pace_take(&s->pace, h->job.seq, h->at.ms))
        return;
    struct told_event *e = told_at(s, ++s->event_last);
    struct job j = h->job;
    e->queue = keep(e->queue, h->queue);
    e->subject = keep(e->subject, h->subject);
    e->event = (struct backend_event){
        .kind = h->kind,
        .at = h->at,
        .seq = j.seq,
        .id_hi = j.id_hi,
        .run_at = j.run_at,
        .queue = span_of(e->queue, e->queue ? h->queue.len : 0),
        .state = j.state,
        .reason = j.reason,
        .attempts = job_attempts(&j),
        .has_extra = (j.flags & JOB_HAS_EXTRA) != 0,
        .count = h->count,
    };
    set_subject(&e->event, span_of(e->subject, e->subject ? h->subject.len : 0));
    s->news_due = true;
}

void shared_events_take(struct shared *s, const struct unit *u)
{
    for (const struct happened *h = u->happened; h; h = h->next)
        told_push(s, h);
}

void shared_events_key(struct shared *s, uint8_t kind, struct span key, uint64_t version,
                       struct wall_time at)
{
    struct happened h = {.kind = kind, .at = at, .subject = key, .count = version};
    told_push(s, &h);
}

size_t shared_cancel_text(const struct happened *h, char out[CANCEL_TEXT_BYTES])
{
    int len =
        snprintf(out, CANCEL_TEXT_BYTES, "%" PRIu64 " %" PRIu64 " %u %u %.*s", h->job.seq,
                 h->job.id_hi, h->job.failures, h->job.crashes, (int)h->queue.len, h->queue.at);
    return (size_t)len;
}

void shared_events_cancel(struct shared *s, const char *text)
{
    uint64_t number[4];
    char *end = NULL;
    for (size_t i = 0; i < 4; i++, text = end + 1) {
        number[i] = strtoull(text, &end, 10);
        if (end == text || *end != ' ') {
            shared_events_gap(s); /* every client of the store may write to the channel */
            return;
        }
    }
    struct happened h = {.kind = EVENT_CANCEL_REQUESTED,
                         .at = {shared_now(s)},
                         .job = {.seq = number[0],
                                 .id_hi = number[1],
                                 .failures = (uint16_t)number[2],
                                 .crashes = (uint16_t)number[3],
                                 .state = STATE_RUNNING},
                         .queue = span_of(text, strnlen(text, LIMIT_QUEUE_NAME_BYTES))};
    told_push(s, &h);
}

/* Leaves out one number: clients that have seen all events before it notice that they missed
 * something. */
void shared_events_gap(struct shared *s)
{
    s->event_floor = ++s->event_last + 1;
    s->news_due = true;
}

size_t shared_events(const struct backend *b, uint64_t after, uint64_t kinds,
                     struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    const struct shared *s = (const struct shared *)(const void *)b;
    uint64_t number = told_oldest(s);
    size_t n = 0;
    *ret_oldest = event_id(s->facts.epoch, number);
    if (after >= *ret_oldest)
        number = after - event_id(s->facts.epoch, 0) + 1;
    for (; n < max && number <= s->event_last; number++) {
        if (kinds && !(kinds >> told_at(s, number)->event.kind & 1))
            continue;
        out[n] = told_at(s, number)->event;
        out[n++].id = event_id(s->facts.epoch,
                               number); /* not of the epoch it was pushed in, which may be over */
    }
    return n;
}

uint64_t shared_events_last(const struct backend *b)
{
    const struct shared *s = (const struct shared *)(const void *)b;
    return event_id(s->facts.epoch, s->event_last);
}

void shared_on_news(struct backend *b, backend_news_fn fn, void *ctx)
{
    struct shared *s = shared_of(b);
    s->news = fn;
    s->news_ctx = ctx;
    s->news_due = false;
}

void shared_events_call(struct shared *s)
{
    bool due = s->news_due;
    s->news_due = false;
    if (due && s->news)
        s->news(s->news_ctx);
}
