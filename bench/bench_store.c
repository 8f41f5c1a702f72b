/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded backend, durable, in process: full cycles (enqueue, claim, ack) a second through the
 * journal, with SQLite behind it; the raw fdatasync rate of the same directory for comparison; and
 * how long a store with a million pending jobs takes to open.
 *
 *   bench_store [--dir DIR] [--runs N] [--seconds N] [--batch N] [--load N] [--keys N] [--fails N]
 *
 * --keys 1 gives every job its own unique key, --keys 3 a group and a correlation id as well;
 * --fails N lets one attempt in N fail, which is retried at once.
 * Two batches are under way at a time: while one is committed the next is prepared. A batch is a
 * third enqueues, a third claims, a third acks of the jobs that the previous batch claimed. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/system/clock.h"
#include "bench.h"

#define BATCH_MAX 3000
#define UNDER_WAY 2

struct held {
    uint64_t seq;
    struct job_token token;
};

#define KEY_BYTES 24

struct slot {
    struct rig *rig;
    struct op ops[BATCH_MAX];
    char texts[BATCH_MAX][3][KEY_BYTES]; /* unique key, group, correlation id of each */
    size_t open;
};

struct rig {
    uv_loop_t loop;
    struct backend *backend;
    struct slot slots[UNDER_WAY];
    struct held held[BATCH_MAX * 4];
    size_t held_count;
    size_t batch;
    uint64_t acked, ended, named;
    unsigned keys, fails;
    bool stop;
    char payload[200];
    struct span queue, worker;
};

static void rig_open(struct rig *r, const char *dir)
{
    char url[512];
    struct err_note note = {""};
    struct backend_config config = {.loop = &r->loop, .clock = clock_system()};
    snprintf(url, sizeof(url), "sqlite:%s", dir);
    bench_must(uv_loop_init(&r->loop) == 0, "make a loop");
    int err = backend_open(url, &config, &r->backend, &note);
    if (err)
        fprintf(stderr, "%s\n", note.text);
    bench_must(err == 0, "open the store");
    r->queue = SPAN_LITERAL("bench");
    r->worker = SPAN_LITERAL("worker-1");
    memset(r->payload, 'x', sizeof(r->payload));
}

static void on_closed(void *ctx)
{
    (void)ctx;
}

