/* SPDX-License-Identifier: Apache-2.0 */
/* The engine alone, in process: full cycles (enqueue, claim, ack) a second with an empty queue and
 * with a standing backlog, bytes a live job, allocations in the steady state.
 *
 *   bench_engine [--runs N] [--cycles N] [--backlog N] [--groups N]
 *
 * With --groups (100,000), the same with a standing backlog of jobs in that many groups, without
 * limits and with max_running, max_running_per_group and fair; and how long a policy change that
 * switches them on, and off, keeps the loop and takes until all jobs are in the new order.
 * --groups 0 leaves this part out.
 *
 * Each figure is the median of the runs, empty and full taking turns. A step takes 64 operations,
 * as a busy loop would bring. A second is one of processor time: nothing here waits, and others who
 * use the machine shall not count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/local/engine/engine.h"
#include "base/digest/random.h"
#include "base/mem.h"
#include "bench.h"

#define BATCH 64
#define PRIORITIES 1000

struct rig {
    struct store *store;
    struct engine *engine;
    struct engine_out out;
    struct now now;
    struct random random;
    char payload[200];
    struct span queue;
    struct op ops[BATCH];
    uint64_t groups; /* jobs are spread over this many; 0 = they have none */
    uint64_t next_group;
    char group[BATCH][24];
    struct {
        uint64_t seq;
        struct job_token token;
    } held[BATCH];
};

static void rig_open(struct rig *r)
{
    struct engine_config config;
    struct err_note note;
    memset(r, 0, sizeof(*r));
    engine_config_default(&config);
    r->now = (struct now){{1000000}, {1700000000000}};
    r->queue = SPAN_LITERAL("bench");
    memset(r->payload, 'x', sizeof(r->payload));
    random_seed(&r->random, 1);
    engine_out_init(&r->out);
    bench_must(store_open_memory(1, &r->store) == 0, "open a store");
    bench_must(engine_new(&config, &r->engine) == 0, "make an engine");
    bench_must(engine_load(r->engine, r->store, &note) == 0, "load nothing");
    bench_must(engine_boot(r->engine, r->now, &r->out) == 0, "boot");
}

static void rig_close(struct rig *r)
{
    engine_out_done(&r->out);
    engine_free(r->engine);
    r->store->ops->close(r->store);
}

static void step(struct rig *r, size_t count)
{
    bench_must(engine_step(r->engine, r->ops, count, r->now, &r->out) == 0, "step");
}

static void fill_enqueue(struct rig *r, struct op *op, bool spread, int64_t delay_ms)
{
    *op = (struct op){.kind = OP_ENQUEUE};
    op->enqueue.queue = r->queue;
    op->enqueue.payload_kind = PAYLOAD_BYTES;
    op->enqueue.payload = span_of(r->payload, sizeof(r->payload));
    op->enqueue.delay_ms = delay_ms;
    op->enqueue.has_priority = spread;
    op->enqueue.priority = spread ? (int64_t)random_below(&r->random, PRIORITIES) : 0;
}

/* Its group, of all of them in turn. */
static void fill_group(struct rig *r, size_t i)
{
    if (r->groups == 0)
        return;
    int len = snprintf(r->group[i], sizeof(r->group[i]), "group-%llu",
                       (unsigned long long)(r->next_group++ % r->groups));
    r->ops[i].enqueue.extra.group = span_of(r->group[i], (size_t)len);
}

static void enqueue_many(struct rig *r, uint64_t count, bool spread, int64_t delay_ms)
{
    for (uint64_t done = 0; done < count; done += BATCH) {
        for (size_t i = 0; i < BATCH; i++) {
            fill_enqueue(r, &r->ops[i], spread, delay_ms);
            fill_group(r, i);
        }
        step(r, BATCH);
    }
}

/* Enqueues BATCH jobs, claims them one by one, and acks them; each is a separate operation. */
static void cycles(struct rig *r, uint64_t count, bool spread)
{
    for (uint64_t done = 0; done < count; done += BATCH) {
        for (size_t i = 0; i < BATCH; i++) {
            fill_enqueue(r, &r->ops[i], spread, 0);
            fill_group(r, i);
        }
        step(r, BATCH);
        for (size_t i = 0; i < BATCH; i++) {
            r->ops[i] = (struct op){.kind = OP_CLAIM};
            r->ops[i].claim.queues = &r->queue;
            r->ops[i].claim.queue_count = 1;
            r->ops[i].claim.count = 1;
        }
        step(r, BATCH);
        for (size_t i = 0; i < BATCH; i++) {
            const struct reply *reply = &r->out.replies[i].reply;
            bench_must(reply->job_count == 1, "claim a job");
            r->held[i].seq = reply->jobs[0].job.seq;
            r->held[i].token = reply->jobs[0].token;
        }
        for (size_t i = 0; i < BATCH; i++) {
            r->ops[i] = (struct op){.kind = OP_ACK};
            r->ops[i].lease.job.seq = r->held[i].seq;
            r->ops[i].lease.token = r->held[i].token;
        }
        step(r, BATCH);
        if (done % (BATCH * 256) == 0) {
            r->now.mono.ms++;
            r->now.wall.ms++;
        }
    }
}

