/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines for operators: jobs that died, queues that reached warn_depth, schedules that fail. It
 * is a listener like any other, so each line is about something durable. */
#include "broker/broker_impl.h"
#include "core/jobs/headers.h"
#include "core/jobs/id.h"

static void announce_dead(const struct broker *b, const struct broker_event *e)
{
    char id[ID_ULID_BYTES];
    id_ulid(id_make(e->event.id_hi, e->event.seq), id);
    log_event(b->config.log, LOG_WARN, "job_dead", LOG_SPAN("queue", e->event.queue),
              LOG_TEXT("job", id), LOG_TEXT("reason", reason_name(e->event.reason)),
              LOG_INT("attempts", e->event.attempts), LOG_SPAN("correlation_id", e->correlation),
              LOG_SPAN("kind", e->kind), LOG_SPAN("trace_id", headers_trace_id(e->headers)));
}

static bool event_cb(void *ctx, const struct broker_event *e)
{
    const struct broker *b = ctx;
    if (e->event.kind == EVENT_DEAD)
        announce_dead(b, e);
    else if (e->event.kind == EVENT_SCHEDULE_FAILED)
        log_event(b->config.log, LOG_WARN, "schedule_failed",
                  LOG_SPAN("schedule", e->event.schedule));
    else
        log_event(b->config.log, LOG_WARN, "queue_deep", LOG_SPAN("queue", e->event.queue),
                  LOG_INT("waiting", e->event.count));
    return true;
}

static bool gap_cb(void *ctx, uint64_t oldest)
{
    const struct broker *b = ctx;
    (void)oldest;
    log_event(b->config.log, LOG_WARN, "events_not_logged");
    return true;
}

int announce_open(struct broker *b)
{
    if (!b->config.log)
        return 0;
    struct broker_listener_config config = {
        .kinds = UINT64_C(1) << EVENT_DEAD | UINT64_C(1) << EVENT_QUEUE_DEEP |
                 UINT64_C(1) << EVENT_SCHEDULE_FAILED,
        .event = event_cb,
        .gap = gap_cb,
        .ctx = b,
    };
    return broker_listen(b, &config, &b->announcer);
}

void announce_close(struct broker *b)
{
    broker_listener_close(b->announcer);
    b->announcer = NULL;
}
