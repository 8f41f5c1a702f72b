/* SPDX-License-Identifier: Apache-2.0 */
/* The setting webqueue.types: "NAME timeout=300s keep=30d retries=0", with the options after the
 * name in any order. */
#include <inttypes.h>

#include "api/webqueue/webqueue.h"
#include "config/table.h"
#include "core/limits.h"

#define SUBJECT "webqueue.types"

struct type_option {
    const char *name;
    enum unit_kind unit;
    int64_t min, max;
    bool all; /* takes `all`, which is INT64_MAX */
};

static const struct type_option options[] = {
    {"timeout", UNIT_MS, LIMIT_LEASE_MS_MIN, LIMIT_LEASE_MS, false},
    {"keep", UNIT_MS, 0, INT64_MAX - 1, true},
    {"retries", UNIT_NONE, 0, LIMIT_ATTEMPTS - 1, false},
};

static int option_refuse(const struct type_option *w, struct span value, struct err_note *note)
{
    char shown[QUOTED_MAX], least[UNITS_TEXT_MAX], most[UNITS_TEXT_MAX];
    units_text(w->min, w->unit, least);
    units_text(w->max, w->unit, most);
    return err_note_set(note, -ERR_INVALID, SUBJECT " has %s=%s; it must be %s, from %s%s%s",
                        w->name, quoted(value, shown), units_expected(w->unit), least,
                        w->all ? ", or all" : " to ", w->all ? "" : most);
}

static void option_store(struct webqueue_type *t, size_t i, int64_t value)
{
    if (i == 0)
        t->timeout_ms = (uint32_t)value;
    else if (i == 1)
        t->keep_ms = value;
    else
        t->retries = (uint16_t)value;
}

/* "timeout=300s" */
static int option_take(struct webqueue_type *t, struct span word, unsigned *seen,
                       struct err_note *note)
{
    char shown[QUOTED_MAX];
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        size_t len = strlen(options[i].name);
        if (word.len <= len || memcmp(word.at, options[i].name, len) != 0 || word.at[len] != '=')
            continue;
        struct span text = span_of(word.at + len + 1, word.len - len - 1);
        int64_t value = INT64_MAX;
        bool all = options[i].all && span_equal(text, SPAN_LITERAL("all"));
        if (*seen & 1u << i)
            return err_note_set(note, -ERR_INVALID, SUBJECT " has %s twice for one type",
                                options[i].name);
        if (!all && (units_parse(text, options[i].unit, &value) < 0 || value < options[i].min ||
                     value > options[i].max))
            return option_refuse(&options[i], text, note);
        *seen |= 1u << i;
        option_store(t, i, value);
        return 0;
    }
    return err_note_set(
        note, -ERR_INVALID,
        SUBJECT " has %s; the name of a type may be followed by timeout=, keep= and retries=",
        quoted(word, shown));
}

static bool name_right(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || (c == '-' && i > 0)))
            return false;
    }
    return name.len > 0 && name.len <= WEBQUEUE_TYPE_BYTES_MAX;
}

static struct span next_text(const char **at)
{
    *at += strspn(*at, " ");
    struct span word = span_of(*at, strcspn(*at, " "));
    *at += word.len;
    return word;
}

static int type_take(struct config *c, const char *item, struct webqueue_type *ret,
                     struct err_note *note)
{
    char shown[QUOTED_MAX];
    unsigned seen = 0;
    struct span name = next_text(&item), word;
    if (!name_right(name))
        return err_note_set(note, -ERR_INVALID,
                            SUBJECT " has %s; the name of a type is 1 to %d letters, digits, '_' "
                                    "and '-'",
                            quoted(name, shown), WEBQUEUE_TYPE_BYTES_MAX);
    *ret = (struct webqueue_type){.name = arena_text(&c->memory, name),
                                  .timeout_ms = WEBQUEUE_TIMEOUT_MS,
                                  .keep_ms = WEBQUEUE_KEEP_MS};
    int err = ret->name ? 0 : err_note_set(note, -ERR_NOMEM, "no memory for the settings");
    while (err == 0 && (word = next_text(&item)).len > 0)
        err = option_take(ret, word, &seen, note);
    return err;
}

int config_webqueue(struct config *c, struct err_note *note)
{
    size_t count = c->webqueue.items.count;
    struct webqueue_type *types = arena_array(&c->memory, count, sizeof *types);
    int err = 0;
    if (!types)
        return err_note_set(note, -ERR_NOMEM, "no memory for the settings");
    for (size_t i = 0; err == 0 && i < count; i++) {
        err = type_take(c, c->webqueue.items.items[i], &types[i], note);
        for (size_t k = 0; err == 0 && k < i; k++)
            if (strcmp(types[k].name, types[i].name) == 0)
                err = err_note_set(note, -ERR_INVALID, SUBJECT " has %s twice", types[i].name);
    }
    c->webqueue.types = types;
    return err;
}
