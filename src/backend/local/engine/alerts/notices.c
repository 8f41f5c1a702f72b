/* SPDX-License-Identifier: Apache-2.0 */
/* The outbox: notices that wait for their delivery, by number and by due time.
 *
 * The delivery takes the notices that are due, which are held back for a while, and reports the
 * result of each. The hold is only in memory: after a crash, a notice without a reported result is
 * delivered again. A notice that the breaker of its target does not allow stays in the outbox and
 * is checked again later.
 *
 * The size of the outbox is limited. When it is full, a new notice replaces the oldest one: new
 * information is worth more, and the subject of the old notice can still be looked up. */
#include "backend/local/engine/engine_impl.h"
#include "ops/alerts/alerts.h"

static struct notice *notice_at(const struct engine *e, uint32_t handle)
{
    return slab_at(&e->outbox.notices, handle);
}

void notices_moved(void *engine, struct heap_entry entry, size_t index)
{
    notice_at(engine, (uint32_t)entry.seq)->place = index;
}

/* Enters it to be looked at then. Room is there: it had an entry, or one was reserved. */
static void look_at(struct engine *e, uint32_t handle, int64_t ms)
{
    struct notice *n = notice_at(e, handle);
    struct heap_entry entry = {heap_order_of(ms), handle};
    if (n->place != SIZE_MAX)
        heap_remove(&e->outbox.due, n->place);
    CHECK(heap_push(&e->outbox.due, entry) == 0);
}

static void look_no_more(struct engine *e, struct notice *n)
{
    if (n->place != SIZE_MAX)
        heap_remove(&e->outbox.due, n->place);
    n->place = SIZE_MAX;
}

/* --- coming and going --- */

/* The largest record of this kind. */
static size_t notice_bytes_max(void)
{
    struct record rec = {.kind = REC_NOTICE_NEW,
                         .notice_new = {.alert = {NULL, LIMIT_ALERT_NAME_BYTES},
                                        .queue = {NULL, LIMIT_QUEUE_NAME_BYTES},
                                        .subject = {NULL, LIMIT_QUEUE_NAME_BYTES},
                                        .text = {NULL, LIMIT_NOTICE_TEXT_BYTES}}};
    struct record gone = {.kind = REC_NOTICE_GONE};
    return record_bytes_max(&rec) + record_bytes_max(&gone);
}

int notices_reserve(struct engine *e, size_t count, size_t *bytes)
{
    int err = slab_reserve(&e->outbox.notices, count);
    if (!err)
        err = map64_reserve(&e->outbox.by_number, count);
    if (!err)
        err = heap_reserve(&e->outbox.due, count);
    if (!err)
        *bytes += count * notice_bytes_max();
    return err;
}

void notices_emit(struct engine *e, struct rec_notice_new *n)
{
    if (e->outbox.notices.used >= LIMIT_NOTICES) {
        uint64_t oldest = notice_at(e, e->outbox.first)->notice.number;
        struct record gone = {
            .kind = REC_NOTICE_GONE,
            .notice_gone = {.number = oldest, .end = NOTICE_DROPPED, .at = e->now.wall}};
        engine_emit(e, &gone);
        e->outbox.dropped++;
    }
    n->number = e->position + 1;
    n->id_hi = id_hi(e->now.wall, e->config.node);
    n->at = e->now.wall;
    struct record rec = {.kind = REC_NOTICE_NEW, .notice_new = *n};
    engine_emit(e, &rec);
}

/* The text may be the one that is there. */
static struct span keep_text(char *to, struct span from)
{
    if (from.len)
        memmove(to, from.at, from.len);
    return span_of(to, from.len);
}

int notices_apply_new(struct engine *e, const struct rec_notice_new *r)
{
    struct outbox *box = &e->outbox;
    struct alert *a = alerts_find(e, r->alert);
    if (!a || !a->target.len || map64_get(&box->by_number, r->number) ||
        (box->last && notice_at(e, box->last)->notice.number >= r->number))
        return -ERR_CORRUPT;
    size_t bytes = 0;
    uint32_t handle = notices_reserve(e, 1, &bytes) == 0 ? slab_take(&box->notices) : 0;
    if (!handle)
        return -ERR_NOMEM;
    struct notice *n = notice_at(e, handle);
    *n = (struct notice){.notice = *r, .alert = a, .place = SIZE_MAX, .prev = box->last};
    n->notice.alert = (struct span){NULL, 0};
    n->notice.queue = keep_text(n->queue, r->queue);
    n->notice.subject = keep_text(n->subject, r->subject);
    n->notice.text = keep_text(n->text, r->text);
    n->tried = (struct rec_notice_tried){.number = r->number, .since = r->at, .due = r->at};
    CHECK(map64_put(&box->by_number, n->notice.number, handle) == 0);
    *(box->last ? &notice_at(e, box->last)->next : &box->first) = handle;
    box->last = handle;
    a->notices++;
    look_at(e, handle, n->tried.due.ms);
    return 0;
}

