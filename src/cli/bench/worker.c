/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/system/clock.h"
#include "cli/bench/worker_impl.h"
#include "cli/client/terminal/interrupt.h"
#include "cli/progress.h"

#define EVENTS 256
#define LOOK_MS 100 /* how often an idle thread checks the clock */

/* ---- one thread -------------------------------------------------------------------------------
 */

static enum bench_role role_of(const struct bench_plan *plan, unsigned index)
{
    static const enum bench_role roles[] = {
        [BENCH_ENQUEUE] = BENCH_PRODUCER,
        [BENCH_CYCLE] = BENCH_CYCLER,
        [BENCH_CLAIM] = BENCH_CONSUMER,
        [BENCH_HEALTHZ] = BENCH_PINGER,
    };
    if (plan->mode == BENCH_MIXED)
        return index < plan->producers ? BENCH_PRODUCER : BENCH_CONSUMER;
    return roles[plan->mode];
}

static int connection_init(struct bench_worker *w, struct bench_connection *c, unsigned index)
{
    unsigned pipeline = w->plan->pipeline;
    *c = (struct bench_connection){.worker = w, .role = role_of(w->plan, index), .fd = -1};
    c->slots = mem_array(pipeline, sizeof *c->slots);
    c->ring = mem_array(pipeline, sizeof *c->ring);
    if (!c->slots || !c->ring)
        return err_note_set(&w->note, -ERR_NOMEM, "out of memory");
    for (unsigned i = 0; i < pipeline; i++)
        c->slots[i].connection = c;
    return bench_connection_open(c);
}

/* The connections are dealt out to the threads in turn. */
static int connections_init(struct bench_worker *w, unsigned first)
{
    const struct bench_plan *plan = w->plan;
    unsigned most = (plan->connections + plan->threads - 1) / plan->threads;
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->connections = mem_array(most, sizeof *w->connections);
    if (w->epoll < 0 || !w->connections)
        return err_note_set(&w->note, -ERR_NOMEM, "no memory, or no file descriptors left");
    int rc = bench_writer_init(&w->writer, plan, first + 1);
    for (unsigned i = first; i < plan->connections && rc == 0; i += plan->threads)
        rc = connection_init(w, &w->connections[w->connection_count++], i);
    return rc;
}

static void worker_done(struct bench_worker *w)
{
    for (unsigned i = 0; i < w->connection_count; i++) {
        struct bench_connection *c = &w->connections[i];
        bench_connection_close(c);
        mem_free(c->slots);
        mem_free(c->ring);
    }
    mem_free(w->connections);
    bench_writer_done(&w->writer);
    if (w->epoll >= 0)
        (void)close(w->epoll);
}

static int slots_begin(struct bench_worker *w)
{
    int rc = 0;
    for (unsigned i = 0; i < w->connection_count && rc == 0; i++) {
        struct bench_connection *c = &w->connections[i];
        for (unsigned slot = 0; slot < w->plan->pipeline && rc == 0; slot++)
            rc = bench_slot_begin(&c->slots[slot]);
        if (rc == 0)
            rc = bench_connection_flush(c);
    }
    return rc;
}

static int events_take(struct bench_worker *w)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(w->epoll, events, EVENTS, LOOK_MS);
    int rc = count < 0 && errno != EINTR ? -ERR_IO : 0;
    for (int i = 0; i < count && rc == 0; i++) {
        struct bench_connection *c = events[i].data.ptr;
        if (c->fd >= 0 && (events[i].events & ~(uint32_t)EPOLLOUT))
            rc = bench_connection_read(c);
        if (rc == 0)
            rc = bench_connection_flush(c);
    }
    return rc;
}

/* There was no reply for too long, or the time has long been over. */
static bool hopeless(const struct bench_worker *w)
{
    uint64_t now = clock_ns(), end = w->shared->end_ns;
    int64_t stall_ms = BENCH_STALL_MS + w->plan->delay_ms;
    if (end == UINT64_MAX)
        return now > w->alive_ns && now - w->alive_ns > (uint64_t)stall_ms * 1000000;
    return now > end && now - end > (uint64_t)BENCH_GRACE_MS * 1000000;
}

static int worker_loop(struct bench_worker *w)
{
    w->alive_ns = w->last_ns = w->shared->start_ns;
    int rc = slots_begin(w);
    while (rc == 0 && w->asked > 0) {
        rc = events_take(w);
        if (rc == 0 && hopeless(w)) {
            bench_worker_error(w, w->asked, "%u requests were never answered", w->asked);
            break;
        }
    }
    return rc;
}

static bool gate_passed(struct bench_shared *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->gate == BENCH_GATE_SHUT)
        pthread_cond_wait(&s->opened, &s->lock);
    bool open = s->gate == BENCH_GATE_OPEN;
    pthread_mutex_unlock(&s->lock);
    return open;
}

static void *worker_main(void *ctx)
{
    struct bench_worker *w = ctx;
    if (gate_passed(w->shared))
        w->error = worker_loop(w);
    atomic_fetch_add(&w->shared->finished, 1);
    return NULL;
}

/* ---- the run ----------------------------------------------------------------------------------
 */

static void shared_init(struct bench_shared *s, const struct bench_plan *plan)
{
    *s = (struct bench_shared){.plan = plan};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->opened, NULL);
    atomic_init(&s->left, (int64_t)plan->jobs);
}

static void shared_done(struct bench_shared *s)
{
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->opened);
}

