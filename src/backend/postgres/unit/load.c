/* SPDX-License-Identifier: Apache-2.0 */
/* What a unit reads: collected from its operations, and requested in one round. */
#include "backend/postgres/impl.h"
#include "base/check.h"

/* --- the statements --- */

static void send_as(struct unit *u, enum load_slot slot, enum sql_id id)
{
    pg_unit(u)->slots[slot] = pg_conn_sent(pg_pipeline_of(u));
    pg_conn_send(pg_pipeline_of(u), id, &pg_unit(u)->args);
}

static void names_array(struct unit *u, bool counts_only)
{
    pg_array_begin(&pg_unit(u)->args, ARRAY_TEXT);
    for (size_t i = 0; i < u->name_count; i++)
        if (!counts_only || u->names[i].counts)
            pg_array_blob(&pg_unit(u)->args, u->names[i].name);
    pg_array_end(&pg_unit(u)->args);
}

typedef bool (*chosen_fn)(const struct op *op);

static bool any_job(const struct op *op)
{
    return op_seq(op) != 0;
}

/* Jobs to which dependencies are added belong to any_job. */
static size_t seqs_array(struct unit *u, chosen_fn chosen)
{
    size_t n = 0;
    pg_array_begin(&pg_unit(u)->args, ARRAY_I8);
    for (size_t i = 0; i < u->count; i++)
        if (chosen(u->turns[i].op)) {
            pg_array_i8(&pg_unit(u)->args, (int64_t)op_seq(u->turns[i].op));
            n++;
        }
    for (size_t i = 0; chosen == any_job && i < u->deps.open_count; i++, n++)
        pg_array_i8(&pg_unit(u)->args, (int64_t)u->deps.open[i]);
    pg_array_end(&pg_unit(u)->args);
    return n;
}

static void send_queues(struct unit *u)
{
    names_array(u, false);
    seqs_array(u, any_job);
    send_as(u, LOAD_LOCKS, u->alone ? SQL_LOCK_ALONE : SQL_LOCK_SHARED);
    send_as(u, LOAD_NOW, SQL_NOW);
    names_array(u, false);
    seqs_array(u, any_job);
    pg_array_begin(&pg_unit(u)->args, ARRAY_I4);
    pg_array_end(&pg_unit(u)->args);
    send_as(u, LOAD_QUEUES, SQL_QUEUES);
    size_t counts = 0;
    for (size_t i = 0; i < u->name_count; i++)
        counts += u->names[i].counts;
    if (counts || u->s->any_warned) {
        names_array(u, !u->s->any_warned);
        seqs_array(u, any_job);
        send_as(u, LOAD_COUNTS, SQL_COUNTS);
    }
    if (u->number_count) {
        pg_args_i4(&pg_unit(u)->args, (int32_t)u->number_count);
        send_as(u, LOAD_NUMBERS, SQL_NUMBERS);
    }
}

static bool send_jobs(struct unit *u)
{
    size_t n = seqs_array(u, any_job);
    if (n == 0) {
        pg_args_clear(&pg_unit(u)->args);
        return false;
    }
    send_as(u, LOAD_JOBS, SQL_JOBS);
    if (seqs_array(u, op_revives) > 0)
        send_as(u, LOAD_RIVALS, SQL_RIVALS);
    else
        pg_args_clear(&pg_unit(u)->args);
    return true;
}

/* The jobs of the others are loaded with their groups (limits.c). */
static bool by_priority(const struct wanted_name *n)
{
    return n->claims && !n->ordered;
}

static void send_claims(struct unit *u)
{
    size_t n = 0;
    pg_array_begin(&pg_unit(u)->args, ARRAY_TEXT);
    for (size_t i = 0; i < u->name_count; i++)
        if (by_priority(&u->names[i])) {
            pg_array_blob(&pg_unit(u)->args, u->names[i].name);
            n++;
        }
    pg_array_end(&pg_unit(u)->args);
    pg_array_begin(&pg_unit(u)->args, ARRAY_I4);
    for (size_t i = 0; i < u->name_count; i++)
        if (by_priority(&u->names[i]))
            pg_array_i4(&pg_unit(u)->args, (int32_t)u->names[i].claims);
    pg_array_end(&pg_unit(u)->args);
    pg_args_i8(&pg_unit(u)->args, shared_manual_now(u->s));
    if (n)
        send_as(u, LOAD_CLAIMS, SQL_CLAIM);
    else
        pg_args_clear(&pg_unit(u)->args);
}

/* Called for each enqueue of the unit, in order. */
typedef void (*enqueue_fn)(struct unit *u, const struct op_enqueue *want);

