/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/model.h"

#include <string.h>

#include "base/check.h"

void model_init(struct model *m, const struct queue_policy *policy)
{
    memset(m, 0, sizeof(*m));
    m->policy = *policy;
    m->stall_ms = 1000;
    m->jump_ms = 3600 * 1000;
}

/* Leases stand still while the process does; a leap of the wall clock makes it suspect. */
void model_time(struct model *m, struct now now)
{
    if (m->stepped) {
        int64_t mono = now.mono.ms - m->last.mono.ms, wall = now.wall.ms - m->last.wall.ms;
        if (mono > m->stall_ms)
            m->skipped_ms += mono;
        if (wall - mono > m->jump_ms)
            m->suspect = true;
    }
    m->stepped = true;
    m->last = m->now = now;
}

static int64_t lease_time(const struct model *m)
{
    return m->now.mono.ms - m->skipped_ms;
}

/* ---- finding things ------------------------------------------------------------------------------- */

struct model_job *model_find(struct model *m, uint64_t seq)
{
    for (uint32_t i = 0; i < m->job_count; i++)
        if (m->jobs[i].there && m->jobs[i].seq == seq)
            return &m->jobs[i];
    return NULL;
}

static bool ever(const struct model *m, uint64_t seq)
{
    for (uint32_t i = 0; i < m->job_count; i++)
        if (m->jobs[i].seq == seq)
            return true;
    return false;
}

static struct model_queue *queue_named(struct model *m, struct span name)
{
    for (int i = 0; i < MODEL_QUEUES; i++)
        if (m->queues[i].there && span_equal(m->queues[i].name, name))
            return &m->queues[i];
    return NULL;
}

static struct model_queue *queue_make(struct model *m, struct span name)
{
    for (int i = 0; i < MODEL_QUEUES; i++) {
        if (!m->queues[i].there) {
            m->queues[i] = (struct model_queue){.there = true, .name = name, .policy = m->policy};
            return &m->queues[i];
        }
    }
    CHECK(!"queues");
    return NULL;
}

static struct model_queue *queue_of(struct model *m, const struct model_job *j)
{
    return &m->queues[j->queue];
}

static uint32_t index_of(const struct model *m, const struct model_queue *q)
{
    return (uint32_t)(q - m->queues);
}

static uint64_t count_live(const struct model *m, const struct model_queue *q)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->job_count; i++)
        n += m->jobs[i].there && (STATE_BIT(m->jobs[i].state) & STATES_LIVE) &&
             (!q || m->jobs[i].queue == index_of(m, q));
    return n;
}

static bool holds_key(struct model *m, const struct model_job *j)
{
    unsigned states = queue_of(m, j)->policy.unique_scope == UNIQUE_KEPT
                          ? STATES_ALL & ~STATE_BIT(STATE_CANCELLED)
                          : STATES_LIVE;
    return j->unique.len && (STATE_BIT(j->state) & states);
}

static struct model_job *key_holder(struct model *m, const struct model_queue *q, struct span key)
{
    for (uint32_t i = 0; key.len && i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        if (j->there && j->queue == index_of(m, q) && span_equal(j->unique, key) &&
            holds_key(m, j))
            return j;
    }
    return NULL;
}

/* ---- changing a job ------------------------------------------------------------------------------- */

static void enter(struct model *m, struct model_job *j, uint8_t state, uint8_t reason)
{
    if (j->state != state) {
        j->since = m->now.wall.ms;
        j->entered = ++m->entered;
    }
    j->state = state;
    j->reason = reason;
}

/* Ready, or scheduled when its time is still to come. */
static void wait_until(struct model *m, struct model_job *j, int64_t run_at, uint8_t reason)
{
    bool later = run_at > m->now.wall.ms;
    if (later)
        j->run_at = run_at;
    enter(m, j, later ? STATE_SCHEDULED : STATE_READY, reason);
}

struct rules {
    uint32_t lease_ms, max_attempts, max_crashes;
    uint8_t lease_end;
    const struct backoff *backoff;
};

