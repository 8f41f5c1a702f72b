/* SPDX-License-Identifier: Apache-2.0 */
/* The model: what time brings, and restarts. */
#include <string.h>

#include "base/check.h"
#include "sim/model/model_impl.h"

/* ---- time ------------------------------------------------------------------------------------ */

static bool bulk_moves(struct model *m, const struct model_bulk *b, struct model_job *j)
{
    switch ((enum bulk_action)b->op->action) {
    case BULK_REQUEUE:
        return model_requeue_job(m, j, 0);
    case BULK_CANCEL:
        (void)model_request_cancel(m, j);
        return true;
    case BULK_CANCEL_NOW:
        model_cancel_job(m, j);
        return true;
    case BULK_REMOVE:
        model_drop(m, j);
        return true;
    }
    return false;
}

/* Whether the bulk action is for this job, as it is now. */
static bool bulk_means(const struct model_bulk *b, const struct model_job *j, unsigned states)
{
    return j->there && j->queue == b->queue && j->entered <= b->entered_max &&
           (STATE_BIT(j->state) & states) &&
           (b->op->group.len == 0 || span_equal(b->op->group, j->group));
}

/* State by state, the oldest first. */
static void work_bulk(struct model *m, const struct model_bulk *b, struct model_reply *r)
{
    static const unsigned from[] = {
        [BULK_REQUEUE] = MODEL_REQUEUE_FROM,
        [BULK_CANCEL] = STATES_LIVE,
        [BULK_CANCEL_NOW] = STATES_LIVE,
        [BULK_REMOVE] = STATES_ALL & ~(1u << STATE_RUNNING),
    };
    unsigned states = b->op->states ? b->op->states : STATE_BIT(STATE_DEAD);
    states &= from[b->op->action];
    *r = (struct model_reply){.kind = OP_BULK, .tag = b->tag};
    m->reply = r;
    for (uint8_t s = STATE_SCHEDULED; s < STATE_COUNT; s++) {
        for (uint64_t after = 0;;) {
            struct model_job *next = NULL;
            for (uint32_t i = 0; i < m->job_count; i++) {
                struct model_job *j = &m->jobs[i];
                if (bulk_means(b, j, states & STATE_BIT(s)) && j->entered > after &&
                    (!next || j->entered < next->entered))
                    next = j;
            }
            if (!next)
                break;
            after = next->entered;
            if (bulk_moves(m, b, next))
                r->changed++;
            else
                r->refused++;
        }
    }
    *r = (struct model_reply){
        .kind = OP_BULK, .tag = b->tag, .changed = r->changed, .refused = r->refused};
}

/* The oldest of the jobs in this state; among equals one that the engine has removed. */
static struct model_job *oldest_of(struct model *m, uint32_t queue, uint8_t state, uint64_t *count)
{
    struct model_job *oldest = NULL;
    bool tie = false;
    *count = 0;
    for (uint32_t i = 0; i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        if (!j->there || j->queue != queue || j->state != state)
            continue;
        ++*count;
        tie = oldest && (j->since == oldest->since || (tie && j->since > oldest->since));
        if (!oldest || j->since < oldest->since)
            oldest = j;
    }
    for (uint32_t i = 0; tie && i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        if (j->there && j->queue == queue && j->state == state && j->since == oldest->since &&
            m->is_gone(m->is_gone_ctx, j->seq))
            return j;
    }
    return oldest;
}

/* Oldest first, until few enough are left and the oldest is young enough. */
static void prune(struct model *m, uint32_t queue, uint8_t state, uint64_t keep, int64_t keep_ms)
{
    for (;;) {
        uint64_t count;
        struct model_job *oldest = oldest_of(m, queue, state, &count);
        bool old = oldest && !m->suspect && keep_ms != INT64_MAX &&
                   m->now.wall.ms - oldest->since >= keep_ms;
        if (!oldest || (count <= keep && !old))
            return;
        model_drop(m, oldest);
    }
}

static void prune_queue(struct model *m, uint32_t q)
{
    const struct queue_policy *p = &m->queues[q].policy;
    prune(m, q, STATE_DONE, p->keep_done, p->keep_done_ms);
    prune(m, q, STATE_CANCELLED, p->keep_done, p->keep_done_ms);
    prune(m, q, STATE_DEAD, p->keep_dead, p->keep_dead_ms);
}

static uint64_t count_of(const struct model *m, uint32_t queue, uint8_t state)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->job_count; i++)
        n += m->jobs[i].there && m->jobs[i].queue == queue && m->jobs[i].state == state;
    return n;
}

void model_mark(struct model *m)
{
    for (uint32_t q = 0; q < MODEL_QUEUES; q++) {
        const struct queue_policy *p = &m->queues[q].policy;
        if (m->queues[q].there && (count_of(m, q, STATE_DONE) > p->keep_done ||
                                   count_of(m, q, STATE_CANCELLED) > p->keep_done ||
                                   count_of(m, q, STATE_DEAD) > p->keep_dead))
            m->queues[q].over = true;
    }
}

void model_trim(struct model *m)
{
    for (uint32_t q = 0; q < MODEL_QUEUES; q++) {
        if (m->queues[q].over)
            prune_queue(m, q);
        m->queues[q].over = false;
    }
}

/* The job that comes first by the given time, among those for which it has come; ties by sequence.
 */
typedef int64_t time_fn(const struct model *m, const struct model_job *j);

