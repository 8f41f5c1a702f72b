/* SPDX-License-Identifier: Apache-2.0 */
/* What the trace prints for each kind of operation and for a reply. */
#include "wrappers/trace_line.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "base/check.h"

#define TRACE_NAME_BYTES 64 /* at most this many bytes of a queue name */
#define TRACE_NAMES 4       /* at most this many queues of a claim */

void line_put(struct line *l, const char *format, ...)
{
    size_t room = sizeof l->text - 1 - l->len; /* one byte is reserved for the line break */
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->text + l->len, room, format, args);
    va_end(args);
    if (n > 0)
        l->len += (size_t)n < room ? (size_t)n : room - 1;
}

static void put_name(struct line *l, struct span name)
{
    for (size_t i = 0; i < name.len && i < TRACE_NAME_BYTES; i++) {
        unsigned char c = (unsigned char)name.at[i];
        if (c > ' ' && c < 0x7f && c != '\\' && c != ',')
            line_put(l, "%c", c);
        else
            line_put(l, "\\x%02x", c);
    }
    if (name.len > TRACE_NAME_BYTES)
        line_put(l, "...");
}

static void put_queue(struct line *l, struct span name)
{
    if (name.len == 0)
        return;
    line_put(l, " queue=");
    put_name(l, name);
}

static void put_alert(struct line *l, struct span name)
{
    if (name.len == 0)
        return;
    line_put(l, " alert=");
    put_name(l, name);
}

static void put_job(struct line *l, struct job_ref ref)
{
    line_put(l, " seq=%" PRIu64, ref.seq);
}

static void put_token(struct line *l, struct job_token token)
{
    char text[TOKEN_TEXT_BYTES];
    token_text(token, text);
    line_put(l, " token=%s", text);
}

static void put_state(struct line *l, enum job_state state)
{
    const char *name = state_name(state);
    line_put(l, " state=%s", name ? name : "?");
}

/* --- an operation --- */

static void put_op_enqueue(struct line *l, const struct op *op)
{
    const struct op_enqueue *o = &op->enqueue;
    put_queue(l, o->queue);
    line_put(l, " bytes=%zu", o->payload.len);
    if (o->has_priority)
        line_put(l, " priority=%" PRId64, o->priority);
    if (o->run_at.ms != 0)
        line_put(l, " run_at=%" PRId64, o->run_at.ms);
    else if (o->delay_ms != 0)
        line_put(l, " delay_ms=%" PRId64, o->delay_ms);
    if (o->extra.unique.len > 0)
        line_put(l, " unique");
    if (o->idempotency_key.len > 0)
        line_put(l, " keyed");
}

static void put_op_claim(struct line *l, const struct op *op)
{
    const struct op_claim *o = &op->claim;
    if (o->one.seq != 0)
        put_job(l, o->one);
    for (uint32_t i = 0; o->one.seq == 0 && i < o->queue_count && i < TRACE_NAMES; i++) {
        line_put(l, i == 0 ? " queue=" : ",");
        put_name(l, o->queues[i]);
    }
    if (o->queue_count > TRACE_NAMES)
        line_put(l, ",+%u", o->queue_count - TRACE_NAMES);
    line_put(l, " count=%u", o->count);
    if (o->lease_ms != 0)
        line_put(l, " lease_ms=%u", o->lease_ms);
    if (o->bound)
        line_put(l, " bound");
    if (o->nonce != 0)
        line_put(l, " nonce=%" PRIu64, o->nonce);
}

static void put_op_lease(struct line *l, const struct op *op)
{
    const struct op_lease *o = &op->lease;
    put_job(l, o->job);
    if (o->any_token)
        line_put(l, " any_token");
    else
        put_token(l, o->token);
    if (o->run_at.ms != 0)
        line_put(l, " run_at=%" PRId64, o->run_at.ms);
    else if (o->has_delay)
        line_put(l, " delay_ms=%" PRId64, o->delay_ms);
    if (o->no_retry)
        line_put(l, " no_retry");
    if (o->lost)
        line_put(l, " lost");
}

static void put_op_patch(struct line *l, const struct op *op)
{
    const struct op_patch *o = &op->patch;
    put_job(l, o->job);
    if (o->has_priority)
        line_put(l, " priority=%" PRId64, o->priority);
    if (o->has_run_at)
        line_put(l, " run_at=%" PRId64, o->run_at.ms);
    if (o->has_payload)
        line_put(l, " bytes=%zu", o->payload.len);
}

static void put_op_schedule(struct line *l, const struct op *op)
{
    const struct op_schedule *s = &op->schedule;
    line_put(l, " schedule=");
    put_name(l, s->name);
    if (s->at.ms != 0)
        line_put(l, " at=%" PRId64, s->at.ms);
    if (s->next_at.ms != 0)
        line_put(l, " next_at=%" PRId64, s->next_at.ms);
}

static void put_op_release_claim(struct line *l, const struct op *op)
{
    line_put(l, " nonce=%" PRIu64, op->release_claim.nonce);
}

static void put_op_job(struct line *l, const struct op *op)
{
    put_job(l, op->job.job);
}

