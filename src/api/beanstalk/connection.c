/* SPDX-License-Identifier: Apache-2.0 */
/* One client: reading its commands, sending its replies, and closing its connection.
 *
 * The server does not read from a client that does not read its replies, and closes the
 * connection after a while.
 *
 * The end of the input means that the client sends no more commands. It still gets its replies,
 * and a reserve that waits is answered with TIMED_OUT, as in beanstalkd. */
#include "api/beanstalk/impl.h"
#include "base/check.h"

bool conn_at_rest(const struct net_conn *n)
{
    return !conn_of(n)->first && !n->blocked;
}

/* ---- beginning and end ---- */

void conn_opened(struct net_conn *n)
{
    struct conn *c = conn_of(n);
    struct beanstalk *b = LINK_OWNER(n->server, struct beanstalk, net);
    c->api = b;
    c->parser.body_max = b->config.max_job_bytes;
    link_init(&c->uneasy);
    tube_use(c, b->default_tube);
    CHECK(tube_watch(c, b->default_tube)); /* the first needs no memory */
}

/* Answered orders are freed; the others are kept until their operations are answered. */
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

void conn_closed(struct net_conn *n)
{
    struct conn *c = conn_of(n);
    struct beanstalk *b = c->api;
    reserve_cancel(c);
    b->producers -= c->producer;
    b->workers -= c->worker;
    chain_loosen(c);
    held_release_all(c);
    tubes_leave(c);
    bs_account_closed(c);
}

void conn_input_ended(struct net_conn *n)
{
    reserve_stop_waiting(conn_of(n));
    net_conn_schedule(n);
}

/* The input that it has sent must still be read. */
void conn_hung_up(struct net_conn *n)
{
    reserve_stop_waiting(conn_of(n));
}

/* ---- input ---- */

static bool intake_open(const struct conn *c)
{
    return !c->net.closed && !c->net.no_more && !c->barrier && !c->claim &&
           c->count < BS_ORDERS_MAX && !net_conn_full(&c->net);
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
    if (!k) { /* without memory for a reply, nothing can be answered */
        net_conn_close(&c->net);
        return;
    }
    k->verb = cmd->verb;
    if (r == BS_COMMAND) {
        bs_command_run(c, k, cmd);
        return;
    }
    c->api->commands[BS_PUT] += r == BS_EXPECTED_CRLF || r == BS_JOB_TOO_BIG || r == BS_NO_ROOM;
    if (r == BS_EXPECTED_CRLF)
        conn_producer(c);
    if (first && r == BS_BAD_FORMAT)
        guard_bad_first(c);
    c->net.no_more = c->net.no_more || c->only_line;
    refuse(k, r);
}

static size_t commands_take(struct conn *c, struct span in)
{
    struct bs_command cmd;
    size_t done = 0;
    while (intake_open(c) && done < in.len) {
        size_t used;
        enum bs_result r = bs_parse(&c->parser, span_of(in.at + done, in.len - done), &used, &cmd);
        if (r == BS_COMMAND && !reserve_lets(c, &cmd))
            break; /* reading continues when they are answered */
        done += used;
        if (r != BS_MORE)
            take(c, r, &cmd);
        else if (used == 0)
            break;
    }
    return done;
}

size_t conn_input(struct net_conn *n, struct span in)
{
    struct conn *c = conn_of(n);
    if (!c->begun && !guard_first_line(c, in))
        return 0;
    size_t done = commands_take(c, in);
    n->in_need = c->parser.need;
    reserve_run(c);
    return n->no_more ? in.len : done;
}

/* While commands wait, more may arrive, up to a limit. */
bool conn_wants_input(const struct net_conn *n)
{
    const struct conn *c = conn_of(n);
    return intake_open(c) || ((c->barrier || c->claim) && n->in.len < NET_READ_BYTES);
}

/* ---- memory ---- */

/* The put that is being read is answered with OUT_OF_MEMORY after its whole body has arrived. */
static void put_give_up(struct conn *c, size_t have)
{
    bs_parser_skip(&c->parser, have);
    c->net.in_need = c->parser.need;
    net_conn_input_free(&c->net);
}

void conn_no_room(struct net_conn *n, size_t len)
{
    struct conn *c = conn_of(n);
    if (c->parser.need > len)
        put_give_up(c, len);
    else
        net_conn_close(n);
}

bool conn_may_shed(const struct net_conn *n)
{
    const struct conn *c = conn_of(n);
    return n->blocked || c->claim || (n->in.len > 0 && intake_open(c));
}

/* A reserve has no reply for this case, so the connection is closed and its jobs are released. */
static enum budget_shed shed_reason(const struct conn *c)
{
    if (c->net.blocked)
        return BUDGET_SHED_REPLY;
    return c->claim ? BUDGET_SHED_WAIT : BUDGET_SHED_BODY;
}

enum budget_shed conn_shed(void *net_conn)
{
    struct net_conn *n = net_conn;
    struct conn *c = conn_of(n);
    enum budget_shed reason = shed_reason(c);
    if (reason != BUDGET_SHED_BODY || n->taking || c->parser.need <= n->in.len)
        net_conn_close(n);
    else
        put_give_up(c, n->in.len);
    return reason;
}

/* ---- what it waits for ---- */

void conn_settle(struct net_conn *n)
{
    struct conn *c = conn_of(n);
    guard_part(c, intake_open(c) && !n->eof ? bs_part(&c->parser, n->in.len) : BS_PART_NONE);
}

/* ---- output ---- */

void conn_gather(struct net_conn *n, struct net_pieces *p)
{
    for (struct order *k = conn_of(n)->first; k && k->ready && p->count < NET_WRITE_PIECES;
         k = k->next) {
        struct span bytes = order_bytes(k);
        net_piece_add(p, bytes.at + k->sent, bytes.len - k->sent);
    }
}

void conn_sent(struct net_conn *n, size_t len)
{
    struct conn *c = conn_of(n);
    n->out_bytes -= len;
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

bool conn_flushed(struct net_conn *n)
{
    struct conn *c = conn_of(n);
    if (intake_open(c))
        net_conn_resume(n);
    if (n->closed)
        return false;
    if (c->count == 0)
        bs_account_rest(c);
    bool over = n->no_more || n->eof || n->server->draining;
    return over && conn_at_rest(n);
}