static struct rules rules_for(struct model *m, const struct model_job *j)
{
    const struct queue_policy *p = &queue_of(m, j)->policy;
    const struct job_options *o = j->options;
    return (struct rules){
        o && o->lease_ms ? o->lease_ms : p->lease_ms,
        o && o->max_attempts ? o->max_attempts : p->max_attempts,
        o && o->max_crashes ? o->max_crashes : p->max_crashes,
        p->lease_end,
        o && o->has_backoff ? &o->backoff : &p->backoff,
    };
}

static int64_t wait_ms(const struct backoff *b, uint32_t failure)
{
    if (b->kind == BACKOFF_LIST) {
        if (b->step_count == 0)
            return 0;
        uint32_t last = b->step_count;
        return b->step_ms[(failure < last ? failure : last) - 1];
    }
    int64_t wait = b->base_ms;
    for (uint32_t i = 1; i < failure && wait < b->max_ms; i++)
        wait *= 2;
    return wait < b->max_ms ? wait : b->max_ms;
}

static void die(struct model *m, struct model_job *j, uint8_t reason)
{
    enter(m, j, STATE_DEAD, reason);
    queue_of(m, j)->counts.died++;
}

static void back_off(struct model *m, struct model_job *j, uint32_t number, uint8_t reason)
{
    wait_until(m, j, m->now.wall.ms + wait_ms(rules_for(m, j).backoff, number), reason);
}

/* The lease ran out, or its connection is gone. */
static void lease_end(struct model *m, struct model_job *j, bool lost)
{
    struct rules r = rules_for(m, j);
    j->crashes++;
    queue_of(m, j)->counts.crashed++;
    bool loop = r.max_crashes && j->crashes >= r.max_crashes;
    if (r.lease_end == LEASE_END_FAIL)
        die(m, j, REASON_TIMED_OUT);
    else if (loop)
        die(m, j, REASON_CRASH_LOOP);
    else if (r.lease_end == LEASE_END_COUNTED && j->failures + j->crashes >= r.max_attempts)
        die(m, j, REASON_CRASH_LOOP);
    else if (r.lease_end == LEASE_END_COUNTED)
        back_off(m, j, j->failures + j->crashes, REASON_TIMED_OUT);
    else if (lost && j->crashes >= 2)
        back_off(m, j, j->crashes - 1, REASON_TIMED_OUT);
    else
        enter(m, j, STATE_READY, REASON_TIMED_OUT);
}

static void drop_job(struct model *m, struct model_job *j)
{
    j->there = false;
    queue_of(m, j)->counts.removed++;
}

/* ---- enqueue -------------------------------------------------------------------------------------- */

static void say(struct model *m, enum outcome outcome, const struct model_job *j)
{
    m->reply->outcome = outcome;
    if (j) {
        m->reply->seq = j->seq;
        m->reply->state = j->state;
        m->reply->run_at = j->run_at;
    }
}

static bool key_over(const struct model *m, const struct model_key *k)
{
    return k->expires_at <= m->now.wall.ms && !m->suspect;
}

static uint64_t keys_held(const struct model *m)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->key_count; i++)
        n += !key_over(m, &m->keys[i]);
    return n;
}

static bool enqueue_by_key(struct model *m, const struct op_enqueue *op)
{
    for (uint32_t i = 0; op->idempotency_key.len && i < m->key_count; i++) {
        const struct model_key *k = &m->keys[i];
        if (!span_equal(k->key, op->idempotency_key) || key_over(m, k))
            continue;
        if (k->fingerprint != op->fingerprint) {
            say(m, OUT_KEY_REUSED, NULL);
            return true;
        }
        say(m, OUT_OK, model_find(m, k->seq));
        m->reply->seq = k->seq;
        m->reply->repeat = m->reply->created = true;
        return true;
    }
    return false;
}

