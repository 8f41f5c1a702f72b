/* SPDX-License-Identifier: Apache-2.0 */
/* peerload: options, a run, one line of JSON. bench/peers/run.mjs is what calls it.
 *
 *   peerload --protocol P --port N [--producers N] [--consumers N] [--depth N] [--seconds S] …
 *   peerload --fdatasync DIRECTORY [--seconds S]     raw write and fdatasync of a zero-filled file
 *   peerload --usage --pids N,N                      what the server holds now */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load.h"

#define BLOCK 4096
#define BLOCKS 4096

static const struct load_protocol *const protocols[] = {
    &load_beanstalk, &load_redis_list, &load_redis_stream, &load_nats,    &load_amqp,
    &load_gearman,   &load_postgres,   &load_http,         &load_healthz,
};

enum option_id {
    OPT_PROTOCOL = 1,
    OPT_QUEUE,
    OPT_KIND,
    OPT_USER,
    OPT_DATABASE,
    OPT_PIDS,
    OPT_SECONDS,
    OPT_WARMUP,
    OPT_FDATASYNC,
    OPT_USAGE,
    OPT_PORT, /* from here on whole numbers, in the order of `numbers` */
    OPT_PRODUCERS,
    OPT_CONSUMERS,
    OPT_DEPTH,
    OPT_SIZE,
    OPT_PRIORITIES,
    OPT_DELAY,
    OPT_POLL,
    OPT_BACKLOG,
    OPT_COUNT,
    OPT_INTERVAL,
    OPT_END
};

static const struct option longs[] = {
    {"protocol", 1, NULL, OPT_PROTOCOL},
    {"queue", 1, NULL, OPT_QUEUE},
    {"kind", 1, NULL, OPT_KIND},
    {"user", 1, NULL, OPT_USER},
    {"database", 1, NULL, OPT_DATABASE},
    {"pids", 1, NULL, OPT_PIDS},
    {"seconds", 1, NULL, OPT_SECONDS},
    {"warmup", 1, NULL, OPT_WARMUP},
    {"fdatasync", 1, NULL, OPT_FDATASYNC},
    {"usage", 0, NULL, OPT_USAGE},
    {"port", 1, NULL, OPT_PORT},
    {"producers", 1, NULL, OPT_PRODUCERS},
    {"consumers", 1, NULL, OPT_CONSUMERS},
    {"depth", 1, NULL, OPT_DEPTH},
    {"size", 1, NULL, OPT_SIZE},
    {"priorities", 1, NULL, OPT_PRIORITIES},
    {"delay", 1, NULL, OPT_DELAY},
    {"poll-us", 1, NULL, OPT_POLL},
    {"backlog", 1, NULL, OPT_BACKLOG},
    {"count", 1, NULL, OPT_COUNT},
    {"interval-us", 1, NULL, OPT_INTERVAL},
    {NULL, 0, NULL, 0},
};

/* Bounds and starting values of the whole numbers. */
static const struct {
    uint64_t low, high, preset;
} numbers[OPT_END - OPT_PORT] = {
    [OPT_PORT - OPT_PORT] = {1, 65535, 0},         [OPT_PRODUCERS - OPT_PORT] = {0, 4096, 1},
    [OPT_CONSUMERS - OPT_PORT] = {0, 4096, 0},     [OPT_DEPTH - OPT_PORT] = {1, 1000, 1},
    [OPT_SIZE - OPT_PORT] = {16, 60000, 200},      [OPT_PRIORITIES - OPT_PORT] = {1, 1000000, 1},
    [OPT_DELAY - OPT_PORT] = {0, 1000000, 0},      [OPT_POLL - OPT_PORT] = {100, 10000000, 2000},
    [OPT_BACKLOG - OPT_PORT] = {0, UINT64_MAX, 0}, [OPT_COUNT - OPT_PORT] = {0, UINT64_MAX, 0},
    [OPT_INTERVAL - OPT_PORT] = {0, 10000000, 0},
};

