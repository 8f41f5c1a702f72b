/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: what a unit reads and writes, and the queries.
 *
 *   sched, schedn    hashes: number to schedule, name to number
 *   schedl, schedc   names in their order; numbers by the last change of their definition
 *   schedf           source and target of triggers, by name
 *   items:J, holders jobs that the trigger's job J holds; all such J
 *
 * The definition of a schedule says which job a firing creates. A unit with schedules therefore
 * begins with a separate call, which loads them; then it loads the rest like any other unit. No
 * other node may have stored anything since that first call, so a firing time is used once,
 * whichever node uses it. */
#include "backend/redis/impl.h"

/* Indexes in the answer of lua/schedules.lua. */
enum answer { IS_NOW, IS_STORES, IS_THERE, IS_NUMBER, IS_CHANGE, IS_SCHEDULES, IS_FLOWS };

void rd_schedules_ask(struct item *it)
{
    struct unit *u = &it->unit;
    rd_item_call(it, SCRIPT_SCHEDULES);
    rd_args_now(rd_of_unit(u), &it->args);
    redis_args_int(&it->args, u->s->facts.epoch);
    redis_args_int(&it->args, rd_quiet_ms(it));
    for (size_t i = 0; i < u->count; i++)
        redis_args_bytes(&it->args, u->turns[i].op->schedule.name);
}

/* list: name, "LENGTH SOURCE TARGET" … of all triggers; the one that is being changed is left
 * out */
static void load_flows(struct unit *u, const redisReply *list)
{
    struct span own = u->turns[0].op->schedule.name;
    u->flows = unit_alloc(u, (reply_count(list) / 2 + 1) * sizeof *u->flows);
    for (size_t i = 0; u->flows && i + 1 < reply_count(list); i += 2) {
        struct span flow = reply_span(reply_at(list, i + 1));
        size_t source = flow.len ? (uint8_t)flow.at[0] : 0;
        if (span_equal(reply_span(reply_at(list, i)), own) || source + 1 > flow.len)
            continue;
        u->flows[u->flow_count++] = (struct schedule_flow){
            span_of(flow.at + 1, source), span_of(flow.at + 1 + source, flow.len - 1 - source)};
    }
}

int rd_schedules_loaded(struct item *it, const redisReply *r)
{
    struct unit *u = &it->unit;
    const redisReply *list = reply_at(r, IS_SCHEDULES);
    struct span stores = reply_span(reply_at(r, IS_STORES));
    int err = 0;
    u->now.ms = rd_reply_time(reply_at(r, IS_NOW));
    snprintf(it->stores, sizeof it->stores, "%.*s", (int)stores.len, stores.at ? stores.at : "");
    it->stores_known = true;
    u->schedules_there = rd_reply_count(reply_at(r, IS_THERE));
    u->schedule_number = (uint32_t)rd_reply_int(reply_at(r, IS_NUMBER)) + 1;
    it->schedule_change = rd_reply_count(reply_at(r, IS_CHANGE));
    for (size_t i = 0; !err && i + 1 < reply_count(list); i += 2) {
        struct wschedule loaded = {.number = 0};
        err = redis_schedule_decode(reply_span(reply_at(list, i)), &loaded);
        loaded.last_live = rd_reply_int(reply_at(list, i + 1)) != 0;
        if (!err && !unit_schedule(u, loaded.name))
            (void)unit_schedule_add(u, &loaded, &err);
    }
    load_flows(u, reply_at(r, IS_FLOWS));
    if (!err)
        unit_firings_prepare(u);
    return u->nomem ? -ERR_NOMEM : err;
}

/* --- storing --- */

static void one_of(struct rargs *a, const char *command, const char *key, struct span first,
                   struct span second)
{
    rd_change(a, command, key);
    redis_args_bytes(a, first);
    if (second.at)
        redis_args_bytes(a, second);
    rd_change_end(a);
}

static void put_flow(struct item *it, const struct wschedule *s)
{
    char flow[1 + 2 * LIMIT_QUEUE_NAME_BYTES];
    size_t source = s->spec.source.len, target = s->spec.queue.len;
    bool takes = s->spec.kind == SCHEDULE_QUEUE && source <= LIMIT_QUEUE_NAME_BYTES &&
                 target <= LIMIT_QUEUE_NAME_BYTES;
    if (!takes) {
        one_of(&it->args, "HDEL", "schedf", s->name, (struct span){NULL, 0});
        return;
    }
    flow[0] = (char)(uint8_t)source;
    memcpy(flow + 1, s->spec.source.at, source);
    memcpy(flow + 1 + source, s->spec.queue.at, target);
    one_of(&it->args, "HSET", "schedf", s->name, span_of(flow, 1 + source + target));
}

