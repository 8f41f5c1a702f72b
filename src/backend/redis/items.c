/* SPDX-License-Identifier: Apache-2.0 */
/* The items of the pipeline: their memory, their calls, and how they end. */
#include "backend/redis/impl.h"
#include "backend/shared/row_check.h"
#include "base/check.h"

/* Scripts compute with doubles: no number may exceed 2^53. */
int64_t rd_reply_int(const redisReply *r)
{
    if (!r)
        return 0;
    if (r->type == REDIS_REPLY_INTEGER)
        return sound_sum(r->integer);
    return r->type == REDIS_REPLY_STRING ? sound_sum(strtoll(r->str, NULL, 10)) : 0;
}

int64_t rd_reply_time(const redisReply *r)
{
    return sound_time(rd_reply_int(r));
}

uint64_t rd_reply_count(const redisReply *r)
{
    return sound_count(rd_reply_int(r));
}

/* --- memory --- */

struct item *rd_item_take(struct rd_store *s)
{
    struct item *it = s->spare;
    if (it) {
        s->spare = item_of(it->unit.next);
        it->unit.next = NULL;
        return it;
    }
    it = mem_zalloc(sizeof *it);
    struct turn *turns = mem_array(UNIT_OPS_MAX, sizeof *turns);
    if (!it || !turns) {
        mem_free(it);
        mem_free(turns);
        return NULL;
    }
    unit_init(&it->unit, &s->sh);
    it->unit.turns = turns;
    redis_args_init(&it->args);
    redis_plain_init(&it->plain);
    return it;
}

static void item_free(struct item *it)
{
    rd_item_reset(it);
    mem_free(it->unit.turns);
    unit_done(&it->unit);
    redis_args_done(&it->args);
    redis_plain_done(&it->plain);
    mem_free(it->kept);
    mem_free(it);
}

void rd_items_free(struct rd_store *s)
{
    while (s->spare) {
        struct item *it = s->spare;
        s->spare = it->unit.next ? item_of(it->unit.next) : NULL;
        item_free(it);
    }
}

void rd_item_reset(struct item *it)
{
    for (size_t i = 0; i < it->kept_count; i++)
        freeReplyObject(it->kept[i]);
    it->kept_count = 0;
    it->held = it->sharers_asked = it->stores_known = false;
    it->rules = 0;
    it->idems = it->buckets = it->step = NULL;
    it->step_queue = 0;
    it->slots_begin = false;
    it->views = NULL;
    it->waits = NULL;
    it->waits_last = &it->waits;
    it->view_count = 0;
    redis_args_clear(&it->args);
    redis_plain_clear(&it->plain);
    it->watched = false;
    shared_bulk_forget(&it->unit);
    unit_reset(&it->unit);
}

void rd_item_give(struct rd_store *s, struct item *it)
{
    rd_item_reset(it);
    it->unit.count = 0;
    it->tries = 0;
    it->stale = it->no_growth = it->limited = false;
    it->unit.next = s->spare ? &s->spare->unit : NULL;
    s->spare = it;
}

/* False: there is no memory to store it. */
static bool keep(struct item *it, redisReply *r)
{
    if (it->kept_count == it->kept_room) {
        redisReply **grown = mem_regrow(it->kept, it->kept_room * 2 + 8, sizeof(redisReply *));
        if (!grown)
            return false;
        it->kept = grown;
        it->kept_room = it->kept_room * 2 + 8;
    }
    it->kept[it->kept_count++] = r;
    return true;
}

/* --- calls --- */

void rd_item_call(struct item *it, enum script_id id)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    redis_script_call(&s->names, id, s->url.prefix, &it->args);
}

void rd_item_send(struct item *it, enum item_stage stage, redis_reply_fn fn)
{
    it->stage = stage;
    redis_conn_send(rd_of_unit(&it->unit)->pipeline, &it->args, fn, it);
}

static void log_refusal(struct item *it, const redisReply *r)
{
    log_event(it->unit.s->config.log, LOG_WARN, "redis_refused",
              LOG_TEXT("text", r->type == REDIS_REPLY_ERROR ? r->str : "an unknown answer"));
}

