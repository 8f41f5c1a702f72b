/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: connections, steps, and when to stop. After each round of events every connection
 * that received something has one step, in which it sends all requests that it may send; so a
 * pipelined connection responds to many replies with one write. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

#define EVENTS 256
#define READ_MIN (64 * 1024)
#define UP_SECONDS 60
#define STALL_SECONDS 30 /* no confirm and no settled job for this long: the server hangs */
#define NS_PER_S UINT64_C(1000000000)

uint64_t load_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* ---- events, from the protocols ---- */

void load_up(struct load_conn *c)
{
    c->up = c->dirty = true;
    c->load->up++;
}

void load_confirmed(struct load_conn *c, unsigned jobs)
{
    struct load *load = c->load;
    uint64_t now = load->measuring ? load_now_ns() : 0;
    if (jobs > c->unconfirmed)
        load_fail("the server confirmed more jobs than it got");
    c->unconfirmed -= jobs;
    load->confirmed += jobs;
    for (unsigned i = 0; i < jobs; i++) {
        uint64_t at = c->sent_ns[c->sent_tail];
        c->sent_tail = (c->sent_tail + 1) % load->options.depth;
        if (load->measuring)
            bench_histogram_add(&load->confirm_ns, now - at);
    }
}

void load_received(struct load_conn *c, const char *payload, size_t len)
{
    struct load *load = c->load;
    uint64_t at = 0, now;
    load->received++;
    if (len != load->options.size)
        load_fail("a job of %zu bytes came back, but all have %u", len, load->options.size);
    if (!load->measuring)
        return;
    for (int i = 0; i < 16; i++)
        at = at << 4 | (uint64_t)(payload[i] <= '9' ? payload[i] - '0' : payload[i] - 'a' + 10);
    now = load_now_ns();
    if (now > at)
        bench_histogram_add(&load->wake_ns, now - at);
}

void load_settled(struct load_conn *c, unsigned jobs)
{
    c->settling -= jobs < c->settling ? jobs : c->settling;
    c->load->settled += jobs;
}

void load_retry(struct load_conn *c)
{
    c->retry_at_ns = load_now_ns() + (uint64_t)load_options(c)->poll_us * 1000;
}

/* ---- sockets ---- */

