/* SPDX-License-Identifier: Apache-2.0 */
#include "api/v1/jobs/batch.h"

#include "api/json_members.h"
#include "api/v1/kv/commit.h"
#include "base/check.h"

#define OPS_PER_ITEM 2

struct batch *batch_new(struct native *n, struct http_exchange *x, size_t count, bool many,
                        batch_write_fn write)
{
    struct arena *arena = http_request(x)->arena;
    struct batch *b = arena_array(arena, 1, sizeof *b);
    struct batch_item *items = b ? arena_array(arena, count, sizeof *items) : NULL;
    struct op *ops = items ? arena_array(arena, count * OPS_PER_ITEM, sizeof *ops) : NULL;
    if (!ops) {
        answer_error(x, -ERR_NOMEM);
        return NULL;
    }
    *b = (struct batch){.n = n,
                        .x = x,
                        .arena = arena,
                        .many = many,
                        .write = write,
                        .count = count,
                        .items = items,
                        .ops = ops};
    return b;
}

struct op *batch_op(struct batch *b, size_t item, enum op_kind kind)
{
    CHECK(item < b->count && b->op_count < b->count * OPS_PER_ITEM);
    struct op *op = &b->ops[b->op_count++];
    *op = (struct op){.kind = kind, .tag = item};
    return op;
}

void batch_refuse(struct batch *b, size_t item, const struct problem *p)
{
    b->items[item].problem = *p;
    while (b->op_count > 0 && b->ops[b->op_count - 1].tag == item)
        b->op_count--;
}

/* ---- the answer ---- */

/* 201 if the job is new, 202 if its cancel was requested; a list always gets 200. */
static unsigned batch_status(const struct batch *b)
{
    if (b->many)
        return 200;
    bool waits = b->items[0].cancels && b->items[0].lease.cancel_by.ms != 0;
    return b->items[0].created ? 201 : waits ? 202 : 200;
}

static void write_item(const struct batch *b, struct json_writer *w, const struct batch_item *item)
{
    json_write_object(w);
    if (item->problem.code != PROBLEM_NONE) {
        json_write_key(w, "error");
        problem_write(w, &item->problem);
    } else {
        b->write(b, w, item);
        if (item->relaxed)
            write_text(w, "durability", "relaxed");
        if (item->spooled)
            write_bool(w, "spooled", true);
    }
    json_write_object_end(w);
}

static void batch_answer(struct batch *b)
{
    struct json_writer w;
    if (!b->many && b->items[0].problem.code != PROBLEM_NONE) {
        problem_answer(b->x, &b->items[0].problem);
        return;
    }
    bool spooled = false;
    for (size_t i = 0; i < b->count; i++)
        spooled = spooled || b->items[i].spooled;
    if (spooled)
        answer_mark_spooled(b->x);
    answer_begin(b->x, &w);
    if (b->many) {
        json_write_object(&w);
        json_write_key(&w, "jobs");
        json_write_array(&w);
    }
    for (size_t i = 0; i < b->count; i++)
        write_item(b, &w, &b->items[i]);
    if (b->many) {
        json_write_array_end(&w);
        json_write_object_end(&w);
    }
    answer_end(b->x, &w, batch_status(b));
}

/* ---- replies ---- */

static void item_take(struct batch_item *item, const struct reply *r)
{
    item->seq = r->seq;
    item->id_hi = r->id_hi;
    item->replaced_seq = r->kind == OP_ENQUEUE ? r->replaced_seq : 0;
    item->state = r->state;
    item->created = r->created && !r->repeat;
    item->repeat = r->repeat;
    item->relaxed = r->relaxed;
    item->spooled = r->spooled;
    item->run_at = r->run_at;
    if (reply_family(r) == REPLY_CHANGE && r->kind != OP_ACK)
        item->lease = r->lease;
    item->cancels = r->kind == OP_CANCEL;
}

static void batch_reply(void *ctx, const struct reply *r)
{
    struct batch *b = ctx;
    struct batch_item *item = &b->items[r->tag];
    const struct kv_commit_reply *handoff = r->kind == OP_ACK ? r->handoff : NULL;
    if (r->outcome == OUT_OK) {
        item_take(item, r);
        item->handoff = handoff ? commit_keep(b->arena, handoff) : NULL;
    } else if (handoff) {
        commit_problem(&item->problem, b->arena, r, handoff, broker_draining(b->n->broker));
    } else {
        problem_of_reply(&item->problem, b->arena, r, broker_draining(b->n->broker));
    }
    if (--b->waiting == 0)
        batch_answer(b);
}

void batch_submit(struct batch *b)
{
    b->waiting = b->op_count;
    if (b->op_count == 0) {
        batch_answer(b);
        return;
    }
    int err = broker_submit(b->n->broker, b->ops, b->op_count, batch_reply, b);
    if (err < 0)
        answer_error(b->x, err);
}
