/* SPDX-License-Identifier: Apache-2.0 */
/* Notices. The outbox of the primary belongs to all nodes, and the leader delivers it. The spool
 * has an outbox, too, with the notices of alert rules on failover; this node delivers it, whether
 * it leads or not. A number says which of the two has a notice, as the id of a job does. */
#include "backend/failover/impl.h"

static const char note_outbox[] = "the shared store, which has this notice, does not answer: try "
                                  "again later";

static void ask(struct fo_call *c)
{
    if (fanout_ask(&c->base) != 0)
        fanout_deliver(&c->base, &(struct reply){.outcome = OUT_UNAVAILABLE, .note = note_outbox});
}

/* --- take: the spool first, then, if it has nothing to deliver, the primary --- */

/* The notices under way that belong to the store. false: no memory. */
static bool mine_of(struct fo_call *c, bool spool)
{
    const struct failover *f = fanout_ctx(&c->base);
    const struct op_notice_take *want = &c->base.op->notice_take;
    uint64_t *mine = arena_array(&c->base.arena, want->mine_count + 1u, sizeof *mine);
    uint32_t n = 0;
    for (uint32_t i = 0; mine && i < want->mine_count; i++) {
        if (fo_own(f, want->mine[i]) == spool)
            mine[n++] = spool ? fo_seq_in(f, want->mine[i]) : want->mine[i];
    }
    c->base.inner = *c->base.op;
    c->base.inner.notice_take.mine = mine;
    c->base.inner.notice_take.mine_count = n;
    return mine != NULL;
}

/* left_out: the primary was not asked, so the caller must not conclude anything about it. */
static void spool_took(struct fo_call *c, struct reply *reply)
{
    const struct failover *f = fanout_ctx(&c->base);
    bool some = reply->outcome == OUT_OK && reply->notice_count > 0;
    if (!some && f->up && backend_leads(f->primary) && mine_of(c, false)) {
        c->next_due = reply->outcome == OUT_OK ? reply->next_due : (struct wall_time){0};
        c->base.store = SOURCE_PRIMARY;
        ask(c);
        return;
    }
    reply->left_out = 1;
    fanout_deliver(&c->base, reply);
}

static void primary_took(struct fo_call *c, struct reply *reply)
{
    if (reply->outcome == OUT_OK && c->next_due.ms &&
        (!reply->next_due.ms || c->next_due.ms < reply->next_due.ms))
        reply->next_due = c->next_due;
    fanout_deliver(&c->base, reply);
}

/* --- list: those of the primary, then those of the spool, whose numbers are higher --- */

static void list_spool(struct fo_call *c)
{
    const struct failover *f = fanout_ctx(&c->base);
    uint64_t after = c->base.op->notice.after;
    c->base.inner = *c->base.op;
    c->base.inner.notice.after = fo_own(f, after) ? fo_seq_in(f, after) : 0;
    c->base.store = SOURCE_SPOOL;
}

static bool spool_has_notices(const struct failover *f)
{
    struct backend_figures figures;
    if (!f->spool)
        return false;
    backend_figures(f->spool, &figures);
    return figures.notices_pending + figures.notices_dead > 0;
}

/* --- which store --- */

static uint64_t number_of(const struct op *op)
{
    return op->kind == OP_NOTICE_END ? op->notice_end.number : op->notice.id.seq;
}

static void plan_number(struct fo_call *c)
{
    const struct failover *f = fanout_ctx(&c->base);
    uint64_t number = number_of(c->base.op);
    c->base.inner = *c->base.op;
    if (fo_own(f, number)) {
        c->base.store = SOURCE_SPOOL;
        if (c->base.op->kind == OP_NOTICE_END)
            c->base.inner.notice_end.number = fo_seq_in(f, number);
        else
            c->base.inner.notice.id.seq = fo_seq_in(f, number);
    } else if (f->up) {
        c->base.store = SOURCE_PRIMARY;
    } else {
        c->note = note_outbox;
    }
}

void fo_notice_plan(struct fo_call *c)
{
    const struct failover *f = fanout_ctx(&c->base);
    const struct op *op = c->base.op;
    if (op->kind == OP_NOTICE_TAKE) {
        if (mine_of(c, true))
            c->base.store = SOURCE_SPOOL;
    } else if (op->kind != OP_NOTICE_LIST || op->notice.id.seq) {
        plan_number(c);
    } else if (!f->up || fo_own(f, op->notice.after)) {
        list_spool(c);
    } else {
        c->base.inner = *op;
        c->base.store = SOURCE_PRIMARY;
    }
}

void fo_notice_spool_replied(struct fo_call *c, struct reply *reply)
{
    const struct failover *f = fanout_ctx(&c->base);
    const struct op *op = c->base.op;
    if (op->kind == OP_NOTICE_TAKE) {
        spool_took(c, reply);
        return;
    }
    if (op->kind == OP_NOTICE_LIST && !op->notice.id.seq)
        reply->left_out = !f->up;
    fanout_deliver(&c->base, reply);
}

void fo_notice_primary_replied(struct fo_call *c, const struct reply *reply)
{
    const struct failover *f = fanout_ctx(&c->base);
    const struct op *op = c->base.op;
    struct reply own = *reply;
    bool list = op->kind == OP_NOTICE_LIST && !op->notice.id.seq;
    if (op->kind == OP_NOTICE_TAKE) {
        primary_took(c, &own);
        return;
    }
    bool ended = reply->outcome == OUT_OK && !own.notice_cursor && spool_has_notices(f);
    if (list && (reply->outcome == OUT_UNAVAILABLE || (ended && own.notice_count == 0))) {
        list_spool(c);
        ask(c);
        return;
    }
    if (list && ended) /* the next page has those of the spool */
        own.notice_cursor = own.notices[own.notice_count - 1].notice.number;
    fanout_deliver(&c->base, &own);
}
