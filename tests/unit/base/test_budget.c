/* SPDX-License-Identifier: Apache-2.0 */
/* The memory budget (HF-19): what is counted, which charge is refused, and which account is shed
 * first. */
#include "unit/base/support.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/budget.h"
#include "base/mem.h"
#include "base/system/machine.h"

#define MIB (UINT64_C(1) << 20)
#define TOTAL (64 * MIB)
#define LARGE (TOTAL - TOTAL / 8)

/* A connection of a kind: what it holds is in one buffer. */
struct client {
    struct budget_account account;
    enum budget_kind kind;
    uint64_t holds;
    unsigned sheds;
    struct client *asks; /* when shed it charges this one */
};

static enum budget_shed client_shed(void *ctx)
{
    struct client *c = ctx;
    c->sheds++;
    budget_give(&c->account, c->kind, c->holds);
    c->holds = 0;
    if (c->asks)
        assert_false(budget_take(&c->asks->account, BUDGET_BODIES, TOTAL, 0));
    return BUDGET_SHED_BODY;
}

static void net_client_open(struct client *c, struct budget *b, uint64_t now)
{
    *c = (struct client){.kind = BUDGET_BODIES};
    budget_open(&c->account, b, client_shed, c, now);
}

static bool client_take(struct client *c, uint64_t bytes, uint64_t now)
{
    if (!budget_take(&c->account, c->kind, bytes, now))
        return false;
    c->holds += bytes;
    return true;
}

static void net_client_close(struct client *c)
{
    budget_give(&c->account, c->kind, c->holds);
    budget_close(&c->account);
}

static void counted_by_kind(void **state)
{
    (void)state;
    struct budget b;
    struct budget_account one, two;
    budget_init(&b, TOTAL);
    budget_open(&one, &b, NULL, NULL, 0);
    budget_open(&two, &b, NULL, NULL, 0);
    assert_true(budget_take(&one, BUDGET_BODIES, 1000, 0));
    budget_add(&one, BUDGET_REPLIES, 200);
    budget_add(&two, BUDGET_STREAMS, 30);
    assert_int_equal(b.figures.held, 1230);
    budget_move(&one, &two, 1000);
    assert_int_equal(one.held, 200);
    assert_int_equal(two.held, 1030);
    budget_give(&two, BUDGET_BODIES, 1000);
    budget_give(&one, BUDGET_REPLIES, 200);
    assert_int_equal(b.figures.by_kind[BUDGET_BODIES], 0);
    assert_int_equal(b.figures.by_kind[BUDGET_STREAMS], 30);
    budget_give(&two, BUDGET_STREAMS, 30);
    assert_int_equal(b.figures.held, 0);
    assert_int_equal(b.figures.peak, 1230);
    budget_close(&one);
    budget_close(&two);
}

static void reserve_is_for_own_shares(void **state)
{
    (void)state;
    struct budget b;
    struct client large, other, small;
    budget_init(&b, TOTAL);
    net_client_open(&large, &b, 0);
    net_client_open(&other, &b, 0);
    net_client_open(&small, &b, 0);
    assert_true(client_take(&large, LARGE, 0));
    assert_false(client_take(&other, BUDGET_OWN_BYTES + 1, 0));
    assert_false(client_take(&large, 1, 0));
    assert_true(client_take(&other, BUDGET_OWN_BYTES, 0));
    assert_false(client_take(&other, 1, 0)); /* it is not small any more */
    assert_int_equal(b.figures.refused, 3);
    assert_true(client_take(&small, 100, 0));
    budget_add(&small.account, BUDGET_BODIES, TOTAL); /* never refused */
    small.holds += TOTAL;
    assert_false(client_take(&other, 1, 0));
    net_client_close(&large);
    net_client_close(&other);
    net_client_close(&small);
    assert_int_equal(b.figures.held, 0);
}

/* However many small accounts there are and whatever they hold, the next one has its share, and the
 * others may hold half of the budget beyond theirs. */
