/* SPDX-License-Identifier: Apache-2.0 */
/* Named breakers: allow, report, settings, limits. */
#include "conform/conform.h"
#include "core/limits.h"

#define SECOND 1000
#define DAY_MS (INT64_C(24) * 3600 * 1000)

static const struct breaker_rules defaults = {
    .failure_threshold = 2, .open_cooldown_seconds = 10, .half_open_probe_count = 1};

static struct op breaker_op(enum op_kind kind, const char *name)
{
    return (struct op){.kind = kind, .breaker = {.name = span_text(name), .rules = defaults}};
}

static const struct breaker_view *asked(struct env *e, struct op op)
{
    const struct reply *r = run(e, op);
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->breaker_count, 1);
    EXPECT_SPAN(r->breakers[0].target, op.breaker.name);
    return &r->breakers[0];
}

static bool allowed(struct env *e, const char *name)
{
    return asked(e, breaker_op(OP_BREAKER_ALLOW, name))->allowed;
}

static const struct breaker_view *reported(struct env *e, const char *name, bool success)
{
    struct op op = breaker_op(OP_BREAKER_REPORT, name);
    op.breaker.success = success;
    return asked(e, op);
}

static const struct breaker_view *limited(struct env *e, const char *name, uint32_t retry_after_ms)
{
    struct op op = breaker_op(OP_BREAKER_REPORT, name);
    op.breaker.retry_after_ms = retry_after_ms;
    return asked(e, op);
}

static const struct breaker_view *listed(struct env *e, const char *name)
{
    const struct reply *r = run(e, (struct op){.kind = OP_BREAKER_LIST});
    EXPECT_OUT(r, OUT_OK);
    for (uint32_t i = 0; i < r->breaker_count; i++)
        if (span_equal(r->breakers[i].target, span_text(name)))
            return &r->breakers[i];
    return NULL;
}

static void states(struct env *e)
{
    const struct breaker_view *v = asked(e, breaker_op(OP_BREAKER_ALLOW, "pay"));
    EXPECT(v->allowed);
    EXPECT_INT(v->breaker.state, BREAKER_CLOSED);
    EXPECT(listed(e, "pay")); /* the first use has created it */
    EXPECT_INT(reported(e, "pay", false)->breaker.failures, 1);
    EXPECT_INT(reported(e, "pay", true)->breaker.failures, 0);
    reported(e, "pay", false);
    EXPECT_INT(reported(e, "pay", false)->breaker.state, BREAKER_OPEN);
    v = asked(e, breaker_op(OP_BREAKER_ALLOW, "pay"));
    EXPECT(!v->allowed);
    EXPECT_INT(v->retry_ms, 10 * SECOND);
    EXPECT(allowed(e, "mail")); /* each has its own state */
    advance(e, 10 * SECOND);
    EXPECT(allowed(e, "pay"));
    v = asked(e, breaker_op(OP_BREAKER_ALLOW, "pay"));
    EXPECT(!v->allowed);
    EXPECT_INT(v->breaker.state, BREAKER_HALF_OPEN);
    EXPECT_INT(v->retry_ms, 10 * SECOND);
    EXPECT_INT(reported(e, "pay", true)->breaker.state, BREAKER_CLOSED);
    EXPECT_INT(listed(e, "pay")->breaker.state, BREAKER_CLOSED);
    EXPECT(allowed(e, "pay"));
}

static void probe_lapses(struct env *e)
{
    reported(e, "pay", false);
    reported(e, "pay", false);
    advance(e, 10 * SECOND);
    EXPECT(allowed(e, "pay"));
    advance(e, 10 * SECOND - 1);
    EXPECT(!allowed(e, "pay"));
    advance(e, 1);
    EXPECT(allowed(e, "pay"));
    EXPECT(!allowed(e, "pay"));
    EXPECT_INT(reported(e, "pay", false)->breaker.state, BREAKER_OPEN);
}

static void rate_limits(struct env *e)
{
    limited(e, "pay", 60 * SECOND); /* counts; too few to open it */
    EXPECT(allowed(e, "pay"));
    EXPECT_INT(reported(e, "pay", false)->breaker.state, BREAKER_OPEN);
    EXPECT_INT(asked(e, breaker_op(OP_BREAKER_ALLOW, "pay"))->retry_ms, 60 * SECOND);
    limited(e, "pay", 90 * SECOND); /* a reply that comes late makes it longer */
    limited(e, "pay", 1 * SECOND);  /* … and never shorter */
    EXPECT_INT(asked(e, breaker_op(OP_BREAKER_ALLOW, "pay"))->retry_ms, 90 * SECOND);
    advance(e, 90 * SECOND - 1);
    EXPECT(!allowed(e, "pay"));
    advance(e, 1);
    EXPECT(allowed(e, "pay"));
    EXPECT_INT(limited(e, "pay", 1)->breaker.state, BREAKER_OPEN); /* a probe */
    EXPECT_INT(asked(e, breaker_op(OP_BREAKER_ALLOW, "pay"))->retry_ms, 10 * SECOND);
}

