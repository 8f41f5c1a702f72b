/* SPDX-License-Identifier: Apache-2.0 */
#include "api/orchestrator/orchestrator_impl.h"

#include "base/check.h"
#include "base/mem.h"
#include "core/limits.h"

static const struct http_route routes[] = {
    {HTTP_POST, "/api/queues", orc_queue_create, SCOPE_ADMIN, 0, "Create a queue."},
    {HTTP_GET, "/api/queues", orc_queue_list, SCOPE_READ, 0, "List queues by name."},
    {HTTP_GET, "/api/queues/{id}", orc_queue_get, SCOPE_READ, 0, "Read a queue by its id."},
    {HTTP_PUT, "/api/queues/{id}", orc_queue_update, SCOPE_ADMIN, 0, "Change the given members."},
    {HTTP_PATCH, "/api/queues/{id}", orc_queue_update, SCOPE_ADMIN, 0, "The same as PUT."},
    {HTTP_DELETE, "/api/queues/{id}", orc_queue_delete, SCOPE_ADMIN, 0,
     "Delete a queue with its items permanently."},
    {HTTP_GET, "/api/queues/{id}/stats", orc_queue_stats, SCOPE_READ, 0,
     "Counts by status, exceptions by kind, average time."},
    {HTTP_POST, "/api/queue-items", orc_item_create, SCOPE_PRODUCE, ROUTE_LARGE,
     "Create an item by queue_id."},
    {HTTP_POST, "/api/queue-items/add", orc_item_add, SCOPE_PRODUCE, ROUTE_LARGE,
     "Create an item by queue_name."},
    {HTTP_GET, "/api/queue-items", orc_item_list, SCOPE_READ, 0,
     "List items by queue_id, status and reference, from any offset."},
    {HTTP_GET, "/api/queue-items/next", orc_item_next, SCOPE_CONSUME, ROUTE_UNSAFE,
     "Claim the next NEW item of a queue; 204 if the queue has none."},
    {HTTP_GET, "/api/queue-items/{id}", orc_item_get, SCOPE_READ, 0, "Read an item."},
    {HTTP_PUT, "/api/queue-items/{id}", orc_item_status, SCOPE_CONSUME, ROUTE_LARGE,
     "Change the status of an item, or set its result or error."},
    {HTTP_POST, "/api/queue-items/{id}/status", orc_item_status, SCOPE_CONSUME, ROUTE_LARGE,
     "The same as PUT, for robots."},
    {HTTP_POST, "/api/queue-items/{id}/renew", orc_item_renew, SCOPE_CONSUME, 0,
     "Renew the lease of an item in progress."},
    {HTTP_DELETE, "/api/queue-items/{id}", orc_item_delete, SCOPE_ADMIN, 0,
     "Soft delete: the item becomes DELETED."},
    {HTTP_POST, "/api/triggers", orc_trigger_create, SCOPE_ADMIN, 0,
     "Create a trigger: TIME (cron) or QUEUE."},
    {HTTP_GET, "/api/triggers", orc_trigger_list, SCOPE_READ, 0, "List triggers by name."},
    {HTTP_GET, "/api/triggers/{id}", orc_trigger_get, SCOPE_READ, 0, "Read a trigger by its id."},
    {HTTP_PUT, "/api/triggers/{id}", orc_trigger_update, SCOPE_ADMIN, 0,
     "Change the given members."},
    {HTTP_PATCH, "/api/triggers/{id}", orc_trigger_update, SCOPE_ADMIN, 0, "The same as PUT."},
    {HTTP_DELETE, "/api/triggers/{id}", orc_trigger_delete, SCOPE_ADMIN, 0,
     "Delete a trigger; its jobs stay."},
    {HTTP_GET, "/api/jobs", orc_job_list, SCOPE_READ, 0,
     "List the jobs that triggers created, by trigger_id and status, newest first."},
    {HTTP_GET, "/api/jobs/{id}", orc_job_get, SCOPE_READ, 0, "Read a job that a trigger created."},
};

struct call *orc_call(void *ctx, struct http_exchange *x, enum op_kind kind, call_fn done)
{
    struct call *c = call_new(orc_broker(ctx), ctx, x, kind, done);
    if (c)
        c->terms = &orc_terms;
    return c;
}

#define PAGE_LIMIT 100
static const struct field page_rows[] = {
    {"limit", FIELD_INT, offsetof(struct orc_page, limit), 1, LIMIT_BATCH, NULL, 0},
    {"offset", FIELD_INT, offsetof(struct orc_page, offset), 0, INT64_MAX, NULL, 0},
};

struct call *orc_page_call(void *ctx, struct http_exchange *x, enum op_kind kind, call_fn done,
                           size_t size)
{
    struct problem p;
    struct call *c = orc_call(ctx, x, kind, done);
    struct orc_page *page = call_more(c, size);
    if (!page)
        return NULL;
    page->limit = PAGE_LIMIT;
    struct field_reader r = reader_of(c->broker, x, FIELDS(page_rows), page, &p);
    if (!query_read(&r, x))
        return NULL;
    http_alone(x);
    return c;
}

static int orchestrator_open(const struct api_config *config, void **ret)
{
    struct orchestrator *o = mem_zalloc(sizeof *o);
    if (!o)
        return -ERR_NOMEM;
    o->config = *config;
    o->broker = config->broker;
    *ret = o;
    return 0;
}

static void orchestrator_close(void *ctx, void (*fn)(void *fn_ctx), void *fn_ctx)
{
    struct orchestrator *o = ctx;
    CHECK(!o->defining.first && !o->triggering.first);
    mem_free(o);
    fn(fn_ctx);
}

const struct api orchestrator_api = {
    .name = ORC_NAME,
    .doc = "queues, items and triggers of a robot orchestrator",
    .routes = routes,
    .route_count = sizeof routes / sizeof *routes,
    .open = orchestrator_open,
    .close = orchestrator_close,
};
