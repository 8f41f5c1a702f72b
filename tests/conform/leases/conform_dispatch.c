/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that are claimed by their id, and stores whose ready jobs are dispatched (TF-2, TF-6). */
#include "conform/conform.h"

static enum outcome claim_ready(struct env *e, uint64_t seq)
{
    return run(e, (struct op){.kind = OP_CLAIM,
                              .claim = {.one = {.seq = seq}, .only_ready = true, .count = 1}})
        ->outcome;
}

static void one_that_is_ready(struct env *e)
{
    static const enum job_state states[] = {STATE_SCHEDULED, STATE_RUNNING, STATE_DONE, STATE_DEAD,
                                            STATE_CANCELLED};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        uint64_t seq = job_in(e, state_name(states[i]), states[i], NULL);
        EXPECT_INT(claim_ready(e, seq), OUT_ILLEGAL);
        EXPECT_STATE(seq, states[i]);
    }
    uint64_t seq = put(e, "q");
    EXPECT_INT(claim_ready(e, seq), OUT_OK);
    EXPECT_STATE(seq, STATE_RUNNING);
    EXPECT_INT(claim_ready(e, seq + 1000000), OUT_NOT_FOUND);
}

static void none_of_a_paused_queue(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct op op = {.kind = OP_PAUSE,
                    .queue = {.name = SPAN_LITERAL("q"), .until = {LIMIT_WALL_MS}}};
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_INT(claim_ready(e, seq), OUT_ILLEGAL);
    EXPECT_STATE(seq, STATE_READY);
    op.queue.until.ms = 0;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_INT(claim_ready(e, seq), OUT_OK);
}

/* Wherever jobs are dispatched, all of them are in the end; elsewhere none is ever pending. */
static void pending_for_a_moment(struct env *e)
{
    uint64_t seq = put(e, "q");
    settle_due(e);
    EXPECT_INT(get(e, seq)->job.flags & JOB_PENDING, 0);
    struct held h = take(e, "q");
    EXPECT_INT(h.seq, seq);
    EXPECT_INT(get(e, seq)->job.flags & JOB_PENDING, 0);
    EXPECT_OUT(fail(e, h), OUT_OK);
}

static const struct conform_case cases[] = {
    CASE("TF-6 a claim of one job that must be ready", one_that_is_ready, EXACT),
    CASE("TF-6 a claim of one job of a paused queue", none_of_a_paused_queue, EXACT),
    CASE("TF-2 a ready job is pending for a moment only", pending_for_a_moment, EXACT),
};

TOPIC(topic_dispatch, cases);
