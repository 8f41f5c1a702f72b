/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/failover/impl.h"

static uint64_t base_of(const struct failover *f)
{
    return ID_SPOOL_BIT | (uint64_t)f->config.node << ID_SPOOL_NODE_SHIFT;
}

bool fo_own(const struct failover *f, uint64_t seq)
{
    return (seq & ~ID_SPOOL_COUNT_MAX) == base_of(f) && (seq & ID_SPOOL_COUNT_MAX) > f->first;
}

uint64_t fo_seq_out(const struct failover *f, uint64_t seq)
{
    return seq ? base_of(f) | ((seq + f->first) & ID_SPOOL_COUNT_MAX) : 0;
}

uint64_t fo_seq_in(const struct failover *f, uint64_t seq)
{
    return (seq & ID_SPOOL_COUNT_MAX) - f->first;
}

static uint64_t seq_out(const void *failover, uint64_t seq)
{
    return fo_seq_out(failover, seq);
}

static uint32_t queue_out(const void *failover, uint32_t number)
{
    return fo_queue_out(failover, number);
}

int fo_reply_out(const struct failover *f, struct reply *r, struct arena *a)
{
    const struct fanout_numbers numbers = {.seq = seq_out, .queue = queue_out, .store = f};
    int err = fanout_renumber(r, &numbers, a);
    if (err || reply_family(r) != REPLY_QUEUES)
        return err;
    struct queue_view *queues = (struct queue_view *)r->queues; /* a copy in the arena */
    for (uint32_t i = 0; i < r->queue_count; i++)
        queues[i].note = fo_note_out(queues[i].note);
    return 0;
}
