/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the memory of orders to the memory budget; src/net does the same for connections and
 * the input that they keep.
 *
 * A connection is charged for the largest number of orders that it had under way at the same
 * time since it was last idle. An order is charged as ORDER_BYTES, which include a short body or
 * reply in its buffer; a longer one is charged in addition. Therefore an ordinary command
 * changes no account. An order whose connection is closed is charged to the account of the API
 * until its operation is answered. A body or a reply that does not fit is answered with
 * OUT_OF_MEMORY. */
#include "api/beanstalk/impl.h"

#define SHORT_BYTES ((size_t)512)
#define ORDER_BYTES (sizeof(struct order) + SHORT_BYTES)
#define ORDERS_KEPT 4 /* orders that an idle connection stays charged for */

static struct budget_account *account_of(const struct order *k)
{
    return k->conn ? &k->conn->net.account : &k->api->net.loose;
}

bool bs_account_order(struct conn *c)
{
    if (c->count < c->orders_charged)
        return true;
    if (!budget_take(&c->net.account, BUDGET_CONNECTIONS, ORDER_BYTES, net_now(&c->api->net)))
        return false;
    c->orders_charged++;
    return true;
}

void bs_account_rest(struct conn *c)
{
    if (c->orders_charged <= ORDERS_KEPT)
        return;
    budget_give(&c->net.account, BUDGET_CONNECTIONS,
                (c->orders_charged - ORDERS_KEPT) * ORDER_BYTES);
    c->orders_charged = ORDERS_KEPT;
}

void bs_account_closed(struct conn *c)
{
    budget_give(&c->net.account, BUDGET_CONNECTIONS, c->orders_charged * ORDER_BYTES);
    c->orders_charged = 0;
}

/* A short body or reply is charged with its order. */
static size_t charge_of(size_t bytes)
{
    return bytes > SHORT_BYTES ? bytes : 0;
}

static void charge_give(struct order *k)
{
    if (k->charged)
        budget_give(account_of(k), k->charged_kind, k->charged);
    k->charged = 0;
}

bool bs_account_room(struct order *k, enum budget_kind kind, size_t bytes)
{
    size_t more = charge_of(bytes);
    charge_give(k);
    if (more && !budget_take(account_of(k), kind, more, net_now(&k->api->net)))
        return false;
    k->charged = more;
    k->charged_kind = kind;
    return true;
}

void bs_account_reply(struct order *k)
{
    size_t more = k->fixed.len ? 0 : charge_of(k->out.len);
    charge_give(k);
    if (more)
        budget_add(account_of(k), BUDGET_REPLIES, more);
    k->charged = more;
    k->charged_kind = BUDGET_REPLIES;
}

void bs_account_loosen(struct order *k)
{
    budget_move(&k->conn->net.account, &k->api->net.loose, ORDER_BYTES + k->charged);
    k->conn->orders_charged--;
}

void bs_account_order_free(struct order *k)
{
    charge_give(k);
    if (!k->conn)
        budget_give(&k->api->net.loose, BUDGET_CONNECTIONS, ORDER_BYTES);
}
