/* SPDX-License-Identifier: Apache-2.0 */
/* The API as a whole: beanstalk as a protocol of src/net, reserves of connections that hold
 * jobs, opening and closing. */
#include "api/beanstalk/beanstalk.h"

#include "api/beanstalk/impl.h"
#include "base/check.h"
#include "base/digest/random.h"
#include "base/mem.h"

static struct beanstalk *api_of(struct net_server *s)
{
    return LINK_OWNER(s, struct beanstalk, net);
}

/* ---- reserves with jobs in hand ---- */

/* Few connections wait while they hold jobs, so all of them are checked. */
static void deadline_cb(uv_timer_t *timer)
{
    struct beanstalk *b = timer->data;
    int64_t now = bs_now_ms(b), next = INT64_MAX;
    struct link *l = b->uneasy.next;
    while (l != &b->uneasy) {
        struct conn *c = LINK_OWNER(l, struct conn, uneasy);
        l = l->next;
        if (held_deadline_soon(c))
            reserve_deadline(c);
        else if (c->held_count > 0 && c->soonest_ms < next)
            next = c->soonest_ms;
    }
    if (next == INT64_MAX)
        return;
    int64_t wait = next - BS_SAFETY_MS - now;
    uv_timer_start(&b->deadline, deadline_cb, wait > 0 ? (uint64_t)wait : 1, 0);
}

void bs_uneasy(struct conn *c)
{
    struct beanstalk *b = c->api;
    int64_t wait = c->soonest_ms - BS_SAFETY_MS - bs_now_ms(b);
    uint64_t due = wait > 0 ? (uint64_t)wait : 0;
    link_append(&b->uneasy, &c->uneasy);
    if (!uv_is_active((uv_handle_t *)&b->deadline) || uv_timer_get_due_in(&b->deadline) > due)
        uv_timer_start(&b->deadline, deadline_cb, due, 0);
}

/* ---- the protocol ---- */

const struct net_schemes beanstalk_schemes = {"beanstalk://", "beanstalks://", "beanstalk+unix:"};

static void iteration(struct net_server *s)
{
    tubes_sweep(api_of(s));
}

static bool tick(struct net_server *s)
{
    struct beanstalk *b = api_of(s);
    tubes_sweep(b);
    return !link_alone(&b->emptied);
}

static void deadline_closed_cb(uv_handle_t *handle)
{
    struct beanstalk *b = handle->data;
    net_handle_closed(&b->net);
}

static void ending(struct net_server *s)
{
    uv_close((uv_handle_t *)&api_of(s)->deadline, deadline_closed_cb);
}

static void ended(struct net_server *s)
{
    struct beanstalk *b = api_of(s);
    tubes_done(b);
    order_pool_free(b);
    mem_free(b);
}

static const struct net_protocol beanstalk_protocol = {
    .conn_bytes = sizeof(struct conn),
    .schemes = &beanstalk_schemes,
    .alpn = "beanstalk",
    .input_kind = BUDGET_BODIES,
    .opened = conn_opened,
    .input = conn_input,
    .no_room = conn_no_room,
    .input_ended = conn_input_ended,
    .hung_up = conn_hung_up,
    .wants_input = conn_wants_input,
    .settle = conn_settle,
    .late = guard_late,
    .may_shed = conn_may_shed,
    .shed = conn_shed,
    .gather = conn_gather,
    .sent = conn_sent,
    .flushed = conn_flushed,
    .at_rest = conn_at_rest,
    .closed = conn_closed,
    .iteration = iteration,
    .tick = tick,
    .ending = ending,
    .ended = ended,
};

/* ---- beginning and end ---- */

static int run_id(char out[17])
{
    unsigned char bytes[8];
    int err = random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; !err && i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return err;
}

static void net_begin(struct beanstalk *b)
{
    net_server_init(&b->net, &b->config.net, &beanstalk_protocol);
    b->net.wait_ms[BS_WAIT_LINE] = b->config.line_ms;
    b->net.wait_ms[BS_WAIT_BODY] = b->config.body_ms;
    CHECK(uv_timer_init(b->config.net.loop, &b->deadline) == 0);
    b->deadline.data = b;
    b->net.handles++;
}

int beanstalk_new(const struct beanstalk_config *config, struct beanstalk **ret)
{
    struct beanstalk *b = mem_zalloc(sizeof *b);
    if (!b)
        return -ERR_NOMEM;
    b->config = *config;
    link_init(&b->uneasy);
    int err = tubes_init(b);
    if (!err)
        err = run_id(b->id);
    if (err) {
        tubes_done(b);
        mem_free(b);
        return err;
    }
    net_begin(b);
    *ret = b;
    return 0;
}

/* The first tick searches for tubes that an earlier run left behind. */
void beanstalk_serve(struct beanstalk *b, struct broker *broker)
{
    b->broker = broker;
    b->started_at = broker_now(broker).wall;
    net_tick_start(&b->net);
}

int beanstalk_listen(struct beanstalk *b, const char *address, struct err_note *note)
{
    return net_listen(&b->net, address, note);
}

const char *beanstalk_address(const struct beanstalk *b, size_t i)
{
    return net_address(&b->net, i);
}

void beanstalk_refuse_puts(struct beanstalk *b)
{
    b->refuses = true;
}

void beanstalk_drain(struct beanstalk *b, uint32_t limit_ms, void (*fn)(void *ctx), void *ctx)
{
    b->refuses = true;
    net_drain(&b->net, limit_ms, fn, ctx);
}

void beanstalk_close(struct beanstalk *b, void (*fn)(void *ctx), void *ctx)
{
    if (b)
        net_close(&b->net, fn, ctx);
    else
        fn(ctx);
}
