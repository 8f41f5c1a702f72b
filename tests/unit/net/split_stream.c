/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/net/split_stream.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <uv.h>

#include "net/tls/tls.h"
#include "unit/net/tls_files.h"

#define HELD_BYTES 8192
#define PIECES_MAX 256

struct split_state {
    struct split_streams *all;
    bool wants_write; /* the next read waits until the socket is writable */
    bool shut;        /* shutdown was delayed once */
    size_t at, len;   /* of `held`: received and not read yet */
    char held[HELD_BYTES];
};

/* Mostly a few bytes, sometimes many, so that large bodies come to an end. */
static size_t some(struct random *r, size_t most)
{
    size_t bound = random_below(r, 2) ? 16 : random_below(r, 2) ? 1000 : 64 << 10;
    return 1 + random_below(r, bound < most ? bound : most);
}

static bool delayed(struct split_state *t)
{
    bool yes = random_below(&t->all->random, 8) == 0;
    t->all->delays += yes;
    return yes;
}

static int split_open(struct net_stream *s, void *ctx)
{
    struct split_streams *all = ctx;
    struct split_state *t = all->refuse ? NULL : calloc(1, sizeof *t);
    if (!t)
        return -ERR_NOMEM;
    t->all = all;
    all->open++;
    s->state = t;
    return 0;
}

static void split_close(struct net_stream *s)
{
    struct split_state *t = s->state;
    t->all->open--;
    free(t);
}

static ssize_t failed(void)
{
    return errno == EAGAIN || errno == EINTR ? NET_AGAIN : NET_BROKEN;
}

static bool split_pending(const struct net_stream *s)
{
    const struct split_state *t = s->state;
    return t->at < t->len;
}

static ssize_t split_read(struct net_stream *s, char *into, size_t len)
{
    struct split_state *t = s->state;
    struct random *r = &t->all->random;
    t->wants_write = false;
    if (delayed(t)) {
        t->wants_write = random_below(r, 2);
        return NET_AGAIN;
    }
    if (t->at == t->len) {
        ssize_t n = recv(s->fd, t->held, random_below(r, 4) ? HELD_BYTES : 1, 0);
        if (n <= 0)
            return n == 0 ? 0 : failed();
        t->at = 0;
        t->len = (size_t)n;
    }
    size_t held = t->len - t->at, n = some(r, held < len ? held : len);
    t->all->splits += n < held;
    memcpy(into, t->held + t->at, n);
    t->at += n;
    return (ssize_t)n;
}

static ssize_t split_write(struct net_stream *s, const struct iovec *pieces, size_t count)
{
    struct split_state *t = s->state;
    struct iovec part[PIECES_MAX];
    struct msghdr m = {.msg_iov = part};
    assert_in_range(count, 1, PIECES_MAX);
    if (delayed(t))
        return NET_AGAIN;
    for (size_t left = some(&t->all->random, SIZE_MAX); left > 0 && m.msg_iovlen < count;) {
        struct iovec *p = &part[m.msg_iovlen];
        *p = pieces[m.msg_iovlen++];
        t->all->splits += p->iov_len > left;
        p->iov_len = p->iov_len < left ? p->iov_len : left;
        left -= p->iov_len;
    }
    ssize_t n = sendmsg(s->fd, &m, MSG_NOSIGNAL);
    return n >= 0 ? n : failed();
}

static int split_shutdown(struct net_stream *s)
{
    struct split_state *t = s->state;
    if (!t->shut) {
        t->shut = true;
        return NET_AGAIN;
    }
    return shutdown(s->fd, SHUT_WR) == 0 ? 0 : NET_BROKEN;
}

static int split_events(const struct net_stream *s, int wanted)
{
    const struct split_state *t = s->state;
    return t->wants_write && wanted & UV_READABLE ? (wanted & ~UV_READABLE) | UV_WRITABLE : wanted;
}

const struct net_stream_kind split_stream = {
    .open = split_open,
    .read = split_read,
    .pending = split_pending,
    .write = split_write,
    .shutdown = split_shutdown,
    .events = split_events,
    .close = split_close,
};

/* ---- each test three times ---- */

static struct {
    const struct net_stream_kind *kind;
    struct split_streams split;
    struct net_tls_service tls;
} now;

const struct net_stream_kind *stream_under_test(void **ret_ctx)
{
    *ret_ctx = now.kind == &net_stream_tls ? (void *)&now.tls : &now.split;
    return now.kind;
}

static int plain_setup(void **state)
{
    (void)state;
    now.kind = &net_stream_plain;
    return 0;
}

static int split_setup(void **state)
{
    (void)state;
    now.kind = &split_stream;
    now.split = (struct split_streams){0};
    seeded(&now.split.random, "split streams");
    return 0;
}

static int split_teardown(void **state)
{
    (void)state;
    return now.split.open == 0 ? 0 : -1;
}

static int tls_setup(void **state)
{
    (void)state;
    struct tls_files files;
    struct err_note note = {""};
    signal(SIGPIPE, SIG_IGN);
    tls_files_make(&files);
    now.kind = &net_stream_tls;
    now.tls = (struct net_tls_service){.alpn = "test"};
    if (net_tls_new(&files.files, NULL, &now.tls.tls, &note) != 0)
        fail_msg("%s", note.text);
    tls_files_remove(&files);
    return 0;
}

static int tls_teardown(void **state)
{
    (void)state;
    net_tls_free(now.tls.tls);
    now.kind = &net_stream_plain;
    return 0;
}

const char stream_plain_only, stream_not_tls;

struct group {
    struct CMUnitTest *all;
    char (*names)[100];
    size_t count;
};

static void add(struct group *g, const struct CMUnitTest *test, const char *over,
                CMFixtureFunction setup, CMFixtureFunction teardown)
{
    char *name = g->names[g->count];
    snprintf(name, sizeof g->names[0], "%s%s", test->name, over);
    g->all[g->count++] = (struct CMUnitTest){name, test->test_func, setup, teardown, NULL};
}

int stream_tests_run(const char *group, const struct CMUnitTest *tests, size_t count)
{
    struct group g = {.all = calloc(3 * count, sizeof *g.all),
                      .names = calloc(3 * count, sizeof *g.names)};
    if (!g.all || !g.names)
        abort();
    for (size_t i = 0; i < count; i++)
        add(&g, &tests[i], "", plain_setup, NULL);
    for (size_t i = 0; i < count; i++) {
        const char *mark = tests[i].initial_state;
        if (mark != &stream_plain_only)
            add(&g, &tests[i], " over split streams", split_setup, split_teardown);
        if (mark != &stream_plain_only && mark != &stream_not_tls)
            add(&g, &tests[i], " over TLS", tls_setup, tls_teardown);
    }
    int failures = _cmocka_run_group_tests(group, g.all, g.count, NULL, NULL);
    free(g.names);
    free(g.all);
    return failures;
}
