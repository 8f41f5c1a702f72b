/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/targets/http_target.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "cli/work/handoff.h"

#define READ_BYTES_MAX ((size_t)1 << 20)
#define LINES_MAX 9 /* besides the headers of the job */
#define NAME_BYTES 160

struct http_run {
    struct target_owner owner;
    struct call *call;
    char error[512];
};

static const char *const content_types[] = {
    [WORK_PAYLOAD_JSON] = "application/json",
    [WORK_PAYLOAD_TEXT] = "text/plain; charset=utf-8",
    [WORK_PAYLOAD_BYTES] = "application/octet-stream",
};

/* ---- headers ---- */

int http_target_header(struct buf *line, const char *name, struct span value)
{
    int rc = buf_printf(line, "%s: ", name);
    for (size_t i = 0; rc == 0 && i < value.len; i++) {
        unsigned char c = (unsigned char)value.at[i];
        bool inner_space = c == ' ' && i > 0 && i + 1 < value.len;
        if ((c > 0x20 && c < 0x7f && c != '%') || inner_space)
            rc = buf_append(line, &value.at[i], 1);
        else
            rc = buf_printf(line, "%%%02X", c);
    }
    return rc == 0 ? buf_append(line, "", 1) : rc;
}

struct header_list {
    struct work_job *job;
    const char **lines;
    size_t count;
    int error;
};

static void line_add(struct header_list *l, const char *name, struct span value)
{
    struct buf line;
    if (l->error || !value.at)
        return;
    buf_init(&line);
    l->error = http_target_header(&line, name, value);
    char *copy = l->error ? NULL : arena_text(&l->job->arena, buf_span(&line));
    if (!l->error && !copy)
        l->error = -ERR_NOMEM;
    if (copy)
        l->lines[l->count++] = copy;
    buf_done(&line);
}

static void number_add(struct header_list *l, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    if (value > 0)
        line_add(l, name, span_text(text));
}

/* "Holdfast-Header-NAME", with `-` for every character that a header name must not have;
 * traceparent and tracestate keep their names. */
static void job_header_add(struct header_list *l, const struct work_header *h)
{
    char name[NAME_BYTES];
    size_t len = (size_t)snprintf(name, sizeof name,
                                  work_header_is_trace(h->name) ? "" : "Holdfast-Header-");
    for (size_t i = 0; i < h->name.len && len + 1 < sizeof name; i++) {
        char c = h->name.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        name[len++] = plain || c == '_' ? c : '-';
    }
    name[len] = '\0';
    line_add(l, name, h->value);
}

static int headers_build(struct work_job *job, struct header_list *l)
{
    l->job = job;
    l->lines = arena_array(&job->arena, LINES_MAX + job->header_count, sizeof *l->lines);
    if (!l->lines)
        return -ERR_NOMEM;
    line_add(l, "Holdfast-Id", span_text(job->id));
    line_add(l, "Holdfast-Lease-Token", span_text(job->token)); /* for steps */
    line_add(l, "Holdfast-Queue", span_text(job->queue));
    line_add(l, "Holdfast-Kind", span_text(job->kind));
    number_add(l, "Holdfast-Attempt", job->attempt);
    number_add(l, "Holdfast-Max-Attempts", job->max_attempts);
    line_add(l, "Holdfast-Correlation-Id", span_text(job->correlation_id));
    for (size_t i = 0; i < job->header_count; i++)
        job_header_add(l, &job->headers[i]);
    return l->error;
}

/* Parameters may follow the type. */
static bool is_handoff(const char *type)
{
    size_t len = strlen(HANDOFF_TYPE);
    return type && strncasecmp(type, HANDOFF_TYPE, len) == 0 &&
           (type[len] == '\0' || type[len] == ';' || type[len] == ' ');
}

/* ---- the request ---- */

static void done_cb(void *ctx, const struct call_reply *reply)
{
    struct http_run *h = ctx;
    struct target_end end = {.verdict = verdict_of_http(reply->status),
                             .output = reply->body,
                             .output_bytes = reply->body_bytes,
                             .retry_after_ms = reply->retry_after_ms,
                             .rate_limited = reply->status == 429 || reply->status == 503,
                             .handoff = is_handoff(reply->content_type),
                             .no_reply = reply->error != NULL};
    if (reply->error)
        snprintf(h->error, sizeof h->error, "no reply: %s", reply->error);
    else if (end.verdict.verb != WORK_ACK)
        snprintf(h->error, sizeof h->error, "status %ld%s%.*s", reply->status,
                 reply->body.len > 0 ? ": " : "",
                 (int)(reply->body.len < 400 ? reply->body.len : 400),
                 reply->body.len > 0 ? reply->body.at : "");
    end.error = h->error;
    h->owner.ended(h->owner.ctx, &end);
    mem_free(h);
}

struct http_run *http_target_start(struct calls *calls, const struct work_plan *plan,
                                   struct work_job *job, struct target_owner owner)
{
    struct header_list headers = {.count = 0};
    struct http_run *h = mem_zalloc(sizeof *h);
    if (!h || headers_build(job, &headers) < 0) {
        mem_free(h);
        return NULL;
    }
    h->owner = owner;
    h->call = calls_send(calls, &(struct call_request){
                                    .target = plan->url,
                                    .body = job->payload,
                                    .content_type = content_types[job->payload_kind],
                                    .headers = headers.lines,
                                    .header_count = headers.count,
                                    .body_max = WORK_RESULT_BYTES_MAX,
                                    .read_max = READ_BYTES_MAX,
                                    .done = done_cb,
                                    .ctx = h,
                                });
    if (h->call)
        return h;
    mem_free(h);
    return NULL;
}

void http_target_stop(struct http_run *h)
{
    call_cancel(h->call);
    mem_free(h);
}
