/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the answer of the load: rows, queues, keys, and the time. */
#include "backend/redis/impl.h"

/* Indexes in the answer of lua/load.lua. */
enum answer {
    IS_NOW,
    IS_STORES,
    IS_SEQ,
    IS_NUMBER,
    IS_SEQ_HIGH,
    IS_KEYS,
    IS_LIVE,
    IS_HELD,
    IS_QUEUES,
    IS_COUNTED,
    IS_ROWS,
    IS_IDEMS,
    IS_KEPT_REPLIES,
    IS_TAKEN,
    IS_KEYS_VALUES,
    IS_STORES_BEFORE, /* the load itself counts as a store when it draws numbers */
    IS_RULES,
    IS_QUEUES_THERE,
    IS_DEPENDENCIES,
    IS_LIMITS,
    ANSWER_COUNT
};

/* --- queues --- */

int rd_load_queues(struct unit *u, const redisReply *r)
{
    for (size_t i = 0; i + 1 < reply_count(r); i += 2) {
        struct wqueue space = {.number = 0};
        int err = redis_queue_decode(reply_span(reply_at(r, i + 1)), &space);
        if (err)
            return err;
        if (unit_queue(u, space.number))
            continue;
        struct wqueue *q = unit_queue_add(u, space.number, space.name);
        if (!q)
            return -ERR_NOMEM;
        space.ready = q->ready;
        space.was_limited = claim_limited(&space.policy);
        *q = space;
        queue_cache_learn(u->s, q);
    }
    return 0;
}

static void load_counts(struct unit *u, const redisReply *r)
{
    for (size_t i = 0; i + 1 < reply_count(r); i += 2) {
        struct wqueue *q = unit_queue(u, (uint32_t)rd_reply_int(reply_at(r, i)));
        for (size_t c = 0; q && c < SUM_COUNT; c++)
            q->sums[c] = rd_reply_int(reply_at(reply_at(r, i + 1), c));
        if (!q)
            continue;
        q->counted = true;
        queue_cache_learn(u->s, q);
    }
}

/* --- jobs --- */

struct row *rd_load_row(struct unit *u, struct span name, struct span packed)
{
    uint64_t seq = redis_seq_decode(name);
    struct row *row = unit_row(u, seq);
    if (row)
        return row;
    row = unit_row_add(u, seq);
    if (!row)
        return NULL;
    if (redis_row_decode(seq, packed, row) != 0) {
        log_event(u->s->config.log, LOG_ERROR, "redis_row_damaged", LOG_INT("seq", seq));
        return unit_row_absent(u, row);
    }
    row->loaded_state = row->job.state;
    row->q = unit_queue(u, row->job.queue);
    if (!row->q)
        return unit_row_absent(u, row);
    row->held = row->was_held =
        row->extra.unique.len && unique_holds(row->q->policy.unique_scope, row->job.state);
    return row;
}

static void load_rows(struct unit *u, const redisReply *r)
{
    for (size_t i = 0; i + 1 < reply_count(r); i += 2)
        if (!rd_load_row(u, reply_span(reply_at(r, i)), reply_span(reply_at(r, i + 1))))
            return;
}

/* Small bodies come with the row; larger ones are fetched when it is known which claim gets
 * them. */
static void load_taken(struct unit *u, const redisReply *r)
{
    for (size_t i = 0; i + 4 < reply_count(r); i += 5) {
        struct row *row =
            rd_load_row(u, reply_span(reply_at(r, i)), reply_span(reply_at(r, i + 1)));
        if (!row)
            return;
        if (redis_packed_bits(row->packed) & ROW_SMALL) {
            row->payload = reply_span(reply_at(r, i + 2));
            row->result = reply_span(reply_at(r, i + 3));
            row->error = reply_span(reply_at(r, i + 4));
            row->has_payload = true;
        }
        rd_limits_claimable(u, row);
    }
}

/* --- the rest --- */

static int load_idems(struct unit *u, const redisReply *r)
{
    for (size_t i = 0; i + 1 < reply_count(r); i += 2) {
        struct idem *k = unit_alloc(u, sizeof *k);
        struct span key = reply_span(reply_at(r, i));
        if (!k)
            return -ERR_NOMEM;
        if (key.len != sizeof k->key || redis_idem_decode(reply_span(reply_at(r, i + 1)), k) != 0)
            return -ERR_CORRUPT;
        memcpy(&k->key, key.at, sizeof k->key);
        k->next = u->idems;
        u->idems = k;
    }
    return 0;
}

static int load_kept_replies(struct unit *u, const redisReply *r)
{
    for (size_t i = 0; i + 1 < reply_count(r); i += 2) {
        struct kept_reply *w = unit_alloc(u, sizeof *w);
        struct span token = reply_span(reply_at(r, i));
        if (!w)
            return -ERR_NOMEM;
        if (token.len != TOKEN_BYTES || redis_reply_decode(reply_span(reply_at(r, i + 1)), w) != 0)
            return -ERR_CORRUPT;
        w->token = redis_token_decode(token.at);
        w->next = u->loaded_replies;
        u->loaded_replies = w;
    }
    return 0;
}

