/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules, the outbox of notices and the breakers of their targets. */
#include <stdlib.h>

#include "base/buf.h"
#include "conform/conform.h"
#include "core/kvkey.h"

#define URL "http://hooks.example/in"
#define TARGET "http://hooks.example:80"
#define DAY_MS (24 * 3600 * 1000)

/* --- short ways --- */

static struct alert_rule rule_of(enum alert_on on, const char *queue)
{
    struct alert_rule r;
    alert_rule_default(on, &r);
    r.queue = span_text(queue);
    r.url = SPAN_LITERAL(URL);
    return r;
}

static const struct reply *rule_put(struct env *e, const char *name, struct alert_rule rule)
{
    struct alert_rule *copy = arena_copy(&e->arena, &rule, sizeof rule);
    EXPECT(copy);
    return run(e,
               (struct op){.kind = OP_ALERT_PUT, .alert = {.name = span_text(name), .rule = copy}});
}

static const struct alert_view *rule_get(struct env *e, const char *name)
{
    const struct reply *r =
        run(e, (struct op){.kind = OP_ALERT_LIST, .alert = {.name = span_text(name)}});
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->alert_count, 1);
    return &r->alerts[0];
}

static const struct reply *outbox(struct env *e)
{
    const struct reply *r = run(e, (struct op){.kind = OP_NOTICE_LIST});
    EXPECT_OUT(r, OUT_OK);
    return r;
}

static struct breaker_rules small_breaker(void)
{
    return (struct breaker_rules){
        .failure_threshold = 2, .open_cooldown_seconds = 10, .half_open_probe_count = 1};
}

static const struct reply *take_notices(struct env *e, uint32_t limit)
{
    const struct reply *r = run(e, (struct op){.kind = OP_NOTICE_TAKE,
                                               .notice_take = {.limit = limit,
                                                               .hold_ms = 30000,
                                                               .give_up_ms = DAY_MS,
                                                               .breaker = small_breaker()}});
    EXPECT_OUT(r, OUT_OK);
    return r;
}

static struct op end_op(const struct notice_view *v, bool delivered)
{
    return (struct op){.kind = OP_NOTICE_END,
                       .notice_end = {.number = v->notice.number,
                                      .tries = v->tried.tries,
                                      .delivered = delivered,
                                      .reached = true,
                                      .breaker = small_breaker()}};
}

static void end_delivered(struct env *e, const struct notice_view *v)
{
    EXPECT_OUT(run(e, end_op(v, true)), OUT_OK);
}

static const struct reply *end_failed(struct env *e, const struct notice_view *v, int64_t again_ms)
{
    struct op op = end_op(v, false);
    op.notice_end.due = now_plus(e, again_ms);
    op.notice_end.status = 500;
    op.notice_end.error = SPAN_LITERAL("answered 500");
    return run(e, op);
}

static uint64_t dead_in(struct env *e, const char *queue)
{
    uint64_t seq = put(e, queue);
    struct op op = lease_op(OP_FAIL, take(e, queue));
    op.lease.no_retry = true;
    op.lease.error = SPAN_LITERAL("smtp: no such user");
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_STATE(seq, STATE_DEAD);
    return seq;
}

static struct op edge_op(const char *alert, const char *queue, bool raised, uint64_t value)
{
    return (struct op){.kind = OP_ALERT_EDGE,
                       .alert_edge = {.alert = span_text(alert),
                                      .queue = span_text(queue),
                                      .raised = raised,
                                      .value = value,
                                      .mark = 100}};
}

static const struct breaker_view *the_breaker(struct env *e)
{
    const struct reply *r = run(e, (struct op){.kind = OP_BREAKER_LIST});
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->breaker_count, 1);
    EXPECT_TEXT(r->breakers[0].target, TARGET);
    return &r->breakers[0];
}

/* --- rules --- */

static void rules(struct env *e)
{
    struct alert_rule dead = rule_of(ALERT_DEAD, "mail-*");
    dead.secret = SPAN_LITERAL("s3cret");
    dead.with_payload = true;
    EXPECT_OUT(rule_put(e, "b", dead), OUT_OK);
    EXPECT_OUT(rule_put(e, "a", rule_of(ALERT_NO_CLAIM, "x")), OUT_OK);
    const struct reply *r = run(e, (struct op){.kind = OP_ALERT_LIST});
    EXPECT_INT(r->alert_count, 2);
    EXPECT_TEXT(r->alerts[0].name, "a");
    EXPECT_INT(r->alerts[0].rule.after_ms, 60000);
    const struct alert_view *v = rule_get(e, "b");
    EXPECT_INT(v->rule.on, ALERT_DEAD);
    EXPECT(v->rule.enabled && v->rule.with_payload && v->has_secret);
    EXPECT_TEXT(v->rule.queue, "mail-*");
    EXPECT_TEXT(v->rule.url, URL);
    EXPECT_INT(v->rule.secret.len, 0); /* never shown */
    EXPECT_INT(v->created_at.ms, e->clock.at.wall.ms);
    EXPECT_OUT(run(e, (struct op){.kind = OP_ALERT_DELETE, .alert = {.name = SPAN_LITERAL("a")}}),
               OUT_OK);
    EXPECT_OUT(run(e, (struct op){.kind = OP_ALERT_LIST, .alert = {.name = SPAN_LITERAL("a")}}),
               OUT_NOT_FOUND);
    EXPECT_OUT(run(e, (struct op){.kind = OP_ALERT_EDGE, .alert_edge = {.raised = true}}),
               OUT_NOT_FOUND);
}

