/* SPDX-License-Identifier: Apache-2.0 */
/* What beanstalk connections hold, told to the memory budget that they share with HTTP.
 *
 * A connection is charged for itself and for the input it keeps, an order for itself and for the
 * body or the reply in its buffer. An order whose connection is gone keeps its charge in the
 * account of the API until its op is answered. A body or a reply that does not fit is answered
 * OUT_OF_MEMORY; small replies always fit. */
#include "api/beanstalk/impl.h"

static uint64_t now_ms(const struct beanstalk *b)
{
    return uv_now(b->config.loop);
}

/* ---- connections ---- */

void bs_account_open(struct conn *c)
{
    struct beanstalk *b = c->api;
    budget_open(&c->account, b->config.budget, conn_shed, c, now_ms(b));
    budget_add(&c->account, BUDGET_CONNECTIONS, sizeof *c);
}

void bs_account_close(struct conn *c)
{
    bs_account_input_freed(c);
    budget_give(&c->account, BUDGET_CONNECTIONS, sizeof *c);
    budget_close(&c->account);
}

void bs_account_moved(struct conn *c, size_t bytes)
{
    budget_progress(&c->account, bytes, now_ms(c->api));
}

bool bs_account_input(struct conn *c, size_t cap)
{
    if (cap <= c->in_charged)
        return true;
    if (!budget_take(&c->account, BUDGET_BODIES, cap - c->in_charged, now_ms(c->api)))
        return false;
    c->in_charged = cap;
    return true;
}

void bs_account_input_freed(struct conn *c)
{
    budget_give(&c->account, BUDGET_BODIES, c->in_charged);
    c->in_charged = 0;
}

/* ---- orders ---- */

static struct budget_account *account_of(const struct order *k)
{
    return k->conn ? &k->conn->account : &k->api->loose;
}

bool bs_account_order(struct conn *c)
{
    return budget_take(&c->account, BUDGET_CONNECTIONS, sizeof(struct order), now_ms(c->api));
}

bool bs_account_room(struct order *k, enum budget_kind kind, size_t bytes)
{
    struct budget_account *a = account_of(k);
    budget_give(a, k->charged_kind, k->charged);
    k->charged = 0;
    k->charged_kind = kind;
    if (!budget_take(a, kind, bytes, now_ms(k->api))) {
        if (kind == BUDGET_BODIES || a->held + bytes > BUDGET_SMALL_BYTES)
            return false;
        budget_add(a, kind, bytes);
    }
    k->charged = bytes;
    return true;
}

void bs_account_reply(struct order *k)
{
    struct budget_account *a = account_of(k);
    budget_give(a, k->charged_kind, k->charged);
    k->charged = k->fixed.len ? 0 : k->out.len;
    k->charged_kind = BUDGET_REPLIES;
    budget_add(a, BUDGET_REPLIES, k->charged);
}

void bs_account_loosen(struct order *k)
{
    budget_move(&k->conn->account, &k->api->loose, sizeof *k + k->charged);
}

void bs_account_order_free(struct order *k)
{
    struct budget_account *a = account_of(k);
    budget_give(a, k->charged_kind, k->charged);
    budget_give(a, BUDGET_CONNECTIONS, sizeof *k);
    k->charged = 0;
}
