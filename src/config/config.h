/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a server: a YAML file, HOLDFAST_… in the environment, and flags of `serve`. A
 * flag takes precedence over the environment, the environment over the file, the file over the
 * default.
 *
 * One table (config/keys.h) describes each key completely: its type, default, range, unit,
 * meaning, and whether a running server can take a new value. It reads all three sources and
 * prints the help, the reference page and the effective values.
 *
 * The file is strict: at most 1 MiB, one document, no anchors, aliases or tags; an unknown or
 * repeated key is an error that names the line.
 *
 * src/config may use the headers of all layers except server and cli, for their defaults and
 * limits. Besides the file of settings it does no I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "api/webqueue/webqueue.h"
#include "base/containers/arena.h"
#include "base/err.h"
#include "base/log.h"
#include "broker/broker.h"
#include "config/keys.h"
#include "config/options.h"
#include "core/queues/policy.h"
#include "net/net.h"

#define CONFIG_FILE_BYTES_MAX ((size_t)1 << 20)

#define CONFIG_BYTE(...) 0,
enum {
    CONFIG_KEYS = sizeof((char[]){CONFIG_TABLE(CONFIG_BYTE)}),
    CONFIG_FLAGS = CONFIG_KEYS + 3, /* --config, --print-config and --beanstalk */
};
#undef CONFIG_BYTE

struct config_list {
    const char **items; /* NULL-terminated, never NULL itself */
    size_t count;
};

struct config_limits {
    uint64_t body_bytes, large_body_bytes;
    uint32_t head_bytes, uri_bytes;
    uint32_t connections, connections_per_address; /* 0 = follow the descriptors: resources.h */
    uint32_t pipeline;
    uint64_t write_buffer_bytes;
    uint64_t memory_bytes; /* of all connections together; 0 = follows the machine */
};

struct config_timeouts {
    uint32_t head_ms, body_ms, idle_ms, write_ms, handshake_ms, drain_ms, list_wait_ms, backend_ms;
};

struct config_webhooks {
    bool allow_private;
    struct config_list allow; /* each passes webhook_allow_parse */
    uint32_t timeout_ms, concurrency;
    uint64_t give_up_ms;
};

struct config_beanstalk {
    struct config_list listen; /* empty = the API is disabled */
    uint32_t max_job_bytes;
};

struct config_dispatch {
    const char *high, *low; /* may hold a password: never log them; "" = none */
    struct config_list urgent;
    uint32_t interval_ms;
    uint32_t batch;
};

/* A shared store with a spool of this node: see backend/failover/failover.h. */
struct config_failover {
    const char *primary; /* as configured; may hold a password: never log it; "" = none */
    uint32_t health_check_ms;
    const char *alert_url; /* webhook of the failover rule that is created; "" = none */
    /* the store to open; NULL = no failover */
    const char *primary_url, *spool_url;
    uint32_t timeout_ms;
};

struct config_redis {
    bool use;        /* failover to the server at url */
    const char *url; /* may hold a password: never log it; "" = none */
    const char *ready_key, *scheduled_key;
    uint32_t health_check_ms;
};

/* One route, as configured: see backend/router/router.h. */
struct config_route {
    const char *pattern;
    unsigned number; /* 0 = the default backend */
    bool has_number;
    const char *url; /* may hold a password: never log it; NULL = an earlier route has it */
};

struct config_routes {
    struct config_list items;        /* as configured */
    const struct config_route *list; /* parsed, in the same order */
};

struct config_webqueue {
    struct config_list items;          /* as configured */
    const struct webqueue_type *types; /* parsed, in the same order; names differ */
    struct webqueue_alerts alerts;
};

