/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: goes through a history and tells the first promise that was broken.
 *
 * Method. There is one submitter, so requests take effect in the order of the history. The checker
 * follows them, keeping for each job the set of states it may be in (know.h). A request without a
 * reply widens the set, a reply narrows it, time widens it (leases that may have run out, jobs that
 * may have become due, expired or been pruned, bulk actions under way).
 *
 * Crashes. The entry of a crash says which position had become durable. Undone are: claims past it
 * (their replies may leave early), replies marked as relaxed past it, and requests past it that
 * were not answered. Everything else that was answered counts as having happened, durable or not;
 * that is the promise under test. The entries since the last boot are read twice: first with
 * everything in effect, as the living server saw it, then, at the crash, again without what was
 * undone, as the next boot must see it.
 *
 *      sees                                             does not see
 *  C1  a confirmed job that is answered as not found,   a job lost and never asked for again: the
 *      finished or dead, when nothing could have        simulator therefore asks for every job at
 *      ended it; at the end, a confirmed log line or    the end; earlier leases' progress
 *      the newest progress of a lease that is missing
 *  C2  a job that no request made; two jobs under one   the payload of jobs shown without a body;
 *      idempotency key; a payload that was never sent   what became of an enqueue that never showed
 *      for this job; a job back after removal;
 *      progress or a log line that no one sent
 *  C3  a claim of a job that surely is done, cancelled  an ack undone before anyone claims again,
 *      or removed; a success that names one             unless a read shows it
 *  C4  a claim while an earlier lease surely lives; a   the last moments of a lease, if its reply
 *      lease refused while it surely lives; exempt: a   left earlier than it was recorded; leases
 *      claim that a crash undid                         whose claim had no reply
 *  C5  success of a token that is not the newest; a     repeats answered with another outcome than
 *      token issued twice, or not newer than all        the first one's
 *      before; a repeat of what never succeeded
 *  C6  failures or crashes outside the bounds that      which of several possible crashes was
 *      the replies give; dead too early, too late, or   counted, while outcomes are unknown; limits
 *      handed out when dead                             while a change of policy has no outcome
 *  C7  a claim that takes a job, or comes back short,   order among jobs that may or may not be
 *      while a better one is surely ready               ready; scheduled jobs that became due
 *  C8  a second job under a key whose holder surely     holders that may have ended
 *      lives; a duplicate of a job that cannot be
 *  C9  a claim of a job that surely is not due yet;     a retry's wait after a lease ran out
 *      a claim from a queue that surely is paused
 *  C10 live jobs after the drain; counts of a queue     counters "since start" (the model checks
 *      that differ from its jobs; capacity exceeded,    them)
 *      or refused with room to spare */
#include "sim/checker/checker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/checker/keeps.h"
#include "sim/checker/know.h"

static const char *const check_names[CHECK_COUNT] = {
    [CHECK_NONE] = "none",       [CHECK_C1] = "C1",          [CHECK_C2] = "C2",
    [CHECK_C3] = "C3",           [CHECK_C4] = "C4",          [CHECK_C5] = "C5",
    [CHECK_C6] = "C6",           [CHECK_C7] = "C7",          [CHECK_C8] = "C8",
    [CHECK_C9] = "C9",           [CHECK_C10] = "C10",        [CHECK_C11] = "C11",
    [CHECK_C12] = "C12",         [CHECK_C13] = "C13",        [CHECK_C14] = "C14",
    [CHECK_C19] = "C19",         [CHECK_C20] = "C20",        [CHECK_C21] = "C21",
    [CHECK_C22] = "C22",         [CHECK_VERIFY] = "verify",  [CHECK_REPLAY] = "replay",
    [CHECK_MODEL] = "model",     [CHECK_MEMORY] = "memory",  [CHECK_DRIVER] = "driver",
    [CHECK_JOURNAL] = "journal", [CHECK_DIED] = "assertion",
};

const char *check_name(enum check c)
{
    return (unsigned)c < CHECK_COUNT ? check_names[c] : "?";
}

