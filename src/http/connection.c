/* SPDX-License-Identifier: Apache-2.0 */
/* One client's socket: when to read, how long to wait, and how it ends.
 *
 * Has the client gone? A reset or an error says so. An end of input does not: the client may have
 * shut down its sending side and still wait for the answer. Nothing but sending a byte tells the
 * two apart on TCP (a closed socket replies with a reset), so a request that is still under way is
 * probed once with an interim answer, which every HTTP/1.1 client skips, a stream of events with an
 * empty comment; what is written to a file's client tells soon enough. HTTP/1.0 knows no interim
 * answers; such a client gets the benefit of the doubt. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "http/address.h"
#include "http/server_impl.h"

static const struct span PROBE_STREAM = SPAN_LITERAL(":\n\n");

bool connection_at_rest(const struct connection *c)
{
    return !c->first && c->in.len == 0 && c->last_words.len == 0 && !c->lingering;
}

void connection_dirty(struct connection *c)
{
    if (c->closed || !link_alone(&c->dirty))
        return;
    link_append(&c->server->dirty, &c->dirty);
    server_rouse(c->server);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void closed_cb(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    struct http_server *s = c->server;
    buf_done(&c->in);
    mem_free(c);
    server_handle_closed(s);
}

static void chain_loosen(struct connection *c)
{
    struct http_exchange *x = c->first;
    while (x) {
        struct http_exchange *next = x->next;
        if (x == c->reading)
            exchange_free(x);
        else
            exchange_loosen(x);
        x = next;
    }
    c->first = c->last = c->reading = NULL;
    c->count = 0;
}

void connection_close(struct connection *c)
{
    struct http_server *s = c->server;
    if (c->closed)
        return;
    c->closed = true;
    link_remove(&c->all);
    link_remove(&c->dirty);
    wait_stop(&c->reads);
    wait_stop(&c->writes);
    s->figures.connections--;
    s->lingering_refused -= c->refused;
    peer_uncount(&s->addresses, c->address);
    chain_loosen(c);
    if (!c->taking) /* else requests are just being read from it */
        connection_input_free(c);
    account_close(c);
    uv_close((uv_handle_t *)&c->poll, closed_cb);
    close(c->fd);
    server_rouse(s);
}

/* Closing with bytes unread would reset the connection, and the client might lose our last answer
 * before it has read it. */
void connection_finish(struct connection *c)
{
    if (!c->linger || c->eof || shutdown(c->fd, SHUT_WR) != 0) {
        connection_close(c);
        return;
    }
    c->lingering = true;
    connection_input_free(c);
    wait_start(c->server, &c->writes, WAIT_LINGER);
}

void connection_late(struct connection *c, enum wait_kind kind)
{
    if (kind == WAIT_BODY) {
        intake_fault(c, 408, "The body of the request did not come in time.");
    } else if (kind == WAIT_HEAD && c->in.len > 0) {
        connection_input_free(c);
        c->seen = 0;
        intake_fault(c, 408, "The head of the request did not come in time.");
    } else {
        connection_close(c);
        return;
    }
    connection_settle(c);
}

void connection_input_free(struct connection *c)
{
    buf_done(&c->in);
    account_input_freed(c);
}

/* At once: what one turn sheds must not stay in memory until its end. */
static void parked_give_up(struct connection *c)
{
    struct http_exchange **link = &c->first, *x;
    while ((x = *link)) {
        if (!exchange_parked(x)) {
            link = &x->next;
            continue;
        }
        *link = x->next;
        exchange_give_up(x);
    }
    chain_loosen(c);
    c->body_bytes = c->out_bytes = 0;
    intake_no_room(c);
}

/* A request that is being read, or that waits for a job, can be refused. A client that does not
 * read cannot be told anything; nor can a connection whose requests are just being taken. */
enum budget_shed connection_shed(void *ctx)
{
    struct connection *c = ctx;
    const struct http_exchange *x = c->first;
    bool streams = x && x->state == EXCHANGE_STREAM, parked = exchange_parked(x);
    if (c->blocked || c->taking || streams) {
        connection_close(c);
        return streams ? BUDGET_SHED_STREAM : BUDGET_SHED_REPLY;
    }
    connection_input_free(c);
    c->seen = 0;
    c->stalled = false;
    if (parked) {
        parked_give_up(c);
        connection_settle(c);
        return BUDGET_SHED_WAIT;
    }
    intake_fault(c, 503, "The server needs the memory that this request holds; try again soon.");
    connection_settle(c);
    return BUDGET_SHED_BODY;
}

/* ---- what it waits for ----------------------------------------------------------------------- */

static void wait_ensure(struct connection *c, struct wait *w, enum wait_kind kind)
{
    if (!wait_is(w, kind))
        wait_start(c->server, w, kind);
}

/* While we do not want to read, or while it waits for our word, the client cannot be late. */
static void reads_settle(struct connection *c)
{
    bool part = c->reading || c->in.len > 0;
    bool our_turn = c->reading ? c->reading->expects : c->first && !part;
    if (c->eof || our_turn || !intake_open(c))
        wait_stop(&c->reads);
    else if (c->reading)
        wait_ensure(c, &c->reads, WAIT_BODY);
    else
        wait_ensure(c, &c->reads, part || !c->asked ? WAIT_HEAD : WAIT_IDLE);
}

