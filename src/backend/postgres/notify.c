/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications between nodes: which queues have ready jobs, which keys were changed, and which
 * running jobs are to be cancelled, by NOTIFY on a separate connection. A round names each queue
 * once, however many jobs were added since the last one; while no other node is alive, none is
 * sent. A queue that was not announced is found by the slow poll (pipeline.c). If changes of keys
 * may have been lost, their listeners get a gap event.
 *
 * A message is the epoch of the sender (0 = a client of the database), a space, and the name of a
 * queue or one of the prefixes below, with which no name begins. */
#include <inttypes.h>
#include <stdio.h>

#include "backend/postgres/impl.h"
#include "base/mem.h"
#include "core/kvkey.h"

#define PREFIX_LISTENING "\001h" /* this node listens */
#define PREFIX_GAP "\001g"       /* not all changed keys could be announced */
#define PREFIX_SET "\001s"       /* version, space, key in hexadecimal */
#define PREFIX_DELETED "\001d"   /* the same */
#define PREFIX_CANCEL "\001c"    /* see shared_cancel_text */
#define PREFIX_INBOX "\001i"     /* the function enqueue was called (sql/inbox.sql) */
#define KEYS_MAX 256             /* keys that wait to be announced; more become a gap */

struct wake_name {
    struct wake_name *next;
    size_t len;
    char name[];
};

#define QUEUES_PER_ROUND_MAX                                                                       \
    64 /* more queues than this in one round: one message for all of them */

static void free_all(struct wake_name **list)
{
    while (*list) {
        struct wake_name *n = *list;
        *list = n->next;
        mem_free(n);
    }
}

static void forget_keys(struct pg_store *s)
{
    free_all(&s->keys_to_tell);
    s->keys_waiting = 0;
}

void pg_notify_free(struct pg_store *s)
{
    free_all(&s->to_tell);
    forget_keys(s);
}