static struct model_job *first_due(struct model *m, time_fn *time, int64_t now)
{
    struct model_job *first = NULL;
    int64_t at = INT64_MAX;
    for (uint32_t i = 0; i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        int64_t t = j->there ? time(m, j) : INT64_MAX;
        if (t <= now && (t < at || (t == at && first && j->seq < first->seq))) {
            first = j;
            at = t;
        }
    }
    return first;
}

static int64_t lease_due(const struct model *m, const struct model_job *j)
{
    (void)m;
    return j->state == STATE_RUNNING ? j->armed : INT64_MAX;
}

static int64_t expiry_due(const struct model *m, const struct model_job *j)
{
    bool waits = STATE_BIT(j->state) & STATES_WAITING;
    return waits && j->expires_at && !m->suspect ? j->expires_at : INT64_MAX;
}

static void tick_jobs(struct model *m)
{
    struct model_job *j;
    while ((j = first_due(m, lease_due, model_lease_time(m))) != NULL) {
        if (j->until <= model_lease_time(m))
            model_lease_end(m, j, false);
        else
            j->armed = j->until;
    }
    for (uint32_t i = 0; i < m->job_count; i++)
        if (m->jobs[i].there && m->jobs[i].state == STATE_SCHEDULED &&
            m->jobs[i].run_at <= m->now.wall.ms)
            model_enter(m, &m->jobs[i], STATE_READY, m->jobs[i].reason);
    while ((j = first_due(m, expiry_due, m->now.wall.ms)) != NULL)
        model_die(m, j, REASON_EXPIRED);
}

static void tick_keys(struct model *m)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < m->key_count; i++)
        if (!model_key_over(m, &m->keys[i]))
            m->keys[left++] = m->keys[i];
    m->key_count = left;
}

uint32_t model_tick(struct model *m, struct model_reply *ret, uint32_t room)
{
    uint32_t replies = 0;
    tick_jobs(m);
    for (uint32_t i = 0; i < m->bulk_count; i++) {
        CHECK(replies < room);
        work_bulk(m, &m->bulks[i], &ret[replies++]);
    }
    m->bulk_count = 0;
    tick_jobs(m); /* what a bulk action has put back may be over at once */
    for (uint32_t q = 0; q < MODEL_QUEUES; q++) {
        prune_queue(m, q);
        m->queues[q].counts.removed += m->queues[q].purged;
        m->queues[q].purged = 0;
    }
    tick_keys(m);
    return replies;
}

/* Of what was said before a restart only the last word about each job is still known, as far as its
 * state and reason tell. */
static void boot_words(struct model *m)
{
    m->word_count = 0;
    for (uint32_t i = 0; i < m->job_count; i++) {
        const struct model_job *j = &m->jobs[i];
        bool failed = j->reason == REASON_FAILED || j->reason == REASON_REJECTED;
        if (!j->there || j->token.counter == 0 || j->state == STATE_RUNNING)
            continue;
        if (j->state == STATE_DONE)
            model_remember(m, j, OP_ACK);
        else if (failed)
            model_remember(m, j, OP_FAIL);
        else if (j->reason == REASON_RELEASED)
            model_remember(m, j, OP_RELEASE);
    }
}

/* What is loaded is in order of time, then of sequence; the order within a millisecond is lost. */
static void boot_order(struct model *m)
{
    uint64_t base = m->entered + 1;
    for (uint32_t i = 0; i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        uint64_t before = 0;
        for (uint32_t k = 0; k < m->job_count; k++)
            before += m->jobs[k].since < j->since ||
                      (m->jobs[k].since == j->since && m->jobs[k].seq < j->seq);
        j->entered = base + before;
    }
    m->entered += m->job_count;
}

static int64_t left_of(int64_t end, const struct model *m, uint32_t whole)
{
    int64_t left = end - m->now.wall.ms;
    return left < 0 ? 0 : left > whole ? whole : left;
}

/* The limits go on by the wall clock, and never get longer than they were. */
static void boot_limit(const struct model *m, struct model_job *j)
{
    int64_t now = model_lease_time(m), timeout = INT64_MAX, cancel = INT64_MAX;
    if (j->timeout_ms)
        timeout = now + left_of(j->since + j->timeout_ms, m, j->timeout_ms);
    if (j->cancel_at)
        cancel = j->bound ? now : now + left_of(j->cancel_by, m, j->grace_ms);
    j->limit = timeout < cancel ? timeout : cancel;
}

/* A new process: leases begin again, those bound to a connection are given back uncounted. */
void model_boot(struct model *m, struct now now)
{
    m->epoch++;
    m->stepped = false;
    m->suspect = false;
    m->skipped_ms = 0;
    model_time(m, now);
    m->bulk_count = 0;
    boot_order(m);
    boot_words(m);
    for (uint32_t i = 0; i < MODEL_QUEUES; i++)
        memset(&m->queues[i].counts, 0, sizeof(m->queues[i].counts));
    for (uint32_t i = 0; i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        if (!j->there || j->state != STATE_RUNNING)
            continue;
        boot_limit(m, j);
        j->until = model_lease_time(m) + j->lease_ms;
        if (j->until > j->limit)
            j->until = j->limit;
        j->armed = j->until;
        j->nonce = 0;
        if (j->bound && !j->cancel_at)
            model_wait_until(m, j, 0, REASON_RESTARTED);
    }
    model_limits_boot(m);
}
