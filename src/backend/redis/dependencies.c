/* SPDX-License-Identifier: Apache-2.0 */
/* A slice of the work list: the ends of jobs reach their dependents (shared/dependencies.h).
 *
 * lua/dependencies.lua returns entries of the list with a number of their edges and the dependents.
 * Like a slice of a bulk action, the store names the revision of each row that it changes, so that
 * it is refused, and the slice begins again, if one of the dependents was changed meanwhile. One
 * node at a time works on the list: two that count ends with the same dependents would refuse each
 * other's stores. When it dies, the leader continues. */
#include "backend/redis/impl.h"

#define ENTRIES_MAX 1000 /* of one slice */
#define KEEP_MS 5000     /* for this long after a slice, no other node works */

enum work_field {
    WORK_NOW,
    WORK_WORD,
    WORK_STORES,
    WORK_QUEUES,
    WORK_ENTRIES,
    WORK_EDGES,
    WORK_ROWS,
    WORK_DEPENDENTS,
    WORK_RULES,
    WORK_COUNT
};

bool rd_dependencies_due(const struct rd_store *s)
{
    return s->dependency_work && !s->sh.config.still && !s->sh.closing;
}

static void give_up(struct item *it)
{
    rd_item_give_up(it, OUT_UNAVAILABLE, "out of memory");
}

static void tell(struct item *it)
{
    if (rd_rules_went(it)) {
        rd_item_again(it);
        return;
    }
    unit_dependencies_told(&it->unit);
    rd_unit_store(it);
}

static void keys_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    if (rd_keys_answered(it, r))
        tell(it);
}

static void tell_with_keys(struct item *it)
{
    size_t versions = unit_keys_of_rows(&it->unit, true);
    if (versions == 0) {
        tell(it);
        return;
    }
    rd_kv_ask(it, versions);
    rd_item_send(it, STAGE_ASKING, keys_cb);
}

static void rules_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    if (!rd_item_answered(it, r, false))
        return;
    if (rd_rules_loaded(it, r) == 0)
        tell_with_keys(it);
    else
        give_up(it);
}

static void load_edges(struct unit *u, const redisReply *list)
{
    for (size_t i = 0; i + 2 < reply_count(list); i += 3)
        unit_edge_loaded(u, redis_seq_decode(reply_span(reply_at(list, i + 1))),
                         redis_seq_decode(reply_span(reply_at(list, i + 2))));
    for (size_t i = 0; i + 2 < reply_count(list); i += 3) {
        int64_t how = rd_reply_int(reply_at(list, i));
        if (how > DEPENDENCY_END_NONE && how < DEPENDENCY_END_COUNT)
            unit_edge_ends(u, redis_seq_decode(reply_span(reply_at(list, i + 1))),
                           redis_seq_decode(reply_span(reply_at(list, i + 2))), (uint8_t)how);
    }
}

static bool load(struct item *it, const redisReply *r)
{
    struct unit *u = &it->unit;
    const redisReply *rows = reply_at(r, WORK_ROWS);
    u->now.ms = rd_reply_time(reply_at(r, WORK_NOW));
    if (rd_load_queues(u, reply_at(r, WORK_QUEUES)) != 0)
        return false;
    for (size_t i = 0; i + 1 < reply_count(rows); i += 2)
        if (!rd_load_row(u, reply_span(reply_at(rows, i)), reply_span(reply_at(rows, i + 1))))
            return false;
    rd_dependents_loaded(u, reply_at(r, WORK_DEPENDENTS));
    load_edges(u, reply_at(r, WORK_EDGES));
    it->rules = rd_rules_version(reply_at(r, WORK_RULES));
    return !u->nomem;
}

static void slice_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    struct rd_store *s = rd_of_unit(&it->unit);
    if (!rd_item_answered(it, r, false))
        return;
    if (reply_count(r) != WORK_COUNT) { /* nothing is left to do, or another node does it */
        rd_item_over(it);
        return;
    }
    struct span stores = reply_span(reply_at(r, WORK_STORES));
    snprintf(it->stores, sizeof it->stores, "%.*s", (int)stores.len, stores.at ? stores.at : "");
    if (rd_data_went(s, it->stores)) {
        rd_item_over(it);
        return;
    }
    if (!load(it, r)) {
        give_up(it);
    } else if (rd_rules_needed(it)) {
        rd_rules_ask(it);
        rd_item_send(it, STAGE_ASKING, rules_cb);
    } else {
        tell_with_keys(it);
    }
}

void rd_dependencies_begin(struct item *it)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    struct rargs *a = &it->args;
    it->shared = true; /* everything that it changes is checked */
    s->dependency_work = false;
    rd_item_call(it, SCRIPT_DEPENDENCIES);
    rd_args_now(s, a);
    redis_args_int(a, s->sh.facts.epoch);
    redis_args_int(a, ENTRIES_MAX);
    redis_args_int(a, LIMIT_SLICE);
    redis_args_int(a, KEEP_MS);
    rd_item_send(it, STAGE_ASKING, slice_cb);
}

void rd_dependencies_worked(struct item *it)
{
    struct rargs *a = &it->args;
    const redisReply *entries = reply_at(it->kept[0], WORK_ENTRIES);
    rd_change(a, "WORKED", "");
    for (size_t i = 0; i < reply_count(entries); i++)
        redis_args_bytes(a, reply_span(reply_at(entries, i)));
    rd_change_end(a);
}

/* After a slice another one is tried, until the list is empty. */
void rd_dependencies_stored(struct item *it, bool waiting)
{
    rd_of_unit(&it->unit)->dependency_work |= waiting || it->kind == ITEM_DEPENDENCIES;
}
