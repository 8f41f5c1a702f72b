/* SPDX-License-Identifier: Apache-2.0 */
/* What keepers saw: which jobs there are in the end, and what every one of them owes. */
#include "sim/checker/keeps.h"

#include <stdarg.h>
#include <stdio.h>

#include "sim/clients/keeper.h"

void keeps_blame(struct keeps *k, enum check check, uint64_t seq, size_t entry, const char *format,
                 ...)
{
    if (k->bad->check != CHECK_NONE)
        return;
    k->bad->check = check;
    k->bad->seq = seq;
    k->bad->entry = entry;
    va_list args;
    va_start(args, format);
    vsnprintf(k->bad->text, sizeof(k->bad->text), format, args);
    va_end(args);
}

bool keeps_ok(const struct hist_entry *e, enum op_kind kind)
{
    return e->kind == HIST_OP && e->apart && e->op.kind == kind && e->replied &&
           e->reply.outcome == OUT_OK;
}

bool keeps_refused(const struct hist_entry *e)
{
    return e->replied && e->reply.outcome != OUT_OK && e->reply.outcome != OUT_UNKNOWN;
}

const struct hist_job *keeps_job(const struct keeps *k, uint64_t seq)
{
    for (size_t i = 0; i < k->end_count; i++)
        if (k->end[i]->job.seq == seq)
            return k->end[i];
    return NULL;
}

static void find_end(struct keeps *k)
{
    for (size_t i = k->drained; i < k->h->count; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        if (!keeps_ok(e, OP_LIST))
            continue;
        for (uint32_t n = 0; n < e->job_count; n++) {
            k->end = vec_room(k->end, &k->end_room, k->end_count + 1, sizeof(struct hist_job *));
            k->end[k->end_count++] = &e->jobs[n];
        }
    }
}

/* Jobs that an answer named are there; what it said of their end still holds. */
static void check_named(struct keeps *k, size_t at, uint64_t seq)
{
    if (seq && !keeps_job(k, seq))
        keeps_blame(k, CHECK_C1, seq, at, "job %llu was created and does not exist at the end",
                    (unsigned long long)seq);
}

static void check_word(struct keeps *k, size_t at)
{
    const struct hist_entry *e = &k->h->entries[at];
    const struct hist_job *j = keeps_job(k, e->op.lease.job.seq);
    bool ack = e->op.kind == OP_ACK;
    check_named(k, at, e->op.lease.job.seq);
    if (j && ack && j->job.state != STATE_DONE)
        keeps_blame(k, CHECK_C3, j->job.seq, at, "job %llu was acked, and is %s in the end",
                    (unsigned long long)j->job.seq, state_name((enum job_state)j->job.state));
    if (j && !ack && e->reply.state == STATE_DEAD && j->job.state != STATE_DEAD)
        keeps_blame(k, CHECK_C6, j->job.seq, at, "job %llu died, and is %s in the end",
                    (unsigned long long)j->job.seq, state_name((enum job_state)j->job.state));
}

static void check_answers(struct keeps *k)
{
    for (size_t i = 0; i < k->h->count; i++) {
        const struct hist_entry *e = &k->h->entries[i];
        if (keeps_ok(e, OP_ENQUEUE) && e->reply.created)
            check_named(k, i, e->reply.seq);
        if (keeps_ok(e, OP_ACK) || keeps_ok(e, OP_FAIL))
            check_word(k, i);
        for (uint32_t n = 0; keeps_ok(e, OP_CLAIM) && n < e->job_count; n++)
            check_named(k, i, e->jobs[n].job.seq);
    }
}

static void check_drained(struct keeps *k)
{
    for (size_t i = 0; i < k->end_count; i++)
        if (STATE_BIT(k->end[i]->job.state) & STATES_LIVE)
            keeps_blame(k, CHECK_C10, k->end[i]->job.seq, k->h->count - 1,
                        "job %llu is %s after the drain", (unsigned long long)k->end[i]->job.seq,
                        state_name((enum job_state)k->end[i]->job.state));
}

/* A bucket that was full gives its tokens at once, and the window one more of each. A start fills
 * it again. */
static void check_rate(struct keeps *k)
{
    struct span rated = SPAN_LITERAL("x-rated");
    for (size_t i = 0; i < k->h->count; i++) {
        unsigned made = 0;
        for (size_t n = i; n < k->h->count && k->h->entries[n].kind != HIST_BOOT; n++) {
            const struct hist_entry *e = &k->h->entries[n];
            if (e->mono - k->h->entries[i].mono > KEEPER_RATE_MS)
                break;
            made += keeps_ok(e, OP_ENQUEUE) && span_equal(e->op.enqueue.queue, rated);
        }
        if (made > 2 * KEEPER_RATE + 1)
            keeps_blame(k, CHECK_C10, 0, i, "%u jobs in a second, the limit is %u", made,
                        KEEPER_RATE);
    }
}

void keeps_check(const struct history *h, struct violation *ret)
{
    struct keeps k = {.h = h, .drained = h->count, .bad = ret};
    bool any = false;
    for (size_t i = 0; i < h->count; i++) {
        if (h->entries[i].kind == HIST_DRAINED)
            k.drained = i;
        any = any || h->entries[i].apart;
    }
    if (!any || h->wild)
        return;
    find_end(&k);
    keeps_notices(&k);
    keeps_items(&k);
    keeps_dependencies(&k);
    keeps_limits(&k);
    keeps_turns(&k);
    if (k.drained < h->count) { /* else something else went wrong before */
        keeps_keys(&k);
        keeps_handoffs(&k);
        keeps_schedules(&k);
        check_answers(&k);
        check_drained(&k);
    }
    check_rate(&k);
    vec_free(k.end);
    pool_done(&k.pool);
}
