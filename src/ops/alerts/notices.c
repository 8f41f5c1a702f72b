/* SPDX-License-Identifier: Apache-2.0 */
/* The outbox: notices are taken for delivery, and how that ended is reported.
 *
 * The node that delivers takes the notices that are due, each held back for a while, and reports
 * how each ended. A notice that its target's breaker does not let through stays where it is and is
 * looked at again. */
#include "core/limits.h"
#include "core/validate.h"
#include "ops/alerts/alerts.h"
#include "ops/alerts/breakers.h"
#include "ops/replies.h"

#define RETRY_MS 1000 /* until a notice is looked at again for which no time is known */

/* --- take --- */

static bool keep(struct ops *o, struct span from, struct span *ret)
{
    *ret = text_keep(o, from);
    return ret->at || from.len == 0;
}

bool notice_show(struct ops *o, const struct notice_entry *n, const struct alert_state *a,
                 bool secret, struct notice_view *ret)
{
    *ret = (struct notice_view){
        .notice = n->notice, .tried = n->tried, .with_payload = a->rule.with_payload};
    return keep(o, a->name, &ret->notice.alert) && keep(o, n->notice.queue, &ret->notice.queue) &&
           keep(o, n->notice.subject, &ret->notice.subject) &&
           keep(o, n->notice.text, &ret->notice.text) &&
           keep(o, n->tried.error, &ret->tried.error) && keep(o, a->rule.url, &ret->url) &&
           (!secret || keep(o, a->rule.secret, &ret->secret));
}

static bool tried(struct ops *o, struct notice_entry *n, const struct rec_notice_tried *t)
{
    struct record rec = {.kind = REC_NOTICE_TRIED, .notice_tried = *t};
    return o->store->notice_commit(o, n, &rec);
}

/* It was given up because its target did not become available again. */
static bool give_up(struct ops *o, struct notice_entry *n)
{
    struct rec_notice_tried t = n->tried;
    t.state = NOTICE_DEAD;
    t.error = SPAN_LITERAL("too old: its target's breaker is open");
    return tried(o, n, &t);
}

/* May this one be sent now? What may not is looked at again when it may. */
static bool may_send(struct ops *o, struct notice_entry *n, const struct alert_state *a,
                     const struct op_notice_take *want)
{
    struct wall_time until = {0};
    if (breaker_of_target_allows(o, a->target, &want->breaker, &until))
        return true;
    if (o->now.ms - n->tried.since.ms < want->give_up_ms || !give_up(o, n))
        o->store->notice_look(o, n, until.ms > o->now.ms ? until.ms : o->now.ms + RETRY_MS, false);
    return false;
}

void ops_notice_take(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_notice_take *want = &op->notice_take;
    uint32_t limit = notice_limit(want->limit), count = 0;
    struct notice_view *views = arena_array(o->memory, limit, sizeof *views);
    struct notice_entry *n;
    if (!views) {
        reply_nomem(o, r);
        return;
    }
    o->store->notices_begin(o, want);
    for (size_t looks = 0; looks < NOTICE_LOOKS && count < limit; looks++) {
        if ((n = o->store->notice_due(o)) == NULL)
            break;
        const struct alert_state *a = o->store->notice_alert(o, n);
        if (!may_send(o, n, a, want))
            continue;
        if (!notice_show(o, n, a, true, &views[count]))
            break;
        o->store->notice_look(o, n, o->now.ms + want->hold_ms, true);
        count++;
    }
    r->notices = views;
    r->notice_count = count;
    r->next_due = o->store->notices_next(o);
}

/* --- how a delivery ended; again, discard --- */

static struct notice_entry *find(struct ops *o, struct job_ref id, struct reply *r)
{
    struct notice_entry *n = id.seq ? o->store->notice_find(o, id.seq) : NULL;
    if (n && (!id.hi || id.hi == n->notice.id_hi))
        return n;
    reply_refuse(r, OUT_NOT_FOUND, NULL);
    return NULL;
}

static bool gone(struct ops *o, struct notice_entry *n, enum notice_end end)
{
    struct record rec = {
        .kind = REC_NOTICE_GONE,
        .notice_gone = {.number = n->notice.number, .end = (uint8_t)end, .at = o->now}};
    return o->store->notice_commit(o, n, &rec);
}

static bool failed(struct ops *o, struct notice_entry *n, const struct op_notice_end *want)
{
    struct rec_notice_tried t = {
        .number = n->notice.number,
        .state = want->give_up ? NOTICE_DEAD : NOTICE_PENDING,
        .tries = n->tried.tries < UINT32_MAX ? n->tried.tries + 1 : n->tried.tries,
        .since = n->tried.since,
        .due = want->due.ms >= 0 && want->due.ms <= LIMIT_WALL_MS ? want->due : o->now,
        .status = want->status,
        .error = validate_cut(want->error, LIMIT_NOTICE_ERROR_BYTES)};
    return tried(o, n, &t);
}

void ops_notice_end(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_notice_end *want = &op->notice_end;
    struct notice_entry *n = find(o, (struct job_ref){want->number, 0}, r);
    if (!n)
        return;
    /* Delivered is delivered, whatever else became of it meanwhile. */
    if (!want->delivered && (n->tried.tries != want->tries || n->tried.state == NOTICE_DEAD)) {
        r->repeat = true;
        return;
    }
    const struct alert_state *a = o->store->notice_alert(o, n);
    if (!(want->delivered ? gone(o, n, NOTICE_DELIVERED) : failed(o, n, want)))
        reply_nomem(o, r);
    else if (a && want->reached && a->target.len)
        breaker_of_target_report(o, a->target, &want->breaker, want->delivered);
}

void ops_notice_again(struct ops *o, const struct op *op, struct reply *r)
{
    struct notice_entry *n = find(o, op->notice.id, r);
    if (!n)
        return;
    struct rec_notice_tried t = {.number = n->notice.number,
                                 .state = NOTICE_PENDING,
                                 .since = o->now,
                                 .due = o->now,
                                 .status = n->tried.status,
                                 .error = n->tried.error};
    if (!tried(o, n, &t))
        reply_nomem(o, r);
}

void ops_notice_discard(struct ops *o, const struct op *op, struct reply *r)
{
    struct notice_entry *n = find(o, op->notice.id, r);
    if (n && !gone(o, n, NOTICE_DISCARDED))
        reply_nomem(o, r);
}