static void key_make(struct model *m, const struct op_enqueue *op)
{
    CHECK(m->key_count < MODEL_KEYS);
    int64_t expires = m->now.wall.ms + (int64_t)m->key_ttl_ms;
    if (expires < m->key_latest)
        expires = m->key_latest;
    m->key_latest = expires;
    m->keys[m->key_count++] =
        (struct model_key){op->idempotency_key, op->fingerprint, 0, expires};
}

/* True when the key's holder decides the matter. */
static bool enqueue_by_unique(struct model *m, const struct op_enqueue *op, struct model_queue *q)
{
    struct model_job *holder = q ? key_holder(m, q, op->extra.unique) : NULL;
    if (!holder)
        return false;
    uint8_t mode = op->unique_mode ? op->unique_mode : q->policy.unique_mode;
    bool waits = STATE_BIT(holder->state) & STATES_WAITING;
    if (mode == UNIQUE_REPLACE && waits) {
        m->reply->replaced_seq = holder->seq;
        return false;
    }
    say(m, mode == UNIQUE_RETURN ? OUT_OK : OUT_DUPLICATE, holder);
    return true;
}

static bool enqueue_refused(struct model *m, const struct op_enqueue *op, struct model_queue *q)
{
    const struct queue_policy *p = q ? &q->policy : &m->policy;
    if (p->refuse_new)
        say(m, OUT_REFUSED_NEW, NULL);
    else if (op->payload.len > p->payload_max)
        say(m, OUT_TOO_BIG, NULL);
    else if (enqueue_by_unique(m, op, q))
        return true;
    else if (!m->reply->replaced_seq && q && count_live(m, q) >= p->capacity)
        say(m, OUT_QUEUE_FULL, NULL);
    else if (!m->reply->replaced_seq && m->capacity && count_live(m, NULL) >= m->capacity)
        say(m, OUT_SERVER_FULL, NULL);
    else if (op->idempotency_key.len && keys_held(m) >= m->keys_max)
        say(m, OUT_KEYS_FULL, NULL);
    else
        return false;
    m->reply->replaced_seq = 0;
    return true;
}

/* The caller fills in the sequence that the engine chose. */
static void enqueue(struct model *m, const struct op *o)
{
    const struct op_enqueue *op = &o->enqueue;
    struct model_queue *q = queue_named(m, op->queue);
    if (enqueue_by_key(m, op))
        return;
    if (!q && (op->no_create || m->no_auto_create)) {
        say(m, OUT_NO_QUEUE, NULL);
        return;
    }
    if (enqueue_refused(m, op, q))
        return;
    if (!q)
        q = queue_make(m, op->queue);
    if (m->reply->replaced_seq) {
        enter(m, model_find(m, m->reply->replaced_seq), STATE_CANCELLED, REASON_REPLACED);
        q->counts.cancelled++;
    }
    CHECK(m->job_count < MODEL_JOBS);
    struct model_job *j = &m->jobs[m->job_count];
    *j = (struct model_job){.there = true,
                            .queue = index_of(m, q),
                            .priority = op->has_priority ? op->priority : q->policy.priority,
                            .unique = op->extra.unique,
                            .group = op->extra.group,
                            .expires_at = op->extra.expires_at.ms,
                            .options = op->options};
    j->run_at = op->run_at.ms     ? op->run_at.ms
                : op->delay_ms > 0 ? m->now.wall.ms + op->delay_ms
                                   : 0;
    enter(m, j, j->run_at > m->now.wall.ms ? STATE_SCHEDULED : STATE_READY, REASON_NONE);
    q->counts.enqueued++;
    if (op->idempotency_key.len)
        key_make(m, op);
    m->reply->created = true;
    m->reply->jobs[m->reply->job_count++] = m->job_count++;
    say(m, OUT_OK, j);
}

/* ---- claims --------------------------------------------------------------------------------------- */

static bool named(const struct op_claim *op, struct span queue)
{
    for (uint32_t i = 0; i < op->queue_count; i++)
        if (span_equal(op->queues[i], queue))
            return true;
    return false;
}

/* Its time is over, though no tick has said so yet. */
static bool expired(const struct model *m, const struct model_job *j)
{
    return j->expires_at && j->expires_at <= m->now.wall.ms && !m->suspect;
}