static void rule_refusals(struct env *e)
{
    struct alert_rule good = rule_of(ALERT_DEAD, "*"), bad = good;
    struct op put_op = {.kind = OP_ALERT_PUT,
                        .alert = {.name = SPAN_LITERAL("a"), .rule = &good, .must_exist = true}};
    EXPECT_OUT(run(e, put_op), OUT_NOT_FOUND);
    put_op.alert.must_exist = false;
    put_op.alert.must_create = true;
    const struct reply *r = run(e, put_op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->created);
    EXPECT_OUT(run(e, put_op), OUT_EXISTS);
    bad.url = SPAN_LITERAL("ftp://x/");
    EXPECT_OUT(rule_put(e, "a", bad), OUT_INVALID);
    bad = good, bad.percent = 5;
    EXPECT_OUT(rule_put(e, "a", bad), OUT_INVALID);
    EXPECT_OUT(rule_put(e, "-a", good), OUT_INVALID);
    EXPECT_OUT(rule_put(e, "", good), OUT_INVALID);
    EXPECT_OUT(run(e, (struct op){.kind = OP_ALERT_DELETE, .alert = {.name = SPAN_LITERAL("b")}}),
               OUT_NOT_FOUND);
    EXPECT_OUT(run(e, edge_op("a", "q", true, 1)), OUT_NOT_FOUND); /* not a condition */
    char name[16];
    for (unsigned i = 1; i < LIMIT_ALERTS; i++) {
        snprintf(name, sizeof name, "n%u", i);
        EXPECT_OUT(rule_put(e, name, good), OUT_OK);
    }
    EXPECT_OUT(rule_put(e, "one-more", good), OUT_INVALID);
    EXPECT_OUT(rule_put(e, "a", good), OUT_OK);
}

static void secret_stays(struct env *e)
{
    struct alert_rule r = rule_of(ALERT_DEAD, "*");
    r.secret = SPAN_LITERAL("one");
    EXPECT_OUT(rule_put(e, "a", r), OUT_OK);
    r.secret.len = 0;
    r.url = SPAN_LITERAL("http://elsewhere.example/");
    EXPECT_OUT(
        run(e, (struct op){.kind = OP_ALERT_PUT,
                           .alert = {.name = SPAN_LITERAL("a"), .rule = &r, .keep_secret = true}}),
        OUT_OK);
    dead_in(e, "q");
    r.url = SPAN_LITERAL(URL); /* of what waits, too */
    EXPECT_OUT(
        run(e, (struct op){.kind = OP_ALERT_PUT,
                           .alert = {.name = SPAN_LITERAL("a"), .rule = &r, .keep_secret = true}}),
        OUT_OK);
    const struct reply *t = take_notices(e, 1);
    EXPECT_INT(t->notice_count, 1);
    EXPECT_TEXT(t->notices[0].secret, "one");
    EXPECT_TEXT(t->notices[0].url, URL);
    EXPECT_INT(outbox(e)->notices[0].secret.len, 0);
}

/* --- events --- */

