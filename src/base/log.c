/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines, put together on the stack: a line can be written when memory has run out.
 *
 * A line that would be longer than LINE_BYTES loses the end of its longest text or its last fields,
 * and says so with "…". A value can hold anything, and still neither break the line nor look like
 * another field: in text form it is quoted unless it is one plain word; control characters (C1 and
 * the Unicode line ends too, which some viewers obey) are always escaped. */
#include "base/log.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/json/json_escape.h"
#include "base/utf8.h"

#define LINE_BYTES ((size_t)4096)
#define TAIL_BYTES ((size_t)8) /* kept free: "…", quote, brace, line end */
#define PLAIN_BYTES_MAX 128    /* longer values are quoted, so that they can be cut */
#define WINDOW_MS 10000
#define ELLIPSIS "\xe2\x80\xa6"

static const char *const level_names[] = {
    [LOG_ERROR] = "error",
    [LOG_WARN] = "warn",
    [LOG_INFO] = "info",
    [LOG_DEBUG] = "debug",
};

struct line {
    char data[LINE_BYTES];
    size_t len;
    bool cut; /* something did not fit; nothing more is added */
    enum log_format format;
};

/* Adds all of it or nothing. */
static void line_put(struct line *l, const char *bytes, size_t len)
{
    if (l->cut || l->len + TAIL_BYTES + len > LINE_BYTES) {
        l->cut = true;
        return;
    }
    memcpy(l->data + l->len, bytes, len);
    l->len += len;
}

static void line_text(struct line *l, const char *text)
{
    line_put(l, text, strlen(text));
}

/* Into the room that line_put leaves free. */
static void line_tail(struct line *l, const char *text)
{
    size_t len = strlen(text);
    memcpy(l->data + l->len, text, len);
    l->len += len;
}

static bool is_plain(struct span s)
{
    if (s.len > PLAIN_BYTES_MAX)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || !strchr("_-.:/@+,*#%~", c)))
            return false;
    }
    return s.len > 0;
}

/* DEL, U+0080 to U+009F, U+2028 and U+2029: allowed in JSON, but no good on a terminal. */
static unsigned unprintable(struct span s)
{
    const unsigned char *p = (const unsigned char *)s.at;
    if (p[0] == 0x7f)
        return 0x7f;
    if (s.len >= 2 && p[0] == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f)
        return p[1];
    if (s.len >= 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9))
        return 0x2000u | (p[2] & 0x3fu);
    return 0;
}

static void line_quoted(struct line *l, struct span s)
{
    char piece[JSON_ESCAPE_MAX];
    line_put(l, "\"", 1);
    if (l->cut)
        return;
    while (s.len > 0 && !l->cut) {
        size_t taken;
        unsigned code = unprintable(s);
        size_t len = json_escape(s, piece, &taken);
        if (code != 0)
            len = json_escape_u(code, piece);
        line_put(l, piece, len);
        s = span_of(s.at + taken, s.len - taken);
    }
    line_tail(l, l->cut ? ELLIPSIS "\"" : "\"");
}

static void line_name(struct line *l, const char *name)
{
    line_text(l, l->format == LOG_AS_JSON ? ",\"" : " ");
    line_text(l, name);
    line_text(l, l->format == LOG_AS_JSON ? "\":" : "=");
}

static void line_number(struct line *l, int64_t number)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRId64, number);
    line_put(l, text, (size_t)len);
}

/* A name without its value would be worse than neither: then the line ends before the name. */
static void line_field(struct line *l, const struct log_field *f)
{
    size_t before = l->len;
    line_name(l, f->name);
    size_t value = l->len;
    if (f->kind == LOG_FIELD_INT)
        line_number(l, f->number);
    else if (f->kind == LOG_FIELD_BOOL)
        line_text(l, f->number ? "true" : "false");
    else if (l->format == LOG_AS_TEXT && is_plain(f->text))
        line_put(l, f->text.at, f->text.len);
    else
        line_quoted(l, f->text);
    if (l->cut && l->len == value)
        l->len = before;
}

static void line_head(struct line *l, struct wall_time at, enum log_level level, const char *event)
{
    char time[WALL_TEXT_BYTES];
    bool json = l->format == LOG_AS_JSON;
    wall_text(at, time);
    line_text(l, json ? "{\"time\":\"" : "");
    line_text(l, time);
    line_text(l, json ? "\",\"level\":\"" : " ");
    line_text(l, level_names[level]);
    line_text(l, json ? "\",\"event\":\"" : " ");
    line_text(l, event);
    line_text(l, json ? "\"" : "");
}

/* Opens a new window when the last one is over. Threads that do so at once may let a line or two
 * more than the burst through. */
static bool site_admits(struct log_site *site, int64_t now_ms, uint32_t *ret_suppressed)
{
    int64_t window = __atomic_load_n(&site->window, __ATOMIC_RELAXED);
    if (now_ms - window >= WINDOW_MS &&
        __atomic_compare_exchange_n(&site->window, &window, now_ms, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
        __atomic_store_n(&site->lines, 1, __ATOMIC_RELAXED);
        *ret_suppressed = __atomic_exchange_n(&site->suppressed, 0, __ATOMIC_RELAXED);
        return true;
    }
    *ret_suppressed = 0;
    if (__atomic_add_fetch(&site->lines, 1, __ATOMIC_RELAXED) <= LOG_BURST)
        return true;
    __atomic_add_fetch(&site->suppressed, 1, __ATOMIC_RELAXED);
    return false;
}

void log_write(const struct log *log, enum log_level level, struct log_site *site,
               const char *event, const struct log_field *fields)
{
    const struct log_field *mark = log && log->inner ? &log->mark : NULL;
    log = mark ? log->inner : log;
    if (!log || level > log->level)
        return;
    struct now now = clock_now(&log->clock);
    uint32_t suppressed = 0;
    if (site && !site_admits(site, now.mono.ms, &suppressed))
        return;

    struct line l;
    l.len = 0;
    l.cut = false;
    l.format = log->format;
    line_head(&l, now.wall, level, event);
    if (suppressed > 0)
        line_field(&l, &LOG_INT("suppressed", suppressed));
    if (mark)
        line_field(&l, mark);
    for (; fields && fields->kind != LOG_FIELD_END; fields++)
        line_field(&l, fields);
    line_tail(&l, l.format == LOG_AS_JSON ? "}\n" : "\n");
    log->write(log->ctx, l.data, l.len);
}

/* That the log cannot be written cannot be reported anywhere. */
static void stream_write(void *ctx, const char *line, size_t len)
{
    FILE *stream = ctx;
    (void)fwrite(line, 1, len, stream);
    (void)fflush(stream);
}

struct log log_to_stream(FILE *stream, enum log_format format, enum log_level level,
                         struct clock clock)
{
    return (struct log){
        .write = stream_write, .ctx = stream, .clock = clock, .format = format, .level = level};
}

struct log log_marked(const struct log *inner, struct log_field mark)
{
    return (struct log){.inner = inner, .mark = mark};
}
