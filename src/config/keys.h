/* SPDX-License-Identifier: Apache-2.0 */
/* The table of settings. To add one: a member in struct config (config.h), a row here, and
 * `holdfast help config --markdown >docs/config.md`. Rows of one section stand together.
 *
 * Columns: key; kind; member of struct config; default in the syntax of the environment (NULL: what
 * policy_default says); least and largest value (of a text its length, of a list its items, of a
 * choice the values of its words, in order); the word for its value in help texts, or the words of
 * a choice; flags; meaning. */
#pragma once

#include "core/id.h"
#include "core/limits.h"
#include "core/policy_table.h"

#define CONFIG_YEAR_MS (INT64_C(366) * 24 * 3600 * 1000)
#define CONFIG_ALLOW_MAX 64
#define CONFIG_URGENT_MAX 64
#define CONFIG_ROUTES_MAX 64
#define CONFIG_TIMEOUT_MAX (INT64_C(24) * 3600 * 1000)

/* All there are (api/apis.c). */
#define APIS_DEFAULT "keyval,orchestrator,tasks,webqueue"

/* A queue setting as a row here; by its kind. */
#define CONFIG_POLICY(tag, name, kind, def, min, max, value, doc, X)                               \
    CONFIG_POLICY_##kind(X, name, min, max, value, doc)
