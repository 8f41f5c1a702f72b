/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk actions: the request, and what a slice does to its jobs. The store keeps the request and
 * finds the jobs; the node that got the request replies when the action has ended. */
#include "backend/shared/shared.h"
#include "base/mem.h"
#include "core/bulk.h"

size_t unit_bulk_count(const struct ops *o)
{
    size_t n = 0;
    for (const struct bulk *b = unit_of(o)->s->bulks; b; b = b->next)
        n++;
    return n;
}

static void bulk_free(struct bulk *b)
{
    if (b) {
        mem_free(b->group);
        mem_free(b->kind);
    }
    mem_free(b);
}

void shared_bulks_free(struct shared *s)
{
    while (s->bulks) {
        struct bulk *b = s->bulks;
        s->bulks = b->next;
        bulk_free(b);
    }
}

struct bulk *shared_bulk_new(struct span group, struct span kind)
{
    struct bulk *b = mem_zalloc(sizeof *b);
    if (b) {
        b->group = mem_text(group.at ? group.at : "", group.len);
        b->kind = mem_text(kind.at ? kind.at : "", kind.len);
    }
    if (b && b->group && b->kind)
        return b;
    bulk_free(b);
    return NULL;
}

bool unit_bulk_begin(struct ops *o, const struct op *op, struct rec_bulk_begin *begin)
{
    struct unit *u = unit_of(o);
    struct bulk *b = shared_bulk_new(begin->group, begin->kind);
    if (!b)
        return false;
    b->action = begin->action;
    b->queue = begin->queue;
    b->states = begin->states;
    b->seq_max = u->seq_high;
    b->at = begin->at;
    b->op = op;
    b->batch = u->turn->batch;
    bulk_free(u->bulk);
    u->bulk = b;
    u->records++;
    return true;
}

void shared_bulk_append(struct shared *s, struct bulk *b)
{
    struct bulk **link = &s->bulks;
    while (*link)
        link = &(*link)->next;
    *link = b;
}

void shared_bulk_forget(struct unit *u)
{
    bulk_free(u->bulk);
    u->bulk = NULL;
}

int shared_bulk_work(struct unit *u, struct bulk *b, size_t slice, bool last)
{
    b->slice_changed = b->slice_refused = 0;
    b->slice_cursor = b->cursor;
    for (size_t i = 0; i < slice && !u->nomem; i++) {
        struct row *r = u->rows[i];
        b->slice_cursor = r->job.seq;
        bool changed = true;
        if (!unit_row_there(r))
            continue;
        u->nomem |= !ops_bulk_change(unit_ops(u), &r->job, (enum bulk_action)b->action, &changed);
        b->slice_changed += changed;
        b->slice_refused += !changed;
    }
    b->slice_last = last;
    u->s->trim_wanted = true;
    return u->nomem ? -ERR_NOMEM : 0;
}

void shared_bulk_stored(struct unit *u)
{
    struct shared *s = u->s;
    struct bulk *b = s->bulks;
    b->changed += b->slice_changed;
    b->refused += b->slice_refused;
    b->cursor = b->slice_cursor;
    if (!b->slice_last)
        return;
    s->bulks = b->next;
    if (b->op) {
        u->turns[0] = (struct turn){.op = b->op, .batch = b->batch};
        u->turns[0].reply.changed = b->changed;
        u->turns[0].reply.refused = b->refused;
        u->count = 1;
    }
    bulk_free(b);
}

/* The connection broke, or the backend closes. The request stays in the store, and the next leader
 * continues it. */
void shared_bulks_answer(struct shared *s)
{
    for (struct bulk *b = s->bulks; b; b = b->next) {
        if (!b->op)
            continue;
        struct reply r = {.kind = OP_BULK, .tag = b->op->tag, .outcome = OUT_UNKNOWN};
        struct batch *batch = b->batch;
        b->op = NULL;
        shared_batch_answer(batch, &r);
    }
}