static void put_op_queue(struct line *l, const struct op *op)
{
    put_queue(l, op->queue.name);
}

static void put_op_queue_list(struct line *l, const struct op *op)
{
    line_put(l, " limit=%u%s", op->queue.limit, op->queue.partial ? " partial" : "");
}

static void put_op_pause(struct line *l, const struct op *op)
{
    put_queue(l, op->queue.name);
    line_put(l, " until=%" PRId64, op->queue.until.ms);
}

static void put_op_bulk(struct line *l, const struct op *op)
{
    put_queue(l, op->bulk.queue);
    line_put(l, " action=%u states=0x%x", op->bulk.action, op->bulk.states);
}

static void put_op_peek(struct line *l, const struct op *op)
{
    put_queue(l, op->peek.queue);
    put_state(l, op->peek.state);
    line_put(l, " limit=%u", op->peek.limit);
}

static void put_op_list(struct line *l, const struct op *op)
{
    put_queue(l, op->list.queue);
    line_put(l, " after=%" PRIu64 " limit=%u", op->list.after, op->list.limit);
}

static void put_op_exceptions(struct line *l, const struct op *op)
{
    put_queue(l, op->exceptions.queue);
    line_put(l, " limit=%u", op->exceptions.limit);
}

static void put_op_kv_commit(struct line *l, const struct op *op)
{
    line_put(l, " checks=%u sets=%u deletes=%u enqueues=%u", op->kv_commit.check_count,
             op->kv_commit.set_count, op->kv_commit.delete_count, op->kv_commit.enqueue_count);
}

static void put_op_kv_get(struct line *l, const struct op *op)
{
    line_put(l, " keys=%u", op->kv_get.count);
}

static void put_op_kv_list(struct line *l, const struct op *op)
{
    line_put(l, " limit=%u", op->kv_list.limit);
}

/* URLs and secrets are not printed. */
static void put_op_alert(struct line *l, const struct op *op)
{
    put_alert(l, op->alert.name);
}

static void put_op_alert_edge(struct line *l, const struct op *op)
{
    put_alert(l, op->alert_edge.alert);
    put_queue(l, op->alert_edge.queue);
    line_put(l, " %s", op->alert_edge.raised ? "raised" : "cleared");
}

static void put_op_notice_take(struct line *l, const struct op *op)
{
    line_put(l, " limit=%u", op->notice_take.limit);
}

static void put_op_notice_end(struct line *l, const struct op *op)
{
    line_put(l, " notice=%" PRIu64 " %s status=%u", op->notice_end.number,
             op->notice_end.delivered ? "delivered" : "failed", op->notice_end.status);
}

static void put_op_notice(struct line *l, const struct op *op)
{
    line_put(l, " notice=%" PRIu64, op->notice.id.seq);
}

static void put_op_breaker(struct line *l, const struct op *op)
{
    line_put(l, " breaker=%.*s", (int)op->breaker.name.len, op->breaker.name.at);
}

static void put_op_note(struct line *l, const struct op *op)
{
    line_put(l, " seq=%" PRIu64, op->note.job.seq);
}

static void put_op_page(struct line *l, const struct op *op)
{
    put_queue(l, op->page.queue);
    line_put(l, " states=0x%x offset=%" PRIu64 " limit=%u", op->page.states, op->page.offset,
             op->page.limit);
}

static void put_op_history(struct line *l, const struct op *op)
{
    put_queue(l, op->history.queue);
    line_put(l, " from=%u to=%u", op->history.from, op->history.to);
}

static void put_op_schedule_list(struct line *l, const struct op *op)
{
    line_put(l, " limit=%u", op->schedule.limit);
}

