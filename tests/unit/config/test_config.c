/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: each source, their order, what is refused and in which words (PDQ-1 among them). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "config/config.h"
#include "config/table.h"

enum { WORDS_MAX = 16 };

static void must_load_text(const char *yaml, struct config *ret)
{
    struct err_note note = {""};
    if (config_load_text(span_text(yaml), "test.yaml", ret, &note) < 0)
        fail_msg("refused: %s", note.text);
}

/* The value of a key as YAML. */
static void assert_value(const struct config *c, const char *key, const char *expected)
{
    struct buf value;
    const struct config_key *k = config_key_find(span_text(key));
    assert_non_null(k);
    buf_init(&value);
    assert_int_equal(config_value(c, k, true, &value), 0);
    if (!span_equal(buf_span(&value), span_text(expected)))
        fail_msg("%s is %.*s, not %s", key, (int)value.len, value.data, expected);
    buf_done(&value);
}

static char *printed(const struct config *c)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(config_print(c, out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* ---- the table ---- */

static void every_row_is_sound(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        const struct config_key *k = &config_keys[i];
        char name[CONFIG_ENV_MAX];
        char other[CONFIG_ENV_MAX];
        enum unit_kind unit = UNIT_NONE;
        assert_true(strlen(k->key) < 60 && k->doc[strlen(k->doc) - 1] != '.');
        assert_ptr_equal(config_key_find(span_text(k->key)), k);
        /* The range fits the member. */
        if (config_unit(k, &unit) && k->size < 8)
            assert_true(k->min >= 0 && k->max < INT64_C(1) << (8 * k->size));
        for (size_t j = 0; j < i; j++) {
            config_env_name(&config_keys[j], other);
            assert_string_not_equal(config_env_name(k, name), other);
        }
    }
}

static void rows_of_a_section_stand_together(void **state)
{
    (void)state;
    for (size_t i = 1; i < CONFIG_KEYS; i++) {
        size_t len = strcspn(config_keys[i].key, ".");
        struct span section = span_of(config_keys[i].key, len);
        if (!config_keys[i].key[len])
            continue;
        const struct config_key *first = config_section(section);
        for (const struct config_key *k = first; k <= &config_keys[i]; k++)
            assert_int_equal(strncmp(k->key, config_keys[i].key, len + 1), 0);
    }
}

static void defaults_are_what_is_promised(void **state)
{
    (void)state;
    struct config c;
    struct queue_policy policy;
    must_load_text("", &c);
    policy_default(&policy);
    assert_memory_equal(&c.queue_defaults, &policy, sizeof policy);
    assert_int_equal(c.listen.count, 1);
    assert_string_equal(c.listen.items[0], "127.0.0.1:8000");
    assert_null(c.listen.items[1]);
    assert_string_equal(c.data, "./holdfast-data");
    assert_string_equal(c.backend_url, "sqlite:./holdfast-data");
    assert_int_equal(c.hosts.count + c.origins.count, 0);
    assert_null(c.hosts.items[0]);
    assert_int_equal(c.node, 0);
    assert_int_equal(c.log_level, LOG_INFO);
    assert_int_equal(c.log_format, LOG_AS_TEXT);
    assert_int_equal(c.limits.body_bytes, 2 << 20);
    assert_int_equal(c.limits.large_body_bytes, 64 << 20);
    assert_int_equal(c.limits.head_bytes, 32 << 10);
    assert_int_equal(c.limits.uri_bytes, 8 << 10);
    assert_int_equal(c.limits.connections, 0);
    assert_int_equal(c.limits.connections_per_address, 0);
    assert_int_equal(c.limits.pipeline, 64);
    assert_int_equal(c.limits.write_buffer_bytes, 1 << 20);
    assert_int_equal(c.timeouts.head_ms, 10000);
    assert_int_equal(c.timeouts.body_ms, 60000);
    assert_int_equal(c.timeouts.idle_ms, 75000);
    assert_int_equal(c.timeouts.write_ms, 30000);
    assert_int_equal(c.timeouts.drain_ms, 30000);
    assert_int_equal(c.capacity, 0);
    assert_int_equal(c.cache_bytes, 64 << 20);
    assert_int_equal(c.idempotency_ttl_ms, 86400000);
    assert_int_equal(c.idempotency_keys, 4000000);
    assert_true(c.auto_create);
    assert_false(c.test_clock);
    assert_int_equal(c.workers_silent_ms, 60000);
    assert_int_equal(c.label_count, 3);
    assert_string_equal(c.labels[0].name, "high");
    assert_int_equal(c.labels[0].priority, 10);
    assert_int_equal(c.labels[2].priority, -10);
    assert_int_equal(c.redis.health_check_ms, 2000);
    config_done(&c);
}

/* ---- the file ---- */

static void a_file_sets_every_kind(void **state)
{
    (void)state;
    struct config c;
    must_load_text("# a comment\n"
                   "listen: [\"127.0.0.1:0\", unix:/run/holdfast.sock]\n"
                   "data: '/var/lib/with space'\n"
                   "hosts:\n  - queue.example\n  - '[::1]'\n"
                   "origins: https://app.example:8443\n"
                   "test_clock: yes\n"
                   "log.level: debug\n"
                   "limits:\n  body_bytes: 1048576\n  head_bytes: 64 KiB\n"
                   "timeouts:\n"
                   "idempotency: {ttl_ms: 1.5h, keys: 10}\n"
                   "queue_defaults:\n"
                   "  backoff_ms: [1s, 5000, 1m]\n"
                   "  lease_end: requeue_counted\n"
                   "  unique_mode: replace\n"
                   "  priority: -3\n"
                   "  keep_done: all\n"
                   "  keep_done_ms: null\n"
                   "  keep_dead: 0\n"
                   "  capacity: none\n"
                   "  unique_scope: none\n"
                   "  ranked: true\n"
                   "  enqueue_rate: 5/1m/group\n",
                   &c);
    assert_value(&c, "listen", "[\"127.0.0.1:0\", \"unix:/run/holdfast.sock\"]");
    assert_string_equal(c.data, "/var/lib/with space");
    assert_string_equal(c.backend_url, "sqlite:/var/lib/with space");
    assert_value(&c, "hosts", "[\"queue.example\", \"[::1]\"]");
    assert_value(&c, "origins", "[\"https://app.example:8443\"]");
    assert_true(c.test_clock);
    assert_int_equal(c.log_level, LOG_DEBUG);
    assert_int_equal(c.limits.body_bytes, 1 << 20);
    assert_int_equal(c.limits.head_bytes, 64 << 10);
    assert_int_equal(c.idempotency_ttl_ms, 5400000);
    assert_int_equal(c.queue_defaults.backoff.kind, BACKOFF_LIST);
    assert_int_equal(c.queue_defaults.backoff.step_count, 3);
    assert_int_equal(c.queue_defaults.backoff.step_ms[2], 60000);
    assert_int_equal(c.queue_defaults.lease_end, LEASE_END_COUNTED);
    assert_int_equal(c.queue_defaults.unique_mode, UNIQUE_REPLACE);
    assert_int_equal(c.queue_defaults.priority, -3);
    assert_true(c.queue_defaults.keep_done == UINT64_MAX);
    assert_true(c.queue_defaults.keep_done_ms == INT64_MAX);
    assert_int_equal(c.queue_defaults.keep_dead, 0);
    assert_true(c.queue_defaults.capacity == UINT64_MAX);
    assert_int_equal(c.queue_defaults.unique_scope, UNIQUE_NONE);
    assert_true(c.queue_defaults.ranked);
    assert_int_equal(c.queue_defaults.enqueue_rate.per, RATE_GROUP);
    assert_int_equal(c.queue_defaults.enqueue_rate.count, 5);
    assert_int_equal(c.queue_defaults.enqueue_rate.window_ms, 60000);
    assert_value(&c, "queue_defaults.capacity", "none");
    assert_value(&c, "queue_defaults.enqueue_rate", "5/1m/group");
    config_done(&c);
    must_load_text("queue_defaults: {enqueue_rate: ~, capacity: null}\n", &c);
    assert_int_equal(c.queue_defaults.enqueue_rate.count, 0);
    assert_true(c.queue_defaults.capacity == UINT64_MAX);
    assert_value(&c, "queue_defaults.enqueue_rate", "none");
    config_done(&c);
}

static const struct {
    const char *yaml;
    const char *said;
} wrong_files[] = {
    {"data: x\n\nlimit:\n  body_bytes: 1\n",
     "test.yaml:3: 'limit' is not a setting; did you mean 'limits'?"},
    {"flarp: 1\n", "test.yaml:1: 'flarp' is not a setting; `holdfast help config` lists them"},
    {"limits:\n  bodybytes: 1\n",
     "test.yaml:2: 'limits.bodybytes' is not a setting; did you mean 'limits.body_bytes'?"},
    {"body_bytes: 1\n", "'body_bytes' is not a setting; did you mean 'limits.body_bytes'?"},
    {"lisen: a\n", "test.yaml:1: 'lisen' is not a setting; did you mean 'listen'?"},
    {"queue_defaults:\n  backof_jitter_percent: 4\n",
     "did you mean 'queue_defaults.backoff_jitter_percent'?"},
    {"<<: {data: x}\n", "'<<' is not a setting"},
    {"data: a\ndata: b\n", "test.yaml:2: data is set twice; the other one is in line 1"},
    {"limits: {pipeline: 1}\nlimits: {connections: 1}\n",
     "test.yaml:2: 'limits' is set twice; the other one is in line 1"},
    {"limits.pipeline: 1\nlimits:\n  pipeline: 2\n",
     "test.yaml:3: limits.pipeline is set twice; the other one is in line 1"},
    {"capacity: 5\nqueue_settings: {max_in_memory: 6}\n",
     "test.yaml:2: queue_settings.max_in_memory cannot be combined with capacity"},
    {"queue_defaults: {backoff_ms: [1], backoff_base_ms: 5}\n",
     "queue_defaults.backoff_base_ms cannot be combined with queue_defaults.backoff_ms"},
    {"node: 4096\n", "test.yaml:1: node is '4096'; it must be a whole number, from 0 to 4095"},
    {"node: -1\n", "node is '-1'; it must be a whole number, from 0 to 4095"},
    {"node: 1.0\n", "node is '1.0'; it must be a whole number"},
    {"node: 0x10\n", "node is '0x10'; it must be a whole number"},
    {"node: 010\n", "node is '010'; it must be a whole number"},
    {"node: [1]\n", "node is a list; it must be a whole number"},
    {"node: {a: 1}\n", "node is a map; it must be a whole number"},
    {"node:\n", "test.yaml:1: node has no value; it must be a whole number"},
    {"cache_bytes: 64M\n", "cache_bytes is '64M'; it must be bytes, such as 65536, 512KiB"},
    {"cache_bytes: 1023KiB\n", "from 1MiB to 1TiB"},
    {"cache_bytes: all\n", "cache_bytes is 'all'"},
    {"timeouts: {head_ms: 5 parsecs}\n", "timeouts.head_ms is '5 parsecs'; it must be millisec"},
    {"test_clock: maybe\n", "test_clock is 'maybe'; it must be true or false"},
    {"log: {format: xml}\n", "log.format is 'xml'; it must be one of text|json"},
    {"log: text\n", "'log' is a section; it must be a map of settings"},
    {"log: [text]\n", "'log' is a section; it must be a map of settings"},
    {"data: ''\n", "data is ''; it must be text of 1 to 4096 bytes"},
    {"data: \"a\\nb\"\n", "data is 'a?b'; it must be text of 1 to 4096 bytes, without control"},
    {"data: \"a\\0b\"\n", "data is 'a?b'; it must be text"},
    {"data: \"a\\x9bb\"\n", "data is 'a?b'; it must be text"},
    {"listen: []\n", "listen is '[…]'; it must be a list of 1 to 64 texts"},
    {"listen: ['']\n", "listen is ''; it must be a list of 1 to 64 texts, none empty"},
    {"listen: [[a]]\n", "listen contains a list or a map"},
    {"listen: [~]\n", "listen contains an item without a value"},
    {"listen: ['localhost:1', here]\n", "cannot listen on \"here\": give HOST:PORT"},
    {"listen: ['0.0.0.0:80']\n", "only loopback addresses are allowed"},
    {"listen: ['https://0.0.0.0:80']\ntls: {cert: a, key: b}\n",
     "only loopback addresses are allowed"},
    {"listen: ['https://127.0.0.1:80']\n", "set tls.cert and tls.key (--tls-cert, --tls-key)"},
    {"beanstalk: {listen: ['beanstalks://127.0.0.1:80']}\n", "TLS needs a certificate"},
    {"beanstalk: {listen: ['https://127.0.0.1:80']}\ntls: {cert: a, key: b}\n", "cannot listen on"},
    {"tls: {cert: a}\n", "tls.cert is set and tls.key is empty"},
    {"tls: {key: a}\n", "tls.key is set and tls.cert is empty"},
    {"tls: {client_ca: a}\n", "tls.client_ca is set and tls.cert is empty"},
    {"origins: ['*']\n", "origins has '*'; an origin is http:// or https://"},
    {"origins: [https://a.example/]\n", "origins has 'https://a.example/'"},
    {"hosts: [a.example:80]\n", "hosts has 'a.example:80'; it must be a name or an address"},
    {"limits: {body_bytes: 65MiB}\n",
     "limits.large_body_bytes is 64MiB; it must not be less than limits.body_bytes, which is 65M"},
    {"limits: {uri_bytes: 33KiB}\n", "limits.head_bytes is 32KiB; it must not be less"},
    {"queue_defaults: {lease_ms: 99}\n", "queue_defaults.lease_ms is '99'; it must be millisec"},
    {"queue_defaults: {capacity: all}\n",
     "queue_defaults.capacity is 'all'; it must be a whole number, 1 or more, or none"},
    {"queue_defaults: {enqueue_rate: 5}\n",
     "queue_defaults.enqueue_rate is '5'; it must be none, or N/DURATION such as 100/1m"},
    {"queue_defaults: {enqueue_rate: 5/s/job}\n", "(one of queue|group|correlation_id)"},
    {"queue_defaults: {enqueue_rate: {count: 5}}\n",
     "queue_defaults.enqueue_rate is a map; it must be none, or N/DURATION"},
    {"queue_defaults: {rate_limit: 5}\n", "'queue_defaults.rate_limit' is not a setting"},
    {"queue_defaults: {backoff_max_ms: 999}\n",
     "queue_defaults: backoff.base_ms is 1000; it must not be more than backoff.max_ms"},
    {"queue_defaults: {backoff_ms: [1, x]}\n",
     "queue_defaults.backoff_ms is 'x'; it must be a list of at most 32 waits"},
    {"queue_defaults: {backoff_ms: [31d]}\n", "each at most 30d"},
    {"queue_settings: {priorities: {high: x}}\n",
     "queue_settings.priorities is 'high'; it must be a map of at most 100 labels"},
    {"queue_settings: {priorities: {a: 1, a: 2}}\n", "queue_settings.priorities is 'a'"},
    {"queue_settings: {priorities: [a]}\n",
     "queue_settings.priorities is a list; it must be a map"},
    {"queue_settings: {priorities: high}\n", "queue_settings.priorities is 'high'; it must be a"},
    {"queue_settings: {priorities: {a: {b: 1}}}\n", "contains a list or a map"},
    {"queue_settings: {use_redis: true}\n",
     "queue_settings.redis_url (REDIS_URL) is empty; it must be redis://HOST"},
    {"queue_settings: {use_redis: true, redis_url: 'redis://h'}\nbackend: 'memory:'\n",
     "backend cannot be combined with queue_settings.use_redis"},
    {"queue_settings: {use_redis: true, redis_url: 'redis://h'}\nfailover: {primary: "
     "'redis://i'}\n",
     "queue_settings.use_redis cannot be combined with failover.primary"},
    {"failover: {primary: 'redis://i'}\nbackend: 'memory:'\n",
     "backend cannot be combined with failover.primary"},
    {"failover: {alert_url: 'https://hooks.example/in'}\n",
     "failover.alert_url needs failover.primary or queue_settings.use_redis"},
    {"failover: {primary: 'redis://i', alert_url: 'ftp://x/'}\n",
     "failover.alert_url: url must begin with http:// or https://"},
    {"data: &a x\n", "test.yaml:1: anchors (&), aliases (*) and tags (!) are not allowed"},
    {"data: *a\n", "aliases (*)"},
    {"data: !!str x\n", "tags (!)"},
    {"limits: !x\n  pipeline: 1\n", "tags (!)"},
    {"listen: &a [x]\n", "anchors (&)"},
    {"data: x\n---\nnode: 1\n", "test.yaml:2: a second document begins here"},
    {"---\n---\n", "a second document begins here"},
    {"- data\n", "test.yaml:1: the file must be a map of settings"},
    {"just words\n", "test.yaml:1: the file must be a map of settings"},
    {"[a]: b\n", "test.yaml:1: the name of a setting must be a word"},
    {"listen: [\n", "not valid YAML"},
    {"data: 'x\n", "not valid YAML"},
    {"data: b: c\n", "test.yaml:1: not valid YAML"},
    {"data: \xff\n", "it must be UTF-8 text"},
    {"\tdata: x\n", "test.yaml:1: not valid YAML"},
};

static void wrong_files_are_explained(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong_files / sizeof wrong_files[0]; i++) {
        struct config c;
        struct err_note note = {""};
        memset(&c, 0x5a, sizeof c);
        int err = config_load_text(span_text(wrong_files[i].yaml), "test.yaml", &c, &note);
        if (err >= 0 || !strstr(note.text, wrong_files[i].said))
            fail_msg("%s gave %d: %s", wrong_files[i].yaml, err, note.text);
        assert_int_equal(c.source[0], 0x5a);
    }
}

