/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the backend that a URL names, and passes calls to the functions of its table.
 *
 * Notes name only the scheme and never the rest of a URL, because the rest may contain a password.
 */
#include "backend/backend.h"

#include <string.h>

#include "backend/backend_impl.h"
#include "backend/postgres/postgres.h"
#include "backend/redis/redis.h"
#include "base/check.h"

typedef int (*check_fn)(const char *rest, const struct backend_config *config,
                        struct err_note *note);
typedef int (*open_fn)(const char *rest, const struct backend_config *config, struct backend **ret,
                       struct err_note *note);

static int open_sqlite(const char *rest, const struct backend_config *config, struct backend **ret,
                       struct err_note *note)
{
    if (*rest == '\0')
        return err_note_set(note, -ERR_INVALID, "\"sqlite:\" needs a directory: write sqlite:DIR");
    return backend_open_local(rest, config, ret, note);
}

static int open_memory(const char *rest, const struct backend_config *config, struct backend **ret,
                       struct err_note *note)
{
    if (*rest != '\0')
        return err_note_set(note, -ERR_INVALID,
                            "\"memory:\" takes nothing after the colon; it keeps no files");
    return backend_open_memory(config, ret, note);
}

static const struct scheme {
    const char *name; /* with its colon */
    const char *form; /* as users write it, for notes */
    open_fn open;
    check_fn check; /* NULL = it is not a server */
} schemes[] = {
    {"sqlite:", "sqlite:DIR", open_sqlite, NULL},
    {"memory:", "memory:", open_memory, NULL},
    {"postgres:", "postgres://USER:PASSWORD@HOST/DATABASE", backend_open_postgres,
     backend_check_postgres},
    {"postgresql:", "postgresql://…", backend_open_postgres, backend_check_postgres},
    {"redis:", "redis://USER:PASSWORD@HOST:PORT/DB", backend_open_redis, backend_check_redis},
    {"rediss:", "rediss://…", backend_open_rediss, backend_check_rediss},
};

#define SCHEME_COUNT (sizeof schemes / sizeof schemes[0])

static const struct scheme *scheme_find(const char *url)
{
    for (size_t i = 0; i < SCHEME_COUNT; i++) {
        if (strncmp(url, schemes[i].name, strlen(schemes[i].name)) == 0)
            return &schemes[i];
    }
    return NULL;
}

/* "sqlite:DIR, memory:" */
static void scheme_forms(char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < SCHEME_COUNT; i++) {
        int n = snprintf(out + used, size - used, "%s%s", i > 0 ? ", " : "", schemes[i].form);
        CHECK(n > 0 && (size_t)n < size - used);
        used += (size_t)n;
    }
}

static int scheme_unknown(const char *url, struct err_note *note)
{
    char forms[256];
    scheme_forms(forms, sizeof forms);
    size_t len = strcspn(url, ":");
    if (url[len] == '\0')
        return err_note_set(note, -ERR_INVALID,
                            "the backend has no scheme; use one of: %s (for a directory on this "
                            "machine write sqlite:DIR)",
                            forms);
    return err_note_set(note, -ERR_INVALID, "unknown backend \"%.*s:\"; use one of: %s",
                        len > 40 ? 40 : (int)len, url, forms);
}

int backend_open(const char *url, const struct backend_config *config, struct backend **ret,
                 struct err_note *note)
{
    CHECK(config->loop && config->clock.read);
#ifdef HF_TEST_HOOKS
    bool wrapped;
    int err = backend_open_wrapped(url, config, &wrapped, ret, note);
    if (wrapped)
        return err;
#endif
    const struct scheme *scheme = scheme_find(url);
    if (!scheme)
        return scheme_unknown(url, note);
    if (config->node > ID_NODE_MAX)
        return err_note_set(note, -ERR_INVALID, "node %u is out of range: 0 to %u", config->node,
                            ID_NODE_MAX);
    return scheme->open(url + strlen(scheme->name), config, ret, note);
}

int backend_check(const char *url, const struct backend_config *config, struct err_note *note)
{
    const struct scheme *scheme = scheme_find(url);
    bool server = scheme && scheme->check;
    return server ? scheme->check(url + strlen(scheme->name), config, note) : 0;
}

int backend_submit(struct backend *b, const struct op *ops, size_t count, backend_reply_fn fn,
                   void *ctx)
{
    CHECK(fn && (ops || count == 0));
    if (count == 0)
        return 0;
#ifdef HF_TEST_HOOKS
    return backend_submit_guarded(b, ops, count, fn, ctx);
#else
    return b->ops->submit(b, ops, count, fn, ctx);
#endif
}

int backend_watch(struct backend *b, struct span queue, backend_signal_fn fn, void *ctx,
                  struct backend_watch **ret)
{
    CHECK(fn);
    return b->ops->watch(b, queue, fn, ctx, ret);
}

void backend_unwatch(struct backend *b, struct backend_watch *w)
{
    if (w)
        b->ops->unwatch(b, w);
}

bool backend_leads(const struct backend *b)
{
    return !b->ops->leads || b->ops->leads(b);
}

unsigned backend_caps(const struct backend *b)
{
    return b->ops->caps(b);
}

const char *backend_kind(const struct backend *b)
{
    return b->ops->kind;
}

void backend_figures(const struct backend *b, struct backend_figures *ret)
{
    *ret = (struct backend_figures){0};
    b->ops->figures(b, ret);
}

void backend_cluster(const struct backend *b, struct backend_cluster *ret)
{
    *ret = (struct backend_cluster){0};
    ret->up = true;
    if (b->ops->cluster)
        b->ops->cluster(b, ret);
}

