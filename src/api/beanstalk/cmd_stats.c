/* SPDX-License-Identifier: Apache-2.0 */
/* stats, stats-job, stats-tube: beanstalkd's fields in beanstalkd's order.
 *
 * The counters of jobs and tubes are the engine's, so they include the operations of other APIs.
 * Commands and connections are those of this API. */
#include <inttypes.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "api/beanstalk/impl.h"

static int64_t at_least_0(int64_t n)
{
    return n > 0 ? n : 0;
}

/* ---- stats-job ---- */

static const char *state_text(uint8_t state)
{
    switch (state) {
    case STATE_SCHEDULED:
    case STATE_BLOCKED:
        return "delayed";
    case STATE_READY:
        return "ready";
    case STATE_RUNNING:
        return "reserved";
    default:
        return "buried";
    }
}

static uint32_t priority_text(int64_t priority)
{
    return priority >= 0 ? 0 : priority < -(int64_t)UINT32_MAX ? UINT32_MAX : (uint32_t)-priority;
}

static int64_t created_ms(const struct job *j)
{
    return id_time(j->id_hi).ms;
}

/* The delay of the put or of the last release. It is known while the job is delayed, and later
 * for a job that was never released. */
static int64_t delay_s(const struct job_view *v)
{
    const struct job *j = &v->job;
    if (j->run_at.ms == 0)
        return 0;
    int64_t from = j->state == STATE_SCHEDULED ? j->since.ms : created_ms(j);
    return v->outcome_counts.releases > 0 && j->state != STATE_SCHEDULED
               ? 0
               : at_least_0((j->run_at.ms - from + 500) / 1000);
}

static int64_t time_left_s(const struct job_view *v, struct wall_time now)
{
    if (v->job.state == STATE_RUNNING)
        return v->lease_left_ms / 1000;
    return v->job.state == STATE_SCHEDULED ? at_least_0(v->job.run_at.ms - now.ms) / 1000 : 0;
}

static int job_text(struct buf *out, const struct job_view *v, struct wall_time now)
{
    uint32_t ttr_ms = v->job.state == STATE_RUNNING ? v->lease_ms : v->own_lease_ms;
    return buf_printf(out,
                      "---\n"
                      "id: %" PRIu64 "\n"
                      "tube: %.*s\n"
                      "state: %s\n"
                      "pri: %" PRIu32 "\n"
                      "age: %" PRId64 "\n"
                      "delay: %" PRId64 "\n"
                      "ttr: %" PRIu32 "\n"
                      "time-left: %" PRId64 "\n"
                      "file: 0\n"
                      "reserves: %u\n"
                      "timeouts: %u\n"
                      "releases: %u\n"
                      "buries: %u\n"
                      "kicks: %u\n",
                      v->job.seq, (int)v->queue.len, v->queue.at, state_text(v->job.state),
                      priority_text(view_priority(v)),
                      at_least_0(now.ms - created_ms(&v->job)) / 1000, delay_s(v), ttr_ms / 1000,
                      time_left_s(v, now), v->outcome_counts.claims, v->outcome_counts.timeouts,
                      v->outcome_counts.releases, v->outcome_counts.rejections,
                      v->outcome_counts.requeues);
}

static void job_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    const unsigned shown = STATES_LIVE | STATE_BIT(STATE_DEAD);
    if (r->outcome != OUT_OK)
        bs_answer_refusal(k, r);
    else if (!(STATE_BIT(r->jobs[0].job.state) & shown))
        ANSWER(k, "NOT_FOUND");
    else if (job_text(&k->out, &r->jobs[0], broker_now(k->api->broker).wall) != 0)
        ANSWER(k, "OUT_OF_MEMORY");
    else
        bs_answer_data(k);
}

BS_HANDLER(bs_stats_job)
{
    struct op op = {.kind = OP_GET, .job = {.job = {.seq = cmd->id}}};
    (void)c;
    order_submit(k, &op, job_cb);
}

/* ---- stats-tube ---- */

/* For a pause that was set by another API, or before a restart, the time that is left. */
static void pause_of(const struct beanstalk *b, const struct tube *t, const struct queue_view *v,
                     int64_t *ret_s, int64_t *ret_left_s)
{
    int64_t left = v ? at_least_0(v->paused_until.ms - broker_now(b->broker).wall.ms) : 0;
    *ret_left_s = left / 1000;
    *ret_s = left == 0 ? 0 : (left + 999) / 1000;
    if (left > 0 && t && t->pause_s >= *ret_left_s)
        *ret_s = t->pause_s;
}

static int tube_text(struct order *k, struct span name, const struct tube *t,
                     const struct queue_view *v)
{
    static const struct queue_counts none;
    static const struct tube unreferenced;
    const struct queue_counts *n = v ? &v->counts : &none;
    const struct tube *u = t ? t : &unreferenced;
    int64_t pause, left;
    pause_of(k->api, t, v, &pause, &left);
    return buf_printf(&k->out,
                      "---\n"
                      "name: %.*s\n"
                      "current-jobs-urgent: %" PRIu64 "\n"
                      "current-jobs-ready: %" PRIu64 "\n"
                      "current-jobs-reserved: %" PRIu64 "\n"
                      "current-jobs-delayed: %" PRIu64 "\n"
                      "current-jobs-buried: %" PRIu64 "\n"
                      "total-jobs: %" PRIu64 "\n"
                      "current-using: %" PRIu32 "\n"
                      "current-watching: %" PRIu32 "\n"
                      "current-waiting: %" PRIu32 "\n"
                      "cmd-delete: %" PRIu64 "\n"
                      "cmd-pause-tube: %" PRIu64 "\n"
                      "pause: %" PRId64 "\n"
                      "pause-time-left: %" PRId64 "\n",
                      (int)name.len, name.at, n->urgent, n->by_state[STATE_READY],
                      n->by_state[STATE_RUNNING], delayed_jobs(n), n->by_state[STATE_DEAD],
                      n->enqueued, u->users, u->watchers, u->waiters, u->deletes, u->pauses, pause,
                      left);
}

