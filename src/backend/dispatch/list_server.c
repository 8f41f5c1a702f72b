/* SPDX-License-Identifier: Apache-2.0 */
/* One Redis server and the pushes on their way to it. A push that is refused is tried again a few
 * times; then the job stays pending, and the leader's loop finds it. */
#include "backend/dispatch/impl.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "core/alerts/alert.h"

/* --- lists --- */

static void list_add(struct push_list *l, struct push *p)
{
    p->next = NULL;
    if (l->last)
        l->last->next = p;
    else
        l->first = p;
    l->last = p;
    l->count++;
}

static struct push *list_take(struct push_list *l)
{
    struct push *p = l->first;
    if (!p)
        return NULL;
    l->first = p->next;
    if (!l->first)
        l->last = NULL;
    l->count--;
    return p;
}

static void push_drop(struct dispatch *d, struct push *p)
{
    if (p->job.seq)
        map64_drop(&d->busy, p->job.seq);
    mem_free(p);
}

struct side *side_of(struct dispatch *d, struct span queue)
{
    for (size_t i = 0; i < d->urgent_count; i++)
        if (alert_matches(d->urgent[i], queue))
            return &d->sides[SIDE_HIGH];
    return &d->sides[SIDE_LOW];
}

void side_key(const struct side *s, struct span queue, struct rargs *a)
{
    char key[LIST_KEY_BYTES];
    int n = snprintf(key, sizeof key, "%sdispatch:%s:%.*s", s->url.prefix, s->name, (int)queue.len,
                     queue.at);
    redis_args_bytes(a, span_of(key, (size_t)n));
}

bool side_up(const struct side *s)
{
    return s->greeted && redis_conn_open_now(s->conn);
}

static void shown_cb(void *ctx, redisReply *r)
{
    (void)ctx;
    if (r)
        freeReplyObject(r);
}

void side_show_leader(struct side *s, const char *key, uint64_t epoch, int64_t ttl_ms)
{
    struct rargs a;
    char value[64];
    if (!side_up(s))
        return;
    snprintf(value, sizeof value, "node %u epoch %" PRIu64, s->d->config.node, epoch);
    redis_args_init(&a);
    redis_args_text(&a, "SET");
    redis_args_text(&a, key);
    redis_args_text(&a, value);
    redis_args_text(&a, "PX");
    redis_args_int(&a, ttl_ms);
    redis_conn_send(s->conn, &a, shown_cb, s);
    redis_args_done(&a);
}

/* --- a job that is dispatched is marked so, many at a time --- */

struct marking {
    struct dispatch *d;
    size_t left, count;
    struct push *pushes[MARKS_AT_ONCE];
    struct op ops[MARKS_AT_ONCE];
};

static void marks_wake(struct dispatch *d);

/* What was not marked is pending still, and pushed once more: that does no harm. */
static void marked_cb(void *ctx, const struct reply *reply)
{
    struct marking *m = ctx;
    struct dispatch *d = m->d;
    (void)reply;
    if (--m->left > 0)
        return;
    for (size_t i = 0; i < m->count; i++)
        push_drop(d, m->pushes[i]);
    mem_free(m);
    d->marking = NULL;
    marks_wake(d);
    dispatch_after(d);
}

static void marks_drop(struct dispatch *d)
{
    struct push *p;
    while ((p = list_take(&d->marks)) != NULL)
        push_drop(d, p);
}

static void marks_wake(struct dispatch *d)
{
    if (d->marking || !d->marks.first)
        return;
    struct marking *m = mem_zalloc(sizeof *m);
    if (!m || d->closing) {
        mem_free(m);
        marks_drop(d);
        return;
    }
    m->d = d;
    while (m->count < MARKS_AT_ONCE && (m->pushes[m->count] = list_take(&d->marks)) != NULL) {
        m->ops[m->count] =
            (struct op){.kind = OP_DISPATCHED, .job = {.job = m->pushes[m->count]->job}};
        m->count++;
    }
    m->left = m->count;
    d->marking = m;
    if (backend_submit(d->inner, m->ops, m->count, marked_cb, m) == 0)
        return;
    for (size_t i = 0; i < m->count; i++)
        push_drop(d, m->pushes[i]);
    mem_free(m);
    d->marking = NULL;
    marks_drop(d);
}

