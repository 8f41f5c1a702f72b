/* SPDX-License-Identifier: Apache-2.0 */
#include "config/options.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "config/units.h"

/* ---- names ---- */

static char folded(char c)
{
    return c == '_' || c == '.' ? '-' : c;
}

const char *option_name(const struct option *o, char out[OPTION_NAME_MAX])
{
    size_t len = strlen(o->name);
    CHECK(len < OPTION_NAME_MAX);
    for (size_t i = 0; i <= len; i++)
        out[i] = folded(o->name[i]);
    return out;
}

static bool name_equal(const char *name, struct span typed)
{
    size_t i = 0;
    while (i < typed.len && name[i] && folded(name[i]) == folded(typed.at[i]))
        i++;
    return i == typed.len && name[i] == '\0';
}

bool option_choice(const char **rest, const char **ret, size_t *ret_len)
{
    if (!*rest || !**rest)
        return false;
    size_t len = strcspn(*rest, "|");
    *ret = *rest;
    *ret_len = len;
    *rest += len + ((*rest)[len] == '|');
    return true;
}

/* ---- values ---- */

static bool choice_has(const char *choices, const char *value)
{
    const char *word;
    size_t len;
    while (option_choice(&choices, &word, &len)) {
        if (span_equal(span_of(word, len), span_text(value)))
            return true;
    }
    return false;
}

/* The name says the unit of a plain number, as in --lease-ms. */
static bool names_ms(const struct option *o)
{
    size_t len = strlen(o->name);
    return len > 3 && strcmp(o->name + len - 3, "_ms") == 0;
}

/* false: the option is not a number. */
static bool unit_of(const struct option *o, enum unit_kind *ret)
{
    *ret = UNIT_NONE;
    if (o->kind == OPTION_SIZE)
        *ret = UNIT_BYTES;
    else if (o->kind == OPTION_DURATION)
        *ret = names_ms(o) ? UNIT_MS : UNIT_DURATION;
    return *ret != UNIT_NONE || o->kind == OPTION_NUMBER;
}

static int value_check(const struct option *o, const char *value, struct err_note *note)
{
    char name[OPTION_NAME_MAX];
    char shown[QUOTED_MAX];
    int64_t number;
    enum unit_kind unit;
    if ((o->kind == OPTION_CHOICE || o->kind == OPTION_SWITCH) && !choice_has(o->argument, value))
        return err_note_set(note, -ERR_INVALID, "--%s is %s; it must be one of %s",
                            option_name(o, name), quoted(span_text(value), shown), o->argument);
    if (unit_of(o, &unit) && units_parse(span_text(value), unit, &number) < 0)
        return err_note_set(note, -ERR_INVALID, "--%s is %s; it must be %s", option_name(o, name),
                            quoted(span_text(value), shown), units_expected(unit));
    return 0;
}

/* ---- the command line ---- */

struct walk {
    const struct option *options;
    size_t count;
    int argc;
    char **argv;
    int at; /* the next word of argv */
    struct arguments out;
    struct err_note *note;
};

/* The nearest name, as typed; NULL if none is near or there is no memory. The caller frees
 * *names. */
static const char *nearest(const struct walk *w, const char *typed, char (**names)[OPTION_NAME_MAX])
{
    *names = mem_array(w->count + 1, sizeof **names);
    const char **list = mem_array(w->count + 1, sizeof *list);
    const char *near = NULL;
    if (*names && list) {
        for (size_t i = 0; i < w->count; i++)
            list[i] = option_name(&w->options[i], (*names)[i]);
        near = suggest_nearest(typed, list, w->count);
    }
    mem_free(list);
    return near;
}

static int unknown(const struct walk *w, const char *word)
{
    char(*names)[OPTION_NAME_MAX];
    char typed[OPTION_NAME_MAX];
    char shown[QUOTED_MAX];
    size_t len = strcspn(word, "=");
    quoted(span_of(word, len), shown);
    if (w->count == 0)
        return err_note_set(w->note, -ERR_INVALID, "unknown option %s; this command has none",
                            shown);
    size_t dashes = strspn(word, "-");
    size_t typed_len = len - dashes < sizeof typed ? len - dashes : sizeof typed - 1;
    memcpy(typed, word + dashes, typed_len);
    typed[typed_len] = '\0';
    const char *near = nearest(w, typed, &names);
    int err = near ? err_note_set(w->note, -ERR_INVALID, "unknown option %s; did you mean '--%s'?",
                                  shown, near)
                   : err_note_set(w->note, -ERR_INVALID,
                                  "unknown option %s; `holdfast help %s` lists the options", shown,
                                  w->argv[0]);
    mem_free(names);
    return err;
}

static const struct option *find(const struct walk *w, const char *word, struct span typed)
{
    bool is_long = word[1] == '-';
    for (size_t i = 0; i < w->count; i++) {
        const struct option *o = &w->options[i];
        if (is_long ? name_equal(o->name, typed) : typed.len == 1 && o->letter == typed.at[0])
            return o;
    }
    return NULL;
}

/* The value of an option that takes one: after the '=', or the next argument. A next argument
 * that looks like an option is probably the next option after a forgotten value. */