static void harmless_files_are_taken(void **state)
{
    (void)state;
    static const char *const files[] = {
        "",
        "# only a comment\n",
        "---\n",
        "--- {}\n...\n",
        "%YAML 1.1\n---\nnode: 1\n",
        "limits:\nlog: ~\n",
        "\xef\xbb\xbfnode: 1\n",
        "node: 1",
        "node: 1\r\ndata: x\r\n",
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct config c;
        must_load_text(files[i], &c);
        config_done(&c);
    }
}

static void the_size_of_a_file_is_bounded(void **state)
{
    (void)state;
    struct config c;
    struct err_note note = {""};
    char *text = malloc(CONFIG_FILE_BYTES_MAX + 1);
    assert_non_null(text);
    memset(text, '\n', CONFIG_FILE_BYTES_MAX + 1);
    assert_int_equal(config_load_text(span_of(text, CONFIG_FILE_BYTES_MAX), "t", &c, &note), 0);
    config_done(&c);
    assert_int_equal(config_load_text(span_of(text, CONFIG_FILE_BYTES_MAX + 1), "t", &c, &note),
                     -ERR_TOO_BIG);
    assert_string_equal(note.text, "t is larger than 1 MiB");
    free(text);
}

/* ---- all sources ---- */

struct call {
    struct config_sources sources;
    struct arguments args;
    char path[64];
};