static void tube_cb(void *ctx, const struct reply *r)
{
    struct order *k = ctx;
    const struct queue_view *v = r->outcome == OUT_OK ? &r->queues[0] : NULL;
    if (r->outcome != OUT_OK && r->outcome != OUT_NO_QUEUE) {
        bs_answer_refusal(k, r);
        return;
    }
    if (!tube_exists(k->api, k->tube, v))
        ANSWER(k, "NOT_FOUND");
    else if (tube_text(k, tube_name(k->tube), k->tube, v) != 0)
        ANSWER(k, "OUT_OF_MEMORY");
    else
        bs_answer_data(k);
}

BS_HANDLER(bs_stats_tube)
{
    (void)c;
    order_get_tube(k, cmd->tube, tube_cb);
}

/* ---- stats ---- */

static int sums_text(struct buf *out, const struct tube_sums *s)
{
    return buf_printf(out,
                      "---\n"
                      "current-jobs-urgent: %" PRIu64 "\n"
                      "current-jobs-ready: %" PRIu64 "\n"
                      "current-jobs-reserved: %" PRIu64 "\n"
                      "current-jobs-delayed: %" PRIu64 "\n"
                      "current-jobs-buried: %" PRIu64 "\n",
                      s->urgent, s->ready, s->reserved, s->delayed, s->buried);
}

/* In beanstalkd's order, which has no counters for the other commands. */
static int commands_text(struct buf *out, const uint64_t counts[BS_VERB_COUNT])
{
    static const uint8_t told[] = {
        BS_PUT,
        BS_PEEK,
        BS_PEEK_READY,
        BS_PEEK_DELAYED,
        BS_PEEK_BURIED,
        BS_RESERVE,
        BS_RESERVE_TIMEOUT,
        BS_DELETE,
        BS_RELEASE,
        BS_USE,
        BS_WATCH,
        BS_IGNORE,
        BS_BURY,
        BS_KICK,
        BS_TOUCH,
        BS_STATS,
        BS_STATS_JOB,
        BS_STATS_TUBE,
        BS_LIST_TUBES,
        BS_LIST_TUBE_USED,
        BS_LIST_TUBES_WATCHED,
        BS_PAUSE_TUBE,
    };
    int err = 0;
    for (size_t i = 0; !err && i < sizeof told; i++)
        err = buf_printf(out, "cmd-%s: %" PRIu64 "\n", bs_verb_name((enum bs_verb)told[i]),
                         counts[told[i]]);
    return err;
}

static int conns_text(struct order *k)
{
    const struct beanstalk *b = k->api;
    const struct tube_sums *s = &k->listing->sums;
    return buf_printf(&k->out,
                      "job-timeouts: %" PRIu64 "\n"
                      "total-jobs: %" PRIu64 "\n"
                      "max-job-size: %" PRIu32 "\n"
                      "current-tubes: %" PRIu64 "\n"
                      "current-connections: %" PRIu64 "\n"
                      "current-producers: %" PRIu32 "\n"
                      "current-workers: %" PRIu32 "\n"
                      "current-waiting: %" PRIu32 "\n"
                      "total-connections: %" PRIu64 "\n",
                      s->timeouts + b->past_timeouts, s->jobs + b->past_jobs,
                      b->config.max_job_bytes, s->tubes, b->net.figures.connections, b->producers,
                      b->workers, b->waiting, b->net.figures.accepted);
}

static int process_text(struct order *k)
{
    const struct beanstalk *b = k->api;
    struct backend_figures figures = {0};
    struct rusage use = {0};
    struct utsname host = {0};
    (void)getrusage(RUSAGE_SELF, &use);
    (void)uname(&host);
    broker_backend_figures(b->broker, &figures);
    int64_t up = broker_now(b->broker).wall.ms - b->started_at.ms;
    return buf_printf(&k->out,
                      "pid: %ld\n"
                      "version: \"holdfast-%s\"\n"
                      "rusage-utime: %lld.%06lld\n"
                      "rusage-stime: %lld.%06lld\n"
                      "uptime: %" PRId64 "\n"
                      "binlog-oldest-index: 0\n"
                      "binlog-current-index: 0\n"
                      "binlog-records-migrated: 0\n"
                      "binlog-records-written: %" PRIu64 "\n"
                      "binlog-max-size: %" PRIu32 "\n"
                      "draining: %s\n"
                      "id: %s\n"
                      "hostname: \"%s\"\n"
                      "os: \"%s\"\n"
                      "platform: \"%s\"\n",
                      (long)getpid(), b->config.version, (long long)use.ru_utime.tv_sec,
                      (long long)use.ru_utime.tv_usec, (long long)use.ru_stime.tv_sec,
                      (long long)use.ru_stime.tv_usec, at_least_0(up) / 1000,
                      figures.has_journal ? figures.position : 0, b->config.journal_segment_bytes,
                      b->refuses ? "true" : "false", b->id, host.nodename, host.version,
                      host.machine);
}

void bs_stats_answer(struct order *k)
{
    int err = sums_text(&k->out, &k->listing->sums);
    if (!err)
        err = commands_text(&k->out, k->api->commands);
    if (!err)
        err = conns_text(k);
    if (!err)
        err = process_text(k);
    if (err)
        ANSWER(k, "OUT_OF_MEMORY");
    else
        bs_answer_data(k);
}

BS_HANDLER(bs_stats)
{
    (void)c;
    (void)cmd;
    bs_list_begin(k);
}
