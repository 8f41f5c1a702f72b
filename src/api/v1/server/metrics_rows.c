/* SPDX-License-Identifier: Apache-2.0 */
/* The families of GET /metrics: one table, each with the function that writes its samples. */
#include <stdio.h>

#include "api/v1/server/metrics_page.h"
#include "core/alerts/webhook.h"
#include "core/limits.h"

#define MS_PER_S 1000.0
#define US 1e-6

typedef void (*family_fn)(struct page *p, const struct metric *family);
/* The samples of one queue; its label is ready text. */
typedef void (*queue_fn)(struct page *p, const struct metric *family, const struct page_queue *q,
                         const char *label);

#define QUEUE_LABEL_BYTES METRIC_LABEL_BYTES(LIMIT_QUEUE_NAME_BYTES, sizeof "queue")

static void queue_label(const struct page_queue *q, char out[QUEUE_LABEL_BYTES])
{
    struct span name = q->name;
    if (name.len > LIMIT_QUEUE_NAME_BYTES)
        name.len = LIMIT_QUEUE_NAME_BYTES;
    metric_label(out, "queue", name);
}

/* ---- by queue ---- */

static void depth(struct page *p, const struct metric *family, const struct page_queue *q,
                  const char *label)
{
    char labels[QUEUE_LABEL_BYTES + 32];
    for (unsigned s = STATE_SCHEDULED; s < STATE_COUNT; s++) {
        snprintf(labels, sizeof labels, "%s,state=\"%s\"", label, state_name((enum job_state)s));
        metric_count(&p->m, family, labels, q->counts.by_state[s]);
    }
}

static void oldest_ready(struct page *p, const struct metric *family, const struct page_queue *q,
                         const char *label)
{
    int64_t ms = q->counts.oldest_ready_ms;
    metric_value(&p->m, family, label, ms < 0 ? 0 : (double)ms / MS_PER_S);
}

static void enqueued(struct page *p, const struct metric *family, const struct page_queue *q,
                     const char *label)
{
    metric_count(&p->m, family, label, q->counts.enqueued);
}

static void dequeued(struct page *p, const struct metric *family, const struct page_queue *q,
                     const char *label)
{
    metric_count(&p->m, family, label, q->counts.claimed);
}

static void failures(struct page *p, const struct metric *family, const struct page_queue *q,
                     const char *label)
{
    metric_count(&p->m, family, label, q->counts.failed + q->counts.crashed);
}

/* 128 us to 9.5 hours, each four times the one before. */
static const struct metric_scale spread_scale = {7, 35, 2, US};

static void latency(struct page *p, const struct metric *family, const struct page_queue *q,
                    const char *label)
{
    struct broker_queue_figures f;
    if (broker_queue_figures_of(p->n->broker, q->name, &f))
        metric_histogram(&p->m, family, label, &f.waited_us, &spread_scale);
}

static void processing(struct page *p, const struct metric *family, const struct page_queue *q,
                       const char *label)
{
    struct broker_queue_figures f;
    if (broker_queue_figures_of(p->n->broker, q->name, &f))
        metric_histogram(&p->m, family, label, &f.ran_us, &spread_scale);
}

/* ---- of the store ---- */

static void commit_seconds(struct page *p, const struct metric *family)
{
    static const struct metric_scale scale = {4, 24, 1, US}; /* 16 us to 17 s */
    metric_histogram(&p->m, family, NULL, &p->backend.commit_us, &scale);
}

static void commit_records(struct page *p, const struct metric *family)
{
    static const struct metric_scale scale = {0, 16, 1, 1};
    metric_histogram(&p->m, family, NULL, &p->backend.commit_records, &scale);
}

static void journal_lag(struct page *p, const struct metric *family)
{
    uint64_t applied = p->backend.applied, durable = p->backend.durable;
    metric_count(&p->m, family, NULL, durable > applied ? durable - applied : 0);
}

static void dispatch_up(struct page *p, const struct metric *family)
{
    if (!p->backend.dispatches)
        return;
    metric_count(&p->m, family, "side=\"high\"", p->backend.dispatch_up[0]);
    metric_count(&p->m, family, "side=\"low\"", p->backend.dispatch_up[1]);
}