#define CONFIG_POLICY_ROW(X, name, kind, min, max, value, flags, doc)                              \
    X("queue_defaults." #name, kind, queue_defaults.name, NULL, min, max, value, flags, doc)
#define CONFIG_UNLIMITED(max) ((max) == INT64_MAX ? CONFIG_ALL : 0)
#define CONFIG_POLICY_MS(X, name, min, max, value, doc)                                            \
    CONFIG_POLICY_ROW(X, name, MS, min, max, value, CONFIG_UNLIMITED(max), doc)
#define CONFIG_POLICY_BYTES(X, name, min, max, value, doc)                                         \
    CONFIG_POLICY_ROW(X, name, SIZE, min, max, value, CONFIG_UNLIMITED(max), doc)
#define CONFIG_POLICY_NUMBER(X, name, min, max, value, doc)                                        \
    CONFIG_POLICY_ROW(X, name, NUMBER, min, max, value, CONFIG_UNLIMITED(max), doc)
#define CONFIG_POLICY_BOOL(X, name, min, max, value, doc)                                          \
    CONFIG_POLICY_ROW(X, name, BOOL, min, max, "true|false", 0, doc)
#define CONFIG_POLICY_WORD(X, name, min, max, value, doc)                                          \
    CONFIG_POLICY_ROW(X, name, CHOICE, min, max, value, 0, doc)
#define CONFIG_POLICY_PRIORITY(X, name, min, max, value, doc)                                      \
    CONFIG_POLICY_ROW(X, name, NUMBER, min, max, value, 0, doc)
#define CONFIG_POLICY_RATE(X, name, min, max, value, doc)                                          \
    CONFIG_POLICY_ROW(X, name, RATE, min, max, "N/DURATION[/" value "]|none", CONFIG_ALL, doc)
#define CONFIG_POLICY_BACKOFF(X, name, min, max, value, doc)                                       \
    BACKOFF_TABLE(CONFIG_BACKOFF_PART, X)                                                          \
    X("queue_defaults.backoff_ms", STEPS, queue_defaults.name, NULL, min, max,                     \
      "DURATION,DURATION,...", 0, BACKOFF_STEPS_DOC)
#define CONFIG_BACKOFF_PART(name, kind, min, max, value, doc, X)                                   \
    X("queue_defaults.backoff_" #name, kind, queue_defaults.backoff.name, NULL, min, max, value,   \
      CONFIG_BACKOFF, doc)

/* clang-format off */
#define CONFIG_TABLE(X)                                                                            \
    X("listen", LIST, listen, "127.0.0.1:8000", 1, 64, "ADDRESS", 0,                               \
      "where to listen: HOST:PORT, [IPV6]:PORT or unix:/path; port 0 takes a free one. Only "      \
      "loopback addresses: there are no access tokens yet. The word none: not over HTTP at all")   \
    X("data", DIR, data, "./holdfast-data", 1, 4096, "DIR", 0,                                     \
      "the directory of the embedded store; made when missing")                                    \
    X("backend", TEXT, backend, "", 0, 4096, "URL", CONFIG_SECRET,                                 \
      "the store: sqlite:DIR, memory:, postgres://… or redis://…; empty means sqlite: in the "       \
      "directory `data`")             \
    X("routes", LIST, routes.items, "", 0, CONFIG_ROUTES_MAX, "ROUTE", CONFIG_SECRET,              \
      "queues that other backends keep: `PATTERN number=N backend=URL`, such as `mail.* "          \
      "number=1 backend=postgres://…`; * stands for anything, the first pattern that matches "     \
      "decides, other queues are kept by `backend`, which is number 0. The number is part of the "  \
      "ids of the jobs there: never change it")                                                           \
    X("failover.primary", TEXT, failover.primary, "", 0, 4096, "URL", CONFIG_SECRET,               \
      "a shared store that may go away: jobs are kept there, and while it does not answer in a "   \
      "spool of this node, `spool` in the directory `data`, from which they flow back. Instead of " \
      "`backend`, which never falls back")                                                         \
    X("failover.health_check_ms", MS, failover.health_check_ms, "2s", 1, CONFIG_TIMEOUT_MAX, "MS", \
      0, "it counts as gone when it does not answer for so long")                                  \
    X("hosts", LIST, hosts, "", 0, 256, "NAME", 0,                                                 \
      "names besides the loopback ones that a request's Host may have, without port")              \
    X("origins", LIST, origins, "", 0, 256, "ORIGIN", 0,                                           \
      "origins of web pages that may call the server, such as https://app.example")                \
    X("apis", LIST, apis, APIS_DEFAULT, 0, 64, "NAME", 0,                                       \
      "APIs of other systems that are served besides /v1; `holdfast help routes` lists them")      \
    X("node", NUMBER, node, "0", 0, ID_NODE_MAX, "N", 0,                                           \
      "the number of this server, part of every job id; must differ between servers of one "       \
      "store")                                                                                     \
    X("capacity", NUMBER, capacity, "0", 0, INT64_MAX, "JOBS", 0,                                  \
      "live jobs of the whole server at most, beyond which an enqueue is refused; 0 means no "     \
      "limit")                                                                                     \
    X("cache_bytes", SIZE, cache_bytes, "64MiB", 1 << 20, INT64_C(1) << 40, "BYTES", 0,            \
      "payloads kept in memory, so that a claim need not read them from the disk")                 \
    X("auto_create", BOOL, auto_create, "true", 0, 1, "true|false", 0,                             \
      "the first enqueue makes a queue that does not exist")                                       \
    X("test_clock", BOOL, test_clock, "false", 0, 1, "true|false", 0,                              \
      "for tests only: time stands still and moves when told over HTTP")                           \
    X("beanstalk.listen", LIST, beanstalk.listen, "", 0, 64, "ADDRESS", 0,                         \
      "where to speak beanstalkd's protocol, as for `listen`; empty means nowhere. --beanstalk "   \
      "is another name of this flag")                                                              \
    X("beanstalk.max_job_bytes", SIZE, beanstalk.max_job_bytes, "65535", 1, LIMIT_PAYLOAD_BYTES,   \
      "BYTES", 0, "the largest body of a put; beyond it JOB_TOO_BIG")                              \
    X("log.level", CHOICE, log_level, "info", LOG_ERROR, LOG_DEBUG, "error|warn|info|debug",       \
      CONFIG_RELOAD, "the least important lines that are written")                                 \
    X("log.format", CHOICE, log_format, "text", LOG_AS_TEXT, LOG_AS_JSON, "text|json",             \
      CONFIG_RELOAD, "lines for people or for programs")                                           \
    X("journal.max_bytes", SIZE, journal_max_bytes, "256MiB", 16 << 20, INT64_C(1) << 40, "BYTES", \
      0, "size of the journal, beyond which commits wait until the store has caught up")           \
    X("journal.segment_bytes", SIZE, journal_segment_bytes, "16MiB", 1 << 20, 1 << 30, "BYTES", 0, \
      "size of one of its files; one is always kept spare")                                        \
    X("limits.body_bytes", SIZE, limits.body_bytes, "2MiB", 1024, INT64_C(1) << 30, "BYTES", 0,    \
      "the largest body of a request; beyond it 413")                                              \
    X("limits.large_body_bytes", SIZE, limits.large_body_bytes, "64MiB", 1024, INT64_C(1) << 32,   \
      "BYTES", 0, "the same for requests that carry many jobs")                                    \
    X("limits.head_bytes", SIZE, limits.head_bytes, "32KiB", 1024, 1 << 20, "BYTES", 0,            \
      "request line and headers together; beyond it 431")                                          \
    X("limits.uri_bytes", SIZE, limits.uri_bytes, "8KiB", 256, 1 << 20, "BYTES", 0,                \
      "the address in the request line; beyond it 414")                                            \
    X("limits.auto_queues", NUMBER, auto_queues, "10000", 1, LIMIT_QUEUES, "N", 0,                 \
      "queues that may exist for an enqueue to create another; beyond it the enqueue is refused "  \
      "(queues_full), and queues can still be defined, up to 100,000")                             \
    X("limits.memory_bytes", SIZE, limits.memory_bytes, "0", 0, INT64_C(1) << 42, "BYTES", 0,      \
      "memory that all connections together may hold: bodies of requests, replies and event "      \
      "streams that are not read, and what waits. At the limit the connections that hold the "     \
      "most and make the least progress are shed, and large requests get 503; the first 8KiB of "  \
      "each connection are never refused. 0 means an eighth of the machine's memory or of its control group's "       \
      "limit, at least 128MiB and two bodies of limits.large_body_bytes, at most 2GiB")            \
    X("limits.connections", NUMBER, limits.connections, "0", 0, 10000000, "N", 0,                  \
      "open connections of each protocol; beyond it 503, or closed. 0 means 256 fewer than the "   \
      "limit of open files allows, at most 20000")                                                 \
    X("limits.connections_per_address", NUMBER, limits.connections_per_address, "0", 0,            \
      10000000, "N", 0,                                                                            \
      "open connections from one address; beyond it 503, or closed. Unix sockets are not "         \
      "counted. 0 means three quarters of limits.connections")                                     \
    X("limits.pipeline", NUMBER, limits.pipeline, "64", 1, 100000, "N", 0,                         \
      "requests of one connection that are worked on at once")                                     \
    X("limits.write_buffer_bytes", SIZE, limits.write_buffer_bytes, "1MiB", 1024,                  \
      INT64_C(1) << 30, "BYTES", 0,                                                                \
      "answers kept for a connection whose client does not read them")                             \
    X("timeouts.head_ms", MS, timeouts.head_ms, "10s", 100, CONFIG_TIMEOUT_MAX, "MS", 0,           \
      "until the whole head of a request has come; then 408. A beanstalk command has this long "   \
      "for its line; then the connection is closed")                                               \
    X("timeouts.body_ms", MS, timeouts.body_ms, "60s", 100, CONFIG_TIMEOUT_MAX, "MS", 0,           \
      "until the whole body of a request has come; then 408. A beanstalk put has this long for "   \
      "its body, or for the next 64 KiB of it; then the connection is closed")                     \
    X("timeouts.idle_ms", MS, timeouts.idle_ms, "75s", 100, CONFIG_TIMEOUT_MAX, "MS", 0,           \
      "until a connection without a request is closed")                                            \
    X("timeouts.write_ms", MS, timeouts.write_ms, "30s", 100, CONFIG_TIMEOUT_MAX, "MS", 0,         \
      "until a connection is closed whose client takes nothing of its answer")                     \
    X("timeouts.drain_ms", MS, timeouts.drain_ms, "30s", 0, CONFIG_TIMEOUT_MAX, "MS",              \
      CONFIG_RELOAD, "what SIGTERM leaves to requests under way")                                  \
    X("timeouts.list_wait_ms", MS, timeouts.list_wait_ms, "250ms", 1, CONFIG_TIMEOUT_MAX, "MS", 0, \
      "how long a list waits for the newest changes to be in the store; then it is answered as "   \
      "of what is there")                                                                          \
    X("timeouts.backend_ms", MS, timeouts.backend_ms, "15s", 100, CONFIG_TIMEOUT_MAX, "MS", 0,     \
      "a database that several servers share may take so long to answer; then its connection is "  \
      "given up, and requests are answered 503 or 504")                                            \
    X("cluster.leader_ttl_ms", MS, cluster.leader_ttl_ms, "10s", 200, 600000, "MS", 0,             \
      "of several servers on one database the leader gives a sign of life five times in this "     \
      "time; when it gives none, another leads within twice this time")                            \
    X("cluster.silent_ms", MS, cluster.silent_ms, "15s", 200, CONFIG_TIMEOUT_MAX, "MS", 0,         \
      "a server that gave no sign of life for so long is taken for dead: jobs that its "           \
      "connections held are ready again")                                                          \
    X("idempotency.ttl_ms", MS, idempotency_ttl_ms, "24h", 1000, CONFIG_YEAR_MS, "MS", 0,          \
      "how long an idempotency key is remembered")                                                 \
    X("idempotency.keys", NUMBER, idempotency_keys, "4000000", 1, 1000000000, "N", 0,              \
      "idempotency keys remembered at most; beyond it 429, none is dropped early")                 \
    X("kv.keys", NUMBER, kv_keys, "1000000", 1, 1000000000, "N", 0,                                \
      "keys of the key-value store at most; beyond it 507")                                        \
    X("kv.bytes", SIZE, kv_bytes, "1GiB", 1024, INT64_C(1) << 50, "BYTES", 0,                      \
      "bytes of its keys and values together at most; beyond it 507")                              \
    X("workers.silent_ms", MS, workers_silent_ms, "60s", 1000, CONFIG_TIMEOUT_MAX, "MS",           \
      CONFIG_RELOAD, "a worker that gave no sign for so long is shown as silent")                  \
    X("webhooks.allow_private", BOOL, webhooks.allow_private, "false", 0, 1, "true|false", 0,      \
      "notices may go to addresses that are not public: loopback, private, link-local and the "    \
      "like")                                                                                      \
    X("webhooks.allow", LIST, webhooks.allow, "", 0, CONFIG_ALLOW_MAX, "ADDRESS", 0,               \
      "addresses (192.168.1.7), blocks (10.0.0.0/8) and names of hosts that are not public and "   \
      "that notices may go to all the same")                                                       \
    X("webhooks.timeout_ms", MS, webhooks.timeout_ms, "10s", 100, 600000, "MS", 0,                 \
      "how long the delivery of a notice may take")                                                \
    X("webhooks.concurrency", NUMBER, webhooks.concurrency, "16", 1, LIMIT_BATCH, "N", 0,          \
      "deliveries at once")                                                                        \
    X("webhooks.give_up_ms", MS, webhooks.give_up_ms, "72h", 1000, CONFIG_YEAR_MS, "MS", 0,        \
      "a notice older than this is not tried again; it is kept as dead")                           \
    X("breaker.failure_threshold", NUMBER, breaker.failure_threshold, "5", 1, 1000000, "N", 0,     \
      "failures in a row that open the breaker of a target, rate-limit answers included")          \
    X("breaker.open_cooldown_seconds", NUMBER, breaker.open_cooldown_seconds, "30", 1, 86400,      \
      "SECONDS", 0, "how long an open breaker denies every call")                                  \
    X("breaker.half_open_probe_count", NUMBER, breaker.half_open_probe_count, "1", 1, 1000000,     \
      "N", 0, "calls let through after that, to see whether the target answers again")             \
    X("tasks.low_share", NUMBER, tasks_low_share, "5", 0, 100, "PERCENT", 0,                       \
      "of the tasks handed out by /api/tasks while high and low ones wait, how many at least "     \
      "are low ones")                                                                              \
    X("dispatch.high", TEXT, dispatch.high, "", 0, 4096, "URL", CONFIG_SECRET,                     \
      "a Redis server whose lists get the ids of ready jobs of urgent queues; needs a store on "   \
      "PostgreSQL; empty means the same as `dispatch.low`")                                        \
    X("dispatch.low", TEXT, dispatch.low, "", 0, 4096, "URL", CONFIG_SECRET,                       \
      "the same for all other queues; both empty means that nothing is dispatched")                \
    X("dispatch.urgent", LIST, dispatch.urgent, "*.high", 0, CONFIG_URGENT_MAX, "PATTERN", 0,                     \
      "queues that are urgent; * stands for anything")                                             \
    X("dispatch.interval_ms", MS, dispatch.interval_ms, "5s", 100, CONFIG_TIMEOUT_MAX, "MS", 0,    \
      "how often the leader looks for jobs that were not dispatched, or whose id was lost")        \
    POLICY_TABLE(CONFIG_POLICY, X)                                                                 \
    X("queue.lockDuration", MS, keyval.lock_ms, "30s", LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS, "MS",   \
      0, "the keyval API: how long a message is locked for the consumer that got it")              \
    X("queue.cleanupInterval", MS, keyval.sweep_ms, "60s", 0, UINT32_MAX, "MS", 0,                 \
      "the keyval API: how often locks are looked at besides when they end, which they do by "     \
      "themselves at their time; 0 means not besides")                                             \
    X("webqueue.types", LIST, webqueue.items, "processing,calibration", 1, 32, "TYPE", 0,          \
      "queue types of the API webqueue: a name, and behind it what differs from `timeout=300s "   \
      "keep=30d retries=0`, such as `calibration timeout=10m`. A job that nobody renews is "       \
      "failed after the timeout, completed jobs are kept so long, failed ones are tried again so " \
      "often")                                                                                     \
    X("queue_settings.priorities", LABELS, labels, "high=-10,normal=0,low=10", -INT64_MAX,         \
      INT64_MAX, "LABEL=N,...", 0,                                                                 \
      "words for priorities; here the lower number comes first. Where the table has `normal`, "    \
      "jobs that bring no priority get that one")                                                  \
    X("queue_settings.max_in_memory", NUMBER, capacity, NULL, 0, INT64_MAX, "JOBS", CONFIG_ALIAS,  \
      "another name of capacity")                                                                  \
    X("queue_settings.warn_depth", NUMBER, queue_defaults.warn_depth, NULL, 0, UINT32_MAX,         \
      "JOBS",                                                                                      \
      CONFIG_ALIAS, "another name of queue_defaults.warn_depth")                                   \
    X("queue_settings.use_redis", BOOL, redis.use, "false", 0, 1, "true|false", 0,                 \
      "keep jobs in Redis, and in a spool of this node while it does not answer: another name of "  \
      "failover.primary, for the server at redis_url")                              \
    X("queue_settings.redis_url", TEXT, redis.url, "", 0, 4096, "URL", CONFIG_SECRET,              \
      "address of the Redis server: redis://… or rediss://…")                                     \
    X("queue_settings.redis_ready_key", TEXT, redis.ready_key, "affiliate:ready_queue", 1, 512,    \
      "KEY", 0, "accepted and not used: Holdfast has keys of its own, in which priority is kept")                       \
    X("queue_settings.redis_scheduled_key", TEXT, redis.scheduled_key,                             \
      "affiliate:scheduled_jobs", 1, 512, "KEY", 0,                                                \
      "accepted and not used: Holdfast has keys of its own")                              \
    X("queue_settings.redis_health_check_timeout", SECONDS, redis.health_check_ms, "2s", 1,        \
      CONFIG_TIMEOUT_MAX, "SECONDS", 0,                                                            \
      "Redis counts as gone when it does not answer for so long")
/* clang-format on */