bool backend_store(const struct backend *b, unsigned index, struct backend_store *ret)
{
    unsigned number = 0;
    if (b->ops->part)
        b = b->ops->part(b, index, &number);
    else if (index > 0)
        b = NULL;
    if (!b)
        return false;
    ret->number = number;
    ret->kind = backend_kind(b);
    ret->caps = backend_caps(b);
    backend_cluster(b, &ret->cluster);
    return true;
}

static bool store_answers(const struct backend *b)
{
    struct backend_cluster cluster;
    struct backend_figures figures;
    backend_cluster(b, &cluster);
    backend_figures(b, &figures);
    return cluster.up && figures.journal_stuck_ms == 0;
}

bool backend_answers(const struct backend *b)
{
    const struct backend *part;
    unsigned number;
    if (!b->ops->part)
        return store_answers(b);
    for (unsigned i = 0; (part = b->ops->part(b, i, &number)); i++) {
        if (backend_answers(part))
            return true;
    }
    return false;
}

bool backend_leads_any(const struct backend *b)
{
    const struct backend *part;
    unsigned number;
    if (!b->ops->part)
        return b->ops->own_outbox || backend_leads(b);
    for (unsigned i = 0; (part = b->ops->part(b, i, &number)); i++) {
        if (backend_leads_any(part))
            return true;
    }
    return false;
}

int64_t backend_clock_offset(const struct backend *b)
{
    return b->ops->clock_offset ? b->ops->clock_offset(b) : 0;
}

size_t backend_events(const struct backend *b, uint64_t after, uint64_t kinds,
                      struct backend_event *out, size_t max, uint64_t *ret_oldest)
{
    CHECK(out || max == 0);
    return b->ops->events(b, after, kinds, out, max, ret_oldest);
}

uint64_t backend_events_last(const struct backend *b)
{
    return b->ops->events_last(b);
}

bool backend_events_missed(const struct backend *b, uint64_t after)
{
    uint64_t oldest;
    b->ops->events(b, after, 0, NULL, 0, &oldest);
    return oldest != 0 && (oldest > after + 1 || after > backend_events_last(b));
}

void backend_on_news(struct backend *b, backend_news_fn fn, void *ctx)
{
    b->ops->on_news(b, fn, ctx);
}

int backend_settle(struct backend *b, backend_closed_fn fn, void *ctx)
{
    CHECK(fn);
    return b->ops->settle(b, fn, ctx);
}

static int no_files(const struct backend *b, struct err_note *note)
{
    return err_note_set(note, -ERR_INVALID,
                        "the backend of this server (%s) stores nothing in files; with "
                        "sqlite:DIR it does",
                        backend_kind(b));
}

int backend_backup(struct backend *b, const struct backup_request *request, struct err_note *note)
{
    CHECK(request->done);
    return b->ops->backup ? b->ops->backup(b, request, note) : no_files(b, note);
}

void backend_backup_cancel(struct backend *b)
{
    if (b->ops->backup_cancel)
        b->ops->backup_cancel(b);
}

int backend_compact(struct backend *b, const struct compact_request *request, struct err_note *note)
{
    CHECK(request->done);
    return b->ops->compact ? b->ops->compact(b, request, note) : no_files(b, note);
}

void backend_compact_cancel(struct backend *b)
{
    if (b->ops->compact_cancel)
        b->ops->compact_cancel(b);
}

void backend_close(struct backend *b, backend_closed_fn fn, void *ctx)
{
    CHECK(fn);
    b->ops->close(b, fn, ctx);
}

static const char *const events[EVENT_KIND_COUNT] = {
    [EVENT_ENQUEUED] = "enqueued",
    [EVENT_READY] = "ready",
    [EVENT_CLAIMED] = "claimed",
    [EVENT_RETRIED] = "retried",
    [EVENT_CRASHED] = "crashed",
    [EVENT_RELEASED] = "released",
    [EVENT_DONE] = "done",
    [EVENT_DEAD] = "dead",
    [EVENT_CANCEL_REQUESTED] = "cancel_requested",
    [EVENT_CANCELLED] = "cancelled",
    [EVENT_REQUEUED] = "requeued",
    [EVENT_PATCHED] = "patched",
    [EVENT_QUEUE_CREATED] = "queue_created",
    [EVENT_QUEUE_CHANGED] = "queue_changed",
    [EVENT_QUEUE_DELETED] = "queue_deleted",
    [EVENT_QUEUE_PAUSED] = "queue_paused",
    [EVENT_QUEUE_RESUMED] = "queue_resumed",
    [EVENT_QUEUE_PURGED] = "queue_purged",
    [EVENT_QUEUE_DEEP] = "queue_deep",
    [EVENT_CLOCK_SUSPECT] = "clock_suspect",
    [EVENT_KV_SET] = "kv_set",
    [EVENT_KV_DELETED] = "kv_deleted",
    [EVENT_ALERT_RAISED] = "alert_raised",
    [EVENT_ALERT_CLEARED] = "alert_cleared",
    [EVENT_SCHEDULE_FAILED] = "schedule_failed",
    [EVENT_SCHEDULE_FIRED] = "schedule_fired",
    [EVENT_PROGRESS] = "progress",
    [EVENT_INBOX_REFUSED] = "inbox_refused",
    [EVENT_UNBLOCKED] = "unblocked",
};

const char *event_name(enum event_kind k)
{
    return (unsigned)k < EVENT_KIND_COUNT ? events[k] : "invalid_event";
}
