/* SPDX-License-Identifier: Apache-2.0 */
/* Values of settings: from text into their member of struct config, and back to YAML. A row's kind
 * picks its functions. */
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "base/check.h"
#include "base/json/json.h"
#include "base/utf8.h"
#include "config/rate.h"
#include "config/table.h"
#include "core/queues/policy_fields.h"

static void *member(struct config *c, const struct config_key *k)
{
    return (char *)c + k->offset;
}

static const void *member_of(const struct config *c, const struct config_key *k)
{
    return (const char *)c + k->offset;
}

/* The row of the policy member that the setting is the default of. */
static const struct policy_field *policy_row(const struct config_key *k)
{
    const struct policy_field *f = policy_fields;
    while (offsetof(struct config, queue_defaults) + f->offset != k->offset)
        f++;
    CHECK(f < policy_fields + POLICY_FIELDS);
    return f;
}

/* ---- what would be right ---- */

const char *config_unlimited(const struct config_key *k)
{
    return k->flags & CONFIG_ALL ? strrchr(k->word, '|') + 1 : NULL;
}

static const enum unit_kind units[] = {
    [CONFIG_NUMBER] = UNIT_NONE, [CONFIG_SIZE] = UNIT_BYTES,  [CONFIG_MS] = UNIT_MS,
    [CONFIG_STEPS] = UNIT_MS,    [CONFIG_LABELS] = UNIT_NONE, [CONFIG_SECONDS] = UNIT_SECONDS,
};

bool config_unit(const struct config_key *k, enum unit_kind *ret)
{
    bool number = k->kind == CONFIG_NUMBER || k->kind == CONFIG_SIZE || k->kind == CONFIG_MS ||
                  k->kind == CONFIG_SECONDS;
    if (number)
        *ret = units[k->kind];
    return number;
}

static int number_expected(const struct config_key *k, struct buf *out)
{
    char least[UNITS_TEXT_MAX];
    char most[UNITS_TEXT_MAX];
    enum unit_kind unit = units[k->kind];
    int err;
    units_text(k->min, unit, least);
    units_text(k->max, unit, most);
    if (k->min == -INT64_MAX)
        err = buf_append_text(out, units_expected(unit));
    else if (k->max == INT64_MAX)
        err = buf_printf(out, "%s, %s or more", units_expected(unit), least);
    else
        err = buf_printf(out, "%s, from %s to %s", units_expected(unit), least, most);
    if (err == 0 && config_unlimited(k))
        err = buf_printf(out, ", or %s", config_unlimited(k));
    return err;
}

static int rate_right(const struct config_key *k, struct buf *out)
{
    char text[RATE_EXPECTED_MAX];
    return buf_append_text(out, rate_expected(policy_row(k)->value, text));
}

int config_expected(const struct config_key *k, struct buf *out)
{
    switch (k->kind) {
    case CONFIG_TEXT:
    case CONFIG_DIR:
        return buf_printf(out,
                          "text of %" PRId64 " to %" PRId64 " bytes, without control characters",
                          k->min, k->max);
    case CONFIG_LIST:
        return buf_printf(out,
                          "a list of %" PRId64 " to %" PRId64
                          " texts, none empty, without control characters",
                          k->min, k->max);
    case CONFIG_BOOL:
        return buf_append_text(out, "true or false");
    case CONFIG_CHOICE:
        return buf_printf(out, "one of %s", k->word);
    case CONFIG_STEPS:
        return buf_printf(out, "a list of at most %d waits: %s, each at most 30d",
                          LIMIT_BACKOFF_STEPS, units_expected(UNIT_MS));
    case CONFIG_RATE:
        return rate_right(k, out);
    case CONFIG_LABELS:
        return buf_printf(out,
                          "a map of at most %d labels (at most %d bytes, each once) to whole "
                          "numbers, the lower first",
                          CONFIG_LABELS_MAX, LIMIT_LABEL_BYTES);
    case CONFIG_NUMBER:
    case CONFIG_SIZE:
    case CONFIG_MS:
    case CONFIG_SECONDS:
        break;
    }
    return number_expected(k, out);
}

