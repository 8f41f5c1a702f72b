/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/http/sse.h"

void client_sse_init(struct client_sse *s, client_sse_fn fn, void *ctx)
{
    *s = (struct client_sse){.fn = fn, .ctx = ctx};
}

void client_sse_done(struct client_sse *s)
{
    buf_done(&s->line);
    buf_done(&s->event);
    buf_done(&s->id);
    buf_done(&s->data);
}

void client_sse_restart(struct client_sse *s)
{
    buf_clear(&s->line);
    buf_clear(&s->event);
    buf_clear(&s->data);
    s->has_data = s->after_cr = s->begun = false;
}

static int event_over(struct client_sse *s)
{
    struct client_sse_event event = {
        .event = s->event.len > 0 ? buf_span(&s->event) : SPAN_LITERAL("message"),
        .id = buf_span(&s->id),
        .data = buf_span(&s->data),
    };
    int rc = s->has_data ? s->fn(s->ctx, &event) : 0;
    buf_clear(&s->event);
    buf_clear(&s->data);
    s->has_data = false;
    return rc;
}

static int value_set(struct buf *b, struct span value)
{
    buf_clear(b);
    return buf_append_span(b, value);
}

static int field_set(struct client_sse *s, struct span name, struct span value)
{
    if (span_equal(name, SPAN_LITERAL("event")))
        return value_set(&s->event, value);
    if (span_equal(name, SPAN_LITERAL("id")))
        return value.len > 0 && memchr(value.at, '\0', value.len) ? 0 : value_set(&s->id, value);
    if (!span_equal(name, SPAN_LITERAL("data")))
        return 0; /* retry, comments (an empty name), and fields of later versions */
    if (s->data.len + value.len > CLIENT_SSE_EVENT_MAX)
        return -ERR_TOO_BIG;
    int rc = s->has_data ? buf_append(&s->data, "\n", 1) : 0;
    s->has_data = true;
    return rc < 0 ? rc : buf_append_span(&s->data, value);
}

static int line_over(struct client_sse *s)
{
    struct span line = buf_span(&s->line);
    if (!s->begun && line.len >= 3 && memcmp(line.at, "\xef\xbb\xbf", 3) == 0)
        line = span_of(line.at + 3, line.len - 3);
    s->begun = true;
    if (line.len == 0)
        return event_over(s);
    const char *colon = memchr(line.at, ':', line.len);
    size_t name_len = colon ? (size_t)(colon - line.at) : line.len;
    size_t from = colon ? name_len + 1 : line.len;
    if (from < line.len && line.at[from] == ' ')
        from++;
    return field_set(s, span_of(line.at, name_len), span_of(line.at + from, line.len - from));
}

int client_sse_feed(struct client_sse *s, struct span piece)
{
    size_t at = 0;
    while (at < piece.len) {
        if (s->after_cr && piece.at[at] == '\n')
            at++;
        s->after_cr = false;
        size_t from = at;
        while (at < piece.len && piece.at[at] != '\n' && piece.at[at] != '\r')
            at++;
        if (s->line.len + (at - from) > CLIENT_SSE_EVENT_MAX)
            return -ERR_TOO_BIG;
        int rc = buf_append(&s->line, piece.at + from, at - from);
        if (rc == 0 && at < piece.len) {
            s->after_cr = piece.at[at++] == '\r';
            rc = line_over(s);
            buf_clear(&s->line);
        }
        if (rc != 0)
            return rc;
    }
    return 0;
}
