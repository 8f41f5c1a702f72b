/* SPDX-License-Identifier: Apache-2.0 */
/* What a unit reads: gathered from its operations, asked for in one call of lua/load.lua. */
#include "backend/redis/impl.h"

/* The job an operation names; 0 = none. */
static uint64_t seq_of(const struct op *op)
{
    switch ((int)op->kind) {
    case OP_ENQUEUE: /* it may come with its id, and be there already */
        return op->enqueue.moved ? op->enqueue.moved->seq : op->enqueue.id.seq;
    case OP_ACK:
    case OP_FAIL:
    case OP_EXTEND:
    case OP_RELEASE:
        return op->lease.job.seq;
    case OP_CANCEL:
    case OP_REQUEUE:
    case OP_REMOVE:
        return op->job.job.seq;
    case OP_PATCH:
        return op->patch.job.seq;
    case OP_DISPATCHED:
        return op->job.job.seq;
    case OP_NOTE:
        return op->note.job.seq;
    case OP_CLAIM:
        return op->claim.one.seq;
    default:
        return 0;
    }
}

static bool speaks_of_lease(const struct op *op)
{
    return op->kind == OP_ACK || op->kind == OP_FAIL || op->kind == OP_EXTEND ||
           op->kind == OP_RELEASE;
}

/* It takes a ready job away from claims, or may: a claim must then look at one more. */
static bool takes_away(const struct turn *t)
{
    const struct op_enqueue *list;
    size_t count = turn_enqueues(t, &list);
    for (size_t i = 0; i < count; i++)
        if (list[i].extra.unique.len)
            return true;
    return seq_of(t->op) != 0;
}

/* Those that may make a job hold a key again that it had let go. */
static bool revives(const struct op *op)
{
    return op->kind == OP_REQUEUE || (op->kind == OP_CLAIM && op->claim.one.seq);
}

/* --- names --- */

static void want_claims(struct unit *u, const struct op_claim *c, uint32_t more)
{
    if (c->one.seq || c->queue_count > LIMIT_QUEUES_PER_CLAIM)
        return;
    for (uint32_t i = 0; i < c->queue_count; i++) {
        struct wanted_name *n = unit_want_name(u, c->queues[i]);
        if (n)
            n->claims += c->count <= LIMIT_BATCH ? c->count + (n->claims ? 0 : more) : 0;
    }
}

/* Whether what is remembered of a queue does not do to tell how full it is. */
static bool counts_wanted(struct unit *u, struct span name)
{
    const struct known *k = known_find(u->s, name);
    if (!k || k->warn_depth || !k->counted_ns)
        return true;
    bool old = clock_ns() - k->counted_ns > UINT64_C(1000000000);
    return old || k->capacity < 1000 || k->live + UNIT_OPS_MAX > k->capacity - k->capacity / 10;
}

static void want_enqueue(struct unit *u, struct span name)
{
    struct wanted_name *n = unit_want_name(u, name);
    if (n && !n->makes) {
        n->counts = counts_wanted(u, name);
        n->makes = !known_find(u->s, name);
    }
}

static void want_queue(struct unit *u, struct span name, bool makes)
{
    struct wanted_name *n = unit_want_name(u, name);
    if (n) {
        n->counts = true;
        n->makes = makes;
    }
}

static void want_items(struct unit *u, const struct firing *f)
{
    struct wanted_name *n = f->source.len ? unit_want_name(u, f->source) : NULL;
    if (n)
        n->claims += f->batch_size;
}

static void want_names(struct unit *u, const struct turn *t, uint32_t more)
{
    const struct op *op = t->op;
    const struct op_enqueue *list;
    size_t count = turn_enqueues(t, &list);
    for (size_t i = 0; i < count; i++)
        want_enqueue(u, list[i].queue);
    if (t->firing)
        want_items(u, t->firing);
    switch ((int)op->kind) {
    case OP_CLAIM:
        want_claims(u, &op->claim, more);
        return;
    case OP_QUEUE_PUT:
    case OP_QUEUE_DELETE:
    case OP_PURGE:
    case OP_PAUSE:
        want_queue(u, op->queue.name, op->kind == OP_QUEUE_PUT);
        return;
    case OP_BULK:
        unit_want_name(u, op->bulk.queue);
        return;
    default:
        return;
    }
}

/* Finds out what the operations are about. */
void rd_unit_ask(struct item *it)
{
    struct unit *u = &it->unit;
    uint32_t taken = 0;
    const struct op_enqueue *list;
    for (size_t i = 0; i < u->count; i++) {
        taken += takes_away(&u->turns[i]);
        u->seq_count += turn_enqueues(&u->turns[i], &list);
    }
    for (size_t i = 0; i < u->count; i++)
        want_names(u, &u->turns[i], taken);
    for (size_t i = 0; i < u->name_count; i++)
        u->number_count += u->names[i].makes;
}

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
    bool by_token = speaks_of_lease(op) && !op->lease.any_token && op->lease.token.counter;
    (void)u;
    if (!seq_of(op))
        return 0;
    if (!a)
        return 1;
    redis_args_seq(a, seq_of(op));
    if (by_token)
        redis_token_encode(op->lease.token, token);
    redis_args_bytes(a, span_of(token, by_token ? sizeof token : 0));
    return 1;
}

static size_t put_revived(struct unit *u, const struct turn *t, struct rargs *a)
{
    const struct op *op = t->op;
    (void)u;
    if (!revives(op))
        return 0;
    if (a)
        redis_args_seq(a, seq_of(op));
    return 1;
}

/* What is no text can be nobody's key; the enqueue is refused. */
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

/* How long words are kept, as the script looks for them. */
void rd_args_words(struct rargs *a)
{
    redis_args_int(a, WORDS_SPANS);
    redis_args_int(a, WORDS_SPAN_MS);
}

void rd_unit_send_load(struct item *it)
{
    struct unit *u = &it->unit;
    struct rd_store *s = rd_of_unit(u);
    struct rargs *a = &it->args;
    rd_item_call(it, SCRIPT_LOAD);
    rd_args_now(s, a);
    redis_args_int(a, s->sh.facts.epoch);
    redis_args_text(a, it->shared ? "1" : "");
    redis_args_int(a, (int64_t)it->token);
    redis_args_int(a, HOLD_MS);
    redis_args_int(a, (int64_t)u->seq_count);
    redis_args_int(a, (int64_t)u->number_count);
    redis_args_text(a, live_wanted(u) ? "1" : "");
    put_names(u, a);
    section(u, a, put_job);
    section(u, a, put_revived);
    section(u, a, put_holder);
    section(u, a, put_nonce);
    section(u, a, put_idem);
    rd_args_words(a);
    rd_kv_put_section(it, unit_keys_of_commits(u));
    redis_args_text(a, u->s->any_warned ? "1" : "");
}
