/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the parts in this order: loop, HTTP server and the beanstalk API, backend, broker,
 * APIs, listeners.
 *
 * The order matters. libuv runs prepare handles from the newest to the oldest, so at the end of
 * a loop iteration the broker submits the operations that arrived, the backend replies to those
 * that it can, and the HTTP server writes the answers, all before the loop waits for events.
 *
 * The end: SIGTERM or SIGINT stops listening, refuses new jobs, lets requests under way finish
 * (at most timeouts.drain_ms), then closes the parts in reverse order. HTTP server and broker
 * close when the store has answered everything; a store that cannot (a full disk) is waited for
 * END_MS. A second signal ends the wait. A store that fails ends the process at once, because
 * the state in memory can no longer be trusted. */
#include "server/serve.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/beanstalk/beanstalk.h"
#include "api/problems/problem.h"
#include "api/v1/v1.h"
#include "backend/backend.h"
#include "base/budget.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/system/machine.h"
#include "broker/broker.h"
#include "config/config.h"
#include "http/server.h"
#include "server/fatal.h"
#include "server/notify.h"
#include "server/resources.h"
#include "server/stores.h"
#include "server/tls.h"
#include "server/version.h"

#define END_MS 10000 /* a list may take 5 s */

extern char **environ;

struct serve {
    uv_loop_t loop;
    struct config config;
    const struct arguments *args;
    struct log log;
    struct stores stores;
    struct clock_manual test_clock;
    struct clock clock;
    struct resources resources;
    struct budget budget; /* of both kinds of connections */
    struct http_server *http;
    struct backend *backend;
    struct broker *broker;
    struct native *native;
    struct apis *apis;
    struct beanstalk *beanstalk; /* NULL = not asked for */
    unsigned draining_parts;     /* HTTP and beanstalk, as long as they have connections */
    uv_signal_t term, interrupt, hangup, user;
    uv_timer_t watchdog, overdue;
    struct notifier notifier;
    struct server_tls tls;
    struct webhook_allow allow[CONFIG_ALLOW_MAX];
    struct broker_webhooks webhooks;
    bool draining; /* shutting down, also if it could not start */
    int status;
};

/* Notifies the service manager; a failure is only logged. */
static void notify_manager(struct serve *s, enum notify_event event, const char *status)
{
    if (notifier_send(&s->notifier, event, status) != 0)
        log_event(&s->log, LOG_WARN, "service_manager_not_notified");
}

/* ---- the end ---- */

/* Only this thread is left, and its handles are closed: a signal would now end the process with
 * a wrong exit status. */