/* What is printed after the name of an operation; NULL = nothing. */
static void (*const kinds[OP_KIND_COUNT])(struct line *l, const struct op *op) = {
    [OP_ENQUEUE] = put_op_enqueue,
    [OP_CLAIM] = put_op_claim,
    [OP_ACK] = put_op_lease,
    [OP_FAIL] = put_op_lease,
    [OP_EXTEND] = put_op_lease,
    [OP_RELEASE] = put_op_lease,
    [OP_PROGRESS] = put_op_lease,
    [OP_LOG] = put_op_lease,
    [OP_STEP] = put_op_lease,
    [OP_RELEASE_CLAIM] = put_op_release_claim,
    [OP_CANCEL] = put_op_job,
    [OP_REQUEUE] = put_op_job,
    [OP_PATCH] = put_op_patch,
    [OP_REMOVE] = put_op_job,
    [OP_QUEUE_PUT] = put_op_queue,
    [OP_QUEUE_DELETE] = put_op_queue,
    [OP_QUEUE_GET] = put_op_queue,
    [OP_QUEUE_LIST] = put_op_queue_list,
    [OP_PAUSE] = put_op_pause,
    [OP_PURGE] = put_op_queue,
    [OP_BULK] = put_op_bulk,
    [OP_GET] = put_op_job,
    [OP_PEEK] = put_op_peek,
    [OP_LIST] = put_op_list,
    [OP_EXCEPTIONS] = put_op_exceptions,
    [OP_KV_COMMIT] = put_op_kv_commit,
    [OP_KV_GET] = put_op_kv_get,
    [OP_KV_LIST] = put_op_kv_list,
    [OP_ALERT_PUT] = put_op_alert,
    [OP_ALERT_DELETE] = put_op_alert,
    [OP_ALERT_LIST] = put_op_alert,
    [OP_ALERT_EDGE] = put_op_alert_edge,
    [OP_NOTICE_TAKE] = put_op_notice_take,
    [OP_NOTICE_END] = put_op_notice_end,
    [OP_NOTICE_LIST] = put_op_notice,
    [OP_NOTICE_AGAIN] = put_op_notice,
    [OP_NOTICE_DISCARD] = put_op_notice,
    [OP_BREAKER_PUT] = put_op_breaker,
    [OP_BREAKER_DELETE] = put_op_breaker,
    [OP_BREAKER_ALLOW] = put_op_breaker,
    [OP_BREAKER_REPORT] = put_op_breaker,
    [OP_NOTE] = put_op_note,
    [OP_PAGE] = put_op_page,
    [OP_HISTORY] = put_op_history,
    [OP_SCHEDULE_PUT] = put_op_schedule,
    [OP_SCHEDULE_DELETE] = put_op_schedule,
    [OP_SCHEDULE_GET] = put_op_schedule,
    [OP_SCHEDULE_LIST] = put_op_schedule_list,
    [OP_SCHEDULE_PAUSE] = put_op_schedule,
    [OP_FIRE] = put_op_schedule,
    [OP_TRIGGER] = put_op_schedule,
    [OP_DISPATCHED] = put_op_job,
};

void line_put_op(struct line *l, const struct op *op)
{
    CHECK((unsigned)op->kind < OP_KIND_COUNT);
    line_put(l, " %s tag=%" PRIu64, op_info(op->kind)->name, op->tag);
    if (kinds[op->kind])
        kinds[op->kind](l, op);
}

/* --- a reply --- */

static void put_number(struct line *l, const char *name, uint64_t value)
{
    if (value != 0)
        line_put(l, " %s=%" PRIu64, name, value);
}

static void put_reply_jobs(struct line *l, const struct reply *r)
{
    put_number(l, "total", r->job_total);
    put_number(l, "jobs", r->job_count);
    if (r->job_count > 0) {
        put_number(l, "first", r->jobs[0].job.seq);
        if (r->kind == OP_CLAIM)
            put_token(l, r->jobs[0].token);
    }
    put_number(l, "cursor", r->cursor);
}

/* Numbers of the reply's family. */
static const struct {
    uint8_t family; /* enum reply_family */
    const char *name;
    uint16_t at, size; /* of the field in struct reply */
} numbers[] = {
#define NUMBER(family, name, member)                                                               \
    {                                                                                              \
        family, name, offsetof(struct reply, member), sizeof(((struct reply *)NULL)->member)       \
    }
    NUMBER(REPLY_ENQUEUE, "replaced", replaced_seq),
    NUMBER(REPLY_BULK, "changed", changed),
    NUMBER(REPLY_BULK, "refused", refused),
    NUMBER(REPLY_QUEUES, "queues", queue_count),
    NUMBER(REPLY_WORKERS, "total", worker_total),
    NUMBER(REPLY_WORKERS, "workers", worker_count),
    NUMBER(REPLY_ATTEMPTS, "attempts", attempt_count),
    NUMBER(REPLY_KV_COMMIT, "deleted", deleted),
    NUMBER(REPLY_KV_COMMIT, "version", version),
    NUMBER(REPLY_KV, "keys", kv_count),
    NUMBER(REPLY_ALERTS, "discarded", discarded),
    NUMBER(REPLY_NOTICES, "cursor", notice_cursor),
    NUMBER(REPLY_SCHEDULES, "taken", taken),
    NUMBER(REPLY_SCHEDULES, "schedules", schedule_count),
#undef NUMBER
};

static void put_family(struct line *l, const struct reply *r)
{
    if (reply_family(r) == REPLY_JOBS)
        put_reply_jobs(l, r);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const void *at = (const char *)r + numbers[i].at;
        if (numbers[i].family == reply_family(r))
            put_number(l, numbers[i].name,
                       numbers[i].size == sizeof(uint64_t) ? *(const uint64_t *)at
                                                           : *(const uint32_t *)at);
    }
}

static void put_rest(struct line *l, const struct reply *r)
{
    put_number(l, "seq", r->seq);
    if (r->state != STATE_NONE)
        put_state(l, r->state);
    if (r->created)
        line_put(l, " created");
    if (r->repeat)
        line_put(l, " repeat");
    if (r->relaxed)
        line_put(l, " relaxed");
    if (r->run_at.ms != 0)
        line_put(l, " run_at=%" PRId64, r->run_at.ms);
    put_family(l, r);
    put_number(l, "left_out", r->left_out);
}

void line_put_reply(struct line *l, const struct reply *r)
{
    CHECK((unsigned)r->kind < OP_KIND_COUNT);
    line_put(l, " %s tag=%" PRIu64 " %s", op_info(r->kind)->name, r->tag, outcome_name(r->outcome));
    put_rest(l, r);
}