static void journal_lag_seconds(struct page *p, const struct metric *family)
{
    metric_value(&p->m, family, NULL, (double)p->backend.journal_lag_ms / MS_PER_S);
}

static void journal_stuck(struct page *p, const struct metric *family)
{
    metric_value(&p->m, family, NULL, (double)p->backend.journal_stuck_ms / MS_PER_S);
}

static void sweep_seconds(struct page *p, const struct metric *family)
{
    metric_value(&p->m, family, NULL, (double)p->backend.sweep_ns_total / 1e9);
}

/* Stores may know a queue twice: what they know counts only where something must be missing. */
static void queues_left_out(struct page *p, const struct metric *family)
{
    uint64_t known = p->backend.queues;
    bool whole = p->queue_count < PAGE_QUEUES && !p->left_out;
    bool some = !whole && known > p->queue_count;
    metric_count(&p->m, family, NULL, some ? known - p->queue_count : 0);
}

static void stores_left_out(struct page *p, const struct metric *family)
{
    metric_count(&p->m, family, NULL, (uint64_t)__builtin_popcountll(p->left_out));
}

/* Where there is no Redis, nothing: an alert on 0 must not mean such servers. */
static void redis_up(struct page *p, const struct metric *family)
{
    bool up;
    if (broker_uses_redis(p->n->broker, &up))
        metric_count(&p->m, family, NULL, up);
}

static void backups(struct page *p, const struct metric *family)
{
    static const char *const labels[BACKUP_OUTCOME_COUNT] = {
        [BACKUP_DONE] = "outcome=\"done\"",
        [BACKUP_FAILED] = "outcome=\"failed\"",
        [BACKUP_CUT] = "outcome=\"cut_short\"",
    };
    for (unsigned i = 0; i < BACKUP_OUTCOME_COUNT; i++)
        metric_count(&p->m, family, labels[i], p->n->backups.by_outcome[i]);
}

static void backup_last(struct page *p, const struct metric *family)
{
    metric_count(&p->m, family, NULL, (uint64_t)p->n->backups.last.ms / 1000);
}

static void backup_seconds(struct page *p, const struct metric *family)
{
    metric_value(&p->m, family, NULL, (double)p->n->backups.last_ms / MS_PER_S);
}

static void backup_bytes(struct page *p, const struct metric *family)
{
    metric_count(&p->m, family, NULL, p->n->backups.last_bytes);
}

/* 0 closed, 1 open, 2 half open. */
static void breaker_state(struct page *p, const struct metric *family)
{
    char label[METRIC_LABEL_BYTES(WEBHOOK_TARGET_BYTES, sizeof "target")];
    for (uint32_t i = 0; i < p->breaker_count; i++) {
        metric_label(label, "target", p->breakers[i].target);
        metric_count(&p->m, family, label, p->breakers[i].breaker.state);
    }
}

/* ---- of each store, and of those who share it ---- */

/* Labels only where there are several. */
static void each_store(struct page *p, const struct metric *family,
                       uint64_t (*of)(const struct backend_cluster *c))
{
    char labels[128];
    struct backend_store s;
    bool several = broker_store(p->n->broker, 1, &s);
    for (unsigned i = 0; broker_store(p->n->broker, i, &s); i++) {
        snprintf(labels, sizeof labels, "backend=\"%u\",type=\"%.60s\"", s.number, s.kind);
        metric_count(&p->m, family, several ? labels : NULL, of(&s.cluster));
    }
}

static uint64_t up_of(const struct backend_cluster *c)
{
    return c->up;
}

static uint64_t nodes_of(const struct backend_cluster *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->node_count; i++)
        n += !c->nodes[i].silent;
    return n;
}

static uint64_t leads_of(const struct backend_cluster *c)
{
    bool leads = false;
    for (size_t i = 0; i < c->node_count; i++)
        leads |= c->nodes[i].self && c->nodes[i].leader;
    return leads && c->up && !c->spooling;
}

static uint64_t leader_epoch_of(const struct backend_cluster *c)
{
    return c->leader_epoch;
}

static uint64_t overtaken_of(const struct backend_cluster *c)
{
    return c->overtaken;
}

static void backend_up(struct page *p, const struct metric *family)
{
    each_store(p, family, up_of);
}

static void cluster_nodes(struct page *p, const struct metric *family)
{
    each_store(p, family, nodes_of);
}