static void signals_hold(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

static void backend_closed(void *ctx)
{
    struct serve *s = ctx;
    s->backend = NULL;
    signals_hold();
    uv_close((uv_handle_t *)&s->term, NULL);
    uv_close((uv_handle_t *)&s->interrupt, NULL);
    uv_close((uv_handle_t *)&s->hangup, NULL);
    uv_close((uv_handle_t *)&s->user, NULL);
    uv_close((uv_handle_t *)&s->watchdog, NULL);
    uv_close((uv_handle_t *)&s->overdue, NULL);
    server_tls_close(&s->tls);
}

static void broker_closed(void *ctx)
{
    struct serve *s = ctx;
    s->broker = NULL;
    uv_timer_stop(&s->overdue);
    if (s->backend)
        backend_close(s->backend, backend_closed, s);
    else
        backend_closed(s);
}

static void native_closed(void *ctx)
{
    struct serve *s = ctx;
    s->native = NULL;
    if (s->broker)
        broker_close(s->broker, broker_closed, s);
    else
        broker_closed(s);
}

static void apis_closed(void *ctx)
{
    struct serve *s = ctx;
    s->apis = NULL;
    native_close(s->native, native_closed, s);
}

static void beanstalk_closed(void *ctx)
{
    struct serve *s = ctx;
    s->beanstalk = NULL;
    apis_close(s->apis, apis_closed, s);
}

static void http_closed(void *ctx)
{
    struct serve *s = ctx;
    s->http = NULL;
    beanstalk_close(s->beanstalk, beanstalk_closed, s);
}

/* All connections are closed, so clients without a reply know that the outcome is unknown. */
static void overdue_cb(uv_timer_t *timer)
{
    struct serve *s = timer->data;
    log_event(
        &s->log, LOG_ERROR, "shutdown_forced",
        LOG_TEXT("why", "the store does not answer; the outcome of the last requests is unknown"));
    _exit(EXIT_FAILED);
}

static void all_drained(struct serve *s)
{
    uv_timer_start(&s->overdue, overdue_cb, END_MS, 0);
    http_server_close(s->http, http_closed, s);
}

static void part_drained(void *ctx)
{
    struct serve *s = ctx;
    if (--s->draining_parts == 0)
        all_drained(s);
}

static void begin_end(struct serve *s)
{
    s->draining = true;
    notify_manager(s, NOTIFY_STOPPING, "draining");
    log_event(&s->log, LOG_INFO, "draining", LOG_INT("limit_ms", s->config.timeouts.drain_ms));
    broker_drain(s->broker);
    native_drain(s->native);
    apis_drain(s->apis);
    s->draining_parts = s->beanstalk ? 2 : 1;
    if (s->beanstalk)
        beanstalk_drain(s->beanstalk, s->config.timeouts.drain_ms, part_drained, s);
    http_server_drain(s->http, s->config.timeouts.drain_ms, part_drained, s);
}

/* beanstalkd's drain mode: it refuses puts until the process ends. */
static void user_cb(uv_signal_t *handle, int number)
{
    struct serve *s = handle->data;
    (void)number;
    if (s->draining || !s->beanstalk)
        return;
    log_event(&s->log, LOG_INFO, "beanstalk_refuses_puts");
    beanstalk_refuse_puts(s->beanstalk);
}

static void term_cb(uv_signal_t *handle, int number)
{
    struct serve *s = handle->data;
    if (!s->draining) {
        begin_end(s);
        return;
    }
    /* A second signal ends the process at once. Nothing is lost: replies that were sent are
     * durable. */
    log_event(&s->log, LOG_WARN, "shutdown_forced", LOG_INT("signal", number));
    _exit(EXIT_FAILED);
}

static void fatal_cb(void *ctx, int error, const char *why)
{
    struct serve *s = ctx;
    log_event(&s->log, LOG_ERROR, "fatal", LOG_TEXT("why", why), LOG_TEXT("error", err_name(error)),
              LOG_TEXT("next", fatal_advice(error)));
    _exit(EXIT_FAILED);
}

/* ---- SIGHUP ---- */

/* A server that began without TLS has no listener for it, and one that began with it needs a
 * certificate. */
static bool tls_reloads(const struct serve *s, const struct config *fresh)
{
    return s->tls.tls && *fresh->tls.cert;
}

/* Settings keep their texts: few reloads change paths, and the rest of the memory is small. */
static bool tls_paths_keep(struct serve *s, const struct net_tls_files *from)
{
    struct arena *memory = &s->config.memory;
    struct net_tls_files files = {.cert = arena_text(memory, span_text(from->cert)),
                                  .key = arena_text(memory, span_text(from->key)),
                                  .client_ca = arena_text(memory, span_text(from->client_ca))};
    if (!files.cert || !files.key || !files.client_ca)
        return false;
    s->config.tls = files;
    return true;
}

static bool same_files(const struct net_tls_files *a, const struct net_tls_files *b)
{
    return strcmp(a->cert, b->cert) == 0 && strcmp(a->key, b->key) == 0 &&
           strcmp(a->client_ca, b->client_ca) == 0;
}

/* Whether or not the names have changed, the files may have. */
static void tls_reload(struct serve *s, const struct config *fresh)
{
    if (!tls_reloads(s, fresh) || !server_tls_reload(&s->tls, &fresh->tls))
        return;
    log_event(&s->log, LOG_INFO, "tls_certificate_loaded", LOG_TEXT("file", fresh->tls.cert));
    if (!same_files(&s->config.tls, &fresh->tls) && tls_paths_keep(s, &fresh->tls))
        server_tls_watch(&s->tls);
}

struct reload {
    struct serve *serve;
    const struct config *fresh;
};

static void reload_key(void *ctx, const char *key, bool reloadable)
{
    const struct reload *r = ctx;
    struct serve *s = r->serve;
    if (strncmp(key, "tls.", 4) == 0)
        reloadable = tls_reloads(s, r->fresh);
    if (reloadable)
        log_event(&s->log, LOG_INFO, "setting_changed", LOG_TEXT("key", key));
    else
        log_event(&s->log, LOG_WARN, "setting_needs_restart", LOG_TEXT("key", key));
}

static int load(struct serve *s, struct config *ret, struct err_note *note)
{
    struct config_sources sources = {.file = arguments_text(s->args, "config", NULL),
                                     .env = (const char *const *)environ,
                                     .flags = s->args};
    return config_load(&sources, ret, note);
}

static void hangup_cb(uv_signal_t *handle, int number)
{
    (void)number;
    struct serve *s = handle->data;
    struct config fresh;
    struct err_note note = {""};
    if (s->draining) { /* the broker may be closed, and READY would contradict STOPPING */
        log_event(&s->log, LOG_WARN, "settings_not_reloaded",
                  LOG_TEXT("why", "the server is stopping"));
        return;
    }
    notify_manager(s, NOTIFY_RELOADING, NULL);
    if (load(s, &fresh, &note) != 0) {
        log_event(&s->log, LOG_ERROR, "settings_not_reloaded", LOG_TEXT("why", note.text));
    } else if (config_diff(&s->config, &fresh, reload_key, &(struct reload){s, &fresh}) != 0) {
        log_event(&s->log, LOG_ERROR, "settings_not_reloaded", LOG_TEXT("why", "out of memory"));
        config_done(&fresh);
    } else {
        s->log.level = fresh.log_level;
        s->log.format = fresh.log_format;
        broker_set_silent_ms(s->broker, fresh.workers_silent_ms);
        s->config.workers_silent_ms = fresh.workers_silent_ms;
        s->config.timeouts.drain_ms = fresh.timeouts.drain_ms;
        s->config.log_level = fresh.log_level;
        s->config.log_format = fresh.log_format;
        tls_reload(s, &fresh);
        config_done(&fresh);
        log_event(&s->log, LOG_INFO, "settings_reloaded");
    }
    notify_manager(s, NOTIFY_READY, NULL);
}

/* ---- the beginning ---- */

static void complain(const struct err_note *note, int err)
{
    fprintf(stderr, "holdfast: %s\n", note->text[0] ? note->text : err_text(err));
}

/* Raises the limit of descriptors: each connection takes one. */
static void take_resources(struct serve *s)
{
    uint64_t descriptors = resources_raise_descriptors();
    resources_derive(&s->config.limits, descriptors, machine_memory_bytes(), &s->resources);
    budget_init(&s->budget, s->resources.memory_bytes);
    if (s->resources.few_descriptors)
        log_event(&s->log, LOG_WARN, "few_descriptors", LOG_INT("limit", descriptors),
                  LOG_INT("connections", s->resources.connections),
                  LOG_TEXT("next", s->config.limits.connections
                                       ? "raise the limit of open files or lower limits.connections"
                                       : "raise the limit of open files (ulimit -n, LimitNOFILE); "
                                         "the number of connections follows it"));
}

/* The same limits hold for the connections of both protocols. */
static struct net_config net_config_of(struct serve *s)
{
    return (struct net_config){
        .loop = &s->loop,
        .log = &s->log,
        .budget = &s->budget,
        .connections_max = s->resources.connections,
        .connections_per_address = s->resources.connections_per_address,
        .write_ms = s->config.timeouts.write_ms,
        .handshake_ms = s->config.timeouts.handshake_ms,
        .tls = s->tls.tls,
        .write_buffer_bytes = s->config.limits.write_buffer_bytes,
    };
}

static int open_http(struct serve *s)
{
    const struct config *c = &s->config;
    struct http_server_config config;
    http_server_config_default(&config);
    config.net = net_config_of(s);
    config.limits = (struct http_limits){.uri_bytes = c->limits.uri_bytes,
                                         .head_bytes = c->limits.head_bytes,
                                         .body_bytes = c->limits.body_bytes};
    config.large_body_bytes = c->limits.large_body_bytes;
    config.pipeline_max = c->limits.pipeline;
    config.head_ms = c->timeouts.head_ms;
    config.body_ms = c->timeouts.body_ms;
    config.idle_ms = c->timeouts.idle_ms;
    config.hosts = c->hosts.items;
    config.origins = c->origins.items;
    config.problem = problem_of_server;
    return http_server_new(&config, &s->http);
}

static int open_beanstalk(struct serve *s)
{
    const struct config *c = &s->config;
    struct beanstalk_config config = {
        .net = net_config_of(s),
        .policy = &c->queue_defaults,
        .version = version_number(),
        .max_job_bytes = c->beanstalk.max_job_bytes,
        .line_ms = c->timeouts.head_ms,
        .body_ms = c->timeouts.body_ms,
        .journal_segment_bytes = c->journal_segment_bytes,
    };
    return c->beanstalk.listen.count ? beanstalk_new(&config, &s->beanstalk) : 0;
}

static bool label_find_cb(void *ctx, struct span label, int64_t *ret)
{
    const struct config *c = ctx;
    return broker_labels_find(c->labels, c->label_count, label, ret);
}

static int open_backend(struct serve *s, struct err_note *note)
{
    const struct config *c = &s->config;
    struct backend_config config = {
        .loop = &s->loop,
        .clock = s->clock,
        .log = &s->log,
        .policy = &c->queue_defaults,
        .no_auto_create = !c->auto_create,
        .queue_limits = {.implied_max = c->auto_queues},
        .node = c->node,
        .capacity = c->capacity,
        .cache_bytes = c->cache_bytes,
        .journal_bytes_max = c->journal_max_bytes,
        .journal_segment_bytes = c->journal_segment_bytes & ~(uint32_t)4095,
        .list_wait_ms = c->timeouts.list_wait_ms,
        .leader_ttl_ms = c->cluster.leader_ttl_ms,
        .leader_key = c->cluster.leader_key,
        .label_find = label_find_cb,
        .label_ctx = &s->config,
        .silent_ms = c->cluster.silent_ms,
        .answer_ms = c->timeouts.backend_ms,
        .version = version_number(),
        .key_ttl_ms = c->idempotency_ttl_ms,
        .keys_max = c->idempotency_keys,
        .kv_keys_max = c->kv_keys,
        .kv_bytes_max = c->kv_bytes,
        .fatal = fatal_cb,
        .fatal_ctx = s,
    };
    return stores_open(&s->stores, c, &config, &s->backend, note);
}

static void http_figures_cb(void *ctx, struct http_server_figures *ret)
{
    http_server_figures(((struct serve *)ctx)->http, ret);
}

static void api_metrics_cb(void *ctx, struct metrics *m)
{
    struct serve *s = ctx;
    apis_metrics(s->apis, m);
    if (s->beanstalk)
        beanstalk_metrics(s->beanstalk, m);
}

static void api_routes_cb(void *ctx, const struct api *api, void *api_ctx)
{
    struct serve *s = ctx;
    http_server_routes(s->http, api->routes, api->route_count, api_ctx);
}

static int open_apis(struct serve *s)
{
    const struct config *c = &s->config;
    struct api_config config = {.loop = &s->loop,
                                .broker = s->broker,
                                .log = &s->log,
                                .policy = &c->queue_defaults,
                                .keyval_lock_ms = c->keyval.lock_ms,
                                .keyval_sweep_ms = c->keyval.sweep_ms,
                                .webqueue_types = c->webqueue.types,
                                .webqueue_type_count = c->webqueue.items.count,
                                .webqueue_alerts = &c->webqueue.alerts,
                                .tasks_low_share = c->tasks_low_share,
                                .tasks_queued_wait_ms = c->tasks_queued_wait_ms};
    int err = apis_open(&config, c->apis.items, c->apis.count, &s->apis);
    if (!err)
        apis_routes(s->apis, api_routes_cb, s);
    return err;
}

/* Loading the settings has checked each of them. */
static void set_webhooks(struct serve *s)
{
    const struct config *c = &s->config;
    size_t count = 0;
    for (size_t i = 0; i < c->webhooks.allow.count; i++)
        if (webhook_allow_parse(c->webhooks.allow.items[i], &s->allow[count], NULL) == 0)
            count++;
    s->webhooks = (struct broker_webhooks){
        .policy = {.allow_private = c->webhooks.allow_private,
                   .allow = s->allow,
                   .allow_count = count,
                   .timeout_ms = c->webhooks.timeout_ms},
        .concurrency = c->webhooks.concurrency,
        .give_up_ms = c->webhooks.give_up_ms,
        .breaker = c->breaker,
    };
}

static int open_broker(struct serve *s)
{
    const struct config *c = &s->config;
    set_webhooks(s);
    struct broker_config config = {
        .loop = &s->loop,
        .clock = s->clock,
        .test_clock = c->test_clock ? &s->test_clock : NULL,
        .log = &s->log,
        .backend = s->backend,
        .labels = c->labels,
        .label_count = c->label_count,
        .silent_ms = c->workers_silent_ms,
        .webhooks = &s->webhooks,
    };
    int err = broker_open(&config, &s->broker);
    if (err)
        return err;
    broker_schedules_start(s->broker);
    struct native_config native = {
        .loop = &s->loop,
        .broker = s->broker,
        .log = &s->log,
        .version = version_number(),
        .commit = version_commit(),
        .node = c->node,
        .policy = &c->queue_defaults,
        .budget = &s->budget,
        .tls = s->tls.tls,
        .http_figures = http_figures_cb,
        .api_metrics = api_metrics_cb,
        .http_ctx = s,
    };
    err = native_open(&native, &s->native);
    if (err)
        return err;
    size_t count;
    const struct http_route *routes = native_routes(&count);
    http_server_routes(s->http, routes, count, s->native);
    return open_apis(s);
}

static int listen_all(struct serve *s, struct err_note *note)
{
    const struct config *c = &s->config;
    const struct config_list *http = &c->listen, *bs = &c->beanstalk.listen;
    char full[CONFIG_ADDRESS_MAX];
    int err = 0;
    for (size_t i = 0; !err && i < http->count && !config_no_http(c); i++)
        err = http_server_listen(s->http, config_address(c, http->items[i], &http_schemes, full),
                                 note);
    for (size_t i = 0; !err && i < bs->count; i++)
        err = beanstalk_listen(s->beanstalk,
                               config_address(c, bs->items[i], &beanstalk_schemes, full), note);
    return err;
}

static void watchdog_cb(uv_timer_t *timer)
{
    notify_manager(timer->data, NOTIFY_WATCHDOG, NULL);
}

static void handles_init(struct serve *s)
{
    /* Needs only memory and, for signals, a pipe that the loop already has. */
    CHECK(uv_signal_init(&s->loop, &s->term) == 0 && uv_signal_init(&s->loop, &s->hangup) == 0);
    CHECK(uv_signal_init(&s->loop, &s->user) == 0);
    s->user.data = s;
    CHECK(uv_signal_init(&s->loop, &s->interrupt) == 0 &&
          uv_timer_init(&s->loop, &s->watchdog) == 0 && uv_timer_init(&s->loop, &s->overdue) == 0);
    s->term.data = s->interrupt.data = s->hangup.data = s->watchdog.data = s->overdue.data = s;
    uv_signal_start(&s->term, term_cb, SIGTERM);
    uv_signal_start(&s->interrupt, term_cb, SIGINT);
    uv_signal_start(&s->hangup, hangup_cb, SIGHUP);
    if (s->config.beanstalk.listen.count)
        uv_signal_start(&s->user, user_cb, SIGUSR1);
    int64_t every_ms =
        notify_watchdog_ms(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"), getpid());
    if (every_ms > 0)
        uv_timer_start(&s->watchdog, watchdog_cb, (uint64_t)every_ms, (uint64_t)every_ms);
}

static void open_notifier(struct serve *s)
{
    struct err_note note = {""};
    if (notifier_open(&s->notifier, getenv("NOTIFY_SOCKET"), &note) != 0)
        log_event(&s->log, LOG_WARN, "service_manager_not_notified", LOG_TEXT("why", note.text));
}

#ifdef HF_TEST_HOOKS
/* A machine whose wall clock is wrong: HF_CLOCK_SKEW_MS. */
static struct now skewed_read(void *ctx)
{
    struct clock right = clock_system();
    struct now now = clock_now(&right);
    now.wall.ms += ctx ? strtoll(ctx, NULL, 10) : 0;
    return now;
}
#endif

static void set_clock(struct serve *s)
{
    s->clock = clock_system();
#ifdef HF_TEST_HOOKS
    if (getenv("HF_CLOCK_SKEW_MS"))
        s->clock = (struct clock){.read = skewed_read, .ctx = getenv("HF_CLOCK_SKEW_MS")};
#endif
    if (s->config.test_clock) {
        s->test_clock.at = clock_now(&s->clock);
        s->clock = clock_manual(&s->test_clock);
    }
}

/* Prints the lines that scripts wait for. */
static void print_ready(struct serve *s)
{
    const char *address;
    for (size_t i = 0; (address = http_server_address(s->http, i)) != NULL; i++)
        printf("listening on %s\n", address);
    for (size_t i = 0; s->beanstalk && (address = beanstalk_address(s->beanstalk, i)); i++)
        printf("listening on %s\n", address);
    fflush(stdout);
    log_event(&s->log, LOG_INFO, "ready", LOG_TEXT("backend", backend_kind(s->backend)),
              LOG_BOOL("test_clock", s->config.test_clock),
              LOG_INT("connections", s->resources.connections));
    address = http_server_address(s->http, 0);
    notify_manager(s, NOTIFY_READY, address ? address : beanstalk_address(s->beanstalk, 0));
}

static int start(struct serve *s, struct err_note *note)
{
    int err = server_tls_open(&s->tls, &s->loop, &s->config.tls, &s->log, note);
    if (!err)
        err = open_http(s);
    if (!err)
        err = open_beanstalk(s);
    if (!err)
        err = open_backend(s, note);
    if (!err)
        err = open_broker(s);
    if (!err && s->beanstalk)
        beanstalk_serve(s->beanstalk, s->broker);
    if (!err)
        err = listen_all(s, note);
    return err;
}

static int run(struct serve *s)
{
    struct err_note note = {""};
    signal(SIGPIPE, SIG_IGN);
    s->log = log_to_stream(stderr, s->config.log_format, s->config.log_level, clock_system());
    set_clock(s);
    take_resources(s);
    if (uv_loop_init(&s->loop) != 0) {
        fputs("holdfast: no event loop\n", stderr);
        return EXIT_FAILED;
    }
    open_notifier(s);
    handles_init(s);
    int err = start(s, &note);
    if (err) {
        complain(&note, err);
        s->status = EXIT_FAILED;
        s->draining = true;
        if (s->http)
            all_drained(s);
        else
            native_closed(s);
    } else {
        print_ready(s);
    }
    uv_run(&s->loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&s->loop) == 0);
    notifier_close(&s->notifier);
    server_tls_done(&s->tls);
    if (!s->status)
        log_event(&s->log, LOG_INFO, "stopped");
    return s->status;
}

int serve_command(const struct command *cmd, const struct arguments *args)
{
    (void)cmd;
    struct serve *s = mem_zalloc(sizeof(*s));
    struct err_note note = {""};
    if (!s) {
        fputs("holdfast: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    s->args = args;
    int err = load(s, &s->config, &note);
    if (err) {
        complain(&note, err);
        mem_free(s);
        return EXIT_USAGE;
    }
    int status;
    if (arguments_has(args, "print-config"))
        status = config_print(&s->config, stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
    else
        status = run(s);
    config_done(&s->config);
    mem_free(s);
    return status;
}