/* file: its bytes, or NULL; flags: NULL-terminated. */
static void call_begin(struct call *call, const char *file, const char *const *env,
                       const char *const *flags)
{
    char *argv[WORDS_MAX + 1] = {(char[]){"serve"}};
    int argc = 1;
    for (; flags[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)flags[argc - 1];
    assert_int_equal(options_parse(config_flags, CONFIG_FLAGS, argc, argv, &call->args, NULL), 0);
    call->sources = (struct config_sources){.env = env, .flags = &call->args};
    call->path[0] = '\0';
    if (file) {
        snprintf(call->path, sizeof call->path, "/tmp/holdfast-test-config-XXXXXX");
        int fd = mkstemp(call->path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, file, strlen(file)), strlen(file));
        close(fd);
        call->sources.file = call->path;
    }
}

static int call_end(struct call *call, struct config *ret, struct err_note *note)
{
    int err = config_load(&call->sources, ret, note);
    arguments_done(&call->args);
    if (call->path[0])
        unlink(call->path);
    return err;
}

#define LIST(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void flags_precede_environment_file_and_default(void **state)
{
    (void)state;
    struct call call;
    struct config c;
    struct err_note note = {""};
    call_begin(&call, "data: file\nnode: 1\nlimits: {pipeline: 2, connections: 3}\nhosts: [f]\n",
               LIST("HOME=/", "HOLDFAST_NODE=11", "HOLDFAST_LIMITS_PIPELINE=12",
                    "HOLDFAST_HOSTS=a, b", "HOLDFAST_LISTEN=x:1"),
               LIST("--node", "21", "--listen", "[::1]:1", "--listen=localhost:1,localhost:2",
                    "--test-clock", "--auto-create=false", "--queue-defaults-keep-dead", "all"));
    if (call_end(&call, &c, &note) < 0)
        fail_msg("%s", note.text);
    assert_string_equal(c.data, "file");
    assert_int_equal(c.node, 21);
    assert_int_equal(c.limits.pipeline, 12);
    assert_int_equal(c.limits.connections, 3);
    assert_value(&c, "hosts", "[\"a\", \"b\"]");
    assert_value(&c, "listen", "[\"[::1]:1\", \"localhost:1\", \"localhost:2\"]");
    assert_true(c.test_clock);
    assert_false(c.auto_create);
    assert_true(c.queue_defaults.keep_dead == UINT64_MAX);
    char *text = printed(&c);
    assert_non_null(strstr(text, "\nnode: 21                                     # flag\n"));
    assert_non_null(strstr(text, "\n  pipeline: 12                               # environment\n"));
    assert_non_null(
        strstr(text, "\n  connections: 3                             # file, line 3\n"));
    assert_non_null(strstr(text, "\n  head_bytes: 32KiB                          # default\n"));
    free(text);
    config_done(&c);
}

