/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules, what they have raised, notices and breakers in memory. Each is stored as the record
 * that created it, in the order in which a load returns them. */
#include "backend/local/memory/store_memory.h"
#include "base/containers/sorted.h"
#include "base/mem.h"

/* ---- order ---- */

static int record_order(const struct record *a, const struct record *b)
{
    switch ((int)a->kind) {
    case REC_ALERT_PUT:
        return span_order(a->alert_put.name, b->alert_put.name);
    case REC_ALERT_EDGE: {
        int order = span_order(a->alert_edge.alert, b->alert_edge.alert);
        return order ? order : span_order(a->alert_edge.queue, b->alert_edge.queue);
    }
    case REC_NOTICE_NEW:
        return a->notice_new.number < b->notice_new.number
                   ? -1
                   : a->notice_new.number > b->notice_new.number;
    default:
        return span_order(a->breaker_put.target, b->breaker_put.target);
    }
}

static size_t place_of(const struct kept_records *all, const struct record *r)
{
    return SORTED_INDEX(all->count, i, record_order(&all->list[i]->record, r) < 0);
}

static struct kept_record *find(const struct kept_records *all, const struct record *r)
{
    size_t at = place_of(all, r);
    bool found = at < all->count && record_order(&all->list[at]->record, r) == 0;
    return found ? all->list[at] : NULL;
}

/* ---- adding and removing ---- */

#define SPANS_MAX 4

static size_t spans_of(struct record *r, struct span *ret[SPANS_MAX])
{
    size_t n = 0;
    switch ((int)r->kind) {
    case REC_ALERT_PUT:
        ret[n++] = &r->alert_put.name;
        ret[n++] = &r->alert_put.rule.queue;
        ret[n++] = &r->alert_put.rule.url;
        ret[n++] = &r->alert_put.rule.secret;
        break;
    case REC_ALERT_EDGE:
        ret[n++] = &r->alert_edge.alert;
        ret[n++] = &r->alert_edge.queue;
        break;
    case REC_NOTICE_NEW:
        ret[n++] = &r->notice_new.alert;
        ret[n++] = &r->notice_new.queue;
        ret[n++] = &r->notice_new.subject;
        ret[n++] = &r->notice_new.text;
        break;
    default:
        ret[n++] = &r->breaker_put.target;
        break;
    }
    return n;
}

static void remove_at(struct kept_records *all, size_t at)
{
    mem_free(all->list[at]->error);
    mem_free(all->list[at]);
    all->count--;
    memmove(all->list + at, all->list + at + 1, (all->count - at) * sizeof all->list[0]);
}

/* Stores a copy of the record, in order; it replaces an earlier one with the same key. */
static int put(struct kept_records *all, const struct record *r)
{
    struct record copy = *r;
    struct span *spans[SPANS_MAX];
    size_t count = spans_of(&copy, spans), bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += spans[i]->len;
    struct kept_record **grown =
        mem_more(all->list, all->count, &all->room, sizeof(struct kept_record *));
    if (!grown)
        return -ERR_NOMEM;
    all->list = grown;
    struct kept_record *k = mem_zalloc(sizeof *k + bytes);
    if (!k)
        return -ERR_NOMEM;
    char *to = k->texts;
    for (size_t i = 0; i < count; i++)
        span_move(spans[i], &to);
    k->record = copy;
    size_t at = place_of(all, r);
    if (find(all, r))
        remove_at(all, at);
    memmove(all->list + at + 1, all->list + at, (all->count - at) * sizeof all->list[0]);
    all->list[at] = k;
    all->count++;
    return 0;
}

static int drop(struct kept_records *all, const struct record *r, struct err_note *note)
{
    if (!find(all, r))
        return err_note_set(note, -ERR_CORRUPT, "what it removes does not exist");
    remove_at(all, place_of(all, r));
    return 0;
}

static struct span alert_of(const struct record *r)
{
    return r->kind == REC_ALERT_EDGE ? r->alert_edge.alert : r->notice_new.alert;
}

static void drop_of(struct kept_records *all, struct span alert)
{
    for (size_t i = all->count; i > 0; i--)
        if (span_equal(alert_of(&all->list[i - 1]->record), alert))
            remove_at(all, i - 1);
}

/* ---- records ---- */

