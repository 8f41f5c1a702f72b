/* SPDX-License-Identifier: Apache-2.0 */
/* What a unit reads: collected from its operations, and loaded by one call of lua/load.lua. */
#include "backend/redis/impl.h"

/* --- the sections of the script's arguments, each with its length before it --- */

typedef size_t (*section_fn)(struct unit *u, const struct turn *t, struct rargs *a);

/* a NULL: only counts */
static void section(struct unit *u, struct rargs *a, section_fn fn)
{
    size_t n = 0;
    for (size_t i = 0; i < u->count; i++)
        n += fn(u, &u->turns[i], NULL);
    redis_args_int(a, (int64_t)n);
    for (size_t i = 0; n && i < u->count; i++)
        fn(u, &u->turns[i], a);
}

static void put_names(struct unit *u, struct rargs *a)
{
    redis_args_int(a, (int64_t)u->name_count);
    for (size_t i = 0; i < u->name_count; i++) {
        redis_args_bytes(a, u->names[i].name);
        redis_args_int(a, u->names[i].claims);
        redis_args_text(a, u->names[i].counts && !u->s->any_warned ? "1" : "");
    }
}

static size_t put_job(struct unit *u, const struct turn *t, struct rargs *a)
{
    const struct op *op = t->op;
    char token[TOKEN_BYTES];
    bool by_token = op_about_lease(op) && !op->lease.any_token && op->lease.token.counter;
    (void)u;
    if (!op_seq(op))
        return 0;
    if (!a)
        return 1;
    redis_args_seq(a, op_seq(op));
    if (by_token)
        redis_token_encode(op->lease.token, token);
    redis_args_bytes(a, span_of(token, by_token ? sizeof token : 0));
    return 1;
}

/* Jobs to which dependencies are added are named without a token. */
static void put_jobs(struct unit *u, struct rargs *a)
{
    size_t n = u->deps.open_count;
    for (size_t i = 0; i < u->count; i++)
        n += put_job(u, &u->turns[i], NULL);
    redis_args_int(a, (int64_t)n);
    for (size_t i = 0; n && i < u->count; i++)
        put_job(u, &u->turns[i], a);
    for (size_t i = 0; i < u->deps.open_count; i++) {
        redis_args_seq(a, u->deps.open[i]);
        redis_args_text(a, "");
    }
}

static size_t put_revived(struct unit *u, const struct turn *t, struct rargs *a)
{
    const struct op *op = t->op;
    (void)u;
    if (!op_revives(op))
        return 0;
    if (a)
        redis_args_seq(a, op_seq(op));
    return 1;
}

/* Bytes that are not text cannot be the key of a job; the enqueue is refused. */
static size_t put_holder(struct unit *u, const struct turn *t, struct rargs *a)
{
    const struct op_enqueue *list;
    size_t count = turn_enqueues(t, &list), n = 0;
    (void)u;
    for (size_t i = 0; i < count; i++) {
        if (!list[i].extra.unique.len || list[i].extra.unique.len > LIMIT_KEY_BYTES)
            continue;
        n++;
        if (a) {
            redis_args_bytes(a, list[i].queue);
            redis_args_bytes(a, list[i].extra.unique);
        }
    }
    return n;
}

static size_t put_nonce(struct unit *u, const struct turn *t, struct rargs *a)
{
    const struct op *op = t->op;
    (void)u;
    if (op->kind != OP_RELEASE_CLAIM || !op->release_claim.nonce)
        return 0;
    if (a)
        redis_args_seq(a, op->release_claim.nonce);
    return 1;
}

static size_t put_idem(struct unit *u, const struct turn *t, struct rargs *a)
{
    const struct op_enqueue *list;
    size_t count = turn_enqueues(t, &list), n = 0;
    for (size_t i = 0; i < count; i++) {
        if (!list[i].idempotency_key.len)
            continue;
        n++;
        struct hash128 key = hash128_of(u->s->facts.hash_key, list[i].idempotency_key);
        if (a)
            redis_args_bytes(a, span_of(&key, sizeof key));
    }
    return n;
}

static bool live_wanted(struct unit *u)
{
    bool keys = false;
    for (size_t i = 0; i < u->count && !keys; i++)
        keys = put_idem(u, &u->turns[i], NULL) > 0;
    return keys || (u->s->config.capacity && u->seq_count);
}

/* For how long replies are stored, so that the script can search for them. */
void rd_args_reply_spans(struct rargs *a)
{
    redis_args_int(a, KEPT_SPANS);
    redis_args_int(a, KEPT_SPAN_MS);
}

/* As far as this node knows; otherwise lua/load.lua says so. */
static bool limited_claims(const struct unit *u)
{
    bool any = u->limits_wanted;
    for (size_t i = 0; i < u->name_count && !any; i++)
        any = u->names[i].claims && u->names[i].limited;
    return any;
}

void rd_unit_send_load(struct item *it)
{
    struct unit *u = &it->unit;
    struct rd_store *s = rd_of_unit(u);
    struct rargs *a = &it->args;
    rd_item_call(it, limited_claims(u) ? SCRIPT_LOAD_LIMITED : SCRIPT_LOAD);
    rd_args_now(s, a);
    redis_args_int(a, s->sh.facts.epoch);
    redis_args_text(a, it->shared ? "1" : "");
    redis_args_int(a, (int64_t)it->token);
    redis_args_int(a, rd_hold_ms(s));
    redis_args_int(a, (int64_t)u->seq_count);
    redis_args_int(a, (int64_t)u->number_count);
    redis_args_text(a, live_wanted(u) ? "1" : "");
    redis_args_int(a, rd_quiet_ms(it));
    put_names(u, a);
    put_jobs(u, a);
    section(u, a, put_revived);
    section(u, a, put_holder);
    section(u, a, put_nonce);
    section(u, a, put_idem);
    rd_args_reply_spans(a);
    rd_kv_put_section(it, unit_keys_of_commits(u));
    redis_args_text(a, u->s->any_warned ? "1" : "");
    rd_dependencies_put_section(u, a);
}
