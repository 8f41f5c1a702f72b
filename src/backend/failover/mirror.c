/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the queues of the primary to the spool: policy, pause, owner, attributes, description. So
 * the rules of a queue also apply during an outage, even after a restart within it. A pass over the
 * queues is due when the primary becomes available, when this node has changed a queue, and every
 * MIRROR_MS. It writes the queues that have changed since this process read them last, and then
 * reads the queues of the spool, for their numbers and to delete copies of deleted queues.
 *
 * A queue has another number in the spool. The number that it has in the primary is stored in the
 * spool in front of its description ("12 mail to customers"), and both directions are kept in
 * memory. */
#include <inttypes.h>
#include <stdio.h>

#include "backend/failover/impl.h"
#include "backend/reply_copy.h"
#include "base/buf.h"
#include "base/mem.h"
#include "core/validate.h"

#define MIRROR_MS 30000u

static void ask_page(struct failover *f);
static void learn_page(struct failover *f);

static const struct hash_key seen_key = {0x686f6c6466617374, 0x7175657565732121};

void fo_mirror_init(struct failover *f)
{
    map128_init(&f->mirror.seen);
    map128_init(&f->mirror.found);
    map64_init(&f->mirror.to_primary);
    map64_init(&f->mirror.to_spool);
    arena_init(&f->mirror.notes);
}

void fo_mirror_done(struct failover *f)
{
    mem_free(f->mirror.page);
    f->mirror.page = NULL;
    map128_done(&f->mirror.seen);
    map128_done(&f->mirror.found);
    map64_done(&f->mirror.to_primary);
    map64_done(&f->mirror.to_spool);
    arena_done(&f->mirror.notes);
}

static void finish(struct failover *f)
{
    mem_free(f->mirror.page);
    f->mirror.page = NULL;
    f->mirror.busy = false;
}

/* Names of queues up to the last one of the page are done with. */
static void pass_page(struct mirror *m, const struct reply *page)
{
    struct span last = page->queues[page->queue_count - 1].name;
    m->after_len = last.len < sizeof m->after ? last.len : sizeof m->after;
    memcpy(m->after, last.at, m->after_len);
}

static struct op list_op(const struct mirror *m)
{
    return (struct op){.kind = OP_QUEUE_LIST,
                       .queue = {.after = span_of(m->after, m->after_len), .limit = MIRROR_PAGE}};
}

/* --- numbers --- */

/* The number in front of the description; 0 = it has no number. *ret is the rest. */
static uint32_t note_number(struct span note, struct span *ret)
{
    uint64_t number = 0;
    size_t i = 0;
    for (; i < note.len && note.at[i] >= '0' && note.at[i] <= '9' && number <= UINT32_MAX; i++)
        number = number * 10 + (uint64_t)(note.at[i] - '0');
    bool right = i > 0 && i < note.len && note.at[i] == ' ' && number > 0 && number <= UINT32_MAX;
    *ret = right ? span_of(note.at + i + 1, note.len - i - 1) : note;
    return right ? (uint32_t)number : 0;
}

struct span fo_note_out(struct span note)
{
    struct span rest;
    (void)note_number(note, &rest);
    return rest;
}

static struct span note_in(struct mirror *m, const struct queue_view *v)
{
    char *text = arena_alloc(&m->notes, LIMIT_NOTE_BYTES);
    if (!text)
        return (struct span){NULL, 0};
    int digits = snprintf(text, LIMIT_NOTE_BYTES, "%" PRIu32 " ", v->number);
    struct span rest = validate_cut(v->note, LIMIT_NOTE_BYTES - (size_t)digits);
    if (rest.len)
        memcpy(text + digits, rest.at, rest.len);
    return span_of(text, (size_t)digits + rest.len);
}

uint32_t fo_queue_out(const struct failover *f, uint32_t number)
{
    return number ? map64_get(&f->mirror.to_primary, number) : 0;
}

uint32_t fo_queue_in(const struct failover *f, uint32_t number)
{
    return number ? map64_get(&f->mirror.to_spool, number) : 0;
}

/* Without memory the number stays unknown, and requests that need it are refused. */
static void learn(struct mirror *m, const struct queue_view *v, uint32_t number)
{
    if (map64_put(&m->to_primary, v->number, number) == 0)
        (void)!map64_put(&m->to_spool, number, v->number);
}

static void forget(struct mirror *m, const struct queue_view *v, uint32_t number)
{
    map64_drop(&m->to_primary, v->number);
    map64_drop(&m->to_spool, number);
    map128_drop(&m->seen, hash128_of(seen_key, v->name));
    map128_drop(&m->found, hash128_of(seen_key, v->name));
}

static void learn_next(struct failover *f)
{
    struct mirror *m = &f->mirror;
    bool more = m->page->queue_count == MIRROR_PAGE && !f->fanout.closing;
    if (more)
        pass_page(m, m->page);
    finish(f);
    if (more) {
        learn_page(f);
        return;
    }
    fo_rules_copy(f);
    fo_mirror_wake(f);
}

static void removed_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    (void)reply;
    if (--f->mirror.waiting == 0)
        learn_next(f);
}