static int refuse(const struct config_key *k, const struct config_given *given, struct span item,
                  struct err_note *note)
{
    char shown[QUOTED_MAX] = "not right";
    struct buf expected;
    buf_init(&expected);
    if (!(k->flags & CONFIG_SECRET))
        quoted(item, shown);
    int err = config_expected(k, &expected);
    if (err == 0)
        err = err_note_set(note, -ERR_INVALID, "%s is %s; it must be %.*s", given->subject, shown,
                           (int)expected.len, expected.data);
    buf_done(&expected);
    return err;
}

/* ---- numbers ---- */

static void number_store(struct config *c, const struct config_key *k, int64_t value)
{
    void *at = member(c, k);
    bool all = (k->flags & CONFIG_ALL) && value == INT64_MAX;
    CHECK(k->size == 1 || k->size == 2 || k->size == 4 || k->size == 8);
    if (k->size == 1)
        *(uint8_t *)at = (uint8_t)value;
    else if (k->size == 2)
        *(uint16_t *)at = (uint16_t)value;
    else if (k->size == 4)
        *(uint32_t *)at = (uint32_t)value;
    else
        /* "all" is INT64_MAX for times, which are signed, and UINT64_MAX for counts. */
        *(uint64_t *)at = all && k->kind == CONFIG_NUMBER ? UINT64_MAX : (uint64_t)value;
}

static int64_t number_of(const struct config *c, const struct config_key *k)
{
    const void *at = member_of(c, k);
    if (k->size == 1)
        return *(const uint8_t *)at;
    if (k->size == 2)
        return *(const uint16_t *)at;
    if (k->size == 4)
        return *(const uint32_t *)at;
    uint64_t value = *(const uint64_t *)at;
    return (k->flags & CONFIG_ALL) && value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static int number_set(struct config *c, const struct config_key *k,
                      const struct config_given *given, struct err_note *note)
{
    struct span item = given->items[0];
    int64_t value = INT64_MAX;
    bool all = config_unlimited(k) && span_equal(item, span_text(config_unlimited(k)));
    if (!all && (units_parse(item, units[k->kind], &value) < 0 || value < k->min || value > k->max))
        return refuse(k, given, item, note);
    number_store(c, k, value);
    if (k->flags & CONFIG_BACKOFF)
        c->queue_defaults.backoff.kind = BACKOFF_EXPONENTIAL;
    return 0;
}

static int number_value(const struct config *c, const struct config_key *k, struct buf *out)
{
    char text[UNITS_TEXT_MAX];
    int64_t value = number_of(c, k);
    if (config_unlimited(k) && value == INT64_MAX)
        return buf_append_text(out, config_unlimited(k));
    return buf_append_text(out, units_text(value, units[k->kind], text));
}

static int bool_set(struct config *c, const struct config_key *k, const struct config_given *given,
                    struct err_note *note)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    struct span item = given->items[0];
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == item.len && strncasecmp(words[i], item.at, item.len) == 0) {
            *(bool *)member(c, k) = i % 2;
            return 0;
        }
    }
    return refuse(k, given, item, note);
}

static int bool_value(const struct config *c, const struct config_key *k, struct buf *out)
{
    return buf_append_text(out, *(const bool *)member_of(c, k) ? "true" : "false");
}

static int choice_set(struct config *c, const struct config_key *k,
                      const struct config_given *given, struct err_note *note)
{
    const char *rest = k->word;
    const char *word;
    size_t len;
    for (int64_t value = k->min; option_choice(&rest, &word, &len); value++) {
        if (span_equal(span_of(word, len), given->items[0])) {
            number_store(c, k, value);
            return 0;
        }
    }
    return refuse(k, given, given->items[0], note);
}

