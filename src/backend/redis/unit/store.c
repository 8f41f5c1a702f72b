/* SPDX-License-Identifier: Apache-2.0 */
/* What a unit writes, as one call of lua/store.lua: first the checks that everything is as it was
 * when it was loaded, then the changes. The script does all checks before it changes anything, so a
 * store takes effect as a whole or is refused as a whole.
 *
 * If no other node is alive and nothing was stored since the load (the number `stores`), the checks
 * are skipped. Units of many jobs do without the script (plain.c).
 *
 * The order of the changes matters if a unique key passes from one job to another: the job that
 * releases it is written before the job that gets it. */
#include "backend/redis/impl.h"

#define HOUR_MS INT64_C(3600000)

/* --- what has changed --- */

static bool adds_any(const struct wqueue *q)
{
    for (int c = 0; c < SUM_COUNT; c++)
        if (q->adds[c])
            return true;
    return false;
}

bool rd_unit_changed(const struct unit *u)
{
    bool changed = u->key_adds != 0 || u->new_replies || u->bulk || u->idem_replaced ||
                   unit_schedules_changed(u) || unit_alerts_changed(u);
    for (size_t i = 0; i < u->wkey_count && !changed; i++)
        changed = u->wkeys[i]->changed;
    for (size_t i = 0; i < u->row_count && !changed; i++) {
        const struct row *r = u->rows[i];
        changed = r->changed || r->set_payload || r->set_note || r->set_result || r->set_error ||
                  r->set_report || r->new_steps.len > 0;
    }
    for (size_t i = 0; i < u->group_count && !changed; i++)
        changed = u->groups[i]->touched;
    for (size_t i = 0; i < u->queue_count && !changed; i++) {
        const struct wqueue *q = u->queues[i];
        changed = q->put || q->purged || q->ended || adds_any(q);
    }
    return changed;
}

static bool adds_jobs(const struct item *it)
{
    const struct unit *u = &it->unit;
    bool grows = false;
    for (size_t i = 0; i < u->row_count && !grows; i++)
        grows = u->rows[i]->fresh || u->rows[i]->set_payload;
    for (size_t i = 0; i < u->count && !grows; i++) {
        const struct op_kv_commit *c = op_commit(u->turns[i].op);
        grows = (c && c->set_count) || u->turns[i].op->kind == OP_ALERT_PUT;
    }
    for (size_t i = 0; i < u->queue_count && !grows; i++)
        grows = u->queues[i]->put && !u->queues[i]->packed.len;
    return grows && it->kind == ITEM_UNIT && !it->no_growth;
}

/* --- checks --- */

static void check_queues(struct item *it)
{
    struct rargs *a = &it->args;
    const struct unit *u = &it->unit;
    for (size_t i = 0; i < u->queue_count; i++) {
        const struct wqueue *q = u->queues[i];
        char number[16];
        snprintf(number, sizeof number, "%u", q->number);
        if (!q->packed.len && !q->put)
            continue;
        redis_args_text(a, q->packed.len ? "queues" : "names");
        redis_args_int(a, 2);
        redis_args_bytes(a, q->packed.len ? span_text(number) : q->name);
        redis_args_bytes(a, span_of(q->packed.at, q->packed.len ? ROW_REVISION_BYTES : 0));
    }
}

/* The value that a key had when it was loaded; empty = none. */
static struct span idem_before(const struct item *it, const struct idem *k)
{
    for (size_t i = 0; i + 1 < reply_count(it->idems); i += 2)
        if (span_equal(reply_span(reply_at(it->idems, i)), span_of(&k->key, sizeof k->key)))
            return reply_span(reply_at(it->idems, i + 1));
    return (struct span){NULL, 0};
}

static void check_idems(struct item *it)
{
    for (const struct idem *k = it->unit.idems; k; k = k->next) {
        if (!k->fresh)
            continue;
        redis_args_text(&it->args, "idem");
        redis_args_int(&it->args, 2);
        redis_args_bytes(&it->args, span_of(&k->key, sizeof k->key));
        redis_args_bytes(&it->args, idem_before(it, k));
    }
}

