/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules with conditions: every queue that they match is checked once a second, and a
 * condition that began or ceased to hold is reported to the backend, which stores it and creates
 * the notices.
 *
 * A pass reads the queues page by page. It does not ask the backend which conditions are raised:
 * reporting what the backend already knows changes nothing, so after a start each condition is
 * reported once, whether it holds or not.
 *
 * If there are several stores, those that answer are checked. A condition that a pass did not see
 * because its store does not answer keeps its state: nothing is cleared because it was not seen. */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "broker/alerts/webhook_delivery.h"
#include "broker/broker_impl.h"
#include "core/alerts/condition.h"

#define PAGE 500
#define WATCHES_MAX 50000
#define RULES_AGAIN_MS 60000

enum told { TOLD_NOTHING, TOLD_RAISED, TOLD_CLEARED };

/* One rule in one queue. */
struct watch {
    struct watch *next; /* all of them */
    struct hash128 key;
    struct condition condition;
    enum told told;
    uint64_t pass; /* the last one that saw it */
};

struct rule {
    struct alert_view view; /* texts in conditions.texts */
    uint64_t scope;         /* part of the keys of its watches; changes with the rule */
};

struct waiter {
    struct waiter *next;
    void (*fn)(void *ctx);
    void *ctx;
};

struct conditions {
    struct broker *broker;
    struct arena texts; /* of the rules */
    struct rule *rules; /* conditions that are enabled, or still raised */
    size_t rule_count;
    bool stale; /* the rules may have changed */
    struct mono_time rules_at;
    struct map128 by_key; /* → struct watch * */
    struct watch *watches;
    size_t watch_count;
    uint64_t passes;
    bool at_start;              /* no pass has ended yet */
    struct wall_time last_pass; /* start of the previous one */
    struct now now;             /* of the current pass */
    bool passing, again, closing;
    bool left_out;                      /* the current pass did not see the queues of all stores */
    struct op op;                       /* rules, then pages of queues */
    char after[LIMIT_QUEUE_NAME_BYTES]; /* the last queue of the previous page */
    size_t edges;                       /* being reported */
    struct waiter *waiters;
};

static void pass_end(struct conditions *c);
static void page_ask(struct conditions *c);

/* ---- reporting ---- */

struct edge {
    struct conditions *owner;
    struct hash128 key; /* of the watch */
    struct op op;
    char texts[]; /* names of rule and queue */
};

static void edge_reply(void *ctx, const struct reply *r)
{
    struct edge *edge = ctx;
    struct conditions *c = edge->owner;
    struct watch *w = (struct watch *)(uintptr_t)map128_get(&c->by_key, edge->key);
    bool certain = r->outcome == OUT_OK || r->outcome == OUT_NOT_FOUND;
    if (w && !certain)
        w->told = TOLD_NOTHING; /* the next pass reports it again */
    if (r->outcome == OUT_INVALID)
        log_event(c->broker->config.log, LOG_WARN, "alert_not_raised", LOG_TEXT("why", r->note));
    mem_free(edge);
    c->edges--;
    if (!c->passing)
        pass_end(c);
}

static bool edge_tell(struct conditions *c, const struct alert_view *alert, struct span queue,
                      struct hash128 key, const struct op_alert_edge *what)
{
    struct edge *edge = mem_zalloc(sizeof *edge + alert->name.len + queue.len);
    if (!edge)
        return false;
    memcpy(edge->texts, alert->name.at, alert->name.len);
    if (queue.len)
        memcpy(edge->texts + alert->name.len, queue.at, queue.len);
    edge->owner = c;
    edge->key = key;
    edge->op = (struct op){.kind = OP_ALERT_EDGE, .alert_edge = *what};
    edge->op.alert_edge.alert = span_of(edge->texts, alert->name.len);
    edge->op.alert_edge.queue = span_of(edge->texts + alert->name.len, queue.len);
    if (broker_submit(c->broker, &edge->op, 1, edge_reply, edge) != 0) {
        mem_free(edge);
        return false;
    }
    c->edges++;
    return true;
}

/* ---- checking ---- */

static struct hash128 key_of(const struct conditions *c, const struct rule *rule, struct span queue)
{
    return hash128_scoped(c->broker->hash_key, rule->scope, queue);
}