static void load_numbers(struct unit *u, uint64_t seq, uint64_t number)
{
    u->seqs = unit_alloc(u, (u->seq_count + 1) * sizeof *u->seqs);
    u->numbers = unit_alloc(u, (u->number_count + 1) * sizeof *u->numbers);
    for (size_t i = 0; u->seqs && i < u->seq_count; i++)
        u->seqs[i] = seq + i + 1;
    for (size_t i = 0; u->numbers && i < u->number_count; i++)
        u->numbers[i] = (uint32_t)(number + i + 1);
}

static void load_facts(struct item *it, const redisReply *r)
{
    struct unit *u = &it->unit;
    struct span stores = reply_span(reply_at(r, IS_STORES));
    u->now.ms = rd_reply_time(reply_at(r, IS_NOW));
    shared_clock_heard(&rd_of_unit(u)->sh, u->now.ms);
    /* What an earlier call has read is still valid if nothing was stored in between. */
    if (!it->stores_known ||
        span_equal(reply_span(reply_at(r, IS_STORES_BEFORE)), span_text(it->stores)))
        snprintf(it->stores, sizeof it->stores, "%.*s", (int)stores.len,
                 stores.at ? stores.at : "");
    u->seq_high = rd_reply_count(reply_at(r, IS_SEQ_HIGH));
    u->keys = rd_reply_count(reply_at(r, IS_KEYS));
    int64_t live = rd_reply_int(reply_at(r, IS_LIVE));
    u->live = live > 0 ? (uint64_t)live : 0;
    int64_t queues = rd_reply_int(reply_at(r, IS_QUEUES_THERE));
    u->queues_there = queues > 0 ? (uint64_t)queues : 0;
    it->held = rd_reply_int(reply_at(r, IS_HELD)) != 0;
    it->idems = reply_at(r, IS_IDEMS);
    it->rules = unit_may_notify(u) ? rd_rules_version(reply_at(r, IS_RULES)) : 0;
    load_numbers(u, rd_reply_count(reply_at(r, IS_SEQ)), rd_reply_count(reply_at(r, IS_NUMBER)));
}

int rd_unit_loaded(struct item *it, const redisReply *r)
{
    struct unit *u = &it->unit;
    if (reply_count(r) != ANSWER_COUNT)
        return -ERR_CORRUPT;
    load_facts(it, r);
    int err = rd_load_queues(u, reply_at(r, IS_QUEUES));
    if (!err)
        err = load_idems(u, reply_at(r, IS_IDEMS));
    if (!err)
        err = load_kept_replies(u, reply_at(r, IS_KEPT_REPLIES));
    if (err)
        return err;
    load_counts(u, reply_at(r, IS_COUNTED));
    load_rows(u, reply_at(r, IS_ROWS));
    rd_limits_loaded(u, reply_at(r, IS_LIMITS));
    load_taken(u, reply_at(r, IS_TAKEN));
    rd_dependencies_loaded(u, reply_at(r, IS_DEPENDENCIES));
    if (u->wkey_count || u->version_count)
        rd_kv_loaded(it, reply_at(r, IS_KEYS_VALUES));
    return u->nomem ? -ERR_NOMEM : 0;
}

bool rd_keys_answered(struct item *it, redisReply *r)
{
    if (!rd_item_answered(it, r, false))
        return false;
    rd_kv_loaded(it, reply_at(r, IS_KEYS_VALUES));
    return true;
}

/* --- jobs that share a unique key --- */

bool rd_unit_needs_sharers(struct item *it)
{
    const struct wqueue *q;
    if (it->sharers_asked || !unit_queue_widens(&it->unit, &q))
        return false;
    it->sharers_asked = true;
    rd_item_call(it, SCRIPT_SHARERS);
    redis_args_int(&it->args, q->number);
    redis_args_bytes(&it->args, ROW_SPAN(q->packed.at, queue, generation));
    redis_args_int(&it->args, SHARED_SHOWN);
    return true;
}

void rd_unit_sharers_loaded(struct item *it, const redisReply *r)
{
    struct unit *u = &it->unit;
    const redisReply *jobs = reply_at(r, 1);
    const struct wqueue *q = NULL;
    size_t n = reply_count(jobs) / 3;
    (void)unit_queue_widens(u, &q);
    if (n == 0 || !q)
        return;
    u->sharers = arena_array(&u->arena, n, sizeof *u->sharers);
    u->nomem |= !u->sharers;
    for (size_t i = 0; u->sharers && i < n; i++) {
        const redisReply *five[5] = {reply_at(jobs, 3 * i), reply_at(jobs, 3 * i + 1), NULL, NULL,
                                     reply_at(jobs, 3 * i + 2)};
        u->sharer_count += rd_view_row(u, five, q, true, &u->sharers[u->sharer_count]);
    }
    u->sharers_beyond = rd_reply_count(reply_at(r, 0));
}
