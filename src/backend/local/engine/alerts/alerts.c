/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules: which of them match, which conditions hold, and the notices that they cause.
 *
 * A notice about an event is a record in the frame of the event itself, so that neither can be
 * durable without the other. The broker measures conditions and reports when one begins or
 * ceases to hold. This is durable, so a restart does not repeat a notice. */
#include "ops/alerts/alerts.h"
#include "backend/local/engine/engine_impl.h"
#include "base/containers/sorted.h"
#include "core/alerts/webhook.h"

#define RAISED_SHOWN 100

void alerts_init(struct engine *e)
{
    e->alerts.version = 1;
    map128_init(&e->alerts.raised);
    slab_init(&e->outbox.notices, sizeof(struct notice));
    map64_init(&e->outbox.by_number);
    heap_init(&e->outbox.due);
    e->outbox.due.moved = notices_moved;
    e->outbox.due.moved_ctx = e;
}

static void raised_free(struct alert *a)
{
    while (a->first) {
        struct raised *next = a->first->next;
        mem_free(a->first);
        a->first = next;
    }
}

void alerts_free(struct engine *e)
{
    for (size_t i = 0; i < e->alerts.count; i++) {
        raised_free(e->alerts.list[i]);
        mem_free(e->alerts.list[i]->texts);
        mem_free(e->alerts.list[i]);
    }
    mem_free(e->alerts.list);
    map128_done(&e->alerts.raised);
    slab_done(&e->outbox.notices);
    map64_done(&e->outbox.by_number);
    heap_done(&e->outbox.due);
    breakers_free(e);
}

/* --- finding --- */

/* Where the rule is, or would be. */
static size_t place_of(const struct engine *e, struct span name)
{
    return SORTED_INDEX(e->alerts.count, i, span_order(e->alerts.list[i]->name, name) < 0);
}

struct alert *alerts_find(const struct engine *e, struct span name)
{
    size_t at = place_of(e, name);
    bool found = at < e->alerts.count && span_equal(e->alerts.list[at]->name, name);
    return found ? e->alerts.list[at] : NULL;
}

struct span alert_name_of(const struct engine *e, uint32_t number)
{
    for (size_t i = 0; i < e->alerts.count; i++)
        if (e->alerts.list[i]->number == number)
            return e->alerts.list[i]->name;
    return (struct span){NULL, 0};
}

/* Counted once for each queue and change of rules: every move that may be a death asks. */
static uint32_t dead_rules(struct engine *e, struct queue *q)
{
    if (q->alerts_version != e->alerts.version) {
        q->dead_rules = 0;
        for (size_t i = 0; i < e->alerts.count; i++)
            q->dead_rules += alert_hears((const struct alert_state *)e->alerts.list[i], ALERT_DEAD,
                                         span_of(q->name, q->name_len));
        q->alerts_version = e->alerts.version;
    }
    return q->dead_rules;
}

/* --- what is raised --- */

static struct hash128 raised_key(const struct engine *e, const struct alert *a, struct span queue)
{
    return hash128_scoped(e->hash_key, a->number, queue);
}

static struct raised *raised_find(const struct engine *e, const struct alert *a, struct span queue)
{
    return (struct raised *)(uintptr_t)map128_get(&e->alerts.raised, raised_key(e, a, queue));
}

static void raised_drop(struct engine *e, struct raised *r)
{
    struct alert *a = r->alert;
    *(r->prev ? &r->prev->next : &a->first) = r->next;
    *(r->next ? &r->next->prev : &a->last) = r->prev;
    a->raised--;
    map128_drop(&e->alerts.raised, raised_key(e, a, span_of(r->queue, r->queue_len)));
    mem_free(r);
}

