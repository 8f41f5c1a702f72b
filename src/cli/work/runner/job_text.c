/* SPDX-License-Identifier: Apache-2.0 */
/* Standard error and progress of a task, kept until they are sent. The size is limited: if the
 * server is too slow, the oldest bytes are dropped. */
#include <stdio.h>
#include <string.h>

#include "cli/work/runner/runner_impl.h"

#define LINES_BYTES_MAX ((size_t)64 << 10) /* as much as the server keeps */
#define LINE_BYTES_MAX ((size_t)4 << 10)
#define LINES_MAX 1000        /* in one request */
#define LOGGED_PER_SECOND 100 /* lines of a job in the log of the runner */
#define MESSAGE_BYTES_MAX 512

void job_text_init(struct job_text *x)
{
    *x = (struct job_text){.percent = -1};
    buf_init(&x->tail);
    buf_init(&x->lines);
    buf_init(&x->sent);
    buf_init(&x->line);
    buf_init(&x->message);
}

void job_text_done(struct job_text *x)
{
    buf_done(&x->tail);
    buf_done(&x->lines);
    buf_done(&x->sent);
    buf_done(&x->line);
    buf_done(&x->message);
}

static void front_drop(struct buf *b, size_t len)
{
    memmove(b->data, b->data + len, b->len - len);
    b->len -= len;
}

/* The server refuses texts with U+0000: U+FFFD takes its place. */
static int text_append(struct buf *b, struct span text)
{
    int rc = 0;
    while (rc == 0 && text.len > 0) {
        const char *nul = memchr(text.at, '\0', text.len);
        size_t len = nul ? (size_t)(nul - text.at) : text.len;
        rc = buf_append(b, text.at, len);
        if (rc == 0 && nul)
            rc = buf_append_text(b, "\uFFFD");
        text = span_of(text.at + len + (nul != NULL), text.len - len - (nul != NULL));
    }
    return rc;
}

/* Truncated at twice the size, so that not every byte moves the rest. */
static void tail_add(struct job_text *x, struct span bytes)
{
    if (bytes.len > WORK_ERROR_BYTES_MAX)
        bytes = span_of(bytes.at + bytes.len - WORK_ERROR_BYTES_MAX, WORK_ERROR_BYTES_MAX);
    if (x->tail.len + bytes.len > 2 * WORK_ERROR_BYTES_MAX)
        front_drop(&x->tail, x->tail.len - WORK_ERROR_BYTES_MAX);
    (void)!text_append(&x->tail, bytes);
}

/* A command that floods its standard error must not keep the runner from renewing leases. */
static bool line_logged(struct task *t)
{
    struct job_text *x = &t->text;
    uint64_t second = runner_now(t->runner) / 1000;
    if (x->second != second) {
        x->second = second;
        x->second_lines = 0;
    }
    return x->second_lines++ < LOGGED_PER_SECOND;
}

/* Half of it is dropped at a time, so that not every line moves the rest. */
static void lines_shorten(struct buf *lines)
{
    size_t half = lines->len / 2;
    const char *end = memchr(lines->data + half, '\n', lines->len - half);
    front_drop(lines, end ? (size_t)(end - lines->data) + 1 : lines->len);
}

static void line_end(struct task *t)
{
    struct job_text *x = &t->text;
    if (line_logged(t))
        work_log_line(&t->runner->log, LOG_INFO, "stderr", LOG_TEXT("id", t->job.id),
                      LOG_SPAN("line", buf_span(&x->line)));
    else
        x->not_logged++;
    if (x->lines.len + x->line.len + 1 > LINES_BYTES_MAX)
        lines_shorten(&x->lines);
    if (!t->runner->no_log && buf_append_span(&x->lines, buf_span(&x->line)) == 0)
        (void)!buf_append(&x->lines, "\n", 1);
    buf_clear(&x->line);
}

void job_text_errors(struct task *t, struct span bytes)
{
    struct job_text *x = &t->text;
    tail_add(x, bytes);
    while (bytes.len > 0) {
        const char *end = memchr(bytes.at, '\n', bytes.len);
        size_t len = end ? (size_t)(end - bytes.at) : bytes.len;
        size_t room = x->line.len < LINE_BYTES_MAX ? LINE_BYTES_MAX - x->line.len : 1;
        size_t taken = len < room ? len : room;
        (void)!text_append(&x->line, span_of(bytes.at, taken));
        bool ends = taken == len && end;
        bytes = span_of(bytes.at + taken + ends, bytes.len - taken - ends);
        if (ends || x->line.len >= LINE_BYTES_MAX)
            line_end(t);
    }
}

void job_text_end(struct task *t)
{
    if (t->text.line.len > 0)
        line_end(t);
    if (t->text.not_logged > 0)
        work_log_line(&t->runner->log, LOG_WARN, "stderr_suppressed", LOG_TEXT("id", t->job.id),
                      LOG_INT("lines", t->text.not_logged));
}

/* The length of the first LINES_MAX lines. */
static size_t lines_bytes(struct span lines)
{
    size_t at = 0;
    for (size_t count = 0; count < LINES_MAX && at < lines.len; count++) {
        const char *end = memchr(lines.at + at, '\n', lines.len - at);
        at = end ? (size_t)(end - lines.at) + 1 : lines.len;
    }
    return at;
}

void job_text_sending(struct job_text *x)
{
    size_t taken = lines_bytes(buf_span(&x->lines));
    buf_clear(&x->sent);
    if (taken == 0 || buf_append(&x->sent, x->lines.data, taken) < 0)
        return;
    front_drop(&x->lines, taken);
}

void job_text_unsent(struct job_text *x)
{
    struct span newer = buf_span(&x->lines);
    if (x->sent.len + newer.len <= LINES_BYTES_MAX && buf_append_span(&x->sent, newer) == 0) {
        buf_clear(&x->lines);
        (void)!buf_append_span(&x->lines, buf_span(&x->sent));
    }
    buf_clear(&x->sent);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The length of a percentage at the start of the line: "42", "42%", "42.5 %"; 0 = none. The
 * fraction is dropped, because the server keeps whole numbers. */
static size_t percent_read(struct span line, int *ret)
{
    size_t at = 0;
    int percent = 0;
    while (at < line.len && at < 4 && is_digit(line.at[at]))
        percent = percent * 10 + (line.at[at++] - '0');
    if (at == 0 || percent > 100)
        return 0;
    if (at + 1 < line.len && line.at[at] == '.' && is_digit(line.at[at + 1]))
        for (at++; at < line.len && is_digit(line.at[at]);)
            at++;
    at += at + 1 < line.len && line.at[at] == ' ' && line.at[at + 1] == '%';
    at += at < line.len && line.at[at] == '%';
    if (at < line.len && !is_blank(line.at[at]))
        return 0;
    *ret = percent;
    return at;
}

/* "42 message", "42", or a message without a number, which leaves the percentage as it is. */
void job_text_progress(struct task *t, struct span line)
{
    struct job_text *x = &t->text;
    size_t at = percent_read(line, &x->percent);
    bool number = at > 0;
    while (at < line.len && is_blank(line.at[at]))
        at++;
    struct span message = span_of(line.at + at, line.len - at);
    if (message.len > MESSAGE_BYTES_MAX)
        message.len = MESSAGE_BYTES_MAX;
    buf_clear(&x->message);
    if (text_append(&x->message, message) == 0) {
        x->message.len = x->message.len < MESSAGE_BYTES_MAX ? x->message.len : MESSAGE_BYTES_MAX;
        x->progress_new = x->progress_new || number || message.len > 0;
    }
    task_next(t);
}
