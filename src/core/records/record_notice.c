/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies of the records about alert rules, notices and breakers. */
#include "core/alerts/webhook.h"
#include "core/limits.h"
#include "core/records/record_impl.h"

#define put_name put_span
#define wire_max_name wire_max_span
static struct span take_name(struct wire_in *in)
{
    struct span name = take_span(in);
    if (alert_name_check(name, NULL) != 0)
        wire_spoil(in);
    return name;
}

static bool name_fits(struct span name)
{
    return name.len > 0 && name.len <= LIMIT_ALERT_NAME_BYTES;
}

/* ---- rules ---- */

static bool alert_put_fits(const struct record *r)
{
    const struct rec_alert_put *a = &r->alert_put;
    return name_fits(a->name) && wall_fits(a->created_at) && wall_fits(a->updated_at) &&
           alert_rule_check(&a->rule, NULL) == 0;
}

#define ALERT_PUT(F)                                                                               \
    F(name, name)                                                                                  \
    F(bool, condition_changed)                                                                     \
    F(wall, created_at)                                                                            \
    F(wall, updated_at)                                                                            \
    F(u8, rule.on)                                                                                 \
    F(bool, rule.enabled)                                                                          \
    F(bool, rule.with_payload)                                                                     \
    F(text, rule.queue, LIMIT_QUEUE_NAME_BYTES)                                                    \
    F(u64, rule.depth)                                                                             \
    F(u32, rule.percent)                                                                           \
    F(u32, rule.window_ms)                                                                         \
    F(u32, rule.min_ends)                                                                          \
    F(u32, rule.after_ms)                                                                          \
    F(span, rule.url)                                                                              \
    F(text, rule.secret, LIMIT_SECRET_BYTES)
RECORD(alert_put, ALERT_PUT);

static bool alert_gone_fits(const struct record *r)
{
    return name_fits(r->alert_gone.name) && wall_fits(r->alert_gone.at);
}

#define ALERT_GONE(F) F(name, name) F(wall, at)
RECORD(alert_gone, ALERT_GONE);

static bool alert_edge_fits(const struct record *r)
{
    const struct rec_alert_edge *e = &r->alert_edge;
    return name_fits(e->alert) && e->queue.len <= LIMIT_QUEUE_NAME_BYTES && wall_fits(e->at);
}

#define ALERT_EDGE(F)                                                                              \
    F(name, alert)                                                                                 \
    F(text, queue, LIMIT_QUEUE_NAME_BYTES)                                                         \
    F(bool, raised)                                                                                \
    F(wall, at)                                                                                    \
    F(u64, value)                                                                                  \
    F(u64, mark)
RECORD(alert_edge, ALERT_EDGE);

/* ---- notices ---- */

static bool notice_new_fits(const struct record *r)
{
    const struct rec_notice_new *n = &r->notice_new;
    return seq_fits(n->number) && alert_on_name(n->on) && n->edge < EDGE_COUNT &&
           wall_fits(n->at) && name_fits(n->alert) && n->queue.len <= LIMIT_QUEUE_NAME_BYTES &&
           n->job_seq <= LIMIT_SEQ && n->reason < REASON_COUNT &&
           n->subject.len <= LIMIT_QUEUE_NAME_BYTES && n->text.len <= LIMIT_NOTICE_TEXT_BYTES;
}

#define NOTICE_NEW(F)                                                                              \
    F(seq, number)                                                                                 \
    F(fixed64, id_hi)                                                                              \
    F(u8, on)                                                                                      \
    F(u8, edge)                                                                                    \
    F(wall, at)                                                                                    \
    F(name, alert)                                                                                 \
    F(text, queue, LIMIT_QUEUE_NAME_BYTES)                                                         \
    F(seq, job_seq)                                                                                \
    F(fixed64, job_hi)                                                                             \
    F(u8, reason)                                                                                  \
    F(u32, attempts)                                                                               \
    F(u64, value)                                                                                  \
    F(u64, mark)                                                                                   \
    F(text, subject, LIMIT_QUEUE_NAME_BYTES)                                                       \
    F(text, text, LIMIT_NOTICE_TEXT_BYTES)
RECORD(notice_new, NOTICE_NEW);

static bool notice_tried_fits(const struct record *r)
{
    const struct rec_notice_tried *n = &r->notice_tried;
    return seq_fits(n->number) && n->state < NOTICE_STATE_COUNT && wall_fits(n->since) &&
           wall_fits(n->due) && n->error.len <= LIMIT_NOTICE_ERROR_BYTES;
}

#define NOTICE_TRIED(F)                                                                            \
    F(seq, number)                                                                                 \
    F(u8, state)                                                                                   \
    F(u32, tries)                                                                                  \
    F(wall, since)                                                                                 \
    F(wall, due)                                                                                   \
    F(u16, status)                                                                                 \
    F(text, error, LIMIT_NOTICE_ERROR_BYTES)
RECORD(notice_tried, NOTICE_TRIED);

static bool notice_gone_fits(const struct record *r)
{
    return seq_fits(r->notice_gone.number) && r->notice_gone.end < NOTICE_END_COUNT &&
           wall_fits(r->notice_gone.at);
}

#define NOTICE_GONE(F) F(seq, number) F(u8, end) F(wall, at)
RECORD(notice_gone, NOTICE_GONE);

/* ---- breakers ---- */

static bool target_fits(struct span target)
{
    return target.len > 0 && target.len < WEBHOOK_TARGET_BYTES;
}

static bool breaker_put_fits(const struct record *r)
{
    const struct breaker *b = &r->breaker_put.breaker;
    return target_fits(r->breaker_put.target) && b->state < BREAKER_STATE_COUNT &&
           wall_fits(b->until) && wall_fits(b->changed_at) && wall_fits(b->used_at);
}

#define BREAKER_PUT(F)                                                                             \
    F(text, target, WEBHOOK_TARGET_BYTES - 1)                                                      \
    F(u8, breaker.state)                                                                           \
    F(u32, breaker.failures)                                                                       \
    F(u32, breaker.probes)                                                                         \
    F(wall, breaker.until)                                                                         \
    F(wall, breaker.changed_at)                                                                    \
    F(u32, breaker.own.failure_threshold)                                                          \
    F(u32, breaker.own.open_cooldown_seconds)                                                      \
    F(u32, breaker.own.half_open_probe_count)                                                      \
    F(wall, breaker.used_at)
RECORD(breaker_put, BREAKER_PUT);

static bool breaker_gone_fits(const struct record *r)
{
    return target_fits(r->breaker_gone.target);
}

#define BREAKER_GONE(F) F(text, target, WEBHOOK_TARGET_BYTES - 1)
RECORD(breaker_gone, BREAKER_GONE);