static struct watch *watch_add(struct conditions *c, struct hash128 key, const struct sighting *s,
                               enum condition_past past)
{
    struct watch *w = c->watch_count < WATCHES_MAX ? mem_zalloc(sizeof *w) : NULL;
    if (!w || map128_put(&c->by_key, key, (uint64_t)(uintptr_t)w) != 0) {
        mem_free(w);
        log_event(c->broker->config.log, LOG_WARN, "condition_not_watched",
                  LOG_INT("watched", c->watch_count));
        return NULL;
    }
    w->key = key;
    w->next = c->watches;
    c->watches = w;
    c->watch_count++;
    condition_begin(&w->condition, s, past);
    return w;
}

static void look(struct conditions *c, const struct rule *rule, struct span queue,
                 const struct sighting *s, enum condition_past past)
{
    struct hash128 key = key_of(c, rule, queue);
    struct watch *w = (struct watch *)(uintptr_t)map128_get(&c->by_key, key);
    if (!w)
        w = watch_add(c, key, s, past);
    if (!w)
        return;
    struct op_alert_edge edge = {.raised = false};
    w->pass = c->passes;
    enum verdict verdict =
        condition_look(&w->condition, &rule->view.rule, s, &edge.value, &edge.mark);
    enum told tell = verdict == VERDICT_HOLDS       ? TOLD_RAISED
                     : verdict == VERDICT_HOLDS_NOT ? TOLD_CLEARED
                                                    : w->told;
    if (tell == w->told)
        return;
    edge.raised = tell == TOLD_RAISED;
    if (edge_tell(c, &rule->view, queue, key, &edge))
        w->told = tell;
}

static struct sighting sighting_of(const struct conditions *c, const struct queue_view *q)
{
    const struct queue_counts *n = &q->counts;
    return (struct sighting){
        .at = c->now.mono,
        .ready = n->by_state[STATE_READY],
        .scheduled = n->by_state[STATE_SCHEDULED],
        .running = n->by_state[STATE_RUNNING],
        .capacity = q->policy->capacity,
        .warn_depth = q->policy->warn_depth,
        .claimed = n->claimed,
        .ends = n->acked + n->failed + n->crashed,
        .errors = n->failed + n->crashed,
        .oldest_ready_ms = n->oldest_ready_ms,
        .age_ms = c->now.wall.ms - q->created_at.ms,
        .paused = q->paused_until.ms > c->now.wall.ms,
    };
}

/* Other nodes change rules, too, and the counters began before this node started. */
static bool is_shared(const struct conditions *c)
{
    return (backend_caps(c->broker->config.backend) & CAP_SHARED) != 0;
}

static void look_at_queue(struct conditions *c, const struct queue_view *q)
{
    struct sighting s = sighting_of(c, q);
    enum condition_past past = c->at_start && !is_shared(c)          ? PAST_SINCE_BOOT
                               : q->created_at.ms >= c->last_pass.ms ? PAST_ALL
                                                                     : PAST_UNKNOWN;
    for (size_t i = 0; i < c->rule_count; i++)
        if (c->rules[i].view.rule.enabled && alert_matches(c->rules[i].view.rule.queue, q->name))
            look(c, &c->rules[i], q->name, &s, past);
}

/* Capacity also exists for the whole server: for rules that match every queue. */
static void check_server(struct conditions *c)
{
    struct span none = {NULL, 0};
    struct backend_figures f;
    backend_figures(c->broker->config.backend, &f);
    struct sighting s = {.at = c->now.mono, .ready = f.live, .capacity = f.capacity};
    for (size_t i = 0; i < c->rule_count; i++) {
        const struct alert_rule *rule = &c->rules[i].view.rule;
        if (rule->enabled && rule->on == ALERT_CAPACITY && alert_matches(rule->queue, none))
            look(c, &c->rules[i], none, &s, PAST_SINCE_BOOT);
    }
}

void conditions_deep(struct conditions *c, struct span queue, uint64_t depth)
{
    for (size_t i = 0; i < c->rule_count && !c->closing; i++) {
        const struct alert_rule *rule = &c->rules[i].view.rule;
        if (!rule->enabled || rule->on != ALERT_DEEP || rule->depth ||
            !alert_matches(rule->queue, queue))
            continue;
        struct hash128 key = key_of(c, &c->rules[i], queue);
        struct watch *w = (struct watch *)(uintptr_t)map128_get(&c->by_key, key);
        struct op_alert_edge edge = {.raised = true, .value = depth, .mark = depth};
        if (edge_tell(c, &c->rules[i].view, queue, key, &edge) && w)
            w->told = TOLD_RAISED;
    }
}

