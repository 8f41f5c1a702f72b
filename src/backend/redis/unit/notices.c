/* SPDX-License-Identifier: Apache-2.0 */
/* Notices and breakers: what a unit reads and writes, and the queries.
 *
 *   notice            hash: number to notice
 *   noticel           all numbers, in their order
 *   noticed           numbers of pending notices, by the time at which to check them
 *   noticeh           hash: number to the epoch of the node that delivers it
 *   notice:ALERT      numbers of this alert's notices, by their state
 *   breaker           hash: target of a webhook to its breaker
 *   breakern          hash: name to named breaker
 *
 * The store assigns the number of a new notice. A change names the notice's revision, and a breaker
 * as it was: if two nodes take the same notice, or count failures of one target at once, the second
 * begins again. Notices that were taken by a node whose heartbeats have stopped are given to
 * another node by the next take. */
#include "backend/redis/impl.h"

#define RECORD_NUMBER 1 /* in the records, which must contain a number */

/* --- the encoding of a notice --- */

static void head_encode(const struct wnotice *n, char head[ROW_HEAD(notice)])
{
    ROW_PUT(head, notice, version, ROW_VERSION);
    ROW_PUT(head, notice, revision, redis_revision(n->packed) + 1);
    ROW_PUT(head, notice, due, n->tried.due.ms);
    ROW_PUT(head, notice, alert_bytes, n->notice.alert.len);
}

struct span redis_notice_encode(struct unit *u, const struct wnotice *n)
{
    struct record made = {.kind = REC_NOTICE_NEW, .notice_new = n->notice};
    struct record tried = {.kind = REC_NOTICE_TRIED, .notice_tried = n->tried};
    char head[ROW_HEAD(notice)];
    struct buf b;
    made.notice_new.number = tried.notice_tried.number = RECORD_NUMBER;
    head_encode(n, head);
    buf_init(&b);
    bool whole = buf_append(&b, head, sizeof head) == 0 &&
                 buf_append(&b, n->notice.alert.at, n->notice.alert.len) == 0 &&
                 record_encode(&made, &b) == 0 && record_encode(&tried, &b) == 0;
    const char *at = whole ? arena_copy(&u->arena, b.data, b.len) : NULL;
    struct span packed = span_of(at, at ? b.len : 0);
    u->nomem |= !at;
    buf_done(&b);
    return packed;
}

int redis_notice_decode(uint64_t number, struct span packed, struct wnotice *ret)
{
    struct record made, tried;
    if (number == 0 || packed.len < ROW_HEAD(notice) ||
        ROW_GET(packed.at, notice, version) != ROW_VERSION)
        return -ERR_CORRUPT;
    size_t head = ROW_HEAD(notice) + ROW_GET(packed.at, notice, alert_bytes);
    if (packed.len < head)
        return -ERR_CORRUPT;
    struct span rest = span_of(packed.at + head, packed.len - head);
    if (record_decode(&rest, &made) != 0 || made.kind != REC_NOTICE_NEW ||
        record_decode(&rest, &tried) != 0 || tried.kind != REC_NOTICE_TRIED || rest.len != 0)
        return -ERR_CORRUPT;
    if (made.notice_new.job_seq > LIMIT_SEQ)
        return -ERR_CORRUPT;
    *ret = (struct wnotice){.notice = made.notice_new, .tried = tried.notice_tried};
    ret->notice.number = ret->tried.number = number;
    ret->packed = packed;
    return 0;
}

/* --- loading --- */

static uint64_t number_of(const struct op *op)
{
    if (op->kind == OP_NOTICE_END)
        return op->notice_end.number;
    return op->kind == OP_NOTICE_AGAIN || op->kind == OP_NOTICE_DISCARD ? op->notice.id.seq : 0;
}

static void ask_due(struct item *it, const struct op_notice_take *want)
{
    struct rargs *a = &it->args;
    struct rd_store *s = rd_of_unit(&it->unit);
    redis_args_int(a, s->sh.facts.epoch);
    redis_args_int(a, shared_silent_ms(&s->sh));
    redis_args_text(a, want->reset ? "1" : "");
    redis_args_int(a, NOTICE_LOOKS);
    for (uint32_t i = 0; i < want->mine_count; i++)
        redis_args_seq(a, want->mine[i]);
}

static void ask_breakers(struct item *it)
{
    const struct unit *u = &it->unit;
    int64_t names = 0;
    for (size_t i = 0; i < u->count; i++)
        names += unit_breaker_name(u->turns[i].op).len > 0;
    redis_args_int(&it->args, names);
    for (size_t i = 0; i < u->count; i++)
        if (unit_breaker_name(u->turns[i].op).len > 0)
            redis_args_bytes(&it->args, unit_breaker_name(u->turns[i].op));
}

