/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the memory of exchanges to the memory budget; src/net does the same for connections.
 *
 * Each exchange knows how much was charged for it, and to which kind; the functions here compare
 * that with its buffers and charge or release the difference. An exchange that lost its
 * connection stays charged to the account of the server, which is never shed, until its handler
 * has answered.
 *
 * Bodies and replies that do not fit are refused. The only exception is a short reply to a
 * request that may have changed something, because its work is done. */
#include "base/check.h"
#include "http/server_impl.h"

#define SHORT_REPLY_BYTES ((uint64_t)64 << 10)

static struct budget_account *account_of(const struct http_exchange *x)
{
    return x->conn ? &x->conn->net.account : &x->server->net.loose;
}

bool account_exchange(struct connection *c, size_t bytes)
{
    return budget_take(&c->net.account, BUDGET_CONNECTIONS, bytes, net_now(c->net.server));
}

void account_exchange_created(struct http_exchange *x, size_t bytes)
{
    x->charged.block = bytes;
    x->charged.out_kind = BUDGET_REPLIES;
}

bool account_body(struct http_exchange *x, size_t cap)
{
    if (cap <= x->charged.body)
        return true;
    if (!budget_take(account_of(x), BUDGET_BODIES, cap - x->charged.body, net_now(&x->server->net)))
        return false;
    x->charged.body = cap;
    return true;
}

void account_body_freed(struct http_exchange *x)
{
    budget_give(account_of(x), BUDGET_BODIES, x->charged.body);
    x->charged.body = 0;
}

static size_t out_bytes(const struct http_exchange *x)
{
    return x->out.len + x->fields.len + x->extra_bytes;
}

bool account_reply(struct http_exchange *x)
{
    struct budget_account *a = account_of(x);
    size_t want = out_bytes(x);
    if (want <= x->charged.out)
        return true;
    size_t more = want - x->charged.out;
    if (!budget_take(a, x->charged.out_kind, more, net_now(&x->server->net))) {
        if (exchange_only_reads(x) || a->held + more > SHORT_REPLY_BYTES)
            return false;
        budget_add(a, x->charged.out_kind, more);
    }
    x->charged.out = want;
    return true;
}

void account_out(struct http_exchange *x)
{
    struct budget_account *a = account_of(x);
    size_t want = out_bytes(x);
    if (want > x->charged.out)
        budget_add(a, x->charged.out_kind, want - x->charged.out);
    else
        budget_give(a, x->charged.out_kind, x->charged.out - want);
    x->charged.out = want;
}

bool account_hold(struct http_exchange *x, size_t more)
{
    if (!budget_take(account_of(x), x->charged.out_kind, more, net_now(&x->server->net)))
        return false;
    x->charged.out += more;
    return true;
}

/* A file is read in pieces of limited size, and must not be interrupted. */
bool account_stream(struct http_exchange *x, size_t more)
{
    return account_hold(x, more) || (x->sized && exchange_waiting(x) == 0);
}

void account_is_stream(struct http_exchange *x)
{
    budget_give(account_of(x), x->charged.out_kind, x->charged.out);
    x->charged.out = 0;
    x->charged.out_kind = BUDGET_STREAMS;
}

static size_t charged_in_all(const struct http_exchange *x)
{
    return x->charged.block + x->charged.body + x->charged.out;
}

void account_loosen(struct http_exchange *x)
{
    budget_move(&x->conn->net.account, &x->server->net.loose, charged_in_all(x));
}

void account_free(struct http_exchange *x)
{
    struct budget_account *a = account_of(x);
    budget_give(a, BUDGET_CONNECTIONS, x->charged.block);
    budget_give(a, BUDGET_BODIES, x->charged.body);
    budget_give(a, x->charged.out_kind, x->charged.out);
}
