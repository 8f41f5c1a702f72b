/* SPDX-License-Identifier: Apache-2.0 */
/* A unit from its load to its store, and the replies and notifications after that. The stores of a
 * tick and of a slice of a bulk action end here, too.
 *
 * There is no lock between load and store. A store is refused ("conflict") if something that the
 * unit has read was changed by another node meanwhile; then the unit begins again with a new load,
 * at most UNIT_TRIES_MAX times. Operations that depend on more than they read (a change of a queue,
 * a schedule) require that nothing at all was stored in between; after QUIET_TRIES failures such a
 * unit asks the other nodes to pause for QUIET_MS (must_wait in lua/common.lua), because busy nodes
 * could otherwise prevent it forever. A store without an answer has an unknown outcome. */
#include "backend/redis/impl.h"
#include "backend/shared/row_check.h"

/* --- after the store --- */

static void wake_all(struct rd_store *s, const struct unit *u)
{
    for (size_t i = 0; i < u->queue_count; i++)
        if (u->queues[i]->wake && !u->queues[i]->gone)
            shared_watches_wake(&s->sh, u->queues[i]->name);
}

struct span rd_steps(struct unit *u, const redisReply *list)
{
    unit_steps_begin(u);
    for (size_t i = 0; i + 1 < reply_count(list); i += 2)
        unit_steps_add(u, reply_span(reply_at(list, i)), reply_span(reply_at(list, i + 1)));
    return unit_steps_end(u);
}

/* Groups of four: a job with payload, result and error, or with its steps. */
static void fill_bodies(struct item *it, const redisReply *out)
{
    for (size_t i = 0; i + 3 < reply_count(out); i += 4) {
        struct row *row = unit_row(&it->unit, redis_seq_decode(reply_span(reply_at(out, i))));
        const redisReply *second = reply_at(out, i + 1);
        if (row && second && second->type == REDIS_REPLY_ARRAY) {
            row->steps = rd_steps(&it->unit, second);
            continue;
        }
        if (!row)
            continue;
        if (!row->set_payload && !row->fresh)
            row->payload = reply_span(reply_at(out, i + 1));
        row->result = reply_span(reply_at(out, i + 2));
        row->error = reply_span(reply_at(out, i + 3));
    }
    unit_fill_bodies(&it->unit);
}

/* A success says how durable it is. */
static void set_durability(struct item *it)
{
    if (rd_of_unit(&it->unit)->server.durable)
        return;
    for (size_t i = 0; i < it->unit.count; i++)
        it->unit.turns[i].reply.relaxed = it->unit.turns[i].reply.outcome == OUT_OK;
}

void rd_turns_answer(struct item *it)
{
    struct unit *u = &it->unit;
    for (size_t i = 0; i < u->count; i++)
        if (!u->turns[i].later)
            unit_turn_answer(&u->turns[i]);
    u->count = 0;
}

static void stored(struct item *it, const redisReply *out, const redisReply *told)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    struct unit *u = &it->unit;
    if (it->kind == ITEM_UNIT) {
        fill_bodies(it, out);
        unit_rates_take(u);
        rd_bulk_begun(it);
    }
    unit_limits_committed(u);
    unit_count_commit(u, it->began_ns);
    rd_alerts_stored(it, told);
    if (it->kind == ITEM_TICK)
        rd_tick_done(it, out); /* it knows the new counts */
    else
        s->sh.dirty |= u->records > 0;
    s->sh.figures.durable = s->sh.figures.position;
    wake_all(s, u);
    if (it->kind == ITEM_BULK)
        shared_bulk_stored(u);
    shared_events_take(&s->sh, u);
    set_durability(it);
    rd_turns_answer(it);
    shared_events_call(&s->sh);
    rd_item_over(it);
}

