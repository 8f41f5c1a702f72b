/* SPDX-License-Identifier: Apache-2.0 */
/* The outbox, and breakers.
 *
 * Who delivers takes those that are due, each held back for a while, and says how it ended. A
 * notice that is held stands in the store with the node that has it: no other gives it out before
 * its time is over, or the node is dead. The store has locked all breakers that a unit asks or
 * tells, so that they are the same for every node.
 *
 * The outbox is bounded: the store drops the oldest when new ones make it too long. */
#include "backend/shared/shared.h"

/* --- coming --- */

static struct span keep(struct unit *u, struct span text)
{
    const char *at = text.len ? arena_copy(&u->arena, text.at, text.len) : NULL;
    u->nomem |= text.len && !at;
    return span_of(at, at ? text.len : 0);
}

/* The name of the rule is copied: this node may read the rules again before the unit ends. */
void unit_notice_new(struct ops *o, struct rec_notice_new *n)
{
    struct unit *u = unit_of(o);
    struct wnotice *w = unit_alloc(u, sizeof *w);
    if (!w)
        return;
    w->notice = *n;
    w->notice.alert = keep(u, n->alert);
    w->notice.text = keep(u, n->text);
    w->notice.number = 0;
    w->notice.id_hi = id_hi(u->now, u->s->config.node);
    w->notice.at = w->tried.since = w->tried.due = u->now;
    w->look_ms = u->now.ms;
    *u->alerts.fresh_last = w;
    u->alerts.fresh_last = &w->next;
    u->records++;
}

struct wnotice *unit_notice_add(struct unit *u, const struct wnotice *loaded)
{
    struct wnotice *w = unit_alloc(u, sizeof *w);
    if (!w)
        return NULL;
    *w = *loaded;
    w->next = NULL;
    *u->alerts.notices_last = w;
    u->alerts.notices_last = &w->next;
    return w;
}

/* --- breakers --- */

struct wbreaker *unit_breaker_add(struct unit *u, struct span target, const struct breaker *b)
{
    struct wbreaker *w = unit_alloc(u, sizeof *w);
    if (!w)
        return NULL;
    *w = (struct wbreaker){
        .target = target, .breaker = *b, .stored = true, .next = u->alerts.breakers};
    u->alerts.breakers = w;
    return w;
}

struct span unit_breaker_name(const struct op *op)
{
    struct span none = {NULL, 0};
    int kind = (int)op->kind;
    if (kind < OP_BREAKER_PUT || kind > OP_BREAKER_REPORT)
        return none;
    return breaker_name_check(op->breaker.name, NULL) == 0 ? op->breaker.name : none;
}

/* Also one that is gone. */
static struct wbreaker *breaker_of(const struct unit *u, struct span target)
{
    struct wbreaker *w = u->alerts.breakers;
    while (w && !span_equal(w->target, target))
        w = w->next;
    return w;
}

const struct breaker_view *unit_breaker_find(const struct ops *o, struct span target)
{
    struct wbreaker *w = breaker_of(unit_of(o), target);
    return w && !w->gone ? (const struct breaker_view *)w : NULL;
}

uint64_t unit_breaker_named_count(const struct ops *o)
{
    const struct unit *u = unit_of(o);
    int64_t count = (int64_t)u->alerts.named_there;
    for (const struct wbreaker *w = u->alerts.breakers; w; w = w->next)
        if (breaker_is_named(w->target))
            count += !w->gone - w->stored;
    return count > 0 ? (uint64_t)count : 0;
}

const struct breaker_view *unit_breaker_next(const struct ops *o, const struct breaker_view *after)
{
    const struct wbreaker *w =
        after ? ((const struct wbreaker *)(const void *)after)->next : unit_of(o)->alerts.breakers;
    while (w && w->gone)
        w = w->next;
    return (const struct breaker_view *)w;
}

bool unit_breaker_commit(struct ops *o, const struct record *rec)
{
    struct unit *u = unit_of(o);
    bool gone = rec->kind == REC_BREAKER_GONE;
    struct span target = gone ? rec->breaker_gone.target : rec->breaker_put.target;
    struct wbreaker *w = breaker_of(u, target);
    if (!w) {
        w = unit_breaker_add(u, keep(u, target), &rec->breaker_put.breaker);
        if (!w)
            return false;
        w->stored = false;
    }
    w->gone = gone;
    if (!gone)
        w->breaker = rec->breaker_put.breaker;
    w->changed = true;
    u->records++;
    return true;
}

/* --- delivery --- */

static struct wnotice *wnotice_of(const struct notice_entry *n)
{
    return (struct wnotice *)(uintptr_t)n;
}

struct notice_entry *unit_notice_find(struct ops *o, uint64_t number)
{
    struct wnotice *w = unit_of(o)->alerts.notices;
    while (w && (w->gone || w->notice.number != number))
        w = w->next;
    return (struct notice_entry *)w;
}

const struct alert_state *unit_notice_alert(const struct ops *o, const struct notice_entry *n)
{
    return alerts_known_find(unit_of(o)->s, n->notice.alert);
}

bool unit_notice_commit(struct ops *o, struct notice_entry *n, const struct record *rec)
{
    struct wnotice *w = wnotice_of(n);
    if (rec->kind == REC_NOTICE_GONE) {
        w->gone = true;
    } else {
        w->tried = rec->notice_tried;
        w->held = false;
        w->look_ms = w->tried.due.ms;
    }
    w->changed = true;
    unit_of(o)->records++;
    return true;
}

/* What was held and is to be let go was found when the notices were loaded. */
void unit_notices_begin(struct ops *o, const struct op_notice_take *want)
{
    (void)want;
    unit_of(o)->alerts.take_at = unit_of(o)->alerts.notices;
}

/* One whose rule went while it came goes, too. */
struct notice_entry *unit_notice_due(struct ops *o)
{
    struct unit *u = unit_of(o);
    struct wnotice *w;
    while (!u->nomem && (w = u->alerts.take_at) != NULL) {
        struct notice_entry *n = (struct notice_entry *)w;
        const struct alert_state *a = unit_notice_alert(o, n);
        u->alerts.take_at = w->next;
        if (a && a->target.len)
            return n;
        w->gone = w->changed = true;
        u->records++;
    }
    return NULL;
}

void unit_notice_look(struct ops *o, struct notice_entry *n, int64_t at_ms, bool given_out)
{
    struct wnotice *w = wnotice_of(n);
    w->look_ms = at_ms;
    w->held = given_out;
    w->changed = true;
    unit_of(o)->records += given_out;
}

struct wall_time unit_notices_next(const struct ops *o)
{
    const struct unit_alerts *a = &unit_of(o)->alerts;
    struct wall_time next = a->next_look;
    for (const struct wnotice *w = a->notices; w; w = w->next)
        if (!w->gone && w->tried.state == NOTICE_PENDING && (next.ms == 0 || w->look_ms < next.ms))
            next.ms = w->look_ms;
    return next;
}

/* The store lets the notices of these rules go. */
void unit_notices_release(struct ops *o, struct span target)
{
    struct unit *u = unit_of(o);
    const struct alerts_known *k = &u->s->alerts;
    struct span *names =
        arena_array(&u->arena, u->alerts.let_go_count + k->count + 1, sizeof(struct span));
    u->nomem |= !names;
    if (!names)
        return;
    for (size_t i = 0; i < u->alerts.let_go_count; i++)
        names[i] = u->alerts.let_go[i];
    u->alerts.let_go = names;
    for (size_t i = 0; i < k->count; i++)
        if (span_equal(k->list[i].target, target))
            names[u->alerts.let_go_count++] = keep(u, k->list[i].name);
}