static void probe(struct connection *c)
{
    struct http_exchange *x = c->first;
    if (c->probed || !x || c->blocked || !(c->eof || c->hung_up))
        return;
    if (x->state == EXCHANGE_OPEN && x->minor > 0) {
        c->interim = answer_continue;
    } else if (x->state == EXCHANGE_STREAM && !x->sized &&
               buf_append_span(&x->out, PROBE_STREAM) == 0) {
        account_out(x);
        c->out_bytes += PROBE_STREAM.len;
    } else {
        return;
    }
    c->probed = true;
    connection_dirty(c);
}

/* Something must always be polled for, or an error would not be reported. */
static int events_wanted(const struct connection *c)
{
    int events = c->blocked ? UV_WRITABLE : 0;
    if (!c->eof && (c->lingering || c->no_more || intake_open(c)))
        events |= UV_READABLE;
    else if (!c->eof && !c->hung_up)
        events |= UV_DISCONNECT;
    return events || c->urgent ? events : UV_PRIORITIZED;
}

static void poll_cb(uv_poll_t *handle, int status, int events);

void connection_settle(struct connection *c)
{
    if (c->closed)
        return;
    reads_settle(c);
    account_settle(c);
    probe(c);
    int events = events_wanted(c);
    if (events == c->events)
        return;
    c->events = events;
    int r = events ? uv_poll_start(&c->poll, events, poll_cb) : uv_poll_stop(&c->poll);
    if (r != 0)
        connection_close(c);
}

/* ---- input ----------------------------------------------------------------------------------- */

static void keep(struct connection *c, struct span rest)
{
    if (rest.len == 0 || c->closed)
        return;
    if (!(account_input(c, rest.len) && buf_append_span(&c->in, rest) == 0))
        intake_no_room(c);
}

static void front_drop(struct connection *c, size_t len)
{
    struct buf *b = &c->in;
    if (len >= b->len) {
        connection_input_free(c);
        return;
    }
    memmove(b->data, b->data + len, b->len - len);
    b->len -= len;
}

void connection_take(struct connection *c, struct span fresh)
{
    if (c->in.len == 0) {
        size_t used = intake(c, fresh);
        keep(c, span_of(fresh.at + used, fresh.len - used));
        return;
    }
    keep(c, fresh);
    if (c->no_more)
        return;
    c->taking = true;
    size_t used = intake(c, buf_span(&c->in));
    c->taking = false;
    if (used > 0 && !c->closed)
        front_drop(c, used);
}

static void end_of_input(struct connection *c)
{
    c->eof = true;
    if (c->lingering) {
        connection_close(c);
        return;
    }
    intake_abandon(c);
    c->no_more = true;
    if (!c->first && c->last_words.len == 0)
        connection_close(c);
}

static void readable(struct connection *c)
{
    struct http_server *s = c->server;
    ssize_t n = recv(c->fd, s->read_buf, READ_BYTES, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            connection_close(c);
        return;
    }
    if (n == 0) {
        end_of_input(c);
        return;
    }
    s->figures.bytes_in += (size_t)n;
    account_moved(c, (size_t)n);
    if (!c->no_more && !c->lingering)
        connection_take(c, span_of(s->read_buf, (size_t)n));
}

/* Polled for only when nothing else is: a hang-up shows as this event, and so does urgent data. */
static void hang_up_or_urgent(struct connection *c)
{
    struct pollfd p = {.fd = c->fd};
    if (poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR | POLLNVAL))
        connection_close(c);
    else
        c->urgent = true;
}

static void poll_cb(uv_poll_t *handle, int status, int events)
{
    struct connection *c = handle->data;
    if (status < 0) {
        connection_close(c);
        return;
    }
    if (events & UV_DISCONNECT)
        c->hung_up = true;
    if (events & UV_PRIORITIZED)
        hang_up_or_urgent(c);
    if (!c->closed && events & UV_READABLE)
        readable(c);
    if (events & UV_WRITABLE)
        connection_dirty(c);
    connection_settle(c);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void refuse_crowded(struct connection *c)
{
    c->refused = c->no_more = c->linger = true;
    c->last_words = answer_crowded;
    c->server->lingering_refused++;
    connection_dirty(c);
}

void connection_open(struct http_server *s, int fd, struct span peer, uint64_t address,
                     bool refused)
{
    struct connection *c = mem_zalloc(sizeof *c);
    if (!c || uv_poll_init(s->config.loop, &c->poll, fd) != 0) {
        mem_free(c);
        close(fd);
        peer_uncount(&s->addresses, address);
        s->figures.refused++;
        return;
    }
    c->poll.data = c;
    c->server = s;
    c->fd = fd;
    c->address = address;
    c->peer_len = (uint8_t)(peer.len < PEER_BYTES ? peer.len : PEER_BYTES);
    memcpy(c->peer, peer.at, c->peer_len);
    link_append(&s->connections, &c->all);
    link_init(&c->dirty);
    link_init(&c->reads.link);
    link_init(&c->writes.link);
    account_open(c);
    s->handles++;
    s->figures.connections++;
    server_tick_start(s);
    if (refused)
        refuse_crowded(c);
    connection_settle(c);
}