static void dead_jobs(struct env *e)
{
    struct alert_rule off = rule_of(ALERT_DEAD, "*"), silent = off;
    off.enabled = false;
    silent.url.len = 0;
    EXPECT_OUT(rule_put(e, "ops", rule_of(ALERT_DEAD, "mail*")), OUT_OK);
    EXPECT_OUT(rule_put(e, "all", rule_of(ALERT_DEAD, "*")), OUT_OK);
    EXPECT_OUT(rule_put(e, "off", off), OUT_OK);
    EXPECT_OUT(rule_put(e, "silent", silent), OUT_OK);
    EXPECT_OUT(rule_put(e, "deep", rule_of(ALERT_DEEP, "*")), OUT_OK);
    uint64_t first = dead_in(e, "mail");
    const struct reply *r = outbox(e);
    EXPECT_INT(r->notice_count, 2);
    EXPECT_TEXT(r->notices[0].notice.alert, "all");
    EXPECT_TEXT(r->notices[1].notice.alert, "ops");
    const struct rec_notice_new *n = &r->notices[1].notice;
    EXPECT_INT(n->on, ALERT_DEAD);
    EXPECT_INT(n->edge, EDGE_NONE);
    EXPECT_TEXT(n->queue, "mail");
    EXPECT_INT(n->job_seq, first);
    EXPECT_INT(n->job_hi, get(e, first)->job.id_hi);
    EXPECT_INT(n->reason, REASON_REJECTED);
    EXPECT_INT(n->attempts, 1);
    EXPECT_TEXT(n->text, "smtp: no such user");
    EXPECT_INT(n->at.ms, e->clock.at.wall.ms);
    EXPECT(n->number > r->notices[0].notice.number && n->id_hi != 0);
    EXPECT_INT(r->notices[1].tried.state, NOTICE_PENDING);
    dead_in(e, "other");
    EXPECT_INT(outbox(e)->notice_count, 3);
    EXPECT_INT(rule_get(e, "all")->pending, 2);
    EXPECT_INT(rule_get(e, "ops")->pending, 1);
}

/* Every way to die: an expired lease, and an expiry before and during a claim. */
static void every_death(struct env *e)
{
    struct queue_policy p = test_policy();
    p.lease_end = LEASE_END_FAIL;
    queue_make(e, "q", &p);
    EXPECT_OUT(rule_put(e, "ops", rule_of(ALERT_DEAD, "q")), OUT_OK);
    put(e, "q");
    take(e, "q");
    advance(e, p.lease_ms);
    EXPECT_INT(outbox(e)->notice_count, 1);
    EXPECT_INT(outbox(e)->notices[0].notice.reason, REASON_LEASE_EXPIRED);
    struct op op = enqueue_op("q");
    op.enqueue.extra.expires_at = now_plus(e, 1000);
    put_op(e, op);
    advance(e, 1000);
    EXPECT_INT(outbox(e)->notice_count, 2);
    EXPECT_INT(outbox(e)->notices[1].notice.reason, REASON_EXPIRED);
    put(e, "q");
    op = lease_op(OP_RELEASE, take(e, "q"));
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_OUT(fail(e, take(e, "q")), OUT_OK); /* will run again */
    EXPECT_INT(outbox(e)->notice_count, 2);
}

static struct op leaves_key(struct env *e, const char *json)
{
    struct op op = enqueue_op("q");
    struct err_note note;
    struct span key;
    struct buf list;
    buf_init(&list);
    if (kvkey_from_json(span_text(json), false, &e->arena, &key, &note) != 0 ||
        record_span_append(&list, key) != 0)
        abort();
    op.enqueue.extra.undelivered = span_of(arena_copy(&e->arena, list.data, list.len), list.len);
    buf_done(&list);
    return op;
}

/* Other data that are read when a job dies (the key for its payload, an earlier outcome of its
 * lease) must not make the store overlook a rule that was just set. */
static void death_right_after_the_rule(struct env *e)
{
    struct op ops[2];
    const struct reply *replies[2];
    put_op(e, leaves_key(e, "[\"failed\",1]"));
    EXPECT_OUT(rule_put(e, "one", rule_of(ALERT_DEAD, "q")), OUT_OK);
    ops[0] = lease_op(OP_FAIL, take(e, "q"));
    ops[0].lease.no_retry = true;
    EXPECT_OUT(run(e, ops[0]), OUT_OK);
    EXPECT_INT(outbox(e)->notice_count, 1);
    put(e, "q");
    put(e, "q");
    struct held over = take(e, "q");
    EXPECT_OUT(ack(e, over), OUT_OK);
    EXPECT_OUT(rule_put(e, "two", rule_of(ALERT_DEAD, "q")), OUT_OK);
    ops[0] = lease_op(OP_EXTEND, over);
    ops[1] = lease_op(OP_FAIL, take(e, "q"));
    ops[1].lease.no_retry = true;
    run_batch(e, ops, 2, replies);
    EXPECT_OUT(replies[1], OUT_OK);
    const struct reply *r = outbox(e);
    EXPECT_INT(r->notice_count, 3);
    EXPECT_TEXT(r->notices[1].notice.alert, "one");
    EXPECT_TEXT(r->notices[2].notice.alert, "two");
}

/* --- conditions --- */