static int choice_value(const struct config *c, const struct config_key *k, struct buf *out)
{
    const char *rest = k->word;
    const char *word = NULL;
    size_t len = 0;
    for (int64_t value = k->min; value <= number_of(c, k); value++)
        CHECK(option_choice(&rest, &word, &len));
    return buf_append(out, word, len);
}

/* ---- texts ---- */

/* Whether a text can be written unescaped on one line of YAML. Bytes that are not UTF-8, control
 * characters (also U+0080 to U+009F), the byte order mark and U+FFFE, U+FFFF cannot. */
static bool text_is_plain(struct span text)
{
    for (size_t at = 0, n; at < text.len; at += n) {
        const unsigned char *p = (const unsigned char *)text.at + at;
        n = utf8_sequence(span_of(p, text.len - at));
        if (n == 0 || p[0] < 0x20 || p[0] == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0))
            return false;
        if (p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9))
            return false; /* line and paragraph separator: breaks to YAML 1.1 */
        if (p[0] == 0xef && ((p[1] == 0xbf && p[2] >= 0xbe) || (p[1] == 0xbb && p[2] == 0xbf)))
            return false;
    }
    return true;
}

static int text_set(struct config *c, const struct config_key *k, const struct config_given *given,
                    struct err_note *note)
{
    struct span item = given->items[0];
    if ((int64_t)item.len < k->min || (int64_t)item.len > k->max || !text_is_plain(item))
        return refuse(k, given, item, note);
    const char *copy = arena_text(&c->memory, item);
    if (!copy)
        return err_note_set(note, -ERR_NOMEM, "no memory for the settings");
    *(const char **)member(c, k) = copy;
    return 0;
}

/* Appends as a JSON string, which is a YAML one as well. */
static int string_value(struct span text, struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_write_text(&w, text);
    return json_writer_finish(&w);
}

/* user:password@ of an address becomes ***@. */
static int address_value(const char *text, struct buf *out)
{
    const char *scheme = strstr(text, "://");
    const char *at = scheme ? strrchr(scheme, '@') : NULL;
    struct buf shown;
    int err;
    if (!at)
        return string_value(span_text(text), out);
    buf_init(&shown);
    err = buf_printf(&shown, "%.*s://***%s", (int)(scheme - text), text, at);
    if (err == 0)
        err = string_value(buf_span(&shown), out);
    buf_done(&shown);
    return err;
}

static int text_value(const struct config *c, const struct config_key *k, struct buf *out)
{
    return string_value(span_text(*(const char *const *)member_of(c, k)), out);
}

static int list_set(struct config *c, const struct config_key *k, const struct config_given *given,
                    struct err_note *note)
{
    struct config_list list = {.count = given->count};
    if ((int64_t)given->count < k->min || (int64_t)given->count > k->max)
        return refuse(k, given, SPAN_LITERAL("[…]"), note);
    list.items = arena_array(&c->memory, given->count + 1, sizeof *list.items);
    for (size_t i = 0; list.items && i < given->count; i++) {
        struct span item = given->items[i];
        if (item.len == 0 || item.len > 4096 || !text_is_plain(item))
            return refuse(k, given, item, note);
        if (!(list.items[i] = arena_text(&c->memory, item)))
            list.items = NULL;
    }
    if (!list.items)
        return err_note_set(note, -ERR_NOMEM, "no memory for the settings");
    *(struct config_list *)member(c, k) = list;
    return 0;
}

static int list_text(const struct config_list *list, bool secrets, struct buf *out)
{
    int err = buf_append_text(out, "[");
    for (size_t i = 0; err == 0 && i < list->count; i++) {
        if (i > 0)
            err = buf_append_text(out, ", ");
        if (err == 0)
            err = secrets ? string_value(span_text(list->items[i]), out)
                          : address_value(list->items[i], out);
    }
    return err ? err : buf_append_text(out, "]");
}