void pg_notify_queue(struct pg_store *s, struct span queue)
{
    size_t n = 0;
    if (s->sh.node.others == 0 || s->url.pooled)
        return;
    for (struct wake_name *x = s->to_tell; x; x = x->next, n++)
        if (x->len == 0 || span_equal(queue, span_of(x->name, x->len)))
            return;
    if (n >= QUEUES_PER_ROUND_MAX)
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

/* Messages wait in the order of the changes. NULL: they become a gap. */
static struct wake_name *message_new(struct pg_store *s, size_t room)
{
    struct wake_name *w = s->keys_waiting < KEYS_MAX ? mem_alloc(sizeof *w + room) : NULL;
    if (!w) {
        forget_keys(s);
        s->keys_lost = true;
        return NULL;
    }
    w->next = NULL;
    struct wake_name **link = &s->keys_to_tell;
    while (*link)
        link = &(*link)->next;
    *link = w;
    s->keys_waiting++;
    return w;
}

static void tell_cancel(struct pg_store *s, const struct happened *h)
{
    char text[CANCEL_TEXT_BYTES];
    size_t len = shared_cancel_text(h, text), room = len + sizeof PREFIX_CANCEL;
    struct wake_name *w = message_new(s, room);
    if (w)
        w->len = (size_t)snprintf(w->name, room, "%s%s", PREFIX_CANCEL, text);
}

static void tell_key(struct pg_store *s, const struct happened *h)
{
    static const char digits[] = "0123456789abcdef";
    size_t room = 32 + 2 * h->subject.len;
    struct wake_name *w = message_new(s, room);
    if (!w)
        return;
    w->len = (size_t)snprintf(w->name, room, "%s%" PRIu64 " ",
                              h->kind == EVENT_KV_SET ? PREFIX_SET : PREFIX_DELETED, h->count);
    for (size_t i = 0; i < h->subject.len; i++) {
        unsigned char byte = (unsigned char)h->subject.at[i];
        w->name[w->len++] = digits[byte >> 4];
        w->name[w->len++] = digits[byte & 15];
    }
}

void pg_notify_keys(struct pg_store *s, const struct unit *u)
{
    if (s->url.pooled)
        return;
    for (const struct happened *h = u->happened; h; h = h->next) {
        if (h->kind == EVENT_CANCEL_REQUESTED && s->sh.node.others > 0)
            tell_cancel(s, h);
        if (h->kind != EVENT_KV_SET && h->kind != EVENT_KV_DELETED)
            continue;
        if (s->sh.node.others > 0)
            tell_key(s, h);
        else
            s->keys_untold = true;
    }
}

void pg_notify_nodes_counted(struct pg_store *s, unsigned others_before)
{
    s->keys_lost |= s->keys_untold && others_before == 0 && s->sh.node.others > 0;
    s->keys_untold = false;
}

static void told_cb(void *ctx, int err, const struct round_error *error)
{
    struct pg_store *s = ctx;
    (void)error; /* the slow poll finds queues that were not announced */
    s->telling = false;
    s->keys_lost |= err && s->keys_in_round;
    if (!err)
        pg_notify_wake(s);
}

static void send_word(struct pg_store *s, struct args *a, struct span word)
{
    char text[2 * LIMIT_KV_KEY_BYTES + 64];
    int len = snprintf(text, sizeof text, "%u %.*s", s->sh.facts.epoch, (int)word.len, word.at);
    pg_args_bytes(a, span_text(s->channel));
    pg_args_bytes(a, span_of(text, (size_t)len));
    pg_conn_send(s->listener, SQL_NOTIFY, a);
}

/* Sends at most this many; returns how many were sent. */
static size_t send_list(struct pg_store *s, struct args *a, struct wake_name **list, size_t most)
{
    size_t n = 0;
    for (; *list && n < most; n++) {
        struct wake_name *x = *list;
        *list = x->next;
        send_word(s, a, span_of(x->name, x->len));
        mem_free(x);
    }
    return n;
}

void pg_notify_wake(struct pg_store *s)
{
    struct args a;
    bool any = s->to_tell || s->keys_to_tell || s->keys_lost || s->hello_due;
    if (!any || s->telling || s->sh.closing || !s->listener || !pg_conn_usable(s->listener))
        return;
    pg_args_init(&a);
    if (s->hello_due)
        send_word(s, &a, SPAN_LITERAL(PREFIX_LISTENING));
    if (s->keys_lost)
        send_word(s, &a, SPAN_LITERAL(PREFIX_GAP));
    s->keys_in_round = s->keys_lost;
    s->hello_due = s->keys_lost = false;
    (void)send_list(s, &a, &s->to_tell, ROUND_MAX / 2);
    size_t keys = send_list(s, &a, &s->keys_to_tell, ROUND_MAX / 2 - 2);
    s->keys_waiting -= keys;
    s->keys_in_round |= keys > 0;
    pg_args_done(&a);
    s->telling = pg_conn_round(s->listener, told_cb, s) == 0;
    s->keys_lost |= !s->telling && s->keys_in_round;
}

/* --- messages of other nodes --- */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A message that cannot be parsed is a gap: every role of the database may write to the channel. */
static void hear_key(struct pg_store *s, uint8_t kind, const char *word)
{
    char key[LIMIT_KV_KEY_BYTES], *end;
    size_t len = 0;
    uint64_t version = strtoull(word, &end, 10);
    const char *at = *end == ' ' ? end + 1 : "?";
    for (; at[0] && at[1] && len < sizeof key; at += 2) {
        int high = digit(at[0]), low = digit(at[1]);
        if (high < 0 || low < 0)
            break;
        key[len++] = (char)(high << 4 | low);
    }
    if (*at || kvkey_check(span_of(key, len)) != 0)
        shared_events_gap(&s->sh);
    else
        shared_events_key(&s->sh, kind, span_of(key, len), version,
                          (struct wall_time){shared_now(&s->sh)});
}

static void hear_sign(struct pg_store *s, const char *sign)
{
    if (strcmp(sign, PREFIX_INBOX) == 0) {
        s->inbox.wanted = true;
        pg_pipeline_later(s);
        return;
    }
    if (strcmp(sign, PREFIX_LISTENING) == 0)
        s->sh.node.others += s->sh.node.others == 0; /* until the nodes are counted */
    else if (strncmp(sign, PREFIX_SET, 2) == 0)
        hear_key(s, EVENT_KV_SET, sign + 2);
    else if (strncmp(sign, PREFIX_DELETED, 2) == 0)
        hear_key(s, EVENT_KV_DELETED, sign + 2);
    else if (strncmp(sign, PREFIX_CANCEL, 2) == 0)
        shared_events_cancel(&s->sh, sign + 2);
    else
        shared_events_gap(&s->sh);
    shared_events_call(&s->sh);
}

void pg_notify_received_cb(void *ctx, const char *payload)
{
    struct pg_store *s = ctx;
    char own[16];
    size_t len = (size_t)snprintf(own, sizeof own, "%u ", s->sh.facts.epoch);
    const char *name = strchr(payload, ' ');
    if (strncmp(payload, own, len) == 0 || !name)
        return;
    if (name[1] == '\001') {
        hear_sign(s, name + 1);
        return;
    }
    /* A job there may be due before anything that this node knows. */
    s->sh.tick_wanted = true;
    shared_watches_wake(&s->sh, span_text(name + 1));
    pg_pipeline_later(s);
}

void pg_notify_lost_cb(void *ctx)
{
    struct pg_store *s = ctx;
    s->telling = false;
    pg_timer_set(s);
}

/* Messages that were sent meanwhile are lost. */
void pg_notify_opened_cb(void *ctx)
{
    struct pg_store *s = ctx;
    if (s->heard) {
        shared_events_gap(&s->sh);
        shared_events_call(&s->sh);
    }
    s->heard = s->hello_due = s->inbox.wanted = true;
    pg_pipeline_later(s);
    shared_watches_wake(&s->sh, (struct span){NULL, 0});
    pg_notify_wake(s);
}
