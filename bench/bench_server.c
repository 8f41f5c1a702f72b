/* SPDX-License-Identifier: Apache-2.0 */
/* What a request costs the HTTP server: an ordinary POST with eight headers, answered at once with
 * a small document. The clients are another process, so that the CPU time of this one is the
 * server's; its user part is everything but the kernel.
 *
 *   bench_server [--requests N] [--connections N] [--depth N] [--runs N]
 *
 * depth: requests that a client sends before it reads their answers. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "bench.h"
#include "http/server.h"

#define REQUEST                                                                                    \
    "POST /v1/queues/mail/jobs HTTP/1.1\r\nHost: localhost:8000\r\nUser-Agent: bench/1.0\r\n"      \
    "Accept: application/json\r\nAccept-Encoding: gzip, deflate\r\nAccept-Language: en\r\n"        \
    "Connection: keep-alive\r\nContent-Type: application/json\r\nContent-Length: 28\r\n\r\n"       \
    "{\"payload\":{\"to\":\"you\"}}    "
#define ANSWER_BODY "{\"id\":\"01ARZ3NDEKTSV4RRFFQ69G5FAV\",\"seq\":12345,\"state\":\"ready\"}"
#define RUNS_MAX 99

struct options {
    long requests, connections, depth, runs;
};

struct bench {
    struct options options;
    struct http_server *server;
    bool closed;
};

static void handler(void *ctx, struct http_exchange *x)
{
    (void)ctx;
    if (buf_append(http_answer_body(x), ANSWER_BODY, sizeof ANSWER_BODY - 1) != 0)
        http_answer(x, 503, NULL);
    else
        http_answer(x, 201, "application/json");
}

/* ---- clients --------------------------------------------------------------------------------- */

static void send_all(int fd, const char *at, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        bench_must(n > 0, "send");
        at += n;
        len -= (size_t)n;
    }
}

/* All answers have the same length, which the first one shows. */
static size_t answer_bytes(int fd)
{
    char text[4096];
    size_t len = 0;
    send_all(fd, REQUEST, sizeof REQUEST - 1);
    for (;;) {
        ssize_t n = recv(fd, text + len, sizeof text - 1 - len, 0);
        bench_must(n > 0, "receive");
        len += (size_t)n;
        text[len] = '\0';
        const char *end = strstr(text, "\r\n\r\n");
        size_t whole = end ? (size_t)(end - text) + 4 + sizeof ANSWER_BODY - 1 : SIZE_MAX;
        if (len >= whole)
            return whole;
    }
}

static void receive_all(int fd, size_t len)
{
    static char text[1 << 16];
    while (len > 0) {
        ssize_t n = recv(fd, text, len < sizeof text ? len : sizeof text, 0);
        bench_must(n > 0, "receive");
        len -= (size_t)n;
    }
}

static void clients(const struct options *o, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int *fds = calloc((size_t)o->connections, sizeof *fds);
    char *many = malloc((size_t)o->depth * (sizeof REQUEST - 1));
    size_t each = 0;
    at.sin_port = htons(port);
    bench_must(fds && many, "get memory");
    for (long i = 0; i < o->depth; i++)
        memcpy(many + (size_t)i * (sizeof REQUEST - 1), REQUEST, sizeof REQUEST - 1);
    for (long i = 0; i < o->connections; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        bench_must(connect(fds[i], (struct sockaddr *)&at, sizeof at) == 0, "connect");
        each = answer_bytes(fds[i]);
    }
    for (long done = 0; done < o->requests; done += o->connections * o->depth) {
        for (long i = 0; i < o->connections; i++)
            send_all(fds[i], many, (size_t)o->depth * (sizeof REQUEST - 1));
        for (long i = 0; i < o->connections; i++)
            receive_all(fds[i], (size_t)o->depth * each);
    }
    _exit(0);
}

/* ---- the server ------------------------------------------------------------------------------ */

static double microseconds(struct timeval t)
{
    return (double)t.tv_sec * 1e6 + (double)t.tv_usec;
}

static void closed_cb(void *ctx)
{
    struct bench *b = ctx;
    b->closed = true;
}

static void serve(struct bench *b, uv_loop_t *loop, pid_t child, double *ret_user, double *ret_sys)
{
    struct rusage before, after;
    struct http_server_figures f;
    int status = 0;
    getrusage(RUSAGE_SELF, &before);
    do {
        uv_run(loop, UV_RUN_ONCE);
        http_server_figures(b->server, &f);
    } while (f.accepted < (uint64_t)b->options.connections || f.connections > 0);
    getrusage(RUSAGE_SELF, &after);
    bench_must(waitpid(child, &status, 0) == child && status == 0, "run the clients");
    *ret_user = (microseconds(after.ru_utime) - microseconds(before.ru_utime)) / (double)f.requests;
    *ret_sys = (microseconds(after.ru_stime) - microseconds(before.ru_stime)) / (double)f.requests;
}

static void run(struct bench *b, double *ret_user, double *ret_sys, double *ret_rate)
{
    static const struct http_route route = {
        HTTP_POST, "/v1/queues/{queue}/jobs", handler, SCOPE_PRODUCE, 0, ""};
    struct http_server_config config;
    uv_loop_t loop;
    bench_must(uv_loop_init(&loop) == 0, "make a loop");
    http_server_config_default(&config);
    config.net.loop = &loop;
    bench_must(http_server_new(&config, &b->server) == 0, "make a server");
    http_server_routes(b->server, &route, 1, NULL);
    bench_must(http_server_listen(b->server, "127.0.0.1:0", NULL) == 0, "listen");
    const char *port = strrchr(http_server_address(b->server, 0), ':') + 1;
    uint64_t start = clock_ns();
    pid_t child = fork();
    bench_must(child >= 0, "fork");
    if (child == 0)
        clients(&b->options, (uint16_t)strtoul(port, NULL, 10));
    serve(b, &loop, child, ret_user, ret_sys);
    *ret_rate = (double)b->options.requests * 1e9 / (double)(clock_ns() - start);
    b->closed = false;
    http_server_close(b->server, closed_cb, b);
    while (!b->closed)
        uv_run(&loop, UV_RUN_ONCE);
    uv_run(&loop, UV_RUN_DEFAULT);
    bench_must(uv_loop_close(&loop) == 0, "close the loop");
}

int main(int argc, char **argv)
{
    struct bench b = {.options = {bench_option(argc, argv, "--requests", 1000000),
                                  bench_option(argc, argv, "--connections", 16),
                                  bench_option(argc, argv, "--depth", 16),
                                  bench_option(argc, argv, "--runs", 5)}};
    double user[RUNS_MAX], sys[RUNS_MAX], rate[RUNS_MAX];
    int runs = (int)(b.options.runs < RUNS_MAX ? b.options.runs : RUNS_MAX);
    bench_must(runs > 0 && b.options.depth > 0 && b.options.connections > 0, "use these options");
    for (int i = 0; i < runs; i++) {
        bench_progress("server", i, runs);
        run(&b, &user[i], &sys[i], &rate[i]);
    }
    printf("connections %ld, depth %ld: %.2f us user, %.2f us system a request, %.0f requests/s\n",
           b.options.connections, b.options.depth, bench_median(user, runs),
           bench_median(sys, runs), bench_median(rate, runs));
    return 0;
}
