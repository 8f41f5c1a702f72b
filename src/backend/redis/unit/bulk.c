/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk actions: requeue, cancel or remove what a filter matches, in slices.
 *
 * The action is stored in the hash bulk. The node that received the request processes the jobs in
 * the order of their sequences, one slice in each store, which also stores the position reached; it
 * replies at the end. If a node dies, the leader takes over its actions. */
#include "backend/redis/impl.h"

static const char *number_text(uint64_t number, char out[24])
{
    snprintf(out, 24, "%llu", (unsigned long long)number);
    return out;
}

static void put_intent(struct item *it, const struct bulk *b)
{
    char number[24];
    rd_change(&it->args, "HSET", "bulk");
    redis_args_text(&it->args, number_text(b->number, number));
    redis_args_bytes(&it->args, redis_bulk_encode(&it->unit, b, it->unit.s->facts.epoch));
    rd_change_end(&it->args);
}

/* Stores the position of a slice, or a new action. */
void rd_bulk_changes(struct item *it)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    char number[24];
    if (it->kind != ITEM_BULK) {
        it->unit.bulk->number = (uint64_t)s->sh.facts.epoch << 32 | ++s->bulk_last;
        put_intent(it, it->unit.bulk);
        return;
    }
    struct bulk after = *s->sh.bulks;
    if (after.slice_last) {
        rd_change(&it->args, "HDEL", "bulk");
        redis_args_text(&it->args, number_text(after.number, number));
        rd_change_end(&it->args);
        return;
    }
    after.cursor = after.slice_cursor;
    after.changed += after.slice_changed;
    after.refused += after.slice_refused;
    put_intent(it, &after);
}

void rd_bulk_begun(struct item *it)
{
    if (it->unit.bulk)
        shared_bulk_append(it->unit.s, it->unit.bulk);
    it->unit.bulk = NULL;
}

/* --- actions of other nodes --- */

static bool is_living(const redisReply *living, uint32_t epoch)
{
    for (size_t i = 0; i < reply_count(living); i++)
        if ((uint32_t)rd_reply_int(reply_at(living, i)) == epoch)
            return true;
    return false;
}

static bool is_mine(const struct rd_store *s, uint64_t number)
{
    for (const struct bulk *b = s->sh.bulks; b; b = b->next)
        if (b->number == number)
            return true;
    return false;
}

/* Actions that another node, or this one before its last start, had begun. */
void rd_bulk_adopt(struct item *it, const redisReply *bulks, const redisReply *living)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    for (size_t i = 0; i + 1 < reply_count(bulks); i += 2) {
        struct bulk space = {.number = strtoull(redis_text_at(bulks, i), NULL, 10)};
        struct span group, kind;
        uint32_t epoch;
        if (redis_bulk_decode(reply_span(reply_at(bulks, i + 1)), &space, &group, &kind, &epoch) !=
                0 ||
            epoch == s->sh.facts.epoch || is_living(living, epoch) || is_mine(s, space.number))
            continue;
        struct bulk *b = shared_bulk_new(group, kind);
        if (!b)
            return;
        space.group = b->group;
        space.kind = b->kind;
        *b = space;
        shared_bulk_append(&s->sh, b);
        put_intent(it, b);
    }
}

/* --- a slice --- */

/* Not jobs that were enqueued after the action began; the sequences of a spool do not show when. */
static bool wanted(const struct bulk *b, uint64_t seq, const struct row *r)
{
    struct span group = span_text(b->group), kind = span_text(b->kind);
    if (seq > b->seq_max && !id_spooled(seq))
        return false;
    return (!group.len || span_equal(group, r->extra.group)) &&
           (!kind.len || span_equal(kind, r->extra.kind));
}

/* The jobs of the step that match the filter come first among the rows, in their order. */
static int load_slice(struct item *it, const redisReply *r, size_t *ret_slice)
{
    struct unit *u = &it->unit;
    const struct bulk *b = u->s->bulks;
    const redisReply *rows = reply_at(r, 2);
    u->now.ms = rd_reply_time(reply_at(r, 0));
    int err = rd_load_queues(u, reply_at(r, 3));
    for (size_t i = 0; !err && i + 1 < reply_count(rows); i += 2) {
        struct row space = {.gone = false};
        struct span seq = reply_span(reply_at(rows, i)), packed = reply_span(reply_at(rows, i + 1));
        if (redis_row_decode(redis_seq_decode(seq), packed, &space) != 0 ||
            !wanted(b, redis_seq_decode(seq), &space))
            continue;
        if (!rd_load_row(u, seq, packed))
            err = -ERR_NOMEM;
    }
    *ret_slice = u->row_count;
    return err;
}