static void rig_close(struct rig *r)
{
    backend_close(r->backend, on_closed, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    bench_must(uv_loop_close(&r->loop) == 0, "close the loop");
}

/* Keys like those of clients: close to each other in time, far apart in any order of keys. */
static void fill_keys(struct slot *slot, size_t index, struct job_extra *extra)
{
    static const uint64_t spread = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t name = ++slot->rig->named;
    struct span *keys[3] = {&extra->unique, &extra->group, &extra->correlation};
    uint64_t values[3] = {name * spread, name % 1000 * spread, (name + 1) * spread};
    for (unsigned i = 0; i < slot->rig->keys; i++) {
        char *text = slot->texts[index][i];
        snprintf(text, KEY_BYTES, "key-%016llx", (unsigned long long)values[i]);
        *keys[i] = span_text(text);
    }
}

static void fill_enqueue(struct slot *slot, size_t index)
{
    struct rig *r = slot->rig;
    struct op *op = &slot->ops[index];
    *op = (struct op){.kind = OP_ENQUEUE};
    op->enqueue.queue = r->queue;
    op->enqueue.payload_kind = PAYLOAD_BYTES;
    op->enqueue.payload = span_of(r->payload, sizeof(r->payload));
    if (r->keys > 0)
        fill_keys(slot, index, &op->enqueue.extra);
}

/* An ack, or a fail after which the job is retried at once. */
static void fill_end(struct rig *r, struct op *op, struct held h)
{
    bool fails = r->fails && ++r->ended % r->fails == 0;
    *op = (struct op){.kind = fails ? OP_FAIL : OP_ACK};
    op->lease.job.seq = h.seq;
    op->lease.token = h.token;
    op->lease.has_delay = fails;
    op->lease.error =
        fails ? SPAN_LITERAL("connection refused by the other side") : (struct span){0};
}

static void slot_submit(struct slot *slot);

static void on_reply(void *ctx, const struct reply *reply)
{
    struct slot *slot = ctx;
    struct rig *r = slot->rig;
    bench_must(reply->outcome == OUT_OK, "get an operation done");
    if (reply->kind == OP_CLAIM && reply->job_count == 1)
        r->held[r->held_count++] = (struct held){reply->jobs[0].job.seq, reply->jobs[0].token};
    r->acked += reply->kind == OP_ACK;
    if (--slot->open == 0 && !r->stop)
        slot_submit(slot);
}

static void slot_submit(struct slot *slot)
{
    struct rig *r = slot->rig;
    size_t n = 0, third = r->batch / 3;
    for (; n < third; n++)
        fill_enqueue(slot, n);
    for (size_t i = 0; i < third; i++, n++) {
        slot->ops[n] = (struct op){.kind = OP_CLAIM};
        slot->ops[n].claim.queues = &r->queue;
        slot->ops[n].claim.queue_count = 1;
        slot->ops[n].claim.count = 1;
        slot->ops[n].claim.want_body = true;
        slot->ops[n].claim.worker = r->worker;
    }
    while (n < r->batch && r->held_count > 0) {
        fill_end(r, &slot->ops[n], r->held[--r->held_count]);
        n++;
    }
    slot->open = n;
    bench_must(backend_submit(r->backend, slot->ops, n, on_reply, slot) == 0, "submit");
}

static double raw_syncs(const char *dir)
{
    char path[640], block[4096] = {0};
    snprintf(path, sizeof(path), "%s/raw-sync", dir);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    bench_must(fd >= 0, "make a file");
    for (int i = 0; i < 256; i++)
        bench_must(write(fd, block, sizeof(block)) == sizeof(block), "fill a file");
    fsync(fd);
    uint64_t began = clock_ns();
    int n = 0;
    for (; clock_ns() - began < 500000000; n++) {
        bench_must(pwrite(fd, block, sizeof(block), (n % 256) * 4096) == sizeof(block), "write");
        fdatasync(fd);
    }
    double rate = n / ((double)(clock_ns() - began) / 1e9);
    close(fd);
    unlink(path);
    return rate;
}

struct result {
    double cycles, syncs, ops_per_commit;
};

struct setting {
    size_t batch;
    double seconds;
    unsigned keys, fails;
};

static struct result run_cycles(const char *dir, const struct setting *s)
{
    struct rig *r = calloc(1, sizeof(*r));
    bench_must(r != NULL, "get memory");
    struct result result = {.syncs = raw_syncs(dir)};
    r->batch = s->batch;
    r->keys = s->keys;
    r->fails = s->fails;
    rig_open(r, dir);
    for (size_t i = 0; i < UNDER_WAY; i++) {
        r->slots[i].rig = r;
        slot_submit(&r->slots[i]);
    }
    uint64_t warm = clock_ns();
    while (clock_ns() - warm < 1000000000)
        uv_run(&r->loop, UV_RUN_ONCE);
    struct backend_figures before, after;
    backend_figures(r->backend, &before);
    uint64_t acked = r->acked, began = clock_ns();
    while ((double)(clock_ns() - began) < s->seconds * 1e9)
        uv_run(&r->loop, UV_RUN_ONCE);
    double took = (double)(clock_ns() - began) / 1e9;
    backend_figures(r->backend, &after);
    result.cycles = (double)(r->acked - acked) / took;
    result.ops_per_commit =
        (double)(r->acked - acked) * 3 / (double)(after.commits - before.commits);
    r->stop = true;
    rig_close(r);
    free(r);
    return result;
}

/* Fills a store with pending jobs and measures how long it takes to open it. */
static double run_load(const char *dir, uint64_t jobs)
{
    struct rig *r = calloc(1, sizeof(*r));
    bench_must(r != NULL, "get memory");
    rig_open(r, dir);
    r->stop = true;
    struct slot *slot = &r->slots[0];
    slot->rig = r;
    for (uint64_t done = 0; done < jobs; done += 1000) {
        for (size_t i = 0; i < 1000; i++)
            fill_enqueue(slot, i);
        slot->open = 1000;
        bench_must(backend_submit(r->backend, slot->ops, 1000, on_reply, slot) == 0, "submit");
        while (slot->open)
            uv_run(&r->loop, UV_RUN_ONCE);
    }
    rig_close(r);
    memset(r, 0, sizeof(*r));
    uint64_t began = clock_ns();
    rig_open(r, dir);
    double took = (double)(clock_ns() - began) / 1e9;
    struct backend_figures f;
    backend_figures(r->backend, &f);
    bench_must(f.jobs >= jobs, "find all jobs again");
    rig_close(r);
    free(r);
    return took;
}

static void fresh_dir(const char *base, int n, char *out, size_t size)
{
    snprintf(out, size, "%s/bench-store-%ld-%d", base, (long)getpid(), n);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void remove_dir(const char *dir)
{
    (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(int argc, char **argv)
{
    const char *base = bench_option_text(argc, argv, "--dir", ".");
    int runs = (int)bench_option(argc, argv, "--runs", 5);
    struct setting setting = {
        .seconds = (double)bench_option(argc, argv, "--seconds", 3),
        .batch = (size_t)bench_option(argc, argv, "--batch", 256),
        .keys = (unsigned)bench_option(argc, argv, "--keys", 0),
        .fails = (unsigned)bench_option(argc, argv, "--fails", 0),
    };
    uint64_t load = (uint64_t)bench_option(argc, argv, "--load", 1000000);
    double cycles[64], syncs[64], ops[64];
    char dir[600];
    runs = runs > 64 ? 64 : runs;
    bench_must(setting.batch >= 3 && setting.batch <= BATCH_MAX, "use a batch of 3 to 3000");
    bench_must(setting.keys <= 3, "use --keys 0 to 3");
    for (int i = 0; i < runs; i++) {
        bench_progress("store", i, runs);
        fresh_dir(base, i, dir, sizeof(dir));
        bench_must(mkdir(dir, 0700) == 0, "make a directory");
        struct result result = run_cycles(dir, &setting);
        remove_dir(dir);
        cycles[i] = result.cycles;
        syncs[i] = result.syncs;
        ops[i] = result.ops_per_commit;
    }
    if (runs > 0) {
        printf(
            "SQLite store, durable, default retention (10,000 done jobs kept), 200-byte payloads, "
            "medians of %d runs\n",
            runs);
        printf("  full cycles/s                        %10.0f\n", bench_median(cycles, runs));
        printf("  operations a commit                  %10.0f\n", bench_median(ops, runs));
        printf("  raw 4 KiB write + fdatasync/s        %10.0f\n", bench_median(syncs, runs));
    }
    if (load > 0) {
        fresh_dir(base, runs, dir, sizeof(dir));
        double took = run_load(dir, load);
        remove_dir(dir);
        printf("  open with %llu pending jobs       %10.2f s\n", (unsigned long long)load, took);
    }
    return 0;
}