static void a_higher_source_replaces_the_other_back_off(void **state)
{
    (void)state;
    struct call call;
    struct config c;
    call_begin(&call, "queue_defaults: {backoff_ms: [1, 2]}\ncapacity: 7\n",
               LIST("HOLDFAST_QUEUE_DEFAULTS_BACKOFF_BASE_MS=5",
                    "HOLDFAST_QUEUE_SETTINGS_MAX_IN_MEMORY=8"),
               LIST());
    assert_int_equal(call_end(&call, &c, NULL), 0);
    assert_int_equal(c.queue_defaults.backoff.kind, BACKOFF_EXPONENTIAL);
    assert_int_equal(c.queue_defaults.backoff.base_ms, 5);
    assert_int_equal(c.capacity, 8);
    config_done(&c);
    call_begin(&call, "queue_defaults: {backoff_base_ms: 1}\n", LIST(),
               LIST("--queue-defaults-backoff-ms", ""));
    assert_int_equal(call_end(&call, &c, NULL), 0);
    assert_int_equal(c.queue_defaults.backoff.kind, BACKOFF_LIST);
    assert_int_equal(c.queue_defaults.backoff.step_count, 0);
    config_done(&c);
}

static const struct {
    const char *env;
    const char *flag;
    const char *said;
} wrong_texts[] = {
    {"HOLDFAST_NODE=x", NULL, "HOLDFAST_NODE is 'x'; it must be a whole number"},
    {"HOLDFAST_NODE=", NULL, "HOLDFAST_NODE is ''; it must be a whole number"},
    {"HOLDFAST_DTA=x", NULL,
     "'HOLDFAST_DTA', which is not a setting; did you mean 'HOLDFAST_DATA'?"},
    {"HOLDFAST_FLARP=x", NULL, "'HOLDFAST_FLARP', which is not a setting; `holdfast help config`"},
    {"HOLDFAST_LISTEN=a:1,", NULL, "HOLDFAST_LISTEN is ''; it must be a list"},
    {"HOLDFAST_LISTEN=", NULL, "HOLDFAST_LISTEN is '[…]'; it must be a list of 1 to 64"},
    {"HOLDFAST_QUEUE_SETTINGS_PRIORITIES=high=0,low", NULL, "is 'low'; it must be a map"},
    {"HOLDFAST_DATA=a\033b", NULL, "HOLDFAST_DATA is 'a?b'; it must be text"},
    {"USE_REDIS_QUEUE=true", NULL,
     "queue_settings.redis_url (REDIS_URL) is empty; it must be redis://HOST"},
    {"USE_REDIS_QUEUE=2", NULL, "USE_REDIS_QUEUE is '2'; it must be true or false"},
    {"REDIS_HEALTH_CHECK_TIMEOUT=soon", NULL, "REDIS_HEALTH_CHECK_TIMEOUT is 'soon'; it must be"},
    {NULL, "--node=4096", "--node is '4096'; it must be a whole number, from 0 to 4095"},
    {NULL, "--limits-body-bytes=2M", "--limits-body-bytes is '2M'; it must be bytes"},
    {NULL, "--queue-defaults-backoff-ms=1s,,2s", "--queue-defaults-backoff-ms is ''"},
};

