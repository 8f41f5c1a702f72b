/* SPDX-License-Identifier: Apache-2.0 */
/* The model: enqueue, unique keys, idempotency keys. */
#include <string.h>

#include "base/check.h"
#include "sim/model/model_impl.h"

static uint64_t count_live(const struct model *m, const struct model_queue *q)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->job_count; i++)
        n += m->jobs[i].there && (STATE_BIT(m->jobs[i].state) & STATES_LIVE) &&
             (!q || m->jobs[i].queue == model_queue_index(m, q));
    return n;
}

/* ---- enqueue --------------------------------------------------------------------------------- */

bool model_key_over(const struct model *m, const struct model_key *k)
{
    return k->expires_at <= m->now.wall.ms && !m->suspect;
}

/* A key that is over, but was not swept yet, makes room for its successor, in a queue that is there
 * already. */
static bool keys_full(struct model *m, const struct model_queue *q, struct span key)
{
    if (!q && m->key_count >= m->keys_max)
        return true;
    uint32_t left = 0;
    for (uint32_t i = 0; i < m->key_count; i++)
        if (!span_equal(m->keys[i].key, key))
            m->keys[left++] = m->keys[i];
    m->key_count = left;
    return m->key_count >= m->keys_max;
}

static bool enqueue_by_key(struct model *m, const struct op_enqueue *op)
{
    for (uint32_t i = 0; op->idempotency_key.len && i < m->key_count; i++) {
        const struct model_key *k = &m->keys[i];
        if (!span_equal(k->key, op->idempotency_key) || model_key_over(m, k))
            continue;
        if (k->fingerprint != op->fingerprint) {
            model_say(m, OUT_KEY_REUSED, NULL);
            return true;
        }
        model_say(m, OUT_OK, model_find(m, k->seq));
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
    m->keys[m->key_count++] = (struct model_key){op->idempotency_key, op->fingerprint, 0, expires};
}

/* True when the key's holder decides the matter. */
static bool enqueue_by_unique(struct model *m, const struct op_enqueue *op, struct model_queue *q)
{
    struct model_job *holder = q ? model_key_holder(m, q, op->extra.unique) : NULL;
    if (!holder)
        return false;
    uint8_t mode = op->unique_mode ? op->unique_mode : q->policy.unique_mode;
    bool waits = STATE_BIT(holder->state) & STATES_WAITING;
    if (mode == UNIQUE_REPLACE && waits) {
        m->reply->replaced_seq = holder->seq;
        return false;
    }
    model_say(m, mode == UNIQUE_RETURN ? OUT_OK : OUT_DUPLICATE, holder);
    return true;
}

static bool enqueue_refused(struct model *m, const struct op_enqueue *op, struct model_queue *q)
{
    const struct queue_policy *p = q ? &q->policy : &m->policy;
    if (p->refuse_new)
        model_say(m, OUT_REFUSED_NEW, NULL);
    else if (op->payload.len > p->payload_max)
        model_say(m, OUT_TOO_BIG, NULL);
    else if (enqueue_by_unique(m, op, q))
        return true;
    else if (!m->reply->replaced_seq && q && count_live(m, q) >= p->capacity)
        model_say(m, OUT_QUEUE_FULL, NULL);
    else if (!m->reply->replaced_seq && m->capacity && count_live(m, NULL) >= m->capacity)
        model_say(m, OUT_SERVER_FULL, NULL);
    else if (op->idempotency_key.len && keys_full(m, q, op->idempotency_key))
        model_say(m, OUT_KEYS_FULL, NULL);
    else
        return false;
    m->reply->replaced_seq = 0;
    return true;
}

/* The caller fills in the sequence that the engine chose. */
void model_op_enqueue(struct model *m, const struct op *o)
{
    const struct op_enqueue *op = &o->enqueue;
    struct model_queue *q = model_queue_named(m, op->queue);
    if (enqueue_by_key(m, op))
        return;
    if (!q && (op->no_create || m->no_auto_create)) {
        model_say(m, OUT_NO_QUEUE, NULL);
        return;
    }
    if (enqueue_refused(m, op, q))
        return;
    if (!q)
        q = model_queue_make(m, op->queue);
    if (m->reply->replaced_seq) {
        model_enter(m, model_find(m, m->reply->replaced_seq), STATE_CANCELLED, REASON_REPLACED);
        q->counts.cancelled++;
    }
    CHECK(m->job_count < MODEL_JOBS);
    struct model_job *j = &m->jobs[m->job_count];
    *j = (struct model_job){.there = true,
                            .queue = model_queue_index(m, q),
                            .priority = op->has_priority ? op->priority : q->policy.priority,
                            .unique = op->extra.unique,
                            .group = op->extra.group,
                            .expires_at = op->extra.expires_at.ms,
                            .options = op->options};
    j->run_at = op->run_at.ms      ? op->run_at.ms
                : op->delay_ms > 0 ? m->now.wall.ms + op->delay_ms
                                   : 0;
    model_enter(m, j, j->run_at > m->now.wall.ms ? STATE_SCHEDULED : STATE_READY, REASON_NONE);
    q->counts.enqueued++;
    if (op->idempotency_key.len)
        key_make(m, op);
    m->reply->created = true;
    m->reply->jobs[m->reply->job_count++] = m->job_count++;
    model_say(m, OUT_OK, j);
}