static void count_dead(struct engine *e, const struct notice *n, int by)
{
    e->outbox.dead += (uint64_t)(int64_t)by;
    n->alert->dead += (uint64_t)(int64_t)by;
}

int notices_apply_tried(struct engine *e, const struct rec_notice_tried *r)
{
    uint32_t handle = map64_get(&e->outbox.by_number, r->number);
    if (!handle)
        return -ERR_CORRUPT;
    struct notice *n = notice_at(e, handle);
    count_dead(e, n, (r->state == NOTICE_DEAD) - (n->tried.state == NOTICE_DEAD));
    struct span error = keep_text(n->error, r->error); /* r may be what is there */
    n->tried = *r;
    n->tried.error = error;
    n->held = false;
    if (n->tried.state == NOTICE_DEAD) {
        look_no_more(e, n);
        return 0;
    }
    int err = heap_reserve(&e->outbox.due, 1);
    if (!err)
        look_at(e, handle, n->tried.due.ms);
    return err;
}

static void notice_drop(struct engine *e, uint32_t handle)
{
    struct outbox *box = &e->outbox;
    struct notice *n = notice_at(e, handle);
    look_no_more(e, n);
    count_dead(e, n, -(n->tried.state == NOTICE_DEAD));
    n->alert->notices--;
    *(n->prev ? &notice_at(e, n->prev)->next : &box->first) = n->next;
    *(n->next ? &notice_at(e, n->next)->prev : &box->last) = n->prev;
    map64_drop(&box->by_number, n->notice.number);
    slab_give(&box->notices, handle);
}

int notices_apply_gone(struct engine *e, const struct rec_notice_gone *r)
{
    uint32_t handle = map64_get(&e->outbox.by_number, r->number);
    if (!handle)
        return -ERR_CORRUPT;
    notice_drop(e, handle);
    return 0;
}

void notices_boot(struct engine *e)
{
    if (DEFECT(&e->config, DEFECT_NOTICE_LOST) && e->outbox.first)
        notice_drop(e, e->outbox.first);
}

void notices_drop_of(struct engine *e, struct alert *a)
{
    uint32_t next;
    for (uint32_t at = a->notices ? e->outbox.first : 0; at; at = next) {
        next = notice_at(e, at)->next;
        if (notice_at(e, at)->alert == a)
            notice_drop(e, at);
    }
}

/* --- looking --- */

void op_notice_list(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    uint32_t limit = op->notice.id.seq ? 1 : notice_limit(op->notice.limit), count = 0;
    struct notice_view *views = arena_array(&e->out->arena, limit, sizeof(*views));
    uint32_t at =
        op->notice.id.seq ? map64_get(&e->outbox.by_number, op->notice.id.seq) : e->outbox.first;
    for (; views && at && count < limit; at = notice_at(e, at)->next) {
        const struct notice *n = notice_at(e, at);
        if (op->notice.id.hi && op->notice.id.hi != n->notice.id_hi)
            break;
        if (n->notice.number > op->notice.after &&
            !notice_show(&e->ops, (const struct notice_entry *)n,
                         (const struct alert_state *)n->alert, false, &views[count++]))
            views = NULL;
    }
    if (!views) {
        refuse_nomem(r);
    } else if (op->notice.id.seq && count == 0) {
        refuse(r, OUT_NOT_FOUND, NULL);
    } else {
        r->reply.notices = views;
        r->reply.notice_count = count;
        r->reply.notice_cursor = !op->notice.id.seq && at ? views[count - 1].notice.number : 0;
    }
}

/* --- for the operations of src/ops --- */

static struct notice *notice_from(const struct notice_entry *n)
{
    return (struct notice *)(uintptr_t)n;
}

static uint32_t handle_of(const struct engine *e, const struct notice_entry *n)
{
    return map64_get(&e->outbox.by_number, n->notice.number);
}

void notices_new(struct ops *o, struct rec_notice_new *n)
{
    notices_emit(engine_of(o), n);
}

struct notice_entry *notices_find(struct ops *o, uint64_t number)
{
    uint32_t handle = map64_get(&engine_of(o)->outbox.by_number, number);
    return handle ? (struct notice_entry *)notice_at(engine_of(o), handle) : NULL;
}

const struct alert_state *notices_alert(const struct ops *o, const struct notice_entry *n)
{
    (void)o;
    return (const struct alert_state *)notice_from(n)->alert;
}