static int list_value(const struct config *c, const struct config_key *k, struct buf *out)
{
    return list_text(member_of(c, k), true, out);
}

/* ---- the back-off ---- */

static int steps_set(struct config *c, const struct config_key *k, const struct config_given *given,
                     struct err_note *note)
{
    struct backoff *b = &c->queue_defaults.backoff;
    uint32_t steps[LIMIT_BACKOFF_STEPS] = {0};
    if (given->count > LIMIT_BACKOFF_STEPS)
        return refuse(k, given, SPAN_LITERAL("[…]"), note);
    for (size_t i = 0; i < given->count; i++) {
        int64_t step;
        if (units_parse(given->items[i], UNIT_MS, &step) < 0 || step > k->max)
            return refuse(k, given, given->items[i], note);
        steps[i] = (uint32_t)step;
    }
    b->kind = BACKOFF_LIST;
    b->step_count = (uint8_t)given->count;
    memcpy(b->step_ms, steps, sizeof steps);
    return 0;
}

static int steps_value(const struct config *c, const struct config_key *k, struct buf *out)
{
    (void)k;
    const struct backoff *b = &c->queue_defaults.backoff;
    char text[UNITS_TEXT_MAX];
    if (b->kind != BACKOFF_LIST)
        return buf_append_text(out, "none");
    int err = buf_append_text(out, "[");
    for (size_t i = 0; err == 0 && i < b->step_count; i++)
        err = buf_printf(out, "%s%s", i > 0 ? ", " : "", units_text(b->step_ms[i], UNIT_MS, text));
    return err ? err : buf_append_text(out, "]");
}

/* ---- rates ---- */

static int rate_set(struct config *c, const struct config_key *k, const struct config_given *given,
                    struct err_note *note)
{
    if (rate_parse(given->items[0], policy_row(k)->value, member(c, k)) < 0)
        return refuse(k, given, given->items[0], note);
    return 0;
}

static int rate_value(const struct config *c, const struct config_key *k, struct buf *out)
{
    char text[RATE_TEXT_MAX];
    return buf_append_text(out, rate_text(member_of(c, k), policy_row(k)->value, text));
}

/* ---- labels ---- */

static bool label_is_new(const struct broker_label *labels, size_t count, struct span name)
{
    for (size_t i = 0; i < count; i++) {
        if (span_equal(span_text(labels[i].name), name))
            return false;
    }
    return true;
}

static int label_set(struct config *c, const struct config_given *given, size_t i,
                     struct broker_label *labels)
{
    struct span name = given->items[2 * i];
    int64_t number;
    if (name.len == 0 || name.len > LIMIT_LABEL_BYTES || !text_is_plain(name) ||
        !label_is_new(labels, i, name) ||
        units_parse(given->items[2 * i + 1], UNIT_NONE, &number) < 0)
        return -ERR_INVALID;
    /* In the setting the lower number comes first, in the engine the higher priority. */
    labels[i] = (struct broker_label){arena_text(&c->memory, name), -number};
    return labels[i].name ? 0 : -ERR_NOMEM;
}

static int labels_set(struct config *c, const struct config_key *k,
                      const struct config_given *given, struct err_note *note)
{
    size_t count = given->count / 2;
    if (given->count % 2 != 0)
        return refuse(k, given, given->items[given->count - 1], note);
    if (count > CONFIG_LABELS_MAX)
        return refuse(k, given, SPAN_LITERAL("{…}"), note);
    struct broker_label *labels = arena_array(&c->memory, count + 1, sizeof *labels);
    int err = labels ? 0 : -ERR_NOMEM;
    for (size_t i = 0; err == 0 && i < count; i++) {
        err = label_set(c, given, i, labels);
        if (err == -ERR_INVALID)
            return refuse(k, given, given->items[2 * i], note);
    }
    if (err < 0)
        return err_note_set(note, err, "no memory for the settings");
    c->labels = labels;
    c->label_count = count;
    return 0;
}