static void own_share_is_never_refused(void **state)
{
    (void)state;
    enum { CROWD = 3 * TOTAL / BUDGET_OWN_BYTES };
    struct budget b;
    struct client large;
    budget_init(&b, TOTAL);
    struct client *crowd = mem_array(CROWD, sizeof *crowd);
    assert_non_null(crowd);
    for (size_t i = 0; i < CROWD; i++) {
        net_client_open(&crowd[i], &b, 0);
        EXPECT(client_take(&crowd[i], BUDGET_OWN_BYTES, 0));
    }
    assert_int_equal(b.figures.held, 3 * TOTAL);
    assert_false(client_take(&crowd[0], TOTAL / 2 + 1, 0));
    net_client_open(&large, &b, 0);
    assert_true(client_take(&large, TOTAL / 2 + BUDGET_OWN_BYTES, 0));
    assert_int_equal(b.shared, TOTAL / 2);
    assert_false(client_take(&large, 1, 0));
    assert_false(client_take(&crowd[0], 1, 0));
    budget_move(&large.account, &crowd[0].account, TOTAL / 2);
    large.holds -= TOTAL / 2;
    crowd[0].holds += TOTAL / 2;
    assert_int_equal(b.shared, TOTAL / 2);
    net_client_close(&large);
    for (size_t i = 0; i < CROWD; i++)
        net_client_close(&crowd[i]);
    assert_int_equal(b.shared, 0);
    mem_free(crowd);
}

/* To shed a connection that holds no more than its own share would gain nothing for others. */
static void own_share_is_never_shed(void **state)
{
    (void)state;
    struct budget b;
    struct client small, large, asks;
    budget_init(&b, TOTAL);
    net_client_open(&small, &b, 0);
    net_client_open(&large, &b, 0);
    net_client_open(&asks, &b, 0);
    assert_true(client_take(&small, BUDGET_OWN_BYTES - 1, 0));
    assert_true(client_take(&large, 2 * BUDGET_OWN_BYTES, 0));
    budget_waits(&small.account, true);
    budget_waits(&large.account, true);
    assert_false(client_take(&asks, LARGE, 100000));
    assert_int_equal(large.sheds, 1);
    assert_int_equal(small.sheds, 0);
    net_client_close(&small);
    net_client_close(&large);
    net_client_close(&asks);
}

static void without_a_limit_nothing_is_refused(void **state)
{
    (void)state;
    struct budget b;
    struct client c;
    budget_init(&b, BUDGET_NO_LIMIT);
    net_client_open(&c, &b, 0);
    assert_true(client_take(&c, UINT64_C(1) << 50, 0));
    net_client_close(&c);
}

static void largest_product_is_shed_first(void **state)
{
    (void)state;
    /* Bytes and when it last made progress; at 10 s the products are 80, 90, 70 and 8. */
    static const struct {
        uint64_t mib, progress_ms;
    } rows[] = {{16, 5000}, {9, 0}, {14, 5000}, {8, 9000}};
    struct budget b;
    struct client c[4], asks;
    budget_init(&b, TOTAL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        net_client_open(&c[i], &b, rows[i].progress_ms);
        assert_true(client_take(&c[i], rows[i].mib * MIB, rows[i].progress_ms));
        budget_waits(&c[i].account, true);
    }
    net_client_open(&asks, &b, 10000);
    assert_true(client_take(&asks, 10 * MIB, 10000)); /* 47 of 56 are held */
    assert_int_equal(c[1].sheds, 1);
    assert_int_equal(c[0].sheds + c[2].sheds + c[3].sheds, 0);
    assert_true(client_take(&asks, 10 * MIB, 10000));
    assert_int_equal(c[0].sheds, 1);
    assert_int_equal(c[2].sheds + c[3].sheds, 0);
    assert_int_equal(b.figures.shed[BUDGET_SHED_BODY], 2);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        net_client_close(&c[i]);
    net_client_close(&asks);
}