static void each_enqueue(struct unit *u, enqueue_fn fn)
{
    const struct op_enqueue *list;
    for (size_t i = 0; i < u->count; i++) {
        size_t count = turn_enqueues(&u->turns[i], &list);
        for (size_t k = 0; k < count; k++)
            fn(u, &list[k]);
    }
}

/* Bytes that are not text cannot be the key of a job; the enqueue is refused. */
static bool has_key(const struct op_enqueue *want)
{
    return want->extra.unique.len && unit_text_safe(want->extra.unique) &&
           unit_text_safe(want->queue);
}

static void add_key_queue(struct unit *u, const struct op_enqueue *want)
{
    if (has_key(want))
        pg_array_blob(&pg_unit(u)->args, want->queue);
}

static void add_key(struct unit *u, const struct op_enqueue *want)
{
    if (has_key(want))
        pg_array_blob(&pg_unit(u)->args, want->extra.unique);
}

static void send_holders(struct unit *u)
{
    pg_array_begin(&pg_unit(u)->args, ARRAY_TEXT);
    each_enqueue(u, add_key_queue);
    size_t n = pg_unit(u)->args.elements;
    pg_array_end(&pg_unit(u)->args);
    pg_array_begin(&pg_unit(u)->args, ARRAY_TEXT);
    each_enqueue(u, add_key);
    pg_array_end(&pg_unit(u)->args);
    if (n)
        send_as(u, LOAD_HOLDERS, SQL_HOLDERS);
    else
        pg_args_clear(&pg_unit(u)->args);
}

static void add_idem_half(struct unit *u, const struct op_enqueue *want, bool low)
{
    if (!want->idempotency_key.len)
        return;
    struct hash128 key = hash128_of(u->s->facts.hash_key, want->idempotency_key);
    pg_array_i8(&pg_unit(u)->args, (int64_t)(low ? key.lo : key.hi));
}

static void add_idem_high(struct unit *u, const struct op_enqueue *want)
{
    add_idem_half(u, want, false);
}

static void add_idem_low(struct unit *u, const struct op_enqueue *want)
{
    add_idem_half(u, want, true);
}

static void send_idem(struct unit *u)
{
    pg_array_begin(&pg_unit(u)->args, ARRAY_I8);
    each_enqueue(u, add_idem_high);
    size_t n = pg_unit(u)->args.elements;
    pg_array_end(&pg_unit(u)->args);
    pg_array_begin(&pg_unit(u)->args, ARRAY_I8);
    each_enqueue(u, add_idem_low);
    pg_array_end(&pg_unit(u)->args);
    if (n)
        send_as(u, LOAD_IDEM, SQL_IDEMPOTENCY_KEYS);
    else
        pg_args_clear(&pg_unit(u)->args);
    if (n || (u->s->config.capacity && u->seq_count))
        send_as(u, LOAD_LIVE, SQL_LIVE_TOTALS);
}

static size_t nonces_array(struct unit *u)
{
    size_t n = 0;
    pg_array_begin(&pg_unit(u)->args, ARRAY_I8);
    for (size_t i = 0; i < u->count; i++)
        if (u->turns[i].op->kind == OP_RELEASE_CLAIM && u->turns[i].op->release_claim.nonce) {
            pg_array_i8(&pg_unit(u)->args, (int64_t)u->turns[i].op->release_claim.nonce);
            n++;
        }
    pg_array_end(&pg_unit(u)->args);
    return n;
}

/* The queues of these jobs are not known yet, so they are locked and loaded separately. */
static void send_nonces(struct unit *u)
{
    if (nonces_array(u) == 0) {
        pg_args_clear(&pg_unit(u)->args);
        return;
    }
    send_as(u, LOAD_NONCE_LOCKS, SQL_NONCE_LOCK);
    nonces_array(u);
    send_as(u, LOAD_NONCE_QUEUES, SQL_NONCE_QUEUES);
    nonces_array(u);
    send_as(u, LOAD_NONCES, SQL_NONCE);
}

bool pg_unit_send_load(struct unit *u)
{
    memset(pg_unit(u)->slots, 0xff, sizeof pg_unit(u)->slots);
    send_queues(u);
    if (u->seq_count) {
        pg_args_i4(&pg_unit(u)->args, (int32_t)u->seq_count);
        send_as(u, LOAD_SEQS, SQL_SEQS);
    }
    send_jobs(u);
    send_idem(u); /* before the parents, which it may name */
    pg_dependencies_send_load(u);
    send_holders(u);
    send_nonces(u);
    send_claims(u);
    pg_limits_send_load(u);
    pg_keys_send_commits(u);
    if (unit_may_notify(u)) {
        pg_unit(u)->slots[LOAD_ALERTS] = pg_conn_sent(pg_pipeline_of(u));
        pg_alerts_send_version(u);
    }
    return !u->nomem;
}