/* A node that is alone only checks whether another node stored anything in between. */
static void put_checks(struct item *it, bool strict)
{
    redis_args_list_begin(&it->args);
    if (!strict) {
        rd_check_rows(it);
        rd_dependencies_checks(it);
        check_queues(it);
        rd_limits_checks(it);
        check_idems(it);
        rd_kv_checks(it);
        rd_alerts_checks(it);
    }
    redis_args_list_end(&it->args);
}

/* --- queues --- */

static void one(struct rargs *a, const char *command, const char *key, struct span value)
{
    rd_change(a, command, key);
    redis_args_bytes(a, value);
    rd_change_end(a);
}

static void two(struct rargs *a, const char *command, const char *key, struct span first,
                struct span second)
{
    rd_change(a, command, key);
    redis_args_bytes(a, first);
    redis_args_bytes(a, second);
    rd_change_end(a);
}

static void put_pause(struct rargs *a, const struct unit *u, const struct wqueue *q,
                      struct span number)
{
    char until[24];
    snprintf(until, sizeof until, "%lld", (long long)q->paused_until.ms);
    if (unit_queue_paused(u, q) && q->paused_until.ms < LIMIT_WALL_MS)
        two(a, "ZADD", "paused", span_text(until), number);
    else
        one(a, "ZREM", "paused", number);
}

/* Its policy may keep less than before. */
static void check_retention(struct rargs *a, const struct unit *u, struct span number)
{
    char now[24];
    snprintf(now, sizeof now, "%lld", (long long)u->now.ms);
    two(a, "DUE", "due:4", number, span_text(now));
    two(a, "DUE", "due:5", number, span_text(now));
    two(a, "DUE", "due:6", number, span_text(now));
}

static void put_queue(struct item *it, const struct wqueue *q, struct span number)
{
    struct rargs *a = &it->args;
    two(a, "HSET", "queues", number, redis_queue_encode(&it->unit, q));
    put_pause(a, &it->unit, q, number);
    if (q->packed.len) {
        check_retention(a, &it->unit, number);
        return;
    }
    two(a, "HSET", "names", q->name, number);
    two(a, "ZADD", "namel", SPAN_LITERAL("0"), q->name);
}

/* Waiting jobs are hidden at once, and removed step by step. */
static void purge_queue(struct rargs *a, const struct wqueue *q, struct span number)
{
    static const char *const indexes[] = {"1", "2", "7"};
    for (size_t i = 0; i < 3; i++) {
        char key[48], purging[64];
        snprintf(purging, sizeof purging, "purge:%u:%s:%u", q->number, indexes[i], q->generation);
        one(a, "PURGE", rd_queue_key(q->number, indexes[i], key), span_text(purging));
    }
    one(a, "ZREM", "due:1", number);
}

static void drop_queue(struct rargs *a, const struct unit *u, const struct wqueue *q)
{
    static const char *const indexes[] = {"1", "2", "3", "4", "5", "6", "7", "u", "g", "sum"};
    uint32_t hour = (uint32_t)(u->now.ms / HOUR_MS);
    char key[48];
    rd_change(a, "DROP", "");
    for (size_t i = 0; i < sizeof indexes / sizeof indexes[0]; i++)
        redis_args_text(a, rd_queue_key(q->number, indexes[i], key));
    for (uint32_t h = hour - HISTORY_HOURS - 24; h <= hour + 1; h++) {
        snprintf(key, sizeof key, "h:%u:%u", q->number, h);
        redis_args_text(a, key);
    }
    rd_change_end(a);
}

static void end_queue(struct item *it, const struct wqueue *q, struct span number)
{
    static const char *const indexes[] = {"due:1", "due:3", "due:4", "due:5", "due:6", "paused"};
    struct rargs *a = &it->args;
    char key[48], purging[48];
    one(a, "HDEL", "queues", number);
    one(a, "HDEL", "names", q->name);
    one(a, "ZREM", "namel", q->name);
    snprintf(purging, sizeof purging, "purge:%u:all", q->number);
    one(a, "PURGE", rd_queue_key(q->number, "all", key), span_text(purging));
    for (size_t i = 0; i < sizeof indexes / sizeof indexes[0]; i++)
        one(a, "ZREM", indexes[i], number);
    drop_queue(a, &it->unit, q);
}