static void only_those_that_wait_are_shed(void **state)
{
    (void)state;
    struct budget b;
    struct client busy, asks;
    budget_init(&b, TOTAL);
    net_client_open(&busy, &b, 0);
    net_client_open(&asks, &b, 0);
    assert_true(client_take(&busy, LARGE, 0));
    assert_false(client_take(&asks, MIB, 100000));
    budget_waits(&busy.account, true);
    budget_waits(&busy.account, false);
    assert_false(client_take(&asks, MIB, 100000));
    budget_waits(&busy.account, true);
    budget_waits(&asks.account, true); /* the account that asks is never its own victim */
    assert_true(client_take(&asks, MIB, 100000));
    assert_int_equal(busy.sheds, 1);
    assert_false(client_take(&asks, TOTAL, 200000));
    assert_int_equal(asks.sheds, 0);
    net_client_close(&busy);
    net_client_close(&asks);
}

/* Of two uploads that make progress neither displaces the other; a smaller one displaces. */
static void progress_protects(void **state)
{
    (void)state;
    struct budget b;
    struct client one, two, smaller;
    budget_init(&b, TOTAL);
    net_client_open(&one, &b, 0);
    net_client_open(&two, &b, 0);
    net_client_open(&smaller, &b, 0);
    assert_true(client_take(&one, 30 * MIB, 0) && client_take(&two, 26 * MIB, 0));
    budget_waits(&one.account, true);
    budget_waits(&two.account, true);
    budget_progress(&one.account, 30 * MIB / 64, 5000);
    assert_false(client_take(&two, MIB, 5000 + BUDGET_IDLE_MS - 1));
    budget_progress(&two.account, 26 * MIB / 64, 5500);
    assert_true(client_take(&smaller, 7 * MIB, 5500));
    assert_int_equal(one.sheds, 1);
    assert_int_equal(two.sheds, 0);
    net_client_close(&one);
    net_client_close(&two);
    net_client_close(&smaller);
}

static void a_trickle_is_no_progress(void **state)
{
    (void)state;
    struct budget b;
    struct client trickles, asks;
    budget_init(&b, TOTAL);
    net_client_open(&trickles, &b, 0);
    net_client_open(&asks, &b, 0);
    assert_true(client_take(&trickles, 28 * MIB, 0) && client_take(&asks, 28 * MIB, 0));
    budget_waits(&trickles.account, true);
    for (uint64_t now = 0; now <= BUDGET_IDLE_MS; now++)
        budget_progress(&trickles.account, 100, now);
    assert_true(client_take(&asks, 1, BUDGET_IDLE_MS));
    assert_int_equal(trickles.sheds, 1);
    net_client_close(&trickles);
    net_client_close(&asks);
}

/* A refusal that is written while a connection is shed must not shed the next one. */
static void shedding_does_not_nest(void **state)
{
    (void)state;
    struct budget b;
    struct client victim, bystander, asks;
    budget_init(&b, TOTAL);
    net_client_open(&victim, &b, 0);
    net_client_open(&bystander, &b, 0);
    net_client_open(&asks, &b, 0);
    assert_true(client_take(&victim, 40 * MIB, 0) && client_take(&bystander, 16 * MIB, 0));
    victim.asks = &asks;
    budget_waits(&victim.account, true);
    budget_waits(&bystander.account, true);
    assert_true(client_take(&asks, 30 * MIB, 5000));
    assert_int_equal(victim.sheds, 1);
    assert_int_equal(bystander.sheds, 0);
    net_client_close(&victim);
    net_client_close(&bystander);
    net_client_close(&asks);
}

/* An account whose last progress is old comes into a list of fresh ones: because it begins to wait,
 * or because what it holds gets another magnitude. */