/* ---- conditions that were not seen ---- */

/* Raised in a queue that was deleted, or is no longer matched: it will not be checked again. */
static void clear_unseen(struct conditions *c, const struct rule *rule)
{
    for (uint32_t i = 0; i < rule->view.raised_count; i++) {
        struct span queue = rule->view.raised[i].queue;
        struct hash128 key = key_of(c, rule, queue);
        const struct watch *w = (const struct watch *)(uintptr_t)map128_get(&c->by_key, key);
        struct op_alert_edge edge = {.raised = false, .mark = rule->view.raised[i].mark};
        if (!w || w->pass != c->passes)
            (void)edge_tell(c, &rule->view, queue, key, &edge);
    }
}

/* Watches that this pass did not reach. What one of them has raised is cleared by a pass that reads
 * the rules first. */
static void sweep(struct conditions *c)
{
    struct watch **link = &c->watches;
    while (*link) {
        struct watch *w = *link;
        if (w->pass == c->passes) {
            link = &w->next;
            continue;
        }
        if (w->told == TOLD_RAISED)
            c->stale = c->again = true;
        *link = w->next;
        map128_drop(&c->by_key, w->key);
        mem_free(w);
        c->watch_count--;
    }
}

static void forget_unseen(struct conditions *c)
{
    for (size_t i = 0; i < c->rule_count; i++)
        clear_unseen(c, &c->rules[i]);
    for (size_t i = 0; i < c->rule_count; i++)
        c->rules[i].view.raised_count = 0; /* once for each read of the rules */
    sweep(c);
}

/* ---- a pass ---- */

static void call_waiters(struct conditions *c)
{
    while (c->waiters) {
        struct waiter *w = c->waiters;
        c->waiters = w->next;
        void (*fn)(void *ctx) = w->fn;
        void *ctx = w->ctx;
        bool last = !c->waiters;
        mem_free(w);
        fn(ctx); /* may free c if it was the last */
        if (last)
            return;
    }
}

static void pass_end(struct conditions *c)
{
    if (c->edges > 0)
        return;
    if (c->again && !c->closing) {
        c->again = false;
        conditions_pass(c, NULL, NULL);
        return;
    }
    call_waiters(c);
}

static void pass_over(struct conditions *c)
{
    c->passing = false;
    c->last_pass = c->now.wall;
    c->at_start = false;
    pass_end(c);
}

static void page_reply(void *ctx, const struct reply *r)
{
    struct conditions *c = ctx;
    if (c->closing || r->outcome != OUT_OK) {
        pass_over(c);
        return;
    }
    c->left_out = c->left_out || r->left_out;
    for (uint32_t i = 0; i < r->queue_count; i++) {
        if (!r->queues[i].stand_in)
            look_at_queue(c, &r->queues[i]);
    }
    if (r->queue_count == PAGE) {
        struct span last = r->queues[r->queue_count - 1].name;
        memcpy(c->after, last.at, last.len);
        c->op.queue.after = span_of(c->after, last.len);
        page_ask(c);
        return;
    }
    check_server(c);
    if (!c->left_out)
        forget_unseen(c);
    pass_over(c);
}

static void page_ask(struct conditions *c)
{
    struct span after = c->op.queue.after;
    c->op = (struct op){.kind = OP_QUEUE_LIST,
                        .queue = {.after = after, .limit = PAGE, .partial = true}};
    if (broker_submit(c->broker, &c->op, 1, page_reply, c) != 0)
        pass_over(c);
}

static void pages_begin(struct conditions *c)
{
    if (c->rule_count == 0 && c->watch_count == 0) {
        pass_over(c);
        return;
    }
    c->passes++;
    c->left_out = false;
    c->op = (struct op){.kind = OP_QUEUE_LIST};
    page_ask(c);
}

/* ---- the rules ---- */

