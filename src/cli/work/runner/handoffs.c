/* SPDX-License-Identifier: Apache-2.0 */
/* The hand-offs of tasks. A hand-off that cannot be read, or that the server refuses, fails the
 * attempt: the job must not be done without it, and is not lost. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/client/answer.h"
#include "cli/work/runner/runner_impl.h"

/* The text comes from the target or from the server, and may be long. */
static void attempt_fail(struct task *t, const char *before, struct span why)
{
    t->verdict = (struct verdict){.verb = WORK_FAIL, .type = "handoff"};
    t->handoff = (struct handoff){.enqueues = {NULL, 0}};
    buf_clear(&t->error);
    (void)!buf_printf(&t->error, "%s%.*s", before, (int)(why.len < 1000 ? why.len : 1000), why.at);
}

/* ---- the files of commands ---- */

static bool dir_ready(struct runner *r)
{
    struct err_note note;
    if (r->handoff_dir[0])
        return true;
    if (handoff_dir_create(r->handoff_dir, &note) == 0)
        return true;
    r->handoff_dir[0] = '\0';
    work_log_line(&r->log, LOG_WARN, "no_handoffs", LOG_TEXT("reason", note.text));
    return false;
}

/* A name is used once: the command of an earlier attempt may still run. */
void handoffs_begin(struct task *t)
{
    struct runner *r = t->runner;
    char path[HANDOFF_PATH_BYTES + 32];
    if (!dir_ready(r))
        return;
    int len =
        snprintf(path, sizeof path, "%s/%llu", r->handoff_dir, (unsigned long long)++r->handoffs);
    t->job.handoff = arena_text(&t->job.arena, span_of(path, (size_t)len));
}

void handoffs_end(struct task *t)
{
    if (t->job.handoff)
        (void)unlink(t->job.handoff);
}

void handoffs_close(struct runner *r)
{
    if (r->handoff_dir[0])
        (void)rmdir(r->handoff_dir);
}

/* ---- what is handed off ---- */

/* The result is a member of the reply: it becomes the output of the task. */
static int http_take(struct task *t, const struct target_end *end, struct err_note *note)
{
    if (end->output_bytes > end->output.len)
        return err_note_set(note, -ERR_INVALID, "the hand-off has more than %zu bytes",
                            WORK_RESULT_BYTES_MAX);
    int err = buf_append_span(&t->handoff_text, end->output);
    if (err == 0)
        err = handoff_parse(buf_span(&t->handoff_text), true, &t->handoff, note);
    if (err == 0)
        err = buf_append_span(&t->output, t->handoff.result);
    t->output_bytes = t->output.len;
    return err;
}

static int file_take(struct task *t, struct err_note *note)
{
    int err = handoff_file_read(t->job.handoff, &t->handoff_text, note);
    if (err < 0 || t->handoff_text.len == 0)
        return err;
    return handoff_parse(buf_span(&t->handoff_text), false, &t->handoff, note);
}

void handoffs_take(struct task *t, const struct target_end *end)
{
    struct err_note note = {.text = "out of memory"};
    int err = end->handoff ? http_take(t, end, &note) : t->job.handoff ? file_take(t, &note) : 0;
    if (err < 0)
        attempt_fail(t, "", span_text(note.text));
}

/* What the server says, with what it would have allowed. */
static struct span refusal_of(struct runner *r, const struct call_reply *reply)
{
    static const struct span word = {"; allowed: ", 11};
    struct span why = runner_why(r, reply), allowed;
    if (reply->error || json_check_deep(reply->body, NULL, NULL) < 0 ||
        !client_answer_find(reply->body, "allowed", &allowed))
        return why;
    char *text = arena_alloc(&r->scratch, why.len + word.len + allowed.len);
    if (!text)
        return why;
    memcpy(text, why.at, why.len);
    memcpy(text + why.len, word.at, word.len);
    memcpy(text + why.len + word.len, allowed.at, allowed.len);
    return span_of(text, why.len + word.len + allowed.len);
}

/* 408 says that the server did not read the request. A lost lease is a refusal as well; it is then
 * that of the report that follows. */
bool handoffs_refused(struct task *t, const struct call_reply *reply)
{
    if (t->verdict.verb != WORK_ACK || !handoff_given(&t->handoff) || reply->status < 400 ||
        reply->status > 499 || reply->status == 408)
        return false;
    struct span reason = refusal_of(t->runner, reply);
    work_log_line(&t->runner->log, LOG_WARN, "handoff_refused", LOG_TEXT("id", t->job.id),
                  LOG_INT("status", reply->status), LOG_SPAN("reason", reason));
    attempt_fail(t, "the server refused the hand-off: ", reason);
    return true;
}