static void store_slice(struct item *it)
{
    struct bulk *b = it->unit.s->bulks;
    bool last = it->search_at == 0;
    if (shared_bulk_work(&it->unit, b, it->search_count, last) != 0) {
        rd_item_give_up(it, OUT_UNAVAILABLE, "out of memory");
        return;
    }
    if (!last)
        b->slice_cursor = it->search_at;
    rd_unit_store(it);
}

/* It was loaded by more than one call: everything that it changes is checked. */
static void checks_all(struct item *it)
{
    it->shared = true;
    it->held = false;
    snprintf(it->stores, sizeof it->stores, "0");
}

/* Holders of keys that a requeue would take back; they follow the rows of the slice. */
static void rivals_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    if (!rd_item_answered(it, r, false))
        return;
    int err = rd_unit_loaded(it, r);
    checks_all(it);
    if (err)
        rd_item_give_up(it, OUT_UNAVAILABLE, "out of memory");
    else
        store_slice(it);
}

/* A load that names these jobs as jobs to be requeued. */
static void ask_rivals(struct item *it)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    struct rargs *a = &it->args;
    rd_item_call(it, SCRIPT_LOAD);
    rd_args_now(s, a);
    redis_args_int(a, s->sh.facts.epoch);
    redis_args_text(a, "");
    redis_args_int(a, 0);
    redis_args_int(a, rd_hold_ms(s));
    redis_args_int(a, 0);
    redis_args_int(a, 0);
    redis_args_text(a, "");
    redis_args_int(a, 0); /* pause */
    redis_args_int(a, 0); /* names */
    redis_args_int(a, 0); /* jobs */
    redis_args_int(a, (int64_t)it->search_count);
    for (size_t i = 0; i < it->search_count; i++)
        redis_args_seq(a, it->unit.rows[i]->job.seq);
    for (int i = 0; i < 3; i++)
        redis_args_int(a, 0); /* keys of enqueues, nonces, idempotency keys */
    rd_args_reply_spans(a);
    rd_kv_put_section(it, 0);
    redis_args_text(a, "");
    rd_dependencies_put_none(a);
    rd_item_send(it, STAGE_ASKING, rivals_cb);
}

/* First the jobs with sequences of the store, up to the highest at the start, then those with ids
 * of a spool, whose sequences are higher than any of these. */
static bool counted(const struct bulk *b)
{
    return b->cursor < b->seq_max;
}

static uint64_t spooled_from(const struct bulk *b)
{
    return b->cursor >= ID_SPOOL_BIT ? b->cursor + 1 : ID_SPOOL_BIT;
}

static void slice_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    size_t slice = 0;
    if (!rd_item_answered(it, r, false))
        return;
    if (!it->unit.s->bulks) { /* its end was answered meanwhile */
        rd_item_over(it);
        return;
    }
    int err = load_slice(it, r, &slice);
    it->search_at = rd_reply_count(reply_at(r, 1));
    if (it->search_at == 0 && counted(it->unit.s->bulks))
        it->search_at = ID_SPOOL_BIT - 1;
    it->search_count = slice;
    if (err)
        rd_item_give_up(it, OUT_UNAVAILABLE, "out of memory");
    else if (it->unit.s->bulks->action == BULK_REQUEUE && slice)
        ask_rivals(it);
    else
        store_slice(it);
}

void rd_bulk_begin(struct item *it)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    const struct bulk *b = s->sh.bulks;
    struct rargs *a = &it->args;
    if (!b) {
        rd_item_over(it);
        return;
    }
    checks_all(it);
    rd_item_call(it, SCRIPT_SCAN);
    rd_args_now(s, a);
    redis_args_int(a, b->queue);
    redis_args_int(a, (int64_t)(counted(b) ? b->cursor + 1 : spooled_from(b)));
    redis_args_int(a, (int64_t)(counted(b) ? b->seq_max : LIMIT_SEQ));
    redis_args_text(a, "");
    redis_args_int(a, b->states);
    redis_args_int(a, LIMIT_SLICE);
    rd_item_send(it, STAGE_ASKING, slice_cb);
}
