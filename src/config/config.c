/* SPDX-License-Identifier: Apache-2.0 */
/* Combines the sources in order of precedence, and checks the result. */
#include "config/config.h"

#include <stdio.h>

#include "api/api.h"
#include "api/beanstalk/beanstalk.h"
#include "base/suggest.h"
#include "config/table.h"
#include "core/alerts/webhook.h"
#include "http/server.h"
#include "net/net.h"

/* ---- values as one text: defaults, environment, flags ---- */

struct items {
    struct span at[CONFIG_ITEMS_MAX];
    size_t count;
};

static struct span trimmed(struct span s)
{
    while (s.len > 0 && s.at[0] == ' ') {
        s.at++;
        s.len--;
    }
    while (s.len > 0 && s.at[s.len - 1] == ' ')
        s.len--;
    return s;
}

static bool item_add(struct items *items, struct span item)
{
    if (items->count == CONFIG_ITEMS_MAX)
        return false;
    items->at[items->count++] = trimmed(item);
    return true;
}

/* "high=0" gives two items; without the sign one, which is refused later. */
static bool label_add(struct items *items, struct span item)
{
    const char *sign = memchr(item.at, '=', item.len);
    if (!sign)
        return item_add(items, item);
    size_t name = (size_t)(sign - item.at);
    return item_add(items, span_of(item.at, name)) &&
           item_add(items, span_of(sign + 1, item.len - name - 1));
}

/* Adds the items of a text: the whole text, or for lists the parts between commas; an empty text
 * is an empty list. false: too many. */
static bool text_split(const struct config_key *k, const char *text, struct items *items)
{
    if (!config_takes_list(k))
        return item_add(items, span_text(text));
    while (*text) {
        size_t len = strcspn(text, ",");
        struct span item = span_of(text, len);
        if (!(k->kind == CONFIG_LABELS ? label_add(items, item) : item_add(items, item)))
            return false;
        text += len;
        if (*text == ',' && *++text == '\0') /* "a," has an empty second item */
            return item_add(items, span_of("", 0));
    }
    return true;
}

static int items_set(struct config *c, const struct config_key *k, enum config_source source,
                     const char *subject, const struct items *items, struct err_note *note)
{
    struct config_given given = {
        .source = source, .subject = subject, .items = items->at, .count = items->count};
    return config_set(c, k, &given, note);
}

static int too_many(const char *subject, struct err_note *note)
{
    return err_note_set(note, -ERR_INVALID, "%s has too many items; at most %d are allowed",
                        subject, CONFIG_ITEMS_MAX);
}

static int text_set(struct config *c, const struct config_key *k, enum config_source source,
                    const char *subject, const char *text, struct err_note *note)
{
    struct items items = {.count = 0};
    if (!text_split(k, text, &items))
        return too_many(subject, note);
    return items_set(c, k, source, subject, &items, note);
}

/* ---- defaults ---- */

static int defaults_set(struct config *c, struct err_note *note)
{
    int err = 0;
    policy_default(&c->queue_defaults);
    for (size_t i = 0; err == 0 && i < CONFIG_KEYS; i++) {
        const struct config_key *k = &config_keys[i];
        if (k->def)
            err = text_set(c, k, CONFIG_DEFAULT, k->key, k->def, note);
    }
    return err;
}

/* ---- environment ---- */

enum { ENV_PREFIX = sizeof "HOLDFAST_" - 1 };

/* Names that other programs of the same kind use; in addition every row has its HOLDFAST_ name. */
static const struct {
    const char *name;
    const char *key;
} other_env[] = {
    {"USE_REDIS_QUEUE", "queue_settings.use_redis"},
    {"REDIS_URL", "queue_settings.redis_url"},
    {"REDIS_HEALTH_CHECK_TIMEOUT", "queue_settings.redis_health_check_timeout"},
};

/* Variables of Holdfast that are not settings, and those that Kubernetes sets for a service
 * named holdfast. */
static const char *const no_settings[] = {
    "HOLDFAST_CONFIG",     "HOLDFAST_SERVER", "HOLDFAST_CACERT", "HOLDFAST_CLIENT_CERT",
    "HOLDFAST_CLIENT_KEY", "HOLDFAST_PORT",   "HOLDFAST_PORT_*", "HOLDFAST_SERVICE_*"};

static const char *env_get(const char *const *env, const char *name)
{
    size_t len = strlen(name);
    for (; env && *env; env++) {
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    }
    return NULL;
}

