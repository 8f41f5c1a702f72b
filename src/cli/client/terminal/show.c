/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/terminal/show.h"

#include <inttypes.h>

#include "base/buf.h"
#include "cli/client/answer.h"
#include "cli/client/terminal/text.h"

#define PAYLOAD_COLUMNS 200 /* of the view of one job; --json has it whole */
#define NAME_COLUMNS 24

/* Truncated before it is escaped, so that a payload of megabytes is not processed. */
static struct span head_of(struct span text)
{
    size_t most = (size_t)PAYLOAD_COLUMNS * 8 + 1;
    return text.len > most ? span_of(text.at, most) : text;
}

void client_show_payload(struct client_table *t, struct span job, struct arena *arena)
{
    struct span json;
    struct span base64 = client_answer_text(job, "payload_base64", arena);
    if (base64.len > 0)
        client_table_addf(t, "base64:%.*s", (int)(base64.len < 200 ? base64.len : 200), base64.at);
    else if (client_answer_find(job, "payload", &json))
        client_table_add(t, head_of(json));
    else
        client_table_add(t, head_of(client_answer_text(job, "payload_text", arena)));
}

const char *client_show_count(int64_t count, char out[CLIENT_COUNT_BYTES])
{
    char digits[CLIENT_COUNT_BYTES];
    int len = snprintf(digits, sizeof digits, "%" PRId64, count);
    char *to = out;
    for (int i = 0; i < len; i++) {
        *to++ = digits[i];
        int left = len - 1 - i;
        if (left > 0 && left % 3 == 0 && digits[i] != '-')
            *to++ = ',';
    }
    *to = '\0';
    return out;
}

const char *client_show_ms(int64_t ms, char out[CLIENT_SPAN_BYTES])
{
    int64_t s = ms / 1000;
    if (ms < 0)
        snprintf(out, CLIENT_SPAN_BYTES, "-");
    else if (ms < 1000)
        snprintf(out, CLIENT_SPAN_BYTES, "%" PRId64 " ms", ms);
    else if (s < 60)
        snprintf(out, CLIENT_SPAN_BYTES, "%" PRId64 ".%" PRId64 " s", s, ms % 1000 / 100);
    else if (s < 3600)
        snprintf(out, CLIENT_SPAN_BYTES, "%" PRId64 "m %" PRId64 "s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, CLIENT_SPAN_BYTES, "%" PRId64 "h %" PRId64 "m", s / 3600, s % 3600 / 60);
    else
        snprintf(out, CLIENT_SPAN_BYTES, "%" PRId64 "d %" PRId64 "h", s / 86400, s % 86400 / 3600);
    return out;
}

/* ---- objects ----------------------------------------------------------------------------------
 */

static bool is_object_list(struct span value)
{
    struct client_items items;
    struct span first;
    client_items_open(&items, value);
    return client_items_next(&items, &first) && first.at[0] == '{';
}

static void member_line(FILE *out, struct span name, struct span value, struct arena *arena)
{
    struct json_reader r;
    struct json_token t;
    struct span text = value;
    json_open(&r, value);
    bool read = json_next(&r, &t) == 0;
    if (read && t.kind == JSON_NULL)
        text = SPAN_LITERAL("-");
    else if (read && t.kind == JSON_STRING && json_string(&t, arena, &text) < 0)
        text = value;
    struct buf line;
    buf_init(&line);
    int rc = client_text_show(&line, name, CLIENT_TEXT_WHOLE);
    size_t width = client_text_width(buf_span(&line)) + 1;
    if (rc == 0)
        rc = buf_printf(&line, ":%*s", (int)(width < NAME_COLUMNS ? NAME_COLUMNS - width : 1), "");
    if (rc == 0)
        rc = client_text_show(&line, head_of(text), PAYLOAD_COLUMNS);
    if (rc == 0)
        fprintf(out, "%.*s\n", (int)line.len, line.data);
    buf_done(&line);
}

/* Two levels are enough for every object of the API. */
static void inner_lines(FILE *out, struct span outer, struct span object, struct arena *arena)
{
    struct client_members members;
    struct span name, value;
    client_members_open(&members, object, arena);
    while (client_members_next(&members, &name, &value)) {
        char both[128];
        snprintf(both, sizeof both, "%.*s.%.*s", (int)outer.len, outer.at, (int)name.len, name.at);
        member_line(out, span_text(both), value, arena);
    }
}

void client_show_object(FILE *out, struct span object, struct arena *arena)
{
    struct client_members members;
    struct span name, value;
    client_members_open(&members, object, arena);
    while (client_members_next(&members, &name, &value)) {
        bool opaque =
            span_equal(name, SPAN_LITERAL("payload")) || span_equal(name, SPAN_LITERAL("result"));
        if (value.at[0] == '{' && !opaque)
            inner_lines(out, name, value, arena);
        else if (opaque || !is_object_list(value))
            member_line(out, name, value, arena);
    }
}