bool notices_commit(struct ops *o, struct notice_entry *n, const struct record *rec)
{
    struct engine *e = engine_of(o);
    (void)n;
    if (heap_reserve(&e->outbox.due, 1) != 0 || emit_reserve(e, record_bytes_max(rec)) != 0)
        return false;
    engine_emit(e, rec);
    return true;
}

void notices_begin(struct ops *o, const struct op_notice_take *want)
{
    struct engine *e = engine_of(o);
    for (uint32_t at = want->reset ? e->outbox.first : 0; at; at = notice_at(e, at)->next) {
        struct notice *n = notice_at(e, at);
        bool mine = false;
        for (uint32_t i = 0; i < want->mine_count && n->held; i++)
            mine = mine || want->mine[i] == n->notice.number;
        if (n->held && !mine) {
            n->held = false;
            look_at(e, at, n->tried.due.ms);
        }
    }
}

struct notice_entry *notices_due(struct ops *o)
{
    const struct engine *e = engine_of(o);
    struct heap_entry top;
    if (!heap_top(&e->outbox.due, &top) || top.order > heap_order_of(o->now.ms))
        return NULL;
    return (struct notice_entry *)notice_at(e, (uint32_t)top.seq);
}

void notices_look(struct ops *o, struct notice_entry *n, int64_t at_ms, bool given_out)
{
    look_at(engine_of(o), handle_of(engine_of(o), n), at_ms);
    notice_from(n)->held = given_out;
}

struct wall_time notices_next(const struct ops *o)
{
    struct heap_entry top;
    if (!heap_top(&engine_of(o)->outbox.due, &top))
        return (struct wall_time){0};
    return (struct wall_time){(int64_t)(top.order ^ (UINT64_C(1) << 63))};
}

void notices_release(struct ops *o, struct span target)
{
    struct engine *e = engine_of(o);
    for (uint32_t at = e->outbox.first; at; at = notice_at(e, at)->next) {
        const struct notice *n = notice_at(e, at);
        if (n->tried.state == NOTICE_PENDING && !n->held && span_equal(n->alert->target, target))
            look_at(e, at, n->tried.due.ms);
    }
}

/* --- checks --- */

static const char *wrong_with(const struct engine *e, uint32_t handle)
{
    const struct notice *n = notice_at(e, handle);
    if (map64_get(&e->outbox.by_number, n->notice.number) != handle)
        return "is not found by its number";
    if ((n->tried.state == NOTICE_DEAD) != (n->place == SIZE_MAX))
        return "is pending but never looked at, or dead and looked at";
    if (n->place != SIZE_MAX && heap_at(&e->outbox.due, n->place).seq != handle)
        return "does not stand where it should be looked at";
    if (!n->alert->target.len)
        return "has nowhere to go";
    return NULL;
}

int notices_verify(const struct engine *e, struct err_note *note)
{
    uint64_t count = 0, dead = 0, last = 0;
    for (uint32_t at = e->outbox.first; at; at = notice_at(e, at)->next) {
        const struct notice *n = notice_at(e, at);
        const char *why = n->notice.number <= last ? "is out of order" : wrong_with(e, at);
        if (why)
            return err_note_set(note, -ERR_CORRUPT, "notice %llu %s",
                                (unsigned long long)n->notice.number, why);
        last = n->notice.number;
        count++;
        dead += n->tried.state == NOTICE_DEAD;
    }
    if (count != e->outbox.notices.used || dead != e->outbox.dead ||
        count - dead != e->outbox.due.len)
        return err_note_set(note, -ERR_CORRUPT, "the outbox is miscounted");
    return 0;
}

uint64_t notices_hash(const struct engine *e)
{
    uint64_t h = 1;
    for (uint32_t at = e->outbox.first; at; at = notice_at(e, at)->next) {
        const struct notice *n = notice_at(e, at);
        const struct rec_notice_new *w = &n->notice;
        const struct rec_notice_tried *d = &n->tried;
        const uint64_t numbers[] = {w->number,
                                    w->id_hi,
                                    w->job_seq,
                                    w->job_hi,
                                    w->value,
                                    w->mark,
                                    (uint64_t)w->at.ms,
                                    (uint64_t)d->since.ms,
                                    (uint64_t)d->due.ms,
                                    w->attempts,
                                    d->tries,
                                    d->status,
                                    w->on,
                                    w->edge,
                                    w->reason,
                                    d->state};
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            h = state_mix(h, numbers[i]);
        h = state_mix_span(h, n->alert->name);
        const struct span texts[] = {w->queue, w->subject, w->text, d->error};
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
            h = state_mix_span(h, texts[i]);
    }
    return h;
}
