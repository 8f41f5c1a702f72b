/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules: what this node knows of them, changing them, and what they hear of. */
#include "backend/shared/alerts.h"

#include "backend/shared/shared.h"
#include "core/alerts/webhook.h"
#include "core/validate.h"

void unit_alerts_reset(struct unit *u)
{
    u->alerts = (struct unit_alerts){.put = NULL};
    u->alerts.notices_last = &u->alerts.notices;
    u->alerts.fresh_last = &u->alerts.fresh;
}

bool unit_alerts_changed(const struct unit *u)
{
    bool changed = (u->alerts.put && u->alerts.put->name.len) || u->alerts.fresh;
    for (const struct wraised *r = u->alerts.raised; r && !changed; r = r->next)
        changed = r->changed;
    for (const struct wnotice *n = u->alerts.notices; n && !changed; n = n->next)
        changed = n->changed;
    for (const struct wbreaker *b = u->alerts.breakers; b && !changed; b = b->next)
        changed = b->changed;
    return changed;
}

/* --- the rules that this node knows --- */

void alerts_known_done(struct shared *s)
{
    arena_done(&s->alerts.arena);
    s->alerts = (struct alerts_known){.version = 0};
    arena_init(&s->alerts.arena);
}

static struct span copy(struct arena *arena, struct span text)
{
    const char *at = text.len ? arena_copy(arena, text.at, text.len) : NULL;
    return span_of(at, at ? text.len : 0);
}

static int target_of(struct arena *arena, struct span url, struct span *ret)
{
    struct webhook_url parsed;
    char target[WEBHOOK_TARGET_BYTES];
    *ret = (struct span){NULL, 0};
    if (url.len == 0)
        return 0;
    if (webhook_url_parse(url, &parsed, NULL) != 0)
        return -ERR_CORRUPT;
    *ret = copy(arena, span_of(target, webhook_target(&parsed, target)));
    return ret->len ? 0 : -ERR_NOMEM;
}

static int rule_read(struct arena *arena, struct span record, struct walert *ret)
{
    struct record rec;
    struct span bytes = copy(arena, record);
    if (!bytes.len)
        return -ERR_NOMEM;
    int err = record_decode(&bytes, &rec);
    if (err || rec.kind != REC_ALERT_PUT)
        return -ERR_CORRUPT;
    *ret = (struct walert){.name = rec.alert_put.name,
                           .rule = rec.alert_put.rule,
                           .created_at = rec.alert_put.created_at,
                           .updated_at = rec.alert_put.updated_at};
    return target_of(arena, ret->rule.url, &ret->target);
}

int alerts_known_set(struct shared *s, uint64_t version, const struct span *records, size_t count)
{
    struct alerts_known *k = &s->alerts;
    alerts_known_done(s);
    k->list = arena_array(&k->arena, count + 1, sizeof *k->list);
    int err = k->list ? 0 : -ERR_NOMEM;
    for (size_t i = 0; !err && i < count; i++)
        err = rule_read(&k->arena, records[i], &k->list[i]);
    if (err) {
        alerts_known_done(s);
        return err;
    }
    k->count = count;
    k->version = version;
    return 0;
}

const struct walert *alerts_known_find(const struct shared *s, struct span name)
{
    for (size_t i = 0; i < s->alerts.count; i++)
        if (span_equal(s->alerts.list[i].name, name))
            return &s->alerts.list[i];
    return NULL;
}

bool unit_may_notify(const struct unit *u)
{
    for (size_t i = 0; i < u->count; i++) {
        int kind = (int)u->turns[i].op->kind;
        if (kind == OP_FAIL || kind == OP_RELEASE || kind == OP_FIRE || kind == OP_TRIGGER)
            return true;
    }
    return false;
}

bool unit_about_alerts(const struct unit *u)
{
    int kind = u->count ? (int)u->turns[0].op->kind : -1;
    return kind >= OP_ALERT_PUT && kind <= OP_BREAKER_LIST;
}

/* --- what is raised --- */

struct wraised *unit_raised(const struct unit *u, struct span alert, struct span queue)
{
    struct wraised *r = u->alerts.raised;
    while (r && !(span_equal(r->alert, alert) && span_equal(r->queue, queue)))
        r = r->next;
    return r;
}

struct wraised *unit_raised_add(struct unit *u, struct span alert, struct span queue)
{
    struct wraised *r = unit_raised(u, alert, queue);
    if (r)
        return r;
    r = unit_alloc(u, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct wraised){.alert = alert, .queue = queue, .next = u->alerts.raised};
    u->alerts.raised = r;
    return r;
}

/* --- events --- */

static bool hears(const struct walert *a, enum alert_on on, struct span queue)
{
    return a->rule.on == on && a->rule.enabled && a->target.len &&
           alert_matches(a->rule.queue, queue);
}

static void notify_all(struct unit *u, const struct rec_notice_new *n)
{
    for (size_t i = 0; i < u->s->alerts.count; i++)
        if (hears(&u->s->alerts.list[i], (enum alert_on)n->on, n->queue))
            unit_notice_new(u, &u->s->alerts.list[i], n);
}

