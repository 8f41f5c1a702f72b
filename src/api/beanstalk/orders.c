/* SPDX-License-Identifier: Apache-2.0 */
/* Commands under way, and their replies. */
#include "api/beanstalk/impl.h"
#include "base/check.h"
#include "base/mem.h"

#define SPARE_MAX 1024
#define SPARE_BYTES ((size_t)4 << 10) /* a larger buffer is not kept */
#define NUMBER_BYTES 20

/* ---- memory ---- */

struct order *order_new(struct conn *c)
{
    struct beanstalk *b = c->api;
    if (!bs_account_order(c)) /* this may close other connections, whose orders become available */
        return NULL;
    struct order *k = b->spare;
    if (k) {
        struct buf kept = k->out;
        b->spare = k->next;
        b->spare_count--;
        *k = (struct order){.out = kept};
        buf_clear(&k->out);
    } else {
        k = mem_zalloc(sizeof *k);
        if (!k)
            return NULL;
    }
    k->conn = c;
    k->api = b;
    *(c->last ? &c->last->next : &c->first) = k;
    c->last = k;
    c->count++;
    b->net.under_way++;
    return k;
}

void order_free(struct order *k)
{
    struct beanstalk *b = k->api;
    if (k->tube)
        tube_unref(b, k->tube);
    if (k->held.tube)
        tube_unref(b, k->held.tube);
    mem_free(k->listing);
    bs_account_order_free(k);
    b->net.under_way--;
    if (b->spare_count >= SPARE_MAX) {
        buf_done(&k->out);
        mem_free(k);
        return;
    }
    if (k->out.cap > SPARE_BYTES)
        buf_done(&k->out);
    k->next = b->spare;
    b->spare = k;
    b->spare_count++;
}

void order_pool_free(struct beanstalk *b)
{
    while (b->spare) {
        struct order *k = b->spare;
        b->spare = k->next;
        buf_done(&k->out);
        mem_free(k);
    }
}

void order_barrier(struct order *k)
{
    k->barrier = true;
    k->conn->barrier = k;
}

struct span order_bytes(const struct order *k)
{
    return k->fixed.len ? k->fixed : buf_span(&k->out);
}

size_t order_left(const struct order *k)
{
    return order_bytes(k).len - k->sent;
}

/* ---- answers ---- */

static void answered(struct order *k)
{
    struct conn *c = k->conn;
    CHECK(!k->ready);
    if (!c) {
        struct beanstalk *b = k->api;
        order_free(k);
        if (b->net.closing)
            net_wake(&b->net);
        return;
    }
    k->ready = true;
    bs_account_reply(k);
    c->net.out_bytes += order_left(k);
    if (c->barrier == k)
        c->barrier = NULL;
    net_conn_schedule(&c->net);
}

void bs_answer_fixed(struct order *k, struct span text)
{
    k->fixed = text;
    answered(k);
}

void bs_answer_out(struct order *k)
{
    answered(k);
}

/* Writes the digits of n to the end of `out`; returns where they begin. */
static char *digits(uint64_t n, char out[NUMBER_BYTES])
{
    char *at = out + NUMBER_BYTES;
    do {
        *--at = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    return at;
}

static void put_number(struct buf *b, uint64_t n)
{
    char text[NUMBER_BYTES];
    char *at = digits(n, text);
    buf_put_bytes(b, at, (size_t)(text + NUMBER_BYTES - at));
}

/* Reserves `more` bytes in `out` in place of its contents. false: out of memory, and this was
 * answered. */
static bool out_begin(struct order *k, size_t more)
{
    buf_clear(&k->out);
    if (bs_account_room(k, BUDGET_REPLIES, more) && buf_reserve(&k->out, more) == 0)
        return true;
    ANSWER(k, "OUT_OF_MEMORY");
    return false;
}

void bs_answer_number(struct order *k, struct span word, uint64_t n)
{
    if (!out_begin(k, word.len + NUMBER_BYTES + 3))
        return;
    buf_put_bytes(&k->out, word.at, word.len);
    buf_put_u8(&k->out, ' ');
    put_number(&k->out, n);
    buf_put_bytes(&k->out, "\r\n", 2);
    answered(k);
}

bool bs_answer_job(struct order *k, struct span word, uint64_t id, struct span body)
{
    if (!out_begin(k, word.len + 2 * NUMBER_BYTES + 6 + body.len))
        return false;
    buf_put_bytes(&k->out, word.at, word.len);
    buf_put_u8(&k->out, ' ');
    put_number(&k->out, id);
    buf_put_u8(&k->out, ' ');
    put_number(&k->out, body.len);
    buf_put_bytes(&k->out, "\r\n", 2);
    buf_put_bytes(&k->out, body.at, body.len);
    buf_put_bytes(&k->out, "\r\n", 2);
    answered(k);
    return true;
}

void bs_answer_data(struct order *k)
{
    struct buf data = k->out;
    char head[NUMBER_BYTES + 8];
    int len = snprintf(head, sizeof head, "OK %zu\r\n", data.len);
    buf_init(&k->out);
    if (buf_reserve(&k->out, (size_t)len + data.len + 2) == 0) {
        buf_put_bytes(&k->out, head, (size_t)len);
        buf_put_bytes(&k->out, data.data, data.len);
        buf_put_bytes(&k->out, "\r\n", 2);
        buf_done(&data);
        answered(k);
        return;
    }
    buf_done(&data);
    ANSWER(k, "OUT_OF_MEMORY");
}

void bs_answer_refusal(struct order *k, const struct reply *r)
{
    switch ((int)r->outcome) {
    case OUT_QUEUE_FULL:
    case OUT_SERVER_FULL:
    case OUT_QUEUES_FULL:
    case OUT_DISK_FULL:
        ANSWER(k, "OUT_OF_MEMORY");
        return;
    case OUT_REFUSED_NEW:
        ANSWER(k, "DRAINING");
        return;
    case OUT_TOO_BIG:
        ANSWER(k, "JOB_TOO_BIG");
        return;
    case OUT_NOT_FOUND:
    case OUT_NO_QUEUE:
    case OUT_LEASE_LOST:
    case OUT_GONE:
    case OUT_CANCELLED:
    case OUT_ILLEGAL:
    case OUT_DUPLICATE:
        ANSWER(k, "NOT_FOUND");
        return;
    default:
        log_event(k->api->net.config.log, LOG_WARN, "beanstalk_internal_error",
                  LOG_TEXT("command", bs_verb_name(k->verb)),
                  LOG_TEXT("outcome", outcome_name(r->outcome)),
                  LOG_TEXT("why", r->note ? r->note : ""));
        ANSWER(k, "INTERNAL_ERROR");
    }
}

void order_submit(struct order *k, const struct op *op, broker_reply_fn fn)
{
    int err = broker_submit(k->api->broker, op, 1, fn, k);
    if (err == -ERR_CLOSED)
        ANSWER(k, "INTERNAL_ERROR");
    else if (err)
        ANSWER(k, "OUT_OF_MEMORY");
}

void order_get_tube(struct order *k, struct span tube, broker_reply_fn fn)
{
    struct op op = {.kind = OP_QUEUE_GET};
    k->tube = tube_get(k->api, tube);
    if (!k->tube) {
        ANSWER(k, "OUT_OF_MEMORY");
        return;
    }
    tube_ref(k->tube);
    op.queue.name = tube_name(k->tube);
    order_barrier(k);
    order_submit(k, &op, fn);
}