static int value_take(struct walk *w, const struct option *o, const char *inside, const char **ret)
{
    char name[OPTION_NAME_MAX];
    char shown[QUOTED_MAX];
    if (o->kind == OPTION_SWITCH && !inside)
        inside = "true";
    *ret = inside ? inside : w->at < w->argc ? w->argv[w->at] : NULL;
    if (!*ret)
        return err_note_set(w->note, -ERR_INVALID, "--%s needs a value: --%s %s",
                            option_name(o, name), name, o->argument);
    if (!inside && strncmp(*ret, "--", 2) == 0)
        return err_note_set(w->note, -ERR_INVALID,
                            "--%s needs a value: --%s %s (if %s is meant, put = between them)",
                            option_name(o, name), name, o->argument,
                            quoted(span_text(*ret), shown));
    w->at += !inside;
    return value_check(o, *ret, w->note);
}

static int option_take(struct walk *w, const char *word)
{
    char name[OPTION_NAME_MAX];
    const char *value = NULL;
    size_t dashes = word[1] == '-' ? 2 : 1;
    size_t len = dashes == 2 ? strcspn(word, "=") : strlen(word);
    const char *inside = word[len] == '=' ? word + len + 1 : NULL;
    const struct option *o = find(w, word, span_of(word + dashes, len - dashes));
    int err = 0;
    if (!o)
        return unknown(w, word);
    if (o->kind != OPTION_FLAG)
        err = value_take(w, o, inside, &value);
    else if (inside)
        err = err_note_set(w->note, -ERR_INVALID, "--%s takes no value", option_name(o, name));
    if (err == 0)
        w->out.given[w->out.given_count++] = (struct option_given){o, value};
    return err;
}

static bool is_word(const char *word)
{
    return word[0] != '-' || word[1] == '\0' || (word[1] >= '0' && word[1] <= '9');
}

static bool asks_for_help(const struct walk *w, const char *word)
{
    if (strcmp(word, "--help") == 0)
        return true;
    return strcmp(word, "-h") == 0 && !find(w, word, span_of("h", 1));
}

static int walk(struct walk *w)
{
    bool only_words = false;
    while (w->at < w->argc) {
        const char *word = w->argv[w->at++];
        int err = 0;
        if (only_words || is_word(word)) {
            w->out.words[w->out.word_count++] = word;
            w->out.words_before += !only_words;
        } else if (strcmp(word, "--") == 0) {
            only_words = true;
        } else if (asks_for_help(w, word)) {
            w->out.help = true;
            return 0;
        } else {
            err = option_take(w, word);
        }
        if (err < 0)
            return err;
    }
    return 0;
}

int options_parse(const struct option *options, size_t count, int argc, char **argv,
                  struct arguments *ret, struct err_note *note)
{
    CHECK(argc >= 1);
    struct walk w = {.options = options, .count = count, .argc = argc, .argv = argv, .at = 1};
    w.note = note;
    w.out.options = options;
    w.out.option_count = count;
    w.out.given = mem_array((size_t)argc, sizeof *w.out.given);
    w.out.words = mem_array((size_t)argc, sizeof *w.out.words);
    int err = w.out.given && w.out.words
                  ? walk(&w)
                  : err_note_set(note, -ERR_NOMEM, "no memory for the command line");
    if (err < 0)
        arguments_done(&w.out);
    else
        *ret = w.out;
    return err;
}

void arguments_done(struct arguments *a)
{
    mem_free(a->given);
    mem_free(a->words);
    *a = (struct arguments){0};
}

/* ---- what was given ---- */

static const struct option_given *last_given(const struct arguments *a, const char *name)
{
    size_t i = 0;
    while (i < a->option_count && strcmp(a->options[i].name, name) != 0)
        i++;
    CHECK(i < a->option_count);
    for (size_t g = a->given_count; g > 0; g--) {
        if (a->given[g - 1].option == &a->options[i])
            return &a->given[g - 1];
    }
    return NULL;
}

bool arguments_has(const struct arguments *a, const char *name)
{
    return last_given(a, name) != NULL;
}

const char *arguments_text(const struct arguments *a, const char *name, const char *fallback)
{
    const struct option_given *given = last_given(a, name);
    return given ? given->value : fallback;
}

int64_t arguments_number(const struct arguments *a, const char *name, int64_t fallback)
{
    const struct option_given *given = last_given(a, name);
    if (!given)
        return fallback;
    int64_t number = 0;
    enum unit_kind unit;
    CHECK(unit_of(given->option, &unit));
    CHECK(units_parse(span_text(given->value), unit, &number) == 0);
    return number;
}

const char *arguments_next(const struct arguments *a, const char *name, size_t *at)
{
    while (*at < a->given_count) {
        const struct option_given *given = &a->given[(*at)++];
        if (strcmp(given->option->name, name) == 0)
            return given->value;
    }
    return NULL;
}

void help_wrap(FILE *out, const char *indent, const char *text)
{
    size_t room = 96 - strlen(indent);
    while (*text) {
        size_t len = strlen(text);
        if (len > room) {
            len = room;
            while (len > 0 && text[len] != ' ')
                len--;
            if (len == 0) /* one word longer than a line */
                len = strcspn(text, " ");
        }
        fprintf(out, "%.*s\n", (int)len, text);
        text += len;
        text += strspn(text, " ");
        fputs(*text ? indent : "", out);
    }
}