/* The last arguments of lua/alerts.lua. */
void rd_notices_ask(struct item *it)
{
    const struct unit *u = &it->unit;
    if (u->turns[0].op->kind == OP_NOTICE_TAKE) {
        ask_due(it, &u->turns[0].op->notice_take);
        return;
    }
    ask_breakers(it);
    for (size_t i = 0; i < u->count; i++)
        if (number_of(u->turns[i].op))
            redis_args_seq(&it->args, number_of(u->turns[i].op));
}

static bool is_loaded(const struct unit *u, uint64_t number)
{
    const struct wnotice *n = u->alerts.notices;
    while (n && n->notice.number != number)
        n = n->next;
    return n != NULL;
}

/* list: number, notice, when to check it, whether a node has it …; a number may come twice if it
 * was requested twice */
static void load_notices(struct unit *u, const redisReply *list)
{
    bool takes = u->turns[0].op->kind == OP_NOTICE_TAKE;
    for (size_t i = 0; i + 3 < reply_count(list); i += 4) {
        uint64_t number = redis_seq_decode(reply_span(reply_at(list, i)));
        struct wnotice loaded;
        if (!takes && is_loaded(u, number))
            continue;
        if (redis_notice_decode(number, reply_span(reply_at(list, i + 1)), &loaded) != 0) {
            log_event(u->s->config.log, LOG_ERROR, "redis_notice_damaged",
                      LOG_INT("number", number));
            continue;
        }
        loaded.look_ms = rd_reply_time(reply_at(list, i + 2));
        loaded.held = rd_reply_int(reply_at(list, i + 3)) != 0;
        if (!unit_notice_add(u, &loaded))
            return;
    }
    if (takes && reply_count(list) / 4 >= NOTICE_LOOKS)
        u->alerts.next_look = u->now; /* there may be more */
}

void rd_notices_loaded(struct item *it, const redisReply *notices, const redisReply *breakers)
{
    struct unit *u = &it->unit;
    load_notices(u, notices);
    for (size_t i = 0; i < reply_count(breakers); i++) {
        struct record rec;
        struct span packed = reply_span(reply_at(breakers, i));
        if (!rd_record_read(packed, REC_BREAKER_PUT, &rec))
            continue; /* the next call of its target sets it again */
        if (unit_breaker_find(unit_ops(u), rec.breaker_put.target))
            continue; /* two operations concern it */
        struct wbreaker *b = unit_breaker_add(u, rec.breaker_put.target, &rec.breaker_put.breaker);
        if (!b)
            return;
        b->packed = packed;
    }
}

/* --- storing --- */

static const char *breaker_key(const struct wbreaker *b)
{
    return breaker_is_named(b->target) ? "breakern" : "breaker";
}

void rd_notices_checks(struct item *it)
{
    const struct unit *u = &it->unit;
    struct rargs *a = &it->args;
    for (const struct wnotice *n = u->alerts.notices; n; n = n->next) {
        if (!n->changed)
            continue;
        redis_args_text(a, "notice");
        redis_args_int(a, 2);
        redis_args_seq(a, n->notice.number);
        redis_args_bytes(a, span_of(n->packed.at, ROW_REVISION_BYTES));
    }
    for (const struct wbreaker *b = u->alerts.breakers; b; b = b->next) {
        if (!b->changed)
            continue;
        redis_args_text(a, breaker_key(b));
        redis_args_int(a, 2);
        redis_args_bytes(a, b->target);
        redis_args_bytes(a, b->packed);
    }
}

static void put_noted(struct item *it, const struct wnotice *n)
{
    struct rargs *a = &it->args;
    redis_args_seq(a, n->notice.number);
    redis_args_int(a, n->tried.state);
    redis_args_int(a, n->look_ms);
    if (n->held)
        redis_args_int(a, it->unit.s->facts.epoch);
    else
        redis_args_text(a, "");
    redis_args_bytes(a, redis_notice_encode(&it->unit, n));
}

static void change_noted(struct item *it, bool gone)
{
    struct rargs *a = &it->args;
    struct rargs_mark before = redis_args_mark(a);
    rd_change(a, gone ? "UNNOTE" : "NOTED", "");
    for (const struct wnotice *n = it->unit.alerts.notices; n; n = n->next) {
        if (!n->changed || n->gone != gone)
            continue;
        if (gone)
            redis_args_seq(a, n->notice.number);
        else
            put_noted(it, n);
    }
    if (!rd_change_end(a))
        redis_args_undo(a, before);
}

static void change_fresh(struct item *it)
{
    struct rargs *a = &it->args;
    char most[16];
    snprintf(most, sizeof most, "%d", LIMIT_NOTICES);
    rd_change(a, "NOTICE", most);
    for (const struct wnotice *n = it->unit.alerts.fresh; n; n = n->next) {
        redis_args_int(a, n->look_ms);
        redis_args_bytes(a, redis_notice_encode(&it->unit, n));
    }
    rd_change_end(a);
}

