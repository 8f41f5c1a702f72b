/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies of the records about alert rules, notices and breakers. */
#include "core/alerts/webhook.h"
#include "core/limits.h"
#include "core/records/record_impl.h"

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

static size_t alert_put_span_bytes(const struct record *r)
{
    const struct rec_alert_put *a = &r->alert_put;
    return a->name.len + a->rule.queue.len + a->rule.url.len + a->rule.secret.len;
}

static bool alert_put_fits(const struct record *r)
{
    const struct rec_alert_put *a = &r->alert_put;
    return name_fits(a->name) && wall_fits(a->created_at) && wall_fits(a->updated_at) &&
           alert_rule_check(&a->rule, NULL) == 0;
}

static uint8_t *alert_put_encode(const struct record *r, uint8_t *at)
{
    const struct rec_alert_put *a = &r->alert_put;
    at = put_span(at, a->name);
    at = put_u8(at, a->condition_changed);
    at = put_wall(at, a->created_at);
    at = put_wall(at, a->updated_at);
    at = put_u8(at, a->rule.on);
    at = put_u8(at, a->rule.enabled);
    at = put_u8(at, a->rule.with_payload);
    at = put_span(at, a->rule.queue);
    at = put_varint(at, a->rule.depth);
    at = put_varint(at, a->rule.percent);
    at = put_varint(at, a->rule.window_ms);
    at = put_varint(at, a->rule.min_ends);
    at = put_varint(at, a->rule.after_ms);
    at = put_span(at, a->rule.url);
    return put_span(at, a->rule.secret);
}

static void alert_put_decode(struct wire_in *in, struct record *ret)
{
    struct rec_alert_put *a = &ret->alert_put;
    a->name = take_name(in);
    a->condition_changed = take_bool(in);
    a->created_at = take_wall(in);
    a->updated_at = take_wall(in);
    a->rule.on = take_u8(in);
    a->rule.enabled = take_bool(in);
    a->rule.with_payload = take_bool(in);
    a->rule.queue = take_text(in, LIMIT_QUEUE_NAME_BYTES);
    a->rule.depth = take_varint(in);
    a->rule.percent = take_u32(in);
    a->rule.window_ms = take_u32(in);
    a->rule.min_ends = take_u32(in);
    a->rule.after_ms = take_u32(in);
    a->rule.url = take_span(in);
    a->rule.secret = take_text(in, LIMIT_SECRET_BYTES);
}

const struct record_type record_alert_put = {
    .name = "alert_put",
    .body_max = 4 * WIRE_U8 + 2 * WIRE_WALL + WIRE_U64 + 4 * WIRE_U32 + 4 * WIRE_LENGTH,
    .span_bytes = alert_put_span_bytes,
    .encode = alert_put_encode,
    .decode = alert_put_decode,
    .fits = alert_put_fits,
};

static size_t alert_gone_span_bytes(const struct record *r)
{
    return r->alert_gone.name.len;
}

static bool alert_gone_fits(const struct record *r)
{
    return name_fits(r->alert_gone.name) && wall_fits(r->alert_gone.at);
}

static uint8_t *alert_gone_encode(const struct record *r, uint8_t *at)
{
    at = put_span(at, r->alert_gone.name);
    return put_wall(at, r->alert_gone.at);
}

static void alert_gone_decode(struct wire_in *in, struct record *ret)
{
    ret->alert_gone.name = take_name(in);
    ret->alert_gone.at = take_wall(in);
}

const struct record_type record_alert_gone = {
    .name = "alert_gone",
    .body_max = WIRE_LENGTH + WIRE_WALL,
    .span_bytes = alert_gone_span_bytes,
    .encode = alert_gone_encode,
    .decode = alert_gone_decode,
    .fits = alert_gone_fits,
};

static size_t alert_edge_span_bytes(const struct record *r)
{
    return r->alert_edge.alert.len + r->alert_edge.queue.len;
}

static bool alert_edge_fits(const struct record *r)
{
    const struct rec_alert_edge *e = &r->alert_edge;
    return name_fits(e->alert) && e->queue.len <= LIMIT_QUEUE_NAME_BYTES && wall_fits(e->at);
}

static uint8_t *alert_edge_encode(const struct record *r, uint8_t *at)
{
    const struct rec_alert_edge *e = &r->alert_edge;
    at = put_span(at, e->alert);
    at = put_span(at, e->queue);
    at = put_u8(at, e->raised);
    at = put_wall(at, e->at);
    at = put_varint(at, e->value);
    return put_varint(at, e->mark);
}

