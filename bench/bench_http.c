/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP parser alone, in process: nanoseconds of CPU time per request, head and body, from
 * memory.
 *
 * bench_http [--runs N] [--requests N]
 *
 * Each figure is the median of the runs. Bodies are decoded into a buffer that is reused. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/containers/arena.h"
#include "bench.h"
#include "http/parse.h"
#include "http/url.h"

#define RUNS_MAX 100
#define X64 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X256 X64 X64 X64 X64

static const struct http_limits LIMITS = {
    .uri_bytes = 8192, .head_bytes = 16384, .body_bytes = 1 << 20};

#define HEADERS                                                                                    \
    "Host: 127.0.0.1:8000\r\n"                                                                     \
    "User-Agent: holdfast-worker/1.4 (linux)\r\n"                                                  \
    "Accept: application/json\r\n"                                                                 \
    "Accept-Encoding: gzip, deflate\r\n"                                                           \
    "Connection: keep-alive\r\n"                                                                   \
    "Content-Type: application/json\r\n"                                                           \
    "Idempotency-Key: 0192f0c1-7b1e-7c3a-9d51-3f2b8a6c4e10\r\n"

static const struct sample {
    const char *what;
    const char *text;
} SAMPLES[] = {
    {"GET, 1 header", "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n"},
    {"POST, 8 headers, body of 256 bytes",
     "POST /v1/queues/mail/jobs HTTP/1.1\r\n" HEADERS "Content-Length: 256\r\n\r\n" X256},
    {"POST, 8 headers, 4 chunks of 64 bytes",
     "POST /v1/queues/mail/jobs HTTP/1.1\r\n" HEADERS "Transfer-Encoding: chunked\r\n\r\n"
     "40\r\n" X64 "\r\n40\r\n" X64 "\r\n40\r\n" X64 "\r\n40\r\n" X64 "\r\n0\r\n\r\n"},
    {"GET of a browser, 12 headers",
     "GET /dashboard/assets/index-4f2a.js?v=3 HTTP/1.1\r\n" HEADERS
     "Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n"
     "Referer: http://127.0.0.1:8000/dashboard/\r\n"
     "Sec-Fetch-Dest: script\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Site: same-origin\r\n\r\n"},
};
#define SAMPLE_COUNT (sizeof(SAMPLES) / sizeof(SAMPLES[0]))

/* CPU time of the thread: nothing here waits, and other processes on the machine are not
 * counted. */
static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Head and body, as a connection does. */
static size_t request_read(struct span in, struct http_head *head, struct buf *body)
{
    struct http_fault fault;
    struct http_body b;
    bool done = false;
    ssize_t len = http_head_parse(in, 0, &LIMITS, head, &fault);
    bench_must(len > 0, "parse a head");
    struct span rest = span_of(in.at + len, in.len - (size_t)len);
    http_body_init(&b, head);
    buf_clear(body);
    bench_must(http_body_feed(&b, &rest, &LIMITS, body, &done, &fault) == 0 && done, "read a body");
    return in.len - rest.len;
}

static size_t head_read(struct span in, struct http_head *head, struct buf *body)
{
    struct http_fault fault;
    (void)body;
    ssize_t len = http_head_parse(in, 0, &LIMITS, head, &fault);
    bench_must(len > 0, "parse a head");
    return (size_t)len;
}

typedef size_t (*read_fn)(struct span in, struct http_head *head, struct buf *body);

static double measure(struct span in, read_fn read, long requests, int runs)
{
    static struct http_head head;
    double ns[RUNS_MAX];
    struct buf body;
    size_t bytes = 0;
    buf_init(&body);
    for (int run = 0; run < runs; run++) {
        uint64_t begin = cpu_ns();
        for (long i = 0; i < requests; i++)
            bytes += read(in, &head, &body);
        ns[run] = (double)(cpu_ns() - begin) / (double)requests;
    }
    bench_must(bytes > 0, "read anything");
    buf_done(&body);
    return bench_median(ns, runs);
}

/* A query with one escape among three parameters. */
static double measure_query(long requests, int runs)
{
    static struct url_param params[URL_PARAMS_MAX];
    double ns[RUNS_MAX];
    struct arena arena;
    size_t count = 0;
    arena_init(&arena);
    for (int run = 0; run < runs; run++) {
        uint64_t begin = cpu_ns();
        for (long i = 0; i < requests; i++) {
            arena_reset(&arena);
            bench_must(url_query(SPAN_LITERAL("queue=mail%2Fout&state=dead&limit=50"), &arena,
                                 params, &count) == 0,
                       "decode a query");
        }
        ns[run] = (double)(cpu_ns() - begin) / (double)requests;
    }
    arena_done(&arena);
    return bench_median(ns, runs);
}

int main(int argc, char **argv)
{
    int runs = (int)bench_option(argc, argv, "--runs", 9);
    long requests = bench_option(argc, argv, "--requests", 300000);
    bench_must(runs >= 1 && runs <= RUNS_MAX && requests > 0, "use these options");
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        struct span in = span_text(SAMPLES[i].text);
        bench_progress(SAMPLES[i].what, (int)i, SAMPLE_COUNT);
        double head = measure(in, head_read, requests, runs);
        double whole = measure(in, request_read, requests, runs);
        printf("%-38s %4zu bytes: head %4.0f ns, head and body %4.0f ns\n", SAMPLES[i].what, in.len,
               head, whole);
    }
    printf("query of 3 parameters, one encoded: %.0f ns\n", measure_query(requests, runs));
    return 0;
}