static void change_queues(struct item *it)
{
    for (size_t i = 0; i < it->unit.queue_count; i++) {
        const struct wqueue *q = it->unit.queues[i];
        char text[16];
        struct span number = span_of(text, (size_t)snprintf(text, sizeof text, "%u", q->number));
        if (q->ended) {
            end_queue(it, q, number);
            continue;
        }
        if (q->put)
            put_queue(it, q, number);
        if (q->purged)
            purge_queue(&it->args, q, number);
    }
}

/* After the queue, so that its scope is the new one. */
static void change_scope(struct item *it)
{
    static const char *const scopes[] = {
        [UNIQUE_LIVE] = "live", [UNIQUE_KEPT] = "kept", [UNIQUE_NONE] = "none"};
    const struct wqueue *q = it->unit.rescoped;
    char number[16];
    if (!q)
        return;
    snprintf(number, sizeof number, "%u", q->number);
    two(&it->args, "RESCOPE", number, ROW_SPAN(q->packed.at, queue, generation),
        span_text(scopes[q->policy.unique_scope]));
}

/* --- sums --- */

static void add_sums(struct rargs *a, const char *command, const char *key, const struct wqueue *q,
                     int from, int to, int field_from)
{
    struct rargs_mark before = redis_args_mark(a);
    rd_change(a, command, key);
    for (int c = from; c < to; c++)
        if (q->adds[c]) {
            redis_args_int(a, c - field_from);
            redis_args_int(a, q->adds[c]);
        }
    if (!rd_change_end(a))
        redis_args_undo(a, before);
}

static void change_sums(struct item *it)
{
    const struct unit *u = &it->unit;
    struct wqueue total = {.number = 0};
    char key[48];
    for (size_t i = 0; i < u->queue_count; i++) {
        const struct wqueue *q = u->queues[i];
        for (int c = 0; c < SUM_URGENT; c++)
            total.adds[c] += q->adds[c];
        if (q->gone || !adds_any(q))
            continue;
        add_sums(&it->args, "SUM", rd_queue_key(q->number, "sum", key), q, 0, SUM_COUNT, 0);
        snprintf(key, sizeof key, "h:%u:%u", q->number, (unsigned)(u->now.ms / HOUR_MS));
        add_sums(&it->args, "HOUR", key, q, SUM_COUNTERS, SUM_COUNT, SUM_COUNTERS);
    }
    add_sums(&it->args, "SUM", "total", &total, 0, SUM_URGENT, 0);
}

/* --- replies and keys --- */

/* Replies about jobs that this unit removes are stored, too. */
static bool reply_of_removed(const struct row *r, struct kept_reply *ret)
{
    *ret = (struct kept_reply){.token = r->token,
                               .seq = r->job.seq,
                               .run_at = r->reply_run_at,
                               .kind = r->reply_kind,
                               .state = r->reply_state};
    return r->gone && r->reply_kind;
}

static void put_reply(struct item *it, const struct kept_reply *w)
{
    char token[TOKEN_BYTES];
    redis_token_encode(w->token, token);
    redis_args_bytes(&it->args, span_of(token, sizeof token));
    redis_args_bytes(&it->args, redis_reply_encode(&it->unit, w));
}

/* Grouped by time, so that a whole hash of them expires at once. */
static void change_replies(struct item *it)
{
    const struct unit *u = &it->unit;
    struct rargs_mark before = redis_args_mark(&it->args);
    struct kept_reply removed;
    char key[32];
    snprintf(key, sizeof key, "kept:%lld", (long long)(u->now.ms / KEPT_SPAN_MS));
    rd_change(&it->args, "HSET", key);
    for (const struct kept_reply *w = u->new_replies; w; w = w->next)
        put_reply(it, w);
    for (size_t i = 0; i < u->row_count; i++)
        if (reply_of_removed(u->rows[i], &removed))
            put_reply(it, &removed);
    if (rd_change_end(&it->args))
        rd_change_one(&it->args, "LAPSE", key);
    else
        redis_args_undo(&it->args, before);
}