static void edges(struct env *e)
{
    uint64_t after = backend_events_last(e->b), oldest;
    struct backend_event events[8];
    put(e, "q");
    EXPECT_OUT(rule_put(e, "deep", rule_of(ALERT_DEEP, "q*")), OUT_OK);
    EXPECT_OUT(run(e, edge_op("deep", "other", true, 5)), OUT_NOT_FOUND);
    EXPECT_OUT(run(e, edge_op("deep", "q", false, 5)), OUT_OK); /* it was not raised */
    EXPECT_INT(outbox(e)->notice_count, 0);
    EXPECT_OUT(run(e, edge_op("deep", "q", true, 120)), OUT_OK);
    EXPECT_OUT(run(e, edge_op("deep", "q", true, 130)), OUT_OK); /* once */
    const struct alert_view *v = rule_get(e, "deep");
    EXPECT_INT(v->raised_count, 1);
    EXPECT_INT(v->raised_total, 1);
    EXPECT_TEXT(v->raised[0].queue, "q");
    EXPECT_INT(v->raised[0].value, 120);
    EXPECT_INT(v->raised[0].mark, 100);
    EXPECT_INT(v->raised[0].since.ms, e->clock.at.wall.ms);
    EXPECT_OUT(run(e, edge_op("deep", "q", false, 80)), OUT_OK);
    EXPECT_OUT(run(e, edge_op("deep", "q", false, 70)), OUT_OK);
    EXPECT_INT(rule_get(e, "deep")->raised_count, 0);
    const struct reply *r = outbox(e);
    EXPECT_INT(r->notice_count, 2);
    EXPECT_INT(r->notices[0].notice.edge, EDGE_RAISED);
    EXPECT_INT(r->notices[0].notice.value, 120);
    EXPECT_INT(r->notices[1].notice.edge, EDGE_CLEARED);
    EXPECT_INT(r->notices[1].notice.value, 80);
    EXPECT_INT(r->notices[1].notice.on, ALERT_DEEP);
    settle_due(e);
    uint64_t kinds = UINT64_C(1) << EVENT_ALERT_RAISED | UINT64_C(1) << EVENT_ALERT_CLEARED;
    EXPECT_INT(backend_events(e->b, after, kinds, events, 8, &oldest), 2);
    EXPECT_INT(events[0].kind, EVENT_ALERT_RAISED);
    EXPECT_INT(events[1].kind, EVENT_ALERT_CLEARED);
    EXPECT_TEXT(events[0].alert, "deep");
    EXPECT_TEXT(events[0].queue, "q");
    EXPECT_INT(events[0].count, 120);
    EXPECT_INT(events[0].seq, 0);
}

/* A rule on failover is about a node: its edges name no queue, and their text is in the notices. */
static void failover_edges(struct env *e)
{
    static char text[LIMIT_NOTICE_TEXT_BYTES + 100];
    memset(text, 'x', sizeof text);
    struct op edge = edge_op("f", "", true, 3);
    EXPECT_OUT(rule_put(e, "f", rule_of(ALERT_FAILOVER, "q*")), OUT_INVALID);
    EXPECT_OUT(rule_put(e, "f", rule_of(ALERT_FAILOVER, "*")), OUT_OK);
    EXPECT_INT(rule_get(e, "f")->rule.on, ALERT_FAILOVER);
    edge.alert_edge.mark = 0;
    edge.alert_edge.text = SPAN_LITERAL("node 9: no answer");
    EXPECT_OUT(run(e, edge), OUT_OK);
    EXPECT_OUT(run(e, edge), OUT_OK); /* once */
    EXPECT_INT(rule_get(e, "f")->raised_count, 1);
    EXPECT_TEXT(rule_get(e, "f")->raised[0].queue, "");
    edge.alert_edge.raised = false;
    edge.alert_edge.text = span_of(text, sizeof text);
    EXPECT_OUT(run(e, edge), OUT_OK);
    EXPECT_INT(rule_get(e, "f")->raised_count, 0);
    const struct reply *r = outbox(e);
    EXPECT_INT(r->notice_count, 2);
    EXPECT_INT(r->notices[0].notice.on, ALERT_FAILOVER);
    EXPECT_INT(r->notices[0].notice.edge, EDGE_RAISED);
    EXPECT_INT(r->notices[0].notice.value, 3);
    EXPECT_TEXT(r->notices[0].notice.queue, "");
    EXPECT_TEXT(r->notices[0].notice.text, "node 9: no answer");
    EXPECT_INT(r->notices[1].notice.edge, EDGE_CLEARED);
    EXPECT_INT(r->notices[1].notice.text.len, LIMIT_NOTICE_TEXT_BYTES);
}

