/* SPDX-License-Identifier: Apache-2.0 */
/* Wake-up: one consumer waits, one producer enqueues every 20 ms; from the enqueue's first byte to
 * the job in the consumer's hands. The same for Holdfast over HTTP and for a Redis list, so that
 * the two can be taken in turn; bench/http_ratios.sh does. Prints one line: p50 and p95 in us.
 *
 *   bench_wake http PORT [ROUNDS]     claim that waits | enqueue | ack
 *   bench_wake redis PORT [ROUNDS]    BLMOVE | LPUSH | LREM */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD 200
#define EVERY_NS 20000000
#define ROUNDS_MAX 100000
#define ANSWER_BYTES 8192

struct line {
    int fd;
    char in[ANSWER_BYTES];
    size_t len; /* of the answer in `in` */
};

static void die(const char *what)
{
    fprintf(stderr, "bench_wake: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void dial(struct line *l, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    l->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (l->fd < 0 || connect(l->fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("cannot connect");
    setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

__attribute__((format(printf, 2, 3))) static void say(struct line *l, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (write(l->fd, text, (size_t)len) != len)
        die("cannot send");
}

/* Reads until `whole` finds an answer. */
static void hear(struct line *l, int (*whole)(const char *text))
{
    l->len = 0;
    do {
        ssize_t n = read(l->fd, l->in + l->len, sizeof l->in - 1 - l->len);
        if (n <= 0)
            die("the server closed the connection");
        l->len += (size_t)n;
        l->in[l->len] = '\0';
    } while (!whole(l->in));
}

/* ---- HTTP ---- */

static int http_whole(const char *text)
{
    const char *body = strstr(text, "\r\n\r\n");
    const char *length = strcasestr(text, "content-length:");
    return body && length && strlen(body + 4) >= strtoul(length + 15, NULL, 10);
}

static void http_post(struct line *l, const char *path, const char *body)
{
    say(l,
        "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\n\r\n%s",
        path, strlen(body), body);
}

static void http_ok(const struct line *l, const char *what)
{
    if (strncmp(l->in, "HTTP/1.1 2", 10) == 0)
        return;
    fprintf(stderr, "bench_wake: %s: %s\n", what, l->in);
    exit(1);
}

static void http_wait(struct line *l)
{
    http_post(l, "/v1/queues/bench-wake/claim", "{\"wait_ms\":30000}");
}

static void http_enqueue(struct line *l, const char *payload)
{
    char body[PAYLOAD + 32];
    snprintf(body, sizeof body, "{\"payload\":\"%s\"}", payload);
    http_post(l, "/v1/queues/bench-wake/jobs", body);
}

static void http_settle(struct line *consumer, struct line *producer)
{
    char id[64], token[64], path[128], body[128];
    http_ok(consumer, "claim");
    http_ok(producer, "enqueue");
    const char *at_id = strstr(consumer->in, "\"id\":\""),
               *at_token = strstr(consumer->in, "\"token\":\"");
    if (!at_id || !at_token || sscanf(at_id, "\"id\":\"%63[^\"]", id) != 1 ||
        sscanf(at_token, "\"token\":\"%63[^\"]", token) != 1) {
        fprintf(stderr, "bench_wake: no job in %s\n", consumer->in);
        exit(1);
    }
    snprintf(path, sizeof path, "/v1/jobs/%s/ack", id);
    snprintf(body, sizeof body, "{\"token\":\"%s\"}", token);
    http_post(consumer, path, body);
    hear(consumer, http_whole);
    http_ok(consumer, "ack");
}

/* ---- Redis ---- */

/* An integer, or a bulk string. */
static int redis_whole(const char *text)
{
    const char *end = strstr(text, "\r\n");
    if (!end)
        return 0;
    return text[0] != '$' || strlen(end + 2) >= strtoul(text + 1, NULL, 10) + 2;
}

static void redis_wait(struct line *l)
{
    say(l, "*6\r\n$6\r\nBLMOVE\r\n$4\r\nwake\r\n$4\r\nheld\r\n$5\r\nRIGHT\r\n$4\r\nLEFT\r\n"
           "$2\r\n30\r\n");
}

static void redis_enqueue(struct line *l, const char *payload)
{
    say(l, "*3\r\n$5\r\nLPUSH\r\n$4\r\nwake\r\n$%zu\r\n%s\r\n", strlen(payload), payload);
}

static void redis_settle(struct line *consumer, struct line *producer)
{
    if (consumer->in[0] != '$' || producer->in[0] != ':') {
        fprintf(stderr, "bench_wake: %s%s\n", consumer->in, producer->in);
        exit(1);
    }
    char payload[PAYLOAD + 1] = "";
    memcpy(payload, strstr(consumer->in, "\r\n") + 2, PAYLOAD);
    say(consumer, "*4\r\n$4\r\nLREM\r\n$4\r\nheld\r\n$1\r\n1\r\n$%d\r\n%s\r\n", PAYLOAD, payload);
    hear(consumer, redis_whole);
}

/* ---- the run ---- */

static const struct protocol {
    const char *name;
    int (*whole)(const char *text);
    void (*wait)(struct line *l);
    void (*enqueue)(struct line *l, const char *payload);
    void (*settle)(struct line *consumer, struct line *producer);
} protocols[] = {
    {"http", http_whole, http_wait, http_enqueue, http_settle},
    {"redis", redis_whole, redis_wait, redis_enqueue, redis_settle},
};

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void rest_until(int64_t at_ns)
{
    struct timespec t = {at_ns / 1000000000, at_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static void run(const struct protocol *p, int port, int rounds)
{
    static struct line consumer, producer;
    static int64_t took[ROUNDS_MAX];
    char payload[PAYLOAD + 1];
    memset(payload, 'x', PAYLOAD);
    payload[PAYLOAD] = '\0';
    dial(&consumer, port);
    dial(&producer, port);
    int64_t next = now_ns();
    for (int i = 0; i < rounds; i++) {
        p->wait(&consumer);
        rest_until(next += EVERY_NS);
        int64_t began = now_ns();
        p->enqueue(&producer, payload);
        hear(&consumer, p->whole);
        took[i] = now_ns() - began;
        hear(&producer, p->whole);
        p->settle(&consumer, &producer);
    }
    qsort(took, (size_t)rounds, sizeof *took, by_size);
    printf("%.1f %.1f\n", (double)took[rounds / 2] / 1e3, (double)took[rounds * 95 / 100] / 1e3);
}

int main(int argc, char **argv)
{
    long rounds = argc > 3 ? strtol(argv[3], NULL, 10) : 250;
    for (size_t i = 0; argc > 2 && i < sizeof protocols / sizeof *protocols; i++)
        if (strcmp(argv[1], protocols[i].name) == 0 && rounds > 0 && rounds <= ROUNDS_MAX) {
            run(&protocols[i], (int)strtol(argv[2], NULL, 10), (int)rounds);
            return 0;
        }
    puts("bench_wake http|redis PORT [ROUNDS]: needs a server; bench/http_ratios.sh has two");
    return argc > 1 ? 2 : 0;
}
