/* SPDX-License-Identifier: Apache-2.0 */
/* The rows, the flags of `serve` that they define, and the search for keys. */
#include "config/table.h"

#include <ctype.h>
#include <stdio.h>

#include "base/check.h"
#include "base/suggest.h"

#define ROW(key, kind, member, def, min, max, word, flags, doc)                                    \
    {key,                                                                                          \
     CONFIG_##kind,                                                                                \
     offsetof(struct config, member),                                                              \
     sizeof(((struct config *)0)->member),                                                         \
     def,                                                                                          \
     min,                                                                                          \
     max,                                                                                          \
     word,                                                                                         \
     flags,                                                                                        \
     doc},

const struct config_key config_keys[CONFIG_KEYS] = {CONFIG_TABLE(ROW)};

/* ---- flags ---- */

/* Numbers are text for the option parser: the check of the setting has better messages. */
enum {
    FLAG_TEXT = OPTION_TEXT,
    FLAG_DIR = OPTION_DIR,
    FLAG_LIST = OPTION_LIST,
    FLAG_NUMBER = OPTION_TEXT,
    FLAG_SIZE = OPTION_TEXT,
    FLAG_MS = OPTION_TEXT,
    FLAG_SECONDS = OPTION_TEXT,
    FLAG_BOOL = OPTION_SWITCH,
    FLAG_CHOICE = OPTION_CHOICE,
    FLAG_STEPS = OPTION_TEXT,
    FLAG_RATE = OPTION_TEXT,
    FLAG_LABELS = OPTION_TEXT,
};

#define FLAG(key, kind, member, def, min, max, word, flags, doc)                                   \
    {key, 0, word, doc, (enum option_kind)FLAG_##kind},

const struct option config_flags[CONFIG_FLAGS] = {
    {"config", 'c', "FILE", "read settings from this YAML file (environment: HOLDFAST_CONFIG)",
     OPTION_FILE},
    {"print-config", 0, NULL, "print the effective settings and where each comes from, and stop",
     OPTION_FLAG},
    {"beanstalk", 0, "ADDRESS", "the same as --beanstalk-listen", OPTION_LIST},
    CONFIG_TABLE(FLAG)};

/* ---- looking up ---- */

const struct config_key *config_key_find(struct span key)
{
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        if (span_equal(span_text(config_keys[i].key), key))
            return &config_keys[i];
    }
    return NULL;
}

size_t config_key_index(const struct config_key *k)
{
    return (size_t)(k - config_keys);
}

const struct config_key *config_section(struct span name)
{
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        const char *key = config_keys[i].key;
        if (strcspn(key, ".") == name.len && key[name.len] == '.' &&
            memcmp(key, name.at, name.len) == 0)
            return &config_keys[i];
    }
    return NULL;
}

/* Finds a key that was written without its section, or with the wrong one. */
static const char *key_by_last_word(const char *typed)
{
    const char *dot = strrchr(typed, '.');
    const char *word = dot ? dot + 1 : typed;
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        const char *last = strrchr(config_keys[i].key, '.');
        if (last && strcmp(last + 1, word) == 0)
            return config_keys[i].key;
    }
    return NULL;
}

/* Every key and, once each, every section; returns how many. */
static size_t names_fill(char names[2 * CONFIG_KEYS][CONFIG_NAME_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        const char *key = config_keys[i].key;
        size_t section = strcspn(key, ".");
        int len = snprintf(names[count++], CONFIG_NAME_MAX, "%s", key);
        CHECK(len < CONFIG_NAME_MAX);
        if (key[section] == '.' && config_section(span_of(key, section)) == &config_keys[i])
            snprintf(names[count++], CONFIG_NAME_MAX, "%.*s", (int)section, key);
    }
    return count;
}

bool config_key_near(struct span typed, char out[CONFIG_NAME_MAX])
{
    char names[2 * CONFIG_KEYS][CONFIG_NAME_MAX];
    const char *list[2 * CONFIG_KEYS];
    char text[CONFIG_NAME_MAX];
    if (typed.len >= sizeof text)
        return false;
    memcpy(text, typed.at, typed.len);
    text[typed.len] = '\0';
    size_t count = names_fill(names);
    for (size_t i = 0; i < count; i++)
        list[i] = names[i];
    const char *near = key_by_last_word(text);
    if (!near)
        near = suggest_nearest(text, list, count);
    snprintf(out, CONFIG_NAME_MAX, "%s", near ? near : "");
    return near;
}

const char *config_env_name(const struct config_key *k, char out[CONFIG_ENV_MAX])
{
    int len = snprintf(out, CONFIG_ENV_MAX, "HOLDFAST_%s", k->key);
    CHECK(len > 0 && len < CONFIG_ENV_MAX);
    for (char *c = out; *c; c++)
        *c = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
    return out;
}
