/* SPDX-License-Identifier: Apache-2.0 */
/* What a unit does for enqueues: idempotency keys, rate limits, new rows. */
#include "backend/shared/shared.h"
#include "base/check.h"

/* --- idempotency keys --- */

static struct idem *idem_find(const struct unit *u, struct hash128 key)
{
    struct idem *k = u->idems;
    while (k && !hash128_equal(k->key, key))
        k = k->next;
    return k;
}

bool unit_idempotency_find(struct ops *o, struct hash128 key, struct idempotency_state *ret)
{
    const struct unit *u = unit_of(o);
    const struct idem *k = idem_find(u, key);
    if (!k || k->expires_at.ms <= u->now.ms)
        return false;
    const struct row *r = unit_row(u, k->seq);
    bool there = r && unit_row_there(r);
    *ret = (struct idempotency_state){k->fingerprint, k->seq, k->id_hi, k->state};
    if (r)
        ret->state = there ? r->job.state : STATE_NONE;
    return true;
}

enum outcome unit_idempotency_room(struct ops *o, struct hash128 key, size_t ahead)
{
    const struct unit *u = unit_of(o);
    uint64_t max = u->s->config.keys_max ? u->s->config.keys_max : DEFAULT_KEYS_MAX;
    uint64_t used = u->keys + (uint64_t)u->key_adds + ahead - (idem_find(u, key) != NULL);
    return used < max ? OUT_OK : OUT_KEYS_FULL;
}

void unit_idempotency_keep(struct ops *o, struct hash128 key, uint64_t fingerprint,
                           const struct job *j)
{
    struct unit *u = unit_of(o);
    struct idem *k = idem_find(u, key);
    bool replaces = k != NULL;
    if (!k) {
        k = unit_alloc(u, sizeof *k);
        if (!k)
            return;
        k->next = u->idems;
        u->idems = k;
    }
    uint64_t ttl = u->s->config.key_ttl_ms ? u->s->config.key_ttl_ms : DEFAULT_KEY_TTL_MS;
    k->key = key;
    k->fingerprint = fingerprint;
    k->seq = j->seq;
    k->id_hi = j->id_hi;
    k->expires_at.ms = u->now.ms + (int64_t)ttl;
    k->fresh = true;
    u->key_adds += !replaces;
    u->idem_replaced |= replaces;
}

/* --- rate limits: the buckets are this node's, in memory --- */

#define RATES_MAX 100000 /* beyond it all are forgotten, which gives each key one more burst */

int64_t unit_rate_full_us(struct ops *o, const struct rate_share *share)
{
    const struct unit *u = unit_of(o);
    int64_t full = (int64_t)map128_get(&u->s->rates, share->key);
    full = rate_full_us(full, u->rate_now_us, share->window_us);
    for (const struct rate_taken *t = u->rates; t; t = t->next)
        full += hash128_equal(t->share.key, share->key) ? share->share_us : 0;
    return full;
}

void unit_rate_take(struct ops *o, const struct rate_share *share)
{
    struct unit *u = unit_of(o);
    struct rate_taken *t = unit_alloc(u, sizeof *t);
    if (!t)
        return;
    t->share = *share;
    t->next = u->rates;
    u->rates = t;
}

void unit_rates_take(struct unit *u)
{
    struct shared *s = u->s;
    for (const struct rate_taken *t = u->rates; t; t = t->next) {
        if (map128_count(&s->rates) >= RATES_MAX) {
            map128_done(&s->rates);
            map128_init(&s->rates);
        }
        int64_t kept = (int64_t)map128_get(&s->rates, t->share.key);
        int64_t full = rate_full_us(kept, u->rate_now_us, t->share.window_us) + t->share.share_us;
        if (map128_put(&s->rates, t->share.key, (uint64_t)full) != 0)
            return; /* no memory: this one was free */
    }
}

/* --- the job --- */

/* Its earlier attempts in another store; the last attempt of a done job is shown from its row. */
static void fill_attempts(struct unit *u, const struct job_moved *m, struct row *r)
{
    for (uint32_t i = 0; i < m->attempt_count; i++) {
        const struct attempt_view *a = &m->attempts[i];
        if (i + 1 == m->attempt_count && r->job.state == STATE_DONE && a->outcome == ATTEMPT_DONE) {
            r->started_at = a->started_at;
            r->worker = a->worker;
            return;
        }
        if (r->job.state != STATE_DONE)
            r->started_at = a->started_at;
        unit_ended_add(u, &(struct ended){.row = r,
                                          .number = a->number,
                                          .started_at = a->started_at,
                                          .at = a->ended_at,
                                          .outcome = a->outcome,
                                          .error_kind = a->error_kind,
                                          .worker = a->worker,
                                          .error = a->error});
    }
}

static void fill_moved(struct unit *u, const struct job_moved *m, struct row *r)
{
    r->moved = true;
    r->result_kind = m->result_kind;
    r->result = m->result;
    r->set_result = m->result_kind != PAYLOAD_NONE;
    fill_attempts(u, m, r);
    if (m->seq > u->seq_floor)
        u->seq_floor = m->seq;
}

struct row *unit_job_create(struct unit *u, const struct enqueue_plan *p)
{
    const struct op_enqueue *want = p->want;
    const struct rec_job_new *n = &p->rec.job_new;
    CHECK(want->drawn || u->seq_next < u->seq_count);
    struct row *r = unit_row_add(u, n->job.seq ? n->job.seq : u->seqs[u->seq_next]);
    struct wqueue *q = (struct wqueue *)p->q;
    if (!r)
        return NULL;
    u->seq_next += !want->drawn;
    uint64_t seq = r->job.seq;
    r->fresh = true;
    r->q = q;
    r->extra = n->extra;
    r->job = n->job;
    r->job.seq = seq;
    r->payload = n->payload;
    r->has_payload = true;
    if (want->past) {
        r->error_kind = want->past->error_kind;
        r->error = want->past->error;
        r->progress = want->past->progress;
        r->log = want->past->log;
        r->set_report = r->progress.len || r->log.len;
        if (want->past->steps.len)
            unit_row_steps(u, r, want->past->steps);
    }
    if (want->moved)
        fill_moved(u, want->moved, r);
    unit_row_after(u, r);
    counters_add_record((uint64_t *)&q->adds[SUM_COUNTERS], NULL, &p->rec, NULL);
    u->live += !enqueue_comes_ended(want);
    if (!want->moved) /* else it did not happen here */
        unit_tell(u, EVENT_ENQUEUED, r);
    struct cached_queue *k = queue_cache_find(u->s, q->name);
    if (k)
        k->live += (STATE_BIT(r->job.state) & STATES_LIVE) != 0;
    return r;
}