static void settings(struct env *e)
{
    struct op put = breaker_op(OP_BREAKER_PUT, "pay");
    put.breaker.rules = (struct breaker_rules){1, 0, 3};
    const struct reply *r = run(e, put);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(r->created);
    EXPECT_INT(r->breakers[0].breaker.own.failure_threshold, 1);
    EXPECT_INT(reported(e, "pay", false)->breaker.state, BREAKER_OPEN);
    advance(e, 10 * SECOND);
    for (int i = 0; i < 3; i++)
        EXPECT(allowed(e, "pay"));
    EXPECT(!allowed(e, "pay"));
    r = run(e, put);
    EXPECT_OUT(r, OUT_OK);
    EXPECT(!r->created);
    EXPECT_INT(r->breakers[0].breaker.state, BREAKER_HALF_OPEN); /* its state stays */
    EXPECT_INT(listed(e, "pay")->breaker.own.half_open_probe_count, 3);
    EXPECT_OUT(run(e, breaker_op(OP_BREAKER_DELETE, "pay")), OUT_OK);
    EXPECT_OUT(run(e, breaker_op(OP_BREAKER_DELETE, "pay")), OUT_NOT_FOUND);
    EXPECT(!listed(e, "pay"));
    EXPECT(allowed(e, "pay")); /* a new one */
    EXPECT_INT(listed(e, "pay")->breaker.own.half_open_probe_count, 0);
}

static void refusals(struct env *e)
{
    static const char *const bad[] = {"", "a b", "http://x:80", "a/b", "\xc3\xa4", "a:b"};
    char longest[LIMIT_BREAKER_NAME_BYTES + 2];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (enum op_kind kind = OP_BREAKER_PUT; kind <= OP_BREAKER_REPORT; kind++)
            EXPECT_OUT(run(e, breaker_op(kind, bad[i])), OUT_INVALID);
    memset(longest, 'x', sizeof longest);
    longest[LIMIT_BREAKER_NAME_BYTES + 1] = 0;
    EXPECT_OUT(run(e, breaker_op(OP_BREAKER_ALLOW, longest)), OUT_INVALID);
    longest[LIMIT_BREAKER_NAME_BYTES] = 0;
    EXPECT_OUT(run(e, breaker_op(OP_BREAKER_ALLOW, longest)), OUT_OK);
    EXPECT_OUT(run(e, breaker_op(OP_BREAKER_ALLOW, "A-z_0.9")), OUT_OK);
    struct op put = breaker_op(OP_BREAKER_PUT, "pay");
    put.breaker.rules.open_cooldown_seconds = LIMIT_BREAKER_COOLDOWN_S + 1;
    EXPECT_OUT(run(e, put), OUT_INVALID);
    EXPECT(!listed(e, "pay"));
}

/* Several operations about one breaker, and one that deletes it, in one batch. */
static void batches(struct env *e)
{
    struct op ops[6];
    const struct reply *replies[6];
    for (int i = 0; i < 6; i++)
        ops[i] = breaker_op(i % 2 ? OP_BREAKER_REPORT : OP_BREAKER_ALLOW, "pay");
    ops[4].kind = OP_BREAKER_DELETE;
    run_batch(e, ops, 6, replies);
    EXPECT(replies[0]->breakers[0].allowed && replies[2]->breakers[0].allowed);
    EXPECT_INT(replies[3]->breakers[0].breaker.state, BREAKER_OPEN);
    EXPECT_OUT(replies[4], OUT_OK);
    EXPECT_INT(replies[5]->breakers[0].breaker.failures, 1);
    EXPECT_INT(listed(e, "pay")->breaker.failures, 1);
}