void unit_alert_dead(struct unit *u, const struct row *r, const struct rec_job_dead *rec)
{
    struct rec_notice_new n = {
        .on = ALERT_DEAD,
        .queue = r->q->name,
        .job_seq = r->job.seq,
        .job_hi = r->job.id_hi,
        .reason = rec->reason,
        .attempts = job_attempts(&r->job),
        .text = validate_cut(rec->error, LIMIT_NOTICE_TEXT_BYTES),
    };
    notify_all(u, &n);
}

void unit_alert_failed(struct unit *u, const struct wschedule *s)
{
    const char *why = schedule_error_name(s->state.error);
    struct rec_notice_new n = {
        .on = ALERT_SCHEDULE_FAILED,
        .queue = s->spec.queue,
        .subject = validate_cut(s->name, LIMIT_QUEUE_NAME_BYTES),
        .text = span_text(why ? why : ""),
    };
    notify_all(u, &n);
}

/* --- changing rules --- */

static bool put_allowed(struct unit *u, const struct op_alert *want, const struct walert *a,
                        const struct alert_rule *rule, struct turn *t)
{
    struct err_note note;
    if (alert_name_check(want->name, &note) != 0 || alert_rule_check(rule, &note) != 0)
        return unit_refuse_note(u, t, &note);
    if (a && want->must_create)
        return unit_refuse(t, OUT_EXISTS, NULL);
    if (!a && want->must_exist)
        return unit_refuse(t, OUT_NOT_FOUND, NULL);
    if (!a && u->s->alerts.count >= LIMIT_ALERTS)
        return unit_refuse(t, OUT_INVALID, "there are 256 alerts already; delete one first");
    return true;
}

static struct span encode(struct unit *u, const struct rec_alert_put *put)
{
    struct record rec = {.kind = REC_ALERT_PUT, .alert_put = *put};
    struct buf b;
    buf_init(&b);
    struct span text = {NULL, 0};
    if (record_encode(&rec, &b) == 0)
        text = copy(&u->arena, buf_span(&b));
    u->nomem |= !text.len;
    buf_done(&b);
    return text;
}

void work_alert_put(struct unit *u, struct turn *t)
{
    const struct op_alert *want = &t->op->alert;
    const struct walert *a = alerts_known_find(u->s, want->name);
    struct alert_rule rule = want->rule ? *want->rule : (struct alert_rule){0};
    if (want->keep_secret) /* without a webhook there is nothing to sign */
        rule.secret = a && rule.url.len ? a->rule.secret : (struct span){NULL, 0};
    if (!put_allowed(u, want, a, &rule, t))
        return;
    struct rec_alert_put put = {.name = want->name,
                                .created_at = a ? a->created_at : u->now,
                                .updated_at = u->now,
                                .rule = rule};
    struct walert_put *p = u->alerts.put;
    p->name = want->name;
    p->record = encode(u, &put);
    p->forget = a && !alert_same_condition(&a->rule, &rule);
    p->drop = a && !rule.url.len;
    u->records++;
    t->reply.created = !a;
}

void work_alert_delete(struct unit *u, struct turn *t)
{
    if (!alerts_known_find(u->s, t->op->alert.name)) {
        unit_refuse(t, OUT_NOT_FOUND, NULL);
        return;
    }
    struct walert_put *p = u->alerts.put;
    p->name = t->op->alert.name;
    p->gone = p->forget = p->drop = true;
    t->reply.count = p->notices;
    u->records++;
}

/* --- edges --- */

static bool edge_meant(const struct walert *a, const struct op_alert_edge *want)
{
    return alert_is_condition((enum alert_on)a->rule.on) &&
           (!want->raised || (a->rule.enabled && alert_matches(a->rule.queue, want->queue)));
}

void work_alert_edge(struct unit *u, struct turn *t)
{
    const struct op_alert_edge *want = &t->op->alert_edge;
    const struct walert *a = alerts_known_find(u->s, want->alert);
    struct wraised *r = unit_raised(u, want->alert, want->queue);
    bool holds = r && r->there;
    uint64_t raised = u->alerts.raised_there + (uint64_t)u->alerts.raised_adds;
    if (!a || !edge_meant(a, want)) {
        unit_refuse(t, OUT_NOT_FOUND, NULL);
        return;
    }
    t->reply.repeat = holds == want->raised;
    if (t->reply.repeat)
        return;
    if (want->raised && raised >= LIMIT_ALERTS_RAISED) {
        unit_refuse(t, OUT_INVALID, "10000 conditions are raised already");
        return;
    }
    if (!r)
        r = unit_raised_add(u, want->alert, want->queue);
    if (!r)
        return;
    r->there = want->raised;
    r->changed = true;
    r->since = u->now;
    r->value = want->value;
    r->mark = want->mark;
    u->alerts.raised_adds += want->raised ? 1 : -1;
    u->records++;
    struct rec_notice_new n = {.on = a->rule.on,
                               .edge = want->raised ? EDGE_RAISED : EDGE_CLEARED,
                               .queue = want->queue,
                               .value = want->value,
                               .mark = want->mark};
    if (a->target.len)
        unit_notice_new(u, a, &n);
    unit_tell_alert(u, want->raised ? EVENT_ALERT_RAISED : EVENT_ALERT_CLEARED, want->alert,
                    want->queue, want->value);
}
