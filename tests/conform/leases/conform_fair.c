/* SPDX-License-Identifier: Apache-2.0 */
/* HF-9, HF-29: shares of groups with long backlogs (core/queues/claim_limits.h). */
#include <stdio.h>

#include "base/digest/random.h"
#include "conform/conform.h"

#define LARGE 10000
#define SMALL (LARGE / 1000)
#define GROUPS 10000
#define ROUNDS 3 /* each group has at least as many jobs */
#define JOBS_MAX ((size_t)GROUPS * (ROUNDS + 3))
#define CLAIM 100

struct backlog {
    struct env *e;
    struct op ops[LIMIT_BATCH];
    uint32_t groups[LIMIT_BATCH];
    size_t count;
    uint64_t first;     /* sequence */
    uint32_t *group_of; /* by sequence, from the first */
};

static void send_all(struct backlog *b)
{
    static const struct reply *replies[LIMIT_BATCH];
    struct env *e = b->e;
    run_batch(e, b->ops, b->count, replies);
    for (size_t i = 0; i < b->count; i++) {
        EXPECT_OUT(replies[i], OUT_OK);
        if (b->first == 0)
            b->first = replies[i]->seq;
        EXPECT(replies[i]->seq - b->first < JOBS_MAX);
        b->group_of[replies[i]->seq - b->first] = b->groups[i];
    }
    b->count = 0;
}

static void add(struct backlog *b, uint32_t group, const char *name)
{
    struct op op = enqueue_op("q");
    op.enqueue.extra.group = span_text(name);
    b->groups[b->count] = group;
    b->ops[b->count++] = op;
    if (b->count == LIMIT_BATCH)
        send_all(b);
}

static struct backlog *backlog(struct env *e)
{
    static struct backlog b;
    struct queue_policy p = test_policy();
    p.fair = FAIR_GROUP;
    queue_make(e, "q", &p);
    b = (struct backlog){.e = e, .group_of = arena_array(&e->arena, JOBS_MAX, sizeof(uint32_t))};
    EXPECT(b.group_of != NULL);
    return &b;
}

/* Starts and ends this many jobs, counted by group. */
static void work(struct backlog *b, uint32_t jobs, uint32_t at_once, uint32_t *served)
{
    struct env *e = b->e;
    while (jobs > 0) {
        static const struct reply *replies[CLAIM];
        struct op acks[CLAIM];
        const struct reply *r = claim(e, "q", at_once < jobs ? at_once : jobs);
        EXPECT(r->job_count > 0);
        for (uint32_t i = 0; i < r->job_count; i++) {
            served[b->group_of[r->jobs[i].job.seq - b->first]]++;
            acks[i] = (struct op){.kind = OP_ACK};
            acks[i].lease.job.seq = r->jobs[i].job.seq;
            acks[i].lease.token = r->jobs[i].token;
        }
        jobs -= r->job_count;
        run_batch(e, acks, r->job_count, replies);
        for (uint32_t i = 0; i < r->job_count; i++)
            EXPECT_OUT(replies[i], OUT_OK);
    }
}

static void a_thousand_to_one(struct env *e)
{
    struct backlog *b = backlog(e);
    uint32_t served[2] = {0};
    for (int i = 0; i < LARGE; i++)
        add(b, 0, "large");
    for (int i = 0; i < SMALL; i++)
        add(b, 1, "small");
    send_all(b);
    work(b, SMALL, 1, served);
    work(b, SMALL, 4, served);
    EXPECT(served[1] * 100 >= 2 * SMALL * 45 && served[1] * 100 <= 2 * SMALL * 55);
}

/* While every group has jobs, none gets less than 0.8 of an equal share. */
static void ten_thousand_groups(struct env *e)
{
    struct backlog *b = backlog(e);
    uint32_t *served = arena_array(&e->arena, GROUPS, sizeof(*served));
    struct random random;
    char *names = arena_array(&e->arena, GROUPS, 8);
    EXPECT(served && names);
    random_seed(&random, 42);
    for (uint32_t g = 0; g < GROUPS; g++) {
        served[g] = 0;
        snprintf(names + (size_t)g * 8, 8, "g%u", g);
    }
    for (uint32_t g = 0; g < GROUPS; g++)
        for (uint64_t n = ROUNDS + random_below(&random, 4); n > 0; n--)
            add(b, g, names + (size_t)g * 8);
    send_all(b);
    work(b, GROUPS * ROUNDS, CLAIM, served);
    for (uint32_t g = 0; g < GROUPS; g++)
        EXPECT(served[g] * 10 >= ROUNDS * 8);
}

static const struct conform_case cases[] = {
    CASE("HF-29 backlogs of 1000 to 1 get equal shares", a_thousand_to_one, EXACT),
    CASE("HF-29 10,000 groups get at least 0.8 of their share", ten_thousand_groups, EXACT),
};
TOPIC(topic_fair, cases);
