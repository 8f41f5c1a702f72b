/* SPDX-License-Identifier: Apache-2.0 */
/* The table of settings. To add one: a member in struct config (config.h), a row here, and
 * `make docs`. Rows of one section stand together.
 *
 * Columns: key; kind; member of struct config; default in the syntax of the environment (NULL: what
 * policy_default says); least and largest value (of a text its length, of a list its items, of a
 * choice the values of its words, in order); the word for its value in help texts, or the words of
 * a choice; flags; meaning. */
#pragma once

#include "core/jobs/id.h"
#include "core/limits.h"
#include "core/queues/policy_table.h"

#define CONFIG_YEAR_MS (INT64_C(366) * 24 * 3600 * 1000)
#define CONFIG_ALLOW_MAX 64
#define CONFIG_URGENT_MAX 64
#define CONFIG_ROUTES_MAX 64
#define CONFIG_TIMEOUT_MAX (INT64_C(24) * 3600 * 1000)

/* All APIs (api/apis.c). */
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
      "addresses to listen on: HOST:PORT, [IPV6]:PORT or unix:/path; with port 0 the "             \
      "system selects a free port. http:// or https:// in front of HOST:PORT says whether it "      \
      "uses TLS; without either, it does if `tls.cert` is set. Only loopback addresses are "       \
      "allowed, because access tokens do not exist yet. The value `none` disables HTTP")           \
    X("tls.cert", TEXT, tls.cert, "", 0, 4096, "FILE", CONFIG_RELOAD,                              \
      "PEM file with the server's certificate, followed by the certificates between it and "       \
      "its authority. It and the other files of this section are read again on SIGHUP and "        \
      "when they change; if that fails, the certificate in use is kept. Empty means no TLS")       \
    X("tls.key", TEXT, tls.key, "", 0, 4096, "FILE", CONFIG_RELOAD,                                \
      "PEM file with the private key of `tls.cert`, without a passphrase")                         \
    X("tls.client_ca", TEXT, tls.client_ca, "", 0, 4096, "FILE", CONFIG_RELOAD,                    \
      "PEM file with authorities of client certificates. If it is set, a client that connects "    \
      "with TLS must show a certificate of one of them; empty means that it need not")             \
    X("data", DIR, data, "./holdfast-data", 1, 4096, "DIR", 0,                                     \
      "directory of the embedded store; it is created if it does not exist")                       \
    X("backend", TEXT, backend, "", 0, 4096, "URL", CONFIG_SECRET,                                 \
      "the store: sqlite:DIR, memory:, postgres://… or redis://…; empty means sqlite: in "         \
      "the directory `data`")                                                                      \
    X("routes", LIST, routes.items, "", 0, CONFIG_ROUTES_MAX, "ROUTE", CONFIG_SECRET,              \
      "queues that are stored in other stores: `PATTERN number=N backend=URL`, such as "           \
      "`mail.* number=1 backend=postgres://…`. * matches anything; the first matching "            \
      "pattern decides. All other queues are stored in `backend`, which has the number "           \
      "0. The number is part of the ids of the jobs in that store: never change it")               \
    X("failover.primary", TEXT, failover.primary, "", 0, 4096, "URL", CONFIG_SECRET,               \
      "a shared store with a fallback: jobs are stored there or, while it does not "               \
      "answer, in a spool of this node (the folder `spool` in the directory `data`), "             \
      "from which they are moved back afterwards. Replaces `backend`, which has no "               \
      "fallback")                                                                                  \
    X("failover.health_check_ms", MS, failover.health_check_ms, "2s", 1, CONFIG_TIMEOUT_MAX,       \
      "MS", 0,                                                                                     \
      "the shared store counts as unavailable if it does not answer for this long")                \
    X("failover.alert_url", TEXT, failover.alert_url, "", 0, LIMIT_URL_BYTES, "URL",             \
      CONFIG_SECRET,                                                                               \
      "the webhook of the alert rule `failover`, which reports when a node begins to "             \
      "work on its spool and when the shared store is available again. The server "                \
      "creates the rule if no rule has this name, and does not change it afterwards "              \
      "(use `holdfast alerts`); empty means that no rule is created")                              \
    X("hosts", LIST, hosts, "", 0, 256, "NAME", 0,                                                 \
      "names that are accepted in the Host header of a request, in addition to the "               \
      "loopback names; without port")                                                              \
    X("origins", LIST, origins, "", 0, 256, "ORIGIN", 0,                                           \
      "origins of web pages that may call the server, such as https://app.example")                \
    X("apis", LIST, apis, APIS_DEFAULT, 0, 64, "NAME", 0,                                          \
      "APIs of other systems that are served in addition to /v1; `holdfast help routes` "          \
      "lists them")                                                                                \
    X("node", NUMBER, node, "0", 0, ID_NODE_MAX, "N", 0,                                           \
      "the number of this server, which is part of every job id; servers that share a "            \
      "store need different numbers")                                                              \
    X("capacity", NUMBER, capacity, "0", 0, INT64_MAX, "JOBS", 0,                                  \
      "maximum number of live jobs in the whole server; at the limit, enqueues are "               \
      "refused; 0 means no limit")                                                                 \
    X("cache_bytes", SIZE, cache_bytes, "64MiB", 1 << 20, INT64_C(1) << 40, "BYTES", 0,            \
      "size of the payload cache, from which claims are answered without reading the disk")        \
    X("auto_create", BOOL, auto_create, "true", 0, 1, "true|false", 0,                             \
      "whether the first enqueue creates a queue that does not exist")                             \
    X("test_clock", BOOL, test_clock, "false", 0, 1, "true|false", 0,                              \
      "for tests only: time stands still until POST /v1/test/clock moves it")                      \
    X("beanstalk.listen", LIST, beanstalk.listen, "", 0, 64, "ADDRESS", 0,                         \
      "addresses to listen on for beanstalkd's protocol, as for `listen`, with the schemes "       \
      "beanstalk:// and, for TLS, beanstalks://; empty disables it. --beanstalk is another "       \
      "name of this option")                                                                       \
    X("beanstalk.max_job_bytes", SIZE, beanstalk.max_job_bytes, "65535", 1, LIMIT_PAYLOAD_BYTES,   \
      "BYTES", 0,                                                                                  \
      "maximum size of the body of a put; a larger one gets JOB_TOO_BIG")                          \
    X("log.level", CHOICE, log_level, "info", LOG_ERROR, LOG_DEBUG, "error|warn|info|debug",       \
      CONFIG_RELOAD,                                                                               \
      "the least severe level that is logged")                                                     \
    X("log.format", CHOICE, log_format, "text", LOG_AS_TEXT, LOG_AS_JSON, "text|json",             \
      CONFIG_RELOAD,                                                                               \
      "format of log lines: text is for human readers, json for programs")                         \
    X("journal.max_bytes", SIZE, journal_max_bytes, "256MiB", 16 << 20, INT64_C(1) << 40,          \
      "BYTES", 0,                                                                                  \
      "maximum size of the journal; at the limit, commits wait until its oldest "                  \
      "entries have been written to the store")                                                    \
    X("journal.segment_bytes", SIZE, journal_segment_bytes, "16MiB", 1 << 20, 1 << 30, "BYTES",    \
      0,                                                                                           \
      "size of one journal file; one file is always kept in reserve")                              \
    X("limits.body_bytes", SIZE, limits.body_bytes, "2MiB", 1024, INT64_C(1) << 30, "BYTES", 0,    \
      "maximum size of a request body; a larger one gets 413")                                     \
    X("limits.large_body_bytes", SIZE, limits.large_body_bytes, "64MiB", 1024, INT64_C(1) << 32,   \
      "BYTES", 0,                                                                                  \
      "maximum size of the body of a request that carries many jobs; a larger one gets "           \
      "413")                                                                                       \
    X("limits.head_bytes", SIZE, limits.head_bytes, "32KiB", 1024, 1 << 20, "BYTES", 0,            \
      "maximum size of the request line and headers together; a larger head gets 431")             \
    X("limits.uri_bytes", SIZE, limits.uri_bytes, "8KiB", 256, 1 << 20, "BYTES", 0,                \
      "maximum length of the target in the request line; a longer one gets 414")                   \
    X("limits.auto_queues", NUMBER, auto_queues, "10000", 1, LIMIT_QUEUES, "N", 0,                 \
      "an enqueue creates a queue only while fewer queues than this exist; at the limit, "         \
      "it is refused (queues_full). Queues can still be created explicitly, up to 100,000")        \
    X("limits.memory_bytes", SIZE, limits.memory_bytes, "0", 0, INT64_C(1) << 42, "BYTES", 0,      \
      "maximum memory of all connections together: request bodies, replies and event "             \
      "streams that are not read, and waiting requests. At the limit, the connections that "       \
      "hold the most and make the least progress are shed, and large requests get 503; the "       \
      "first 8KiB of each connection are never refused. 0 means one eighth of the "                \
      "machine's memory or of its control group's limit, at least 128MiB and two bodies of "       \
      "limits.large_body_bytes, at most 2GiB")                                                     \
    X("limits.connections", NUMBER, limits.connections, "0", 0, 10000000, "N", 0,                  \
      "maximum number of open connections of each protocol; further ones get 503 or are "          \
      "closed. 0 means 256 fewer than the limit of open files allows, at most 20000")              \
    X("limits.connections_per_address", NUMBER, limits.connections_per_address, "0", 0,            \
      10000000, "N", 0,                                                                            \
      "maximum number of open connections from one address; further ones get 503 or are "          \
      "closed. Unix sockets are not counted. 0 means three quarters of limits.connections")        \
    X("limits.pipeline", NUMBER, limits.pipeline, "64", 1, 100000, "N", 0,                         \
      "maximum number of requests of one connection that are processed at the same time")          \
    X("limits.write_buffer_bytes", SIZE, limits.write_buffer_bytes, "1MiB", 1024,                  \
      INT64_C(1) << 30, "BYTES", 0,                                                                \
      "maximum size of the replies that are kept for a connection whose client does not "          \
      "read them")                                                                                 \
    X("timeouts.head_ms", MS, timeouts.head_ms, "10s", 100, CONFIG_TIMEOUT_MAX, "MS", 0,           \
      "time limit for receiving the head of a request; then the request gets 408. For "            \
      "a beanstalk command, the time limit for its line; then the connection is closed")           \
    X("timeouts.body_ms", MS, timeouts.body_ms, "60s", 100, CONFIG_TIMEOUT_MAX, "MS", 0,           \
      "time limit for receiving the body of a request; then the request gets 408. For "            \
      "a beanstalk put, the time limit for its body, or for each further 64 KiB of it; "           \
      "then the connection is closed")                                                             \
    X("timeouts.idle_ms", MS, timeouts.idle_ms, "75s", 100, CONFIG_TIMEOUT_MAX, "MS", 0,           \
      "a connection without a request is closed after this time")                                  \
    X("timeouts.write_ms", MS, timeouts.write_ms, "30s", 100, CONFIG_TIMEOUT_MAX, "MS", 0,         \
      "a connection is closed if its client reads nothing of a reply for this long")               \
    X("timeouts.handshake_ms", MS, timeouts.handshake_ms, "10s", 100, CONFIG_TIMEOUT_MAX, "MS", 0, \
      "time limit for the TLS handshake of a connection; then it is closed")                       \
    X("timeouts.drain_ms", MS, timeouts.drain_ms, "30s", 0, CONFIG_TIMEOUT_MAX, "MS",              \
      CONFIG_RELOAD,                                                                               \
      "how long the server waits after SIGTERM for requests that are being processed")             \
    X("timeouts.list_wait_ms", MS, timeouts.list_wait_ms, "250ms", 1, CONFIG_TIMEOUT_MAX, "MS",    \
      0,                                                                                           \
      "how long a list waits until the newest changes are in the store; after that the "           \
      "reply does not include them")                                                               \
    X("timeouts.backend_ms", MS, timeouts.backend_ms, "15s", 100, CONFIG_TIMEOUT_MAX, "MS", 0,     \
      "how long PostgreSQL or Redis may take to answer; then the connection is closed, and "       \
      "requests get 503 or 504")                                                                   \
    X("cluster.leader_key", TEXT, cluster.leader_key, "taskflow:leader", 0, 512, "KEY", 0,         \
      "the Redis key in which the leader stores `node NUMBER epoch N`, with "                      \
      "cluster.leader_ttl_ms as its TTL, if Redis is the store or is used for "                    \
      "dispatch; empty means no key. It is for operators and monitoring: the lease "               \
      "itself is in the store")                                                                    \
    X("cluster.leader_ttl_ms", MS, cluster.leader_ttl_ms, "10s", 200, 600000, "MS", 0,             \
      "the leader of several servers on one store sends a heartbeat five times in this "           \
      "time; if it sends none, another server takes over within twice this time")                  \
    X("cluster.silent_ms", MS, cluster.silent_ms, "15s", 200, CONFIG_TIMEOUT_MAX, "MS", 0,         \
      "a server that has sent no heartbeat for this long counts as dead: jobs that its "           \
      "connections held become ready")                                                             \
    X("idempotency.ttl_ms", MS, idempotency_ttl_ms, "24h", 1000, CONFIG_YEAR_MS, "MS", 0,          \
      "how long an idempotency key is remembered")                                                 \
    X("idempotency.keys", NUMBER, idempotency_keys, "4000000", 1, 1000000000, "N", 0,              \
      "maximum number of idempotency keys that are remembered; at the limit, requests "            \
      "with a new key get 429, and no key is forgotten early")                                     \
    X("kv.keys", NUMBER, kv_keys, "1000000", 1, 1000000000, "N", 0,                                \
      "maximum number of keys in the key-value store; at the limit, setting a new key "            \
      "gets 507")                                                                                  \
    X("kv.bytes", SIZE, kv_bytes, "1GiB", 1024, INT64_C(1) << 50, "BYTES", 0,                      \
      "maximum size of all keys and values of the key-value store; at the limit, "                 \
      "setting a key gets 507")                                                                    \
    X("workers.silent_ms", MS, workers_silent_ms, "60s", 1000, CONFIG_TIMEOUT_MAX, "MS",           \
      CONFIG_RELOAD,                                                                               \
      "a worker that has sent no request for this long is shown as silent")                        \
    X("webhooks.allow_private", BOOL, webhooks.allow_private, "false", 0, 1, "true|false", 0,      \
      "whether notices may be sent to addresses that are not public: loopback, private, "          \
      "link-local and similar ones")                                                               \
    X("webhooks.allow", LIST, webhooks.allow, "", 0, CONFIG_ALLOW_MAX, "ADDRESS", 0,               \
      "addresses (192.168.1.7), address blocks (10.0.0.0/8) and host names that "                  \
      "notices may be sent to although they are not public")                                       \
    X("webhooks.timeout_ms", MS, webhooks.timeout_ms, "10s", 100, 600000, "MS", 0,                 \
      "time limit for the delivery of a notice")                                                   \
    X("webhooks.concurrency", NUMBER, webhooks.concurrency, "16", 1, LIMIT_BATCH, "N", 0,          \
      "maximum number of deliveries at the same time")                                             \
    X("webhooks.give_up_ms", MS, webhooks.give_up_ms, "72h", 1000, CONFIG_YEAR_MS, "MS", 0,        \
      "a notice older than this is not delivered again; it is kept as dead")                       \
    X("breaker.failure_threshold", NUMBER, breaker.failure_threshold, "5", 1, 1000000, "N", 0,     \
      "number of consecutive failures, including rate-limit replies, that open the breaker "       \
      "of a target")                                                                               \
    X("breaker.open_cooldown_seconds", NUMBER, breaker.open_cooldown_seconds, "30", 1, 86400,      \
      "SECONDS", 0,                                                                                \
      "how long an open breaker denies every call")                                                \
    X("breaker.half_open_probe_count", NUMBER, breaker.half_open_probe_count, "1", 1, 1000000,     \
      "N", 0,                                                                                      \
      "number of calls that are allowed after the cooldown, to find out whether the "              \
      "target answers again")                                                                      \
    X("tasks.low_share", NUMBER, tasks_low_share, "5", 0, 100, "PERCENT", 0,                       \
      "minimum share of low tasks among the tasks that /api/tasks returns to workers "             \
      "while both high and low ones are waiting")                                                  \
    X("tasks.queued_wait_ms", MS, tasks_queued_wait_ms, "5s", 1, 60000, "MS", 0,                   \
      "how long a POST /api/tasks with `wait_queued` waits for Redis to confirm; after "           \
      "that the reply has the status PENDING")                                                     \
    X("dispatch.high", TEXT, dispatch.high, "", 0, 4096, "URL", CONFIG_SECRET,                     \
      "Redis server whose lists receive the ids of ready jobs of urgent queues; requires a "       \
      "store on PostgreSQL; empty means the same as `dispatch.low`")                               \
    X("dispatch.low", TEXT, dispatch.low, "", 0, 4096, "URL", CONFIG_SECRET,                       \
      "Redis server for all other queues; if both are empty, nothing is dispatched")               \
    X("dispatch.urgent", LIST, dispatch.urgent, "*.high", 0, CONFIG_URGENT_MAX, "PATTERN", 0,      \
      "queues that are urgent; * matches anything")                                                \
    X("dispatch.interval_ms", MS, dispatch.interval_ms, "5s", 100, CONFIG_TIMEOUT_MAX, "MS", 0,    \
      "how often the leader looks for jobs that were not dispatched or whose id was lost")         \
    X("dispatch.batch", NUMBER, dispatch.batch, "100", 1, LIMIT_BATCH, "JOBS", 0,                  \
      "maximum number of jobs to dispatch that the leader reads at once")                          \
    POLICY_TABLE(CONFIG_POLICY, X)                                                                 \
    X("queue.lockDuration", MS, keyval.lock_ms, "30s", LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS, "MS",   \
      0,                                                                                           \
      "for the keyval API: how long a message is locked for the consumer that received "           \
      "it")                                                                                        \
    X("queue.cleanupInterval", MS, keyval.sweep_ms, "60s", 0, UINT32_MAX, "MS", 0,                 \
      "for the keyval API: how often locks are checked in addition to their exact "                \
      "timers; 0 means no additional checks")                                                      \
    X("webqueue.types", LIST, webqueue.items, "processing,calibration", 1, 32, "TYPE", 0,          \
      "queue types of the API webqueue: a name, followed by the options that differ "              \
      "from `timeout=300s keep=30d retries=0`, such as `calibration timeout=10m`. "                \
      "timeout: a job whose lease is not renewed for this long becomes an error; keep: "           \
      "how long completed jobs are kept; retries: how often a failed job is retried")              \
    X("webqueue.alert_depth", NUMBER, webqueue.alerts.depth, "10000", 0, UINT32_MAX - 1, "JOBS",   \
      0,                                                                                           \
      "the alert webqueue-depth is raised for a queue of the API webqueue that has "               \
      "more pending jobs than this. The three alerts are created with the first job of "           \
      "the API and are not changed afterwards (use `holdfast alerts`); 0 creates none")            \
    X("webqueue.alert_error_percent", NUMBER, webqueue.alerts.error_percent, "10", 0, 100,         \
      "PERCENT", 0,                                                                                \
      "the alert webqueue-errors is raised if more than this share of at least 20 "                \
      "attempts that ended within 5 minutes failed; 0 creates none")                               \
    X("webqueue.alert_idle_ms", MS, webqueue.alerts.idle_ms, "60s", 0, 86400000, "MS", 0,          \
      "the alert webqueue-idle is raised if nothing is dequeued for this long while a "            \
      "job is ready; 0 creates none")                                                              \
    X("queue_settings.priorities", LABELS, labels, "high=-10,normal=0,low=10", -INT64_MAX,         \
      INT64_MAX, "LABEL=N,...", 0,                                                                 \
      "labels for priorities; in this table, lower numbers come first. If the table "              \
      "has the label `normal`, jobs without a priority get its priority")                          \
    X("queue_settings.max_in_memory", NUMBER, capacity, NULL, 0, INT64_MAX, "JOBS", CONFIG_ALIAS,  \
      "another name of capacity")                                                                  \
    X("queue_settings.warn_depth", NUMBER, queue_defaults.warn_depth, NULL, 0, UINT32_MAX,         \
      "JOBS",                                                                                      \
      CONFIG_ALIAS, "another name of queue_defaults.warn_depth")                                   \
    X("queue_settings.use_redis", BOOL, redis.use, "false", 0, 1, "true|false", 0,                 \
      "store jobs in Redis or, while Redis does not answer, in a spool of this node: "             \
      "the same as failover.primary with the server at redis_url")                                 \
    X("queue_settings.redis_url", TEXT, redis.url, "", 0, 4096, "URL", CONFIG_SECRET,              \
      "address of the Redis server: redis://… or rediss://…")                                      \
    X("queue_settings.redis_ready_key", TEXT, redis.ready_key, "affiliate:ready_queue", 1, 512,    \
      "KEY", 0,                                                                                    \
      "accepted but not used: Holdfast has its own keys, which keep the priority")                 \
    X("queue_settings.redis_scheduled_key", TEXT, redis.scheduled_key,                             \
      "affiliate:scheduled_jobs", 1, 512, "KEY", 0,                                                \
      "accepted but not used: Holdfast has its own keys")                                          \
    X("queue_settings.redis_health_check_timeout", SECONDS, redis.health_check_ms, "2s", 1,        \
      CONFIG_TIMEOUT_MAX, "SECONDS", 0,                                                            \
      "Redis counts as unavailable if it does not answer for this long")
/* clang-format on */
