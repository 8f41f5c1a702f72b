/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules and what they have raised: what a unit reads and writes, and the queries.
 *
 *   alert             hash: name to rule
 *   raised            hash: name, a zero byte and queue to the condition that holds there
 *   raised:ALERT      the queues in which it has raised something, by the time since which
 *   meta              its field alerts is the version of the rules, eight bytes; none = the first
 *
 * Every load returns that version. A unit in which something may happen that rules react to reads
 * them again if this node knows another version, and its store begins again unless it finds the
 * same version. So no notice is created for a deleted rule, and none is left out that a new rule
 * requires. */
#include "backend/redis/impl.h"

#define RULES_FIRST 1 /* the version before any rule was changed */

/* Indexes in the answer of lua/alerts.lua. */
enum answer {
    IS_NOW,
    IS_STORES,
    IS_VERSION,
    IS_RULES,
    IS_NOTICES,
    IS_NEXT,
    IS_BREAKERS,
    IS_NAMED,
    IS_RAISED,
    IS_THERE,
    ANSWER_COUNT
};

/* --- records --- */

struct span rd_record(struct unit *u, const struct record *rec)
{
    struct buf b;
    buf_init(&b);
    const char *at = record_encode(rec, &b) == 0 ? arena_copy(&u->arena, b.data, b.len) : NULL;
    struct span bytes = span_of(at, at ? b.len : 0);
    u->nomem |= !at;
    buf_done(&b);
    return bytes;
}

bool rd_record_read(struct span bytes, uint8_t kind, struct record *ret)
{
    return record_decode(&bytes, ret) == 0 && ret->kind == kind && bytes.len == 0;
}

/* --- the rules that this node knows --- */

uint64_t rd_rules_version(const redisReply *r)
{
    uint64_t version = redis_seq_decode(reply_span(r));
    return version ? version : RULES_FIRST;
}

bool rd_rules_needed(const struct item *it)
{
    return it->rules && it->rules != it->unit.s->alerts.version;
}

bool rd_rules_went(const struct item *it)
{
    return it->rules && it->unit.s->alerts.version == 0;
}

/* As the server stores it; 0 is the version of no rules. */
static void put_version(struct rargs *a, uint64_t version)
{
    if (version == 0)
        redis_args_text(a, "?");
    else if (version == RULES_FIRST)
        redis_args_text(a, "");
    else
        redis_args_seq(a, version);
}

static void ask(struct item *it, const char *what)
{
    rd_item_call(it, SCRIPT_ALERTS);
    rd_args_now(rd_of_unit(&it->unit), &it->args);
    put_version(&it->args, it->unit.s->alerts.version);
    redis_args_text(&it->args, what);
}

void rd_rules_ask(struct item *it)
{
    ask(it, "rules");
}

struct named {
    struct span name, rule;
};

static int by_name(const void *x, const void *y)
{
    const struct named *a = x, *b = y;
    return span_order(a->name, b->name);
}

/* list: name, rule … */
static int set_rules(struct unit *u, uint64_t version, const redisReply *list)
{
    size_t n = reply_count(list) / 2;
    struct named *named = unit_alloc(u, (n + 1) * sizeof *named);
    struct span *records = unit_alloc(u, (n + 1) * sizeof *records);
    if (!named || !records)
        return -ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        named[i] = (struct named){reply_span(reply_at(list, 2 * i)),
                                  reply_span(reply_at(list, 2 * i + 1))};
    qsort(named, n, sizeof *named, by_name);
    for (size_t i = 0; i < n; i++)
        records[i] = named[i].rule;
    return alerts_known_set(u->s, version, records, n);
}

int rd_rules_loaded(struct item *it, const redisReply *r)
{
    if (reply_count(r) != ANSWER_COUNT)
        return -ERR_CORRUPT;
    uint64_t version = rd_rules_version(reply_at(r, IS_VERSION));
    const redisReply *rules = reply_at(r, IS_RULES);
    it->rules = version;
    return rules->type == REDIS_REPLY_ARRAY ? set_rules(&it->unit, version, rules) : 0;
}

/* --- a unit about them: one call that loads everything --- */

static bool changes_rules(const struct op *op)
{
    return op->kind == OP_ALERT_PUT || op->kind == OP_ALERT_DELETE;
}

static void ask_raised(struct item *it)
{
    const struct unit *u = &it->unit;
    int64_t edges = 0;
    for (size_t i = 0; i < u->count; i++)
        edges += u->turns[i].op->kind == OP_ALERT_EDGE;
    redis_args_int(&it->args, edges);
    for (size_t i = 0; i < u->count; i++) {
        const struct op *op = u->turns[i].op;
        if (op->kind != OP_ALERT_EDGE)
            continue;
        redis_args_bytes(&it->args, op->alert_edge.alert);
        redis_args_bytes(&it->args, op->alert_edge.queue);
    }
}