static void alert_edge_decode(struct wire_in *in, struct record *ret)
{
    struct rec_alert_edge *e = &ret->alert_edge;
    e->alert = take_name(in);
    e->queue = take_text(in, LIMIT_QUEUE_NAME_BYTES);
    e->raised = take_bool(in);
    e->at = take_wall(in);
    e->value = take_varint(in);
    e->mark = take_varint(in);
}

const struct record_type record_alert_edge = {
    .name = "alert_edge",
    .body_max = 2 * WIRE_LENGTH + WIRE_U8 + WIRE_WALL + 2 * WIRE_U64,
    .span_bytes = alert_edge_span_bytes,
    .encode = alert_edge_encode,
    .decode = alert_edge_decode,
    .fits = alert_edge_fits,
};

/* ---- notices ---- */

static size_t notice_new_span_bytes(const struct record *r)
{
    const struct rec_notice_new *n = &r->notice_new;
    return n->alert.len + n->queue.len + n->subject.len + n->text.len;
}

static bool notice_new_fits(const struct record *r)
{
    const struct rec_notice_new *n = &r->notice_new;
    return seq_fits(n->number) && alert_on_name(n->on) && n->edge < EDGE_COUNT &&
           wall_fits(n->at) && name_fits(n->alert) && n->queue.len <= LIMIT_QUEUE_NAME_BYTES &&
           n->job_seq <= LIMIT_SEQ && n->reason < REASON_COUNT &&
           n->subject.len <= LIMIT_QUEUE_NAME_BYTES && n->text.len <= LIMIT_NOTICE_TEXT_BYTES;
}

static uint8_t *notice_new_encode(const struct record *r, uint8_t *at)
{
    const struct rec_notice_new *n = &r->notice_new;
    at = put_varint(at, n->number);
    at = put_fixed64(at, n->id_hi);
    at = put_u8(at, n->on);
    at = put_u8(at, n->edge);
    at = put_wall(at, n->at);
    at = put_span(at, n->alert);
    at = put_span(at, n->queue);
    at = put_varint(at, n->job_seq);
    at = put_fixed64(at, n->job_hi);
    at = put_u8(at, n->reason);
    at = put_varint(at, n->attempts);
    at = put_varint(at, n->value);
    at = put_varint(at, n->mark);
    at = put_span(at, n->subject);
    return put_span(at, n->text);
}

static void notice_new_decode(struct wire_in *in, struct record *ret)
{
    struct rec_notice_new *n = &ret->notice_new;
    n->number = take_varint(in);
    n->id_hi = take_fixed64(in);
    n->on = take_u8(in);
    n->edge = take_u8(in);
    n->at = take_wall(in);
    n->alert = take_name(in);
    n->queue = take_text(in, LIMIT_QUEUE_NAME_BYTES);
    n->job_seq = take_varint(in);
    n->job_hi = take_fixed64(in);
    n->reason = take_u8(in);
    n->attempts = take_u32(in);
    n->value = take_varint(in);
    n->mark = take_varint(in);
    n->subject = take_text(in, LIMIT_QUEUE_NAME_BYTES);
    n->text = take_text(in, LIMIT_NOTICE_TEXT_BYTES);
}

const struct record_type record_notice_new = {
    .name = "notice_new",
    .body_max = 2 * WIRE_SEQ + 2 * WIRE_FIXED64 + 3 * WIRE_U8 + WIRE_WALL + WIRE_U32 +
                2 * WIRE_U64 + 4 * WIRE_LENGTH,
    .span_bytes = notice_new_span_bytes,
    .encode = notice_new_encode,
    .decode = notice_new_decode,
    .fits = notice_new_fits,
};

static size_t notice_tried_span_bytes(const struct record *r)
{
    return r->notice_tried.error.len;
}

static bool notice_tried_fits(const struct record *r)
{
    const struct rec_notice_tried *n = &r->notice_tried;
    return seq_fits(n->number) && n->state < NOTICE_STATE_COUNT && wall_fits(n->since) &&
           wall_fits(n->due) && n->error.len <= LIMIT_NOTICE_ERROR_BYTES;
}

static uint8_t *notice_tried_encode(const struct record *r, uint8_t *at)
{
    const struct rec_notice_tried *n = &r->notice_tried;
    at = put_varint(at, n->number);
    at = put_u8(at, n->state);
    at = put_varint(at, n->tries);
    at = put_wall(at, n->since);
    at = put_wall(at, n->due);
    at = put_varint(at, n->status);
    return put_span(at, n->error);
}

