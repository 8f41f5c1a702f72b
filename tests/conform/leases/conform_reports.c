/* SPDX-License-Identifier: Apache-2.0 */
/* What workers report about a job: it comes along when the job is imported or moved from another
 * store (HF-20, HF-21), and nothing of a failure is lost when the job is to be cancelled. */
#include <string.h>

#include "conform/conform.h"
#include "core/jobs/job_error.h"
#include "core/jobs/progress.h"
#include "core/limits.h"

#define LINES "1000 1 first\n2000 2 second\n"

static struct span progress_of(struct env *e, struct job_token token)
{
    struct progress p = {.token = token,
                         .at = {START_WALL_MS - 1000},
                         .has_percent = true,
                         .percent_100 = 4250,
                         .message = SPAN_LITERAL("half"),
                         .data = SPAN_LITERAL("{\"rows\":7}")};
    uint8_t *text = arena_alloc(&e->arena, progress_bytes_max(&p));
    EXPECT(text != NULL);
    return span_of(text, progress_encode(&p, text));
}

static struct op import_op(struct env *e, enum job_state state)
{
    static const uint8_t reasons[STATE_COUNT] = {
        [STATE_DEAD] = REASON_FAILED, [STATE_CANCELLED] = REASON_CANCELLED};
    struct job_past past = {.state = (uint8_t)state,
                            .reason = reasons[state],
                            .progress = progress_of(e, (struct job_token){0}),
                            .log = SPAN_LITERAL(LINES)};
    struct op op = enqueue_op("q");
    op.enqueue.past = arena_copy(&e->arena, &past, sizeof past);
    EXPECT(op.enqueue.past != NULL);
    return op;
}

static struct op moved_op(struct env *e, uint64_t seq, enum job_state state)
{
    static const struct attempt_view tries[] = {{.number = 1,
                                                 .worker = {"anna", 4},
                                                 .started_at = {START_WALL_MS - 2000},
                                                 .ended_at = {START_WALL_MS - 1000},
                                                 .outcome = ATTEMPT_RELEASED}};
    struct job_moved moved = {.seq = seq,
                              .id_hi = (uint64_t)START_WALL_MS << 16,
                              .since = {START_WALL_MS},
                              .attempts = tries,
                              .attempt_count = 1};
    struct op op = import_op(e, state);
    op.enqueue.moved = arena_copy(&e->arena, &moved, sizeof moved);
    EXPECT(op.enqueue.moved != NULL);
    return op;
}

static void expect_reports(struct env *e, uint64_t seq)
{
    struct progress p;
    const struct job_view *v = get_whole(e, seq);
    EXPECT_TEXT(v->log, LINES);
    EXPECT(v->progress.len > 0);
    EXPECT_INT(progress_decode(v->progress, &p), 0);
    EXPECT_INT(p.percent_100, 4250);
    EXPECT_INT(p.at.ms, START_WALL_MS - 1000);
    EXPECT_TEXT(p.message, "half");
    EXPECT_TEXT(p.data, "{\"rows\":7}");
}

static void come_with_jobs(struct env *e)
{
    static const enum job_state states[] = {STATE_READY, STATE_DEAD, STATE_DONE, STATE_CANCELLED};
    uint64_t seqs[6], n = 0;
    for (uint64_t i = 0; i < 2; i++)
        seqs[n++] = put_op(e, import_op(e, states[i]));
    for (uint64_t i = 0; i < 4; i++)
        seqs[n++] = put_op(e, moved_op(e, 7000 + i, states[i]));
    for (uint64_t i = 0; i < n; i++)
        expect_reports(e, seqs[i]);
    env_restart(e);
    for (uint64_t i = 0; i < n; i++)
        expect_reports(e, seqs[i]);
}

/* The progress was that of an earlier attempt; the log goes on. */
static void next_attempt(struct env *e)
{
    static const struct span line = SPAN_LITERAL("third");
    put_op(e, import_op(e, STATE_READY));
    struct held h = take(e, "q");
    EXPECT_INT(get_whole(e, h.seq)->progress.len, 0);
    EXPECT_TEXT(get_whole(e, h.seq)->log, LINES);
    struct op op = lease_op(OP_LOG, h);
    op.lease.lines = &line;
    op.lease.line_count = 1;
    EXPECT_OUT(run(e, op), OUT_OK);
    struct span log = get_whole(e, h.seq)->log;
    EXPECT(log.len > sizeof LINES && memcmp(log.at, LINES, sizeof LINES - 1) == 0);
}

static void in_whole_size(struct env *e)
{
    char *text = arena_alloc(&e->arena, LIMIT_LOG_BYTES + 1);
    EXPECT(text != NULL);
    memset(text, 'x', LIMIT_LOG_BYTES + 1);
    struct op op = import_op(e, STATE_READY);
    struct job_past past = *op.enqueue.past;
    past.log = span_of(text, LIMIT_LOG_BYTES);
    op.enqueue.past = &past;
    uint64_t seq = put_op(e, op);
    EXPECT_INT(get_whole(e, seq)->log.len, LIMIT_LOG_BYTES);
    past.log.len++;
    EXPECT_OUT(run(e, op), OUT_INVALID);
    past.log = SPAN_LITERAL(LINES);
    past.progress = progress_of(e, (struct job_token){1, 1}); /* of a lease */
    EXPECT_OUT(run(e, op), OUT_INVALID);
    past.progress = SPAN_LITERAL("\xff");
    EXPECT_OUT(run(e, op), OUT_INVALID);
}