void blame(struct checker *c, enum check check, uint64_t seq, const char *format, ...)
{
    if (c->bad.check != CHECK_NONE)
        return;
    c->bad.check = check;
    c->bad.seq = seq;
    c->bad.entry = c->at;
    va_list args;
    va_start(args, format);
    vsnprintf(c->bad.text, sizeof(c->bad.text), format, args);
    va_end(args);
}

const char *states_text(unsigned can)
{
    static char text[120];
    size_t len = 0;
    text[0] = '\0';
    for (int s = 0; s < STATE_COUNT; s++) {
        if (!(can & STATE_BIT(s)))
            continue;
        const char *name = s == STATE_NONE ? "gone" : state_name((enum job_state)s);
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", len ? "|" : "", name);
    }
    return text;
}

/* Which entries a crash undid. */
static void find_erased(struct checker *c)
{
    size_t first = 0;
    for (size_t i = 0; i < c->h->count; i++) {
        if (c->h->entries[i].kind != HIST_CRASH)
            continue;
        uint64_t durable = c->h->entries[i].position;
        for (size_t n = first; n < i; n++) {
            const struct hist_entry *e = &c->h->entries[n];
            bool answered = e->replied && e->op.kind != OP_CLAIM && !e->reply.relaxed;
            bool change = e->kind == HIST_OP || e->kind == HIST_BOOT;
            c->erased[n] = change && e->position > durable && !answered;
        }
        first = i + 1;
    }
}

static void check_nothing(struct checker *c)
{
    (void)c;
}

typedef void check_fn(struct checker *c);
static check_fn *const checks[OP_KIND_COUNT] = {
    [OP_ENQUEUE] = check_enqueue,
    [OP_CLAIM] = check_claim,
    [OP_ACK] = check_lease_op,
    [OP_FAIL] = check_lease_op,
    [OP_EXTEND] = check_lease_op,
    [OP_RELEASE] = check_lease_op,
    [OP_PROGRESS] = check_lease_op,
    [OP_LOG] = check_lease_op,
    [OP_STEP] = check_lease_op,
    [OP_RELEASE_CLAIM] = check_release_claim,
    [OP_CANCEL] = check_cancel,
    [OP_REQUEUE] = check_requeue,
    [OP_PATCH] = check_patch,
    [OP_REMOVE] = check_remove,
    [OP_QUEUE_PUT] = check_queue_put,
    [OP_QUEUE_DELETE] = check_queue_delete,
    [OP_QUEUE_GET] = check_queue_get,
    [OP_QUEUE_LIST] = check_nothing,
    [OP_PAUSE] = check_pause,
    [OP_PURGE] = check_purge,
    [OP_BULK] = check_bulk,
    [OP_GET] = check_get,
    [OP_PEEK] = check_peek,
    [OP_LIST] = check_list,
    [OP_WORKERS] = check_nothing,
    [OP_REGISTRY] = check_nothing,
    [OP_ACCEPT_CLOCK] = check_nothing,
    [OP_EXCEPTIONS] = check_nothing,
    [OP_KV_COMMIT] = check_nothing,
    [OP_KV_GET] = check_nothing,
    [OP_KV_LIST] = check_nothing,
    [OP_ALERT_PUT] = check_nothing,
    [OP_ALERT_DELETE] = check_nothing,
    [OP_ALERT_LIST] = check_nothing,
    [OP_ALERT_EDGE] = check_nothing,
    [OP_NOTICE_TAKE] = check_nothing,
    [OP_NOTICE_END] = check_nothing,
    [OP_NOTICE_LIST] = check_nothing,
    [OP_NOTICE_AGAIN] = check_nothing,
    [OP_NOTICE_DISCARD] = check_nothing,
    [OP_BREAKER_PUT] = check_nothing,
    [OP_BREAKER_DELETE] = check_nothing,
    [OP_BREAKER_ALLOW] = check_nothing,
    [OP_BREAKER_REPORT] = check_nothing,
    [OP_BREAKER_LIST] = check_nothing,
    [OP_NOTE] = check_nothing,
    [OP_PAGE] = check_nothing,
    [OP_HISTORY] = check_nothing,
    [OP_PENDING] = check_nothing,
    [OP_DISPATCHED] = check_nothing,
    [OP_SCHEDULE_PUT] = check_nothing,
    [OP_SCHEDULE_DELETE] = check_nothing,
    [OP_SCHEDULE_GET] = check_nothing,
    [OP_SCHEDULE_LIST] = check_nothing,
    [OP_SCHEDULE_PAUSE] = check_nothing,
    [OP_FIRE] = check_nothing,
    [OP_TRIGGER] = check_nothing,
    [OP_TICK] = check_nothing,
};

