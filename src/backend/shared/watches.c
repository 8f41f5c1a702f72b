/* SPDX-License-Identifier: Apache-2.0 */
/* Who on this node wants to know that a queue has a job: called after the commit. */
#include "backend/shared/shared.h"
#include "base/mem.h"

struct watch_entry {
    struct watch_entry *next, **link;
    backend_signal_fn fn;
    void *ctx;
    bool due;
    int64_t at_ms; /* signals at this time of the store, too; 0 = no such time */
    size_t len;
    char name[];
};

int shared_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                 struct backend_watch **ret)
{
    struct shared *s = shared_of(b);
    struct watch_entry *w = mem_alloc(sizeof *w + queue.len);
    if (s->closing || !w) {
        mem_free(w);
        return s->closing ? -ERR_CLOSED : -ERR_NOMEM;
    }
    *w = (struct watch_entry){.next = s->watches, .link = &s->watches, .fn = fn, .ctx = ctx};
    w->len = queue.len;
    if (queue.len)
        memcpy(w->name, queue.at, queue.len);
    if (w->next)
        w->next->link = &w->next;
    s->watches = w;
    *ret = (struct backend_watch *)(void *)w;
    return 0;
}

void shared_unwatch(struct backend *b, struct backend_watch *watch)
{
    struct watch_entry *w = (struct watch_entry *)(void *)watch;
    (void)b;
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    mem_free(w);
}

void shared_watches_free(struct shared *s)
{
    while (s->watches)
        shared_unwatch(&s->base, (struct backend_watch *)(void *)s->watches);
}

/* A signal may end watches, its own too: marked first, then called, each time from the front. */
static void signal_due(struct shared *s)
{
    struct watch_entry *w;
    do {
        for (w = s->watches; w && !w->due; w = w->next)
            ;
        if (w) {
            w->due = false;
            w->fn(w->ctx);
        }
    } while (w);
}

void shared_watches_wake(struct shared *s, struct span queue)
{
    for (struct watch_entry *w = s->watches; w; w = w->next)
        if (queue.len == 0 || span_equal(queue, span_of(w->name, w->len)))
            w->due = true;
    signal_due(s);
}

static void signal_at(struct shared *s, int64_t at_ms)
{
    if (s->signal_ms == 0 || at_ms < s->signal_ms)
        s->signal_ms = at_ms;
}

void shared_watches_wake_at(struct shared *s, struct span queue, int64_t at_ms)
{
    for (struct watch_entry *w = s->watches; w; w = w->next)
        if (span_equal(queue, span_of(w->name, w->len)) && (w->at_ms == 0 || at_ms < w->at_ms)) {
            w->at_ms = at_ms;
            signal_at(s, at_ms);
        }
}

void shared_watches_due(struct shared *s)
{
    int64_t now = shared_now(s);
    if (s->signal_ms == 0 || s->signal_ms > now)
        return;
    s->signal_ms = 0;
    for (struct watch_entry *w = s->watches; w; w = w->next)
        if (w->at_ms > 0 && w->at_ms <= now) {
            w->at_ms = 0;
            w->due = true;
        } else if (w->at_ms > 0) {
            signal_at(s, w->at_ms);
        }
    signal_due(s);
}