/* Errors that occur before a script has changed anything. */
static bool surely_undone(const redisReply *r)
{
    static const char *const prefixes[] = {"OOM",    "MISCONF", "READONLY",   "LOADING",
                                           "BUSY",   "NOPERM",  "MASTERDOWN", "NOREPLICAS",
                                           "NOAUTH", "NOSCRIPT"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (redis_is_error(r, prefixes[i]))
            return true;
    return false;
}

/* The server lost the scripts, or was replaced by another one: the handshake is repeated. */
static bool needs_handshake(const redisReply *r)
{
    return redis_is_error(r, "NOSCRIPT") || redis_is_error(r, "READONLY") ||
           redis_is_error(r, "LOADING");
}

static void answered_badly(struct item *it, redisReply *r, bool storing)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    bool forgot = redis_is_error(r, "NOSCRIPT");
    bool full = redis_is_error(r, "OOM") && it->kind == ITEM_UNIT && !it->no_growth;
    const char *words = redis_error_sentence(r);
    enum outcome out = storing && !surely_undone(r) ? OUT_UNKNOWN : OUT_UNAVAILABLE;
    if (needs_handshake(r))
        rd_pipeline_handshake(s);
    if (!forgot && !full)
        log_refusal(it, r);
    if (it->kind == ITEM_HEARTBEAT && !forgot)
        shared_store_lost(&s->sh, r->str); /* it answers, but cannot be used */
    freeReplyObject(r);
    it->no_growth |= full;
    if (forgot || full)
        rd_item_again(it);
    else
        rd_item_give_up(it, out, words);
}

bool rd_item_answered(struct item *it, redisReply *r, bool storing)
{
    if (!r) {
        rd_item_give_up(it, storing && !it->stale ? OUT_UNKNOWN : OUT_UNAVAILABLE, REDIS_GONE);
        return false;
    }
    if (it->stale) {
        it->stale = false;
        it->stage = STAGE_WAIT;
        freeReplyObject(r);
        rd_pipeline_wake(rd_of_unit(&it->unit));
        return false;
    }
    if (r->type == REDIS_REPLY_ERROR) {
        answered_badly(it, r, storing);
        return false;
    }
    if (!keep(it, r)) {
        freeReplyObject(r);
        rd_item_give_up(it, storing ? OUT_UNKNOWN : OUT_UNAVAILABLE, "out of memory");
        return false;
    }
    return true;
}

/* --- ends --- */

static size_t place_of(const struct rd_store *s, const struct item *it)
{
    size_t i = 0;
    while (i < s->line_count && s->line[i] != it)
        i++;
    CHECK(i < s->line_count);
    return i;
}

/* The calls of the items behind it must be repeated. */
static void step_back(struct item *it)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    for (size_t i = place_of(s, it) + 1; i < s->line_count; i++)
        s->line[i]->stale |= s->line[i]->stage != STAGE_WAIT;
    it->stage = STAGE_WAIT;
}

int64_t rd_quiet_ms(const struct item *it)
{
    if ((!it->unit.alone && !it->limited) || it->tries < QUIET_TRIES)
        return 0;
    bool scope = it->unit.alone && it->unit.turns[0].op->kind == OP_QUEUE_PUT;
    return scope ? QUIET_SCOPE_MS : QUIET_MS;
}

bool rd_item_told_to_wait(struct item *it, const redisReply *r)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    if (!span_equal(reply_span(reply_at(r, 0)), SPAN_LITERAL("wait")))
        return false;
    step_back(it);
    if (!s->leaving && !uv_is_closing((uv_handle_t *)&s->later))
        uv_timer_start(&s->later, rd_later_cb, WAIT_MS, 0);
    return true;
}

void rd_item_again(struct item *it)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    unsigned most = it->unit.alone || it->limited ? ALONE_TRIES_MAX : UNIT_TRIES_MAX;
    step_back(it);
    if (++it->tries >= most)
        rd_item_give_up(it, OUT_UNAVAILABLE, "other nodes changed the same data at every attempt");
    else
        rd_pipeline_wake(s);
}

void rd_item_over(struct item *it)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    size_t at = place_of(s, it);
    for (size_t i = at + 1; i < s->line_count; i++)
        s->line[i - 1] = s->line[i];
    s->line_count--;
    rd_item_give(s, it);
    rd_pipeline_after(s);
}

void rd_item_give_up(struct item *it, enum outcome out, const char *note)
{
    if (it->kind == ITEM_BULK)
        shared_bulks_answer(it->unit.s);
    unit_turns_refuse(&it->unit, out, note);
    rd_item_over(it);
}

void rd_item_begin(struct item *it)
{
    static void (*const begins[])(struct item *) = {
        [ITEM_UNIT] = rd_unit_begin,
        [ITEM_VIEW] = rd_read_view_begin,
        [ITEM_SEARCH] = rd_search_begin,
        [ITEM_TICK] = rd_tick_begin,
        [ITEM_BULK] = rd_bulk_begin,
        [ITEM_HEARTBEAT] = rd_heartbeat_begin,
        [ITEM_DEPENDENCIES] = rd_dependencies_begin,
    };
    if (it->tries == 0)
        it->began_ns = clock_ns();
    rd_item_reset(it);
    for (size_t i = 0; i < it->unit.count; i++)
        it->unit.turns[i] =
            (struct turn){.op = it->unit.turns[i].op, .batch = it->unit.turns[i].batch};
    begins[it->kind](it);
}