/* How long it lasted is not known, so the limits of leases may be as far off. */
static void check_stall(struct checker *c)
{
    for (size_t i = 0; c->e->position > SHORT_STALL_MS && i < c->facts.job_count; i++)
        c->facts.jobs[i].lease.limit_max = INT64_MAX;
}

/* Leases go on for their full time, but for their limits; those bound to a connection have ended,
 * uncounted. */
static void check_boot(struct checker *c)
{
    for (size_t i = 0; i < c->facts.job_count; i++) {
        struct know *k = &c->facts.jobs[i];
        drift(c, k);
        if (!(k->can & CAN(STATE_RUNNING)))
            continue;
        k->lease.limit_max = INT64_MAX;
        bool limited = k->lease.timed || k->lease.cancel != CANCEL_NONE;
        if (limited) {
            k->lease.limit_min = k->lease.end_min = c->e->mono;
            if (k->hidden || k->lease.bound)
                k->can |= cancel_states(k, CAN(STATE_READY));
        } else if (k->hidden)
            k->can |= CAN(STATE_READY);
        else if (k->lease.bound)
            k->can = (k->can & ~CAN(STATE_RUNNING)) | CAN(STATE_READY);
        else if (c->e->mono + k->lease.lease_ms > k->lease.end_min)
            k->lease.end_min = c->e->mono + k->lease.lease_ms;
    }
}

static void read_entry(struct checker *c, size_t i)
{
    const struct hist_entry *e = &c->h->entries[i];
    c->at = i;
    c->e = e;
    switch (e->kind) {
    case HIST_OP:
        if (!e->apart && (!e->replied || e->reply.outcome != OUT_UNAVAILABLE))
            checks[e->op.kind](c);
        break;
    case HIST_BOOT:
        check_boot(c);
        break;
    case HIST_WALL:
        if (!c->second_pass)
            wall_set(c, e->mono, e->wall);
        break;
    case HIST_STALL:
        check_stall(c);
        break;
    case HIST_DRAINED:
        c->drained = true;
        break;
    case HIST_CRASH:
    case HIST_KIND_COUNT:
        break;
    }
}

/* Everything since the boot once more, without what the crash undid. */
static void read_again(struct checker *c, size_t crash)
{
    c->second_pass = true;
    facts_copy(&c->facts, &c->saved);
    for (size_t i = c->boot_entry; i < crash && c->bad.check == CHECK_NONE; i++)
        if (!c->erased[i])
            read_entry(c, i);
    c->second_pass = false;
    facts_copy(&c->saved, &c->facts);
    c->boot_entry = crash + 1;
}

bool checker_run(const struct history *h, struct violation *ret)
{
    struct checker c = {.h = h};
    facts_init(&c.facts);
    facts_init(&c.saved);
    c.erased = calloc(h->count + 1, sizeof(*c.erased));
    CHECK(c.erased != NULL);
    find_erased(&c);
    if (h->count > 0)
        wall_set(&c, INT64_MIN / 4, h->entries[0].wall - h->entries[0].mono + INT64_MIN / 4);
    for (size_t i = 0; i < h->count && c.bad.check == CHECK_NONE; i++) {
        if (h->entries[i].kind == HIST_CRASH)
            read_again(&c, i);
        else
            read_entry(&c, i);
    }
    if (c.bad.check == CHECK_NONE)
        keeps_check(h, &c.bad);
    *ret = c.bad;
    facts_done(&c.facts);
    facts_done(&c.saved);
    vec_free(c.walls);
    pool_done(&c.pool);
    free(c.erased);
    return ret->check == CHECK_NONE;
}
