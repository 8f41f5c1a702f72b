/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules: put, delete, edges of conditions; which rules match an event. */
#include "ops/alerts/alerts.h"

#include "core/jobs/job_error.h"
#include "core/limits.h"
#include "core/validate.h"
#include "ops/replies.h"

/* --- events --- */

bool alert_hears(const struct alert_state *a, enum alert_on on, struct span queue)
{
    return a->rule.on == on && a->rule.enabled && a->target.len &&
           alert_matches(a->rule.queue, queue);
}

struct rec_notice_new notice_of_dead(const struct job *j, struct span queue,
                                     const struct rec_job_dead *dead)
{
    return (struct rec_notice_new){
        .on = ALERT_DEAD,
        .queue = queue,
        .job_seq = j->seq,
        .job_hi = j->id_hi,
        .reason = dead->reason,
        .attempts = job_attempts(j),
        .text = validate_cut(job_error_split(dead->error).text, LIMIT_NOTICE_TEXT_BYTES),
    };
}

struct rec_notice_new notice_of_event(enum alert_on on, struct span queue, struct span subject,
                                      struct span text)
{
    return (struct rec_notice_new){
        .on = (uint8_t)on,
        .queue = queue,
        .subject = validate_cut(subject, LIMIT_QUEUE_NAME_BYTES),
        .text = validate_cut(text, LIMIT_NOTICE_TEXT_BYTES),
    };
}

void ops_notify(struct ops *o, struct rec_notice_new *n)
{
    const struct alert_state *a;
    for (size_t i = 0; (a = o->store->alert_at(o, i)) != NULL; i++) {
        if (!alert_hears(a, (enum alert_on)n->on, n->queue))
            continue;
        n->alert = a->name;
        o->store->notice_new(o, n);
    }
}

/* --- rules --- */

static bool put_allowed(struct ops *o, const struct op_alert *want, const struct alert_state *a,
                        const struct alert_rule *rule, struct reply *r)
{
    struct err_note note;
    if (alert_name_check(want->name, &note) != 0 || alert_rule_check(rule, &note) != 0)
        return reply_invalid(o, r, &note);
    if (a && want->must_create)
        return reply_refuse(r, OUT_EXISTS, NULL);
    if (!a && want->must_exist)
        return reply_refuse(r, OUT_NOT_FOUND, NULL);
    if (!a && o->store->alert_at(o, LIMIT_ALERTS - 1))
        return reply_refuse(r, OUT_INVALID, "there are 256 alerts already; delete one first");
    return true;
}

void ops_alert_put(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_alert *want = &op->alert;
    const struct alert_state *a = o->store->alert_find(o, want->name);
    struct alert_rule rule = want->rule ? *want->rule : (struct alert_rule){0};
    if (want->keep_secret) /* without a webhook there is nothing to sign */
        rule.secret = a && rule.url.len ? a->rule.secret : (struct span){NULL, 0};
    if (!put_allowed(o, want, a, &rule, r))
        return;
    struct record rec = {
        .kind = REC_ALERT_PUT,
        .alert_put = {.name = want->name,
                      .condition_changed = a && !alert_same_condition(&a->rule, &rule),
                      .created_at = a ? a->created_at : o->now,
                      .updated_at = o->now,
                      .rule = rule},
    };
    if (o->store->alert_commit(o, &rec, NULL))
        r->created = !a;
    else
        reply_nomem(o, r);
}

void ops_alert_delete(struct ops *o, const struct op *op, struct reply *r)
{
    const struct alert_state *a = o->store->alert_find(o, op->alert.name);
    struct record rec = {.kind = REC_ALERT_GONE,
                         .alert_gone = {.name = op->alert.name, .at = o->now}};
    if (!a) {
        reply_refuse(r, OUT_NOT_FOUND, NULL);
        return;
    }
    r->discarded = o->store->alert_notices(o, a);
    if (!o->store->alert_commit(o, &rec, NULL))
        reply_nomem(o, r);
}

/* --- conditions --- */

static bool edge_meant(const struct alert_state *a, const struct op_alert_edge *want)
{
    return a && alert_is_condition((enum alert_on)a->rule.on) &&
           (!want->raised || (a->rule.enabled && alert_matches(a->rule.queue, want->queue)));
}

void ops_alert_edge(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_alert_edge *want = &op->alert_edge;
    const struct alert_state *a = o->store->alert_find(o, want->alert);
    if (!edge_meant(a, want)) {
        reply_refuse(r, OUT_NOT_FOUND, NULL);
        return;
    }
    r->repeat = o->store->raised(o, a, want->queue) == want->raised;
    if (r->repeat)
        return;
    if (want->raised && o->store->raised_count(o) >= LIMIT_ALERTS_RAISED) {
        reply_refuse(r, OUT_INVALID, "10000 conditions are raised already");
        return;
    }
    struct record rec = {.kind = REC_ALERT_EDGE,
                         .alert_edge = {.alert = want->alert,
                                        .queue = want->queue,
                                        .raised = want->raised,
                                        .at = o->now,
                                        .value = want->value,
                                        .mark = want->mark}};
    struct rec_notice_new n = {.on = a->rule.on,
                               .edge = want->raised ? EDGE_RAISED : EDGE_CLEARED,
                               .alert = a->name,
                               .queue = want->queue,
                               .value = want->value,
                               .mark = want->mark,
                               .text = validate_cut(want->text, LIMIT_NOTICE_TEXT_BYTES)};
    if (!o->store->alert_commit(o, &rec, a->target.len ? &n : NULL))
        reply_nomem(o, r);
}