static void watch(struct load_conn *c, int how, bool write)
{
    struct epoll_event e = {.events = EPOLLIN | (write ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(c->load->epoll, how, c->fd, &e) < 0)
        load_fail("epoll_ctl: %s", strerror(errno));
    c->wants_write = write;
}

static void conn_open(struct load_conn *c)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(load_options(c)->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0)
        load_fail("cannot connect to 127.0.0.1:%u: %s", load_options(c)->port, strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    watch(c, EPOLL_CTL_ADD, false);
    load_options(c)->protocol->hello(c);
    c->dirty = true;
}

static void conn_flush(struct load_conn *c)
{
    while (c->out_at < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + c->out_at, c->out.len - c->out_at,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            load_fail("cannot send: %s", strerror(errno));
        c->out_at += (size_t)n;
    }
    bool left = c->out_at < c->out.len;
    if (!left) {
        c->out_at = 0;
        buf_clear(&c->out);
    }
    if (left != c->wants_write)
        watch(c, EPOLL_CTL_MOD, left);
}

static void conn_read(struct load_conn *c)
{
    size_t (*hear)(struct load_conn *, const char *, size_t) = load_options(c)->protocol->hear;
    size_t left = c->in.len - c->in_at, n;
    if (left > 0 && c->in_at > 0)
        memmove(c->in.data, c->in.data + c->in_at, left);
    c->in.len = left;
    c->in_at = 0;
    if (buf_reserve(&c->in, READ_MIN) < 0)
        load_fail("out of memory");
    ssize_t got = recv(c->fd, c->in.data + left, c->in.cap - left, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        load_fail("the server closed the connection%s%s", got < 0 ? ": " : "",
                  got < 0 ? strerror(errno) : "");
    c->in.len += (size_t)got;
    c->dirty = true;
    while (c->in_at < c->in.len && (n = hear(c, c->in.data + c->in_at, c->in.len - c->in_at)) > 0)
        c->in_at += n;
}

/* ---- turns ---- */

static bool backlog_full(const struct load *load)
{
    const struct load_options *o = &load->options;
    return o->backlog_max > 0 && load->sent >= load->settled + o->backlog_max;
}

static unsigned puts_allowed(const struct load_conn *c)
{
    const struct load_options *o = load_options(c);
    if (backlog_full(c->load) || (o->protocol->put_batched && c->unconfirmed > 0))
        return 0;
    unsigned room = o->depth - c->unconfirmed;
    if (o->count > 0 && o->count - c->load->sent < room)
        room = (unsigned)(o->count - c->load->sent);
    return room;
}

static void put_jobs(struct load_conn *c, unsigned jobs)
{
    uint64_t now = load_now_ns();
    for (unsigned i = 0; i < jobs; i++) {
        c->sent_ns[c->sent_head] = now;
        c->sent_head = (c->sent_head + 1) % load_options(c)->depth;
    }
    c->unconfirmed += jobs;
    c->load->sent += jobs;
    load_options(c)->protocol->put(c, jobs);
}

static void producer_turn(struct load_conn *c)
{
    unsigned jobs = load_options(c)->interval_us > 0 ? 0 : puts_allowed(c);
    if (jobs > 0)
        put_jobs(c, jobs);
}

static void consumer_turn(struct load_conn *c)
{
    const struct load_options *o = load_options(c);
    if (c->held_jobs > 0) {
        c->settling += c->held_jobs;
        o->protocol->settle(c);
        buf_clear(&c->held);
        c->held_jobs = 0;
    }
    bool one = o->depth == 1;
    if (c->retry_at_ns == 0 &&
        (one ? c->settling == 0 && c->asked == 0
             : c->asked == 0 || (!o->protocol->take_batched && c->asked < o->depth)))
        o->protocol->take(c, o->depth - c->asked);
}

static void turn(struct load_conn *c)
{
    c->dirty = false;
    if (c->up && c->load->up == c->load->connections) {
        if (c->role == LOAD_PRODUCER)
            producer_turn(c);
        else
            consumer_turn(c);
    }
    if (c->out.len > c->out_at)
        conn_flush(c);
}

/* Producers rest when the backlog is full, and so do consumers after an empty poll; both wake by
 * time. */
static bool due(const struct load_conn *c, uint64_t now, bool room)
{
    if (c->dirty)
        return true;
    return c->role == LOAD_PRODUCER ? room && c->unconfirmed < load_options(c)->depth
                                    : c->retry_at_ns > 0 && now >= c->retry_at_ns;
}

static void turns(struct load *load)
{
    uint64_t now = load_now_ns();
    bool room = !backlog_full(load) && load->up == load->connections;
    for (unsigned i = 0; i < load->connections; i++) {
        struct load_conn *c = &load->conns[i];
        if (c->fd < 0 || !due(c, now, room))
            continue;
        if (now >= c->retry_at_ns)
            c->retry_at_ns = 0;
        turn(c);
    }
}

static void tick(struct load *load)
{
    uint64_t ticks;
    if (read(load->timer, &ticks, sizeof ticks) < 0 || load->up < load->connections)
        return;
    for (unsigned i = 0; i < load->options.producers; i++) {
        struct load_conn *c = &load->conns[i];
        if (c->unconfirmed > 0 || backlog_full(load))
            continue;
        put_jobs(c, 1);
        conn_flush(c);
    }
}

static int rest_ms(const struct load *load)
{
    uint64_t soonest = 0;
    for (unsigned i = load->options.producers; i < load->connections; i++) {
        uint64_t at = load->conns[i].retry_at_ns;
        if (at > 0 && (soonest == 0 || at < soonest))
            soonest = at;
    }
    if (soonest == 0)
        return 100;
    uint64_t now = load_now_ns();
    return soonest <= now ? 0 : (int)((soonest - now + 999999) / 1000000);
}

static void step(struct load *load)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(load->epoll, events, EVENTS, rest_ms(load));
    for (int i = 0; i < n; i++) {
        struct load_conn *c = events[i].data.ptr;
        if (!c)
            tick(load);
        else if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            conn_read(c);
        else
            c->dirty = true;
    }
    turns(load);
}

/* ---- a run ---- */

static void timer_open(struct load *load)
{
    uint64_t us = load->options.interval_us;
    struct epoll_event e = {.events = EPOLLIN};
    struct itimerspec every = {
        .it_value = {.tv_nsec = 1},
        .it_interval = {(time_t)(us / 1000000), (long)(us % 1000000 * 1000)}};
    if (us == 0)
        return;
    load->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (load->timer < 0 || timerfd_settime(load->timer, 0, &every, NULL) < 0 ||
        epoll_ctl(load->epoll, EPOLL_CTL_ADD, load->timer, &e) < 0)
        load_fail("no timer: %s", strerror(errno));
}

static void up_wait(struct load *load, unsigned connections)
{
    uint64_t end = load_now_ns() + UP_SECONDS * NS_PER_S;
    while (load->up < connections) {
        step(load);
        if (load_now_ns() > end)
            load_fail("the handshake of the server took over %d s", UP_SECONDS);
    }
}

void load_open(struct load *load)
{
    const struct load_options *o = &load->options;
    load->connections = o->producers + o->consumers;
    load->conns = calloc(load->connections, sizeof *load->conns);
    load->payload = malloc(o->size);
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!load->conns || !load->payload || load->epoll < 0)
        load_fail("out of memory");
    memset(load->payload, 'x', o->size);
    random_seed(&load->random, 1);
    for (unsigned i = 0; i < load->connections; i++) {
        struct load_conn *c = &load->conns[i];
        *c = (struct load_conn){.load = load, .fd = -1, .index = i};
        c->role = i < o->producers ? LOAD_PRODUCER : LOAD_CONSUMER;
        c->sent_ns = calloc(o->depth, sizeof *c->sent_ns);
        if (!c->sent_ns)
            load_fail("out of memory");
    }
    conn_open(&load->conns[0]);
    up_wait(load, 1);
    for (unsigned i = 1; i < load->connections; i++)
        conn_open(&load->conns[i]);
    up_wait(load, load->connections);
    for (unsigned i = 0; i < load->connections; i++)
        load->conns[i].dirty = true;
    timer_open(load);
}