static void leader(struct page *p, const struct metric *family)
{
    each_store(p, family, leads_of);
}

static void leader_epoch(struct page *p, const struct metric *family)
{
    each_store(p, family, leader_epoch_of);
}

static void leader_overtaken(struct page *p, const struct metric *family)
{
    each_store(p, family, overtaken_of);
}

/* Where there is no failover, nothing: an alert on 0 or 1 must not mean such servers. */
static void failover_active(struct page *p, const struct metric *family)
{
    if (p->backend.has_spool)
        metric_count(&p->m, family, NULL, !p->backend.primary_up);
}

static void failover_since(struct page *p, const struct metric *family)
{
    struct backend_cluster c;
    broker_cluster(p->n->broker, &c);
    if (p->backend.has_spool)
        metric_count(&p->m, family, NULL, (uint64_t)c.since.ms / 1000);
}

/* ---- of the program ---- */

static void http_requests(struct page *p, const struct metric *family)
{
    char label[16];
    for (unsigned i = 1; i < sizeof p->http.by_status / sizeof *p->http.by_status; i++) {
        snprintf(label, sizeof label, "status=\"%uxx\"", i);
        metric_count(&p->m, family, label, p->http.by_status[i]);
    }
}

static void build_info(struct page *p, const struct metric *family)
{
    char labels[256];
    snprintf(labels, sizeof labels, "version=\"%.60s\",commit=\"%.60s\",backend=\"%.60s\"",
             p->n->config.version, p->n->config.commit, broker_backend_kind(p->n->broker));
    metric_count(&p->m, family, labels, 1);
}

/* Streams with the same filter share one listener of the broker. */
static void listeners(struct page *p, const struct metric *family)
{
    metric_count(&p->m, family, NULL, p->n->streams.listening);
}

static void memory_held(struct page *p, const struct metric *family)
{
    char label[64];
    for (unsigned i = 0; i < BUDGET_KINDS; i++) {
        snprintf(label, sizeof label, "type=\"%s\"", budget_kind_name((enum budget_kind)i));
        metric_count(&p->m, family, label, p->memory.by_kind[i]);
    }
}

static void connections_shed(struct page *p, const struct metric *family)
{
    char label[64];
    for (unsigned i = 0; i < BUDGET_SHED_REASONS; i++) {
        snprintf(label, sizeof label, "reason=\"%s\"", budget_shed_name((enum budget_shed)i));
        metric_count(&p->m, family, label, p->memory.shed[i]);
    }
}

static void cpu_seconds(struct page *p, const struct metric *family)
{
    metric_value(&p->m, family, NULL, (double)p->process.cpu_us * US);
}

/* ---- the table ---- */

/* A family with a function, or with one that is called for each queue, or one number at an offset
 * in the page. */
struct row {
    struct metric family;
    family_fn fn;
    queue_fn each;
    size_t at;
    bool flag; /* the number is a bool */
};

#define GAUGE "gauge"
#define COUNTER "counter"
#define HISTOGRAM "histogram"
#define NUMBER(member) NULL, NULL, offsetof(struct page, member), false
#define FLAG(member) NULL, NULL, offsetof(struct page, member), true
#define WRITTEN(fn) fn, NULL, 0, false
#define BY_QUEUE(fn) NULL, fn, 0, false