static double timed_cycles(struct rig *r, uint64_t count, bool spread)
{
    uint64_t began = bench_cpu_ns();
    cycles(r, count, spread);
    return (double)count / ((double)(bench_cpu_ns() - began) / 1e9);
}

static double bytes_per_job(struct rig *r, uint64_t jobs, bool unique)
{
    struct engine_figures before, after;
    char key[32];
    engine_figures(r->engine, &before);
    for (uint64_t i = 0; i < jobs; i++) {
        fill_enqueue(r, &r->ops[0], true, i % 2 ? 3600000 : 0);
        if (unique) {
            snprintf(key, sizeof(key), "key-%llu", (unsigned long long)i);
            r->ops[0].enqueue.extra.unique = span_text(key);
        }
        step(r, 1);
    }
    engine_figures(r->engine, &after);
    return (double)(after.bytes - before.bytes) / (double)jobs;
}

/* Switches the limits on or off; returns the longest step of the change, ms of processor time. */
static double set_limits(struct rig *r, bool on, double *ret_sorted_ms)
{
    struct queue_policy policy;
    struct op tick = {.kind = OP_TICK};
    double longest = 0, total = 0;
    policy_default(&policy);
    if (on) {
        policy.max_running = 1000;
        policy.max_running_per_group = 2;
        policy.fair = FAIR_GROUP;
    }
    r->ops[0] = (struct op){.kind = OP_QUEUE_PUT, .queue = {.name = r->queue, .policy = &policy}};
    do {
        uint64_t began = bench_cpu_ns();
        step(r, 1);
        double ms = (double)(bench_cpu_ns() - began) / 1e6;
        longest = ms > longest ? ms : longest;
        total += ms;
        r->ops[0] = tick;
    } while (engine_next_tick_ms(r->engine, r->now) <= 0);
    *ret_sorted_ms = total;
    return longest;
}

struct limits_figures {
    double off[64], on[64], step_on[64], sorted_on[64], step_off[64], sorted_off[64];
};

static void limits_run(struct limits_figures *f, int i, uint64_t groups, uint64_t backlog,
                       uint64_t count)
{
    struct rig r;
    rig_open(&r);
    r.groups = groups;
    enqueue_many(&r, backlog, false, 0);
    cycles(&r, 100000, false);
    f->off[i] = timed_cycles(&r, count, false);
    f->step_on[i] = set_limits(&r, true, &f->sorted_on[i]);
    cycles(&r, 100000, false);
    f->on[i] = timed_cycles(&r, count, false);
    f->step_off[i] = set_limits(&r, false, &f->sorted_off[i]);
    rig_close(&r);
}

static void limits_print(struct limits_figures *f, int runs, uint64_t groups, uint64_t backlog)
{
    double off = bench_median(f->off, runs), on = bench_median(f->on, runs);
    printf("  %llu ready jobs in %llu groups, no limits    %10.0f full cycles/s\n",
           (unsigned long long)backlog, (unsigned long long)groups, off);
    printf("    with max_running_per_group and fair  %10.0f full cycles/s   ratio %.2f\n", on,
           on / off);
    printf("    switched on: longest step %.1f ms, in order after %.0f ms\n",
           bench_median(f->step_on, runs), bench_median(f->sorted_on, runs));
    printf("    switched off: longest step %.1f ms, in order after %.0f ms\n",
           bench_median(f->step_off, runs), bench_median(f->sorted_off, runs));
}

int main(int argc, char **argv)
{
    int runs = (int)bench_option(argc, argv, "--runs", 5);
    uint64_t count = (uint64_t)bench_option(argc, argv, "--cycles", 2000000);
    uint64_t backlog = (uint64_t)bench_option(argc, argv, "--backlog", 1000000);
    uint64_t groups = (uint64_t)bench_option(argc, argv, "--groups", 100000);
    double empty[64], full[64];
    static struct limits_figures limits;
    runs = runs > 64 ? 64 : runs;

    for (int i = 0; i < runs; i++) {
        struct rig r;
        bench_progress("engine", i, runs);
        rig_open(&r);
        cycles(&r, 100000, false);
        empty[i] = timed_cycles(&r, count, false);
        rig_close(&r);

        rig_open(&r);
        enqueue_many(&r, backlog, true, 0);
        enqueue_many(&r, backlog, true, 24 * 3600000);
        cycles(&r, 100000, true);
        full[i] = timed_cycles(&r, count, true);
        rig_close(&r);
        if (groups)
            limits_run(&limits, i, groups, backlog, count);
    }
    double a = bench_median(empty, runs), b = bench_median(full, runs);
    printf("engine alone, default retention (10,000 done jobs kept), medians of %d runs\n", runs);
    printf("  empty queue                          %10.0f full cycles/s\n", a);
    printf("  %llu ready (1,000 priorities) + %llu delayed standing\n", (unsigned long long)backlog,
           (unsigned long long)backlog);
    printf("                                       %10.0f full cycles/s   ratio %.2f\n", b, b / a);
    if (groups)
        limits_print(&limits, runs, groups, backlog);

    struct rig r;
    rig_open(&r);
    printf("  bytes a live job, all indexes        %10.1f (plain)\n",
           bytes_per_job(&r, 1000000, false));
    rig_close(&r);
    rig_open(&r);
    printf("                                       %10.1f (with a unique key)\n",
           bytes_per_job(&r, 1000000, true));
    rig_close(&r);
    return 0;
}
