/* SPDX-License-Identifier: Apache-2.0 */
/* Progress and log lines: when they are accepted, what is kept, and for how long. */
#include <string.h>

#include "conform/conform.h"
#include "core/jobs/progress.h"
#include "core/limits.h"

static struct op progress_op(struct env *e, struct held h, unsigned percent, const char *message)
{
    struct progress *p = arena_array(&e->arena, 1, sizeof *p);
    struct op op = lease_op(OP_PROGRESS, h);
    if (!p)
        LEAVE("no memory");
    p->has_percent = true;
    p->percent_100 = (uint16_t)(percent * 100);
    p->message = span_text(message);
    op.lease.progress = p;
    return op;
}

static struct op log_op(struct held h, const struct span *lines, uint32_t count)
{
    struct op op = lease_op(OP_LOG, h);
    op.lease.lines = lines;
    op.lease.line_count = count;
    return op;
}

static void expect_progress(struct env *e, uint64_t seq, unsigned percent, const char *message)
{
    struct progress p;
    const struct job_view *v = get_whole(e, seq);
    EXPECT(v->progress.len > 0);
    EXPECT_INT(progress_decode(v->progress, &p), 0);
    EXPECT_INT(p.percent_100, percent * 100);
    EXPECT_TEXT(p.message, message);
}

static struct held work(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    put(e, "q");
    return take(e, "q");
}

static void newest_wins(struct env *e)
{
    struct held h = work(e);
    EXPECT_INT(get_whole(e, h.seq)->progress.len, 0);
    const struct reply *r = run(e, progress_op(e, h, 10, "reading"));
    EXPECT_OUT(r, OUT_OK);
    EXPECT_INT(r->state, STATE_RUNNING);
    EXPECT_TEXT(r->queue, "q");
    expect_progress(e, h.seq, 10, "reading");
    advance(e, 1000);
    EXPECT_OUT(run(e, progress_op(e, h, 60, "writing")), OUT_OK);
    expect_progress(e, h.seq, 60, "writing");
    struct progress p;
    EXPECT_INT(progress_decode(get_whole(e, h.seq)->progress, &p), 0);
    EXPECT_INT(p.at.ms, START_WALL_MS + 1000);
    EXPECT_OUT(ack(e, h), OUT_OK);
    expect_progress(e, h.seq, 60, "writing"); /* stays with the job that is done */
}

static void data_is_kept(struct env *e)
{
    struct held h = work(e);
    struct progress want = {.data = SPAN_LITERAL("{\"rows\":[1,2]}")}, p;
    struct op op = lease_op(OP_PROGRESS, h);
    op.lease.progress = &want;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_INT(progress_decode(get_whole(e, h.seq)->progress, &p), 0);
    EXPECT(!p.has_percent);
    EXPECT_TEXT(p.data, "{\"rows\":[1,2]}");
}

static void new_attempt_has_none(struct env *e)
{
    struct held h = work(e);
    EXPECT_OUT(run(e, progress_op(e, h, 50, "half")), OUT_OK);
    EXPECT_OUT(release(e, h), OUT_OK);
    struct held again = take(e, "q");
    EXPECT_INT(again.seq, h.seq);
    EXPECT_INT(get_whole(e, h.seq)->progress.len, 0);
    EXPECT_OUT(ack(e, again), OUT_OK);
    EXPECT_INT(get_whole(e, h.seq)->progress.len, 0);
}

static void extends_the_lease(struct env *e)
{
    struct held h = work(e);
    struct op op = progress_op(e, h, 1, "");
    advance(e, 9000);
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_INT(get(e, h.seq)->lease_left_ms, 1000); /* not without lease_ms */
    op.lease.lease_ms = 20000;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_INT(get(e, h.seq)->lease_left_ms, 20000);
    advance(e, 15000);
    EXPECT_STATE(h.seq, STATE_RUNNING);
}

