/* SPDX-License-Identifier: Apache-2.0 */
/* The families of GET /metrics: one table, each with the function that writes its samples. */
#include <stdio.h>

#include "api/v1/server/metrics_page.h"
#include "core/alerts/webhook.h"
#include "core/limits.h"
#include "net/tls/tls.h"

#define MS_PER_S 1000.0
#define US 1e-6

typedef void (*family_fn)(struct page *p, const struct metric *family);
/* Writes the samples of one queue; `label` is its label. */
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

static void waiting(struct page *p, const struct metric *family, const struct page_queue *q,
                    const char *label)
{
    char labels[QUEUE_LABEL_BYTES + 32];
    for (uint32_t i = 0; i < q->waiting_count; i++) {
        snprintf(labels, sizeof labels, "%s,reason=\"%s\"", label,
                 why_code_name(q->waiting[i].code));
        metric_count(&p->m, family, labels, q->waiting[i].count);
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

/* 128 us to 9.5 hours, each four times the previous one. */
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

/* Several stores may have the same queue, so the sum is used only if queues are missing from the
 * page. */
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

/* Omitted without Redis, so that an alert on 0 does not apply to such servers. */
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

/* Labels are written only if there are several stores. */
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

/* Omitted without failover, so that an alert on 0 or 1 does not apply to such servers. */
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

/* All three are omitted without TLS. */
static void tls_expiry(struct page *p, const struct metric *family)
{
    struct net_tls_figures f;
    struct clock clock = clock_system(); /* clients do not know the test clock */
    if (!p->n->config.tls)
        return;
    net_tls_figures(p->n->config.tls, &f);
    metric_value(&p->m, family, NULL,
                 (double)(f.not_after_s * 1000 - clock_now(&clock).wall.ms) / MS_PER_S);
}

static void tls_handshakes(struct page *p, const struct metric *family)
{
    char label[64];
    struct net_tls_figures f;
    if (!p->n->config.tls)
        return;
    net_tls_figures(p->n->config.tls, &f);
    for (unsigned i = 0; i < NET_TLS_RESULTS; i++) {
        snprintf(label, sizeof label, "result=\"%s\"", net_tls_result_name((enum net_tls_result)i));
        metric_count(&p->m, family, label, f.handshakes[i]);
    }
}

static void tls_reloads(struct page *p, const struct metric *family)
{
    struct net_tls_figures f;
    if (!p->n->config.tls)
        return;
    net_tls_figures(p->n->config.tls, &f);
    metric_count(&p->m, family, "outcome=\"done\"", f.reloads);
    metric_count(&p->m, family, "outcome=\"failed\"", f.reloads_failed);
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
#define NO_LABELS NULL
#define BACKEND_LABELS "backend, type (if there are several stores)"

static const struct row rows[] = {
    {{"holdfast_queue_depth", GAUGE, "queue, state", "Jobs by queue and state."}, BY_QUEUE(depth)},
    {{"holdfast_queue_waiting", GAUGE, "queue, reason",
      "Waiting jobs by the first reason why they do not run: depends_on, not_due (with retries), "
      "queue_paused, behind (a claim can get them); of queues with such limits also queue_limit, "
      "group_limit and claim_rate."},
     BY_QUEUE(waiting)},
    {{"holdfast_queue_oldest_ready_seconds", GAUGE, "queue",
      "Time since the oldest ready job became ready; 0 if no job is ready."},
     BY_QUEUE(oldest_ready)},
    {{"holdfast_enqueued_total", COUNTER, "queue", "Jobs enqueued since the server started."},
     BY_QUEUE(enqueued)},
    {{"holdfast_dequeued_total", COUNTER, "queue", "Jobs claimed since the server started."},
     BY_QUEUE(dequeued)},
    {{"holdfast_job_failures_total", COUNTER, "queue",
      "Attempts that failed or whose lease was lost since the server started."},
     BY_QUEUE(failures)},
    {{"holdfast_dequeue_latency_seconds", HISTOGRAM, "queue", "Time from ready to claimed."},
     BY_QUEUE(latency)},
    {{"holdfast_job_processing_seconds", HISTOGRAM, "queue",
      "Time from claimed to acknowledged or failed."},
     BY_QUEUE(processing)},
    {{"holdfast_queues", GAUGE, NO_LABELS, "Number of queues."}, NUMBER(backend.queues)},
    {{"holdfast_metrics_queues_left_out", GAUGE, NO_LABELS,
      "Known queues that this page omits; it shows the first 1,000 by name."},
     WRITTEN(queues_left_out)},
    {{"holdfast_metrics_stores_left_out", GAUGE, NO_LABELS,
      "Stores that did not answer; this page lacks their queues and breakers."},
     WRITTEN(stores_left_out)},
    {{"holdfast_jobs_live", GAUGE, NO_LABELS, "Jobs that are scheduled, ready or running."},
     NUMBER(backend.live)},
    {{"holdfast_jobs_resident", GAUGE, NO_LABELS, "Jobs in memory, including finished ones."},
     NUMBER(backend.jobs)},
    {{"holdfast_index_bytes", GAUGE, NO_LABELS, "Memory used by the index of jobs."},
     NUMBER(backend.bytes)},
    {{"holdfast_idempotency_keys", GAUGE, NO_LABELS, "Idempotency keys that the server remembers."},
     NUMBER(backend.keys)},
    {{"holdfast_cache_bytes", GAUGE, NO_LABELS, "Payload bytes in the payload cache."},
     NUMBER(backend.cache_bytes)},
    {{"holdfast_cache_hits_total", COUNTER, NO_LABELS, "Payloads found in the payload cache."},
     NUMBER(backend.cache_hits)},
    {{"holdfast_cache_misses_total", COUNTER, NO_LABELS, "Payloads read from the store."},
     NUMBER(backend.cache_misses)},
    {{"holdfast_commits_total", COUNTER, NO_LABELS, "Commits to stable storage."},
     NUMBER(backend.commits)},
    {{"holdfast_commit_seconds", HISTOGRAM, NO_LABELS, "Duration of a commit."},
     WRITTEN(commit_seconds)},
    {{"holdfast_commit_records", HISTOGRAM, NO_LABELS, "Records in a commit."},
     WRITTEN(commit_records)},
    {{"holdfast_journal_lag_records", GAUGE, NO_LABELS,
      "Records that are durable in the journal but not yet in the store."},
     WRITTEN(journal_lag)},
    {{"holdfast_journal_lag_bytes", GAUGE, NO_LABELS,
      "Journal bytes of the records that are not yet in the store."},
     NUMBER(backend.journal_lag_bytes)},
    {{"holdfast_journal_lag_seconds", GAUGE, NO_LABELS,
      "Age of the oldest record that is not yet in the store."},
     WRITTEN(journal_lag_seconds)},
    {{"holdfast_journal_bytes", GAUGE, NO_LABELS, "Size of the journal segments."},
     NUMBER(backend.journal_bytes)},
    {{"holdfast_journal_max_bytes", GAUGE, NO_LABELS,
      "Maximum size of the journal segments; at this size, commits wait for the store."},
     NUMBER(backend.journal_bytes_max)},
    {{"holdfast_journal_segments", GAUGE, NO_LABELS, "Number of journal segments."},
     NUMBER(backend.journal_segments)},
    {{"holdfast_journal_segments_free", GAUGE, NO_LABELS, "Journal segments that are free."},
     NUMBER(backend.journal_segments_free)},
    {{"holdfast_journal_stuck_seconds", GAUGE, NO_LABELS,
      "How long commits have been waiting for a free segment; 0 if none is waiting."},
     WRITTEN(journal_stuck)},
    {{"holdfast_journal_incomplete_bytes", GAUGE, NO_LABELS,
      "Bytes of the incomplete last journal entry that was found at startup; 0 if it was "
      "complete."},
     NUMBER(backend.journal_torn_bytes)},
    {{"holdfast_journal_incomplete_saved", GAUGE, NO_LABELS,
      "Saved copies of incomplete journal entries (journal/torn-N) in the data directory."},
     NUMBER(backend.journal_torn_files)},
    {{"holdfast_sweeps_total", COUNTER, NO_LABELS, "Sweeps of the journal into the store."},
     NUMBER(backend.sweeps)},
    {{"holdfast_sweep_seconds_total", COUNTER, NO_LABELS,
      "Time spent in sweeps of the journal into the store."},
     WRITTEN(sweep_seconds)},
    {{"holdfast_leases_restored_total", COUNTER, NO_LABELS,
      "Leases from before the start that the server restored."},
     NUMBER(backend.restored_leases)},
    {{"holdfast_claims_forgotten_total", COUNTER, NO_LABELS,
      "Received lease tokens of claims that were lost when an earlier process ended."},
     NUMBER(backend.forgotten_claims)},
    {{"holdfast_jobs_damaged_total", COUNTER, NO_LABELS,
      "Jobs that became dead with the reason damaged since the server started, because the store "
      "returned a different body than was written."},
     NUMBER(backend.jobs_damaged)},
    {{"holdfast_store_read_errors_total", COUNTER, NO_LABELS, "Failed reads of the store."},
     NUMBER(backend.read_errors)},
    {{"holdfast_disk_full", GAUGE, NO_LABELS,
      "1 while enqueues are refused because the disk is full."},
     FLAG(backend.disk_full)},
    {{"holdfast_store_bytes", GAUGE, NO_LABELS, "Size of the files of the store."},
     NUMBER(backend.store_bytes)},
    {{"holdfast_backups_total", COUNTER, "outcome",
      "Backups since the server started; cut_short: the client disconnected or the server "
      "stopped."},
     WRITTEN(backups)},
    {{"holdfast_backup_last_success_timestamp_seconds", GAUGE, NO_LABELS,
      "Time at which the last complete backup was sent; 0: none since the server started."},
     WRITTEN(backup_last)},
    {{"holdfast_backup_last_seconds", GAUGE, NO_LABELS,
      "Duration of the last complete backup, including sending it."},
     WRITTEN(backup_seconds)},
    {{"holdfast_backup_last_bytes", GAUGE, NO_LABELS, "Size of the last complete backup."},
     WRITTEN(backup_bytes)},
    {{"holdfast_clock_suspect", GAUGE, NO_LABELS,
      "1 after the wall clock jumped, until POST /v1/clock/accept."},
     FLAG(backend.clock_suspect)},
    {{"holdfast_notices_pending", GAUGE, NO_LABELS, "Notices waiting to be delivered."},
     NUMBER(backend.notices_pending)},
    {{"holdfast_notices_dead", GAUGE, NO_LABELS,
      "Notices whose delivery was given up; kept until they are redelivered or discarded."},
     NUMBER(backend.notices_dead)},
    {{"holdfast_notices_dropped_total", COUNTER, NO_LABELS,
      "Notices dropped because the outbox was full."},
     NUMBER(backend.notices_dropped)},
    {{"holdfast_inbox_waiting", GAUGE, NO_LABELS,
      "PostgreSQL: committed rows of the inbox (holdfast.enqueue) that no node has taken yet, as "
      "of the last heartbeat; counted up to 10,000."},
     NUMBER(backend.inbox_waiting)},
    {{"holdfast_inbox_refusals", GAUGE, NO_LABELS,
      "PostgreSQL: refused rows of the inbox that the view inbox_refused shows."},
     NUMBER(backend.inbox_kept)},
    {{"holdfast_inbox_taken_total", COUNTER, NO_LABELS,
      "PostgreSQL: jobs that this node took from the inbox since it started."},
     NUMBER(backend.inbox_taken)},
    {{"holdfast_inbox_refused_total", COUNTER, NO_LABELS,
      "PostgreSQL: rows of the inbox that this node refused since it started."},
     NUMBER(backend.inbox_refused)},
    {{"holdfast_notices_delivered_total", COUNTER, NO_LABELS,
      "Notices delivered since the server started."},
     NUMBER(broker.notices_delivered)},
    {{"holdfast_notices_failed_total", COUNTER, NO_LABELS, "Failed delivery attempts."},
     NUMBER(broker.notices_failed)},
    {{"holdfast_notices_refused_total", COUNTER, NO_LABELS,
      "Failed delivery attempts that were refused because of the address of the webhook."},
     NUMBER(broker.notices_refused)},
    {{"holdfast_breaker_state", GAUGE, "target",
      "Circuit breaker of a target: 0 closed, 1 open, 2 half open."},
     WRITTEN(breaker_state)},
    {{"holdfast_backend_up", GAUGE, BACKEND_LABELS,
      "1 while the store answers; with failover always 1, because the node works without it."},
     WRITTEN(backend_up)},
    {{"holdfast_cluster_nodes", GAUGE, BACKEND_LABELS,
      "Servers that share the store and send heartbeats."},
     WRITTEN(cluster_nodes)},
    {{"holdfast_leader", GAUGE, BACKEND_LABELS, "1 on the server that is the leader."},
     WRITTEN(leader)},
    {{"holdfast_leader_epoch", GAUGE, BACKEND_LABELS,
      "Increases whenever another server becomes the leader."},
     WRITTEN(leader_epoch)},
    {{"holdfast_leader_overtaken_total", COUNTER, BACKEND_LABELS,
      "Number of times this server found that another server had taken over as the leader."},
     WRITTEN(leader_overtaken)},
    {{"holdfast_failover_active", GAUGE, NO_LABELS,
      "1 while the shared store behind failover is unavailable and jobs go to the spool."},
     WRITTEN(failover_active)},
    {{"holdfast_failover_changed_timestamp_seconds", GAUGE, NO_LABELS,
      "Time at which failover last became active or inactive."},
     WRITTEN(failover_since)},
    {{"holdfast_redis_up", GAUGE, NO_LABELS,
      "1 while Redis, or the shared store behind failover, answers; absent if neither is used."},
     WRITTEN(redis_up)},
    {{"holdfast_spool_jobs", GAUGE, NO_LABELS,
      "Jobs in the spool of this node that have not yet been moved to the shared store."},
     NUMBER(backend.spool_jobs)},
    {{"holdfast_dispatch_up", GAUGE, "side",
      "1 while the Redis server that jobs are dispatched to answers."},
     WRITTEN(dispatch_up)},
    {{"holdfast_dispatch_pushed_total", COUNTER, NO_LABELS,
      "Ids of ready jobs that Redis has confirmed."},
     NUMBER(backend.dispatch_pushed)},
    {{"holdfast_dispatch_push_failures_total", COUNTER, NO_LABELS,
      "Failed pushes to Redis; every retry is counted."},
     NUMBER(backend.dispatch_failed)},
    {{"holdfast_claims_waiting", GAUGE, NO_LABELS, "Claims that are waiting for a job."},
     NUMBER(broker.waiting)},
    {{"holdfast_streams", GAUGE, NO_LABELS, "Connections that receive jobs as a stream."},
     NUMBER(broker.streams)},
    {{"holdfast_listeners", GAUGE, NO_LABELS, "Connections that receive events."},
     WRITTEN(listeners)},
    {{"holdfast_heartbeats_waiting", GAUGE, NO_LABELS,
      "Heartbeats of workers that wait for a cancel or a lost lease."},
     NUMBER(broker.heartbeats)},
    {{"holdfast_workers_known", GAUGE, NO_LABELS, "Workers that this server remembers."},
     NUMBER(broker.workers)},
    {{"holdfast_batches_total", COUNTER, NO_LABELS, "Batches submitted to the backend."},
     NUMBER(broker.batches)},
    {{"holdfast_operations_total", COUNTER, NO_LABELS, "Operations submitted to the backend."},
     NUMBER(broker.ops)},
    {{"holdfast_draining", GAUGE, NO_LABELS, "1 while the server is shutting down."},
     FLAG(broker.draining)},
    {{"holdfast_http_connections", GAUGE, NO_LABELS, "Open HTTP connections."},
     NUMBER(http.connections)},
    {{"holdfast_http_connections_accepted_total", COUNTER, NO_LABELS, "HTTP connections accepted."},
     NUMBER(http.accepted)},
    {{"holdfast_http_connections_refused_total", COUNTER, NO_LABELS,
      "HTTP connections refused because of a limit."},
     NUMBER(http.refused)},
    {{"holdfast_tls_certificate_expiry_seconds", GAUGE, NO_LABELS,
      "Time until the TLS certificate in use expires; negative afterwards, absent without TLS."},
     WRITTEN(tls_expiry)},
    {{"holdfast_tls_handshakes_total", COUNTER, "result",
      "TLS handshakes by how they ended: full and resumed succeeded; unfinished: the client left, "
      "the time limit, or memory."},
     WRITTEN(tls_handshakes)},
    {{"holdfast_tls_reloads_total", COUNTER, "outcome",
      "Reloads of the TLS certificate; after a failed one the old certificate stays in use."},
     WRITTEN(tls_reloads)},
    {{"holdfast_http_requests_under_way", GAUGE, NO_LABELS,
      "HTTP requests that have not been answered yet."},
     NUMBER(http.parked)},
    {{"holdfast_http_requests_total", COUNTER, "status", "HTTP responses by status class."},
     WRITTEN(http_requests)},
    {{"holdfast_http_received_bytes_total", COUNTER, NO_LABELS,
      "Bytes read from HTTP connections."},
     NUMBER(http.bytes_in)},
    {{"holdfast_http_sent_bytes_total", COUNTER, NO_LABELS, "Bytes written to HTTP connections."},
     NUMBER(http.bytes_out)},
    {{"holdfast_memory_budget_bytes", GAUGE, NO_LABELS,
      "Memory that all connections together may use."},
     NUMBER(memory.total)},
    {{"holdfast_memory_held_bytes", GAUGE, "type", "Memory that connections use, by purpose."},
     WRITTEN(memory_held)},
    {{"holdfast_memory_held_peak_bytes", GAUGE, NO_LABELS,
      "Largest amount of memory that connections have used since the server started."},
     NUMBER(memory.peak)},
    {{"holdfast_memory_refused_total", COUNTER, NO_LABELS,
      "Requests, replies and parts of streams that did not fit into the memory budget."},
     NUMBER(memory.refused)},
    {{"holdfast_connections_shed_total", COUNTER, "reason",
      "Requests and connections ended to free memory, by what they held."},
     WRITTEN(connections_shed)},
    {{"holdfast_build_info", GAUGE, "version, commit, backend",
      "Version, commit and kind of backend; always 1."},
     WRITTEN(build_info)},
    {{"process_resident_memory_bytes", GAUGE, NO_LABELS, "Resident memory."},
     NUMBER(process.resident_bytes)},
    {{"process_open_fds", GAUGE, NO_LABELS, "Open file descriptors."}, NUMBER(process.open_files)},
    {{"process_cpu_seconds_total", COUNTER, NO_LABELS, "User and system CPU time."},
     WRITTEN(cpu_seconds)},
};

#define ROWS (sizeof rows / sizeof *rows)

void metrics_page_reference(FILE *out)
{
    for (size_t i = 0; i < ROWS; i++)
        metric_reference(out, &rows[i].family, 1);
}

static void write_row(struct page *p, const struct row *row)
{
    const char *at = (const char *)p + row->at;
    if (row->fn)
        row->fn(p, &row->family);
    else
        metric_count(&p->m, &row->family, NULL,
                     row->flag ? *(const bool *)at : *(const uint64_t *)at);
}

/* A queue costs some time even if it has no samples. */
#define QUEUE_COST 64

/* true: all queues have been written. */
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
