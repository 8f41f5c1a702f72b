/* SPDX-License-Identifier: Apache-2.0 */
#include "core/alerts/alert.h"

#include <stddef.h>

#include "base/digest/random.h"
#include "core/alerts/webhook.h"
#include "core/limits.h"
#include "core/validate.h"

#define BACKOFF_FIRST_MS 1000
#define BACKOFF_LAST_MS (3600 * 1000)
#define DAY_MS (24u * 3600 * 1000)

struct kind {
    bool condition;
    bool of_node; /* not about queues */
    unsigned members;
    struct alert_rule defaults; /* of those members */
};

static const struct kind kinds[ALERT_ON_COUNT] = {
    [ALERT_DEAD] = {.members = ALERT_HAS_PAYLOAD},
    [ALERT_DEEP] = {.condition = true,
                    .members = ALERT_HAS_DEPTH,
                    .defaults = {.depth = ALERT_DEPTH_DEFAULT}},
    [ALERT_ERROR_SHARE] = {.condition = true,
                           .members = ALERT_HAS_PERCENT | ALERT_HAS_WINDOW | ALERT_HAS_MIN_ENDS,
                           .defaults = {.percent = 10, .window_ms = 300000, .min_ends = 20}},
    [ALERT_NO_CLAIM] = {.condition = true,
                        .members = ALERT_HAS_AFTER,
                        .defaults = {.after_ms = 60000}},
    [ALERT_CAPACITY] = {.condition = true,
                        .members = ALERT_HAS_PERCENT,
                        .defaults = {.percent = 90}},
    [ALERT_FAILOVER] = {.condition = true, .of_node = true},
};

const char *alert_on_name(enum alert_on on)
{
    static const char *const names[ALERT_ON_COUNT] = {
#define NAME(on, number, name, separator) [on] = (name),
        ALERT_KINDS(NAME, "")
#undef NAME
    };
    return (unsigned)on < ALERT_ON_COUNT ? names[on] : NULL;
}

bool alert_is_condition(enum alert_on on)
{
    return (unsigned)on < ALERT_ON_COUNT && kinds[on].condition;
}

bool alert_is_of_node(enum alert_on on)
{
    return (unsigned)on < ALERT_ON_COUNT && kinds[on].of_node;
}

unsigned alert_members(enum alert_on on)
{
    return (unsigned)on < ALERT_ON_COUNT ? kinds[on].members : 0;
}

void alert_rule_default(enum alert_on on, struct alert_rule *ret)
{
    *ret = kinds[on].defaults;
    ret->on = (uint8_t)on;
    ret->enabled = true;
    ret->queue = SPAN_LITERAL("*");
}

/* ---- checks ---- */

struct bound {
    const char *name;
    uint64_t min, max;
    size_t offset;
    enum alert_member member;
    bool wide; /* uint64_t */
};

static const struct bound bounds[] = {
    {"depth", 0, UINT32_MAX, offsetof(struct alert_rule, depth), ALERT_HAS_DEPTH, true},
    {"percent", 1, 100, offsetof(struct alert_rule, percent), ALERT_HAS_PERCENT, false},
    {"window_ms", 1000, DAY_MS, offsetof(struct alert_rule, window_ms), ALERT_HAS_WINDOW, false},
    {"min_ends", 1, UINT32_MAX, offsetof(struct alert_rule, min_ends), ALERT_HAS_MIN_ENDS, false},
    {"after_ms", 1000, DAY_MS, offsetof(struct alert_rule, after_ms), ALERT_HAS_AFTER, false},
};