static bool is_no_setting(struct span name)
{
    for (size_t i = 0; i < sizeof no_settings / sizeof no_settings[0]; i++) {
        size_t len = strcspn(no_settings[i], "*");
        bool prefix = no_settings[i][len] == '*';
        if ((prefix ? name.len > len : name.len == len) &&
            memcmp(no_settings[i], name.at, len) == 0)
            return true;
    }
    return false;
}

/* An unknown variable that begins with HOLDFAST_. The common prefix is ignored when the nearest
 * name is searched. */
static int env_unknown(struct span name, struct err_note *note)
{
    char names[CONFIG_KEYS][CONFIG_ENV_MAX];
    const char *list[CONFIG_KEYS];
    char typed[CONFIG_ENV_MAX] = "";
    char shown[QUOTED_MAX];
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        list[i] = config_env_name(&config_keys[i], names[i]) + ENV_PREFIX;
        if (span_equal(span_text(names[i]), name))
            return 0;
    }
    size_t len = name.len - ENV_PREFIX;
    memcpy(typed, name.at + ENV_PREFIX, len < sizeof typed ? len : sizeof typed - 1);
    const char *near = suggest_nearest(typed, list, CONFIG_KEYS);
    quoted(name, shown);
    if (near)
        return err_note_set(
            note, -ERR_INVALID,
            "the environment has %s, which is not a setting; did you mean 'HOLDFAST_%s'?", shown,
            near);
    return err_note_set(
        note, -ERR_INVALID,
        "the environment has %s, which is not a setting; `holdfast help config` lists them", shown);
}

static int env_check(const char *const *env, struct err_note *note)
{
    int err = 0;
    for (; err == 0 && env && *env; env++) {
        struct span name = span_of(*env, strcspn(*env, "="));
        if (strncmp(*env, "HOLDFAST_", ENV_PREFIX) == 0 && !is_no_setting(name))
            err = env_unknown(name, note);
    }
    return err;
}

static int env_set(struct config *c, const char *const *env, struct err_note *note)
{
    int err = env_check(env, note);
    for (size_t i = 0; err == 0 && i < CONFIG_KEYS; i++) {
        char name[CONFIG_ENV_MAX];
        const char *value = env_get(env, config_env_name(&config_keys[i], name));
        if (value)
            err = text_set(c, &config_keys[i], CONFIG_ENV, name, value, note);
    }
    for (size_t i = 0; err == 0 && i < sizeof other_env / sizeof other_env[0]; i++) {
        const char *value = env_get(env, other_env[i].name);
        if (value)
            err = text_set(c, config_key_find(span_text(other_env[i].key)), CONFIG_ENV,
                           other_env[i].name, value, note);
    }
    return err;
}

/* ---- flags ---- */

/* Each time a list's flag is given adds to the list. */
static int flag_set(struct config *c, const struct config_key *k, const char *name,
                    const struct arguments *flags, struct err_note *note)
{
    char subject[OPTION_NAME_MAX + 2] = "--";
    struct items items = {.count = 0};
    size_t at = 0;
    const char *value;
    option_name(&(struct option){.name = name}, subject + 2);
    if (k->kind != CONFIG_LIST)
        return text_set(c, k, CONFIG_FLAG, subject, arguments_text(flags, name, ""), note);
    while ((value = arguments_next(flags, name, &at))) {
        if (!text_split(k, value, &items))
            return too_many(subject, note);
    }
    return items_set(c, k, CONFIG_FLAG, subject, &items, note);
}

static int flags_set(struct config *c, const struct arguments *flags, struct err_note *note)
{
    int err = 0;
    for (size_t i = 0; err == 0 && flags && i < CONFIG_KEYS; i++) {
        if (arguments_has(flags, config_keys[i].key))
            err = flag_set(c, &config_keys[i], config_keys[i].key, flags, note);
    }
    if (err == 0 && flags && arguments_has(flags, "beanstalk"))
        err = flag_set(c, config_key_find(SPAN_LITERAL("beanstalk.listen")), "beanstalk", flags,
                       note);
    return err;
}

/* ---- the whole ---- */

/* Checked here and not when the sockets are opened: by then a store has been created and
 * recovered. */