void rd_alerts_ask(struct item *it)
{
    const struct op *op = it->unit.turns[0].op;
    if (changes_rules(op)) {
        ask(it, "put");
        redis_args_bytes(&it->args, op->alert.name);
        return;
    }
    ask(it, op->kind == OP_NOTICE_TAKE ? "take" : "some");
    if (op->kind != OP_NOTICE_TAKE)
        ask_raised(it);
    rd_notices_ask(it);
}

static int load_raised(struct unit *u, const redisReply *list)
{
    for (size_t i = 0; i < reply_count(list); i++) {
        struct record rec;
        struct span packed = reply_span(reply_at(list, i));
        if (!rd_record_read(packed, REC_ALERT_EDGE, &rec))
            return -ERR_CORRUPT;
        struct wraised *w = unit_raised_add(u, rec.alert_edge.alert, rec.alert_edge.queue);
        if (!w)
            return -ERR_NOMEM;
        w->stored = w->there = true;
        w->since = rec.alert_edge.at;
        w->value = rec.alert_edge.value;
        w->mark = rec.alert_edge.mark;
        w->packed = packed;
    }
    return 0;
}

int rd_alerts_loaded(struct item *it, const redisReply *r)
{
    struct unit *u = &it->unit;
    int err = rd_rules_loaded(it, r);
    if (err)
        return err;
    struct span stores = reply_span(reply_at(r, IS_STORES));
    snprintf(it->stores, sizeof it->stores, "%.*s", (int)stores.len, stores.at ? stores.at : "");
    u->now.ms = rd_reply_time(reply_at(r, IS_NOW));
    shared_clock_heard(u->s, u->now.ms);
    if (changes_rules(u->turns[0].op)) {
        u->alerts.put = unit_alloc(u, sizeof *u->alerts.put);
        if (u->alerts.put)
            u->alerts.put->notices = rd_reply_count(reply_at(r, IS_THERE));
        return u->nomem ? -ERR_NOMEM : 0;
    }
    u->alerts.raised_there = rd_reply_count(reply_at(r, IS_THERE));
    u->alerts.next_look.ms = rd_reply_time(reply_at(r, IS_NEXT));
    u->alerts.named_there = rd_reply_count(reply_at(r, IS_NAMED));
    err = load_raised(u, reply_at(r, IS_RAISED));
    if (!err)
        rd_notices_loaded(it, reply_at(r, IS_NOTICES), reply_at(r, IS_BREAKERS));
    return u->nomem ? -ERR_NOMEM : err;
}

/* --- storing --- */

static void check_raised(struct item *it, const struct wraised *r)
{
    struct buf field;
    buf_init(&field);
    it->args.failed |= buf_append(&field, r->alert.at, r->alert.len) != 0 ||
                       buf_append(&field, "", 1) != 0 ||
                       buf_append(&field, r->queue.at, r->queue.len) != 0;
    redis_args_text(&it->args, "raised");
    redis_args_int(&it->args, 2);
    redis_args_bytes(&it->args, buf_span(&field));
    redis_args_bytes(&it->args, r->packed);
    buf_done(&field);
}

/* If two nodes raise the same condition at once, the second store begins again. */
void rd_alerts_checks(struct item *it)
{
    const struct unit *u = &it->unit;
    if (!it->rules)
        return;
    redis_args_text(&it->args, "meta");
    redis_args_int(&it->args, 2);
    redis_args_text(&it->args, "alerts");
    put_version(&it->args, u->s->alerts.version);
    for (const struct wraised *r = u->alerts.raised; r; r = r->next)
        if (r->changed)
            check_raised(it, r);
    rd_notices_checks(it);
}

static void change_named(struct item *it, const char *command, const char *key, struct span name)
{
    rd_change(&it->args, command, key);
    redis_args_bytes(&it->args, name);
    rd_change_end(&it->args);
}

static void change_rule(struct item *it, const struct walert_put *p)
{
    struct rargs *a = &it->args;
    if (!p->name.len) /* refused */
        return;
    rd_change(a, p->gone ? "HDEL" : "HSET", "alert");
    redis_args_bytes(a, p->name);
    if (!p->gone)
        redis_args_bytes(a, p->record);
    rd_change_end(a);
    rd_change(a, "HSET", "meta");
    redis_args_text(a, "alerts");
    redis_args_seq(a, it->unit.s->alerts.version + 1);
    rd_change_end(a);
    if (p->forget)
        change_named(it, "UNRAISE", "", p->name);
    if (p->drop)
        change_named(it, "NOWHERE", "", p->name);
}