static void wrong_texts_are_explained(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong_texts / sizeof wrong_texts[0]; i++) {
        struct call call;
        struct config c;
        struct err_note note = {""};
        call_begin(&call, NULL, LIST(wrong_texts[i].env), LIST(wrong_texts[i].flag));
        assert_int_equal(call_end(&call, &c, &note), -ERR_INVALID);
        if (!strstr(note.text, wrong_texts[i].said))
            fail_msg("case %zu said: %s", i, note.text);
    }
}

static void foreign_variables_are_left_alone(void **state)
{
    (void)state;
    struct call call;
    struct config c;
    call_begin(&call, NULL,
               LIST("HOLDFAST_SERVER=http://x", "HOLDFAST_SERVICE_HOST=10.0.0.1",
                    "HOLDFAST_PORT=tcp://10.0.0.1:8000", "HOLDFAST_PORT_8000_TCP_PROTO=tcp",
                    "HOLDFASTEN=1", "holdfast_data=x", "NOEQUALS"),
               LIST());
    assert_int_equal(call_end(&call, &c, NULL), 0);
    assert_string_equal(c.data, "./holdfast-data");
    config_done(&c);
}

static void the_file_can_be_named_in_the_environment(void **state)
{
    (void)state;
    struct call call;
    struct config c;
    char variable[100];
    struct err_note note = {""};
    call_begin(&call, "node: 5\n", LIST(), LIST());
    snprintf(variable, sizeof variable, "HOLDFAST_CONFIG=%s", call.path);
    const char *env[] = {variable, NULL};
    call.sources.env = env;
    call.sources.file = NULL;
    assert_int_equal(call_end(&call, &c, NULL), 0);
    assert_int_equal(c.node, 5);
    config_done(&c);

    struct config_sources sources = {.file = call.path}; /* gone by now */
    assert_int_equal(config_load(&sources, &c, &note), -ERR_NOT_FOUND);
    assert_non_null(strstr(note.text, "cannot read the configuration /tmp/holdfast-test-config"));
    sources.file = "/tmp";
    assert_int_equal(config_load(&sources, &c, &note), -ERR_IO);
    assert_non_null(strstr(note.text, "/tmp: Is a directory"));
}