static void changed_rule_starts_again(struct env *e)
{
    struct alert_rule r = rule_of(ALERT_DEEP, "*");
    EXPECT_OUT(rule_put(e, "deep", r), OUT_OK);
    EXPECT_OUT(run(e, edge_op("deep", "q", true, 120)), OUT_OK);
    r.url = SPAN_LITERAL("http://elsewhere.example/");
    EXPECT_OUT(rule_put(e, "deep", r), OUT_OK);
    EXPECT_INT(rule_get(e, "deep")->raised_count, 1); /* the same condition */
    r.depth = 7;
    EXPECT_OUT(rule_put(e, "deep", r), OUT_OK);
    EXPECT_INT(rule_get(e, "deep")->raised_count, 0);
    EXPECT_INT(outbox(e)->notice_count, 1);
    r.url.len = 0; /* no address any more */
    EXPECT_OUT(rule_put(e, "deep", r), OUT_OK);
    EXPECT_INT(outbox(e)->notice_count, 0);
    EXPECT_OUT(run(e, edge_op("deep", "q", true, 120)), OUT_OK);
    EXPECT_INT(outbox(e)->notice_count, 0);
    EXPECT_INT(rule_get(e, "deep")->raised_count, 1); /* recorded, and sent as an event */
}

/* --- delivery --- */

static void deliveries(struct env *e)
{
    EXPECT_OUT(rule_put(e, "ops", rule_of(ALERT_DEAD, "*")), OUT_OK);
    EXPECT_INT(take_notices(e, 10)->notice_count, 0);
    EXPECT_INT(take_notices(e, 10)->next_due.ms, 0);
    dead_in(e, "q");
    const struct reply *t = take_notices(e, 10);
    EXPECT_INT(t->notice_count, 1);
    EXPECT_INT(t->notices[0].tried.tries, 0);
    EXPECT_INT(take_notices(e, 10)->notice_count, 0); /* held */
    EXPECT_INT(take_notices(e, 10)->next_due.ms, now_plus(e, 30000).ms);
    /* A node that lost the reply gets the notice again; a node that is delivering it does not. */
    struct op lost = {.kind = OP_NOTICE_TAKE,
                      .notice_take = {.limit = 1,
                                      .hold_ms = 30000,
                                      .give_up_ms = DAY_MS,
                                      .reset = true,
                                      .mine = &t->notices[0].notice.number,
                                      .mine_count = 1,
                                      .breaker = small_breaker()}};
    EXPECT_INT(run(e, lost)->notice_count, 0);
    lost.notice_take.mine_count = 0;
    EXPECT_INT(run(e, lost)->notice_count, 1);
    EXPECT_OUT(end_failed(e, &t->notices[0], 1000), OUT_OK);
    const struct reply *again = end_failed(e, &t->notices[0], 5000); /* reported twice */
    EXPECT_OUT(again, OUT_OK);
    EXPECT(again->repeat);
    const struct notice_view *v = &outbox(e)->notices[0];
    EXPECT_INT(v->tried.tries, 1);
    EXPECT_INT(v->tried.status, 500);
    EXPECT_TEXT(v->tried.error, "answered 500");
    EXPECT_INT(v->tried.due.ms, now_plus(e, 1000).ms);
    advance(e, 999);
    EXPECT_INT(take_notices(e, 10)->notice_count, 0);
    advance(e, 1);
    t = take_notices(e, 10);
    EXPECT_INT(t->notice_count, 1);
    advance(e, 30000); /* the node that took it has stopped */
    t = take_notices(e, 10);
    EXPECT_INT(t->notice_count, 1);
    end_delivered(e, &t->notices[0]);
    EXPECT_OUT(run(e, end_op(&t->notices[0], true)), OUT_NOT_FOUND);
    EXPECT_INT(outbox(e)->notice_count, 0);
}

static void given_up(struct env *e)
{
    EXPECT_OUT(rule_put(e, "ops", rule_of(ALERT_DEAD, "*")), OUT_OK);
    dead_in(e, "q");
    const struct reply *t = take_notices(e, 10);
    struct op op = end_op(&t->notices[0], false);
    op.notice_end.give_up = true;
    EXPECT_OUT(run(e, op), OUT_OK);
    clock_manual_advance(&e->clock, DAY_MS); /* in steps it would take a store with a server long */
    settle(e);
    EXPECT_INT(take_notices(e, 10)->notice_count, 0);
    const struct notice_view *v = &outbox(e)->notices[0];
    EXPECT_INT(v->tried.state, NOTICE_DEAD);
    EXPECT_INT(rule_get(e, "ops")->dead, 1);
    EXPECT_INT(rule_get(e, "ops")->pending, 0);
    struct backend_figures f;
    backend_figures(e->b, &f);
    EXPECT_INT(f.notices_dead, 1);
    EXPECT_INT(f.notices_pending, 0);
    struct op_notice one = {.id = {v->notice.number, v->notice.id_hi}};
    struct op_notice wrong = {.id = {v->notice.number, v->notice.id_hi + 1}};
    EXPECT_OUT(run(e, (struct op){.kind = OP_NOTICE_AGAIN, .notice = wrong}), OUT_NOT_FOUND);
    EXPECT_OUT(run(e, (struct op){.kind = OP_NOTICE_LIST, .notice = wrong}), OUT_NOT_FOUND);
    EXPECT_OUT(run(e, (struct op){.kind = OP_NOTICE_AGAIN, .notice = one}), OUT_OK);
    t = take_notices(e, 10);
    EXPECT_INT(t->notice_count, 1);
    EXPECT_INT(t->notices[0].tried.tries, 0);
    EXPECT_INT(t->notices[0].tried.since.ms, e->clock.at.wall.ms);
    EXPECT_OUT(run(e, (struct op){.kind = OP_NOTICE_DISCARD, .notice = one}), OUT_OK);
    EXPECT_OUT(run(e, (struct op){.kind = OP_NOTICE_DISCARD, .notice = one}), OUT_NOT_FOUND);
    EXPECT_INT(outbox(e)->notice_count, 0);
}

