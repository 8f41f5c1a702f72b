/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules on failover. While the primary is unavailable, so are its rules and its outbox. So
 * the rules on failover are copied to the spool, which raises them when this node begins to work on
 * the spool and clears them when the primary is available again. The notices are in the outbox of
 * the spool, and this node delivers them (notices.c). Each node therefore sends its own notices,
 * and their text names the node.
 *
 * One thing is done at a time: a copy (the rule of the settings is put into the primary, the rules
 * of both stores are read, and the differences are written to the spool), or the edges. Edges that
 * are told twice change nothing, so they are told again whenever the rules have changed. */
#include <stdio.h>

#include "backend/failover/impl.h"
#include "backend/reply_copy.h"
#include "base/mem.h"

static void next(struct failover *f);

void fo_rules_done(struct failover *f)
{
    mem_free(f->rules.wanted);
    mem_free(f->rules.present);
    f->rules.wanted = f->rules.present = NULL;
}

/* What failed is repeated by the timer of health.c. */
static void finish(struct failover *f, bool good)
{
    struct rules *r = &f->rules;
    fo_rules_done(f);
    r->copy_due = r->copy_due || (r->copying && !good);
    r->busy = r->copying = false;
    if (good)
        next(f);
}

/* Submits the operations of rules.ops; false: finish was called. */
static bool submit(struct failover *f, struct backend *to, size_t count, backend_reply_fn fn)
{
    struct rules *r = &f->rules;
    r->waiting = r->op_count = count;
    r->failed = false;
    if (!f->fanout.closing && to && backend_submit(to, r->ops, count, fn, f) == 0)
        return true;
    finish(f, false);
    return false;
}

static struct op list_op(void)
{
    return (struct op){.kind = OP_ALERT_LIST, .alert = {.with_secrets = true}};
}

static const struct alert_view *rule_in(const struct reply *list, struct span name)
{
    for (uint32_t i = 0; i < list->alert_count; i++)
        if (list->alerts[i].rule.on == ALERT_FAILOVER && span_equal(list->alerts[i].name, name))
            return &list->alerts[i];
    return NULL;
}

/* --- edges --- */

static void told_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    struct rules *r = &f->rules;
    r->failed = r->failed || (reply->outcome != OUT_OK && reply->outcome != OUT_NOT_FOUND);
    if (--r->waiting > 0)
        return;
    r->told = !r->failed;
    r->told_up = r->telling_up;
    finish(f, r->told);
}

static void edges_tell(struct failover *f)
{
    struct rules *r = &f->rules;
    size_t n = 0;
    r->telling_up = f->up;
    snprintf(r->text, sizeof r->text, "node %u: %s", f->config.node,
             f->up ? "the shared store is available again" : f->why);
    for (uint32_t i = 0; i < r->present->alert_count && n < LIMIT_ALERTS; i++) {
        if (r->present->alerts[i].rule.on != ALERT_FAILOVER)
            continue;
        r->ops[n++] = (struct op){.kind = OP_ALERT_EDGE,
                                  .alert_edge = {.alert = r->present->alerts[i].name,
                                                 .raised = !f->up,
                                                 .value = fo_spool_jobs(f),
                                                 .text = span_text(r->text)}};
    }
    if (n > 0) {
        (void)submit(f, f->spool, n, told_cb);
        return;
    }
    r->told = true;
    r->told_up = r->telling_up;
    finish(f, true);
}

static void rules_read_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    f->rules.present = reply->outcome == OUT_OK ? reply_copy(reply) : NULL;
    if (f->rules.present)
        edges_tell(f);
    else
        finish(f, false);
}

/* --- copying --- */

static void copied_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    struct rules *r = &f->rules;
    r->failed = r->failed || reply->outcome != OUT_OK;
    if (--r->waiting > 0)
        return;
    r->told = false;
    finish(f, !r->failed);
}

static bool same_rule(const struct alert_rule *a, const struct alert_rule *b)
{
    return alert_same_condition(a, b) && span_equal(a->url, b->url) &&
           span_equal(a->secret, b->secret);
}

static void differences_write(struct failover *f)
{
    struct rules *r = &f->rules;
    size_t n = 0;
    for (uint32_t i = 0; i < r->wanted->alert_count && n < LIMIT_ALERTS; i++) {
        const struct alert_view *want = &r->wanted->alerts[i];
        const struct alert_view *has = rule_in(r->present, want->name);
        if (want->rule.on == ALERT_FAILOVER && !(has && same_rule(&has->rule, &want->rule)))
            r->ops[n++] = (struct op){.kind = OP_ALERT_PUT,
                                      .alert = {.name = want->name, .rule = &want->rule}};
    }
    for (uint32_t i = 0; i < r->present->alert_count && n < 2 * LIMIT_ALERTS; i++) {
        const struct alert_view *has = &r->present->alerts[i];
        if (!rule_in(r->wanted, has->name))
            r->ops[n++] = (struct op){.kind = OP_ALERT_DELETE, .alert = {.name = has->name}};
    }
    if (n > 0) {
        (void)submit(f, f->spool, n, copied_cb);
        return;
    }
    finish(f, true);
}

static void present_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    f->rules.present = reply->outcome == OUT_OK ? reply_copy(reply) : NULL;
    if (f->rules.present)
        differences_write(f);
    else
        finish(f, false);
}

static void wanted_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    f->rules.wanted = reply->outcome == OUT_OK ? reply_copy(reply) : NULL;
    f->rules.ops[0] = list_op();
    if (f->rules.wanted)
        (void)submit(f, f->spool, 1, present_cb);
    else
        finish(f, false);
}

/* --- the rule of the settings --- */

static struct op own_rule_op(struct failover *f)
{
    alert_rule_default(ALERT_FAILOVER, &f->rules.own);
    f->rules.own.url = span_text(f->setup.alert_url);
    return (struct op){.kind = OP_ALERT_PUT,
                       .alert = {.name = SPAN_LITERAL(FAILOVER_ALERT),
                                 .rule = &f->rules.own,
                                 .must_create = true}};
}

static bool has_own_rule(const struct failover *f)
{
    return f->setup.alert_url && *f->setup.alert_url;
}

static void created_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    f->rules.created = reply->outcome == OUT_OK || reply->outcome == OUT_EXISTS;
    f->rules.ops[0] = list_op();
    if (f->rules.created)
        (void)submit(f, f->primary, 1, wanted_cb);
    else
        finish(f, false);
}

static void spool_created_cb(void *ctx, const struct reply *reply)
{
    (void)reply;
    finish(ctx, true);
}

/* --- what is to be done --- */

static void next(struct failover *f)
{
    struct rules *r = &f->rules;
    bool copy = r->copy_due && f->up && f->primary;
    if (r->busy || f->fanout.closing || (!copy && r->told && r->told_up == f->up))
        return;
    r->busy = true;
    r->copying = copy;
    r->copy_due = r->copy_due && !copy;
    bool create = copy && has_own_rule(f) && !r->created;
    r->ops[0] = create ? own_rule_op(f) : list_op();
    (void)submit(f, copy ? f->primary : f->spool, 1,
                 create ? created_cb
                 : copy ? wanted_cb
                        : rules_read_cb);
}

void fo_rules_start(struct failover *f)
{
    if (!has_own_rule(f))
        return;
    f->rules.busy = true;
    f->rules.ops[0] = own_rule_op(f);
    (void)submit(f, f->spool, 1, spool_created_cb);
}

void fo_rules_copy(struct failover *f)
{
    f->rules.copy_due = f->rules.copy_due || f->up;
    next(f);
}

void fo_rules_wake(struct failover *f)
{
    next(f);
}