/* ---- PDQ-1 ---- */

static const char document[] = "queue_settings:\n"
                               "  priorities:\n"
                               "    high: 0\n"
                               "    normal: 5\n"
                               "    low: 10\n"
                               "  max_in_memory: 10000\n"
                               "  warn_depth: 5000\n"
                               "  use_redis: false\n"
                               "  redis_url: redis://hostname:6379/0\n"
                               "  redis_ready_key: affiliate:ready_queue\n"
                               "  redis_scheduled_key: affiliate:scheduled_jobs\n"
                               "  redis_health_check_timeout: 2.0\n";

static void pdq_1_the_block_is_taken_as_printed(void **state)
{
    (void)state;
    struct config c;
    must_load_text(document, &c);
    assert_int_equal(c.label_count, 3);
    assert_string_equal(c.labels[0].name, "high");
    assert_string_equal(c.labels[1].name, "normal");
    assert_string_equal(c.labels[2].name, "low");
    /* High first, here where higher is first. */
    assert_true(c.labels[0].priority > c.labels[1].priority);
    assert_true(c.labels[1].priority > c.labels[2].priority);
    assert_int_equal(c.labels[2].priority, -10);
    /* Jobs that say nothing are normal, as in the document. */
    assert_int_equal(c.queue_defaults.priority, -5);
    assert_int_equal(c.capacity, 10000);
    assert_int_equal(c.queue_defaults.warn_depth, 5000);
    assert_false(c.redis.use);
    assert_string_equal(c.redis.url, "redis://hostname:6379/0");
    assert_string_equal(c.redis.ready_key, "affiliate:ready_queue");
    assert_string_equal(c.redis.scheduled_key, "affiliate:scheduled_jobs");
    assert_int_equal(c.redis.health_check_ms, 2000);
    config_done(&c);
}