static void put_idems(struct item *it, const char *command, const char *key, bool by_time)
{
    struct rargs_mark before = redis_args_mark(&it->args);
    rd_change(&it->args, command, key);
    for (const struct idem *k = it->unit.idems; k; k = k->next) {
        char packed[IDEM_BYTES];
        if (!k->fresh)
            continue;
        if (by_time)
            redis_args_int(&it->args, k->expires_at.ms);
        redis_args_bytes(&it->args, span_of(&k->key, sizeof k->key));
        redis_idem_encode(k, packed);
        if (!by_time)
            redis_args_bytes(&it->args, span_of(packed, sizeof packed));
    }
    if (!rd_change_end(&it->args))
        redis_args_undo(&it->args, before);
}

static void change_idems(struct item *it)
{
    put_idems(it, "HSET", "idem", false);
    put_idems(it, "ZADD", "idemx", true);
}

/* --- the rest --- */

/* Without other nodes the numbers that were read are still free. */
static void change_numbers(struct item *it)
{
    const struct unit *u = &it->unit;
    if (it->shared)
        return;
    if (u->seq_next) {
        rd_change(&it->args, "SUM", "meta");
        redis_args_text(&it->args, "seq");
        redis_args_int(&it->args, (int64_t)u->seq_next);
        rd_change_end(&it->args);
    }
    if (u->number_next) {
        rd_change(&it->args, "SUM", "meta");
        redis_args_text(&it->args, "number");
        redis_args_int(&it->args, (int64_t)u->number_next);
        rd_change_end(&it->args);
    }
}

/* The sequences of jobs from other stores must never be used again. */
static void change_floor(struct item *it)
{
    if (it->unit.seq_floor == 0)
        return;
    rd_change(&it->args, "MOST", "meta");
    redis_args_text(&it->args, "seq");
    redis_args_int(&it->args, (int64_t)it->unit.seq_floor);
    rd_change_end(&it->args);
}

static void change_hold(struct item *it)
{
    const struct unit *u = &it->unit;
    bool left = false;
    char epoch[16], key[32];
    if (!it->held)
        return;
    for (size_t i = 0; i < u->row_count && !left; i++)
        left = u->rows[i]->loaded_state == STATE_READY && !u->rows[i]->gone &&
               u->rows[i]->job.state == STATE_READY;
    if (left) {
        rd_change_one(&it->args, "BACK", "");
        return;
    }
    snprintf(epoch, sizeof epoch, "%u", u->s->facts.epoch);
    snprintf(key, sizeof key, "hold:%s", epoch);
    rd_change_one(&it->args, "DEL", key);
    one(&it->args, "ZREM", "holds", span_text(epoch));
}

/* Announces requested cancels to the other nodes, because the worker may be connected to one of
 * them. */
static void announce_cancels(struct item *it)
{
    const struct unit *u = &it->unit;
    for (const struct happened *h = u->happened; h; h = h->next) {
        char text[32 + CANCEL_TEXT_BYTES], cancel[CANCEL_TEXT_BYTES];
        if (h->kind != EVENT_CANCEL_REQUESTED)
            continue;
        shared_cancel_text(h, cancel);
        int len =
            snprintf(text, sizeof text, "%u " REDIS_SIGN_CANCEL "%s", u->s->facts.epoch, cancel);
        one(&it->args, "TELL", "wake", span_of(text, (size_t)len));
    }
}

/* Announces to other nodes which queues have jobs, with the epoch of this node. */
static void announce_queues(struct item *it)
{
    const struct unit *u = &it->unit;
    const struct rd_store *s = rd_of_unit(u);
    if (s->sh.node.others == 0 && !s->contended)
        return;
    announce_cancels(it);
    for (size_t i = 0; i < u->queue_count; i++) {
        const struct wqueue *q = u->queues[i];
        char text[LIMIT_QUEUE_NAME_BYTES + 32];
        if (!q->wake || q->gone)
            continue;
        int len =
            snprintf(text, sizeof text, "%u %.*s", s->sh.facts.epoch, (int)q->name.len, q->name.at);
        one(&it->args, "TELL", "wake", span_of(text, (size_t)len));
    }
}

