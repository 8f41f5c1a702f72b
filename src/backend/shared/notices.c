/* SPDX-License-Identifier: Apache-2.0 */
/* The outbox and the breakers of its targets.
 *
 * Who delivers takes those that are due, each held back for a while, and says how it ended. A
 * notice that is held stands in the store with the node that has it: no other gives it out before
 * its time is over, or the node is dead. The store has locked all breakers that a unit asks or
 * tells, so that they are the same for every node.
 *
 * The outbox is bounded: the store drops the oldest when new ones make it too long. */
#include "backend/shared/shared.h"
#include "core/validate.h"

#define RETRY_MS 1000 /* a look that came to nothing, for no reason that has an end */

/* --- coming --- */

static struct span keep(struct unit *u, struct span text)
{
    const char *at = text.len ? arena_copy(&u->arena, text.at, text.len) : NULL;
    u->nomem |= text.len && !at;
    return span_of(at, at ? text.len : 0);
}

/* The rule's name is copied: this node may read the rules anew before the unit is over. */
void unit_notice_new(struct unit *u, const struct walert *a, const struct rec_notice_new *n)
{
    struct wnotice *w = unit_alloc(u, sizeof *w);
    if (!w)
        return;
    w->notice = *n;
    w->notice.alert = keep(u, a->name);
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
    u->alerts.breaker_count++;
    return w;
}

static struct wbreaker *breaker_of(const struct unit *u, struct span target)
{
    struct wbreaker *w = u->alerts.breakers;
    while (w && (w->gone || !span_equal(w->target, target)))
        w = w->next;
    return w;
}

/* Room for one more: the one that has been quiet longest goes. */
static bool make_room(struct unit *u)
{
    struct wbreaker *quiet = NULL;
    if (u->alerts.breaker_count < LIMIT_BREAKERS)
        return true;
    for (struct wbreaker *w = u->alerts.breakers; w; w = w->next)
        if (!w->gone && w->breaker.state == BREAKER_CLOSED && w->breaker.failures == 0 &&
            (!quiet || w->breaker.changed_at.ms < quiet->breaker.changed_at.ms))
            quiet = w;
    if (!quiet)
        return false;
    quiet->gone = quiet->changed = true;
    u->alerts.breaker_count--;
    return true;
}

/* False: there is no room for another. */
static bool breaker_set(struct unit *u, struct span target, const struct breaker *after)
{
    struct wbreaker *w = breaker_of(u, target);
    if (!w && make_room(u)) {
        w = unit_breaker_add(u, keep(u, target), after);
        if (w)
            w->stored = false;
    }
    if (!w)
        return false;
    w->breaker = *after;
    w->changed = true;
    u->records++;
    return true;
}

static bool breakers_ask(struct unit *u, struct span target, const struct breaker_rules *rules,
                         struct wall_time *ret_until)
{
    const struct wbreaker *w = breaker_of(u, target);
    struct breaker after = w ? w->breaker : (struct breaker){0};
    bool may = breaker_ask(&after, rules, u->now);
    *ret_until = after.until;
    if (w && !breaker_equal(&w->breaker, &after))
        (void)breaker_set(u, target, &after);
    return may;
}