static uint64_t jobs_done(const struct load *load)
{
    return load->options.consumers > 0 ? load->settled : load->confirmed;
}

static bool over(const struct load *load, uint64_t end)
{
    return load->options.count > 0 ? load->confirmed >= load->options.count : load_now_ns() >= end;
}

/* Steps until `end`, or until options.count jobs are in. */
static void steps(struct load *load, uint64_t end)
{
    uint64_t seen = 0, seen_at = load_now_ns();
    while (!over(load, end)) {
        step(load);
        uint64_t now_done = load->confirmed + load->settled;
        if (now_done != seen) {
            seen = now_done;
            seen_at = load_now_ns();
        } else if (load_now_ns() - seen_at > STALL_SECONDS * NS_PER_S) {
            load_fail("no answer for %d s", STALL_SECONDS);
        }
    }
}

void load_warm(struct load *load)
{
    if (load->options.count == 0)
        steps(load, load_now_ns() + (uint64_t)(load->options.warmup_s * 1e9));
}

void load_run(struct load *load, uint64_t *ret_elapsed_ns, uint64_t *ret_jobs)
{
    const struct load_options *o = &load->options;
    uint64_t before = jobs_done(load), start = load_now_ns();
    load->measuring = true;
    steps(load, start + (uint64_t)(o->seconds * 1e9));
    *ret_elapsed_ns = load_now_ns() - start;
    *ret_jobs = jobs_done(load) - before;
    load->measuring = false;
}