static void change_raised(struct item *it, const struct wraised *r)
{
    struct rargs *a = &it->args;
    struct record rec = {.kind = REC_ALERT_EDGE,
                         .alert_edge = {.alert = r->alert,
                                        .queue = r->queue,
                                        .raised = true,
                                        .at = r->since,
                                        .value = r->value,
                                        .mark = r->mark}};
    rd_change(a, "RAISE", "");
    redis_args_bytes(a, r->alert);
    redis_args_bytes(a, r->queue);
    redis_args_int(a, r->since.ms);
    redis_args_bytes(a, r->there ? rd_record(&it->unit, &rec) : (struct span){NULL, 0});
    rd_change_end(a);
}

void rd_alerts_changes(struct item *it)
{
    const struct unit *u = &it->unit;
    if (u->alerts.put)
        change_rule(it, u->alerts.put);
    for (const struct wraised *r = u->alerts.raised; r; r = r->next)
        if (r->changed)
            change_raised(it, r);
    rd_notices_changes(it);
}

/* told: notices that were dropped, that are pending, that are dead; none = no change */
void rd_alerts_stored(struct item *it, const redisReply *told)
{
    struct unit *u = &it->unit;
    struct backend_figures *f = &u->s->figures;
    if (u->alerts.put && u->alerts.put->name.len)
        alerts_known_done(u->s); /* the next unit that needs them reads them again */
    if (reply_count(told) != 3)
        return;
    f->notices_dropped += rd_reply_count(reply_at(told, 0));
    f->notices_pending = rd_reply_count(reply_at(told, 1));
    f->notices_dead = rd_reply_count(reply_at(told, 2));
}

/* --- queries --- */

void rd_alerts_send_view(struct rargs *a, const struct op *op)
{
    redis_args_text(a, "A");
    redis_args_bytes(a, op->alert.name);
}

static bool view_raised(struct unit *u, const redisReply *list, struct alert_view *v)
{
    size_t n = reply_count(list);
    struct raised_view *views = arena_array(&u->arena, n + 1, sizeof *views);
    for (size_t i = 0; views && i < n; i++) {
        struct record rec;
        if (!rd_record_read(reply_span(reply_at(list, i)), REC_ALERT_EDGE, &rec))
            return false;
        views[i] = (struct raised_view){.queue = rec.alert_edge.queue,
                                        .since = rec.alert_edge.at,
                                        .value = rec.alert_edge.value,
                                        .mark = rec.alert_edge.mark};
    }
    v->raised = views;
    v->raised_count = (uint32_t)n;
    return views != NULL;
}

#define VIEW_PARTS 6 /* name, rule, pending, dead, raised in total, some of these */

static bool view_alert(struct unit *u, const redisReply *list, size_t at, bool secret,
                       struct alert_view *v)
{
    struct record rec;
    if (!rd_record_read(reply_span(reply_at(list, at + 1)), REC_ALERT_PUT, &rec))
        return false;
    *v = (struct alert_view){.name = rec.alert_put.name,
                             .rule = rec.alert_put.rule,
                             .has_secret = rec.alert_put.rule.secret.len > 0,
                             .created_at = rec.alert_put.created_at,
                             .updated_at = rec.alert_put.updated_at,
                             .pending = rd_reply_count(reply_at(list, at + 2)),
                             .dead = rd_reply_count(reply_at(list, at + 3)),
                             .raised_total = rd_reply_count(reply_at(list, at + 4))};
    if (!secret)
        v->rule.secret = (struct span){NULL, 0};
    return view_raised(u, reply_at(list, at + 5), v);
}

static int views_by_name(const void *x, const void *y)
{
    const struct alert_view *a = x, *b = y;
    return span_order(a->name, b->name);
}

void rd_alerts_answer(struct unit *u, struct turn *t, const redisReply *list)
{
    size_t n = reply_count(list) / VIEW_PARTS;
    struct alert_view *views = arena_array(&u->arena, n + 1, sizeof *views);
    if (t->op->alert.name.len && n == 0) {
        unit_refuse(t, OUT_NOT_FOUND, NULL);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (!views || !view_alert(u, list, i * VIEW_PARTS, t->op->alert.with_secrets, &views[i])) {
            unit_refuse(t, OUT_UNAVAILABLE, "out of memory, or an alert is damaged");
            return;
        }
    if (views)
        qsort(views, n, sizeof *views, views_by_name);
    t->reply.alerts = views;
    t->reply.alert_count = views ? (uint32_t)n : 0;
}