/* Its notices need not wait any longer: the target answers again. */
static void let_go(struct unit *u, struct span target)
{
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

static void breakers_tell(struct unit *u, struct span target, const struct op_notice_end *want)
{
    const struct wbreaker *w = breaker_of(u, target);
    struct breaker before = w ? w->breaker : (struct breaker){0}, after = before;
    if (!want->reached || !target.len)
        return;
    breaker_tell(&after, &want->breaker, want->delivered, u->now);
    if (w && breaker_equal(&before, &after))
        return;
    if (breaker_set(u, target, &after) && before.state != BREAKER_CLOSED &&
        after.state == BREAKER_CLOSED)
        let_go(u, target);
}

/* --- delivery --- */

static void notice_gone(struct unit *u, struct wnotice *w)
{
    w->gone = w->changed = true;
    u->records++;
}

static void notice_tried(struct unit *u, struct wnotice *w, const struct rec_notice_tried *t)
{
    w->tried = *t;
    w->held = false;
    w->look_ms = t->due.ms;
    w->changed = true;
    u->records++;
}

/* It waited in vain for its target to come back. */
static void give_up(struct unit *u, struct wnotice *w)
{
    struct rec_notice_tried t = w->tried;
    t.state = NOTICE_DEAD;
    t.error = SPAN_LITERAL("too old: its target's breaker is open");
    notice_tried(u, w, &t);
}

/* May this one be sent now? What may not is looked at again when it may. */
static bool may_send(struct unit *u, struct wnotice *w, const struct walert *a,
                     const struct op_notice_take *want)
{
    struct wall_time until = {0};
    w->held = false;
    w->changed = true;
    if (breakers_ask(u, a->target, &want->breaker, &until))
        return true;
    if (u->now.ms - w->tried.since.ms >= want->give_up_ms)
        give_up(u, w);
    else
        w->look_ms = until.ms > u->now.ms ? until.ms : u->now.ms + RETRY_MS;
    return false;
}

static struct notice_view view_of(struct unit *u, const struct wnotice *w, const struct walert *a)
{
    return (struct notice_view){
        .notice = w->notice,
        .tried = w->tried,
        .with_payload = a->rule.with_payload,
        .url = keep(u, a->rule.url),
        .secret = keep(u, a->rule.secret),
    };
}

static void sooner(struct wall_time *at, int64_t ms)
{
    if (at->ms == 0 || ms < at->ms)
        at->ms = ms;
}

void work_notice_take(struct unit *u, struct turn *t)
{
    const struct op_notice_take *want = &t->op->notice_take;
    uint32_t limit = shared_limit(want->limit), count = 0;
    struct notice_view *views = arena_array(&u->arena, limit, sizeof *views);
    u->nomem |= !views;
    t->reply.next_due = u->alerts.next_look;
    for (struct wnotice *w = u->alerts.notices; w && !u->nomem; w = w->next) {
        const struct walert *a = alerts_known_find(u->s, w->notice.alert);
        if (count < limit && (!a || !a->target.len)) {
            notice_gone(u, w); /* its rule went while it came */
            continue;
        }
        if (count < limit && may_send(u, w, a, want)) {
            w->look_ms = u->now.ms + want->hold_ms;
            w->held = true;
            views[count++] = view_of(u, w, a);
            u->records++;
        }
        if (w->tried.state == NOTICE_PENDING)
            sooner(&t->reply.next_due, w->look_ms);
    }
    t->reply.notices = views;
    t->reply.notice_count = count;
}

static struct wnotice *find(struct unit *u, struct job_ref id, struct turn *t)
{
    for (struct wnotice *w = u->alerts.notices; w; w = w->next)
        if (w->notice.number == id.seq && !w->gone && (!id.hi || id.hi == w->notice.id_hi))
            return w;
    unit_refuse(t, OUT_NOT_FOUND, NULL);
    return NULL;
}

static void end_failed(struct unit *u, struct wnotice *w, const struct op_notice_end *want)
{
    struct rec_notice_tried next = {
        .number = w->notice.number,
        .state = want->give_up ? NOTICE_DEAD : NOTICE_PENDING,
        .tries = w->tried.tries < UINT32_MAX ? w->tried.tries + 1 : w->tried.tries,
        .since = w->tried.since,
        .due = want->due.ms >= 0 && want->due.ms <= LIMIT_WALL_MS ? want->due : u->now,
        .status = want->status,
        .error = validate_cut(want->error, LIMIT_NOTICE_ERROR_BYTES),
    };
    notice_tried(u, w, &next);
}

void work_notice_end(struct unit *u, struct turn *t)
{
    const struct op_notice_end *want = &t->op->notice_end;
    struct wnotice *w = find(u, (struct job_ref){want->number, 0}, t);
    if (!w)
        return;
    /* Delivered is delivered, whatever else became of it meanwhile. */
    if (!want->delivered && (w->tried.tries != want->tries || w->tried.state == NOTICE_DEAD)) {
        t->reply.repeat = true;
        return;
    }
    if (want->delivered)
        notice_gone(u, w);
    else
        end_failed(u, w, want);
    const struct walert *a = alerts_known_find(u->s, w->notice.alert);
    if (a)
        breakers_tell(u, a->target, want);
}

void work_notice_again(struct unit *u, struct turn *t)
{
    struct wnotice *w = find(u, t->op->notice.id, t);
    if (!w)
        return;
    struct rec_notice_tried next = {.number = w->notice.number,
                                    .state = NOTICE_PENDING,
                                    .since = u->now,
                                    .due = u->now,
                                    .status = w->tried.status,
                                    .error = w->tried.error};
    notice_tried(u, w, &next);
}

void work_notice_discard(struct unit *u, struct turn *t)
{
    struct wnotice *w = find(u, t->op->notice.id, t);
    if (w)
        notice_gone(u, w);
}