static void bounded(struct env *e)
{
    struct op ops[100];
    const struct reply *replies[100];
    char names[100][8];
    for (unsigned k = 0; k < LIMIT_NAMED_BREAKERS / 100; k++) {
        for (unsigned i = 0; i < 100; i++) {
            snprintf(names[i], sizeof names[i], "n%u", k * 100 + i);
            ops[i] = breaker_op(OP_BREAKER_ALLOW, names[i]);
        }
        run_batch(e, ops, 100, replies);
        for (unsigned i = 0; i < 100; i++)
            EXPECT_OUT(replies[i], OUT_OK);
    }
    EXPECT_OUT(run(e, breaker_op(OP_BREAKER_ALLOW, "more")), OUT_BREAKERS_FULL);
    EXPECT_OUT(run(e, breaker_op(OP_BREAKER_REPORT, "more")), OUT_BREAKERS_FULL);
    EXPECT_OUT(run(e, breaker_op(OP_BREAKER_PUT, "more")), OUT_BREAKERS_FULL);
    EXPECT_OUT(run(e, breaker_op(OP_BREAKER_ALLOW, "n5")), OUT_OK);
    EXPECT_OUT(run(e, breaker_op(OP_BREAKER_DELETE, "n5")), OUT_OK);
    EXPECT_OUT(run(e, breaker_op(OP_BREAKER_ALLOW, "more")), OUT_OK);
}

static void unused(struct env *e)
{
    struct op drop = breaker_op(OP_BREAKER_DELETE, "pay"), keep = drop;
    drop.breaker.only_unused = true;
    EXPECT(allowed(e, "pay"));
    keep.breaker.name = SPAN_LITERAL("set");
    keep.kind = OP_BREAKER_PUT;
    EXPECT_OUT(run(e, keep), OUT_OK);
    EXPECT_OUT(run(e, drop), OUT_ILLEGAL);
    stand_still(e, 6 * DAY_MS);
    EXPECT(allowed(e, "pay"));
    stand_still(e, 6 * DAY_MS);
    EXPECT_OUT(run(e, drop), OUT_ILLEGAL); /* it was used */
    stand_still(e, 1 * DAY_MS);
    EXPECT_OUT(run(e, drop), OUT_OK);
    drop.breaker.name = SPAN_LITERAL("set");
    EXPECT_OUT(run(e, drop), OUT_ILLEGAL); /* it has settings */
    EXPECT_OUT(run(e, drop), OUT_ILLEGAL);
}

static void restart(struct env *e)
{
    struct op put = breaker_op(OP_BREAKER_PUT, "pay");
    put.breaker.rules = (struct breaker_rules){1, 20, 2};
    EXPECT_OUT(run(e, put), OUT_OK);
    reported(e, "pay", false);
    reported(e, "mail", false);
    env_restart(e);
    const struct breaker_view *v = asked(e, breaker_op(OP_BREAKER_ALLOW, "pay"));
    EXPECT(!v->allowed);
    EXPECT_INT(v->retry_ms, 20 * SECOND);
    EXPECT_INT(listed(e, "mail")->breaker.failures, 1);
    advance(e, 20 * SECOND);
    EXPECT(allowed(e, "pay"));
    env_restart(e);
    v = listed(e, "pay");
    EXPECT_INT(v->breaker.state, BREAKER_HALF_OPEN);
    EXPECT_INT(v->breaker.probes, 1);
    EXPECT_INT(v->breaker.own.failure_threshold, 1);
    EXPECT_INT(v->breaker.own.open_cooldown_seconds, 20);
    EXPECT_INT(v->breaker.own.half_open_probe_count, 2);
    EXPECT(v->breaker.used_at.ms > 0);
    EXPECT(allowed(e, "pay"));
    EXPECT(!allowed(e, "pay"));
}

static const struct conform_case cases[] = {
    CASE("PDQ-9 named breakers: closed, open, half open, closed", states, .flags = EXACT),
    CASE("PDQ-9 named breakers: a probe without a report lapses after the cooldown", probe_lapses,
         .flags = EXACT),
    CASE("PDQ-9 named breakers: a rate limit keeps them open as long as it says", rate_limits,
         .flags = EXACT),
    CASE("PDQ-9 named breakers: their own settings", settings, .flags = EXACT),
    CASE("PDQ-9 named breakers: what is refused", refusals),
    CASE("PDQ-9 named breakers: several operations in one batch", batches, .flags = EXACT),
    CASE("PDQ-9 named breakers: bounded in number", bounded, .flags = EXACT),
    CASE("PDQ-9 named breakers: unused ones are recognised", unused, .flags = EXACT),
    CASE("PDQ-9 named breakers: restart", restart, .flags = EXACT | RESTART),
};
TOPIC(topic_breaker, cases);