static const struct row rows[] = {
    {{"holdfast_queue_depth", GAUGE, "Jobs by queue and state."}, BY_QUEUE(depth)},
    {{"holdfast_queue_oldest_ready_seconds", GAUGE,
      "Age of the job that has been ready longest; 0 when none is."},
     BY_QUEUE(oldest_ready)},
    {{"holdfast_enqueued_total", COUNTER, "Jobs enqueued since the start."}, BY_QUEUE(enqueued)},
    {{"holdfast_dequeued_total", COUNTER, "Jobs claimed since the start."}, BY_QUEUE(dequeued)},
    {{"holdfast_job_failures_total", COUNTER,
      "Attempts that failed or whose lease was lost, since the start."},
     BY_QUEUE(failures)},
    {{"holdfast_dequeue_latency_seconds", HISTOGRAM, "From ready to claimed."}, BY_QUEUE(latency)},
    {{"holdfast_job_processing_seconds", HISTOGRAM, "From claimed to acked or failed."},
     BY_QUEUE(processing)},
    {{"holdfast_queues", GAUGE, "Queues."}, NUMBER(backend.queues)},
    {{"holdfast_metrics_queues_left_out", GAUGE,
      "Queues that this page leaves out, as far as known; it shows the first 1,000 by name."},
     WRITTEN(queues_left_out)},
    {{"holdfast_metrics_stores_left_out", GAUGE,
      "Stores that did not answer for this page: figures by queue and breakers lack theirs."},
     WRITTEN(stores_left_out)},
    {{"holdfast_jobs_live", GAUGE, "Jobs scheduled, ready or running."}, NUMBER(backend.live)},
    {{"holdfast_jobs_resident", GAUGE, "Jobs in memory, finished ones included."},
     NUMBER(backend.jobs)},
    {{"holdfast_index_bytes", GAUGE, "Memory of the index of jobs."}, NUMBER(backend.bytes)},
    {{"holdfast_idempotency_keys", GAUGE, "Idempotency keys remembered."}, NUMBER(backend.keys)},
    {{"holdfast_cache_bytes", GAUGE, "Payloads kept in memory."}, NUMBER(backend.cache_bytes)},
    {{"holdfast_cache_hits_total", COUNTER, "Payloads found in memory."},
     NUMBER(backend.cache_hits)},
    {{"holdfast_cache_misses_total", COUNTER, "Payloads read from the store."},
     NUMBER(backend.cache_misses)},
    {{"holdfast_commits_total", COUNTER, "Commits to stable storage."}, NUMBER(backend.commits)},
    {{"holdfast_commit_seconds", HISTOGRAM, "Time a commit takes."}, WRITTEN(commit_seconds)},
    {{"holdfast_commit_records", HISTOGRAM, "Records a commit covers."}, WRITTEN(commit_records)},
    {{"holdfast_journal_lag_records", GAUGE, "Records that are durable but not in the store yet."},
     WRITTEN(journal_lag)},
    {{"holdfast_journal_lag_bytes", GAUGE, "The same in bytes of the journal."},
     NUMBER(backend.journal_lag_bytes)},
    {{"holdfast_journal_lag_seconds", GAUGE, "How long the oldest of them has waited."},
     WRITTEN(journal_lag_seconds)},
    {{"holdfast_journal_bytes", GAUGE, "Size of the journal's segments."},
     NUMBER(backend.journal_bytes)},
    {{"holdfast_journal_max_bytes", GAUGE,
      "Size the segments may reach; then commits wait for the store."},
     NUMBER(backend.journal_bytes_max)},
    {{"holdfast_journal_segments", GAUGE, "Segments of the journal."},
     NUMBER(backend.journal_segments)},
    {{"holdfast_journal_segments_free", GAUGE, "Segments that can be used at once."},
     NUMBER(backend.journal_segments_free)},
    {{"holdfast_journal_stuck_seconds", GAUGE,
      "How long commits have waited for a free segment; 0 when none does."},
     WRITTEN(journal_stuck)},
    {{"holdfast_journal_incomplete_bytes", GAUGE,
      "Bytes of the incomplete last entry that the start found in the journal; 0 when there was "
      "none."},
     NUMBER(backend.journal_torn_bytes)},
    {{"holdfast_journal_incomplete_saved", GAUGE,
      "Saved copies of such entries (journal/torn-N) in the data directory."},
     NUMBER(backend.journal_torn_files)},
    {{"holdfast_sweeps_total", COUNTER, "Sweeps of the journal into the store."},
     NUMBER(backend.sweeps)},
    {{"holdfast_sweep_seconds_total", COUNTER, "Time they took."}, WRITTEN(sweep_seconds)},
    {{"holdfast_leases_restored_total", COUNTER, "Leases taken over from before the start."},
     NUMBER(backend.restored_leases)},
    {{"holdfast_claims_forgotten_total", COUNTER,
      "Tokens presented whose claim was lost with the process that gave them."},
     NUMBER(backend.forgotten_claims)},
    {{"holdfast_jobs_damaged_total", COUNTER,
      "Jobs set aside (dead, reason damaged) since the start because the store gave another body "
      "than it was given."},
     NUMBER(backend.jobs_damaged)},
    {{"holdfast_store_read_errors_total", COUNTER, "Reads of the store that failed."},
     NUMBER(backend.read_errors)},
    {{"holdfast_disk_full", GAUGE, "1 while enqueues are refused for lack of disk space."},
     FLAG(backend.disk_full)},
    {{"holdfast_store_bytes", GAUGE, "Files of the store."}, NUMBER(backend.store_bytes)},
    {{"holdfast_backups_total", COUNTER,
      "Backups since the start; cut_short: the client went away, or the server stopped."},
     WRITTEN(backups)},
    {{"holdfast_backup_last_success_timestamp_seconds", GAUGE,
      "When the last whole backup had been sent; 0: none since the start."},
     WRITTEN(backup_last)},
    {{"holdfast_backup_last_seconds", GAUGE, "How long that took, sending it included."},
     WRITTEN(backup_seconds)},
    {{"holdfast_backup_last_bytes", GAUGE, "Its size."}, WRITTEN(backup_bytes)},
    {{"holdfast_clock_suspect", GAUGE,
      "1 after the wall clock leapt, until POST /v1/clock/accept."},
     FLAG(backend.clock_suspect)},
    {{"holdfast_notices_pending", GAUGE, "Notices that wait for their delivery."},
     NUMBER(backend.notices_pending)},
    {{"holdfast_notices_dead", GAUGE, "Notices given up, kept until delivered anew or discarded."},
     NUMBER(backend.notices_dead)},
    {{"holdfast_notices_dropped_total", COUNTER, "Notices that a full outbox pushed out."},
     NUMBER(backend.notices_dropped)},
    {{"holdfast_notices_delivered_total", COUNTER, "Notices delivered since the start."},
     NUMBER(broker.notices_delivered)},
    {{"holdfast_notices_failed_total", COUNTER, "Deliveries that failed, each attempt counted."},
     NUMBER(broker.notices_failed)},
    {{"holdfast_notices_refused_total", COUNTER,
      "Those of them that were refused for the address of their webhook."},
     NUMBER(broker.notices_refused)},
    {{"holdfast_breaker_state", GAUGE,
      "Circuit breaker of a target: 0 closed, 1 open, 2 half open."},
     WRITTEN(breaker_state)},
    {{"holdfast_backend_up", GAUGE,
      "1 while the store answers; behind failover always, as the node works without it."},
     WRITTEN(backend_up)},
    {{"holdfast_cluster_nodes", GAUGE, "Servers that share the store and give signs of life."},
     WRITTEN(cluster_nodes)},
    {{"holdfast_leader", GAUGE, "1 on the server that leads."}, WRITTEN(leader)},
    {{"holdfast_leader_epoch", GAUGE, "Rises each time that another server leads."},
     WRITTEN(leader_epoch)},
    {{"holdfast_leader_overtaken_total", COUNTER,
      "Times that this server led and found that another does."},
     WRITTEN(leader_overtaken)},
    {{"holdfast_failover_active", GAUGE,
      "1 while the shared store behind failover is away and the spool stands in for it."},
     WRITTEN(failover_active)},
    {{"holdfast_failover_changed_timestamp_seconds", GAUGE, "When that last began or ended."},
     WRITTEN(failover_since)},
    {{"holdfast_redis_up", GAUGE,
      "1 while Redis, or the shared store behind failover, answers; left out where neither is "
      "used."},
     WRITTEN(redis_up)},
    {{"holdfast_spool_jobs", GAUGE, "Jobs that this node keeps until the shared store takes them."},
     NUMBER(backend.spool_jobs)},
    {{"holdfast_dispatch_up", GAUGE,
      "1 while the Redis server that jobs are dispatched to answers."},
     WRITTEN(dispatch_up)},
    {{"holdfast_dispatch_pushed_total", COUNTER, "Ids of ready jobs that Redis has confirmed."},
     NUMBER(backend.dispatch_pushed)},
    {{"holdfast_dispatch_push_failures_total", COUNTER, "Pushes that failed, each try counted."},
     NUMBER(backend.dispatch_failed)},
    {{"holdfast_claims_waiting", GAUGE, "Claims parked for a job."}, NUMBER(broker.waiting)},
    {{"holdfast_streams", GAUGE, "Connections that are fed jobs."}, NUMBER(broker.streams)},
    {{"holdfast_listeners", GAUGE, "Connections that listen to events."}, WRITTEN(listeners)},
    {{"holdfast_batches_total", COUNTER, "Batches given to the backend."}, NUMBER(broker.batches)},
    {{"holdfast_operations_total", COUNTER, "Operations given to the backend."},
     NUMBER(broker.ops)},
    {{"holdfast_draining", GAUGE, "1 while the server is shutting down."}, FLAG(broker.draining)},
    {{"holdfast_http_connections", GAUGE, "Open connections."}, NUMBER(http.connections)},
    {{"holdfast_http_connections_accepted_total", COUNTER, "Connections accepted."},
     NUMBER(http.accepted)},
    {{"holdfast_http_connections_refused_total", COUNTER, "Connections refused over a limit."},
     NUMBER(http.refused)},
    {{"holdfast_http_requests_under_way", GAUGE, "Requests not answered yet."},
     NUMBER(http.parked)},
    {{"holdfast_http_requests_total", COUNTER, "Answers by class of status."},
     WRITTEN(http_requests)},
    {{"holdfast_http_received_bytes_total", COUNTER, "Bytes read."}, NUMBER(http.bytes_in)},
    {{"holdfast_http_sent_bytes_total", COUNTER, "Bytes written."}, NUMBER(http.bytes_out)},
    {{"holdfast_memory_budget_bytes", GAUGE, "Memory that all connections together may hold."},
     NUMBER(memory.total)},
    {{"holdfast_memory_held_bytes", GAUGE, "Memory that connections hold, by what it is for."},
     WRITTEN(memory_held)},
    {{"holdfast_memory_held_peak_bytes", GAUGE, "The most that they have held since the start."},
     NUMBER(memory.peak)},
    {{"holdfast_memory_refused_total", COUNTER,
      "Requests, replies and pieces of streams that the memory budget had no room for."},
     NUMBER(memory.refused)},
    {{"holdfast_connections_shed_total", COUNTER,
      "Requests and connections that were ended to free memory, by what they held."},
     WRITTEN(connections_shed)},
    {{"holdfast_build_info", GAUGE, "Version, commit and backend."}, WRITTEN(build_info)},
    {{"process_resident_memory_bytes", GAUGE, "Resident memory."}, NUMBER(process.resident_bytes)},
    {{"process_open_fds", GAUGE, "Open descriptors."}, NUMBER(process.open_files)},
    {{"process_cpu_seconds_total", COUNTER, "User and system time."}, WRITTEN(cpu_seconds)},
};