static int address_check(const struct config *c, const char *address,
                         const struct net_schemes *schemes, struct err_note *note)
{
    enum net_address_kind kind;
    int err = net_address_check(address, schemes, &kind, note);
    if (err || kind != NET_ADDRESS_TLS || *c->tls.cert)
        return err;
    return err_note_set(note, -ERR_INVALID,
                        "cannot listen on \"%.100s\": TLS needs a certificate and its key; set "
                        "tls.cert and tls.key (--tls-cert, --tls-key)",
                        address);
}

static int tls_check(const struct config *c, struct err_note *note)
{
    if (*c->tls.cert && !*c->tls.key)
        return err_note_set(note, -ERR_INVALID,
                            "tls.cert is set and tls.key is empty; set both or neither");
    if (!*c->tls.cert && (*c->tls.key || *c->tls.client_ca))
        return err_note_set(note, -ERR_INVALID,
                            "%s is set and tls.cert is empty; set tls.cert, too",
                            *c->tls.key ? "tls.key" : "tls.client_ca");
    return 0;
}

const char *config_address(const struct config *c, const char *address,
                           const struct net_schemes *schemes, char out[CONFIG_ADDRESS_MAX])
{
    enum net_address_kind kind;
    int err = net_address_check(address, schemes, &kind, NULL);
    if (err || kind != NET_ADDRESS_BARE || !*c->tls.cert)
        return address;
    snprintf(out, CONFIG_ADDRESS_MAX, "%s%s", schemes->tls, address);
    return out;
}

static int listen_check(const struct config *c, struct err_note *note)
{
    const struct config_list *bs = &c->beanstalk.listen;
    int err = tls_check(c, note);
    for (size_t i = 0; i < c->listen.count && err == 0 && !config_no_http(c); i++)
        err = address_check(c, c->listen.items[i], &http_schemes, note);
    for (size_t i = 0; i < bs->count && err == 0; i++)
        err = address_check(c, bs->items[i], &beanstalk_schemes, note);
    if (err == 0 && config_no_http(c) && bs->count == 0)
        return err_note_set(note, -ERR_INVALID,
                            "listen is none and beanstalk.listen is empty: no client could reach "
                            "the server");
    return err;
}

bool config_no_http(const struct config *c)
{
    return c->listen.count == 1 && strcmp(c->listen.items[0], "none") == 0;
}

static int origins_check(const struct config *c, struct err_note *note)
{
    for (size_t i = 0; i < c->origins.count; i++) {
        const char *origin = c->origins.items[i];
        char shown[QUOTED_MAX];
        size_t scheme = strncmp(origin, "https://", 8) == 0  ? 8
                        : strncmp(origin, "http://", 7) == 0 ? 7
                                                             : 0;
        if (scheme == 0 || !origin[scheme] || strpbrk(origin + scheme, "/ *@"))
            return err_note_set(note, -ERR_INVALID,
                                "origins has %s; an origin is http:// or https://, a name and "
                                "optionally a port, without a path, such as https://app.example",
                                quoted(span_text(origin), shown));
    }
    return 0;
}

static int apis_check(const struct config *c, struct err_note *note)
{
    const char *names[64];
    size_t count = 0;
    for (; api_at(count) && count < sizeof names / sizeof *names; count++)
        names[count] = api_at(count)->name;
    for (size_t i = 0; i < c->apis.count; i++) {
        const char *name = c->apis.items[i];
        char shown[QUOTED_MAX];
        const char *near = suggest_nearest(name, names, count);
        for (size_t j = 0; j < i; j++)
            if (strcmp(name, c->apis.items[j]) == 0)
                return err_note_set(note, -ERR_INVALID, "apis has %s twice",
                                    quoted(span_text(name), shown));
        if (!api_find(name))
            return err_note_set(note, -ERR_INVALID, "apis has %s; there is no such API%s%s%s",
                                quoted(span_text(name), shown), near ? "; did you mean " : "",
                                near ? near : "", near ? "?" : "");
    }
    return 0;
}

static int hosts_check(const struct config *c, struct err_note *note)
{
    for (size_t i = 0; i < c->hosts.count; i++) {
        const char *host = c->hosts.items[i];
        char shown[QUOTED_MAX];
        if (strpbrk(host, "/ *@") || (strchr(host, ':') && host[0] != '['))
            return err_note_set(note, -ERR_INVALID,
                                "hosts has %s; it must be a name or an address without scheme, "
                                "port and path, such as queue.example",
                                quoted(span_text(host), shown));
    }
    return 0;
}