static void change_breaker(struct item *it, const struct wbreaker *b)
{
    struct rargs *a = &it->args;
    struct record rec = {.kind = REC_BREAKER_PUT,
                         .breaker_put = {.target = b->target, .breaker = b->breaker}};
    if (!b->changed || (b->gone && !b->stored))
        return;
    rd_change(a, b->gone ? "HDEL" : "HSET", breaker_key(b));
    redis_args_bytes(a, b->target);
    if (!b->gone)
        redis_args_bytes(a, rd_record(&it->unit, &rec));
    rd_change_end(a);
}

static void change_let_go(struct item *it)
{
    const struct unit_alerts *of = &it->unit.alerts;
    if (of->let_go_count == 0)
        return;
    rd_change(&it->args, "LETGO", "");
    for (size_t i = 0; i < of->let_go_count; i++)
        redis_args_bytes(&it->args, of->let_go[i]);
    rd_change_end(&it->args);
}

void rd_notices_changes(struct item *it)
{
    if (it->unit.alerts.notices) {
        change_noted(it, true);
        change_noted(it, false);
    }
    if (it->unit.alerts.fresh)
        change_fresh(it);
    for (const struct wbreaker *b = it->unit.alerts.breakers; b; b = b->next)
        change_breaker(it, b);
    change_let_go(it);
}

/* --- queries --- */

static uint32_t limit_of(const struct op_notice *want)
{
    return want->id.seq ? 1 : shared_limit(want->limit);
}

void rd_notices_send_view(struct rargs *a, const struct op *op)
{
    if (op->kind == OP_BREAKER_LIST) {
        redis_args_text(a, "E");
        return;
    }
    redis_args_text(a, "N");
    if (op->notice.id.seq)
        redis_args_seq(a, op->notice.id.seq);
    else
        redis_args_text(a, "");
    redis_args_seq(a, op->notice.after);
    redis_args_int(a, (int64_t)limit_of(&op->notice) + 1);
}

static int by_target(const void *x, const void *y)
{
    const struct breaker_view *a = x, *b = y;
    return span_order(a->target, b->target);
}

static void answer_breakers(struct unit *u, struct turn *t, const redisReply *list)
{
    size_t n = reply_count(list), shown = 0;
    struct breaker_view *views = arena_array(&u->arena, n + 1, sizeof *views);
    for (size_t i = 0; views && i < n; i++) {
        struct record rec;
        if (rd_record_read(reply_span(reply_at(list, i)), REC_BREAKER_PUT, &rec))
            views[shown++] = (struct breaker_view){.target = rec.breaker_put.target,
                                                   .breaker = rec.breaker_put.breaker};
    }
    if (views)
        qsort(views, shown, sizeof *views, by_target);
    t->reply.breakers = views;
    t->reply.breaker_count = (uint32_t)shown;
}

/* list: number, notice, its rule … */
static bool view_of(const redisReply *list, size_t at, struct notice_view *ret)
{
    struct wnotice n;
    struct record rule;
    if (redis_notice_decode(redis_seq_decode(reply_span(reply_at(list, at))),
                            reply_span(reply_at(list, at + 1)), &n) != 0 ||
        !rd_record_read(reply_span(reply_at(list, at + 2)), REC_ALERT_PUT, &rule))
        return false;
    *ret = (struct notice_view){.notice = n.notice,
                                .tried = n.tried,
                                .with_payload = rule.alert_put.rule.with_payload,
                                .url = rule.alert_put.rule.url};
    return true;
}

void rd_notices_answer(struct unit *u, struct turn *t, const redisReply *list)
{
    const struct op_notice *want = &t->op->notice;
    if (t->op->kind == OP_BREAKER_LIST) {
        answer_breakers(u, t, list);
        return;
    }
    size_t n = reply_count(list) / 3, most = limit_of(want), shown = 0;
    struct notice_view *views = arena_array(&u->arena, n + 1, sizeof *views);
    for (; shown < n && shown < most; shown++)
        if (!views || !view_of(list, 3 * shown, &views[shown])) {
            unit_refuse(t, OUT_UNAVAILABLE, "out of memory, or a notice is damaged");
            return;
        }
    if (want->id.seq && (shown == 0 || (want->id.hi && want->id.hi != views[0].notice.id_hi))) {
        unit_refuse(t, OUT_NOT_FOUND, NULL);
        return;
    }
    t->reply.notices = views;
    t->reply.notice_count = (uint32_t)shown;
    t->reply.notice_cursor = !want->id.seq && shown < n ? views[shown - 1].notice.number : 0;
}