static void needs_the_lease(struct env *e)
{
    static const struct span line = SPAN_LITERAL("late");
    struct held h = work(e);
    EXPECT_OUT(release(e, h), OUT_OK);
    EXPECT_OUT(run(e, progress_op(e, h, 1, "late")), OUT_LEASE_LOST);
    EXPECT_OUT(run(e, log_op(h, &line, 1)), OUT_LEASE_LOST);
    struct held now = take(e, "q");
    EXPECT_OUT(run(e, progress_op(e, h, 1, "late")), OUT_LEASE_LOST);
    EXPECT_OUT(run(e, log_op(h, &line, 1)), OUT_LEASE_LOST);
    EXPECT_OUT(ack(e, now), OUT_OK);
    EXPECT_OUT(run(e, progress_op(e, now, 1, "late")), OUT_LEASE_LOST);
    const struct job_view *v = get_whole(e, h.seq);
    EXPECT_INT(v->progress.len, 0);
    EXPECT_INT(v->log.len, 0);
    EXPECT_OUT(run(e, progress_op(e, (struct held){.seq = LIMIT_SEQ, .token = h.token}, 1, "")),
               OUT_NOT_FOUND);
}

static void refuses_bad_values(struct env *e)
{
    static char wide[LIMIT_PROGRESS_DATA_BYTES + 1], text[LIMIT_LOG_LINE_BYTES + 1];
    memset(wide, 'x', sizeof wide);
    memset(text, 'x', sizeof text);
    struct held h = work(e);
    struct span line = span_of(text, sizeof text);
    struct progress p = {.percent_100 = 0};
    struct op op = lease_op(OP_PROGRESS, h);
    op.lease.progress = &p;
    EXPECT_OUT(run(e, op), OUT_INVALID); /* nothing to report */
    p = (struct progress){.has_percent = true, .percent_100 = 10001};
    EXPECT_OUT(run(e, op), OUT_INVALID);
    p = (struct progress){.message = span_of(wide, LIMIT_PROGRESS_MESSAGE_BYTES + 1)};
    EXPECT_OUT(run(e, op), OUT_INVALID);
    p = (struct progress){.data = span_of(wide, sizeof wide)};
    EXPECT_OUT(run(e, op), OUT_INVALID);
    p = (struct progress){.has_percent = true};
    op.lease.lease_ms = 1;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    EXPECT_OUT(run(e, log_op(h, &line, 0)), OUT_INVALID);
    EXPECT_OUT(run(e, log_op(h, &line, 1)), OUT_INVALID);
    const struct job_view *v = get_whole(e, h.seq);
    EXPECT_INT(v->progress.len, 0);
    EXPECT_INT(v->log.len, 0);
}

static void one_event_a_second(struct env *e)
{
    struct held h = work(e);
    struct backend_event seen[16];
    uint64_t oldest, kinds = UINT64_C(1) << EVENT_PROGRESS, after = backend_events_last(e->b);
    for (unsigned i = 1; i <= 5; i++)
        EXPECT_OUT(run(e, progress_op(e, h, i, "")), OUT_OK);
    settle_due(e);
    EXPECT_INT(backend_events(e->b, after, kinds, seen, 16, &oldest), 1);
    EXPECT_INT(seen[0].seq, h.seq);
    EXPECT_INT(seen[0].state, STATE_RUNNING);
    advance(e, 1000);
    EXPECT_OUT(run(e, progress_op(e, h, 6, "")), OUT_OK);
    advance(e, 500);
    EXPECT_OUT(run(e, progress_op(e, h, 7, "")), OUT_OK);
    settle_due(e);
    EXPECT_INT(backend_events(e->b, after, kinds, seen, 16, &oldest), 2);
    expect_progress(e, h.seq, 7, "");
}

/* The lines of the log as "attempt:text", separated by commas. */
static struct span told(struct env *e, uint64_t seq)
{
    static char text[400];
    struct span log = joblog_begin(get_whole(e, seq)->log);
    struct joblog_line line;
    size_t used = 0;
    text[0] = '\0';
    while (joblog_next(&log, &line) && used < sizeof text)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%u:%.*s", used ? "," : "",
                                 line.attempt, (int)line.text.len, line.text.at);
    return span_of(text, strlen(text));
}

static void log_of_all_attempts(struct env *e)
{
    static const struct span first[] = {SPAN_LITERAL("a"), SPAN_LITERAL("b\nc")};
    static const struct span second[] = {SPAN_LITERAL("d")};
    struct held h = work(e);
    EXPECT_OUT(run(e, log_op(h, first, 2)), OUT_OK);
    EXPECT_OUT(fail(e, h), OUT_OK);
    advance(e, 1000);
    h = take(e, "q");
    EXPECT_OUT(run(e, log_op(h, second, 1)), OUT_OK);
    EXPECT_TEXT(told(e, h.seq), "1:a,1:b,1:c,2:d");
    struct span log = get_whole(e, h.seq)->log;
    struct joblog_line line;
    EXPECT(joblog_next(&log, &line));
    EXPECT_INT(line.at.ms, START_WALL_MS);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_TEXT(told(e, h.seq), "1:a,1:b,1:c,2:d");
}

