/* SPDX-License-Identifier: Apache-2.0 */
/* Reads whose reply has payloads. A store has the replies of a batch in memory at the same time, so
 * only some of these reads are outstanding and the others wait, first come, first served. A list
 * may have LIMIT_ANSWER_BYTES of payloads and weighs as many MiB; a single job weighs one. Claims
 * are not included: those of one iteration belong into one batch. The embedded store does not have
 * the payloads of all of them in memory (backend/local/reader.h). */
#include "base/mem.h"
#include "broker/broker_impl.h"
#include "core/limits.h"

#define WEIGHT_MAX 64 /* of the outstanding reads */
#define WEIGHT_LIST (LIMIT_ANSWER_BYTES >> 20)
#define WEIGHT_ONE 1

struct waiting_read {
    struct waiting_read *next;
    struct op op;
    broker_reply_fn fn;
    void *ctx;
};

static bool is_list(const struct op *op)
{
    switch ((int)op->kind) {
    case OP_PEEK:
        return op->peek.want_body;
    case OP_LIST:
        return op->list.want_body;
    case OP_PAGE:
        return op->page.want_body;
    case OP_KV_LIST:
        return op->kv_list.want_value;
    case OP_KV_GET:
        return op->kv_get.want_value && op->kv_get.count > 1;
    default:
        return op->kind == OP_SCHEDULE_LIST;
    }
}

unsigned reads_weight(const struct op *op)
{
    if (op->kind == OP_GET)
        return op->job.want_body ? WEIGHT_ONE : 0;
    return is_list(op) ? WEIGHT_LIST : 0;
}

static bool fits(const struct reads *r, const struct op *op)
{
    return r->weight + reads_weight(op) <= WEIGHT_MAX;
}

bool reads_must_wait(const struct broker *b, const struct op *op)
{
    return reads_weight(op) > 0 && (b->reads.first || !fits(&b->reads, op));
}

int reads_wait(struct broker *b, const struct op *op, broker_reply_fn fn, void *ctx)
{
    struct waiting_read *w = mem_alloc(sizeof *w);
    if (!w)
        return -ERR_NOMEM;
    *w = (struct waiting_read){.op = *op, .fn = fn, .ctx = ctx};
    *(b->reads.last ? &b->reads.last->next : &b->reads.first) = w;
    b->reads.last = w;
    return 0;
}

static struct waiting_read *first_take(struct broker *b)
{
    struct waiting_read *w = b->reads.first;
    b->reads.first = w->next;
    if (!b->reads.first)
        b->reads.last = NULL;
    return w;
}

static void refuse(struct broker *b, const struct waiting_read *w)
{
    struct reply r = {.kind = w->op.kind,
                      .outcome = OUT_UNAVAILABLE,
                      .tag = w->op.tag,
                      .note = "the server is out of memory"};
    b->outstanding--;
    w->fn(w->ctx, &r);
}

void reads_ended(struct broker *b, unsigned weight)
{
    b->reads.weight -= weight;
    while (b->reads.first && fits(&b->reads, &b->reads.first->op)) {
        struct waiting_read *w = first_take(b);
        if (broker_collect(b, &w->op, w->fn, w->ctx) != 0)
            refuse(b, w);
        mem_free(w);
    }
}