static struct model_job *next_ready(struct model *m, const struct op_claim *op)
{
    struct model_job *best = NULL;
    for (uint32_t i = 0; i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        const struct model_queue *q = queue_of(m, j);
        if (!j->there || j->state != STATE_READY || !named(op, q->name) ||
            q->paused_until > m->now.wall.ms)
            continue;
        if (!best || j->priority > best->priority ||
            (j->priority == best->priority && j->seq < best->seq))
            best = j;
    }
    return best;
}

static void take(struct model *m, struct model_job *j, const struct op_claim *op)
{
    enter(m, j, STATE_RUNNING, REASON_NONE);
    j->lease_ms = op->lease_ms ? op->lease_ms : rules_for(m, j).lease_ms;
    j->armed = j->until = lease_time(m) + j->lease_ms;
    j->nonce = op->nonce;
    j->bound = op->bound;
    queue_of(m, j)->counts.claimed++;
    m->reply->jobs[m->reply->job_count++] = (uint32_t)(j - m->jobs);
}

static void seize(struct model *m, const struct op_claim *op)
{
    struct model_job *j = model_find(m, op->one.seq);
    if (!j) {
        say(m, OUT_NOT_FOUND, NULL);
        return;
    }
    say(m, OUT_OK, j);
    unsigned from = STATES_WAITING | STATE_BIT(STATE_DEAD);
    struct model_job *holder = key_holder(m, queue_of(m, j), j->unique);
    if (!(STATE_BIT(j->state) & from))
        m->reply->outcome = OUT_ILLEGAL;
    else if (holder && holder != j)
        say(m, OUT_DUPLICATE, holder);
    else {
        take(m, j, op);
        m->reply->state = STATE_RUNNING;
    }
}

static void claim(struct model *m, const struct op *o)
{
    const struct op_claim *op = &o->claim;
    struct model_job *j;
    if (op->one.seq) {
        seize(m, op);
        return;
    }
    while (m->reply->job_count < op->count && (j = next_ready(m, op)) != NULL) {
        if (expired(m, j))
            die(m, j, REASON_EXPIRED);
        else
            take(m, j, op);
    }
}

/* ---- what a lease's holder says ------------------------------------------------------------------- */

static const struct model_word *word_said(const struct model *m, const struct op_lease *op)
{
    for (uint32_t i = m->word_count; !op->any_token && i-- > 0;)
        if (m->words[i].seq == op->job.seq && token_equal(m->words[i].token, op->token))
            return &m->words[i];
    return NULL;
}

/* The job when the op may act on its lease; NULL when the reply says why not. */
static struct model_job *holder_of(struct model *m, const struct op *o)
{
    const struct op_lease *op = &o->lease;
    struct model_job *j = model_find(m, op->job.seq);
    bool runs = j && j->state == STATE_RUNNING;
    if (runs && (op->any_token || token_equal(op->token, j->token)))
        return j;
    const struct model_word *w = word_said(m, op);
    enum outcome forgotten = !j                       ? ever(m, op->job.seq) ? OUT_GONE : OUT_NOT_FOUND
                             : op->any_token          ? OUT_ILLEGAL
                             : j->state == STATE_DONE ? OUT_GONE
                                                      : OUT_LEASE_LOST;
    say(m, forgotten, j);
    m->reply->or_else = forgotten;
    if (!w)
        return NULL;
    if (w->token.epoch == m->epoch)
        m->reply->or_else = OUT_OK;
    if (w->kind == o->kind) {
        m->reply->outcome = OUT_OK;
        m->reply->repeat = true;
        m->reply->seq = w->seq;
        m->reply->state = w->state;
        m->reply->run_at = w->run_at;
    } else if (j) {
        m->reply->outcome = OUT_LEASE_LOST;
    }
    return NULL;
}

static void remember(struct model *m, const struct model_job *j, enum op_kind kind)
{
    CHECK(m->word_count < MODEL_WORDS);
    m->words[m->word_count++] =
        (struct model_word){j->seq, j->token, kind, j->state, j->run_at};
}