/* The document prints the name of the block in upper case. */
static void pdq_1_the_block_may_be_in_upper_case(void **state)
{
    (void)state;
    struct config c;
    must_load_text("QUEUE_SETTINGS: {max_in_memory: 6, warn_depth: 5}\n", &c);
    assert_int_equal(c.capacity, 6);
    assert_int_equal(c.queue_defaults.warn_depth, 5);
    config_done(&c);
}

static void pdq_1_a_stated_default_priority_stays(void **state)
{
    (void)state;
    struct config c;
    must_load_text("queue_settings: {priorities: {normal: 5}}\nqueue_defaults: {priority: 3}\n",
                   &c);
    assert_int_equal(c.queue_defaults.priority, 3);
    config_done(&c);
    must_load_text("queue_settings: {priorities: {urgent: 1}}\n", &c);
    assert_int_equal(c.queue_defaults.priority, 0);
    assert_int_equal(c.label_count, 1);
    config_done(&c);
}

static void pdq_1_the_documents_variables_are_honoured(void **state)
{
    (void)state;
    struct call call;
    struct config c;
    call_begin(&call, document,
               LIST("USE_REDIS_QUEUE=false", "REDIS_URL=redis://other:1/2",
                    "REDIS_HEALTH_CHECK_TIMEOUT=0.5"),
               LIST("--queue-settings-priorities", "a=1, b=-2"));
    assert_int_equal(call_end(&call, &c, NULL), 0);
    assert_string_equal(c.redis.url, "redis://other:1/2");
    assert_int_equal(c.redis.health_check_ms, 500);
    assert_int_equal(c.label_count, 2);
    assert_string_equal(c.labels[1].name, "b");
    assert_int_equal(c.labels[1].priority, 2);
    config_done(&c);
}

/* ---- printing and changes ---- */

static void no_change(void *ctx, const char *key, bool reloadable)
{
    (void)ctx;
    (void)reloadable;
    fail_msg("%s differs", key);
}

