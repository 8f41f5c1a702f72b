/* SPDX-License-Identifier: Apache-2.0 */
/* The outbox: notices that wait for their delivery, by number and by when they are due.
 *
 * Who delivers takes those that are due, each held back for a while, and says how it ended. Being
 * held is of memory only: what a crash leaves unsaid is delivered again. A notice that its target's
 * breaker does not let through stays where it is and costs nothing but another look.
 *
 * The outbox is bounded. A new notice that finds it full pushes out the oldest: news are worth more
 * than history, and what the old one told of can still be looked up. */
#include "backend/local/engine/engine_impl.h"
#include "core/validate.h"

#define TAKE_LOOKS LIMIT_SLICE /* notices one take looks at */
#define RETRY_MS 1000          /* a look that came to nothing for lack of memory */

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

static void emit_gone(struct engine *e, const struct notice *n, enum notice_end end)
{
    struct record rec = {
        .kind = REC_NOTICE_GONE,
        .notice_gone = {.number = n->number, .end = (uint8_t)end, .at = e->now.wall}};
    engine_emit(e, &rec);
}

void notices_emit(struct engine *e, struct rec_notice_new *n)
{
    if (e->outbox.notices.used >= LIMIT_NOTICES) {
        emit_gone(e, notice_at(e, e->outbox.first), NOTICE_DROPPED);
        e->outbox.dropped++;
    }
    n->number = e->position + 1;
    n->id_hi = id_hi(e->now.wall, e->config.node);
    n->at = e->now.wall;
    struct record rec = {.kind = REC_NOTICE_NEW, .notice_new = *n};
    engine_emit(e, &rec);
}

/* The text may be the one that is there. */
static void keep_text(char *to, uint16_t *len, struct span from)
{
    if (from.len)
        memmove(to, from.at, from.len);
    *len = (uint16_t)from.len;
}

int notices_apply_new(struct engine *e, const struct rec_notice_new *r)
{
    struct outbox *box = &e->outbox;
    struct alert *a = alerts_find(e, r->alert);
    if (!a || !a->target.len || map64_get(&box->by_number, r->number) ||
        (box->last && notice_at(e, box->last)->number >= r->number))
        return -ERR_CORRUPT;
    size_t bytes = 0;
    uint32_t handle = notices_reserve(e, 1, &bytes) == 0 ? slab_take(&box->notices) : 0;
    if (!handle)
        return -ERR_NOMEM;
    struct notice *n = notice_at(e, handle);
    *n = (struct notice){.number = r->number,
                         .id_hi = r->id_hi,
                         .job_seq = r->job_seq,
                         .job_hi = r->job_hi,
                         .value = r->value,
                         .mark = r->mark,
                         .at = r->at,
                         .since = r->at,
                         .due = r->at,
                         .alert = a,
                         .place = SIZE_MAX,
                         .prev = box->last,
                         .attempts = r->attempts,
                         .on = r->on,
                         .edge = r->edge,
                         .reason = r->reason};
    keep_text(n->queue, &n->queue_len, r->queue);
    keep_text(n->subject, &n->subject_len, r->subject);
    keep_text(n->text, &n->text_len, r->text);
    CHECK(map64_put(&box->by_number, n->number, handle) == 0);
    *(box->last ? &notice_at(e, box->last)->next : &box->first) = handle;
    box->last = handle;
    a->notices++;
    look_at(e, handle, n->due.ms);
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
    count_dead(e, n, (r->state == NOTICE_DEAD) - (n->state == NOTICE_DEAD));
    n->state = r->state;
    n->tries = r->tries;
    n->since = r->since;
    n->due = r->due;
    n->status = r->status;
    n->held = false;
    keep_text(n->error, &n->error_len, r->error);
    if (n->state == NOTICE_DEAD) {
        look_no_more(e, n);
        return 0;
    }
    int err = heap_reserve(&e->outbox.due, 1);
    if (!err)
        look_at(e, handle, n->due.ms);
    return err;
}