static void ack(struct model *m, const struct op *o)
{
    struct model_job *j = holder_of(m, o);
    if (!j)
        return;
    enter(m, j, STATE_DONE, REASON_NONE);
    queue_of(m, j)->counts.acked++;
    remember(m, j, OP_ACK);
    say(m, OUT_OK, j);
}

static int64_t asked_for(const struct model *m, const struct op_lease *op)
{
    return op->run_at.ms ? op->run_at.ms : m->now.wall.ms + op->delay_ms;
}

static void fail(struct model *m, const struct op *o)
{
    struct model_job *j = holder_of(m, o);
    if (!j)
        return;
    struct rules r = rules_for(m, j);
    j->failures++;
    queue_of(m, j)->counts.failed++;
    uint32_t used = j->failures + (r.lease_end == LEASE_END_COUNTED ? j->crashes : 0);
    if (o->lease.no_retry)
        die(m, j, REASON_REJECTED);
    else if (used >= r.max_attempts)
        die(m, j, REASON_FAILED);
    else if (o->lease.has_delay)
        wait_until(m, j, asked_for(m, &o->lease), REASON_FAILED);
    else
        back_off(m, j, used, REASON_FAILED);
    remember(m, j, OP_FAIL);
    say(m, OUT_OK, j);
}

static void extend(struct model *m, const struct op *o)
{
    struct model_job *j = holder_of(m, o);
    if (!j)
        return;
    if (o->lease.lease_ms)
        j->lease_ms = o->lease.lease_ms;
    j->until = lease_time(m) + j->lease_ms;
    if (j->armed > j->until)
        j->armed = j->until;
    say(m, OUT_OK, j);
}

static void release(struct model *m, const struct op *o)
{
    struct model_job *j = holder_of(m, o);
    if (!j)
        return;
    if (o->lease.lost)
        lease_end(m, j, true);
    else {
        wait_until(m, j, o->lease.has_delay ? asked_for(m, &o->lease) : 0, REASON_RELEASED);
        queue_of(m, j)->counts.released++;
    }
    if (!o->lease.lost)
        remember(m, j, OP_RELEASE);
    say(m, OUT_OK, j);
}

static void release_claim(struct model *m, const struct op *o)
{
    for (uint32_t i = 0; o->release_claim.nonce && i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        if (!j->there || j->state != STATE_RUNNING || j->nonce != o->release_claim.nonce)
            continue;
        wait_until(m, j, 0, REASON_RELEASED);
        queue_of(m, j)->counts.released++;
        remember(m, j, OP_RELEASE);
        m->reply->count++;
    }
}

/* ---- operators ------------------------------------------------------------------------------------ */

/* The job named, when the move may start from its state. */
static struct model_job *subject(struct model *m, uint64_t seq, unsigned from)
{
    struct model_job *j = model_find(m, seq);
    say(m, j ? OUT_OK : OUT_NOT_FOUND, j);
    if (j && !(STATE_BIT(j->state) & from))
        m->reply->outcome = OUT_ILLEGAL;
    return m->reply->outcome == OUT_OK ? j : NULL;
}

static void cancel_job(struct model *m, struct model_job *j)
{
    enter(m, j, STATE_CANCELLED, REASON_CANCELLED);
    queue_of(m, j)->counts.cancelled++;
}

static void cancel(struct model *m, const struct op *o)
{
    struct model_job *j = subject(m, o->job.job.seq, STATES_LIVE);
    if (!j)
        return;
    cancel_job(m, j);
    say(m, OUT_OK, j);
}

#define REQUEUE_FROM                                                                               \
    (STATE_BIT(STATE_SCHEDULED) | STATE_BIT(STATE_DEAD) | STATE_BIT(STATE_CANCELLED))

