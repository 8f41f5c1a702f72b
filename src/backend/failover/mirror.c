/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of the primary, made in the spool as they are there: policy, pause, whose they are. So the
 * rules of a queue hold in an outage, too, also after a restart within it. Looked at when the
 * primary comes and every MIRROR_MS; only what changed since this process looked last is written.
 */
#include "backend/failover/impl.h"
#include "backend/reply_copy.h"
#include "base/buf.h"
#include "base/mem.h"

#define MIRROR_MS 30000u

static void ask_page(struct failover *f);

static const struct hash_key seen_key = {0x686f6c6466617374, 0x7175657565732121};

void fo_mirror_done(struct failover *f)
{
    mem_free(f->mirror.page);
    f->mirror.page = NULL;
    map128_done(&f->mirror.seen);
}

static void rest(struct failover *f)
{
    mem_free(f->mirror.page);
    f->mirror.page = NULL;
    f->mirror.busy = false;
}

/* What the spool should know of the queue, as one number; 0 = no memory to tell. */
static uint64_t print_of(const struct queue_view *v)
{
    struct buf text;
    uint64_t print = 0;
    buf_init(&text);
    if (policy_encode(v->policy, &text) == 0 &&
        buf_append(&text, &v->paused_until, sizeof v->paused_until) == 0 &&
        buf_append(&text, v->owner.at, v->owner.len) == 0 &&
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
    if (more) {
        struct span last = m->page->queues[MIRROR_PAGE - 1].name;
        m->after_len = last.len < sizeof m->after ? last.len : sizeof m->after;
        memcpy(m->after, last.at, m->after_len);
    }
    rest(f);
    if (more && f->up && !f->fanout.closing)
        ask_page(f);
}

static void put_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    (void)reply;
    if (--f->mirror.waiting == 0)
        next_page(f);
}

static void page_cb(void *ctx, const struct reply *reply)
{
    struct failover *f = ctx;
    struct mirror *m = &f->mirror;
    size_t n = 0;
    m->page = reply->outcome == OUT_OK && !f->fanout.closing ? reply_copy(reply) : NULL;
    for (uint32_t i = 0; m->page && i < m->page->queue_count && i < MIRROR_PAGE; i++) {
        const struct queue_view *v = &m->page->queues[i];
        if (!v->policy || !is_new(f, v))
            continue;
        m->ops[n++] = (struct op){.kind = OP_QUEUE_PUT,
                                  .queue = {.name = v->name,
                                            .policy = v->policy,
                                            .has_owner = true,
                                            .owner = v->owner,
                                            .has_attributes = true,
                                            .attributes = v->attributes,
                                            .has_until = true,
                                            .until = v->paused_until}};
    }
    m->waiting = n;
    if (!m->page || (n > 0 && backend_submit(f->spool, m->ops, n, put_cb, f) != 0))
        rest(f);
    else if (n == 0)
        next_page(f);
}

static void ask_page(struct failover *f)
{
    struct mirror *m = &f->mirror;
    m->list =
        (struct op){.kind = OP_QUEUE_LIST,
                    .queue = {.after = span_of(m->after, m->after_len), .limit = MIRROR_PAGE}};
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
    ask_page(f);
}