static void failure_of_a_cancelled_job(struct env *e)
{
    struct queue_policy p = test_policy();
    p.cancel_grace_ms = 5000;
    queue_make(e, "q", &p);
    put(e, "q");
    struct held h = take(e, "q");
    struct op op = job_op(OP_CANCEL, h.seq);
    op.job.force = false;
    EXPECT_OUT(run(e, op), OUT_OK);
    op = lease_op(OP_FAIL, h);
    op.lease.error = SPAN_LITERAL("stopped");
    op.lease.error_type = SPAN_LITERAL("Interrupted");
    op.lease.stack = SPAN_LITERAL("at line 7");
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_STATE(h.seq, STATE_CANCELLED);
    struct job_error error = job_error_split(get_whole(e, h.seq)->error);
    EXPECT_TEXT(error.text, "stopped");
    EXPECT_TEXT(error.type, "Interrupted");
    EXPECT_TEXT(error.stack, "at line 7");
}

static const struct reply *registry(struct env *e, const struct worker_entry *entries,
                                    uint32_t count)
{
    const struct reply *r =
        run(e, (struct op){.kind = OP_REGISTRY, .registry = {.entries = entries, .count = count}});
    EXPECT_OUT(r, OUT_OK);
    return r;
}

/* Only stores that nodes share keep entries: elsewhere the registry is in the memory of the server.
 */
static void registry_entries(struct env *e)
{
    struct worker_entry entries[] = {
        {SPAN_LITERAL("anna"), now_plus(e, 3600000), SPAN_LITERAL("first")},
        {SPAN_LITERAL("bert"), now_plus(e, 3601000), SPAN_LITERAL("facts")},
    };
    bool shared = (backend_caps(e->b) & CAP_SHARED) != 0;
    registry(e, entries, 2);
    entries[0].facts = SPAN_LITERAL("second");
    const struct reply *r = registry(e, entries, 1);
    EXPECT_INT(r->entry_count, shared ? 2 : 0);
    for (uint32_t i = 0; i < r->entry_count; i++)
        EXPECT_TEXT(r->entries[i].facts,
                    span_equal(r->entries[i].name, entries[0].name) ? "second" : "facts");
    advance(e, 3599999);
    EXPECT_INT(registry(e, NULL, 0)->entry_count, shared ? 2 : 0);
    advance(e, 1);
    r = registry(e, NULL, 0);
    EXPECT_INT(r->entry_count, shared ? 1 : 0);
    if (shared)
        EXPECT_TEXT(r->entries[0].name, "bert");
    advance(e, 1000);
    EXPECT_INT(registry(e, NULL, 0)->entry_count, 0);
}

/* The entries of workers and those of queues have different prefixes. */
static void registry_parts(struct env *e)
{
    struct worker_entry entries[] = {
        {SPAN_LITERAL("wanna"), now_plus(e, 3600000), SPAN_LITERAL("a")},
        {SPAN_LITERAL("qanna"), now_plus(e, 3600000), SPAN_LITERAL("b")},
        {SPAN_LITERAL("qann"), now_plus(e, 3600000), SPAN_LITERAL("c")},
    };
    bool shared = (backend_caps(e->b) & CAP_SHARED) != 0;
    registry(e, entries, 3);
    struct op op = {.kind = OP_REGISTRY, .registry = {.prefix = SPAN_LITERAL("q")}};
    EXPECT_INT(run(e, op)->entry_count, shared ? 2 : 0);
    op.registry.prefix = SPAN_LITERAL("x");
    EXPECT_INT(run(e, op)->entry_count, 0);
    op.registry = (struct op_registry){.only = SPAN_LITERAL("qann")};
    const struct reply *r = run(e, op);
    EXPECT_INT(r->entry_count, shared ? 1 : 0);
    if (shared)
        EXPECT_TEXT(r->entries[0].facts, "c");
    op.registry.only = SPAN_LITERAL("ann");
    EXPECT_INT(run(e, op)->entry_count, 0);
    advance(e, 3600001);
    op.registry.only = SPAN_LITERAL("qann");
    EXPECT_INT(run(e, op)->entry_count, 0);
}

static const struct conform_case cases[] = {
    CASE("NOM-16 entries of the registry are replaced by newer ones and removed at their time",
         registry_entries, .flags = EXACT),
    CASE("HF-5 entries of the registry are found by the prefix and by the name", registry_parts,
         .flags = EXACT),
    CASE("HF-21 progress and log come along with an imported job", come_with_jobs,
         .flags = RESTART),
    CASE("HF-21 the next attempt of an imported job has no progress and adds to the log",
         next_attempt),
    CASE("HF-21 an imported log has at most 64 KiB, and imported progress has no lease",
         in_whole_size),
    CASE("HF-20 HF-21 a failure of a job that is to be cancelled keeps its type and stack",
         failure_of_a_cancelled_job),
};
TOPIC(topic_reports, cases, NEEDS_WHOLE_JOBS);
