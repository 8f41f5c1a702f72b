/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up the figures of several backends; for wrappers. */
#include "backend/backend_impl.h"

#define FIELD(name) offsetof(struct backend_figures, name)

/* Every uint64_t that is summed. */
static const size_t sums[] = {
    FIELD(position),
    FIELD(durable),
    FIELD(commits),
    FIELD(commit_ns_total),
    FIELD(jobs),
    FIELD(bytes),
    FIELD(cache_bytes),
    FIELD(cache_hits),
    FIELD(cache_misses),
    FIELD(keys),
    FIELD(queues),
    FIELD(kv_keys),
    FIELD(kv_bytes),
    FIELD(live),
    FIELD(notices_pending),
    FIELD(notices_dead),
    FIELD(notices_dropped),
    FIELD(stalls_ms),
    FIELD(restored_leases),
    FIELD(forgotten_claims),
    FIELD(jobs_damaged),
    FIELD(read_errors),
    FIELD(applied),
    FIELD(journal_lag_bytes),
    FIELD(journal_bytes),
    FIELD(journal_bytes_max),
    FIELD(journal_segments),
    FIELD(journal_segments_free),
    FIELD(journal_torn_bytes),
    FIELD(journal_torn_files),
    FIELD(sweeps),
    FIELD(sweep_ns_total),
    FIELD(store_bytes),
    FIELD(backup_pages),
    FIELD(backup_total),
    FIELD(compact_left),
    FIELD(spool_jobs),
    FIELD(inbox_waiting),
    FIELD(inbox_kept),
    FIELD(inbox_taken),
    FIELD(inbox_refused),
};

static uint64_t *field(struct backend_figures *f, size_t offset)
{
    return (uint64_t *)((char *)f + offset);
}

static void histogram_join(struct histogram *to, const struct histogram *from)
{
    to->count += from->count;
    to->sum += from->sum;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        to->bucket[i] += from->bucket[i];
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void figures_add(struct backend_figures *to, const struct backend_figures *from)
{
    struct backend_figures other = *from;
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        *field(to, sums[i]) += *field(&other, sums[i]);
    for (size_t i = 0; i < STATE_COUNT; i++)
        to->by_state[i] += from->by_state[i];
    histogram_join(&to->commit_us, &from->commit_us);
    histogram_join(&to->commit_records, &from->commit_records);
    /* If one of them has no limit, the sum has none. */
    to->capacity = to->capacity && from->capacity ? to->capacity + from->capacity : 0;
    to->clock_suspect = to->clock_suspect || from->clock_suspect;
    to->disk_full = to->disk_full || from->disk_full;
    to->has_journal = to->has_journal || from->has_journal;
    to->compacting = to->compacting || from->compacting;
    to->primary_up = (!to->has_spool || to->primary_up) && (!from->has_spool || from->primary_up);
    to->has_spool = to->has_spool || from->has_spool;
    to->journal_lag_ms = larger(to->journal_lag_ms, from->journal_lag_ms);
    to->journal_stuck_ms = larger(to->journal_stuck_ms, from->journal_stuck_ms);
}
