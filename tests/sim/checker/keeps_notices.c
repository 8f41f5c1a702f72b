/* SPDX-License-Identifier: Apache-2.0 */
/* C14: notices and what they tell of. The rule "dead" was there before anything died; "more" comes
 * and goes, and its notices with it. */
#include "sim/checker/keeps.h"
#include "sim/clients/keeper.h"

struct known {
    uint64_t number, job;
    bool dead_rule; /* of the rule that stays */
    bool may_go;    /* somebody has asked for its end */
    bool gone;      /* and was told so */
};

struct outbox {
    struct keeps *k;
    struct known *all;
    size_t count, room;
    bool deletes; /* the other rule may have gone, and its notices with it */
};

static struct known *find(struct outbox *b, uint64_t number)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->all[i].number == number)
            return &b->all[i];
    return NULL;
}

static void seen(struct outbox *b, const struct hist_notice *n, size_t at)
{
    struct known *old = find(b, n->number);
    if (old && old->gone)
        keeps_blame(b->k, CHECK_C14, n->job, at, "notice %llu is back after its end",
                    (unsigned long long)n->number);
    if (old)
        return;
    struct known new = {.number = n->number, .job = n->job};
    new.dead_rule = span_equal(n->alert, SPAN_LITERAL("dead"));
    for (size_t i = 0; i < b->count; i++)
        if (new.dead_rule && b->all[i].dead_rule && b->all[i].job == n->job)
            keeps_blame(b->k, CHECK_C14, n->job, at, "two notices of one death of job %llu",
                        (unsigned long long)n->job);
    b->all = vec_room(b->all, &b->room, b->count + 1, sizeof(*b->all));
    b->all[b->count++] = new;
}

static bool listed(const struct hist_entry *e, uint64_t number)
{
    for (uint32_t i = 0; i < e->notice_count; i++)
        if (e->notices[i].number == number)
            return true;
    return false;
}

/* The whole outbox is shown: what was there and may not go is there. */
static void check_list(struct outbox *b, size_t at)
{
    const struct hist_entry *e = &b->k->h->entries[at];
    for (size_t i = 0; e->reply.notice_cursor == 0 && i < b->count; i++) {
        const struct known *n = &b->all[i];
        if (!n->may_go && (n->dead_rule || !b->deletes) && !listed(e, n->number))
            keeps_blame(b->k, CHECK_C14, n->job, at,
                        "notice %llu of job %llu has left the outbox, though no client removed it",
                        (unsigned long long)n->number, (unsigned long long)n->job);
    }
}

static void end_asked(struct outbox *b, const struct hist_entry *e, uint64_t number)
{
    struct known *n = find(b, number);
    if (!n || keeps_refused(e))
        return;
    n->may_go = true;
    n->gone = n->gone || (e->replied && e->reply.outcome == OUT_OK);
}

static void read_entry(struct outbox *b, size_t at)
{
    const struct hist_entry *e = &b->k->h->entries[at];
    if (e->kind != HIST_OP || !e->apart)
        return;
    if (e->op.kind == OP_NOTICE_END && e->op.notice_end.delivered)
        end_asked(b, e, e->op.notice_end.number);
    if (e->op.kind == OP_NOTICE_DISCARD)
        end_asked(b, e, e->op.notice.id.seq);
    bool rule = e->op.kind == OP_ALERT_PUT || e->op.kind == OP_ALERT_DELETE;
    b->deletes = b->deletes || (rule && span_equal(e->op.alert.name, SPAN_LITERAL("more")));
    bool shows = keeps_ok(e, OP_NOTICE_TAKE) || keeps_ok(e, OP_NOTICE_LIST);
    for (uint32_t i = 0; shows && i < e->notice_count; i++)
        seen(b, &e->notices[i], at);
    if (keeps_ok(e, OP_NOTICE_LIST))
        check_list(b, at);
}

/* Each death has its notice, and each notice its death. */
static void check_deaths(struct outbox *b)
{
    struct keeps *k = b->k;
    size_t last = k->h->count - 1;
    for (size_t i = 0; i < k->end_count; i++) {
        const struct job *j = &k->end[i]->job;
        bool told = false;
        for (size_t n = 0; n < b->count; n++)
            told = told || (b->all[n].dead_rule && b->all[n].job == j->seq);
        if (told != (j->state == STATE_DEAD))
            keeps_blame(k, CHECK_C14, j->seq, last, "job %llu is %s, and %s notice says it died",
                        (unsigned long long)j->seq, state_name((enum job_state)j->state),
                        told ? "a" : "no");
    }
    for (size_t n = 0; n < b->count; n++)
        if (b->all[n].dead_rule && !keeps_job(k, b->all[n].job))
            keeps_blame(k, CHECK_C14, b->all[n].job, last, "a notice of job %llu, which is none",
                        (unsigned long long)b->all[n].job);
}

static bool has_rule(const struct history *h)
{
    for (size_t i = 0; i < h->count; i++)
        if (keeps_ok(&h->entries[i], OP_ALERT_PUT) &&
            span_equal(h->entries[i].op.alert.name, SPAN_LITERAL("dead")))
            return true;
    return false;
}

void keeps_notices(struct keeps *k)
{
    struct outbox b = {.k = k};
    if (!has_rule(k->h))
        return;
    for (size_t i = 0; i < k->h->count; i++)
        read_entry(&b, i);
    if (k->drained < k->h->count)
        check_deaths(&b);
    vec_free(b.all);
}