static void several_in_one_batch(struct env *e)
{
    static const struct span a = SPAN_LITERAL("a"), b = SPAN_LITERAL("b");
    struct held h = work(e);
    const struct reply *replies[4];
    struct op ops[] = {log_op(h, &a, 1), progress_op(e, h, 20, "x"), log_op(h, &b, 1),
                       progress_op(e, h, 30, "y")};
    run_batch(e, ops, 4, replies);
    for (size_t i = 0; i < 4; i++)
        EXPECT_OUT(replies[i], OUT_OK);
    EXPECT_TEXT(told(e, h.seq), "1:a,1:b");
    expect_progress(e, h.seq, 30, "y");
}

static void newest_bytes_stay(struct env *e)
{
    static char text[LIMIT_LOG_LINE_BYTES];
    struct held h = work(e);
    for (char c = 'a'; c <= 'f'; c++) {
        memset(text, c, sizeof text);
        struct span line = span_of(text, sizeof text);
        EXPECT_OUT(run(e, log_op(h, &line, 1)), OUT_OK);
    }
    struct span log = get_whole(e, h.seq)->log;
    struct joblog_line line;
    EXPECT(log.len <= LIMIT_LOG_BYTES);
    log = joblog_begin(log);
    for (char c = 'd'; c <= 'f'; c++) {
        EXPECT(joblog_next(&log, &line));
        EXPECT_INT(line.text.len, sizeof text);
        EXPECT_INT(line.text.at[0], c);
    }
    EXPECT(!joblog_next(&log, &line));
}

static void goes_with_the_job(struct env *e)
{
    static const struct span a = SPAN_LITERAL("a");
    struct held h = work(e);
    EXPECT_OUT(run(e, log_op(h, &a, 1)), OUT_OK);
    EXPECT_OUT(run(e, progress_op(e, h, 20, "x")), OUT_OK);
    EXPECT_OUT(ack(e, h), OUT_OK);
    EXPECT_OUT(run(e, job_op(OP_REMOVE, h.seq)), OUT_OK);
    EXPECT_STATE(h.seq, STATE_NONE);
    put(e, "q");
    struct held other = take(e, "q");
    EXPECT_INT(get_whole(e, other.seq)->log.len, 0);
}

static void survives_a_restart(struct env *e)
{
    static const struct span a = SPAN_LITERAL("a");
    struct held h = work(e);
    EXPECT_OUT(run(e, log_op(h, &a, 1)), OUT_OK);
    EXPECT_OUT(run(e, progress_op(e, h, 20, "x")), OUT_OK);
    env_restart(e);
    EXPECT_TEXT(told(e, h.seq), "1:a");
    expect_progress(e, h.seq, 20, "x");
    EXPECT_OUT(run(e, progress_op(e, h, 40, "y")), OUT_OK);
    expect_progress(e, h.seq, 40, "y");
}

static const struct conform_case cases[] = {
    CASE("HF-21 progress is shown with the job, the newest report wins", newest_wins),
    CASE("HF-21 progress may carry data instead of a percentage", data_is_kept),
    CASE("HF-21 a new attempt starts without progress", new_attempt_has_none),
    CASE("HF-21 progress with lease_ms extends the lease", extends_the_lease, EXACT),
    CASE("HF-21 progress and log need the current lease", needs_the_lease),
    CASE("HF-21 progress and log refuse bad values", refuses_bad_values),
    CASE("HF-21 progress makes at most one event a second", one_event_a_second, EXACT),
    CASE("HF-21 the log has the lines of all attempts", log_of_all_attempts, EXACT),
    CASE("HF-21 several reports in one batch", several_in_one_batch, EXACT),
    CASE("HF-21 of a log the newest bytes stay", newest_bytes_stay, EXACT),
    CASE("HF-21 progress and log go with the job", goes_with_the_job, EXACT),
    CASE("HF-21 progress and log survive a restart", survives_a_restart, EXACT | RESTART),
};

TOPIC(topic_progress, cases);