static void stored_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    struct rd_store *s = rd_of_unit(&it->unit);
    if (!rd_item_answered(it, r, true))
        return;
    /* a transaction: the script's answer is the last; none = it was not executed */
    if (it->args.plain)
        r = reply_count(r) ? r->element[r->elements - 1] : NULL;
    if (r && r->type == REDIS_REPLY_ERROR) {
        log_event(s->sh.config.log, LOG_ERROR, "redis_refused", LOG_TEXT("text", r->str));
        rd_item_give_up(it, OUT_UNKNOWN, redis_error_sentence(r));
        return;
    }
    struct span word = reply_span(reply_at(r, 0));
    if (span_equal(word, SPAN_LITERAL("ok"))) {
        uint64_t stores = rd_reply_count(reply_at(r, 1));
        s->stores = stores > s->stores ? stores : s->stores;
        rd_dependencies_stored(it, rd_reply_int(reply_at(r, 3)) != 0);
        stored(it, reply_at(r, 2), reply_at(r, 4));
    } else if (span_equal(word, SPAN_LITERAL("led"))) {
        shared_leader_lost(&s->sh, true); /* another node is the leader now */
        rd_item_give_up(it, OUT_UNAVAILABLE, NULL);
    } else {
        s->contended = true;
        it->limited = it->kind == ITEM_UNIT && rd_limits_concerned(&it->unit);
        rd_item_again(it);
    }
}

void rd_unit_store(struct item *it)
{
    if (it->unit.nomem) {
        rd_item_give_up(it, OUT_UNAVAILABLE, "out of memory");
        return;
    }
    rd_unit_send_store(it, stored_cb);
    rd_pipeline_wake(rd_of_unit(&it->unit));
}

/* --- before the store --- */

static void nothing_to_store(struct item *it)
{
    unit_fill_bodies(&it->unit);
    unit_limits_committed(&it->unit);
    wake_all(rd_of_unit(&it->unit), &it->unit);
    set_durability(it);
    rd_turns_answer(it);
    rd_item_over(it);
}

static void work(struct item *it)
{
    struct unit *u = &it->unit;
    if (rd_rules_went(it)) {
        rd_item_again(it);
        return;
    }
    if (!sound_drawn(u)) {
        rd_item_give_up(it, OUT_UNAVAILABLE,
                        "Redis returned a time or a number that is out of range");
        return;
    }
    unit_work(u);
    rd_limits_step(it);
    if (u->short_of_numbers || u->short_of_limits) {
        for (size_t i = 0; i < u->name_count; i++)
            queue_cache_forget(u->s, u->names[i].name);
        rd_item_again(it);
    } else if (!u->nomem && !it->held && !rd_unit_changed(u) && !rd_quiet_ms(it)) {
        nothing_to_store(it);
    } else {
        rd_unit_store(it);
    }
}

/* Claims that name jobs of queues with limits need to know what the groups use. */
static void groups_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    if (!rd_item_answered(it, r, false))
        return;
    rd_limits_groups_loaded(&it->unit, r);
    work(it);
}

static void work_with_groups(struct item *it)
{
    if (rd_limits_ask_groups(it))
        rd_item_send(it, STAGE_ASKING, groups_cb);
    else
        work(it);
}

/* Payloads of jobs that this unit may end are stored under keys. */
static void keys_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    if (rd_keys_answered(it, r))
        work_with_groups(it);
}

static bool keys_needed(struct item *it)
{
    size_t before = it->unit.version_count, versions = unit_keys_of_rows(&it->unit, false);
    if (versions == 0)
        return false;
    rd_kv_ask(it, before + versions);
    return true;
}

static void work_with_keys(struct item *it)
{
    if (keys_needed(it))
        rd_item_send(it, STAGE_ASKING, keys_cb);
    else
        work_with_groups(it);
}

static void give_up_damaged(struct item *it, int err, const char *what)
{
    rd_item_give_up(it, OUT_UNAVAILABLE, err == -ERR_NOMEM ? "out of memory" : what);
}

/* This node knows an older version of the alert rules. */
static void rules_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    if (!rd_item_answered(it, r, false))
        return;
    int err = rd_rules_loaded(it, r);
    if (err)
        give_up_damaged(it, err, "an alert is damaged");
    else
        work_with_keys(it);
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

static void step_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    if (!rd_item_answered(it, r, false))
        return;
    if (rd_limits_step_loaded(it, r))
        work(it);
    else
        give_up_damaged(it, it->unit.nomem ? -ERR_NOMEM : -ERR_CORRUPT, "a job is damaged");
}

static void sharers_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    if (!rd_item_answered(it, r, false))
        return;
    rd_unit_sharers_loaded(it, r);
    if (rd_limits_ask_first_step(it))
        rd_item_send(it, STAGE_ASKING, step_cb);
    else
        work(it);
}