/* False when another job holds its key. */
static bool requeue_job(struct model *m, struct model_job *j, int64_t delay_ms)
{
    struct model_job *holder = key_holder(m, queue_of(m, j), j->unique);
    if (holder && holder != j) {
        say(m, OUT_DUPLICATE, holder);
        return false;
    }
    j->failures = j->crashes = 0;
    j->run_at = delay_ms > 0 ? m->now.wall.ms + delay_ms : 0;
    j->state = STATE_NONE; /* it begins to wait anew, even if it was scheduled before */
    enter(m, j, delay_ms > 0 ? STATE_SCHEDULED : STATE_READY, REASON_NONE);
    return true;
}

static void requeue(struct model *m, const struct op *o)
{
    struct model_job *j = subject(m, o->job.job.seq, REQUEUE_FROM);
    if (j && requeue_job(m, j, o->job.delay_ms))
        say(m, OUT_OK, j);
}

static void patch(struct model *m, const struct op *o)
{
    const struct op_patch *op = &o->patch;
    struct model_job *j = subject(m, op->job.seq, STATES_WAITING);
    if (!j)
        return;
    if (op->has_payload && op->payload.len > queue_of(m, j)->policy.payload_max) {
        say(m, OUT_TOO_BIG, j);
        return;
    }
    if (op->has_priority)
        j->priority = op->priority;
    if (op->has_run_at) {
        j->run_at = op->run_at.ms;
        enter(m, j, op->run_at.ms > m->now.wall.ms ? STATE_SCHEDULED : STATE_READY, j->reason);
    }
    say(m, OUT_OK, j);
}

static void remove_job(struct model *m, const struct op *o)
{
    struct model_job *j =
        subject(m, o->job.job.seq, STATES_ALL & ~(unsigned)STATE_BIT(STATE_RUNNING));
    if (!j)
        return;
    drop_job(m, j);
    m->reply->state = STATE_NONE;
}

static void get(struct model *m, const struct op *o)
{
    struct model_job *j = subject(m, o->job.job.seq, STATES_ALL);
    if (j)
        m->reply->jobs[m->reply->job_count++] = (uint32_t)(j - m->jobs);
}

/* ---- queues --------------------------------------------------------------------------------------- */

/* Two jobs that would hold one key if the scope were "kept". */
static bool scope_conflict(const struct model *m, uint32_t queue)
{
    for (uint32_t i = 0; i < m->job_count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const struct model_job *a = &m->jobs[i], *b = &m->jobs[k];
            if (a->there && b->there && a->queue == queue && b->queue == queue && a->unique.len &&
                span_equal(a->unique, b->unique) && a->state != STATE_CANCELLED &&
                b->state != STATE_CANCELLED)
                return true;
        }
    return false;
}

static void queue_put(struct model *m, const struct op *o)
{
    const struct op_queue *op = &o->queue;
    struct model_queue *q = queue_named(m, op->name);
    bool widens = q && op->policy && op->policy->unique_scope == UNIQUE_KEPT &&
                  q->policy.unique_scope != UNIQUE_KEPT;
    if (q && op->must_create)
        say(m, OUT_EXISTS, NULL);
    else if (!q && op->must_exist)
        say(m, OUT_NO_QUEUE, NULL);
    else if (widens && scope_conflict(m, index_of(m, q)))
        say(m, OUT_DUPLICATE, NULL);
    else {
        m->reply->created = !q;
        if (!q)
            q = queue_make(m, op->name);
        if (op->policy)
            q->policy = *op->policy;
    }
}

static struct model_queue *queue_asked(struct model *m, struct span name)
{
    struct model_queue *q = queue_named(m, name);
    if (!q)
        say(m, OUT_NO_QUEUE, NULL);
    return q;
}

static void empty_queue(struct model *m, const struct model_queue *q, unsigned states)
{
    for (uint32_t i = 0; i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        if (j->there && j->queue == index_of(m, q) && (STATE_BIT(j->state) & states)) {
            j->there = false;
            queue_of(m, j)->purged++;
            m->reply->count++;
        }
    }
}