/* Loads bodies that claims show and that did not come with the rows. */
static void ask_bodies(struct item *it)
{
    const struct unit *u = &it->unit;
    struct rargs_mark before = redis_args_mark(&it->args);
    rd_change(&it->args, "BODIES", "");
    for (size_t i = 0; i < u->count; i++)
        for (uint32_t k = 0; u->turns[i].bodies && k < u->turns[i].reply.job_count; k++)
            if (!u->turns[i].bodies[k]->has_payload)
                redis_args_seq(&it->args, u->turns[i].bodies[k]->job.seq);
    if (!rd_change_end(&it->args))
        redis_args_undo(&it->args, before);
}

/* Loads the results of steps that claims show. */
static void ask_steps(struct item *it)
{
    const struct unit *u = &it->unit;
    struct rargs_mark before = redis_args_mark(&it->args);
    rd_change(&it->args, "STEPS", "");
    for (size_t i = 0; i < u->count; i++)
        for (uint32_t k = 0; u->turns[i].bodies && k < u->turns[i].reply.job_count; k++)
            if (u->turns[i].bodies[k]->step_index.len)
                redis_args_seq(&it->args, u->turns[i].bodies[k]->job.seq);
    if (!rd_change_end(&it->args))
        redis_args_undo(&it->args, before);
}

static void put_head(struct item *it, bool strict)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    struct rargs *a = &it->args;
    bool all = unit_alerts_changed(&it->unit) || rd_limits_redefined(it);
    enum script_id jobs = rd_limits_concerned(&it->unit) ? SCRIPT_STORE_LIMITED : SCRIPT_STORE;
    enum script_id script = all ? SCRIPT_STORE_ALL : jobs;
    if (a->plain)
        redis_script_eval(script, s->url.prefix, a);
    else
        rd_item_call(it, script);
    redis_args_text(a, it->stores);
    redis_args_int(a, s->sh.facts.epoch);
    if (it->held)
        redis_args_int(a, (int64_t)it->token);
    else
        redis_args_text(a, "");
    if (it->kind == ITEM_TICK)
        redis_args_int(a, s->sh.node.leader_epoch);
    else
        redis_args_text(a, "");
    redis_args_text(a, adds_jobs(it) ? "1" : "");
    redis_args_text(a, strict ? "1" : "");
}

/* Whether nothing at all may have been stored since the load. A pause, or a definition that leaves
 * unique keys unchanged, checks only its own queue: beside busy nodes it might otherwise never
 * succeed. */
static bool needs_quiet(const struct item *it)
{
    const struct unit *u = &it->unit;
    enum op_kind kind = u->alone ? u->turns[0].op->kind : OP_PAUSE;
    return !(kind == OP_PAUSE || (kind == OP_QUEUE_PUT && !u->rescoped && !it->slots_begin));
}

void rd_unit_send_store(struct item *it, redis_reply_fn fn)
{
    bool strict = !it->shared || needs_quiet(it);
    if (it->watched && rd_plain_fits(it))
        rd_plain_begin(it);
    put_head(it, strict);
    put_checks(it, strict);
    change_numbers(it);
    change_floor(it);
    change_queues(it);
    rd_limits_change_queues(it);
    change_scope(it);
    rd_schedules_changes(it);
    rd_kv_changes(it);
    rd_change_rows(it);
    rd_limits_changes(it);
    rd_dependencies_changes(it);
    rd_alerts_changes(it);
    change_replies(it);
    change_idems(it);
    change_sums(it);
    change_hold(it);
    if (it->unit.bulk || it->kind == ITEM_BULK)
        rd_bulk_changes(it);
    if (it->kind == ITEM_TICK)
        rd_tick_changes(it);
    if (rd_quiet_ms(it))
        one(&it->args, "HDEL", "meta", SPAN_LITERAL("stop"));
    announce_queues(it);
    ask_bodies(it);
    ask_steps(it);
    it->args.failed |= it->unit.nomem;
    if (it->args.plain)
        rd_plain_store(it, fn);
    else
        rd_item_send(it, STAGE_LAST, fn);
}
