/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events about jobs and queues, and streams of jobs for workers. */
#include <inttypes.h>
#include <stdio.h>

#include "api/streams/event_feed.h"
#include "api/streams/stream.h"
#include "api/v1/event_names.h"
#include "api/v1/jobs/job_view.h"
#include "api/v1/v1_impl.h"
#include "broker/event_json.h"
#include "core/limits.h"
#include "core/validate.h"

#define NUMBER_TEXT_BYTES 24
#define PREFETCH 10

/* In the order of the enum; a test checks this. */
const char *const event_names[] = {
    "enqueued",       "ready",         "claimed",       "retried",          "crashed",
    "released",       "done",          "dead",          "cancel_requested", "cancelled",
    "requeued",       "patched",       "queue_created", "queue_changed",    "queue_deleted",
    "queue_paused",   "queue_resumed", "queue_purged",  "queue_deep",       "clock_suspect",
    "kv_set",         "kv_deleted",    "alert_raised",  "alert_cleared",    "schedule_failed",
    "schedule_fired", "progress",      "inbox_refused", "unblocked",        NULL};
_Static_assert(sizeof event_names / sizeof *event_names == EVENT_KIND_COUNT + 1,
               "every kind of event has a name");

/* ---- events ---- */

void event_write(struct json_writer *w, const struct broker_event *from)
{
    struct event_view v;
    event_of_stream(&v, from);
    json_write_object(w);
    event_members_write(w, &v);
    progress_write(w, from->progress);
    json_write_object_end(w);
}

static const char *name_of(const struct broker_event *e)
{
    return event_name(e->event.kind);
}

static const struct event_format format = {name_of, event_write};

/* ---- the request ---- */

struct events_in {
    struct span queue;
    uint64_t events; /* mask; 0 = all */
    int64_t after;
};

/* The queue is last: in the route of one queue it is in the path. */
static const struct field event_rows[] = {
    {"events", FIELD_ENUM_SET, offsetof(struct events_in, events), 0, 0, event_names, 0},
    {"after", FIELD_INT, offsetof(struct events_in, after), 0, INT64_MAX, NULL, 0},
    {"queue", FIELD_TEXT, offsetof(struct events_in, queue), FILTER_MIN, LIMIT_QUEUE_NAME_BYTES,
     NULL, 0},
};

static const struct field last_id_row[] = {
    {"Last-Event-ID", FIELD_INT, 0, 0, INT64_MAX, NULL, 0},
};

/* The header takes precedence: a client that reconnects automatically sends it. */
static int take_last_id(struct field_reader *r, struct http_exchange *x, int64_t *after,
                        bool *ret_given)
{
    struct span text = http_request_header(http_request(x), "last-event-id");
    struct field_reader header = *r;
    *ret_given = fields_has(r, "after");
    if (text.len == 0)
        return 0;
    header.table = FIELDS(last_id_row);
    header.into = after;
    *ret_given = true;
    return fields_read_one(&header, 0, text);
}

static void events_run(struct native *n, struct http_exchange *x, struct events_in *in,
                       struct fields table)
{
    struct problem p;
    bool resume;
    struct field_reader r = reader_of(n->broker, x, table, in, &p);
    if (fields_read_query(&r, http_request(x)->query) < 0 ||
        take_last_id(&r, x, &in->after, &resume) < 0) {
        problem_answer(x, &p);
        return;
    }
    struct event_filter filter = {in->queue, in->events};
    event_stream(&n->streams, x, &format, &filter, resume, (uint64_t)in->after);
}

void events_handle(void *ctx, struct http_exchange *x)
{
    struct events_in in = {0};
    events_run(ctx, x, &in, FIELDS(event_rows));
}

void queue_events_handle(void *ctx, struct http_exchange *x)
{
    struct events_in in = {0};
    struct fields table = FIELDS(event_rows);
    table.count--;
    if (path_queue(x, &in.queue))
        events_run(ctx, x, &in, table);
}

/* ---- jobs ---- */

struct listen_in {
    int64_t prefetch, lease_ms;
    struct span worker;
};

#define AT(member) offsetof(struct listen_in, member)
static const struct field listen_rows[] = {
    {"prefetch", FIELD_INT, AT(prefetch), 1, LIMIT_BATCH, NULL, 0},
    {"lease_ms", FIELD_INT, AT(lease_ms), LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS, NULL, 0},
    {"worker", FIELD_TEXT, AT(worker), 0, LIMIT_WORKER_BYTES, NULL, 0},
};

static bool job_cb(void *ctx, const struct job_view *job)
{
    struct stream *s = ctx;
    struct json_writer w;
    char id[NUMBER_TEXT_BYTES];
    if (!http_stream_room(s->x, job->payload.len))
        return false;
    snprintf(id, sizeof id, "%" PRIu64, job->job.seq);
    stream_frame_begin(s, "job", id, &w);
    job_claim_write(&w, job, broker_now(s->in->broker).wall);
    return stream_frame_send(s, &w);
}

void listen_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    struct listen_in in = {.prefetch = PREFETCH};
    struct problem p;
    struct span queue;
    struct field_reader r = reader_of(n->broker, x, FIELDS(listen_rows), &in, &p);
    if (!query_none(n->broker, x) || !path_queue(x, &queue))
        return;
    if (!body_read_optional(&r, x))
        return;
    stream_jobs(&n->streams, x,
                (struct broker_stream_config){.queue = queue,
                                              .worker = in.worker,
                                              .lease_ms = (uint32_t)in.lease_ms,
                                              .prefetch = (uint32_t)in.prefetch,
                                              .job = job_cb});
}