/* A copy of a queue that the primary no longer has is deleted, if it has no jobs. */
static size_t learn_from(struct mirror *m)
{
    size_t n = 0;
    for (uint32_t i = 0; i < m->page->queue_count && i < MIRROR_PAGE; i++) {
        const struct queue_view *v = &m->page->queues[i];
        struct span rest;
        uint32_t number = note_number(v->note, &rest);
        bool there = map128_get(&m->found, hash128_of(seen_key, v->name)) == m->pass;
        if (number && (there || !m->complete)) {
            learn(m, v, number);
        } else if (number) {
            forget(m, v, number);
            m->ops[n++] = (struct op){.kind = OP_QUEUE_DELETE,
                                      .queue = {.name = v->name, .only_empty = true}};
        }
    }
    return n;
}

static void learned_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    struct mirror *m = &f->mirror;
    m->page = reply->outcome == OUT_OK && !f->fanout.closing ? reply_copy(reply) : NULL;
    m->waiting = m->page ? learn_from(m) : 0;
    if (!m->page ||
        (m->waiting > 0 && backend_submit(f->spool, m->ops, m->waiting, removed_cb, f) != 0))
        finish(f);
    else if (m->waiting == 0)
        learn_next(f);
}

static void learn_page(struct failover *f)
{
    struct mirror *m = &f->mirror;
    m->list = list_op(m);
    m->busy = backend_submit(f->spool, &m->list, 1, learned_cb, f) == 0;
}

void fo_mirror_start(struct failover *f)
{
    f->mirror.after_len = 0;
    learn_page(f);
}

/* --- copying --- */

/* What the spool should know of the queue, as one number; 0 = no memory to compute it. */
static uint64_t print_of(const struct queue_view *v)
{
    struct buf text;
    uint64_t print = 0;
    buf_init(&text);
    if (policy_encode(v->policy, &text) == 0 &&
        buf_append(&text, &v->number, sizeof v->number) == 0 &&
        buf_append(&text, &v->paused_until, sizeof v->paused_until) == 0 &&
        buf_append(&text, v->owner.at, v->owner.len) == 0 &&
        buf_append(&text, v->note.at, v->note.len) == 0 &&
        buf_append(&text, v->attributes.at, v->attributes.len) == 0)
        print = hash128_of(seen_key, buf_span(&text)).lo | 1u;
    buf_done(&text);
    return print;
}

static bool is_new(struct failover *f, const struct queue_view *v)
{
    struct hash128 name = hash128_of(seen_key, v->name);
    uint64_t print = print_of(v);
    if (!print)
        return true;
    if (map128_get(&f->mirror.seen, name) == print)
        return false;
    return map128_put(&f->mirror.seen, name, print) == 0;
}

static void next_page(struct failover *f)
{
    struct mirror *m = &f->mirror;
    bool more = m->page->queue_count == MIRROR_PAGE;
    if (more)
        pass_page(m, m->page);
    finish(f);
    if (f->fanout.closing)
        return;
    if (more && f->up) {
        ask_page(f);
        return;
    }
    m->complete = m->complete && !more;
    m->after_len = 0;
    learn_page(f);
}

/* A queue that the spool did not take is written again in the next pass. */
static void put_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    struct mirror *m = &f->mirror;
    if (reply->outcome != OUT_OK)
        map128_drop(&m->seen, hash128_of(seen_key, m->ops[reply->tag].queue.name));
    if (--m->waiting == 0)
        next_page(f);
}

static struct op put_op(struct mirror *m, const struct queue_view *v)
{
    return (struct op){.kind = OP_QUEUE_PUT,
                       .queue = {.name = v->name,
                                 .policy = v->policy,
                                 .has_owner = true,
                                 .owner = v->owner,
                                 .has_note = true,
                                 .note = note_in(m, v),
                                 .has_attributes = true,
                                 .attributes = v->attributes,
                                 .has_until = true,
                                 .until = v->paused_until}};
}

static void page_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    struct mirror *m = &f->mirror;
    size_t n = 0;
    m->page = reply->outcome == OUT_OK && !f->fanout.closing ? reply_copy(reply) : NULL;
    arena_reset(&m->notes);
    for (uint32_t i = 0; m->page && i < m->page->queue_count && i < MIRROR_PAGE; i++) {
        const struct queue_view *v = &m->page->queues[i];
        if (map128_put(&m->found, hash128_of(seen_key, v->name), m->pass) != 0)
            m->complete = false; /* no memory to know that it was found */
        if (!v->policy || !is_new(f, v))
            continue;
        m->ops[n] = put_op(m, v);
        m->ops[n].tag = n;
        n++;
    }
    m->waiting = n;
    if (!m->page || (n > 0 && backend_submit(f->spool, m->ops, n, put_cb, f) != 0))
        finish(f);
    else if (n == 0)
        next_page(f);
}

static void ask_page(struct failover *f)
{
    struct mirror *m = &f->mirror;
    m->list = list_op(m);
    m->busy = backend_submit(f->primary, &m->list, 1, page_cb, f) == 0;
}

void fo_mirror_wake(struct failover *f)
{
    struct mirror *m = &f->mirror;
    uint64_t now = uv_now(f->config.loop);
    if (m->busy || !f->up || f->fanout.closing || (m->looked_ms && now - m->looked_ms < MIRROR_MS))
        return;
    m->looked_ms = now;
    m->after_len = 0;
    m->pass++;
    m->complete = true;
    ask_page(f);
}

/* The next health check begins the pass, so that many changes lead to one pass a second. */
void fo_mirror_changed(struct failover *f)
{
    f->mirror.looked_ms = 0;
}
