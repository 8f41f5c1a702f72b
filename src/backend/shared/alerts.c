/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules: what this node knows of them, changing them, and what they hear of. */
#include "backend/shared/alerts.h"

#include "backend/shared/shared.h"
#include "core/alerts/webhook.h"

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

static struct span span_keep(struct arena *arena, struct span text)
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
    *ret = span_keep(arena, span_of(target, webhook_target(&parsed, target)));
    return ret->len ? 0 : -ERR_NOMEM;
}

static int rule_read(struct arena *arena, struct span record, struct alert_state *ret)
{
    struct record rec;
    struct span bytes = span_keep(arena, record);
    if (!bytes.len)
        return -ERR_NOMEM;
    int err = record_decode(&bytes, &rec);
    if (err || rec.kind != REC_ALERT_PUT)
        return -ERR_CORRUPT;
    *ret = (struct alert_state){.name = rec.alert_put.name,
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

const struct alert_state *alerts_known_find(const struct shared *s, struct span name)
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

void unit_alert_dead(struct unit *u, const struct row *r, const struct rec_job_dead *rec)
{
    struct rec_notice_new n = notice_of_dead(&r->job, r->q->name, rec);
    ops_notify(unit_ops(u), &n);
}

void unit_alert_failed(struct unit *u, const struct wschedule *s)
{
    const char *why = schedule_error_name(s->state.error);
    struct rec_notice_new n =
        notice_of_event(ALERT_SCHEDULE_FAILED, s->spec.queue, s->name, span_text(why ? why : ""));
    ops_notify(unit_ops(u), &n);
}

/* --- for the operations of src/ops --- */

const struct alert_state *unit_alert_find(const struct ops *o, struct span name)
{
    return alerts_known_find(unit_of(o)->s, name);
}

const struct alert_state *unit_alert_at(const struct ops *o, size_t at)
{
    const struct alerts_known *k = &unit_of(o)->s->alerts;
    return at < k->count ? &k->list[at] : NULL;
}

uint64_t unit_alert_notices(const struct ops *o, const struct alert_state *a)
{
    (void)a;
    return unit_of(o)->alerts.put->notices;
}

bool unit_alert_raised(const struct ops *o, const struct alert_state *a, struct span queue)
{
    const struct wraised *r = unit_raised(unit_of(o), a->name, queue);
    return r && r->there;
}

uint64_t unit_raised_count(const struct ops *o)
{
    const struct unit_alerts *a = &unit_of(o)->alerts;
    return a->raised_there + (uint64_t)a->raised_adds;
}

static struct span encode(struct unit *u, const struct rec_alert_put *put)
{
    struct record rec = {.kind = REC_ALERT_PUT, .alert_put = *put};
    struct buf b;
    buf_init(&b);
    struct span text = {NULL, 0};
    if (record_encode(&rec, &b) == 0)
        text = span_keep(&u->arena, buf_span(&b));
    u->nomem |= !text.len;
    buf_done(&b);
    return text;
}

static void put_rule(struct unit *u, const struct rec_alert_put *rec)
{
    struct rec_alert_put put = *rec;
    struct walert_put *p = u->alerts.put;
    put.condition_changed = false; /* the row says how the rule is, not what became of it */
    p->name = put.name;
    p->record = encode(u, &put);
    p->forget = rec->condition_changed;
    p->drop = !put.rule.url.len && alerts_known_find(u->s, put.name);
}

static void edge(struct unit *u, const struct rec_alert_edge *e)
{
    struct wraised *r = unit_raised_add(u, e->alert, e->queue);
    if (!r)
        return;
    r->there = e->raised;
    r->changed = true;
    r->since = e->at;
    r->value = e->value;
    r->mark = e->mark;
    u->alerts.raised_adds += e->raised ? 1 : -1;
    unit_tell_alert(u, e->raised ? EVENT_ALERT_RAISED : EVENT_ALERT_CLEARED, e->alert, e->queue,
                    e->value);
}

bool unit_alert_commit(struct ops *o, const struct record *rec, struct rec_notice_new *n)
{
    struct unit *u = unit_of(o);
    struct walert_put *p = u->alerts.put;
    if (rec->kind == REC_ALERT_PUT) {
        put_rule(u, &rec->alert_put);
    } else if (rec->kind == REC_ALERT_GONE) {
        p->name = rec->alert_gone.name;
        p->gone = p->forget = p->drop = true;
    } else {
        edge(u, &rec->alert_edge);
    }
    u->records++;
    if (n)
        unit_notice_new(o, n);
    return !u->nomem;
}