static int raised_add(struct engine *e, struct alert *a, const struct rec_alert_edge *edge)
{
    struct raised *r = mem_zalloc(sizeof(*r) + edge->queue.len);
    if (!r)
        return -ERR_NOMEM;
    *r = (struct raised){.alert = a,
                         .since = edge->at,
                         .value = edge->value,
                         .mark = edge->mark,
                         .queue_len = edge->queue.len};
    if (edge->queue.len)
        memcpy(r->queue, edge->queue.at, edge->queue.len);
    int err = map128_put(&e->alerts.raised, raised_key(e, a, edge->queue), (uint64_t)(uintptr_t)r);
    if (err) {
        mem_free(r);
        return err;
    }
    /* Keeps them sorted by age, also when a load adds them in another order. */
    r->prev = a->last;
    while (r->prev && r->prev->since.ms > r->since.ms)
        r->prev = r->prev->prev;
    r->next = r->prev ? r->prev->next : a->first;
    *(r->prev ? &r->prev->next : &a->first) = r;
    *(r->next ? &r->next->prev : &a->last) = r;
    a->raised++;
    return 0;
}

int alerts_apply_edge(struct engine *e, const struct rec_alert_edge *r)
{
    struct alert *a = alerts_find(e, r->alert);
    struct raised *found = a ? raised_find(e, a, r->queue) : NULL;
    if (!a || r->raised == (found != NULL))
        return -ERR_CORRUPT;
    if (r->raised)
        return raised_add(e, a, r);
    raised_drop(e, found);
    return 0;
}

/* --- rules --- */

static struct span text_add(char **at, struct span text)
{
    char *start = *at;
    if (text.len)
        memcpy(start, text.at, text.len);
    *at += text.len;
    return span_of(start, text.len);
}

static int set_texts(struct alert *a, const struct rec_alert_put *r)
{
    struct webhook_url url;
    char target[WEBHOOK_TARGET_BYTES];
    size_t target_len = 0;
    if (r->rule.url.len) {
        if (webhook_url_parse(r->rule.url, &url, NULL) != 0)
            return -ERR_CORRUPT;
        target_len = webhook_target(&url, target);
    }
    char *texts = mem_alloc(r->name.len + r->rule.queue.len + r->rule.url.len + r->rule.secret.len +
                            target_len);
    if (!texts)
        return -ERR_NOMEM;
    char *at = texts;
    a->name = text_add(&at, r->name);
    struct alert_rule rule = r->rule;
    rule.queue = text_add(&at, r->rule.queue);
    rule.url = text_add(&at, r->rule.url);
    rule.secret = text_add(&at, r->rule.secret);
    a->target = text_add(&at, span_of(target, target_len));
    a->rule = rule;
    mem_free(a->texts); /* last: the record may point into the old texts */
    a->texts = texts;
    return 0;
}

static int alert_enter(struct engine *e, const struct rec_alert_put *r, struct alert **ret)
{
    struct alerts *all = &e->alerts;
    if (all->count == all->room) {
        struct alert **grown = mem_regrow(all->list, all->room * 2 + 8, sizeof(struct alert *));
        if (!grown)
            return -ERR_NOMEM;
        all->list = grown;
        all->room = all->room * 2 + 8;
    }
    struct alert *a = mem_zalloc(sizeof(*a));
    int err = a ? set_texts(a, r) : -ERR_NOMEM;
    if (err) {
        mem_free(a);
        return err;
    }
    size_t at = place_of(e, r->name);
    memmove(all->list + at + 1, all->list + at, (all->count - at) * sizeof(struct alert *));
    all->list[at] = a;
    all->count++;
    a->number = ++all->next_number;
    *ret = a;
    return 0;
}

int alerts_apply_put(struct engine *e, const struct rec_alert_put *r)
{
    struct alert *a = alerts_find(e, r->name);
    int err = a ? set_texts(a, r) : alert_enter(e, r, &a);
    if (err)
        return err;
    a->created_at = r->created_at;
    a->updated_at = r->updated_at;
    e->alerts.version++;
    while (r->condition_changed && a->first)
        raised_drop(e, a->first);
    if (!a->target.len)
        notices_drop_of(e, a);
    return 0;
}

int alerts_apply_gone(struct engine *e, const struct rec_alert_gone *r)
{
    struct alert *a = alerts_find(e, r->name);
    if (!a)
        return -ERR_CORRUPT;
    while (a->first)
        raised_drop(e, a->first);
    notices_drop_of(e, a);
    size_t at = place_of(e, r->name);
    e->alerts.count--;
    memmove(e->alerts.list + at, e->alerts.list + at + 1,
            (e->alerts.count - at) * sizeof(struct alert *));
    mem_free(a->texts);
    mem_free(a);
    e->alerts.version++;
    return 0;
}