#define ROWS (sizeof rows / sizeof *rows)

static void write_row(struct page *p, const struct row *row)
{
    const char *at = (const char *)p + row->at;
    if (row->fn)
        row->fn(p, &row->family);
    else
        metric_count(&p->m, &row->family, NULL,
                     row->flag ? *(const bool *)at : *(const uint64_t *)at);
}

/* A queue costs a look even where it has nothing to say. */
#define QUEUE_COST 64

/* True: all queues are through. */
static bool write_queues(struct page *p, const struct row *row, size_t *spent, size_t bytes)
{
    char label[QUEUE_LABEL_BYTES];
    for (; p->queue < p->queue_count && *spent < bytes; p->queue++) {
        const struct page_queue *q = &p->queues[p->queue];
        size_t before = p->m.out->len;
        queue_label(q, label);
        row->each(p, &row->family, q, label);
        *spent += p->m.out->len - before + QUEUE_COST;
    }
    return p->queue == p->queue_count;
}

bool page_write(struct page *p, size_t bytes)
{
    size_t spent = 0;
    for (; p->row < ROWS && p->m.error == 0 && spent < bytes; p->row++) {
        const struct row *row = &rows[p->row];
        size_t before = p->m.out->len;
        if (p->queue == 0)
            metric_family(&p->m, &row->family);
        spent += p->m.out->len - before;
        if (!row->each)
            write_row(p, row);
        else if (!write_queues(p, row, &spent, bytes))
            return p->m.error != 0;
        p->queue = 0;
    }
    if (p->row == ROWS && p->m.error == 0 && p->n->config.api_metrics)
        p->n->config.api_metrics(p->n->config.http_ctx, &p->m);
    return p->row == ROWS || p->m.error != 0;
}