static void queue_delete(struct model *m, const struct op *o)
{
    struct model_queue *q = queue_asked(m, o->queue.name);
    if (!q)
        return;
    empty_queue(m, q, STATES_ALL);
    q->there = false;
}

static void purge(struct model *m, const struct op *o)
{
    struct model_queue *q = queue_asked(m, o->queue.name);
    if (q)
        empty_queue(m, q, STATES_WAITING);
}

static void pause_queue(struct model *m, const struct op *o)
{
    struct model_queue *q = queue_asked(m, o->queue.name);
    if (q)
        q->paused_until = o->queue.until.ms;
}

static void queue_get(struct model *m, const struct op *o)
{
    struct model_queue *q = queue_asked(m, o->queue.name);
    if (!q)
        return;
    struct queue_counts *c = &m->reply->counts;
    *c = q->counts;
    c->oldest_ready_ms = -1;
    for (uint32_t i = 0; i < m->job_count; i++) {
        const struct model_job *j = &m->jobs[i];
        if (!j->there || j->queue != index_of(m, q))
            continue;
        c->by_state[j->state]++;
        int64_t age = m->now.wall.ms - j->since;
        if (j->state == STATE_READY && age > c->oldest_ready_ms)
            c->oldest_ready_ms = age;
        if (j->state == STATE_SCHEDULED && (!c->next_due.ms || j->run_at < c->next_due.ms))
            c->next_due.ms = j->run_at;
    }
}

/* The first of the jobs not yet shown, in the order that the state asks for. */
static bool shown_before(const struct model_job *a, const struct model_job *b)
{
    if (a->state == STATE_READY)
        return a->priority != b->priority ? a->priority > b->priority : a->seq < b->seq;
    if (a->state == STATE_SCHEDULED)
        return a->run_at != b->run_at ? a->run_at < b->run_at : a->seq < b->seq;
    return a->since != b->since ? a->since < b->since : a->entered < b->entered;
}

static void peek(struct model *m, const struct op *o)
{
    struct model_queue *q = queue_asked(m, o->peek.queue);
    struct model_reply *r = m->reply;
    while (q && r->job_count < o->peek.limit) {
        const struct model_job *best = NULL;
        for (uint32_t i = 0; i < m->job_count; i++) {
            const struct model_job *j = &m->jobs[i];
            bool shown = false;
            for (uint32_t k = 0; k < r->job_count; k++)
                shown = shown || r->jobs[k] == i;
            if (!shown && j->there && j->queue == index_of(m, q) && j->state == o->peek.state &&
                (!best || shown_before(j, best)))
                best = j;
        }
        if (!best)
            break;
        r->jobs[r->job_count++] = (uint32_t)(best - m->jobs);
    }
}

static void bulk(struct model *m, const struct op *o)
{
    struct model_queue *q = queue_asked(m, o->bulk.queue);
    if (!q)
        return;
    CHECK(m->bulk_count < MODEL_BULKS);
    m->bulks[m->bulk_count++] =
        (struct model_bulk){&o->bulk, o->tag, m->entered, index_of(m, q)};
    m->reply->kind = OP_TICK; /* not yet */
}

typedef void model_fn(struct model *m, const struct op *op);
static model_fn *const ops[OP_KIND_COUNT] = {
    [OP_ENQUEUE] = enqueue,      [OP_CLAIM] = claim,
    [OP_ACK] = ack,              [OP_FAIL] = fail,
    [OP_EXTEND] = extend,        [OP_RELEASE] = release,
    [OP_CANCEL] = cancel,        [OP_RELEASE_CLAIM] = release_claim,
    [OP_REQUEUE] = requeue,      [OP_PATCH] = patch,
    [OP_REMOVE] = remove_job,    [OP_QUEUE_PUT] = queue_put,
    [OP_PAUSE] = pause_queue,    [OP_QUEUE_DELETE] = queue_delete,
    [OP_QUEUE_GET] = queue_get,  [OP_PURGE] = purge,
    [OP_BULK] = bulk,            [OP_GET] = get,
    [OP_PEEK] = peek,
};

