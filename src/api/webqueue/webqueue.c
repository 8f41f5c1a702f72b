/* SPDX-License-Identifier: Apache-2.0 */
/* The API: its routes, opening and closing. */
#include "api/webqueue/webqueue.h"

#include "api/webqueue/webqueue_impl.h"
#include "base/mem.h"

#define AT "/api/web/queue/"
static const struct http_route routes[] = {
    {HTTP_GET, AT "queue-depth", web_depth_handle, SCOPE_READ, 0,
     "Count the jobs by status, of all types and libraries or of one."},
    {HTTP_GET, AT "types", web_types_handle, SCOPE_READ, 0,
     "List the queue types with their queues and settings."},
    {HTTP_GET, AT "list", web_list_handle, SCOPE_READ, 0,
     "List jobs by status, type and library, newest first."},
    {HTTP_GET, AT "job/{id}", web_job_handle, SCOPE_READ, 0, "Read a job."},
    {HTTP_GET, AT "stale", web_stale_handle, SCOPE_READ, 0,
     "List running jobs that have not been renewed for a time."},
    {HTTP_POST, AT "enqueue", web_enqueue_handle, SCOPE_PRODUCE, ROUTE_LARGE,
     "Enqueue a path, or several."},
    {HTTP_POST, AT "dequeue", web_dequeue_handle, SCOPE_CONSUME, 0,
     "Claim the next pending job of a type."},
    {HTTP_POST, AT "complete", web_complete_handle, SCOPE_CONSUME, ROUTE_LARGE,
     "Complete a job with its results."},
    {HTTP_POST, AT "fail", web_fail_handle, SCOPE_CONSUME, 0,
     "Report that a job failed, with its error."},
    {HTTP_POST, AT "renew", web_renew_handle, SCOPE_CONSUME, 0,
     "Renew the lease of a job: its timeout starts again."},
    {HTTP_POST, AT "requeue", web_requeue_handle, SCOPE_ADMIN, 0, "Requeue a job with an error."},
    {HTTP_POST, AT "retry-errors", web_retry_errors_handle, SCOPE_ADMIN, 0,
     "Requeue the jobs with errors."},
    {HTTP_POST, AT "clear-completed", web_clear_completed_handle, SCOPE_ADMIN, 0,
     "Remove the completed jobs."},
    {HTTP_POST, AT "clear-errors", web_clear_errors_handle, SCOPE_ADMIN, 0,
     "Remove the jobs with errors."},
    {HTTP_GET, AT "library/{library_id}", web_library_handle, SCOPE_READ, 0,
     "Count the jobs of a library by status and type."},
    {HTTP_DELETE, AT "library/{library_id}", web_library_delete_handle, SCOPE_ADMIN, 0,
     "Remove the jobs of a library; running ones are cancelled."},
};

static void webqueue_free(struct webqueue *w)
{
    for (size_t i = 0; w->types && i < w->type_count; i++) {
        mem_free((char *)w->types[i].queue.at);
    }
    mem_free(w->types);
    mem_free(w->names);
    mem_free(w);
}

/* The name of the type is a part of the name of its queue. */
static int type_init(struct webqueue *w, size_t i, const struct webqueue_type *config)
{
    size_t prefix = sizeof WEBQUEUE_PREFIX - 1, len = strlen(config->name);
    char *queue = mem_alloc(prefix + len + 1);
    if (!queue)
        return -ERR_NOMEM;
    memcpy(queue, WEBQUEUE_PREFIX, prefix);
    memcpy(queue + prefix, config->name, len + 1);
    w->types[i] =
        (struct web_type){.w = w, .config = *config, .queue = span_of(queue, prefix + len)};
    w->names[i] = w->types[i].config.name = queue + prefix;
    return 0;
}

static int webqueue_open(const struct api_config *config, void **ret)
{
    struct webqueue *w = mem_zalloc(sizeof *w);
    if (!w)
        return -ERR_NOMEM;
    w->broker = config->broker;
    w->base = *config->policy;
    if (config->webqueue_alerts)
        w->alerts = *config->webqueue_alerts;
    w->type_count = config->webqueue_type_count;
    w->types = mem_array(w->type_count, sizeof *w->types);
    w->names = mem_array(w->type_count, sizeof *w->names);
    int err = w->types && w->names ? 0 : -ERR_NOMEM;
    for (size_t i = 0; !err && i < w->type_count; i++)
        err = type_init(w, i, &config->webqueue_types[i]);
    if (err) {
        webqueue_free(w);
        return err;
    }
    for (size_t i = 0; i < w->type_count; i++)
        type_check(&w->types[i]);
    *ret = w;
    return 0;
}

/* Operations in the background are answered before the broker closes. */
static void webqueue_close(void *ctx, void (*fn)(void *fn_ctx), void *fn_ctx)
{
    struct webqueue *w = ctx;
    if (w->checking > 0) {
        w->closed = fn;
        w->closed_ctx = fn_ctx;
        return;
    }
    webqueue_free(w);
    fn(fn_ctx);
}

const struct api webqueue_api = {
    .name = "webqueue",
    .doc = "The normalised queue of a web application, one job per path.",
    .routes = routes,
    .route_count = sizeof routes / sizeof *routes,
    .open = webqueue_open,
    .close = webqueue_close,
};
