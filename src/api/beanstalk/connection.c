/* SPDX-License-Identifier: Apache-2.0 */
/* One client's socket: when to read, what to write, and how it ends.
 *
 * All connections read into the API's one buffer; one keeps bytes of its own (`in`) only for a
 * command that has come in part, or for commands that must wait. A client that does not read its
 * answers is not read from either, and after a while it is dropped.
 *
 * An end of input is the client's word that it sends no more: it still gets its answers, and a
 * reserve that waits is answered TIMED_OUT, as beanstalkd does. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/beanstalk/impl.h"
#include "base/check.h"
#include "base/mem.h"
#include "net/address.h"

bool conn_at_rest(const struct conn *c)
{
    return !c->first && !c->blocked;
}

void conn_dirty(struct conn *c)
{
    if (c->closed || !link_alone(&c->dirty))
        return;
    link_append(&c->api->dirty, &c->dirty);
    bs_rouse(c->api);
}

/* ---- the end ---- */

static void closed_cb(uv_handle_t *handle)
{
    struct conn *c = handle->data;
    struct beanstalk *b = c->api;
    buf_done(&c->in);
    mem_free(c);
    bs_handle_closed(b);
}

/* Answered orders go; the others live until their ops are answered. */
static void chain_loosen(struct conn *c)
{
    struct order *k = c->first;
    while (k) {
        struct order *next = k->next;
        bs_account_loosen(k);
        k->conn = NULL;
        k->next = NULL;
        if (k->ready)
            order_free(k);
        k = next;
    }
    c->first = c->last = c->barrier = NULL;
    c->count = 0;
}

void conn_close(struct conn *c)
{
    struct beanstalk *b = c->api;
    if (c->closed)
        return;
    reserve_cancel(c);
    c->closed = true;
    link_remove(&c->all);
    link_remove(&c->dirty);
    link_remove(&c->late);
    link_remove(&c->uneasy);
    link_remove(&c->part.link);
    peer_uncount(&b->addresses, c->address);
    b->conns_open--;
    b->producers -= c->producer;
    b->workers -= c->worker;
    chain_loosen(c);
    held_release_all(c);
    tubes_leave(c);
    if (!c->taking) /* else commands are just being read from it */
        conn_input_free(c);
    bs_account_close(c);
    uv_close((uv_handle_t *)&c->poll, closed_cb);
    close(c->fd);
    bs_rouse(b);
}

/* ---- input ---- */

static bool intake_open(const struct conn *c)
{
    return !c->closed && !c->no_more && !c->barrier && !c->claim && c->count < BS_ORDERS_MAX &&
           c->out_bytes <= c->api->config.write_buffer_bytes;
}

static void refuse(struct order *k, enum bs_result r)
{
    if (r == BS_UNKNOWN_COMMAND)
        ANSWER(k, "UNKNOWN_COMMAND");
    else if (r == BS_EXPECTED_CRLF)
        ANSWER(k, "EXPECTED_CRLF");
    else if (r == BS_JOB_TOO_BIG)
        ANSWER(k, "JOB_TOO_BIG");
    else if (r == BS_NO_ROOM)
        ANSWER(k, "OUT_OF_MEMORY");
    else
        ANSWER(k, "BAD_FORMAT");
}

static void take(struct conn *c, enum bs_result r, const struct bs_command *cmd)
{
    struct order *k = order_new(c);
    bool first = !c->answered;
    c->answered = true;
    guard_part(c, BS_PART_NONE);
    if (!k) { /* without memory for an answer there is nothing to be said */
        conn_close(c);
        return;
    }
    k->word = cmd->word;
    if (r == BS_COMMAND) {
        bs_command_run(c, k, cmd);
        return;
    }
    c->api->commands[BS_PUT] += r == BS_EXPECTED_CRLF || r == BS_JOB_TOO_BIG || r == BS_NO_ROOM;
    if (r == BS_EXPECTED_CRLF)
        conn_producer(c);
    if (first && r == BS_BAD_FORMAT)
        guard_bad_first(c);
    c->no_more = c->no_more || c->only_line;
    refuse(k, r);
}