static void rule_takes_its_notices_along(struct env *e)
{
    EXPECT_OUT(rule_put(e, "a", rule_of(ALERT_DEAD, "*")), OUT_OK);
    EXPECT_OUT(rule_put(e, "b", rule_of(ALERT_DEAD, "*")), OUT_OK);
    dead_in(e, "q");
    dead_in(e, "q");
    EXPECT_INT(outbox(e)->notice_count, 4);
    EXPECT_OUT(run(e, (struct op){.kind = OP_ALERT_DELETE, .alert = {.name = SPAN_LITERAL("a")}}),
               OUT_OK);
    const struct reply *r = outbox(e);
    EXPECT_INT(r->notice_count, 2);
    EXPECT_TEXT(r->notices[0].notice.alert, "b");
    EXPECT_TEXT(r->notices[1].notice.alert, "b");
}

static void bounded(struct env *e)
{
    struct op ops[500];
    const struct reply *replies[500];
    struct backend_figures f;
    EXPECT_OUT(rule_put(e, "deep", rule_of(ALERT_DEEP, "*")), OUT_OK);
    for (size_t i = 0; i < 500; i++)
        ops[i] = edge_op("deep", "q", i % 2 == 0, i);
    for (unsigned n = 0; n < LIMIT_NOTICES; n += 500)
        run_batch(e, ops, 500, replies);
    const struct reply *r = outbox(e);
    EXPECT_INT(r->notice_count, LIMIT_BATCH);
    uint64_t first = r->notices[0].notice.number, second = r->notices[1].notice.number;
    backend_figures(e->b, &f);
    EXPECT_INT(f.notices_pending, LIMIT_NOTICES);
    EXPECT_INT(f.notices_dropped, 0);
    EXPECT_OUT(run(e, edge_op("deep", "q", true, 1)), OUT_OK);
    backend_figures(e->b, &f);
    EXPECT_INT(f.notices_pending, LIMIT_NOTICES);
    EXPECT_INT(f.notices_dropped, 1);
    EXPECT_INT(outbox(e)->notices[0].notice.number, second);
    EXPECT_OUT(run(e, (struct op){.kind = OP_NOTICE_LIST, .notice = {.id = {first, 0}}}),
               OUT_NOT_FOUND);
    /* Page by page to the last. */
    uint64_t seen = 0, last = 0, cursor = 0;
    do {
        r = run(e, (struct op){.kind = OP_NOTICE_LIST, .notice = {.after = cursor, .limit = 999}});
        for (uint32_t i = 0; i < r->notice_count; i++, seen++) {
            EXPECT(r->notices[i].notice.number > last);
            last = r->notices[i].notice.number;
        }
        cursor = r->notice_cursor;
    } while (cursor);
    EXPECT_INT(seen, LIMIT_NOTICES);
}

/* --- breakers --- */