/* --- events --- */

int alerts_dead_reserve(struct engine *e, struct queue *q, size_t *bytes)
{
    uint32_t count = e->alerts.count ? dead_rules(e, q) : 0;
    return count ? notices_reserve(e, count, bytes) : 0;
}

void alerts_job_dead(struct engine *e, const struct rec_job_dead *r)
{
    const struct live *l = jobs_by_seq(e, r->seq, NULL);
    struct queue *q = l ? queue_of(e, l) : NULL;
    if (!q || !dead_rules(e, q))
        return;
    struct rec_notice_new n = notice_of_dead(&l->job, span_of(q->name, q->name_len), r);
    ops_notify(&e->ops, &n);
}

void alerts_happened(struct engine *e, enum alert_on on, struct span queue, struct span subject,
                     struct span text)
{
    size_t count = 0, bytes = 0;
    for (size_t i = 0; i < e->alerts.count; i++)
        count += alert_hears((const struct alert_state *)e->alerts.list[i], on, queue);
    if (count == 0)
        return;
    if (notices_reserve(e, count, &bytes) != 0 || emit_reserve(e, bytes) != 0) {
        e->outbox.dropped += count;
        return;
    }
    struct rec_notice_new n = notice_of_event(on, queue, subject, text);
    ops_notify(&e->ops, &n);
}

/* --- for the operations of src/ops --- */

static struct alert *alert_from(const struct alert_state *a)
{
    return (struct alert *)(uintptr_t)a;
}

const struct alert_state *alerts_named(const struct ops *o, struct span name)
{
    return (const struct alert_state *)alerts_find(engine_of(o), name);
}

const struct alert_state *alerts_at(const struct ops *o, size_t at)
{
    const struct alerts *all = &engine_of(o)->alerts;
    return at < all->count ? (const struct alert_state *)all->list[at] : NULL;
}

uint64_t alerts_notices(const struct ops *o, const struct alert_state *a)
{
    (void)o;
    return alert_from(a)->notices;
}

bool alerts_raised(const struct ops *o, const struct alert_state *a, struct span queue)
{
    return raised_find(engine_of(o), alert_from(a), queue) != NULL;
}

uint64_t alerts_raised_count(const struct ops *o)
{
    return map128_count(&engine_of(o)->alerts.raised);
}

bool alerts_commit(struct ops *o, const struct record *rec, struct rec_notice_new *n)
{
    struct engine *e = engine_of(o);
    size_t bytes = record_bytes_max(rec);
    if ((n && notices_reserve(e, 1, &bytes) != 0) || map128_reserve(&e->alerts.raised, 1) != 0 ||
        emit_reserve(e, bytes) != 0 || engine_emit_or_not(e, rec) != 0)
        return false;
    if (n)
        notices_emit(e, n);
    const struct rec_alert_edge *edge = &rec->alert_edge;
    if (rec->kind == REC_ALERT_EDGE)
        events_alert(e, alerts_find(e, edge->alert), edge->queue, edge->raised, edge->value);
    return true;
}

/* --- looking --- */

static bool copy_span(struct engine *e, struct span from, struct span *ret)
{
    char *copy = from.len ? arena_copy(&e->out->arena, from.at, from.len) : NULL;
    *ret = span_of(copy, copy ? from.len : 0);
    return copy || from.len == 0;
}

static bool view_raised(struct engine *e, const struct alert *a, struct alert_view *v)
{
    uint32_t count = a->raised < RAISED_SHOWN ? (uint32_t)a->raised : RAISED_SHOWN;
    struct raised_view *views = arena_array(&e->out->arena, count ? count : 1, sizeof(*views));
    if (!views)
        return false;
    const struct raised *from = a->first;
    for (uint32_t i = 0; i < count; i++, from = from->next) {
        views[i] =
            (struct raised_view){.since = from->since, .value = from->value, .mark = from->mark};
        if (!copy_span(e, span_of(from->queue, from->queue_len), &views[i].queue))
            return false;
    }
    v->raised = views;
    v->raised_count = count;
    v->raised_total = a->raised;
    return true;
}

