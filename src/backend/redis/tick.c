/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader does as time passes: leases that expire, jobs that become due or expire, leases
 * of connections whose node has died, the rest of purges and deletes, retention.
 *
 * A tick loads what is due (lua/tick.lua) and stores the outcome; both do nothing unless they find
 * the epoch of the leader to be its own. Each part takes a bounded number of rows; if rows are
 * left, the next tick is due at once. */
#include "backend/redis/impl.h"
#include "backend/shared/row_check.h"

/* Indexes in the answer of lua/tick.lua. */
enum due {
    DUE_WORD,
    DUE_NOW,
    DUE_STORES,
    DUE_MORE,
    DUE_QUEUES,
    DUE_LEASES,
    DUE_JOBS,
    DUE_EXPIRY,
    DUE_BOUND,
    DUE_KEPT,
    DUE_RESUMED,
    DUE_PURGING_KEY,
    DUE_PURGING_MEMBERS,
    DUE_PURGING,
    DUE_BULKS,
    DUE_LIVING,
    DUE_TOUCHED,
    DUE_KEYS,
    DUE_HELD,
    DUE_HELD_STATES,
    DUE_RULES,
    DUE_ORDERING,
    DUE_COUNT
};

/* --- what is due --- */

static void end_one(struct unit *u, struct row *r, size_t part)
{
    struct record rec = {.kind = REC_JOB_READY, .job_ready = {.seq = r->job.seq, .at = u->now}};
    if (part == DUE_LEASES) {
        unit_lease_ran_out(u, r);
    } else if (part == DUE_JOBS) {
        unit_row_take(u, r, &rec);
    } else if (part == DUE_EXPIRY) {
        decide_expire(&r->job, u->now, &rec);
        unit_row_take(u, r, &rec);
        u->s->trim_wanted = true;
        r->q->wake = true; /* a claim that found only these may now find the jobs behind them */
    } else if (part == DUE_BOUND) {
        unit_lease_restarted(u, r);
    } else {
        unit_row_remove(u, r);
    }
}

/* Whether a row still exists for this part, after the parts before it and after extensions. */
static bool still(const struct unit *u, const struct row *r, size_t part)
{
    static const unsigned from[DUE_COUNT] = {
        [DUE_LEASES] = STATE_BIT(STATE_RUNNING), [DUE_JOBS] = STATE_BIT(STATE_SCHEDULED),
        [DUE_EXPIRY] = STATES_WAITING,           [DUE_BOUND] = STATE_BIT(STATE_RUNNING),
        [DUE_KEPT] = STATES_ALL & ~STATES_LIVE,
    };
    (void)u;
    return unit_row_there(r) && (STATE_BIT(r->job.state) & from[part]);
}

/* The jobs of one part; jobs that no longer belong to the index are removed from it. */
static void work_part(struct item *it, const redisReply *list, size_t part)
{
    struct unit *u = &it->unit;
    for (size_t i = 0; i + 1 < reply_count(list) && !u->nomem; i += 2) {
        struct span packed = reply_span(reply_at(list, i + 1));
        struct row *r = packed.len ? rd_load_row(u, reply_span(reply_at(list, i)), packed) : NULL;
        if (r && still(u, r, part))
            end_one(u, r, part);
    }
}

/* Jobs of a purge, which has already counted them, or of a deleted queue. */
static void work_purging(struct item *it, const redisReply *list)
{
    struct unit *u = &it->unit;
    for (size_t i = 0; i + 1 < reply_count(list) && !u->nomem; i += 2) {
        struct span packed = reply_span(reply_at(list, i + 1));
        struct row *r = packed.len ? rd_load_row(u, reply_span(reply_at(list, i)), packed) : NULL;
        if (r && !unit_row_there(r) && !r->gone) {
            r->gone = r->changed = true;
            r->held = false;
            r->end = DEPENDENCY_END_REMOVED;
            u->records++;
        }
    }
}

static void work_resumed(struct item *it, const redisReply *list)
{
    struct unit *u = &it->unit;
    for (size_t i = 0; i < reply_count(list); i++) {
        struct wqueue *q = unit_queue(u, (uint32_t)rd_reply_int(reply_at(list, i)));
        if (!q)
            continue;
        q->wake = true;
        unit_tell_queue(u, EVENT_QUEUE_RESUMED, q, 0);
    }
}

/* states: up to which index of the list, and the state in which that holder ended … */
static uint8_t holder_state(const redisReply *states, size_t at)
{
    for (size_t i = 0; i + 1 < reply_count(states); i += 2)
        if (at < (size_t)rd_reply_int(reply_at(states, i)))
            return sound_kind(rd_reply_int(reply_at(states, i + 1)), STATE_COUNT);
    return STATE_NONE;
}