/* Takes commands off the front; returns how many bytes were used. */
static size_t intake(struct conn *c, struct span in)
{
    struct bs_command cmd;
    size_t done = 0;
    if (!c->begun && !guard_first_line(c, in))
        return 0;
    while (intake_open(c) && done < in.len) {
        size_t used;
        enum bs_result r = bs_parse(&c->parser, span_of(in.at + done, in.len - done), &used, &cmd);
        if (r == BS_COMMAND && !reserve_lets(c, &cmd))
            break; /* it is read again when they are answered */
        done += used;
        if (r != BS_MORE)
            take(c, r, &cmd);
        else if (used == 0)
            break;
    }
    reserve_run(c);
    return c->no_more ? in.len : done;
}

void conn_input_free(struct conn *c)
{
    buf_done(&c->in);
    bs_account_input_freed(c);
}

static void front_drop(struct conn *c, size_t len)
{
    struct buf *b = &c->in;
    if (len >= b->len) {
        conn_input_free(c);
        return;
    }
    memmove(b->data, b->data + len, b->len - len);
    b->len -= len;
}

/* The put that is being read is answered OUT_OF_MEMORY when its body has come. */
static void put_give_up(struct conn *c, size_t have)
{
    bs_parser_skip(&c->parser, have);
    conn_input_free(c);
}

/* Memory follows the bytes that came, not those that a put announces. */
static size_t input_cap(const struct conn *c, size_t len)
{
    size_t cap = len > 2 * c->in.cap ? len : 2 * c->in.cap;
    return c->parser.need > len && c->parser.need < cap ? c->parser.need : cap;
}

static void keep(struct conn *c, struct span rest)
{
    size_t len = c->in.len + rest.len;
    if (rest.len == 0)
        return;
    size_t cap = len > c->in.cap ? input_cap(c, len) : c->in.cap;
    if (bs_account_input(c, cap) && buf_grow(&c->in, cap) == 0 &&
        buf_append_span(&c->in, rest) == 0)
        return;
    if (c->parser.need > len)
        put_give_up(c, len);
    else
        conn_close(c);
}

/* A reserve has no answer that says so; the jobs that its connection holds are given back. */
static enum budget_shed shed_reason(const struct conn *c)
{
    if (c->blocked)
        return BUDGET_SHED_REPLY;
    return c->claim ? BUDGET_SHED_WAIT : BUDGET_SHED_BODY;
}

enum budget_shed conn_shed(void *ctx)
{
    struct conn *c = ctx;
    enum budget_shed reason = shed_reason(c);
    if (reason != BUDGET_SHED_BODY || c->taking || c->parser.need <= c->in.len)
        conn_close(c);
    else
        put_give_up(c, c->in.len);
    return reason;
}

static void conn_take(struct conn *c, struct span fresh)
{
    if (c->in.len == 0) {
        size_t used = intake(c, fresh);
        if (!c->closed)
            keep(c, span_of(fresh.at + used, fresh.len - used));
        return;
    }
    keep(c, fresh);
    if (c->closed || c->parser.need > c->in.len)
        return;
    c->taking = true;
    size_t used = intake(c, buf_span(&c->in));
    c->taking = false;
    if (!c->closed && used > 0)
        front_drop(c, used);
}

static void end_of_input(struct conn *c)
{
    c->eof = true;
    reserve_hurry(c);
    conn_dirty(c);
}

static void readable(struct conn *c)
{
    struct beanstalk *b = c->api;
    ssize_t n = recv(c->fd, b->read_buf, BS_READ_BYTES, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            conn_close(c);
    } else if (n == 0) {
        end_of_input(c);
    } else if (!c->no_more) {
        c->part.bytes += (size_t)n;
        bs_account_moved(c, (size_t)n);
        conn_take(c, span_of(b->read_buf, (size_t)n));
    }
}

/* ---- what it waits for ---- */

/* While commands wait, more may come, but not without bound. */
static bool wants_input(const struct conn *c)
{
    if (c->eof)
        return false;
    return intake_open(c) || c->no_more || ((c->barrier || c->claim) && c->in.len < BS_READ_BYTES);
}

static void poll_cb(uv_poll_t *handle, int status, int events);

static void settle(struct conn *c)
{
    if (c->closed)
        return;
    guard_part(c, intake_open(c) && !c->eof ? bs_part(&c->parser, c->in.len) : BS_PART_NONE);
    bs_account_settle(c, c->blocked || c->claim || (c->in.len > 0 && intake_open(c)));
    int events = c->blocked ? UV_WRITABLE : 0;
    if (wants_input(c))
        events |= UV_READABLE;
    else if (!c->eof && !c->hung_up)
        events |= UV_DISCONNECT;
    if (events == c->events)
        return;
    c->events = events;
    int r = events ? uv_poll_start(&c->poll, events, poll_cb) : uv_poll_stop(&c->poll);
    if (r != 0)
        conn_close(c);
}

