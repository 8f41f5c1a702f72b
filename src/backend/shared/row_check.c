/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/shared/row_check.h"

#include "core/jobs/job_texts.h"
#include "core/limits.h"
#include "core/queues/policy.h"
#include "core/validate.h"

static bool time_right(int64_t ms)
{
    return ms >= 0 && ms <= LIMIT_WALL_MS;
}

int64_t sound_time(int64_t ms)
{
    return ms < 0 ? 0 : ms > LIMIT_WALL_MS ? LIMIT_WALL_MS : ms;
}

int64_t sound_sum(int64_t n)
{
    const int64_t most = (int64_t)LIMIT_SEQ;
    return n < -most ? -most : n > most ? most : n;
}

uint64_t sound_count(int64_t n)
{
    return n < 0 ? 0 : (uint64_t)sound_sum(n);
}

uint64_t sound_seq(uint64_t seq)
{
    return seq <= LIMIT_SEQ ? seq : 0;
}

uint8_t sound_kind(int64_t value, unsigned count)
{
    return value >= 0 && value < (int64_t)count ? (uint8_t)value : 0;
}

static bool texts_right(const struct job_extra *x)
{
    struct job_options space;
    uint32_t keys;
    return job_extra_fits(x) && (x->options.len == 0 || options_decode(x->options, &space) == 0) &&
           (x->undelivered.len == 0 || validate_undelivered(x->undelivered, &keys) == 0);
}

static bool lease_right(const struct row *r)
{
    return r->lease_ms <= LIMIT_LEASE_MS && time_right(r->until_ms) &&
           r->limits.timeout_ms <= LIMIT_TIMEOUT_MS &&
           r->limits.cancel_grace_ms <= LIMIT_LEASE_MS && time_right(r->limits.cancel_at.ms) &&
           time_right(r->started_at.ms) && r->worker.len <= LIMIT_WORKER_BYTES &&
           r->reply_kind <= OP_KIND_COUNT && r->reply_state < STATE_COUNT &&
           time_right(r->reply_run_at.ms);
}

bool sound_row(const struct row *r)
{
    const struct job *j = &r->job;
    return j->seq > 0 && j->seq <= LIMIT_SEQ && j->state > STATE_NONE && j->state < STATE_COUNT &&
           j->reason < REASON_COUNT && j->payload_kind <= PAYLOAD_BYTES &&
           j->payload_bytes <= LIMIT_PAYLOAD_BYTES && time_right(j->run_at.ms) &&
           time_right(j->since.ms) && time_right(r->extra.expires_at.ms) &&
           r->result_kind <= PAYLOAD_BYTES && r->error_kind <= ERROR_BUSINESS &&
           r->holder.seq <= LIMIT_SEQ && lease_right(r) && texts_right(&r->extra) &&
           steps_index_fits(r->step_index);
}

bool sound_queue(const struct wqueue *q)
{
    struct err_note note;
    return q->number > 0 && validate_queue_name(q->name, &note) == 0 &&
           policy_check(&q->policy, &note) == 0 && q->owner.len <= LIMIT_LABEL_BYTES &&
           q->note.len <= LIMIT_NOTE_BYTES && q->attributes.len <= LIMIT_NOTE_BYTES &&
           time_right(q->created_at.ms) && time_right(q->updated_at.ms) &&
           time_right(q->paused_until.ms);
}

bool sound_drawn(const struct unit *u)
{
    bool right = u->now.ms > 0 && u->now.ms <= LIMIT_WALL_MS;
    for (size_t i = 0; right && i < u->seq_count; i++)
        right = u->seqs && u->seqs[i] > 0 && u->seqs[i] <= LIMIT_SEQ;
    for (size_t i = 0; right && i < u->number_count; i++)
        right = u->numbers && u->numbers[i] > 0 && u->numbers[i] <= INT32_MAX;
    for (size_t i = 0; right && i < u->version_count; i++)
        right = u->versions && u->versions[i] > 0 && u->versions[i] <= LIMIT_SEQ;
    return right;
}
