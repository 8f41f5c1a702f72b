/* SPDX-License-Identifier: Apache-2.0 */
/* use, watch, ignore, pause-tube, and the lists of tubes; quit. */
#include "api/beanstalk/impl.h"
#include "base/mem.h"

static void answer_using(struct order *k, struct span tube)
{
    buf_clear(&k->out);
    if (buf_reserve(&k->out, tube.len + 8) != 0) {
        ANSWER(k, "OUT_OF_MEMORY");
        return;
    }
    buf_put_bytes(&k->out, "USING ", 6);
    buf_put_bytes(&k->out, tube.at, tube.len);
    buf_put_bytes(&k->out, "\r\n", 2);
    bs_answer_out(k);
}

BS_HANDLER(bs_use)
{
    struct tube *t = tube_get(c->api, cmd->tube);
    if (!t) {
        ANSWER(k, "OUT_OF_MEMORY");
        return;
    }
    tube_use(c, t);
    answer_using(k, tube_name(t));
}

BS_HANDLER(bs_watch)
{
    struct tube *t = tube_get(c->api, cmd->tube);
    if (t && tube_watch(c, t))
        bs_answer_number(k, SPAN_LITERAL("WATCHING"), c->watched_count);
    else
        ANSWER(k, "OUT_OF_MEMORY");
}

BS_HANDLER(bs_ignore)
{
    struct tube *t = tube_find(c->api, cmd->tube);
    bool watched = t && tube_watched(c, t);
    if (watched && c->watched_count == 1) {
        ANSWER(k, "NOT_IGNORED");
        return;
    }
    if (watched)
        tube_ignore(c, t);
    bs_answer_number(k, SPAN_LITERAL("WATCHING"), c->watched_count);
}

BS_HANDLER(bs_quit)
{
    (void)cmd;
    c->net.no_more = true;
    /* Earlier commands are answered; quit itself has no reply. */
    bs_answer_out(k);
}

BS_HANDLER(bs_list_tube_used)
{
    (void)cmd;
    answer_using(k, tube_name(c->used));
}

static int name_add(struct buf *out, struct span name)
{
    int err = buf_reserve(out, name.len + 3);
    if (err)
        return err;
    buf_put_bytes(out, "- ", 2);
    buf_put_bytes(out, name.at, name.len);
    buf_put_u8(out, '\n');
    return 0;
}

BS_HANDLER(bs_list_tubes_watched)
{
    (void)cmd;
    int err = buf_append_text(&k->out, "---\n");
    for (uint32_t i = 0; !err && i < c->watched_count; i++)
        err = name_add(&k->out, tube_name(c->watched[i]));
    if (err)
        ANSWER(k, "OUT_OF_MEMORY");
    else
        bs_answer_data(k);
}

/* ---- all tubes ---- */

static void sums_add(struct tube_sums *s, const struct queue_counts *n)
{
    s->urgent += n->urgent;
    s->ready += n->by_state[STATE_READY];
    s->reserved += n->by_state[STATE_RUNNING];
    s->delayed += delayed_jobs(n);
    s->buried += n->by_state[STATE_DEAD];
    s->jobs += n->enqueued;
    s->timeouts += n->crashed;
}

static int tube_seen(struct order *k, struct span name)
{
    k->listing->sums.tubes++;
    return k->verb == BS_LIST_TUBES ? name_add(&k->out, name) : 0;
}

static int queue_seen(struct order *k, const struct queue_view *v)
{
    struct tube *t = tube_find(k->api, v->name);
    sums_add(&k->listing->sums, &v->counts);
    if (!bs_tube_valid(v->name) || !tube_exists(k->api, t, v))
        return 0;
    if (t)
        t->listing = k->listing->number;
    return tube_seen(k, v->name);
}

/* Tubes that a connection refers to and that have no queue. */
static int others_seen(struct order *k)
{
    struct beanstalk *b = k->api;
    int err = 0;
    for (struct link *l = b->tubes.next; !err && l != &b->tubes; l = l->next) {
        const struct tube *t = LINK_OWNER(l, struct tube, all);
        if (t->listing != k->listing->number && tube_exists(b, t, NULL))
            err = tube_seen(k, tube_name(t));
    }
    return err;
}

static void list_page(struct order *k);

static void list_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    struct listing *n = k->listing;
    int err = 0;
    if (r->outcome != OUT_OK) {
        bs_answer_refusal(k, r);
        return;
    }
    for (uint32_t i = 0; !err && i < r->queue_count; i++)
        err = queue_seen(k, &r->queues[i]);
    if (!err && r->queue_count == LIMIT_BATCH && k->conn) {
        struct span last = r->queues[r->queue_count - 1].name;
        memcpy(n->after, last.at, last.len);
        n->after_len = last.len;
        list_page(k);
        return;
    }
    if (!err)
        err = others_seen(k);
    if (err)
        ANSWER(k, "OUT_OF_MEMORY");
    else if (k->verb == BS_LIST_TUBES)
        bs_answer_data(k);
    else
        bs_stats_answer(k);
}

static void list_page(struct order *k)
{
    struct op op = {.kind = OP_QUEUE_LIST,
                    .queue = {.after = span_of(k->listing->after, k->listing->after_len)}};
    order_submit(k, &op, list_cb);
}

void bs_list_begin(struct order *k)
{
    k->listing = mem_zalloc(sizeof *k->listing);
    if (!k->listing) {
        ANSWER(k, "OUT_OF_MEMORY");
        return;
    }
    k->listing->number = ++k->api->listings;
    order_barrier(k);
    list_page(k);
}

BS_HANDLER(bs_list_tubes)
{
    (void)c;
    (void)cmd;
    if (buf_append_text(&k->out, "---\n") != 0) {
        ANSWER(k, "OUT_OF_MEMORY");
        return;
    }
    bs_list_begin(k);
}

/* ---- pause-tube ---- */

static void paused_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    if (r->outcome != OUT_OK) {
        bs_answer_refusal(k, r);
        return;
    }
    k->tube->pause_s = k->args.delay_s;
    k->tube->pauses++;
    ANSWER(k, "PAUSED");
}

static void pause_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    struct beanstalk *b = k->api;
    const struct queue_view *v = r->outcome == OUT_OK ? &r->queues[0] : NULL;
    if ((r->outcome != OUT_OK && r->outcome != OUT_NO_QUEUE) || !tube_exists(b, k->tube, v)) {
        ANSWER(k, "NOT_FOUND");
        return;
    }
    if (!v)
        tube_create(b, k->tube); /* if it fails, the pause fails too */
    int64_t ms = (int64_t)k->args.delay_s * 1000;
    struct op op = {.kind = OP_PAUSE,
                    .queue = {.name = tube_name(k->tube),
                              .until = {ms ? broker_now(b->broker).wall.ms + ms : 0}}};
    order_submit(k, &op, paused_cb);
}

BS_HANDLER(bs_pause_tube)
{
    (void)c;
    k->args = *cmd;
    order_get_tube(k, cmd->tube, pause_cb);
}