static void work_held(struct item *it, const redisReply *list, const redisReply *states)
{
    struct unit *u = &it->unit;
    for (size_t i = 0; i + 1 < reply_count(list) && !u->nomem; i += 2) {
        struct row *r = unit_row(u, redis_seq_decode(reply_span(reply_at(list, i))));
        if (r && unit_row_there(r) && r->job.state == STATE_RUNNING && r->lease_ms == 0)
            unit_item_left(u, r, holder_state(states, i));
    }
}

static void work(struct item *it)
{
    const redisReply *r = it->kept[0];
    if (rd_rules_went(it)) {
        rd_item_again(it);
        return;
    }
    for (size_t part = DUE_LEASES; part <= DUE_KEPT; part++)
        work_part(it, reply_at(r, part), part);
    work_held(it, reply_at(r, DUE_HELD), reply_at(r, DUE_HELD_STATES));
    work_purging(it, reply_at(r, DUE_PURGING));
    work_resumed(it, reply_at(r, DUE_RESUMED));
    rd_kv_expired(&it->unit);
    rd_limits_step(it);
    rd_unit_store(it);
}

static void keys_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    if (rd_keys_answered(it, r))
        work(it);
}

static void load_list(struct unit *u, const redisReply *list)
{
    for (size_t i = 0; i + 1 < reply_count(list); i += 2)
        if (reply_span(reply_at(list, i + 1)).len)
            (void)rd_load_row(u, reply_span(reply_at(list, i)), reply_span(reply_at(list, i + 1)));
}

/* Rows first: their payloads may have to be stored under keys, which are then loaded. */
static void load_due(struct item *it, const redisReply *r)
{
    struct unit *u = &it->unit;
    const redisReply *keys = reply_at(r, DUE_KEYS);
    if (rd_load_queues(u, reply_at(r, DUE_QUEUES)) != 0)
        u->nomem = true;
    for (size_t part = DUE_LEASES; part <= DUE_KEPT && !u->nomem; part++)
        load_list(u, reply_at(r, part));
    load_list(u, reply_at(r, DUE_HELD));
    for (size_t i = 0; i < reply_count(keys); i++)
        (void)unit_key_add(u, reply_span(reply_at(keys, i)));
}

static void work_with_keys(struct item *it)
{
    const redisReply *keys = reply_at(it->kept[0], DUE_KEYS);
    size_t versions = reply_count(keys) + unit_keys_of_rows(&it->unit, true);
    if (versions == 0) {
        work(it);
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
    if (rd_rules_loaded(it, r) == 0) {
        work_with_keys(it);
        return;
    }
    log_event(it->unit.s->config.log, LOG_ERROR, "redis_rules_not_loaded",
              LOG_TEXT("note",
                       "the work that is due was not done: out of memory, or an alert is damaged"));
    rd_item_over(it);
}

static void work_with_rules(struct item *it)
{
    if (!rd_rules_needed(it)) {
        work_with_keys(it);
        return;
    }
    rd_rules_ask(it);
    rd_item_send(it, STAGE_ASKING, rules_cb);
}

/* A damaged job ends the step; its row says so in the log. */
static void step_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    if (!rd_item_answered(it, r, false))
        return;
    if (!rd_limits_step_loaded(it, r)) {
        rd_item_over(it);
        return;
    }
    rd_of_unit(&it->unit)->tick_more = true; /* this queue, or another one */
    work_with_rules(it);
}

static void due_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    struct rd_store *s = rd_of_unit(&it->unit);
    struct unit *u = &it->unit;
    if (!rd_item_answered(it, r, false))
        return;
    if (reply_count(r) != DUE_COUNT) { /* another node is the leader */
        shared_leader_lost(&s->sh, true);
        rd_item_over(it);
        return;
    }
    struct span stores = reply_span(reply_at(r, DUE_STORES));
    snprintf(it->stores, sizeof it->stores, "%.*s", (int)stores.len, stores.at);
    if (rd_data_went(s, it->stores)) {
        rd_item_over(it);
        return;
    }
    u->now.ms = rd_reply_time(reply_at(r, DUE_NOW));
    s->tick_more = rd_reply_int(reply_at(r, DUE_MORE)) != 0;
    load_due(it, r);
    it->rules = rd_rules_version(reply_at(r, DUE_RULES));
    uint32_t ordering = (uint32_t)rd_reply_int(reply_at(r, DUE_ORDERING));
    if (ordering == 0) {
        work_with_rules(it);
        return;
    }
    rd_limits_ask_step(it, ordering);
    rd_item_send(it, STAGE_ASKING, step_cb);
}