static void notice_tried_decode(struct wire_in *in, struct record *ret)
{
    struct rec_notice_tried *n = &ret->notice_tried;
    n->number = take_varint(in);
    n->state = take_u8(in);
    n->tries = take_u32(in);
    n->since = take_wall(in);
    n->due = take_wall(in);
    n->status = take_u16(in);
    n->error = take_text(in, LIMIT_NOTICE_ERROR_BYTES);
}

const struct record_type record_notice_tried = {
    .name = "notice_tried",
    .body_max = WIRE_SEQ + WIRE_U8 + WIRE_U32 + 2 * WIRE_WALL + WIRE_U16 + WIRE_LENGTH,
    .span_bytes = notice_tried_span_bytes,
    .encode = notice_tried_encode,
    .decode = notice_tried_decode,
    .fits = notice_tried_fits,
};

static bool notice_gone_fits(const struct record *r)
{
    return seq_fits(r->notice_gone.number) && r->notice_gone.end < NOTICE_END_COUNT &&
           wall_fits(r->notice_gone.at);
}

static uint8_t *notice_gone_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->notice_gone.number);
    at = put_u8(at, r->notice_gone.end);
    return put_wall(at, r->notice_gone.at);
}

static void notice_gone_decode(struct wire_in *in, struct record *ret)
{
    ret->notice_gone.number = take_varint(in);
    ret->notice_gone.end = take_u8(in);
    ret->notice_gone.at = take_wall(in);
}

const struct record_type record_notice_gone = {
    .name = "notice_gone",
    .body_max = WIRE_SEQ + WIRE_U8 + WIRE_WALL,
    .encode = notice_gone_encode,
    .decode = notice_gone_decode,
    .fits = notice_gone_fits,
};

/* ---- breakers ---- */

static size_t breaker_put_span_bytes(const struct record *r)
{
    return r->breaker_put.target.len;
}

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

static uint8_t *breaker_put_encode(const struct record *r, uint8_t *at)
{
    const struct breaker *b = &r->breaker_put.breaker;
    at = put_span(at, r->breaker_put.target);
    at = put_u8(at, b->state);
    at = put_varint(at, b->failures);
    at = put_varint(at, b->probes);
    at = put_wall(at, b->until);
    at = put_wall(at, b->changed_at);
    at = put_varint(at, b->own.failure_threshold);
    at = put_varint(at, b->own.open_cooldown_seconds);
    at = put_varint(at, b->own.half_open_probe_count);
    return put_wall(at, b->used_at);
}

static void breaker_put_decode(struct wire_in *in, struct record *ret)
{
    struct breaker *b = &ret->breaker_put.breaker;
    ret->breaker_put.target = take_text(in, WEBHOOK_TARGET_BYTES - 1);
    b->state = take_u8(in);
    b->failures = take_u32(in);
    b->probes = take_u32(in);
    b->until = take_wall(in);
    b->changed_at = take_wall(in);
    b->own.failure_threshold = take_u32(in);
    b->own.open_cooldown_seconds = take_u32(in);
    b->own.half_open_probe_count = take_u32(in);
    b->used_at = take_wall(in);
}

const struct record_type record_breaker_put = {
    .name = "breaker_put",
    .body_max = WIRE_LENGTH + WIRE_U8 + 5 * WIRE_U32 + 3 * WIRE_WALL,
    .span_bytes = breaker_put_span_bytes,
    .encode = breaker_put_encode,
    .decode = breaker_put_decode,
    .fits = breaker_put_fits,
};

static size_t breaker_gone_span_bytes(const struct record *r)
{
    return r->breaker_gone.target.len;
}

static bool breaker_gone_fits(const struct record *r)
{
    return target_fits(r->breaker_gone.target);
}

static uint8_t *breaker_gone_encode(const struct record *r, uint8_t *at)
{
    return put_span(at, r->breaker_gone.target);
}

static void breaker_gone_decode(struct wire_in *in, struct record *ret)
{
    ret->breaker_gone.target = take_text(in, WEBHOOK_TARGET_BYTES - 1);
}

const struct record_type record_breaker_gone = {
    .name = "breaker_gone",
    .body_max = WIRE_LENGTH,
    .span_bytes = breaker_gone_span_bytes,
    .encode = breaker_gone_encode,
    .decode = breaker_gone_decode,
    .fits = breaker_gone_fits,
};