static bool copy_text(struct arena *arena, struct span *text)
{
    char *copy = text->len ? arena_copy(arena, text->at, text->len) : NULL;
    bool good = copy || text->len == 0;
    text->at = copy;
    return good;
}

static bool rule_take(struct conditions *c, const struct alert_view *v, struct rule *ret)
{
    ret->view = *v;
    struct raised_view *raised =
        arena_array(&c->texts, v->raised_count ? v->raised_count : 1, sizeof *raised);
    bool good = raised && copy_text(&c->texts, &ret->view.name) &&
                copy_text(&c->texts, &ret->view.rule.queue);
    for (uint32_t i = 0; good && i < v->raised_count; i++) {
        raised[i] = v->raised[i];
        good = copy_text(&c->texts, &raised[i].queue);
    }
    ret->view.raised = raised;
    ret->view.rule.url = (struct span){NULL, 0};
    ret->scope = hash128_of(c->broker->hash_key, v->name).hi ^ (uint64_t)v->updated_at.ms;
    return good;
}

static void rules_reply(void *ctx, const struct reply *r)
{
    struct conditions *c = ctx;
    if (c->closing || r->outcome != OUT_OK) {
        c->stale = true;
        pass_over(c);
        return;
    }
    arena_reset(&c->texts);
    c->rule_count = 0;
    c->rules = arena_array(&c->texts, r->alert_count + 1, sizeof *c->rules);
    c->rules_at = c->now.mono;
    for (uint32_t i = 0; c->rules && i < r->alert_count; i++) {
        const struct alert_view *v = &r->alerts[i];
        if (!alert_is_condition(v->rule.on) || alert_is_of_node(v->rule.on) ||
            (!v->rule.enabled && v->raised_count == 0))
            continue;
        if (rule_take(c, v, &c->rules[c->rule_count]))
            c->rule_count++;
        else
            c->stale = true;
    }
    c->stale = c->stale || r->left_out; /* what is raised there is not known */
    pages_begin(c);
}

static void rules_ask(struct conditions *c)
{
    c->stale = false;
    c->op = (struct op){.kind = OP_ALERT_LIST, .alert.partial = true};
    if (broker_submit(c->broker, &c->op, 1, rules_reply, c) == 0)
        return;
    c->stale = true;
    pass_over(c);
}

void conditions_changed(struct conditions *c)
{
    c->stale = true;
}

void conditions_report_again(struct conditions *c)
{
    c->stale = true;
    for (struct watch *w = c->watches; w; w = w->next)
        w->told = TOLD_NOTHING;
}

static bool waiter_add(struct conditions *c, void (*fn)(void *ctx), void *ctx)
{
    struct waiter *w = mem_alloc(sizeof *w);
    if (!w)
        return false;
    *w = (struct waiter){NULL, fn, ctx};
    struct waiter **link = &c->waiters;
    while (*link)
        link = &(*link)->next;
    *link = w;
    return true;
}

void conditions_pass(struct conditions *c, void (*fn)(void *ctx), void *ctx)
{
    if (fn && !waiter_add(c, fn, ctx)) {
        fn(ctx);
        return;
    }
    if (c->passing || c->edges > 0) {
        c->again = c->again || fn || c->stale;
        return;
    }
    c->passing = true;
    c->now = clock_now(&c->broker->config.clock);
    if (c->stale || is_shared(c) || c->now.mono.ms - c->rules_at.ms >= RULES_AGAIN_MS)
        rules_ask(c);
    else
        pages_begin(c);
}

/* ---- open and close ---- */

int conditions_open(struct broker *b, struct conditions **ret)
{
    struct conditions *c = mem_zalloc(sizeof *c);
    if (!c)
        return -ERR_NOMEM;
    c->broker = b;
    c->stale = c->at_start = true;
    arena_init(&c->texts);
    map128_init(&c->by_key);
    *ret = c;
    return 0;
}

bool conditions_idle(const struct conditions *c)
{
    return !c->passing && c->edges == 0;
}

void conditions_stop(struct conditions *c)
{
    c->closing = true;
}

void conditions_close(struct conditions *c)
{
    CHECK(conditions_idle(c));
    while (c->watches) {
        struct watch *next = c->watches->next;
        mem_free(c->watches);
        c->watches = next;
    }
    map128_done(&c->by_key);
    arena_done(&c->texts);
    mem_free(c);
}