static int labels_value(const struct config *c, const struct config_key *k, struct buf *out)
{
    (void)k;
    int err = buf_append_text(out, "{");
    for (size_t i = 0; err == 0 && i < c->label_count; i++) {
        if (i > 0)
            err = buf_append_text(out, ", ");
        if (err == 0)
            err = string_value(span_text(c->labels[i].name), out);
        if (err == 0)
            err = buf_printf(out, ": %" PRId64, -c->labels[i].priority);
    }
    return err ? err : buf_append_text(out, "}");
}

/* ---- by kind ---- */

static const struct {
    int (*set)(struct config *c, const struct config_key *k, const struct config_given *given,
               struct err_note *note);
    int (*value)(const struct config *c, const struct config_key *k, struct buf *out);
    bool many; /* takes a list; else exactly one item */
} kinds[] = {
    [CONFIG_TEXT] = {text_set, text_value, false},
    [CONFIG_DIR] = {text_set, text_value, false},
    [CONFIG_LIST] = {list_set, list_value, true},
    [CONFIG_NUMBER] = {number_set, number_value, false},
    [CONFIG_SIZE] = {number_set, number_value, false},
    [CONFIG_MS] = {number_set, number_value, false},
    [CONFIG_SECONDS] = {number_set, number_value, false},
    [CONFIG_BOOL] = {bool_set, bool_value, false},
    [CONFIG_CHOICE] = {choice_set, choice_value, false},
    [CONFIG_STEPS] = {steps_set, steps_value, true},
    [CONFIG_RATE] = {rate_set, rate_value, false},
    [CONFIG_LABELS] = {labels_set, labels_value, true},
};

bool config_takes_list(const struct config_key *k)
{
    return kinds[k->kind].many;
}

int config_value(const struct config *c, const struct config_key *k, bool secrets, struct buf *out)
{
    if (!secrets && (k->flags & CONFIG_SECRET) && k->kind == CONFIG_LIST)
        return list_text(member_of(c, k), false, out);
    if (!secrets && (k->flags & CONFIG_SECRET))
        return address_value(*(const char *const *)member_of(c, k), out);
    return kinds[k->kind].value(c, k, out);
}

/* ---- setting ---- */

static bool overlap(const struct config_key *a, const struct config_key *b)
{
    return a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

static int check_free(const struct config *c, const struct config_key *k,
                      const struct config_given *given, struct err_note *note)
{
    size_t own = config_key_index(k);
    if (given->source == CONFIG_DEFAULT)
        return 0;
    if (c->source[own] == given->source && given->line > 0)
        return err_note_set(note, -ERR_INVALID,
                            "%s is set twice; the other one is in line %" PRIu32, given->subject,
                            c->line[own]);
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        if (c->source[i] == given->source && overlap(k, &config_keys[i]))
            return err_note_set(note, -ERR_INVALID,
                                "%s cannot be combined with %s; keep one of them", given->subject,
                                config_keys[i].key);
    }
    return 0;
}

/* An alias also marks the row of its member, so that this is printed with the right source. */
static void mark(struct config *c, const struct config_key *k, const struct config_given *given)
{
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        if (&config_keys[i] == k ||
            ((k->flags & CONFIG_ALIAS) && config_keys[i].offset == k->offset)) {
            c->source[i] = (uint8_t)given->source;
            c->line[i] = given->line;
        }
    }
}

int config_set(struct config *c, const struct config_key *k, const struct config_given *given,
               struct err_note *note)
{
    int err = check_free(c, k, given, note);
    if (err < 0)
        return err;
    if (given->count != 1 && !kinds[k->kind].many)
        return refuse(k, given, SPAN_LITERAL("[…]"), note);
    if ((err = kinds[k->kind].set(c, k, given, note)) < 0)
        return err;
    mark(c, k, given);
    return 0;
}