void rd_tick_begin(struct item *it)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    struct rargs *a = &it->args;
    it->shared = s->sh.node.others > 0 || s->contended;
    s->sh.node.tick_at_ms = shared_now(&s->sh);
    s->sh.tick_wanted = s->sh.trim_wanted = s->sh.dirty = false;
    rd_item_call(it, SCRIPT_TICK);
    rd_args_now(s, a);
    redis_args_int(a, s->sh.facts.epoch);
    redis_args_int(a, s->sh.node.leader_epoch);
    redis_args_int(a, LIMIT_SLICE);
    redis_args_int(a, shared_silent_ms(&s->sh));
    rd_item_send(it, STAGE_ASKING, due_cb);
}

/* --- changes besides its rows --- */

static void redue(struct rargs *a, const redisReply *touched)
{
    for (size_t i = 0; i + 2 < reply_count(touched); i += 3) {
        char due[16], index[48];
        const char *kind = redis_text_at(touched, i), *queue = redis_text_at(touched, i + 1);
        snprintf(due, sizeof due, "due:%.4s", kind);
        snprintf(index, sizeof index, "q:%.16s:%.4s", queue, kind);
        rd_change(a, "REDUE", due);
        redis_args_text(a, queue);
        redis_args_text(a, index);
        redis_args_bytes(a, reply_span(reply_at(touched, i + 2)));
        rd_change_end(a);
    }
}

static void copy_list(struct rargs *a, const char *command, const char *key, const redisReply *list)
{
    if (reply_count(list) == 0)
        return;
    rd_change(a, command, key);
    for (size_t i = 0; i < reply_count(list); i++)
        redis_args_bytes(a, reply_span(reply_at(list, i)));
    rd_change_end(a);
}

/* Rows that do not exist although an index names them. */
static void forget_missing(struct rargs *a, const redisReply *list, const char *key)
{
    struct rargs_mark before = redis_args_mark(a);
    rd_change(a, "ZREM", key);
    for (size_t i = 0; i + 1 < reply_count(list); i += 2)
        if (!reply_span(reply_at(list, i + 1)).len)
            redis_args_bytes(a, reply_span(reply_at(list, i)));
    if (!rd_change_end(a))
        redis_args_undo(a, before);
}

void rd_tick_changes(struct item *it)
{
    const redisReply *r = it->kept[0];
    struct rargs *a = &it->args;
    forget_missing(a, reply_at(r, DUE_EXPIRY), "expiry");
    copy_list(a, "ZREM", "paused", reply_at(r, DUE_RESUMED));
    copy_list(a, "PURGED", reply_span(reply_at(r, DUE_PURGING_KEY)).at,
              reply_at(r, DUE_PURGING_MEMBERS));
    redue(a, reply_at(r, DUE_TOUCHED));
    rd_bulk_adopt(it, reply_at(r, DUE_BULKS), reply_at(r, DUE_LIVING));
    rd_change_one(a, "NEXT", "");
}

static void take_figures(struct rd_store *s, const redisReply *out)
{
    struct backend_figures *f = &s->sh.figures;
    uint64_t jobs = 0;
    for (int state = STATE_SCHEDULED; state < STATE_COUNT; state++) {
        int64_t n = rd_reply_int(reply_at(reply_at(out, 1), (size_t)state - 1));
        f->by_state[state] = n > 0 ? (uint64_t)n : 0;
        jobs += f->by_state[state];
    }
    f->jobs = jobs;
    f->live = f->by_state[STATE_SCHEDULED] + f->by_state[STATE_READY] + f->by_state[STATE_RUNNING] +
              f->by_state[STATE_BLOCKED];
    f->keys = rd_reply_count(reply_at(out, 2));
    f->queues = rd_reply_count(reply_at(out, 3));
    f->kv_keys = rd_reply_count(reply_at(out, 4));
    f->kv_bytes = rd_reply_count(reply_at(out, 5));
    f->notices_pending = rd_reply_count(reply_at(out, 6));
    f->notices_dead = rd_reply_count(reply_at(out, 7)) - f->notices_pending;
}

void rd_tick_done(struct item *it, const redisReply *out)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    s->sh.node.next_due_ms = rd_reply_time(reply_at(out, 0));
    s->sh.node.tick_at_ms = it->unit.now.ms;
    s->sh.tick_wanted |= s->tick_more;
    take_figures(s, out);
}