static void breaker_opens(struct env *e)
{
    EXPECT_OUT(rule_put(e, "ops", rule_of(ALERT_DEAD, "*")), OUT_OK);
    dead_in(e, "q");
    dead_in(e, "q");
    dead_in(e, "q");
    const struct reply *t = take_notices(e, 2);
    EXPECT_INT(t->notice_count, 2);
    EXPECT_OUT(end_failed(e, &t->notices[0], 1000), OUT_OK);
    EXPECT_INT(the_breaker(e)->breaker.state, BREAKER_CLOSED);
    EXPECT_INT(the_breaker(e)->breaker.failures, 1);
    EXPECT_OUT(end_failed(e, &t->notices[1], 1000), OUT_OK);
    EXPECT_INT(the_breaker(e)->breaker.state, BREAKER_OPEN);
    EXPECT_INT(the_breaker(e)->breaker.until.ms, now_plus(e, 10000).ms);
    advance(e, 9999);
    t = take_notices(e, 10);
    EXPECT_INT(t->notice_count, 0); /* denied … */
    EXPECT_INT(t->next_due.ms, now_plus(e, 1).ms);
    EXPECT_INT(outbox(e)->notices[2].tried.tries, 0); /* … at no cost */
    EXPECT_INT(outbox(e)->notices[0].tried.tries, 1);
    advance(e, 1);
    t = take_notices(e, 10); /* one probe */
    EXPECT_INT(t->notice_count, 1);
    EXPECT_INT(the_breaker(e)->breaker.state, BREAKER_HALF_OPEN);
    EXPECT_OUT(end_failed(e, &t->notices[0], 1000), OUT_OK);
    EXPECT_INT(the_breaker(e)->breaker.state, BREAKER_OPEN);
    advance(e, 10000);
    t = take_notices(e, 10);
    EXPECT_INT(t->notice_count, 1);
    end_delivered(e, &t->notices[0]);
    EXPECT_INT(the_breaker(e)->breaker.state, BREAKER_CLOSED);
    EXPECT_INT(the_breaker(e)->breaker.failures, 0);
    t = take_notices(e, 10); /* the others need not wait for what the breaker had set */
    EXPECT_INT(t->notice_count, 2);
}

static void not_reached(struct env *e)
{
    EXPECT_OUT(rule_put(e, "ops", rule_of(ALERT_DEAD, "*")), OUT_OK);
    dead_in(e, "q");
    for (int i = 0; i < 5; i++) {
        const struct reply *t = take_notices(e, 1);
        EXPECT_INT(t->notice_count, 1);
        struct op op = end_op(&t->notices[0], false);
        op.notice_end.reached = false; /* the address was refused: no request was sent */
        op.notice_end.due = e->clock.at.wall;
        EXPECT_OUT(run(e, op), OUT_OK);
    }
    EXPECT_INT(run(e, (struct op){.kind = OP_BREAKER_LIST})->breaker_count, 0);
    EXPECT_INT(outbox(e)->notices[0].tried.tries, 5);
}

static void too_old_behind_a_breaker(struct env *e)
{
    EXPECT_OUT(rule_put(e, "ops", rule_of(ALERT_DEAD, "*")), OUT_OK);
    dead_in(e, "q");
    dead_in(e, "q");
    const struct reply *t = take_notices(e, 2);
    end_failed(e, &t->notices[0], 1000);
    end_failed(e, &t->notices[1], 1000);
    clock_manual_advance(&e->clock, DAY_MS);
    t = take_notices(e, 1); /* the probe */
    EXPECT_INT(t->notice_count, 1);
    EXPECT_OUT(end_failed(e, &t->notices[0], 1000), OUT_OK);
    EXPECT_INT(take_notices(e, 1)->notice_count, 0);
    EXPECT_INT(rule_get(e, "ops")->dead, 1);
    EXPECT_INT(rule_get(e, "ops")->pending, 1);
}

/* --- restarts --- */

