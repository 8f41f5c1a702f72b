/* SPDX-License-Identifier: Apache-2.0 */
/* One client: its time limits, and the end of its connection.
 *
 * Whether the client has closed the connection: a reset or an error shows it. The end of the
 * input does not: the client may have shut down its sending side and still wait for the answer.
 * On TCP only sending a byte distinguishes the two (a closed socket replies with a reset). So a
 * request that is still under way is probed once with an interim answer, which every HTTP/1.1
 * client skips, and a stream of events with an empty comment; for a file, the next write shows
 * it soon. HTTP/1.0 has no interim answers; such a client is assumed to wait. */
#include "http/server_impl.h"

static const struct span PROBE_STREAM = SPAN_LITERAL(":\n\n");

static const struct connection *const_of(const struct net_conn *n)
{
    return LINK_OWNER(n, const struct connection, net);
}

bool connection_at_rest(const struct net_conn *n)
{
    const struct connection *c = const_of(n);
    return !c->first && n->in.len == 0 && c->last_words.len == 0 && !n->lingering;
}

void connection_refused(struct net_conn *n)
{
    connection_of(n)->last_words = answer_crowded;
    net_conn_schedule(n);
}

/* ---- the end --------------------------------------------------------------------------------- */

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

void connection_closed(struct net_conn *n)
{
    chain_loosen(connection_of(n));
}

void connection_late(struct net_conn *n, unsigned kind)
{
    struct connection *c = connection_of(n);
    if (kind == WAIT_BODY) {
        intake_fault(c, 408, "The body of the request did not arrive in time.");
    } else if (kind == WAIT_HEAD && n->in.len > 0) {
        intake_discard(c);
        intake_fault(c, 408, "The head of the request did not arrive in time.");
    } else {
        net_conn_close(n);
    }
}

void connection_input_ended(struct net_conn *n)
{
    struct connection *c = connection_of(n);
    intake_abandon(c);
    n->no_more = true;
    if (!c->first && c->last_words.len == 0)
        net_conn_close(n);
}

/* ---- for the budget -------------------------------------------------------------------------- */

/* The client has to act next (it has sent a part of a request, or does not read its replies), or
 * requests wait for earlier ones, or the first one waits for a job. A stream of rare events can
 * also be opened again. */
bool connection_may_shed(const struct net_conn *n)
{
    const struct connection *c = const_of(n);
    const struct http_exchange *x = c->first;
    bool part = c->reading || n->in.len > 0;
    bool streams = x && x->state == EXCHANGE_STREAM && !x->sized;
    return n->blocked || streams || exchange_parked(x) || (part && !n->no_more);
}

/* Frees the memory at once: it must not be held until the end of the loop iteration. */
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
    c->body_bytes = c->net.out_bytes = 0;
    intake_give_up(c);
}

/* A request that is being read, or that waits for a job, can be refused. Nothing can be sent to
 * a client that does not read, nor on a connection whose requests are just being taken. */
enum budget_shed connection_shed(void *net_conn)
{
    struct net_conn *n = net_conn;
    struct connection *c = connection_of(n);
    const struct http_exchange *x = c->first;
    bool streams = x && x->state == EXCHANGE_STREAM, parked = exchange_parked(x);
    if (n->blocked || n->taking || streams) {
        net_conn_close(n);
        return streams ? BUDGET_SHED_STREAM : BUDGET_SHED_REPLY;
    }
    intake_discard(c);
    if (parked)
        parked_give_up(c);
    else
        intake_fault(c, 503,
                     "The server needs the memory that this request holds; try again soon.");
    net_conn_settle(n);
    return parked ? BUDGET_SHED_WAIT : BUDGET_SHED_BODY;
}

/* ---- what it waits for ----------------------------------------------------------------------- */

/* The client is not late while the server does not read, or while it waits for 100 Continue. */
static void reads_settle(struct connection *c)
{
    struct net_conn *n = &c->net;
    bool part = c->reading || n->in.len > 0;
    bool our_turn = c->reading ? c->reading->expects : c->first && !part;
    if (n->eof || our_turn || !intake_open(c))
        net_wait_stop(n);
    else if (c->reading)
        net_wait_ensure(n, WAIT_BODY);
    else
        net_wait_ensure(n, part || !c->asked ? WAIT_HEAD : WAIT_IDLE);
}

static void probe(struct connection *c)
{
    struct http_exchange *x = c->first;
    if (c->probed || !x || c->net.blocked || !(c->net.eof || c->net.hung_up))
        return;
    if (x->state == EXCHANGE_OPEN && x->minor > 0) {
        c->interim = answer_continue;
    } else if (x->state == EXCHANGE_STREAM && !x->sized &&
               buf_append_span(&x->out, PROBE_STREAM) == 0) {
        account_out(x);
        c->net.out_bytes += PROBE_STREAM.len;
    } else {
        return;
    }
    c->probed = true;
    net_conn_schedule(&c->net);
}

void connection_settle(struct net_conn *n)
{
    struct connection *c = connection_of(n);
    reads_settle(c);
    probe(c);
}