struct program {
    struct load load;
    uint64_t values[OPT_END - OPT_PORT];
    const char *fdatasync_dir;
    bool usage;
};

static uint64_t number(int id, const char *text)
{
    char *end;
    errno = 0;
    uint64_t n = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || n < numbers[id - OPT_PORT].low ||
        n > numbers[id - OPT_PORT].high)
        load_fail("--%s takes a number from %" PRIu64 " to %" PRIu64 ", not '%s'",
                  longs[id - 1].name, numbers[id - OPT_PORT].low, numbers[id - OPT_PORT].high,
                  text);
    return n;
}

static double seconds(int id, const char *text)
{
    char *end;
    double s = strtod(text, &end);
    if (end == text || *end || !(s >= 0 && s <= 3600))
        load_fail("--%s takes seconds, not '%s'", longs[id - 1].name, text);
    return s;
}

static const struct load_protocol *protocol(const char *name)
{
    for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++)
        if (strcmp(protocols[i]->name, name) == 0)
            return protocols[i];
    fputs("peerload: --protocol takes", stderr);
    for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++)
        fprintf(stderr, " %s", protocols[i]->name);
    fprintf(stderr, ", not '%s'\n", name);
    exit(2);
}

static void option(struct program *p, int id)
{
    struct load_options *o = &p->load.options;
    const char **texts[] = {
        [OPT_QUEUE] = &o->queue,       [OPT_KIND] = &o->kind, [OPT_USER] = &o->user,
        [OPT_DATABASE] = &o->database, [OPT_PIDS] = &o->pids, [OPT_FDATASYNC] = &p->fdatasync_dir};
    if (id >= OPT_PORT && id < OPT_END)
        p->values[id - OPT_PORT] = number(id, optarg);
    else if (id == OPT_PROTOCOL)
        o->protocol = protocol(optarg);
    else if (id == OPT_SECONDS)
        o->seconds = seconds(id, optarg);
    else if (id == OPT_WARMUP)
        o->warmup_s = seconds(id, optarg);
    else if (id == OPT_USAGE)
        p->usage = true;
    else if (id > 0 && (size_t)id < sizeof texts / sizeof *texts && texts[id])
        *texts[id] = optarg;
    else
        exit(2);
}

static void options_read(struct program *p, int argc, char **argv)
{
    struct load_options *o = &p->load.options;
    int id;
    *o = (struct load_options){.queue = "jobs",
                               .kind = "classic",
                               .user = "postgres",
                               .database = "postgres",
                               .seconds = 3,
                               .warmup_s = 0.5};
    for (int i = 0; i < OPT_END - OPT_PORT; i++)
        p->values[i] = numbers[i].preset;
    while ((id = getopt_long(argc, argv, "", longs, NULL)) != -1)
        option(p, id);
    if (optind < argc)
        load_fail("'%s' is not an option", argv[optind]);
    o->port = (uint16_t)p->values[OPT_PORT - OPT_PORT];
    o->producers = (unsigned)p->values[OPT_PRODUCERS - OPT_PORT];
    o->consumers = (unsigned)p->values[OPT_CONSUMERS - OPT_PORT];
    o->depth = (unsigned)p->values[OPT_DEPTH - OPT_PORT];
    o->size = (unsigned)p->values[OPT_SIZE - OPT_PORT];
    o->priorities = (unsigned)p->values[OPT_PRIORITIES - OPT_PORT];
    o->delay_s = (unsigned)p->values[OPT_DELAY - OPT_PORT];
    o->poll_us = (unsigned)p->values[OPT_POLL - OPT_PORT];
    o->backlog_max = p->values[OPT_BACKLOG - OPT_PORT];
    o->count = p->values[OPT_COUNT - OPT_PORT];
    o->interval_us = p->values[OPT_INTERVAL - OPT_PORT];
}

static double us(const struct bench_histogram *h, double percent)
{
    return (double)bench_histogram_at(h, percent) / 1e3;
}

