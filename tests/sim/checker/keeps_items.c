/* SPDX-License-Identifier: Apache-2.0 */
/* C13: items and the jobs that hold them. What a job has is known from its payload, when it is
 * claimed. Until an end of it is asked for, it lives: its queue's leases run out without end. */
#include "sim/checker/keeps.h"
#include "sim/clients/keeper.h"

/* A job that was handed out with this item. */
struct listing {
    uint64_t job;
    struct keeper_item item;
    size_t first; /* entry */
};

struct listings {
    struct keeps *k;
    struct listing *all;
    size_t count, room;
};

static bool ends_job(const struct hist_entry *e, uint64_t job)
{
    if (e->kind != HIST_OP || !e->apart)
        return false;
    if (e->op.kind == OP_CANCEL)
        return e->op.job.job.seq == job;
    return (e->op.kind == OP_ACK || e->op.kind == OP_FAIL) && e->op.lease.job.seq == job;
}

static bool ends_item(const struct hist_entry *e, const struct keeper_item *item)
{
    bool word = e->op.kind == OP_ACK || e->op.kind == OP_FAIL || e->op.kind == OP_RELEASE;
    return e->kind == HIST_OP && e->apart && word && e->op.lease.job.seq == item->seq &&
           token_equal(e->op.lease.token, item->token);
}

/* The job has not let go of the item before entry `upto`. */
static bool surely_held(const struct keeps *k, const struct listing *l, size_t upto)
{
    for (size_t i = 0; i < upto; i++)
        if (ends_job(&k->h->entries[i], l->job) || ends_item(&k->h->entries[i], &l->item))
            return false;
    return true;
}

static void list_item(struct listings *ls, uint64_t job, const struct keeper_item *item, size_t at)
{
    for (size_t i = 0; i < ls->count; i++) {
        struct listing *l = &ls->all[i];
        bool same = token_equal(l->item.token, item->token);
        if (l->job == job && l->item.seq == item->seq) {
            if (!same)
                keeps_blame(ls->k, CHECK_C13, job, at, "job %llu names another token of item %llu",
                            (unsigned long long)job, (unsigned long long)item->seq);
            return;
        }
        if (same)
            keeps_blame(ls->k, CHECK_C13, job, at, "jobs %llu and %llu have one token",
                        (unsigned long long)job, (unsigned long long)l->job);
    }
    ls->all = vec_room(ls->all, &ls->room, ls->count + 1, sizeof(*ls->all));
    ls->all[ls->count++] = (struct listing){job, *item, at};
}

/* The job is handed out, so it lives: no other job can have got its items meanwhile. */
static void check_alone(struct listings *ls, uint64_t job, size_t at)
{
    for (size_t i = 0; i < ls->count; i++) {
        const struct listing *mine = &ls->all[i];
        if (mine->job != job)
            continue;
        for (size_t n = 0; n < ls->count; n++) {
            const struct listing *other = &ls->all[n];
            if (other->job > job && other->first < at && other->item.seq == mine->item.seq &&
                surely_held(ls->k, mine, at))
                keeps_blame(ls->k, CHECK_C13, mine->item.seq, at,
                            "item %llu went to job %llu while job %llu held it",
                            (unsigned long long)mine->item.seq, (unsigned long long)other->job,
                            (unsigned long long)job);
        }
    }
}

static void claimed(struct listings *ls, size_t at)
{
    const struct hist_entry *e = &ls->k->h->entries[at];
    for (uint32_t i = 0; i < e->job_count; i++) {
        struct keeper_item items[KEEPER_ITEMS_MAX];
        unsigned count = keeper_items_of(e->jobs[i].payload, items, KEEPER_ITEMS_MAX);
        for (unsigned n = 0; n < count; n++)
            list_item(ls, e->jobs[i].job.seq, &items[n], at);
        check_alone(ls, e->jobs[i].job.seq, at);
    }
}

/* A look at an item. */
static void looked_at(struct listings *ls, size_t at)
{
    const struct hist_job *j = &ls->k->h->entries[at].jobs[0];
    for (size_t i = 0; i < ls->count; i++) {
        const struct listing *l = &ls->all[i];
        if (l->item.seq != j->job.seq || !surely_held(ls->k, l, at))
            continue;
        bool right = j->job.state == STATE_RUNNING && j->holder == l->job &&
                     token_equal(j->token, l->item.token);
        if (!right)
            keeps_blame(ls->k, CHECK_C13, j->job.seq, at,
                        "item %llu is %s and held by job %llu, it was job %llu's",
                        (unsigned long long)j->job.seq, state_name((enum job_state)j->job.state),
                        (unsigned long long)j->holder, (unsigned long long)l->job);
    }
}

void keeps_items(struct keeps *k)
{
    struct listings ls = {.k = k};
    for (size_t i = 0; i < k->h->count; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        if (keeps_ok(e, OP_CLAIM))
            claimed(&ls, i);
        if (keeps_ok(e, OP_GET) && e->job_count == 1)
            looked_at(&ls, i);
    }
    vec_free(ls.all);
}
