/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a connection: what is ready of it, with one write per loop iteration unless there
 * are more pieces than one write takes; and the end of the connection after its last reply. */
#include "net/impl.h"

/* ---- the end ---- */

/* Closing with bytes unread would reset the connection, and the client might lose the last reply
 * before it has read it. So the client is told that nothing more comes, and may go on sending for
 * a while; what it sends is discarded. */
static void shutdown_try(struct net_conn *c)
{
    int r = c->stream.kind->shutdown(&c->stream);
    if (r != 0 && r != NET_AGAIN) {
        net_conn_close(c);
        return;
    }
    c->blocked = r == NET_AGAIN;
}

static void finish(struct net_conn *c)
{
    if (!c->linger || c->eof) {
        net_conn_close(c);
        return;
    }
    c->lingering = true;
    net_conn_input_free(c);
    net_wait_begin(c->server, &c->writes, NET_WAIT_LINGER);
    shutdown_try(c);
}

/* ---- writing ---- */

/* A client that takes something has as much time again for the rest. */
static void blocked(struct net_conn *c, bool progress)
{
    c->blocked = true;
    if (progress || !wait_is(&c->writes, NET_WAIT_WRITE))
        net_wait_begin(c->server, &c->writes, NET_WAIT_WRITE);
}

/* false: nothing more can be written now. */
static bool pieces_write(struct net_conn *c, const struct net_pieces *p)
{
    ssize_t n = c->stream.kind->write(&c->stream, p->iov, p->count);
    if (n < 0 && n != NET_AGAIN) {
        net_conn_close(c);
        return false;
    }
    size_t taken = n > 0 ? (size_t)n : 0;
    bool whole = taken == p->bytes;
    if (!whole)
        blocked(c, taken > 0);
    if (taken > 0) {
        c->server->figures.bytes_out += taken;
        net_conn_moved(c, taken);
        c->server->protocol->sent(c, taken);
    }
    return whole && !c->closed;
}

static void ready_write(struct net_conn *c)
{
    struct net_pieces *p = &c->server->pieces;
    c->blocked = false;
    c->server->protocol->sent(c, 0);
    do {
        p->count = p->bytes = 0;
        c->server->protocol->gather(c, p);
        if (p->count == 0 || c->closed) {
            wait_end(&c->writes);
            return;
        }
    } while (pieces_write(c, p));
}

void net_conn_flush(struct net_conn *c)
{
    if (c->unread && net_conn_reads(c))
        net_conn_read(c);
    if (c->closed)
        return;
    if (c->lingering) {
        if (c->blocked)
            shutdown_try(c);
    } else {
        ready_write(c);
        if (!c->closed && c->server->protocol->flushed(c) && !c->closed)
            finish(c);
    }
    net_conn_settle(c);
}