static void notice_drop(struct engine *e, uint32_t handle)
{
    struct outbox *box = &e->outbox;
    struct notice *n = notice_at(e, handle);
    look_no_more(e, n);
    count_dead(e, n, -(n->state == NOTICE_DEAD));
    n->alert->notices--;
    *(n->prev ? &notice_at(e, n->prev)->next : &box->first) = n->next;
    *(n->next ? &notice_at(e, n->next)->prev : &box->last) = n->prev;
    map64_drop(&box->by_number, n->number);
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

/* --- views --- */

static bool copy_span(struct engine *e, struct span from, struct span *ret)
{
    char *copy = from.len ? arena_copy(&e->out->arena, from.at, from.len) : NULL;
    *ret = span_of(copy, copy ? from.len : 0);
    return copy || from.len == 0;
}

static bool view_notice(struct engine *e, const struct notice *n, bool secret,
                        struct notice_view *v)
{
    *v = (struct notice_view){
        .notice = {.number = n->number,
                   .id_hi = n->id_hi,
                   .on = n->on,
                   .edge = n->edge,
                   .at = n->at,
                   .job_seq = n->job_seq,
                   .job_hi = n->job_hi,
                   .reason = n->reason,
                   .attempts = n->attempts,
                   .value = n->value,
                   .mark = n->mark},
        .tried = {.number = n->number,
                  .state = n->state,
                  .tries = n->tries,
                  .since = n->since,
                  .due = n->due,
                  .status = n->status},
        .with_payload = n->alert->rule.with_payload,
    };
    return copy_span(e, alert_name(n->alert), &v->notice.alert) &&
           copy_span(e, span_of(n->queue, n->queue_len), &v->notice.queue) &&
           copy_span(e, span_of(n->subject, n->subject_len), &v->notice.subject) &&
           copy_span(e, span_of(n->text, n->text_len), &v->notice.text) &&
           copy_span(e, span_of(n->error, n->error_len), &v->tried.error) &&
           copy_span(e, n->alert->rule.url, &v->url) &&
           (!secret || copy_span(e, n->alert->rule.secret, &v->secret));
}

static uint32_t limit_of(uint32_t limit)
{
    return limit == 0 || limit > LIMIT_BATCH ? LIMIT_BATCH : limit;
}

void op_notice_list(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    uint32_t limit = op->notice.id.seq ? 1 : limit_of(op->notice.limit), count = 0;
    struct notice_view *views = arena_array(&e->out->arena, limit, sizeof(*views));
    uint32_t at =
        op->notice.id.seq ? map64_get(&e->outbox.by_number, op->notice.id.seq) : e->outbox.first;
    for (; views && at && count < limit; at = notice_at(e, at)->next) {
        const struct notice *n = notice_at(e, at);
        if (op->notice.id.hi && op->notice.id.hi != n->id_hi)
            break;
        if (n->number > op->notice.after && !view_notice(e, n, false, &views[count++]))
            views = NULL;
    }
    if (!views) {
        refuse_nomem(r);
    } else if (op->notice.id.seq && count == 0) {
        refuse(r, OUT_NOT_FOUND, NULL);
    } else {
        r->reply.notices = views;
        r->reply.notice_count = count;
        r->reply.cursor = !op->notice.id.seq && at ? views[count - 1].notice.number : 0;
    }
}

/* --- delivery --- */

static bool emit_tried(struct engine *e, struct rec_notice_tried *t)
{
    struct record rec = {.kind = REC_NOTICE_TRIED, .notice_tried = *t};
    if (heap_reserve(&e->outbox.due, 1) != 0 || emit_reserve(e, record_bytes_max(&rec)) != 0)
        return false;
    engine_emit(e, &rec);
    return true;
}

/* It waited in vain for its target to come back. */
static bool give_up(struct engine *e, const struct notice *n)
{
    struct rec_notice_tried t = {.number = n->number,
                                 .state = NOTICE_DEAD,
                                 .tries = n->tries,
                                 .since = n->since,
                                 .due = n->due,
                                 .status = n->status,
                                 .error = SPAN_LITERAL("too old: its target's breaker is open")};
    return emit_tried(e, &t);
}

/* May this one be sent now? What may not is looked at again when it may. */
static bool may_send(struct engine *e, uint32_t handle, const struct op_notice_take *want)
{
    struct notice *n = notice_at(e, handle);
    struct wall_time until = {0};
    int64_t now = e->now.wall.ms;
    n->held = false;
    if (breakers_ask(e, n->alert->target, &want->breaker, &until))
        return true;
    if (now - n->since.ms < want->give_up_ms || !give_up(e, n))
        look_at(e, handle, until.ms > now ? until.ms : now + RETRY_MS);
    return false;
}

static void release_held(struct engine *e, const struct op_notice_take *want)
{
    for (uint32_t at = e->outbox.first; at; at = notice_at(e, at)->next) {
        struct notice *n = notice_at(e, at);
        bool mine = false;
        for (uint32_t i = 0; i < want->mine_count && n->held; i++)
            mine = mine || want->mine[i] == n->number;
        if (n->held && !mine) {
            n->held = false;
            look_at(e, at, n->due.ms);
        }
    }
}

void op_notice_take(struct engine *e, const struct op *op)
{
    const struct op_notice_take *want = &op->notice_take;
    struct engine_reply *r = reply_new(e, op);
    uint32_t limit = limit_of(want->limit), count = 0;
    struct notice_view *views = arena_array(&e->out->arena, limit, sizeof(*views));
    struct heap_entry top;
    uint64_t now = heap_order_of(e->now.wall.ms);
    if (!views) {
        refuse_nomem(r);
        return;
    }
    if (want->reset)
        release_held(e, want);
    for (size_t looks = 0; looks < TAKE_LOOKS && count < limit; looks++) {
        if (!heap_top(&e->outbox.due, &top) || top.order > now)
            break;
        uint32_t handle = (uint32_t)top.seq;
        if (!may_send(e, handle, want))
            continue;
        look_at(e, handle, e->now.wall.ms + want->hold_ms);
        if (!view_notice(e, notice_at(e, handle), true, &views[count]))
            break;
        notice_at(e, handle)->held = true;
        count++;
    }
    r->reply.notices = views;
    r->reply.notice_count = count;
    if (heap_top(&e->outbox.due, &top))
        r->reply.next_due.ms = (int64_t)(top.order ^ (UINT64_C(1) << 63));
    r->after = e->position;
}

/* The target answers again: what its breaker kept back need not wait any longer. */
static void release_target(struct engine *e, struct span target)
{
    for (uint32_t at = e->outbox.first; at; at = notice_at(e, at)->next) {
        const struct notice *n = notice_at(e, at);
        if (n->state == NOTICE_PENDING && !n->held && span_equal(n->alert->target, target))
            look_at(e, at, n->due.ms);
    }
}

static void tell_breaker(struct engine *e, struct span target, const struct op_notice_end *want)
{
    if (want->reached && breakers_tell(e, target, &want->breaker, want->delivered))
        release_target(e, target);
}

static void end_delivered(struct engine *e, const struct notice *n, struct engine_reply *r)
{
    struct record rec = {.kind = REC_NOTICE_GONE};
    if (emit_reserve(e, record_bytes_max(&rec)) != 0)
        refuse_nomem(r);
    else
        emit_gone(e, n, NOTICE_DELIVERED);
}

static void end_failed(struct engine *e, const struct notice *n, const struct op_notice_end *want,
                       struct engine_reply *r)
{
    struct rec_notice_tried t = {
        .number = n->number,
        .state = want->give_up ? NOTICE_DEAD : NOTICE_PENDING,
        .tries = n->tries < UINT32_MAX ? n->tries + 1 : n->tries,
        .since = n->since,
        .due = want->due.ms >= 0 && want->due.ms <= LIMIT_WALL_MS ? want->due : e->now.wall,
        .status = want->status,
        .error = validate_cut(want->error, LIMIT_NOTICE_ERROR_BYTES)};
    if (!emit_tried(e, &t))
        refuse_nomem(r);
}

static struct notice *find(struct engine *e, struct job_ref id, struct engine_reply *r)
{
    uint32_t handle = id.seq ? map64_get(&e->outbox.by_number, id.seq) : 0;
    struct notice *n = handle ? notice_at(e, handle) : NULL;
    if (n && (!id.hi || id.hi == n->id_hi))
        return n;
    refuse(r, OUT_NOT_FOUND, NULL);
    return NULL;
}

void op_notice_end(struct engine *e, const struct op *op)
{
    const struct op_notice_end *want = &op->notice_end;
    struct engine_reply *r = reply_new(e, op);
    const struct notice *n = find(e, (struct job_ref){want->number, 0}, r);
    if (!n)
        return;
    /* Delivered is delivered, whatever else became of it meanwhile. */
    if (!want->delivered && (n->tries != want->tries || n->state == NOTICE_DEAD)) {
        r->reply.repeat = true;
        return;
    }
    struct span target = n->alert->target;
    if (want->delivered)
        end_delivered(e, n, r);
    else
        end_failed(e, n, want, r);
    if (r->reply.outcome == OUT_OK)
        tell_breaker(e, target, want);
    r->after = e->position;
}

void op_notice_again(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    const struct notice *n = find(e, op->notice.id, r);
    if (!n)
        return;
    struct rec_notice_tried t = {.number = n->number,
                                 .state = NOTICE_PENDING,
                                 .since = e->now.wall,
                                 .due = e->now.wall,
                                 .status = n->status,
                                 .error = span_of(n->error, n->error_len)};
    if (!emit_tried(e, &t))
        refuse_nomem(r);
    r->after = e->position;
}

void op_notice_discard(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    const struct notice *n = find(e, op->notice.id, r);
    struct record rec = {.kind = REC_NOTICE_GONE};
    if (!n)
        return;
    if (emit_reserve(e, record_bytes_max(&rec)) != 0) {
        refuse_nomem(r);
        return;
    }
    emit_gone(e, n, NOTICE_DISCARDED);
    r->after = e->position;
}

/* --- checks --- */

static const char *wrong_with(const struct engine *e, uint32_t handle)
{
    const struct notice *n = notice_at(e, handle);
    if (map64_get(&e->outbox.by_number, n->number) != handle)
        return "is not found by its number";
    if ((n->state == NOTICE_DEAD) != (n->place == SIZE_MAX))
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
        const char *why = n->number <= last ? "is out of order" : wrong_with(e, at);
        if (why)
            return err_note_set(note, -ERR_CORRUPT, "notice %llu %s", (unsigned long long)n->number,
                                why);
        last = n->number;
        count++;
        dead += n->state == NOTICE_DEAD;
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
        const uint64_t numbers[] = {n->number,
                                    n->id_hi,
                                    n->job_seq,
                                    n->job_hi,
                                    n->value,
                                    n->mark,
                                    (uint64_t)n->at.ms,
                                    (uint64_t)n->since.ms,
                                    (uint64_t)n->due.ms,
                                    n->attempts,
                                    n->tries,
                                    n->status,
                                    n->on,
                                    n->edge,
                                    n->reason,
                                    n->state};
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            h = state_mix(h, numbers[i]);
        h = state_mix_span(h, alert_name(n->alert));
        h = state_mix_span(h, span_of(n->queue, n->queue_len));
        h = state_mix_span(h, span_of(n->subject, n->subject_len));
        h = state_mix_span(h, span_of(n->text, n->text_len));
        h = state_mix_span(h, span_of(n->error, n->error_len));
    }
    return h;
}
