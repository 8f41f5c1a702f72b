/* SPDX-License-Identifier: Apache-2.0 */
/* What a Redis store may hold in a row: nothing breaks, whatever is accepted lies within the bounds
 * of row_check.h and has a name for each of its kinds, and comes back when it is written again.
 *
 * The first byte of an input says which decoder the rest is for. */
#include "backend/redis/unit/row.h"
#include "backend/shared/alerts.h"
#include "backend/shared/row_check.h"
#include "base/check.h"
#include "core/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SEQ 77

static void job(struct unit *u, struct span in)
{
    struct row r = {.gone = false}, again = {.gone = false};
    if (redis_row_decode(SEQ, in, &r) != 0)
        return;
    CHECK(sound_row(&r));
    CHECK(state_name((enum job_state)r.job.state) && reason_name((enum job_reason)r.job.reason));
    struct span packed = redis_row_encode(u, &r);
    CHECK(packed.len && redis_row_decode(SEQ, packed, &again) == 0);
    CHECK(again.job.state == r.job.state && again.job.priority == r.job.priority &&
          again.until_ms == r.until_ms && token_equal(again.token, r.token) &&
          span_equal(again.extra.unique, r.extra.unique) && span_equal(again.worker, r.worker) &&
          span_equal(again.step_index, r.step_index));
}

static void queue(struct unit *u, struct span in)
{
    struct wqueue q = {.number = 0}, again = {.number = 0};
    if (redis_queue_decode(in, &q) != 0)
        return;
    CHECK(sound_queue(&q));
    struct span packed = redis_queue_encode(u, &q);
    CHECK(packed.len && redis_queue_decode(packed, &again) == 0);
    CHECK(again.number == q.number && span_equal(again.name, q.name));
}

static void word(struct unit *u, struct span in)
{
    struct kept_reply w = {.next = NULL}, again = {.next = NULL};
    if (redis_reply_decode(in, &w) != 0)
        return;
    CHECK(w.kind <= OP_KIND_COUNT && state_name((enum job_state)w.state));
    CHECK(redis_reply_decode(redis_reply_encode(u, &w), &again) == 0 && again.seq == w.seq);
}

static void idem(struct unit *u, struct span in)
{
    struct idem k = {.next = NULL}, again = {.next = NULL};
    char packed[IDEM_BYTES];
    (void)u;
    if (redis_idem_decode(in, &k) != 0)
        return;
    redis_idem_encode(&k, packed);
    CHECK(redis_idem_decode(span_of(packed, sizeof packed), &again) == 0);
    CHECK(again.seq == k.seq && again.expires_at.ms == k.expires_at.ms);
}

static void attempt(struct unit *u, struct span in)
{
    struct attempt_view v = {.seq = 0};
    (void)u;
    if (redis_attempt_decode(in, &v) == 0)
        CHECK(attempt_outcome_name((enum attempt_outcome)v.outcome) &&
              v.ended_at.ms <= LIMIT_WALL_MS);
}

static void bulk(struct unit *u, struct span in)
{
    struct bulk b = {.number = 0};
    struct span group, kind;
    uint32_t epoch;
    (void)u;
    if (redis_bulk_decode(in, &b, &group, &kind, &epoch) == 0)
        CHECK(b.action >= BULK_REQUEUE && b.action <= BULK_CANCEL_NOW);
}

static void schedule(struct unit *u, struct span in)
{
    struct wschedule s = {.put = false}, again = {.put = false};
    if (redis_schedule_decode(in, &s) != 0)
        return;
    CHECK(s.state.error < SCHEDULE_ERROR_COUNT);
    CHECK(redis_schedule_decode(redis_schedule_encode(u, &s), &again) == 0);
    CHECK(again.number == s.number && span_equal(again.name, s.name));
}

static void notice(struct unit *u, struct span in)
{
    struct wnotice n = {.held = false};
    (void)u;
    if (redis_notice_decode(1, in, &n) == 0)
        CHECK(n.notice.number == 1);
}

static void (*const decoders[])(struct unit *u, struct span in) = {
    job, queue, word, idem, attempt, bulk, schedule, notice,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shared store = {.config = {.capacity = 0}};
    struct unit u;
    if (size == 0)
        return 0;
    CHECK(unit_init(&u, &store) == 0);
    decoders[data[0] % (sizeof decoders / sizeof *decoders)](&u, span_of(data + 1, size - 1));
    unit_done(&u);
    return 0;
}
