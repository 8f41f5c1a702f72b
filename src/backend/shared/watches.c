/* SPDX-License-Identifier: Apache-2.0 */
/* Who on this node wants to know that a queue has a job: called after the commit. */
#include "backend/shared/shared.h"
#include "base/mem.h"

struct watch_entry {
    struct watch_entry *next, **link;
    backend_signal_fn fn;
    void *ctx;
    bool due;
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
void shared_watches_wake(struct shared *s, struct span queue)
{
    struct watch_entry *w;
    for (w = s->watches; w; w = w->next)
        if (queue.len == 0 || span_equal(queue, span_of(w->name, w->len)))
            w->due = true;
    do {
        for (w = s->watches; w && !w->due; w = w->next)
            ;
        if (w) {
            w->due = false;
            w->fn(w->ctx);
        }
    } while (w);
}