static void loaded_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    if (!rd_item_answered(it, r, false))
        return;
    if (rd_item_told_to_wait(it, r))
        return;
    if (span_equal(reply_span(reply_at(r, 0)), SPAN_LITERAL("limits"))) {
        it->unit.limits_wanted = true;
        rd_item_again(it);
        return;
    }
    int err = rd_unit_loaded(it, r);
    if (rd_data_went(rd_of_unit(&it->unit), it->stores))
        rd_item_again(it);
    else if (err)
        give_up_damaged(it, err, "the data in Redis is damaged");
    else if (rd_unit_needs_sharers(it))
        rd_item_send(it, STAGE_ASKING, sharers_cb);
    else if (rd_limits_ask_first_step(it))
        rd_item_send(it, STAGE_ASKING, step_cb);
    else
        work_with_rules(it);
}

static void load(struct item *it)
{
    it->token = ++rd_of_unit(&it->unit)->token_last;
    unit_ask(&it->unit);
    rd_unit_send_load(it);
    if (rd_plain_possible(it))
        rd_plain_load(it, loaded_cb);
    else
        rd_item_send(it, STAGE_ASKING, loaded_cb);
}

/* Now the jobs of the firings are known. */
static void schedules_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    if (!rd_item_answered(it, r, false))
        return;
    if (rd_item_told_to_wait(it, r))
        return;
    int err = rd_schedules_loaded(it, r);
    if (err)
        give_up_damaged(it, err, "a schedule is damaged");
    else if (shared_class(it->unit.turns[0].op) == CLASS_FIRE)
        load(it);
    else
        work(it);
}

/* For a unit about alerts this was everything that it needs. */
static void alerts_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    if (!rd_item_answered(it, r, false))
        return;
    int err = rd_alerts_loaded(it, r);
    if (rd_data_went(rd_of_unit(&it->unit), it->stores))
        rd_item_again(it);
    else if (err)
        give_up_damaged(it, err, "an alert is damaged");
    else
        work(it);
}

/* These operations have a unit to themselves, and no other node may store anything meanwhile. */
static bool needs_exclusive_unit(const struct op *op)
{
    return op->kind == OP_QUEUE_PUT || op->kind == OP_QUEUE_DELETE || op->kind == OP_PAUSE ||
           op->kind == OP_PURGE;
}

static bool grows(const struct op *op)
{
    return op->kind == OP_ENQUEUE || op->kind == OP_FIRE || op->kind == OP_TRIGGER ||
           op->kind == OP_SCHEDULE_PUT || op_commit(op) || op->kind == OP_QUEUE_PUT ||
           op->kind == OP_NOTE || op->kind == OP_ALERT_PUT || op->kind == OP_DEPENDENCIES ||
           (op->kind == OP_PATCH && op->patch.has_payload);
}

/* The server is full: operations that would add data are refused, so that the others can
 * continue. */
static void refuse_growth(struct item *it)
{
    struct unit *u = &it->unit;
    size_t left = 0;
    for (size_t i = 0; i < u->count; i++) {
        struct turn *t = &u->turns[i];
        if (!grows(t->op)) {
            u->turns[left++] = *t;
            continue;
        }
        t->reply = (struct reply){.outcome = OUT_UNAVAILABLE,
                                  .note = "Redis has reached its maxmemory: nothing can be added "
                                          "until memory is free"};
        unit_turn_answer(t);
    }
    u->count = left;
}

void rd_unit_begin(struct item *it)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    if (it->no_growth)
        refuse_growth(it);
    if (it->unit.count == 0) {
        rd_item_over(it);
        return;
    }
    it->shared = s->sh.node.others > 0 || s->contended;
    it->unit.alone = unit_about_schedules(&it->unit) || needs_exclusive_unit(it->unit.turns[0].op);
    if (unit_about_schedules(&it->unit)) {
        rd_schedules_ask(it);
        rd_item_send(it, STAGE_ASKING, schedules_cb);
    } else if (unit_about_alerts(&it->unit)) {
        rd_alerts_ask(it);
        rd_item_send(it, STAGE_ASKING, alerts_cb);
    } else {
        load(it);
    }
}