/* Filled in by config_load, then read-only. Texts and lists are valid until config_done. */
struct config {
    struct config_list listen; /* addresses for http_server_listen; config_no_http() = none */
    struct config_list hosts, origins, apis;
    struct net_tls_files tls; /* cert "" = no TLS */
    const char *data;
    const char *backend;     /* as configured, "" = the store in `data` */
    const char *backend_url; /* what to open; may hold a password: never log it */
    struct config_routes routes;
    uint32_t node;
    enum log_level log_level;
    enum log_format log_format;
    struct config_limits limits;
    struct config_timeouts timeouts;
    uint64_t capacity; /* live jobs of the whole server; 0 = no limit */
    uint64_t cache_bytes;
    uint64_t journal_max_bytes;
    uint32_t journal_segment_bytes;
    struct {
        uint32_t leader_ttl_ms, silent_ms;
        const char *leader_key;
    } cluster; /* servers that share a store */
    uint64_t idempotency_ttl_ms, idempotency_keys;
    uint64_t kv_keys, kv_bytes; /* key-value store: at most */
    struct {
        uint32_t lock_ms, sweep_ms; /* as the keyval documents name them: queue.lockDuration … */
    } keyval;
    bool auto_create, test_clock;
    uint32_t auto_queues; /* queue_limits.implied_max */
    uint32_t workers_silent_ms;
    struct config_webhooks webhooks;
    struct breaker_rules breaker;
    uint32_t tasks_low_share; /* percent */
    uint32_t tasks_queued_wait_ms;
    struct queue_policy queue_defaults; /* passes policy_check */
    const struct broker_label *labels;  /* names differ */
    size_t label_count;
    struct config_redis redis;
    struct config_dispatch dispatch;
    struct config_failover failover;
    struct config_webqueue webqueue;
    struct config_beanstalk beanstalk;

    struct arena memory;         /* of all texts */
    uint8_t source[CONFIG_KEYS]; /* enum config_source, by row of the table */
    uint32_t line[CONFIG_KEYS];  /* where the source is the file: its line */
};

enum config_source { CONFIG_DEFAULT, CONFIG_FILE, CONFIG_ENV, CONFIG_FLAG };

struct config_sources {
    const char *file;              /* NULL: HOLDFAST_CONFIG of env, and if that is unset none */
    const char *const *env;        /* "NAME=value"…, NULL-terminated, like environ; may be NULL */
    const struct arguments *flags; /* read with config_flags; may be NULL */
};

/* Reads everything and checks it as a whole. On success free *ret with config_done; it does not
 * depend on the sources. On failure *ret is unchanged and the note tells the operator what is
 * wrong, where, and what would be right: -ERR_INVALID, -ERR_SYNTAX (not YAML), -ERR_TOO_BIG,
 * -ERR_NOT_FOUND and -ERR_IO (the file), -ERR_NOMEM. */
MUST_CHECK int config_load(const struct config_sources *sources, struct config *ret,
                           struct err_note *note);
/* The same with the bytes of a file called `name` as the only source. */
MUST_CHECK int config_load_text(struct span text, const char *name, struct config *ret,
                                struct err_note *note);
void config_done(struct config *c);
/* The address as it is passed to net_listen: one without a scheme has TLS if there is a
 * certificate. */
#define CONFIG_ADDRESS_MAX 256
const char *config_address(const struct config *c, const char *address,
                           const struct net_schemes *schemes, char out[CONFIG_ADDRESS_MAX]);
/* `listen` is none: the server uses other protocols only. */
bool config_no_http(const struct config *c);

/* The options of `serve`: --config, --print-config, a flag for every key, and --beanstalk for
 * beanstalk.listen. */
extern const struct option config_flags[CONFIG_FLAGS];

/* Calls fn for each key whose value differs, before it returns; `reloadable` says whether a
 * running server can take the new value. */
typedef void (*config_diff_fn)(void *ctx, const char *key, bool reloadable);
MUST_CHECK int config_diff(const struct config *from, const struct config *to, config_diff_fn fn,
                           void *ctx);

/* The effective values as YAML that config_load reads back, each with its source in a comment.
 * User names and passwords in addresses are shown as ***. */
MUST_CHECK int config_print(const struct config *c, FILE *out);

/* One row of the table, for printing. Texts are static except `def`, which is valid until the
 * callback returns. */
struct config_row {
    const char *key;
    const char *word;  /* for its value: "BYTES", "text|json" */
    const char *range; /* ", 1KiB to 1GiB", or "" */
    const char *def;   /* NULL: the key is another name of one with its own row */
    const char *doc;
    bool reloadable;
    bool begins_section; /* the section is the part of the key before the '.' */
};
typedef void (*config_row_fn)(void *ctx, const struct config_row *row);
/* Calls fn for every row in order, before it returns. -ERR_NOMEM. */
MUST_CHECK int config_describe(config_row_fn fn, void *ctx);

/* The settings explained, for a terminal; and the page docs/reference/settings.md. */
MUST_CHECK int config_help(FILE *out);
MUST_CHECK int config_markdown(FILE *out);
