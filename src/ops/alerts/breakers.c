/* SPDX-License-Identifier: Apache-2.0 */
/* Circuit breakers: core/alerts/breaker.h, made durable.
 *
 * There are two types in one table, told apart by their names (breaker_is_named). The breakers of
 * webhook targets come and go with deliveries. A breaker guards, it does not promise: where memory
 * is short, a report about a webhook is lost, never the outcome of a delivery. At most
 * LIMIT_BREAKERS of them are remembered; one that is closed and without failures says nothing and
 * makes room for another.
 *
 * Named breakers are consulted by clients: allow before a call, report after it. The first use
 * creates one. At most LIMIT_NAMED_BREAKERS exist; beyond that a new name is refused. Those without
 * settings of their own are deleted when they are unused for BREAKER_UNUSED_MS (the broker asks for
 * it). Every decision is one operation on one row, so that nodes with a common store agree. */
#include "ops/alerts/breakers.h"

#include "core/limits.h"
#include "ops/replies.h"

static bool breaker_set(struct ops *o, struct span target, const struct breaker *b)
{
    struct record rec = {.kind = REC_BREAKER_PUT, .breaker_put = {.target = target, .breaker = *b}};
    return o->store->breaker_commit(o, &rec);
}

static bool breaker_drop(struct ops *o, struct span target)
{
    struct record rec = {.kind = REC_BREAKER_GONE, .breaker_gone = {.target = target}};
    return o->store->breaker_commit(o, &rec);
}

/* --- webhooks --- */

/* Makes room for one more: deletes the one that has been unused longest. */
static bool make_room(struct ops *o)
{
    const struct breaker_view *quiet = NULL;
    size_t count = 0;
    for (const struct breaker_view *b = NULL; (b = o->store->breaker_next(o, b)) != NULL;) {
        if (breaker_is_named(b->target))
            continue;
        count++;
        if (b->breaker.state == BREAKER_CLOSED && b->breaker.failures == 0 &&
            (!quiet || b->breaker.changed_at.ms < quiet->breaker.changed_at.ms))
            quiet = b;
    }
    if (count < LIMIT_BREAKERS || !quiet)
        return count < LIMIT_BREAKERS;
    return breaker_drop(o, quiet->target);
}

static bool target_set(struct ops *o, struct span target, const struct breaker *b)
{
    return (o->store->breaker_find(o, target) || make_room(o)) && breaker_set(o, target, b);
}

bool breaker_of_target_allows(struct ops *o, struct span target, const struct breaker_rules *rules,
                              struct wall_time *ret_until)
{
    const struct breaker_view *b = o->store->breaker_find(o, target);
    struct breaker after = b ? b->breaker : (struct breaker){0};
    bool may = breaker_ask(&after, rules, o->now);
    *ret_until = after.until;
    if (!b || breaker_equal(&b->breaker, &after) || target_set(o, target, &after))
        return may;
    *ret_until = (struct wall_time){0};
    return false;
}

void breaker_of_target_report(struct ops *o, struct span target, const struct breaker_rules *rules,
                              bool success)
{
    const struct breaker_view *b = o->store->breaker_find(o, target);
    struct breaker before = b ? b->breaker : (struct breaker){0}, after = before;
    breaker_call_ended(&after, rules, success, o->now);
    if ((b && breaker_equal(&before, &after)) || !target_set(o, target, &after))
        return;
    if (before.state != BREAKER_CLOSED && after.state == BREAKER_CLOSED)
        o->store->notices_release(o, target);
}

/* --- named ones --- */

/* The breaker as it is, or a new one. False: refused. */
static bool named_find(struct ops *o, const struct op_breaker *want, struct breaker *ret,
                       struct reply *r)
{
    struct err_note note;
    if (breaker_name_check(want->name, &note) != 0 || breaker_rules_check(&want->rules, &note) != 0)
        return reply_invalid(o, r, &note);
    const struct breaker_view *b = o->store->breaker_find(o, want->name);
    if (!b && o->store->breaker_named_count(o) >= LIMIT_NAMED_BREAKERS)
        return reply_refuse(r, OUT_BREAKERS_FULL,
                            "there are 1000 breakers already; delete one that is not needed");
    *ret = b ? b->breaker : (struct breaker){0};
    r->created = !b;
    return true;
}

/* The breaker becomes *after, and the reply shows it. */
static struct breaker_view *named_set(struct ops *o, const struct op_breaker *want,
                                      struct breaker *after, struct reply *r)
{
    const struct breaker_view *b = o->store->breaker_find(o, want->name);
    struct breaker_view *view = arena_array(o->memory, 1, sizeof *view);
    breaker_used(after, o->now);
    if (!view ||
        (!(b && breaker_equal(&b->breaker, after)) && !breaker_set(o, want->name, after))) {
        reply_nomem(o, r);
        return NULL;
    }
    *view = (struct breaker_view){.target = text_keep(o, want->name), .breaker = *after};
    r->breakers = view;
    r->breaker_count = 1;
    return view;
}

void ops_breaker_put(struct ops *o, const struct op *op, struct reply *r)
{
    struct breaker b;
    if (!named_find(o, &op->breaker, &b, r))
        return;
    b.own = op->breaker.rules;
    (void)named_set(o, &op->breaker, &b, r);
}

void ops_breaker_allow(struct ops *o, const struct op *op, struct reply *r)
{
    struct breaker b;
    if (!named_find(o, &op->breaker, &b, r))
        return;
    struct breaker_rules rules = breaker_rules_of(&b, &op->breaker.rules);
    bool allowed = breaker_ask(&b, &rules, o->now);
    struct breaker_view *view = named_set(o, &op->breaker, &b, r);
    if (!view)
        return;
    view->allowed = allowed;
    view->retry_ms = allowed ? 0 : breaker_retry_ms(&b, o->now);
}

void ops_breaker_report(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_breaker *want = &op->breaker;
    struct breaker b;
    if (!named_find(o, want, &b, r))
        return;
    struct breaker_rules rules = breaker_rules_of(&b, &want->rules);
    breaker_call_ended(&b, &rules, want->success, o->now);
    if (!want->success && want->retry_after_ms)
        breaker_hold(&b, time_after(o->now, want->retry_after_ms));
    (void)named_set(o, want, &b, r);
}

void ops_breaker_delete(struct ops *o, const struct op *op, struct reply *r)
{
    const struct op_breaker *want = &op->breaker;
    struct err_note note;
    if (breaker_name_check(want->name, &note) != 0) {
        reply_invalid(o, r, &note);
        return;
    }
    const struct breaker_view *b = o->store->breaker_find(o, want->name);
    if (!b)
        reply_refuse(r, OUT_NOT_FOUND, NULL);
    else if (want->only_unused && !breaker_is_unused(&b->breaker, o->now))
        reply_refuse(r, OUT_ILLEGAL, NULL);
    else if (!breaker_drop(o, want->name))
        reply_nomem(o, r);
}