static void put_definition(struct item *it, const struct wschedule *s, struct span number)
{
    struct rargs *a = &it->args;
    char change[24];
    snprintf(change, sizeof change, "%llu", (unsigned long long)++it->schedule_change);
    one_of(a, "HSET", "schedn", s->name, number);
    one_of(a, "ZADD", "schedl", SPAN_LITERAL("0"), s->name);
    one_of(a, "ZADD", "schedc", span_text(change), number);
    one_of(a, "HSET", "meta", SPAN_LITERAL("schedule_change"), span_text(change));
    if (s->number == it->unit.schedule_number)
        one_of(a, "HSET", "meta", SPAN_LITERAL("schedule_number"), number);
    put_flow(it, s);
}

static void delete_schedule(struct item *it, const struct wschedule *s, struct span number)
{
    static const char *const by_name[][2] = {
        {"HDEL", "schedn"}, {"ZREM", "schedl"}, {"HDEL", "schedf"}};
    struct span none = {NULL, 0};
    for (size_t i = 0; i < sizeof by_name / sizeof by_name[0]; i++)
        one_of(&it->args, by_name[i][0], by_name[i][1], s->name, none);
    one_of(&it->args, "HDEL", "sched", number, none);
    one_of(&it->args, "ZREM", "schedc", number, none);
}

void rd_schedules_changes(struct item *it)
{
    struct unit *u = &it->unit;
    for (size_t i = 0; i < u->schedule_count; i++) {
        const struct wschedule *s = u->schedules[i];
        char text[16];
        struct span number = span_of(text, (size_t)snprintf(text, sizeof text, "%u", s->number));
        if (s->gone) {
            delete_schedule(it, s, number);
            continue;
        }
        if (s->put)
            put_definition(it, s, number);
        if (s->put || s->moved)
            one_of(&it->args, "HSET", "sched", number, redis_schedule_encode(u, s));
    }
}

/* --- queries --- */

void rd_schedules_send_view(struct rargs *a, const struct op *op)
{
    const struct op_schedule *want = &op->schedule;
    if (op->kind == OP_SCHEDULE_GET) {
        redis_args_text(a, "S");
        redis_args_bytes(a, want->number ? (struct span){NULL, 0} : want->name);
        redis_args_int(a, want->number);
        return;
    }
    redis_args_text(a, "T");
    redis_args_text(a, want->by_change ? "1" : "");
    if (want->by_change)
        redis_args_int(a, (int64_t)want->since);
    else
        redis_args_bytes(a, want->after);
    redis_args_int(a, (int64_t)shared_limit(want->limit) + 1);
}

static bool view_of(struct unit *u, const redisReply *list, size_t at, struct schedule_view *ret)
{
    struct wschedule s = {.number = 0};
    if (redis_schedule_decode(reply_span(reply_at(list, at)), &s) != 0 ||
        schedule_decode(s.text, &s.spec) != 0)
        return false;
    s.last_seq = s.state.seq;
    s.last_live = rd_reply_int(reply_at(list, at + 1)) != 0;
    *ret = unit_schedule_view(u, &s);
    return true;
}

/* list: schedule, whether its last job waits or runs, the number of its last change … */
void rd_schedules_answer(struct unit *u, struct turn *t, const redisReply *list)
{
    const struct op_schedule *want = &t->op->schedule;
    bool all = t->op->kind == OP_SCHEDULE_LIST;
    size_t n = reply_count(list) / 3, most = all ? shared_limit(want->limit) : 1, shown = 0,
           bytes = 0;
    struct schedule_view *views = arena_array(&u->arena, n + 1, sizeof *views);
    if (!all && n == 0) {
        unit_refuse(t, OUT_NO_SCHEDULE, NULL);
        return;
    }
    t->reply.change_mark = all && want->by_change ? want->since : 0;
    while (shown < n && shown < most && bytes < LIMIT_ANSWER_BYTES) {
        if (!views || !view_of(u, list, 3 * shown, &views[shown])) {
            unit_refuse(t, OUT_UNAVAILABLE, "out of memory, or a schedule is damaged");
            return;
        }
        if (all && want->by_change)
            t->reply.change_mark = rd_reply_count(reply_at(list, 3 * shown + 2));
        bytes += reply_span(reply_at(list, 3 * shown)).len;
        shown++;
    }
    t->reply.schedules = views;
    t->reply.schedule_count = (uint32_t)shown;
    t->reply.more = all && shown < n;
}