static void all_is_back(struct env *e)
{
    struct alert_rule ops = rule_of(ALERT_DEAD, "*");
    ops.secret = SPAN_LITERAL("s3cret");
    EXPECT_OUT(rule_put(e, "ops", ops), OUT_OK);
    EXPECT_OUT(rule_put(e, "deep", rule_of(ALERT_DEEP, "*")), OUT_OK);
    EXPECT_OUT(rule_put(e, "gone", rule_of(ALERT_DEEP, "*")), OUT_OK);
    dead_in(e, "q");
    dead_in(e, "q");
    dead_in(e, "q");
    EXPECT_OUT(run(e, edge_op("deep", "q", true, 7)), OUT_OK);
    EXPECT_OUT(run(e, edge_op("deep", "", true, 8)), OUT_OK);
    EXPECT_OUT(run(e, edge_op("deep", "x", true, 8)), OUT_OK);
    EXPECT_OUT(run(e, edge_op("deep", "x", false, 8)), OUT_OK);
    EXPECT_OUT(run(e, edge_op("gone", "x", true, 8)), OUT_OK);
    EXPECT_OUT(
        run(e, (struct op){.kind = OP_ALERT_DELETE, .alert = {.name = SPAN_LITERAL("gone")}}),
        OUT_OK);
    const struct reply *t = take_notices(e, 4);
    end_delivered(e, &t->notices[0]);
    end_failed(e, &t->notices[1], 60000);
    struct op op = end_op(&t->notices[2], false);
    op.notice_end.give_up = true;
    EXPECT_OUT(run(e, op), OUT_OK); /* the second failure: open */
    const struct reply *before = outbox(e);
    EXPECT_INT(before->notice_count, 6);
    env_restart(e);
    const struct reply *r = outbox(e);
    EXPECT_INT(r->notice_count, before->notice_count);
    for (uint32_t i = 0; i < r->notice_count; i++) {
        EXPECT_INT(r->notices[i].notice.number, before->notices[i].notice.number);
        EXPECT_INT(r->notices[i].notice.id_hi, before->notices[i].notice.id_hi);
        EXPECT_INT(r->notices[i].notice.edge, before->notices[i].notice.edge);
        EXPECT_SPAN(r->notices[i].notice.alert, before->notices[i].notice.alert);
        EXPECT_SPAN(r->notices[i].notice.queue, before->notices[i].notice.queue);
        EXPECT_SPAN(r->notices[i].notice.text, before->notices[i].notice.text);
        EXPECT_SPAN(r->notices[i].tried.error, before->notices[i].tried.error);
        EXPECT_INT(r->notices[i].tried.state, before->notices[i].tried.state);
        EXPECT_INT(r->notices[i].tried.tries, before->notices[i].tried.tries);
        EXPECT_INT(r->notices[i].tried.due.ms, before->notices[i].tried.due.ms);
    }
    EXPECT_INT(run(e, (struct op){.kind = OP_ALERT_LIST})->alert_count, 2);
    EXPECT(rule_get(e, "ops")->has_secret);
    EXPECT_INT(rule_get(e, "ops")->dead, 1);
    const struct alert_view *v = rule_get(e, "deep");
    EXPECT_INT(v->raised_count, 2);
    EXPECT_OUT(run(e, edge_op("deep", "q", true, 9)), OUT_OK); /* not told again */
    EXPECT_INT(outbox(e)->notice_count, 6);
    EXPECT_INT(the_breaker(e)->breaker.state, BREAKER_OPEN);
    EXPECT_INT(take_notices(e, 10)->notice_count, 0);
    advance(e, 10000);
    EXPECT_INT(take_notices(e, 10)->notice_count, 1); /* what was held is due again */
}

static void numbers_are_not_used_twice(struct env *e)
{
    EXPECT_OUT(rule_put(e, "ops", rule_of(ALERT_DEAD, "*")), OUT_OK);
    dead_in(e, "q");
    const struct reply *t = take_notices(e, 1);
    uint64_t number = t->notices[0].notice.number;
    end_delivered(e, &t->notices[0]);
    env_restart(e);
    dead_in(e, "q");
    EXPECT(outbox(e)->notices[0].notice.number > number);
}

static const struct conform_case cases[] = {
    CASE("ORC-18 alerts: rules are set, shown without their secret, and deleted", rules),
    CASE("ORC-18 alerts: what is refused", rule_refusals, .flags = EXACT),
    CASE("ORC-18 alerts: a secret stays when the rule changes", secret_stays, .flags = EXACT),
    CASE("ORC-18 notices: a dead job causes one for each rule that matches", dead_jobs,
         .flags = EXACT),
    CASE("ORC-18 notices: every way to die", every_death, .flags = EXACT),
    CASE("ORC-18 notices: a job that dies right after the rule was set", death_right_after_the_rule,
         .flags = EXACT, .needs = NEEDS_KV),
    CASE("NOM-11 PDQ-5 alerts: both edges, once, and as events", edges, .flags = EXACT),
    CASE("PDQ-7 alerts: a rule on failover, both edges with their text", failover_edges,
         .flags = EXACT),
    CASE("NOM-11 alerts: a changed condition starts again", changed_rule_starts_again),
    CASE("ORC-18 notices: taken, held, failed, due again, delivered", deliveries, .flags = EXACT),
    CASE("ORC-18 notices: given up, delivered again, discarded", given_up, .flags = EXACT),
    CASE("ORC-18 notices: are deleted with their rule", rule_takes_its_notices_along,
         .flags = EXACT),
    CASE("ORC-18 notices: a full outbox drops the oldest, counted", bounded, .flags = EXACT),
    CASE("PDQ-9 breakers: open, half open, closed; denied calls cost nothing", breaker_opens,
         .flags = EXACT),
    CASE("PDQ-9 breakers: a call that was not made says nothing", not_reached, .flags = EXACT),
    CASE("PDQ-9 breakers: what waits too long behind one is given up", too_old_behind_a_breaker,
         .flags = EXACT),
    CASE("ORC-18 PDQ-9 NOM-11 restart: rules, what is raised, notices, breakers", all_is_back,
         .flags = EXACT | RESTART, .needs = NEEDS_ONE_STORE),
    CASE("ORC-18 restart: no id of a notice is used twice", numbers_are_not_used_twice,
         .flags = EXACT | RESTART),
};
TOPIC(topic_notice, cases);