static void what_is_printed_is_read_back(void **state)
{
    (void)state;
    static const char *const files[] = {
        "",
        document,
        "data: \"q\\\"uo\\\\te # no comment\"\nlisten: ['localhost:1', \"unix:b, c: {\"]\n",
        "queue_defaults: {backoff_ms: [], keep_done: all, keep_done_ms: all, priority: -9}\n",
        "queue_defaults: {backoff_ms: [1, 2s]}\nqueue_settings: {priorities: {}}\n",
        "queue_settings: {priorities: {'null': 1, 'a: b': 2, '#': 3}}\n",
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct config c;
        struct config again;
        must_load_text(files[i], &c);
        char *text = printed(&c);
        must_load_text(text, &again);
        assert_int_equal(config_diff(&c, &again, no_change, NULL), 0);
        free(text);
        config_done(&c);
        config_done(&again);
    }
}

static void secrets_are_not_shown(void **state)
{
    (void)state;
    struct config c;
    struct err_note note = {""};
    must_load_text("queue_settings: {redis_url: 'redis://me:hunter2@host:1/0'}\n"
                   "backend: 'postgres://u:hun@ter2@host/db'\n",
                   &c);
    char *text = printed(&c);
    assert_null(strstr(text, "hunter2"));
    assert_null(strstr(text, "ter2"));
    assert_non_null(strstr(text, "\"redis://***@host:1/0\""));
    assert_non_null(strstr(text, "\"postgres://***@host/db\""));
    assert_string_equal(c.backend_url, "postgres://u:hun@ter2@host/db");
    free(text);
    config_done(&c);
    assert_true(config_load_text(span_text("backend: \"x://a:hunter2@h\\n\"\n"), "t", &c, &note) <
                0);
    assert_null(strstr(note.text, "hunter2"));
}

struct changes {
    char text[400];
};

static void change_cb(void *ctx, const char *key, bool reloadable)
{
    struct changes *changes = ctx;
    size_t len = strlen(changes->text);
    snprintf(changes->text + len, sizeof changes->text - len, "%s%s ", key, reloadable ? "+" : "-");
}

static void changes_are_told_with_what_can_be_reloaded(void **state)
{
    (void)state;
    struct config from;
    struct config to;
    struct changes changes = {""};
    must_load_text("log: {level: info}\nqueue_settings: {redis_url: 'redis://a:b@c'}\n", &from);
    must_load_text("log: {level: warn}\ncapacity: 4\nqueue_settings: {redis_url: 'redis://a:x@c'}\n"
                   "queue_defaults: {backoff_ms: []}\n",
                   &to);
    assert_int_equal(config_diff(&from, &to, change_cb, &changes), 0);
    assert_string_equal(changes.text, "capacity- log.level+ queue_defaults.backoff_ms- "
                                      "queue_settings.redis_url- ");
    config_done(&from);
    config_done(&to);
}

static void lack_of_memory_is_an_error_and_no_leak(void **state)
{
    (void)state;
    struct config c;
    int err = -ERR_NOMEM;
    for (long nth = 1; err < 0; nth++) {
        struct err_note note = {""};
        memset(&c, 0x5a, sizeof c);
        mem_fail_at(nth, 0);
        err = config_load_text(span_text(document), "test.yaml", &c, &note);
        mem_fail_at(0, 0);
        assert_true(err == 0 || (err == -ERR_NOMEM && note.text[0] && c.source[0] == 0x5a));
        assert_true(nth < 1000);
    }
    config_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_sound),
        cmocka_unit_test(rows_of_a_section_stand_together),
        cmocka_unit_test(defaults_are_what_is_promised),
        cmocka_unit_test(a_file_sets_every_kind),
        cmocka_unit_test(wrong_files_are_explained),
        cmocka_unit_test(harmless_files_are_taken),
        cmocka_unit_test(the_size_of_a_file_is_bounded),
        cmocka_unit_test(flags_precede_environment_file_and_default),
        cmocka_unit_test(a_higher_source_replaces_the_other_back_off),
        cmocka_unit_test(wrong_texts_are_explained),
        cmocka_unit_test(foreign_variables_are_left_alone),
        cmocka_unit_test(the_file_can_be_named_in_the_environment),
        cmocka_unit_test(pdq_1_the_block_is_taken_as_printed),
        cmocka_unit_test(pdq_1_the_block_may_be_in_upper_case),
        cmocka_unit_test(pdq_1_a_stated_default_priority_stays),
        cmocka_unit_test(pdq_1_the_documents_variables_are_honoured),
        cmocka_unit_test(what_is_printed_is_read_back),
        cmocka_unit_test(secrets_are_not_shown),
        cmocka_unit_test(changes_are_told_with_what_can_be_reloaded),
        cmocka_unit_test(lack_of_memory_is_an_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