static void idle_one_is_shed_wherever_it_comes_from(void **state)
{
    (void)state;
    enum how { WAITS, GROWS, SHRINKS, MOVED, HOWS };
    for (int how = 0; how < HOWS; how++) {
        struct budget b;
        struct client fresh[3], idle, other, asks;
        budget_init(&b, TOTAL);
        net_client_open(&idle, &b, 0);
        net_client_open(&other, &b, 0);
        net_client_open(&asks, &b, 0);
        assert_true(client_take(&idle, how == SHRINKS ? 16 * MIB : 7 * MIB, 0));
        assert_true(client_take(&other, MIB, 0));
        budget_waits(&idle.account, how != WAITS);
        for (size_t i = 0; i < COUNT_OF(fresh); i++) {
            net_client_open(&fresh[i], &b, 0);
            assert_true(client_take(&fresh[i], 10 * MIB, 0));
            budget_waits(&fresh[i].account, true);
            budget_progress(&fresh[i].account, 10 * MIB, 5000);
        }
        if (how == GROWS) {
            budget_add(&idle.account, idle.kind, 4 * MIB);
            idle.holds += 4 * MIB;
        } else if (how == SHRINKS) {
            budget_give(&idle.account, idle.kind, 4 * MIB);
            idle.holds -= 4 * MIB;
        } else if (how == MOVED) {
            budget_move(&other.account, &idle.account, MIB);
            other.holds -= MIB;
            idle.holds += MIB;
        }
        budget_waits(&idle.account, true);
        assert_true(client_take(&asks, 20 * MIB, 5000 + BUDGET_IDLE_MS - 1));
        assert_int_equal(idle.sheds, 1);
        for (size_t i = 0; i < COUNT_OF(fresh); i++) {
            assert_int_equal(fresh[i].sheds, 0);
            net_client_close(&fresh[i]);
        }
        net_client_close(&idle);
        net_client_close(&other);
        net_client_close(&asks);
    }
}

/* One that is not idle yet, and comes after others made progress, is found once it is idle. */
static void later_progress_is_behind(void **state)
{
    (void)state;
    struct budget b;
    struct client fresh, idle, asks;
    budget_init(&b, TOTAL);
    net_client_open(&fresh, &b, 0);
    net_client_open(&idle, &b, 0);
    net_client_open(&asks, &b, 0);
    assert_true(client_take(&idle, 28 * MIB, 0) && client_take(&fresh, 28 * MIB, 0));
    budget_waits(&fresh.account, true);
    budget_progress(&fresh.account, 28 * MIB, BUDGET_IDLE_MS / 2);
    budget_waits(&idle.account, true);
    assert_false(client_take(&asks, 8 * MIB, BUDGET_IDLE_MS - 1));
    assert_true(client_take(&asks, 8 * MIB, BUDGET_IDLE_MS));
    assert_int_equal(idle.sheds, 1);
    assert_int_equal(fresh.sheds, 0);
    net_client_close(&fresh);
    net_client_close(&idle);
    net_client_close(&asks);
}

#define MANY 2000

/* After a refusal: whether there was one to be shed that must have been found (see budget.h). One
 * that holds no more than its own share is not shed. */
static bool overlooked(const struct client *all, const struct client *asks, uint64_t now)
{
    for (size_t i = 0; i < MANY; i++) {
        const struct budget_account *a = &all[i].account;
        /* The 100: calls that are not told the time rely on the last one that was. */
        bool idle = now >= a->progress_ms + UINT64_C(2) * BUDGET_IDLE_MS + 100;
        if (&all[i] != asks && a->waits && a->held >= BUDGET_OWN_BYTES && idle)
            return true;
    }
    return false;
}

/* Random charges of many: the sums are right, the limits hold, and no charge is refused while there
 * is one to be shed. */
static void sums_hold_at_random(void **state)
{
    (void)state;
    struct random r;
    struct budget b;
    seeded(&r, "sums_hold_at_random");
    budget_init(&b, TOTAL);
    struct client *all = mem_array(MANY, sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < MANY; i++)
        net_client_open(&all[i], &b, 0);
    for (uint64_t now = 0; now < 100000; now++) {
        struct client *c = &all[random_below(&r, MANY)];
        uint64_t bytes = UINT64_C(1) << random_below(&r, 24);
        switch (random_below(&r, 4)) {
        case 0:
            budget_waits(&c->account, !c->account.waits);
            break;
        case 1:
            budget_progress(&c->account, bytes, now);
            break;
        case 2:
            bytes = bytes < c->holds ? bytes : c->holds;
            budget_give(&c->account, c->kind, bytes);
            c->holds -= bytes;
            break;
        default:
            if (!client_take(c, bytes, now))
                EXPECT(!overlooked(all, c, now));
        }
        EXPECT(b.figures.held <= TOTAL + MANY * BUDGET_OWN_BYTES);
        EXPECT(b.shared <= LARGE && b.figures.held == b.figures.by_kind[BUDGET_BODIES]);
    }
    uint64_t held = 0, shared = 0;
    for (size_t i = 0; i < MANY; i++) {
        uint64_t holds = all[i].holds;
        held += holds;
        shared += holds > BUDGET_OWN_BYTES ? holds - BUDGET_OWN_BYTES : 0;
        assert_int_equal(all[i].holds, all[i].account.held);
    }
    assert_int_equal(held, b.figures.held);
    assert_int_equal(shared, b.shared);
    assert_true(b.figures.shed[BUDGET_SHED_BODY] > 0 && b.figures.refused > 0);
    for (size_t i = 0; i < MANY; i++)
        net_client_close(&all[i]);
    assert_int_equal(b.figures.held, 0);
    mem_free(all);
}