static void measure(struct load *load)
{
    const struct load_options *o = &load->options;
    double cpu_before, cpu_after, rss, own = 0;
    uint64_t ns, jobs, confirmed;
    if (!o->protocol || o->port == 0 || o->producers + o->consumers == 0)
        load_fail("needs --protocol, --port and a connection");
    load_open(load);
    load_warm(load);
    load_server_usage(o->pids, &cpu_before, &rss);
    own = load_own_cpu_us();
    confirmed = load->confirmed;
    load_run(load, &ns, &jobs);
    own = load_own_cpu_us() - own;
    load_server_usage(o->pids, &cpu_after, &rss);
    double s = (double)ns / 1e9, each = jobs > 0 ? (double)jobs : 1;
    printf("{\"protocol\":\"%s\",\"seconds\":%.3f,\"jobs\":%" PRIu64 ",\"jobs_per_s\":%.1f,"
           "\"confirmed_per_s\":%.1f,\"confirm_p50_us\":%.1f,\"confirm_p99_us\":%.1f,"
           "\"wake_p50_us\":%.1f,\"wake_p99_us\":%.1f,\"server_cpu_us_per_job\":%.3f,"
           "\"client_cpu_us_per_job\":%.3f,\"client_cpu\":%.3f,\"server_rss\":%.0f}\n",
           o->protocol->name, s, jobs, (double)jobs / s, (double)(load->confirmed - confirmed) / s,
           us(&load->confirm_ns, 50), us(&load->confirm_ns, 99), us(&load->wake_ns, 50),
           us(&load->wake_ns, 99), (cpu_after - cpu_before) / each, own / each, own / 1e6 / s, rss);
}

static int file_open(const char *dir)
{
    static const char zeros[BLOCK];
    char path[4096];
    int len = snprintf(path, sizeof path, "%s/fdatasync-XXXXXX", dir);
    if (len < 0 || (size_t)len >= sizeof path)
        load_fail("the name of the directory is too long");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0 || unlink(path) < 0)
        load_fail("cannot make a file in '%s': %s", dir, strerror(errno));
    for (int i = 0; i < BLOCKS; i++)
        if (write(fd, zeros, BLOCK) != BLOCK)
            load_fail("cannot write to a file in '%s': %s", dir, strerror(errno));
    if (fsync(fd) < 0)
        load_fail("cannot sync a file in '%s': %s", dir, strerror(errno));
    return fd;
}

/* What one durable write costs at the least, and what any wake-up is measured against. */
static void fdatasync_measure(const char *dir, double for_s)
{
    static struct bench_histogram took;
    char block[BLOCK];
    int fd = file_open(dir);
    uint64_t start = load_now_ns(), before = start, end = start + (uint64_t)(for_s * 1e9);
    memset(block, 'x', sizeof block);
    for (uint64_t i = 0; before < end; i++) {
        if (pwrite(fd, block, BLOCK, (off_t)(i % BLOCKS) * BLOCK) != BLOCK || fdatasync(fd) < 0)
            load_fail("cannot sync a file in '%s': %s", dir, strerror(errno));
        uint64_t now = load_now_ns();
        bench_histogram_add(&took, now - before);
        before = now;
    }
    printf("{\"fdatasync_p50_us\":%.1f,\"fdatasync_p99_us\":%.1f,\"fdatasync_per_s\":%.0f}\n",
           us(&took, 50), us(&took, 99), (double)took.total * 1e9 / (double)(before - start));
    (void)close(fd);
}

int main(int argc, char **argv)
{
    static struct program p;
    double cpu, rss;
    options_read(&p, argc, argv);
    if (p.fdatasync_dir) {
        fdatasync_measure(p.fdatasync_dir, p.load.options.seconds);
    } else if (p.usage) {
        load_server_usage(p.load.options.pids, &cpu, &rss);
        printf("{\"server_cpu_us\":%.0f,\"server_rss\":%.0f}\n", cpu, rss);
    } else {
        measure(&p.load);
    }
    return 0;
}