static uint64_t value_of(const struct alert_rule *rule, const struct bound *b)
{
    const char *at = (const char *)rule + b->offset;
    uint32_t narrow;
    uint64_t wide;
    if (b->wide) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

static int check_bounds(const struct alert_rule *rule, struct err_note *note)
{
    unsigned members = kinds[rule->on].members;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        const struct bound *b = &bounds[i];
        uint64_t v = value_of(rule, b);
        if (!(members & b->member) && v != 0)
            return err_note_set(note, -ERR_INVALID, "%s cannot be set for an alert on %s", b->name,
                                alert_on_name(rule->on));
        if ((members & b->member) && (v < b->min || v > b->max))
            return err_note_set(note, -ERR_INVALID, "%s is %llu; it must be between %llu and %llu",
                                b->name, (unsigned long long)v, (unsigned long long)b->min,
                                (unsigned long long)b->max);
    }
    if (rule->with_payload && !(members & ALERT_HAS_PAYLOAD))
        return err_note_set(note, -ERR_INVALID, "with_payload cannot be set for an alert on %s",
                            alert_on_name(rule->on));
    return 0;
}

int alert_rule_check(const struct alert_rule *rule, struct err_note *note)
{
    struct webhook_url url;
    if (!alert_on_name(rule->on))
        return err_note_set(note, -ERR_INVALID, "on is not a kind of alert");
    if (rule->queue.len == 0)
        return err_note_set(note, -ERR_INVALID, "queue is empty; use * for every queue");
    if (validate_text("queue", rule->queue, LIMIT_QUEUE_NAME_BYTES, note) != 0 ||
        validate_text("secret", rule->secret, LIMIT_SECRET_BYTES, note) != 0)
        return -ERR_INVALID;
    if (kinds[rule->on].of_node && !span_equal(rule->queue, SPAN_LITERAL("*")))
        return err_note_set(note, -ERR_INVALID,
                            "queue must be * for an alert on %s, which is about a node and not "
                            "about queues",
                            alert_on_name(rule->on));
    if (rule->url.len && webhook_url_parse(rule->url, &url, note) != 0)
        return -ERR_INVALID;
    if (rule->secret.len && !rule->url.len)
        return err_note_set(note, -ERR_INVALID, "secret has no effect without a url");
    return check_bounds(rule, note);
}

int alert_name_check(struct span name, struct err_note *note)
{
    if (name.len <= LIMIT_ALERT_NAME_BYTES && validate_queue_name(name, NULL) == 0)
        return 0;
    return err_note_set(
        note, -ERR_INVALID,
        "the name of an alert must be 1 to %d bytes of UTF-8 without control characters "
        "and must not start with '-'",
        LIMIT_ALERT_NAME_BYTES);
}

bool alert_same_condition(const struct alert_rule *a, const struct alert_rule *b)
{
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        if (value_of(a, &bounds[i]) != value_of(b, &bounds[i]))
            return false;
    return a->on == b->on && a->enabled == b->enabled && span_equal(a->queue, b->queue);
}

/* ---- patterns ---- */

/* After a mismatch the last * matches one more byte; earlier ones need not be tried again. */
bool alert_matches(struct span pattern, struct span name)
{
    size_t p = 0, n = 0, star = SIZE_MAX, mark = 0;
    while (n < name.len) {
        if (p < pattern.len && pattern.at[p] == '*') {
            star = p++;
            mark = n;
        } else if (p < pattern.len && pattern.at[p] == name.at[n]) {
            p++;
            n++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            n = ++mark;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.at[p] == '*')
        p++;
    return p == pattern.len;
}

/* ---- notices ---- */

const char *notice_state_name(enum notice_state s)
{
    static const char *const names[NOTICE_STATE_COUNT] = {"pending", "dead"};
    return (unsigned)s < NOTICE_STATE_COUNT ? names[s] : NULL;
}

int64_t notice_backoff_ms(uint32_t tries, struct random *random)
{
    unsigned doublings = tries > 1 ? tries - 1 : 0;
    int64_t wait = doublings < 12 ? (int64_t)BACKOFF_FIRST_MS << doublings : BACKOFF_LAST_MS;
    if (wait > BACKOFF_LAST_MS)
        wait = BACKOFF_LAST_MS;
    return wait + random_between(random, -wait / 10, wait / 10);
}
