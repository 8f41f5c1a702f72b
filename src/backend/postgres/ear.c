/* SPDX-License-Identifier: Apache-2.0 */
/* Other nodes are told that a queue has a job, by NOTIFY on a connection of its own. A round of
 * notifications names every queue once, however many jobs came since the last; with no other node
 * alive there is none. What gets lost is found by the slow poll (lane.c). */
#include "backend/postgres/impl.h"
#include "base/mem.h"

struct wake_name {
    struct wake_name *next;
    size_t len;
    char name[];
};

#define TELL_ALL_BEYOND 64 /* so many queues in one round: one word for all of them */

void pg_ear_free(struct pg_store *s)
{
    while (s->to_tell) {
        struct wake_name *n = s->to_tell;
        s->to_tell = n->next;
        mem_free(n);
    }
}

void pg_ear_tell(struct pg_store *s, struct span queue)
{
    size_t n = 0;
    if (s->others == 0 || s->url.pooled)
        return;
    for (struct wake_name *x = s->to_tell; x; x = x->next, n++)
        if (x->len == 0 || span_equal(queue, span_of(x->name, x->len)))
            return;
    if (n >= TELL_ALL_BEYOND)
        queue.len = 0;
    struct wake_name *fresh = mem_alloc(sizeof *fresh + queue.len);
    if (!fresh)
        return;
    fresh->len = queue.len;
    if (queue.len)
        memcpy(fresh->name, queue.at, queue.len);
    fresh->next = s->to_tell;
    s->to_tell = fresh;
}

static void told_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    (void)err, (void)error; /* the slow poll finds what was not told */
    s->telling = false;
    pg_ear_kick(s);
}

/* Notifications carry the epoch of whoever tells, so that nobody listens to himself. */
void pg_ear_kick(struct pg_store *s)
{
    struct args a;
    size_t n = 0;
    if (!s->to_tell || s->telling || s->sh.closing || !s->ear || !pg_conn_usable(s->ear))
        return;
    pg_args_init(&a);
    while (s->to_tell && n++ < ROUND_MAX / 2) {
        char text[LIMIT_QUEUE_NAME_BYTES + 32];
        struct wake_name *x = s->to_tell;
        s->to_tell = x->next;
        int len = snprintf(text, sizeof text, "%u %.*s", s->sh.facts.epoch, (int)x->len, x->name);
        mem_free(x);
        pg_args_bytes(&a, span_text(s->channel));
        pg_args_bytes(&a, span_of(text, (size_t)len));
        pg_conn_send(s->ear, SQL_NOTIFY, &a);
    }
    pg_args_done(&a);
    s->telling = pg_conn_round(s->ear, told_cb, s) == 0;
}

void pg_ear_notified_cb(void *ctx, const char *payload)
{
    struct pg_store *s = ctx;
    char own[16];
    size_t len = (size_t)snprintf(own, sizeof own, "%u ", s->sh.facts.epoch);
    const char *name = strchr(payload, ' ');
    if (strncmp(payload, own, len) == 0 || !name)
        return;
    /* A job there may be due before anything this node knows of. */
    s->sh.tick_wanted = true;
    shared_watches_wake(&s->sh, span_text(name + 1));
    pg_lane_later(s);
}

void pg_ear_lost_cb(void *ctx)
{
    struct pg_store *s = ctx;
    s->telling = false;
    pg_timer_set(s);
}

/* Nobody knows what was told meanwhile. */
void pg_ear_opened_cb(void *ctx)
{
    shared_watches_wake(ctx, (struct span){NULL, 0});
}
