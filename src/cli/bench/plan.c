/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/plan.h"

#include "cli/bench/tls.h"

#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/digest/random.h"

static const char *const mode_names[] = {
    [BENCH_ENQUEUE] = "enqueue", [BENCH_CYCLE] = "cycle", [BENCH_CLAIM] = "claim",
    [BENCH_HEALTHZ] = "healthz", [BENCH_MIXED] = "mixed",
};
static const char *const kind_names[BENCH_KINDS] = {
    [BENCH_KIND_ENQUEUE] = "enqueue",
    [BENCH_KIND_CLAIM] = "claim",
    [BENCH_KIND_ACK] = "ack",
    [BENCH_KIND_HEALTHZ] = "healthz",
};
enum { MODES = sizeof mode_names / sizeof mode_names[0] };

const char *bench_mode_name(enum bench_mode mode)
{
    return mode_names[mode];
}

const char *bench_kind_name(enum bench_kind kind)
{
    return kind_names[kind];
}

uint64_t bench_result_jobs(const struct bench_plan *plan, const struct bench_result *result)
{
    if (plan->mode == BENCH_HEALTHZ)
        return result->latency[BENCH_KIND_HEALTHZ].total;
    return plan->mode == BENCH_ENQUEUE ? result->enqueued : result->acked;
}

uint64_t bench_result_requests(const struct bench_result *result)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < BENCH_KINDS; i++)
        sum += result->latency[i].total;
    return sum;
}

/* ---- numbers ----------------------------------------------------------------------------------
 */

struct number {
    const char *option;
    int64_t otherwise, low, high;
};

enum {
    CONNECTIONS,
    THREADS,
    PRODUCERS,
    CONSUMERS,
    BATCH,
    PIPELINE,
    PAYLOAD,
    PRIORITIES,
    DELAY,
    BACKLOG,
    DURATION,
    JOBS,
    NUMBERS
};

#define DURATION_MS_MIN 100 /* a shorter run has no significant result */

static const struct number numbers[NUMBERS] = {
    [CONNECTIONS] = {"connections", 64, 1, 50000},
    [THREADS] = {"threads", 1, 1, 256},
    [PRODUCERS] = {"producers", -1, 0, 50000},
    [CONSUMERS] = {"consumers", -1, 0, 50000},
    [BATCH] = {"batch", 1, 1, 1000},
    [PIPELINE] = {"pipeline", 1, 1, 1000},
    [PAYLOAD] = {"payload", 200, 2, (int64_t)64 << 20},
    [PRIORITIES] = {"priorities", 1, 1, 1000000},
    [DELAY] = {"delay_ms", 0, 0, (int64_t)30 * 86400000},
    [BACKLOG] = {"backlog", 0, 0, 100000000},
    [DURATION] = {"duration", 10000, DURATION_MS_MIN, (int64_t)7 * 86400000},
    [JOBS] = {"jobs", 0, 1, (int64_t)1 << 40},
};

/* A user who writes 10 means seconds, and would measure nothing. */
static int duration_check(const struct arguments *args, struct err_note *note)
{
    int64_t ms = arguments_number(args, "duration", DURATION_MS_MIN);
    if (ms >= DURATION_MS_MIN)
        return 0;
    return err_note_set(note, -ERR_INVALID,
                        "--duration is %" PRId64 " ms; it must be at least %d ms (%" PRId64
                        " seconds are %" PRId64 "s)",
                        ms, DURATION_MS_MIN, ms, ms);
}

static int numbers_read(const struct arguments *args, int64_t ret[NUMBERS], struct err_note *note)
{
    if (duration_check(args, note) < 0)
        return -ERR_INVALID;
    for (size_t i = 0; i < NUMBERS; i++) {
        const struct number *n = &numbers[i];
        char name[OPTION_NAME_MAX];
        ret[i] = arguments_number(args, n->option, n->otherwise);
        if (arguments_has(args, n->option) && (ret[i] < n->low || ret[i] > n->high))
            return err_note_set(
                note, -ERR_INVALID, "--%s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64,
                option_name(&(struct option){.name = n->option}, name), ret[i], n->low, n->high);
    }
    return 0;
}

/* Producers and consumers are the connections of a mixed run; a number that is not given is half
 * of them, or the rest. */
static int sides_split(struct bench_plan *p, const int64_t n[NUMBERS], struct err_note *note)
{
    int64_t producers = n[PRODUCERS], consumers = n[CONSUMERS];
    if (p->mode != BENCH_MIXED)
        return producers < 0 && consumers < 0
                   ? 0
                   : err_note_set(note, -ERR_INVALID,
                                  "--producers and --consumers are for --mode mixed");
    if (producers < 0)
        producers = consumers >= 0 && consumers < n[CONNECTIONS] ? n[CONNECTIONS] - consumers
                                                                 : n[CONNECTIONS] / 2;
    if (consumers < 0)
        consumers = n[CONNECTIONS] > producers ? n[CONNECTIONS] - producers : producers;
    if (producers < 1 || consumers < 1)
        return err_note_set(note, -ERR_INVALID, "a mixed run needs a producer and a consumer");
    p->producers = (unsigned)producers;
    p->connections = (unsigned)(producers + consumers);
    return 0;
}