static bool view_alert(struct engine *e, const struct alert *a, bool secret, struct alert_view *v)
{
    *v = (struct alert_view){.rule = a->rule,
                             .has_secret = a->rule.secret.len > 0,
                             .created_at = a->created_at,
                             .updated_at = a->updated_at,
                             .pending = a->notices - a->dead,
                             .dead = a->dead};
    v->rule.secret = (struct span){NULL, 0};
    if (secret && !copy_span(e, a->rule.secret, &v->rule.secret))
        return false;
    return copy_span(e, a->name, &v->name) && copy_span(e, a->rule.queue, &v->rule.queue) &&
           copy_span(e, a->rule.url, &v->rule.url) && view_raised(e, a, v);
}

void op_alert_list(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    const struct alert *one = op->alert.name.len ? alerts_find(e, op->alert.name) : NULL;
    if (op->alert.name.len && !one) {
        refuse(r, OUT_NOT_FOUND, NULL);
        return;
    }
    size_t count = one ? 1 : e->alerts.count;
    struct alert_view *views = arena_array(&e->out->arena, count ? count : 1, sizeof(*views));
    for (size_t i = 0; views && i < count; i++)
        if (!view_alert(e, one ? one : e->alerts.list[i], op->alert.with_secrets, &views[i]))
            views = NULL;
    if (!views) {
        refuse_nomem(r);
        return;
    }
    r->reply.alerts = views;
    r->reply.alert_count = (uint32_t)count;
}

/* --- checks --- */

int alerts_verify(const struct engine *e, struct err_note *note)
{
    uint64_t raised = 0, notices = 0, dead = 0;
    for (size_t i = 0; i < e->alerts.count; i++) {
        const struct alert *a = e->alerts.list[i];
        uint64_t here = 0;
        if (i > 0 && span_order(e->alerts.list[i - 1]->name, a->name) >= 0)
            return err_note_set(note, -ERR_CORRUPT, "alerts are out of order");
        for (const struct raised *r = a->first; r; r = r->next, here++)
            if (raised_find(e, a, span_of(r->queue, r->queue_len)) != r)
                return err_note_set(note, -ERR_CORRUPT, "what an alert has raised is not found");
        if (here != a->raised)
            return err_note_set(note, -ERR_CORRUPT, "what an alert has raised is miscounted");
        raised += here;
        notices += a->notices;
        dead += a->dead;
    }
    if (raised != map128_count(&e->alerts.raised) || notices != e->outbox.notices.used ||
        dead != e->outbox.dead)
        return err_note_set(note, -ERR_CORRUPT, "alerts or their notices are miscounted");
    return 0;
}

static uint64_t hash_alert(const struct alert *a)
{
    const uint64_t numbers[] = {a->rule.on,
                                a->rule.enabled,
                                a->rule.with_payload,
                                a->rule.depth,
                                a->rule.percent,
                                a->rule.window_ms,
                                a->rule.min_ends,
                                a->rule.after_ms,
                                (uint64_t)a->created_at.ms,
                                (uint64_t)a->updated_at.ms};
    uint64_t h = state_mix_span(1, a->name);
    h = state_mix_span(h, a->rule.queue);
    h = state_mix_span(state_mix_span(h, a->rule.url), a->rule.secret);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        h = state_mix(h, numbers[i]);
    uint64_t sum = 0;
    for (const struct raised *r = a->first; r; r = r->next)
        sum += state_mix(state_mix(state_mix_span(1, span_of(r->queue, r->queue_len)), r->value),
                         (uint64_t)r->since.ms ^ r->mark << 1);
    return state_mix(h, sum);
}

uint64_t alerts_hash(const struct engine *e)
{
    uint64_t h = 1;
    for (size_t i = 0; i < e->alerts.count; i++)
        h = state_mix(h, hash_alert(e->alerts.list[i]));
    return h;
}