static int alert_put(struct store_memory *m, const struct record *r)
{
    struct record kept = *r;
    kept.alert_put.condition_changed = false; /* store the rule, not the effect of the change */
    int rc = put(&m->records[KEPT_ALERTS], &kept);
    if (rc == 0 && r->alert_put.condition_changed)
        drop_of(&m->records[KEPT_RAISED], r->alert_put.name);
    if (rc == 0 && r->alert_put.rule.url.len == 0)
        drop_of(&m->records[KEPT_NOTICES], r->alert_put.name);
    return rc;
}

static int alert_gone(struct store_memory *m, const struct record *r, struct err_note *note)
{
    struct record key = {.kind = REC_ALERT_PUT, .alert_put = {.name = r->alert_gone.name}};
    drop_of(&m->records[KEPT_RAISED], r->alert_gone.name);
    drop_of(&m->records[KEPT_NOTICES], r->alert_gone.name);
    return drop(&m->records[KEPT_ALERTS], &key, note);
}

static int notice_tried(struct store_memory *m, const struct record *r, struct err_note *note)
{
    struct record key = {.kind = REC_NOTICE_NEW, .notice_new = {.number = r->notice_tried.number}};
    struct kept_record *k = find(&m->records[KEPT_NOTICES], &key);
    if (!k)
        return err_note_set(note, -ERR_CORRUPT, "the notice does not exist");
    if (bytes_replace(&k->error, r->notice_tried.error) != 0)
        return -ERR_NOMEM;
    k->tried = *r;
    k->tried.notice_tried.error = span_of(k->error, r->notice_tried.error.len);
    return 0;
}

static int notice_gone(struct store_memory *m, const struct record *r, struct err_note *note)
{
    struct record key = {.kind = REC_NOTICE_NEW, .notice_new = {.number = r->notice_gone.number}};
    return drop(&m->records[KEPT_NOTICES], &key, note);
}

static int breaker_gone(struct store_memory *m, const struct record *r, struct err_note *note)
{
    struct record key = {.kind = REC_BREAKER_PUT,
                         .breaker_put = {.target = r->breaker_gone.target}};
    return drop(&m->records[KEPT_BREAKERS], &key, note);
}

int memory_apply_notice(struct store_memory *m, const struct record *r, struct err_note *note)
{
    switch ((int)r->kind) {
    case REC_ALERT_PUT:
        return alert_put(m, r);
    case REC_ALERT_GONE:
        return alert_gone(m, r, note);
    case REC_ALERT_EDGE:
        return r->alert_edge.raised ? put(&m->records[KEPT_RAISED], r)
                                    : drop(&m->records[KEPT_RAISED], r, note);
    case REC_NOTICE_NEW:
        return put(&m->records[KEPT_NOTICES], r);
    case REC_NOTICE_TRIED:
        return notice_tried(m, r, note);
    case REC_NOTICE_GONE:
        return notice_gone(m, r, note);
    case REC_BREAKER_PUT:
        return put(&m->records[KEPT_BREAKERS], r);
    case REC_BREAKER_GONE:
        return breaker_gone(m, r, note);
    default:
        return -ERR_VERSION;
    }
}

/* ---- loading ---- */

/* The state of a notice that was never tried. */
static struct record untried(const struct record *r)
{
    return (struct record){.kind = REC_NOTICE_TRIED,
                           .notice_tried = {.number = r->notice_new.number,
                                            .since = r->notice_new.at,
                                            .due = r->notice_new.at}};
}

int memory_load_notices(const struct store_memory *m, const struct store_sink *sink)
{
    int rc = 0;
    for (unsigned kind = 0; kind < KEPT_KIND_COUNT && rc == 0; kind++) {
        const struct kept_records *all = &m->records[kind];
        for (size_t i = 0; i < all->count && rc == 0; i++) {
            const struct kept_record *k = all->list[i];
            rc = sink->record(sink->ctx, &k->record);
            if (rc == 0 && kind == KEPT_NOTICES) {
                struct record tried = k->tried.kind ? k->tried : untried(&k->record);
                rc = sink->record(sink->ctx, &tried);
            }
        }
    }
    return rc;
}

void memory_free_notices(struct store_memory *m)
{
    for (unsigned kind = 0; kind < KEPT_KIND_COUNT; kind++) {
        while (m->records[kind].count > 0)
            remove_at(&m->records[kind], m->records[kind].count - 1);
        mem_free(m->records[kind].list);
    }
}
