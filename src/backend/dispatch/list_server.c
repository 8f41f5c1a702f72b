/* SPDX-License-Identifier: Apache-2.0 */
/* One Redis server and the pushes in progress. A push that is refused is repeated a few times; then
 * the job stays pending, and the leader's loop finds it. */
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

struct list_server *list_server_of(struct dispatch *d, struct span queue)
{
    for (size_t i = 0; i < d->urgent_count; i++)
        if (alert_matches(d->urgent[i], queue))
            return &d->servers[LIST_SERVER_HIGH];
    return &d->servers[LIST_SERVER_LOW];
}

void list_server_key(const struct list_server *s, struct span queue, struct rargs *a)
{
    char key[LIST_KEY_BYTES];
    int n = snprintf(key, sizeof key, "%sdispatch:%s:%.*s", s->url.prefix, s->name, (int)queue.len,
                     queue.at);
    redis_args_bytes(a, span_of(key, (size_t)n));
}

bool list_server_up(const struct list_server *s)
{
    return s->ready && redis_conn_open_now(s->conn);
}

static void shown_cb(void *ctx, redisReply *r)
{
    (void)ctx;
    if (r)
        freeReplyObject(r);
}

void list_server_show_leader(struct list_server *s, const char *key, uint64_t epoch, int64_t ttl_ms)
{
    struct rargs a;
    char value[64];
    if (!list_server_up(s))
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

/* --- dispatched jobs are marked, many at a time --- */

struct marking {
    struct dispatch *d;
    size_t left, count;
    struct push *pushes[MARKS_AT_ONCE];
    struct op ops[MARKS_AT_ONCE];
};

static void marks_wake(struct dispatch *d);

/* A job that was not marked is still pending and is pushed again, which does no harm. */
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

/* NULL: too many, no memory, or no server. */
static struct push *push_new(struct dispatch *d, struct span queue)
{
    struct list_server *s = list_server_of(d, queue);
    if (s->waiting.count >= PUSHES_WAITING || !list_server_up(s))
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
    p->side->refused_logged = false;
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
    struct list_server *s = p->side;
    s->d->failed++;
    if (++p->tries >= PUSH_TRIES || !list_server_up(s)) {
        push_drop(s->d, p);
        return;
    }
    s->resume_ms = dispatch_ms() + (PUSH_BACKOFF_MS << p->tries);
    list_add(&s->waiting, p);
}

/* Logged once until a push succeeds: the cause probably affects every push. */
static void log_refused(struct list_server *s, const redisReply *r)
{
    if (!s->refused_logged)
        log_event(s->d->config.log, LOG_WARN, "dispatch_refused", LOG_TEXT("side", s->name),
                  LOG_TEXT("text", r->type == REDIS_REPLY_ERROR ? r->str : "an unknown answer"));
    s->refused_logged = true;
}

static void pushed_cb(void *ctx, redisReply *r)
{
    struct list_server *s = ctx;
    struct dispatch *d = s->d;
    struct push *p = list_take(&s->sent);
    bool done = r && r->type == REDIS_REPLY_INTEGER;
    if (r && !done)
        log_refused(s, r);
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
    struct list_server *s = p->side;
    struct rargs a;
    char id[ID_UUID_BYTES], text[ID_UUID_BYTES + 24];
    id_uuid(id_make(p->job.hi, p->job.seq), id);
    int n = snprintf(text, sizeof text, "{\"task_id\":\"%s\"}", id);
    redis_args_init(&a);
    redis_args_text(&a, p->job.seq ? "LPUSH" : "DEL");
    list_server_key(s, span_of(p->queue, p->len), &a);
    if (p->job.seq)
        redis_args_bytes(&a, span_of(text, (size_t)n));
    list_add(&s->sent, p);
    redis_conn_send(s->conn, &a, pushed_cb, s);
    redis_args_done(&a);
}

static void list_server_wake(struct list_server *s)
{
    if (s->resume_ms > dispatch_ms() && !s->d->closing)
        return;
    s->resume_ms = 0;
    while (s->waiting.first && (!list_server_up(s) || s->d->closing)) {
        s->d->failed += !s->d->closing;
        push_drop(s->d, list_take(&s->waiting));
    }
    while (s->waiting.first && s->sent.count < PUSHES_AT_ONCE)
        push_send(list_take(&s->waiting));
}

void pushes_wake(struct dispatch *d)
{
    for (size_t i = 0; i < LIST_SERVER_COUNT; i++)
        list_server_wake(&d->servers[i]);
}

bool pushes_idle(const struct dispatch *d)
{
    const struct list_server *s = d->servers;
    return !s[0].waiting.first && !s[1].waiting.first && !s[0].sent.first && !s[1].sent.first &&
           !d->marks.first && !d->marking;
}

bool pushes_full(const struct dispatch *d)
{
    return d->servers[LIST_SERVER_HIGH].waiting.count >= PUSHES_AT_ONCE ||
           d->servers[LIST_SERVER_LOW].waiting.count >= PUSHES_AT_ONCE;
}

/* --- the connection --- */

static void log_down(struct list_server *s, const char *why)
{
    if (!s->down_logged)
        log_event(s->d->config.log, LOG_ERROR, "dispatch_lost", LOG_TEXT("side", s->name),
                  LOG_TEXT("why", why),
                  LOG_TEXT("note", "its jobs stay pending until Redis can be reached again"));
    s->down_logged = true;
}

static void lost_cb(void *ctx, const char *why)
{
    struct list_server *s = ctx;
    s->ready = false;
    log_down(s, why);
    list_server_wake(s);
}

static void hello_cb(void *ctx, redisReply *r)
{
    struct list_server *s = ctx;
    bool error = r && r->type == REDIS_REPLY_ERROR;
    if (error) {
        log_down(s, r->str);
        s->ready = false;
    } else if (r && !s->ready) {
        s->ready = true;
        if (s->down_logged)
            log_event(s->d->config.log, LOG_INFO, "dispatch_back", LOG_TEXT("side", s->name));
        s->down_logged = false;
        s->d->pass_now = true;
    }
    if (r)
        freeReplyObject(r);
    if (error)
        redis_conn_drop(s->conn);
}

static void nothing_cb(void *ctx, redisReply *r)
{
    struct list_server *s = ctx;
    if (r && r->type == REDIS_REPLY_ERROR)
        log_down(s, r->str);
    if (r)
        freeReplyObject(r);
}

static void opened_cb(void *ctx)
{
    struct list_server *s = ctx;
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
    redis_conn_send(s->conn, &a, hello_cb, s); /* also refused if the password is wrong */
    redis_args_done(&a);
}

int list_server_open(struct list_server *s, const char *url, struct err_note *note)
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

void list_server_close(struct list_server *s)
{
    redis_conn_close(s->conn);
    redis_tls_context_free(s->tls);
    s->conn = NULL;
    s->ready = false;
    struct push *p;
    while ((p = list_take(&s->waiting)) != NULL || (p = list_take(&s->sent)) != NULL)
        push_drop(s->d, p);
}