static enum bench_mode mode_of(const struct arguments *args)
{
    const char *name = arguments_text(args, "mode", mode_names[BENCH_ENQUEUE]);
    for (size_t i = 0; i < MODES; i++) {
        if (strcmp(mode_names[i], name) == 0)
            return (enum bench_mode)i;
    }
    return BENCH_ENQUEUE;
}

/* ---- the queue and the server -----------------------------------------------------------------
 */

static int queue_choose(const struct arguments *args, struct arena *arena, struct bench_plan *p,
                        struct err_note *note)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    char name[32];
    uint64_t number;
    p->queue = arguments_text(args, "queue", NULL);
    p->own_queue = !p->queue;
    if (p->queue && (p->queue[0] == '\0' || strspn(p->queue, plain) != strlen(p->queue)))
        return err_note_set(note, -ERR_INVALID,
                            "--queue of a bench must be letters, digits, '-', '_' and '.'");
    if (p->queue)
        return 0;
    int rc = random_bytes(&number, sizeof number);
    if (rc < 0)
        return err_note_set(note, rc, "the system does not provide random numbers");
    snprintf(name, sizeof name, "bench-%08" PRIx32, (uint32_t)number);
    p->queue = arena_text(arena, span_text(name));
    return p->queue ? 0 : -ERR_NOMEM;
}

static int address_unix(const struct client_address *a, struct bench_plan *p, struct err_note *note)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(a->unix_path);
    if (len >= sizeof address.sun_path)
        return err_note_set(note, -ERR_INVALID, "the path of the socket is longer than %zu bytes",
                            sizeof address.sun_path - 1);
    memcpy(address.sun_path, a->unix_path, len);
    memcpy(&p->address, &address, sizeof address);
    p->address_len = (socklen_t)sizeof address;
    return 0;
}

static int address_tcp(const struct client_address *a, struct bench_plan *p, struct err_note *note)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int rc = getaddrinfo(a->host, a->port, &hints, &list);
    if (rc != 0)
        return err_note_set(note, -ERR_IO, "the host '%.200s' cannot be resolved: %s", a->host,
                            gai_strerror(rc));
    memcpy(&p->address, list->ai_addr, list->ai_addrlen);
    p->address_len = list->ai_addrlen;
    freeaddrinfo(list);
    return 0;
}

static int server_find(const struct client *client, struct arena *arena, struct bench_plan *p,
                       struct err_note *note)
{
    struct client_address a;
    int rc = client_address_of(client, arena, &a);
    if (rc < 0)
        return rc;
    if (a.tls && (rc = bench_tls_new(client_endpoint(client), a.host, &p->tls, note)) < 0)
        return rc;
    p->host = a.authority;
    p->prefix = a.prefix;
    return a.unix_path ? address_unix(&a, p, note) : address_tcp(&a, p, note);
}

int bench_plan_build(const struct arguments *args, const struct client *client, struct arena *arena,
                     struct bench_plan *ret, struct err_note *note)
{
    int64_t n[NUMBERS] = {0};
    struct bench_plan p = {.mode = mode_of(args)};
    err_note_set(note, 0, "out of memory");
    int rc = numbers_read(args, n, note);
    if (rc < 0)
        return rc;
    p.connections = (unsigned)n[CONNECTIONS];
    p.threads = (unsigned)n[THREADS];
    p.batch = (unsigned)n[BATCH];
    p.pipeline = (unsigned)n[PIPELINE];
    p.priorities = (unsigned)n[PRIORITIES];
    p.payload_bytes = (uint64_t)n[PAYLOAD];
    p.delay_ms = n[DELAY];
    p.backlog = (uint64_t)n[BACKLOG];
    p.duration_ms = n[DURATION];
    p.jobs = (uint64_t)n[JOBS];
    if (arguments_has(args, "jobs") && arguments_has(args, "duration"))
        return err_note_set(note, -ERR_INVALID, "--jobs and --duration cannot be combined");
    if ((rc = sides_split(&p, n, note)) < 0 || (rc = queue_choose(args, arena, &p, note)) < 0 ||
        (rc = server_find(client, arena, &p, note)) < 0) {
        bench_plan_done(&p);
        return rc;
    }
    if (p.threads > p.connections)
        p.threads = p.connections;
    *ret = p;
    return 0;
}

void bench_plan_done(struct bench_plan *p)
{
    bench_tls_free(p->tls);
    p->tls = NULL;
}