/* --- pushes --- */

/* NULL: no room, no memory, or nobody to push to. */
static struct push *push_new(struct dispatch *d, struct span queue)
{
    struct side *s = side_of(d, queue);
    if (s->waiting.count >= PUSHES_WAITING || !side_up(s))
        return NULL;
    struct push *p = mem_alloc(sizeof *p + queue.len);
    if (!p)
        return NULL;
    *p = (struct push){.side = s, .len = queue.len};
    memcpy(p->queue, queue.at, queue.len);
    return p;
}

void push_add(struct dispatch *d, struct span queue, struct job_ref job)
{
    if (!map64_get(&d->busy, job.seq))
        push_again(d, queue, job);
}

void push_again(struct dispatch *d, struct span queue, struct job_ref job)
{
    struct push *p = push_new(d, queue);
    if (!p) { /* its server is unavailable, or too many are waiting: the leader finds it */
        d->failed++;
        return;
    }
    if (map64_put(&d->busy, job.seq, 1) != 0) {
        mem_free(p);
        return;
    }
    p->job = job;
    list_add(&p->side->waiting, p);
}

void push_forget(struct dispatch *d, struct span queue)
{
    struct push *p = push_new(d, queue);
    if (p)
        list_add(&p->side->waiting, p);
}

static void pushed(struct push *p)
{
    struct dispatch *d = p->side->d;
    p->side->refused_told = false;
    if (!p->job.seq) {
        push_drop(d, p);
        return;
    }
    d->pushed++;
    list_add(&d->marks, p);
    marks_wake(d);
}

static void refused(struct push *p)
{
    struct side *s = p->side;
    s->d->failed++;
    if (++p->tries >= PUSH_TRIES || !side_up(s)) {
        push_drop(s->d, p);
        return;
    }
    s->resume_ms = dispatch_ms() + (PUSH_BACKOFF_MS << p->tries);
    list_add(&s->waiting, p);
}

/* Once, until one is taken: whatever is wrong, every push may meet it. */
static void tell_refused(struct side *s, const redisReply *r)
{
    if (!s->refused_told)
        log_event(s->d->config.log, LOG_WARN, "dispatch_refused", LOG_TEXT("side", s->name),
                  LOG_TEXT("text", r->type == REDIS_REPLY_ERROR ? r->str : "an unknown answer"));
    s->refused_told = true;
}

static void pushed_cb(void *ctx, redisReply *r)
{
    struct side *s = ctx;
    struct dispatch *d = s->d;
    struct push *p = list_take(&s->sent);
    bool done = r && r->type == REDIS_REPLY_INTEGER;
    if (r && !done)
        tell_refused(s, r);
    if (r)
        freeReplyObject(r);
    if (done)
        pushed(p);
    else
        refused(p);
    dispatch_after(d);
}

/* {"task_id":"…"} at the head of the list; workers take from its tail. */
static void push_send(struct push *p)
{
    struct side *s = p->side;
    struct rargs a;
    char id[ID_UUID_BYTES], text[ID_UUID_BYTES + 24];
    id_uuid(id_make(p->job.hi, p->job.seq), id);
    int n = snprintf(text, sizeof text, "{\"task_id\":\"%s\"}", id);
    redis_args_init(&a);
    redis_args_text(&a, p->job.seq ? "LPUSH" : "DEL");
    side_key(s, span_of(p->queue, p->len), &a);
    if (p->job.seq)
        redis_args_bytes(&a, span_of(text, (size_t)n));
    list_add(&s->sent, p);
    redis_conn_send(s->conn, &a, pushed_cb, s);
    redis_args_done(&a);
}

static void side_wake(struct side *s)
{
    if (s->resume_ms > dispatch_ms() && !s->d->closing)
        return;
    s->resume_ms = 0;
    while (s->waiting.first && (!side_up(s) || s->d->closing)) {
        s->d->failed += !s->d->closing;
        push_drop(s->d, list_take(&s->waiting));
    }
    while (s->waiting.first && s->sent.count < PUSHES_AT_ONCE)
        push_send(list_take(&s->waiting));
}