static void poll_cb(uv_poll_t *handle, int status, int events)
{
    struct conn *c = handle->data;
    if (status < 0) {
        conn_close(c);
        return;
    }
    if (events & UV_DISCONNECT) {
        c->hung_up = true; /* what it sent before is still to be read */
        reserve_hurry(c);
    }
    if (events & UV_READABLE)
        readable(c);
    if (!c->closed && events & UV_WRITABLE)
        conn_dirty(c);
    settle(c);
}

/* ---- output ---- */

static size_t gather(const struct conn *c, struct iovec *pieces, size_t *ret_bytes)
{
    size_t n = 0;
    *ret_bytes = 0;
    for (struct order *k = c->first; k && k->ready && n < BS_WRITE_PIECES; k = k->next) {
        struct span bytes = order_bytes(k);
        pieces[n].iov_base = (void *)(uintptr_t)(bytes.at + k->sent);
        pieces[n++].iov_len = bytes.len - k->sent;
        *ret_bytes += bytes.len - k->sent;
    }
    return n;
}

static void sent(struct conn *c, size_t len)
{
    c->out_bytes -= len;
    bs_account_moved(c, len);
    while (c->first && c->first->ready) {
        struct order *k = c->first;
        size_t left = order_left(k);
        if (len < left) {
            k->sent += len;
            return;
        }
        len -= left;
        c->first = k->next;
        if (!c->first)
            c->last = NULL;
        c->count--;
        order_free(k);
    }
}

/* Bytes taken; 0 when the kernel takes none now; -1 when the connection is broken. */
static ssize_t pieces_send(int fd, struct iovec *pieces, size_t count)
{
    struct msghdr m = {.msg_iov = pieces, .msg_iovlen = count};
    ssize_t n;
    do {
        n = sendmsg(fd, &m, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS))
        return 0;
    return n;
}

/* A client that takes something has as much time again for the rest. */
static void write_late(struct conn *c, bool progress)
{
    struct beanstalk *b = c->api;
    if (c->blocked && !progress && !link_alone(&c->late))
        return;
    link_remove(&c->late);
    if (!c->blocked)
        return;
    c->write_deadline = uv_now(b->config.loop) + b->config.write_ms;
    link_append(&b->late, &c->late);
}

static void write_ready(struct conn *c)
{
    struct iovec *pieces = c->api->pieces;
    size_t bytes, count;
    bool progress = false;
    c->blocked = false;
    while (!c->blocked && (count = gather(c, pieces, &bytes)) > 0) {
        ssize_t n = pieces_send(c->fd, pieces, count);
        if (n < 0) {
            conn_close(c);
            return;
        }
        c->blocked = (size_t)n < bytes;
        progress = progress || n > 0;
        sent(c, (size_t)n);
    }
    write_late(c, progress);
}

void conn_flush(struct conn *c)
{
    if (c->closed)
        return;
    write_ready(c);
    if (!c->closed && c->in.len > 0 && intake_open(c))
        conn_take(c, span_of(NULL, 0));
    if (c->closed)
        return;
    bool over = c->no_more || c->eof || c->api->draining;
    if (over && conn_at_rest(c)) {
        conn_close(c);
        return;
    }
    if (c->count == 0)
        bs_account_rest(c);
    settle(c);
}

/* ---- the beginning ---- */

void conn_open(struct beanstalk *b, int fd, uint64_t address)
{
    if (b->conns_open >= b->config.connections_max ||
        !peer_count(&b->addresses, address, b->config.connections_per_address)) {
        close(fd);
        return;
    }
    struct conn *c = mem_zalloc(sizeof *c);
    if (!c || uv_poll_init(b->config.loop, &c->poll, fd) != 0) {
        mem_free(c);
        close(fd);
        peer_uncount(&b->addresses, address);
        return;
    }
    c->address = address;
    c->poll.data = c;
    c->api = b;
    c->fd = fd;
    c->parser.body_max = b->config.max_job_bytes;
    link_append(&b->conns, &c->all);
    link_init(&c->dirty);
    link_init(&c->late);
    link_init(&c->uneasy);
    link_init(&c->part.link);
    bs_account_open(c);
    b->handles++;
    b->conns_open++;
    b->conns_total++;
    tube_use(c, b->default_tube);
    CHECK(tube_watch(c, b->default_tube)); /* the first needs no memory */
    settle(c);
}