static void default_follows_the_machine(void **state)
{
    (void)state;
    assert_int_equal(budget_default(4096 * MIB, 128 * MIB), 512 * MIB);
    assert_int_equal(budget_default(256 * MIB, 128 * MIB), 128 * MIB);
    assert_int_equal(budget_default(1024 * 1024 * MIB, 128 * MIB), 2048 * MIB);
    assert_int_equal(budget_default(UINT64_MAX, 128 * MIB), 2048 * MIB);
    assert_in_range(machine_memory_bytes(), 64 * MIB, UINT64_MAX - 1);
}

static void file_write(const char *root, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int entry_remove(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void folder_make(const char *root, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

/* The smallest limit of all enclosing groups counts, in both versions. */
static void limits_of_control_groups(void **state)
{
    (void)state;
    char root[] = "/tmp/holdfast-cgroup-XXXXXX", membership[512], missing[512];
    assert_non_null(mkdtemp(root));
    folder_make(root, "a");
    folder_make(root, "a/b");
    folder_make(root, "memory");
    folder_make(root, "memory/old");
    snprintf(membership, sizeof membership, "%s/self", root);

    file_write(root, "self", "3:cpu:/a/b\n0::/a/b\n");
    assert_int_equal(machine_cgroup_bytes(membership, root), UINT64_MAX);
    file_write(root, "a/b/memory.max", "max\n");
    assert_int_equal(machine_cgroup_bytes(membership, root), UINT64_MAX);
    file_write(root, "a/memory.max", "268435456\n");
    assert_int_equal(machine_cgroup_bytes(membership, root), 256 * MIB);
    file_write(root, "a/b/memory.max", "1048576\n");
    assert_int_equal(machine_cgroup_bytes(membership, root), MIB);
    file_write(root, "self", "0::/seen/from/outside\n");
    file_write(root, "memory.max", "2097152\n");
    assert_int_equal(machine_cgroup_bytes(membership, root), 2 * MIB);

    file_write(root, "self", "4:cpu,memory:/old\n");
    file_write(root, "memory/old/memory.limit_in_bytes", "4194304\n");
    assert_int_equal(machine_cgroup_bytes(membership, root), 4 * MIB);
    file_write(root, "self", "nonsense\n");
    assert_int_equal(machine_cgroup_bytes(membership, root), UINT64_MAX);
    snprintf(missing, sizeof missing, "%s/missing", root);
    assert_int_equal(machine_cgroup_bytes(missing, root), UINT64_MAX);
    assert_int_equal(nftw(root, entry_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted_by_kind),
        cmocka_unit_test(reserve_is_for_own_shares),
        cmocka_unit_test(own_share_is_never_refused),
        cmocka_unit_test(own_share_is_never_shed),
        cmocka_unit_test(without_a_limit_nothing_is_refused),
        cmocka_unit_test(largest_product_is_shed_first),
        cmocka_unit_test(only_those_that_wait_are_shed),
        cmocka_unit_test(progress_protects),
        cmocka_unit_test(a_trickle_is_no_progress),
        cmocka_unit_test(shedding_does_not_nest),
        cmocka_unit_test(idle_one_is_shed_wherever_it_comes_from),
        cmocka_unit_test(later_progress_is_behind),
        cmocka_unit_test(sums_hold_at_random),
        cmocka_unit_test(default_follows_the_machine),
        cmocka_unit_test(limits_of_control_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