/* A body that can never fit would be refused with "try again" for ever. */
static int memory_check(const struct config *c, struct err_note *note)
{
    char first[UNITS_TEXT_MAX];
    char second[UNITS_TEXT_MAX];
    uint64_t least = c->limits.large_body_bytes + c->limits.large_body_bytes / 4 + (1 << 20);
    if (c->limits.memory_bytes == 0 || c->limits.memory_bytes >= least)
        return 0;
    return err_note_set(
        note, -ERR_INVALID,
        "limits.memory_bytes is %s; it must be at least %s, so that a body of "
        "limits.large_body_bytes fits: raise the one or lower the other, or set it to 0",
        units_text((int64_t)c->limits.memory_bytes, UNIT_BYTES, first),
        units_text((int64_t)least, UNIT_BYTES, second));
}

static int limits_check(const struct config *c, struct err_note *note)
{
    char first[UNITS_TEXT_MAX];
    char second[UNITS_TEXT_MAX];
    if (c->limits.large_body_bytes < c->limits.body_bytes)
        return err_note_set(
            note, -ERR_INVALID,
            "limits.large_body_bytes is %s; it must not be less than limits.body_bytes, which is "
            "%s",
            units_text((int64_t)c->limits.large_body_bytes, UNIT_BYTES, first),
            units_text((int64_t)c->limits.body_bytes, UNIT_BYTES, second));
    if (c->limits.head_bytes < c->limits.uri_bytes)
        return err_note_set(
            note, -ERR_INVALID,
            "limits.head_bytes is %s; it must not be less than limits.uri_bytes, which is %s",
            units_text(c->limits.head_bytes, UNIT_BYTES, first),
            units_text(c->limits.uri_bytes, UNIT_BYTES, second));
    return memory_check(c, note);
}

static int defaults_check(const struct config *c, struct err_note *note)
{
    struct err_note inner = {""};
    int err = policy_check(&c->queue_defaults, &inner);
    return err ? err_note_set(note, err, "queue_defaults: %s", inner.text) : 0;
}

static int redis_check(const struct config *c, struct err_note *note)
{
    bool named =
        strncmp(c->redis.url, "redis://", 8) == 0 || strncmp(c->redis.url, "rediss://", 9) == 0;
    if (!c->redis.use)
        return 0;
    if (!named)
        return err_note_set(note, -ERR_INVALID,
                            "queue_settings.use_redis (USE_REDIS_QUEUE) is true, but "
                            "queue_settings.redis_url (REDIS_URL) is %s; it must be redis://HOST "
                            "or rediss://HOST",
                            *c->redis.url ? "something else" : "empty");
    if (*c->failover.primary)
        return err_note_set(note, -ERR_INVALID,
                            "queue_settings.use_redis cannot be combined with failover.primary; "
                            "keep one of them");
    return 0;
}

static int failover_alert_check(const struct config *c, bool has_primary, struct err_note *note)
{
    struct webhook_url url;
    struct err_note why = {""};
    if (!*c->failover.alert_url)
        return 0;
    if (!has_primary)
        return err_note_set(note, -ERR_INVALID,
                            "failover.alert_url needs failover.primary or "
                            "queue_settings.use_redis: without failover there is nothing to "
                            "report");
    if (webhook_url_parse(span_text(c->failover.alert_url), &url, &why) != 0)
        return err_note_set(note, -ERR_INVALID, "failover.alert_url: %.200s", why.text);
    return 0;
}

static int failover_resolve(struct config *c, struct err_note *note)
{
    struct buf url;
    const char *primary = c->redis.use ? c->redis.url : c->failover.primary;
    if (failover_alert_check(c, *primary != '\0', note) != 0)
        return -ERR_INVALID;
    if (!*primary)
        return 0;
    if (*c->backend)
        return err_note_set(note, -ERR_INVALID,
                            "backend cannot be combined with %s, which says where jobs are kept; "
                            "keep one of them",
                            c->redis.use ? "queue_settings.use_redis" : "failover.primary");
    buf_init(&url);
    int err = buf_printf(&url, "sqlite:%s/spool", c->data);
    if (err == 0)
        err = (c->failover.spool_url = arena_text(&c->memory, buf_span(&url))) ? 0 : -ERR_NOMEM;
    buf_done(&url);
    c->failover.primary_url = primary;
    c->failover.timeout_ms = c->redis.use ? c->redis.health_check_ms : c->failover.health_check_ms;
    return err ? err_note_set(note, err, "no memory for the settings") : 0;
}

