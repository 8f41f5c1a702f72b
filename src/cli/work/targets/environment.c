/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/targets/environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"

#define VARIABLES_MAX 15 /* of a job, besides its headers */

struct env_list {
    struct work_job *job;
    char **items;
    size_t count;
    int error;
};

const char *environment_header_name(struct span name, char out[WORK_VARIABLE_BYTES])
{
    size_t len = (size_t)snprintf(out, WORK_VARIABLE_BYTES, "HOLDFAST_HEADER_");
    for (size_t i = 0; i < name.len && len + 1 < WORK_VARIABLE_BYTES; i++) {
        char c = name.at[i];
        if (c >= 'a' && c <= 'z')
            c = (char)(c - 'a' + 'A');
        out[len++] = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
    }
    out[len] = '\0';
    return out;
}

static bool passes(const char *variable)
{
    static const char ours[] = "HOLDFAST_";
    return strncmp(variable, ours, strlen(ours)) != 0 &&
           strncmp(variable, "TRACEPARENT=", strlen("TRACEPARENT=")) != 0 &&
           strncmp(variable, "TRACESTATE=", strlen("TRACESTATE=")) != 0;
}

static bool is_set(const struct env_list *l, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < l->count; i++) {
        if (strncmp(l->items[i], name, len) == 0 && l->items[i][len] == '=')
            return true;
    }
    return false;
}

static void set_span(struct env_list *l, const char *name, struct span value)
{
    size_t name_len = strlen(name);
    if (l->error || !value.at || memchr(value.at, '\0', value.len) || is_set(l, name))
        return;
    char *text = arena_alloc(&l->job->arena, name_len + value.len + 2);
    if (!text) {
        l->error = -ERR_NOMEM;
        return;
    }
    memcpy(text, name, name_len);
    text[name_len] = '=';
    memcpy(text + name_len + 1, value.at, value.len);
    text[name_len + 1 + value.len] = '\0';
    l->items[l->count++] = text;
}

static void set_number(struct env_list *l, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    if (value > 0)
        set_span(l, name, span_text(text));
}

static void headers_set(struct env_list *l)
{
    char name[WORK_VARIABLE_BYTES];
    for (size_t i = 0; i < l->job->header_count; i++) {
        const struct work_header *h = &l->job->headers[i];
        set_span(l, environment_header_name(h->name, name), h->value);
        if (h->name.len == strlen("traceparent") &&
            strncasecmp(h->name.at, "traceparent", h->name.len) == 0)
            set_span(l, "TRACEPARENT", h->value);
        if (h->name.len == strlen("tracestate") &&
            strncasecmp(h->name.at, "tracestate", h->name.len) == 0)
            set_span(l, "TRACESTATE", h->value);
    }
}

int environment_of(struct work_job *job, const struct client_endpoint *to, char *const *inherited,
                   char ***ret)
{
    struct env_list l = {.job = job};
    size_t room = VARIABLES_MAX + job->header_count + 1;
    for (char *const *at = inherited; *at; at++)
        room++;
    l.items = arena_array(&job->arena, room, sizeof *l.items);
    if (!l.items)
        return -ERR_NOMEM;
    for (char *const *at = inherited; *at; at++) {
        if (passes(*at))
            l.items[l.count++] = *at;
    }
    /* The address is not secret, and useful to a command that enqueues. */
    set_span(&l, "HOLDFAST_SERVER", span_text(to->server));
    if (to->cacert)
        set_span(&l, "HOLDFAST_CACERT", span_text(to->cacert));
    set_span(&l, "HOLDFAST_ID", span_text(job->id));
    set_span(&l, "HOLDFAST_LEASE_TOKEN", span_text(job->token)); /* for `holdfast step` */
    set_span(&l, "HOLDFAST_QUEUE", span_text(job->queue));
    set_span(&l, "HOLDFAST_KIND", span_text(job->kind));
    set_number(&l, "HOLDFAST_ATTEMPT", job->attempt);
    set_number(&l, "HOLDFAST_MAX_ATTEMPTS", job->max_attempts);
    set_span(&l, "HOLDFAST_CORRELATION_ID", span_text(job->correlation_id));
    set_number(&l, "HOLDFAST_PROGRESS_FD", WORK_PROGRESS_FD);
    set_span(&l, "HOLDFAST_HANDOFF", span_text(job->handoff));
    headers_set(&l);
    *ret = l.items;
    return l.error;
}