bool model_op(struct model *m, const struct op *op, struct model_reply *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->kind = op->kind;
    ret->tag = op->tag;
    m->reply = ret;
    ops[op->kind](m, op);
    return ret->kind != OP_TICK;
}

/* ---- time ----------------------------------------------------------------------------------------- */

static bool bulk_moves(struct model *m, const struct model_bulk *b, struct model_job *j)
{
    switch ((enum bulk_action)b->op->action) {
    case BULK_REQUEUE:
        return requeue_job(m, j, 0);
    case BULK_CANCEL:
        cancel_job(m, j);
        return true;
    case BULK_REMOVE:
        drop_job(m, j);
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
        [BULK_REQUEUE] = REQUEUE_FROM,
        [BULK_CANCEL] = STATES_LIVE,
        [BULK_REMOVE] = STATES_ALL & ~(1u << STATE_RUNNING),
    };
    unsigned states = from[b->op->action] & (b->op->states ? b->op->states : STATES_ALL);
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
                r->count++;
            else
                r->refused++;
        }
    }
    *r = (struct model_reply){
        .kind = OP_BULK, .tag = b->tag, .count = r->count, .refused = r->refused};
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
        drop_job(m, oldest);
    }
}

static void prune_queue(struct model *m, uint32_t q)
{
    const struct queue_policy *p = &m->queues[q].policy;
    prune(m, q, STATE_DONE, p->keep_done, p->keep_done_ms);
    prune(m, q, STATE_CANCELLED, p->keep_done, p->keep_done_ms);
    prune(m, q, STATE_DEAD, p->keep_dead, p->keep_dead_ms);
}

void model_trim(struct model *m)
{
    for (uint32_t q = 0; q < MODEL_QUEUES; q++) {
        const struct queue_policy *p = &m->queues[q].policy;
        uint64_t done, cancelled, dead;
        (void)oldest_of(m, q, STATE_DONE, &done);
        (void)oldest_of(m, q, STATE_CANCELLED, &cancelled);
        (void)oldest_of(m, q, STATE_DEAD, &dead);
        if (done > p->keep_done || cancelled > p->keep_done || dead > p->keep_dead)
            prune_queue(m, q);
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
    while ((j = first_due(m, lease_due, lease_time(m))) != NULL) {
        if (j->until <= lease_time(m))
            lease_end(m, j, false);
        else
            j->armed = j->until;
    }
    for (uint32_t i = 0; i < m->job_count; i++)
        if (m->jobs[i].there && m->jobs[i].state == STATE_SCHEDULED &&
            m->jobs[i].run_at <= m->now.wall.ms)
            enter(m, &m->jobs[i], STATE_READY, m->jobs[i].reason);
    while ((j = first_due(m, expiry_due, m->now.wall.ms)) != NULL)
        die(m, j, REASON_EXPIRED);
}

static void tick_keys(struct model *m)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < m->key_count; i++)
        if (!key_over(m, &m->keys[i]))
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
            remember(m, j, OP_ACK);
        else if (failed)
            remember(m, j, OP_FAIL);
        else if (j->reason == REASON_RELEASED)
            remember(m, j, OP_RELEASE);
    }
}

/* A new process: leases begin anew, those bound to a connection are given back uncounted. */
void model_boot(struct model *m, struct now now)
{
    m->epoch++;
    m->stepped = false;
    m->suspect = false;
    m->skipped_ms = 0;
    model_time(m, now);
    m->bulk_count = 0;
    boot_words(m);
    for (uint32_t i = 0; i < MODEL_QUEUES; i++)
        memset(&m->queues[i].counts, 0, sizeof(m->queues[i].counts));
    for (uint32_t i = 0; i < m->job_count; i++) {
        struct model_job *j = &m->jobs[i];
        if (!j->there || j->state != STATE_RUNNING)
            continue;
        j->armed = j->until = lease_time(m) + j->lease_ms;
        j->nonce = 0;
        if (j->bound) {
            wait_until(m, j, 0, REASON_RESTARTED);
        }
    }
}