/* If the table of labels has "normal", jobs without a priority are normal. */
static void priority_follow(struct config *c)
{
    size_t row = config_key_index(config_key_find(SPAN_LITERAL("queue_defaults.priority")));
    for (size_t i = 0; i < c->label_count && c->source[row] == CONFIG_DEFAULT; i++) {
        if (strcmp(c->labels[i].name, "normal") == 0)
            c->queue_defaults.priority = c->labels[i].priority;
    }
}

static int backend_resolve(struct config *c, struct err_note *note)
{
    struct buf url;
    buf_init(&url);
    int err =
        *c->backend ? buf_append_text(&url, c->backend) : buf_printf(&url, "sqlite:%s", c->data);
    if (err == 0)
        err = (c->backend_url = arena_text(&c->memory, buf_span(&url))) ? 0 : -ERR_NOMEM;
    buf_done(&url);
    return err ? err_note_set(note, err, "no memory for the settings") : 0;
}

static int webhooks_check(const struct config *c, struct err_note *note)
{
    struct webhook_allow allow;
    for (size_t i = 0; i < c->webhooks.allow.count; i++)
        if (webhook_allow_parse(c->webhooks.allow.items[i], &allow, note) != 0)
            return -ERR_INVALID;
    return 0;
}

static int finish(struct config *c, struct err_note *note)
{
    int err;
    priority_follow(c);
    if ((err = redis_check(c, note)) || (err = listen_check(c, note)) ||
        (err = origins_check(c, note)) || (err = hosts_check(c, note)) ||
        (err = apis_check(c, note)) || (err = limits_check(c, note)) ||
        (err = defaults_check(c, note)) || (err = config_webqueue(c, note)) ||
        (err = config_routes(c, note)) || (err = webhooks_check(c, note)) ||
        (err = failover_resolve(c, note)))
        return err;
    return backend_resolve(c, note);
}

static int file_set(struct config *c, const char *path, struct err_note *note)
{
    struct buf text;
    buf_init(&text);
    int err = config_file_read(path, &text, note);
    if (err == 0)
        err = config_yaml(c, path, buf_span(&text), note);
    buf_done(&text);
    return err;
}

/* Passes c to *ret, or frees it. */
static int conclude(struct config *c, int err, struct config *ret)
{
    if (err < 0)
        config_done(c);
    else
        *ret = *c;
    return err;
}

int config_load(const struct config_sources *sources, struct config *ret, struct err_note *note)
{
    struct config c = {.data = NULL};
    const char *path = sources->file ? sources->file : env_get(sources->env, "HOLDFAST_CONFIG");
    arena_init(&c.memory);
    int err = defaults_set(&c, note);
    if (err == 0 && path && (*path || sources->file)) /* an empty variable counts as unset */
        err = file_set(&c, path, note);
    if (err == 0)
        err = env_set(&c, sources->env, note);
    if (err == 0)
        err = flags_set(&c, sources->flags, note);
    if (err == 0)
        err = finish(&c, note);
    return conclude(&c, err, ret);
}

int config_load_text(struct span text, const char *name, struct config *ret, struct err_note *note)
{
    struct config c = {.data = NULL};
    arena_init(&c.memory);
    int err = defaults_set(&c, note);
    if (err == 0)
        err = config_yaml(&c, name, text, note);
    if (err == 0)
        err = finish(&c, note);
    return conclude(&c, err, ret);
}

void config_done(struct config *c)
{
    arena_done(&c->memory);
    *c = (struct config){.data = NULL};
}

/* ---- changes ---- */

static int value_differs(const struct config *from, const struct config *to,
                         const struct config_key *k, bool *ret)
{
    struct buf before;
    struct buf after;
    buf_init(&before);
    buf_init(&after);
    int err = config_value(from, k, true, &before);
    if (err == 0)
        err = config_value(to, k, true, &after);
    *ret = !span_equal(buf_span(&before), buf_span(&after));
    buf_done(&before);
    buf_done(&after);
    return err;
}

int config_diff(const struct config *from, const struct config *to, config_diff_fn fn, void *ctx)
{
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        const struct config_key *k = &config_keys[i];
        bool differs = false;
        if (k->flags & CONFIG_ALIAS)
            continue;
        int err = value_differs(from, to, k, &differs);
        if (err < 0)
            return err;
        if (differs)
            fn(ctx, k->key, k->flags & CONFIG_RELOAD);
    }
    return 0;
}