/* Starts the threads together, or ends them. */
static void gate_set(struct bench_shared *s, enum bench_gate gate)
{
    pthread_mutex_lock(&s->lock);
    s->start_ns = clock_ns();
    s->end_ns =
        s->plan->jobs > 0 ? UINT64_MAX : s->start_ns + (uint64_t)s->plan->duration_ms * 1000000;
    s->gate = gate;
    pthread_cond_broadcast(&s->opened);
    pthread_mutex_unlock(&s->lock);
}

struct sums {
    uint64_t jobs, errors;
};

static struct sums sums_of(struct bench_worker *workers, unsigned count)
{
    struct sums sums = {0, 0};
    for (unsigned i = 0; i < count; i++) {
        sums.jobs += atomic_load_explicit(&workers[i].jobs_seen, memory_order_relaxed);
        sums.errors += atomic_load_explicit(&workers[i].errors_seen, memory_order_relaxed);
    }
    return sums;
}

static void progress_draw(const struct bench_shared *s, struct bench_worker *workers)
{
    const struct bench_plan *plan = s->plan;
    struct sums sums = sums_of(workers, plan->threads);
    double seconds = (double)(clock_ns() - s->start_ns) / 1e9;
    double share = plan->jobs > 0 ? (double)sums.jobs / (double)plan->jobs
                                  : seconds * 1000 / (double)plan->duration_ms;
    progress_bar(share);
    fprintf(stderr, "%5.1f s  %.0f jobs/s  %" PRIu64 " errors \033[K", seconds,
            seconds > 0 ? (double)sums.jobs / seconds : 0, sums.errors);
}

/* Waits until every thread has ended; an interrupt stops them. */
static bool watch(struct bench_shared *s, struct bench_worker *workers)
{
    bool interrupted = false;
    while (atomic_load(&s->finished) < s->plan->threads) {
        if (client_interrupt_wait(s->plan->progress ? 200 : 20)) {
            interrupted = true;
            atomic_store(&s->stop, true);
        }
        if (s->plan->progress)
            progress_draw(s, workers);
    }
    if (s->plan->progress)
        fputs("\r\033[K", stderr);
    return interrupted;
}

static void results_add(struct bench_result *ret, const struct bench_worker *w, uint64_t *last_ns)
{
    for (size_t i = 0; i < BENCH_KINDS; i++)
        bench_histogram_merge(&ret->latency[i], &w->result.latency[i]);
    ret->enqueued += w->result.enqueued;
    ret->acked += w->result.acked;
    ret->errors += w->result.errors;
    if (ret->problem[0] == '\0')
        memcpy(ret->problem, w->result.problem, sizeof ret->problem);
    if (w->last_ns > *last_ns)
        *last_ns = w->last_ns;
}

/* Starts a thread for each worker, runs them, and waits for their end. */
static int threads_run(struct bench_shared *s, struct bench_worker *workers, bool *ret_interrupted,
                       struct err_note *note)
{
    unsigned count = 0;
    while (count < s->plan->threads &&
           pthread_create(&workers[count].thread, NULL, worker_main, &workers[count]) == 0)
        count++;
    bool all = count == s->plan->threads;
    gate_set(s, all ? BENCH_GATE_OPEN : BENCH_GATE_CANCELLED);
    if (all)
        *ret_interrupted = watch(s, workers);
    for (unsigned i = 0; i < count; i++)
        (void)pthread_join(workers[i].thread, NULL);
    return all ? 0 : err_note_set(note, -ERR_NOMEM, "cannot start thread %u", count + 1);
}

static int workers_collect(struct bench_shared *s, struct bench_worker *workers,
                           struct bench_result *ret, struct err_note *note)
{
    uint64_t last_ns = s->start_ns;
    int rc = 0;
    for (unsigned i = 0; i < s->plan->threads && rc == 0; i++) {
        if (workers[i].error < 0) {
            const char *said = workers[i].note.text;
            rc = err_note_set(note, workers[i].error, "%s",
                              *said ? said : err_text(workers[i].error));
        }
        results_add(ret, &workers[i], &last_ns);
    }
    /* A run by time has lasted this time, however early the last reply came. */
    uint64_t now = clock_ns();
    ret->elapsed_ns = s->plan->jobs == 0 && now >= s->end_ns && last_ns > s->start_ns
                          ? s->end_ns - s->start_ns
                          : last_ns - s->start_ns;
    if (s->plan->mode == BENCH_CLAIM)
        ret->elapsed_ns = last_ns - s->start_ns;
    return rc;
}

static int workers_connect(struct bench_shared *s, struct bench_worker *workers,
                           struct err_note *note)
{
    for (unsigned i = 0; i < s->plan->threads; i++) {
        struct bench_worker *w = &workers[i];
        w->shared = s;
        w->plan = s->plan;
        int rc = connections_init(w, i);
        if (rc < 0)
            return err_note_set(note, rc, "%s", w->note.text[0] ? w->note.text : err_text(rc));
    }
    return 0;
}

int bench_run(const struct bench_plan *plan, struct bench_result *ret, bool *ret_interrupted,
              struct err_note *note)
{
    struct bench_shared shared;
    struct bench_worker *workers = mem_array(plan->threads, sizeof *workers);
    if (!workers)
        return err_note_set(note, -ERR_NOMEM, "out of memory");
    shared_init(&shared, plan);
    memset(ret, 0, sizeof *ret);
    *ret_interrupted = false;
    for (unsigned i = 0; i < plan->threads; i++)
        workers[i].epoll = -1;
    int rc = workers_connect(&shared, workers, note);
    if (rc == 0)
        rc = threads_run(&shared, workers, ret_interrupted, note);
    if (rc == 0)
        rc = workers_collect(&shared, workers, ret, note);
    for (unsigned i = 0; i < plan->threads; i++)
        worker_done(&workers[i]);
    shared_done(&shared);
    mem_free(workers);
    return rc;
}