void pushes_wake(struct dispatch *d)
{
    for (size_t i = 0; i < SIDE_COUNT; i++)
        side_wake(&d->sides[i]);
}

bool pushes_idle(const struct dispatch *d)
{
    const struct side *s = d->sides;
    return !s[0].waiting.first && !s[1].waiting.first && !s[0].sent.first && !s[1].sent.first &&
           !d->marks.first && !d->marking;
}

bool pushes_full(const struct dispatch *d)
{
    return d->sides[SIDE_HIGH].waiting.count >= PUSHES_AT_ONCE ||
           d->sides[SIDE_LOW].waiting.count >= PUSHES_AT_ONCE;
}

/* --- the connection --- */

static void told_down(struct side *s, const char *why)
{
    if (!s->down_told)
        log_event(s->d->config.log, LOG_ERROR, "dispatch_lost", LOG_TEXT("side", s->name),
                  LOG_TEXT("why", why),
                  LOG_TEXT("note", "its jobs stay pending until Redis can be reached again"));
    s->down_told = true;
}

static void lost_cb(void *ctx, const char *why)
{
    struct side *s = ctx;
    s->greeted = false;
    told_down(s, why);
    side_wake(s);
}

static void greeted_cb(void *ctx, redisReply *r)
{
    struct side *s = ctx;
    bool error = r && r->type == REDIS_REPLY_ERROR;
    if (error) {
        told_down(s, r->str);
        s->greeted = false;
    } else if (r && !s->greeted) {
        s->greeted = true;
        if (s->down_told)
            log_event(s->d->config.log, LOG_INFO, "dispatch_back", LOG_TEXT("side", s->name));
        s->down_told = false;
        s->d->walk_now = true;
    }
    if (r)
        freeReplyObject(r);
    if (error)
        redis_conn_drop(s->conn);
}

static void nothing_cb(void *ctx, redisReply *r)
{
    struct side *s = ctx;
    if (r && r->type == REDIS_REPLY_ERROR)
        told_down(s, r->str);
    if (r)
        freeReplyObject(r);
}

static void opened_cb(void *ctx)
{
    struct side *s = ctx;
    struct rargs a;
    char number[16];
    redis_args_init(&a);
    if (s->url.password[0]) {
        redis_args_text(&a, "AUTH");
        if (s->url.user[0])
            redis_args_text(&a, s->url.user);
        redis_args_text(&a, s->url.password);
        redis_conn_send(s->conn, &a, nothing_cb, s);
    }
    snprintf(number, sizeof number, "%u", s->url.database);
    redis_args_text(&a, "SELECT");
    redis_args_text(&a, number);
    redis_conn_send(s->conn, &a, greeted_cb, s); /* refused, too, where a password is wrong */
    redis_args_done(&a);
}

int side_open(struct side *s, const char *url, struct err_note *note)
{
    bool tls = strncmp(url, "rediss:", 7) == 0;
    if (!tls && strncmp(url, "redis:", 6) != 0)
        return err_note_set(note, -ERR_INVALID,
                            "dispatch.%s must be redis://HOST:PORT or rediss://HOST:PORT", s->name);
    int err = redis_url_parse(url + (tls ? 7 : 6), tls, &s->url, note);
    if (!err && tls)
        err = redis_tls_context_new(&s->url, &s->tls, note);
    struct rconn_config config = {.loop = s->d->config.loop,
                                  .url = &s->url,
                                  .tls = s->tls,
                                  .opened = opened_cb,
                                  .lost = lost_cb,
                                  .ctx = s};
    if (!err)
        err = redis_conn_new(&config, &s->conn);
    if (!err)
        redis_conn_open(s->conn);
    return err;
}

void side_close(struct side *s)
{
    redis_conn_close(s->conn);
    redis_tls_context_free(s->tls);
    s->conn = NULL;
    s->greeted = false;
    struct push *p;
    while ((p = list_take(&s->waiting)) != NULL || (p = list_take(&s->sent)) != NULL)
        push_drop(s->d, p);
}
