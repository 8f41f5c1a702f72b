/* SPDX-License-Identifier: Apache-2.0 */
/* Parses cron expressions. */
#include "core/schedules/cron.h"

#include "base/check.h"

struct cron_field {
    const char *name;
    unsigned min, max;
    const char *const *names; /* of min, min + 1, … */
    unsigned name_count;
    const char *legal; /* for messages */
};

static const char *const month_names[] = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                          "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
static const char *const day_names[] = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

enum { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELD_COUNT };
static const struct cron_field fields[FIELD_COUNT] = {
    [SECOND] = {"second", 0, 59, NULL, 0, "0 to 59"},
    [MINUTE] = {"minute", 0, 59, NULL, 0, "0 to 59"},
    [HOUR] = {"hour", 0, 23, NULL, 0, "0 to 23"},
    [DAY] = {"day of month", 1, 31, NULL, 0, "1 to 31, L for the last, or ?"},
    [MONTH] = {"month", 1, 12, month_names, 12, "1 to 12 or JAN to DEC"},
    [WEEKDAY] = {"day of week", 0, 7, day_names, 7, "0 (Sunday) to 7 or SUN to SAT, or ?"},
};

static const struct {
    const char *name, *means;
} macros[] = {
    {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
    {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
    {"@hourly", "0 * * * *"},
};

/* The field that is being parsed. */
struct reading {
    const struct cron_field *field;
    struct span whole;
    struct err_note *note;
    uint64_t bits;
    bool last_day;
};

static int wrong(const struct reading *r, struct span part, const char *why)
{
    return err_note_set(
        r->note, -ERR_INVALID,
        "cron has \"%.*s\" as its %s%s; allowed are %s, ranges (a-b), steps (/n) and "
        "lists (a,b)",
        (int)(part.len < 40 ? part.len : 40), part.at, r->field->name, why, r->field->legal);
}

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool same_word(struct span text, const char *word)
{
    if (text.len != strlen(word))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (upper(text.at[i]) != upper(word[i]))
            return false;
    return true;
}

/* The text before the first `mark`; *rest is the text after it, unchanged if there is no mark. */
static struct span cut(struct span text, char mark, struct span *rest)
{
    const char *at = text.len ? memchr(text.at, mark, text.len) : NULL;
    if (!at)
        return text;
    *rest = span_of(at + 1, text.len - (size_t)(at + 1 - text.at));
    return span_of(text.at, (size_t)(at - text.at));
}

static bool number(struct span text, unsigned *ret)
{
    *ret = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' || i == 4)
            return false;
        *ret = *ret * 10 + (unsigned)(text.at[i] - '0');
    }
    return text.len > 0;
}

static bool value(const struct reading *r, struct span text, unsigned *ret)
{
    for (unsigned i = 0; i < r->field->name_count; i++) {
        if (same_word(text, r->field->names[i])) {
            *ret = r->field->min + i;
            return true;
        }
    }
    return number(text, ret) && *ret >= r->field->min && *ret <= r->field->max;
}

static bool is_day_field(const struct reading *r)
{
    return r->field == &fields[DAY] || r->field == &fields[WEEKDAY];
}

static bool any(const struct reading *r, struct span text)
{
    return span_equal(text, SPAN_LITERAL("*")) ||
           (is_day_field(r) && span_equal(text, SPAN_LITERAL("?")));
}

/* "*", "a" or "a-b" as first and last value. */
static int bounds(const struct reading *r, struct span part, struct span text, bool stepped,
                  unsigned *first, unsigned *last)
{
    struct span end = {NULL, 0};
    struct span begin = cut(text, '-', &end);
    *first = r->field->min;
    *last = r->field == &fields[WEEKDAY] ? 6 : r->field->max;
    if (any(r, text))
        return 0;
    if (!value(r, begin, first))
        return wrong(r, part, "");
    if (!end.at) {
        *last = stepped ? *last : *first;
        return 0;
    }
    if (!value(r, end, last))
        return wrong(r, part, "");
    if (r->field == &fields[WEEKDAY] && *last == 0 && *first > 0)
        *last = 7; /* … to Sunday */
    return *first <= *last ? 0 : wrong(r, part, ", a range that ends before it begins");
}

static int take_part(struct reading *r, struct span part)
{
    struct span step_text = {NULL, 0};
    struct span text = cut(part, '/', &step_text);
    unsigned first, last, step = 1;
    if (r->field == &fields[DAY] && same_word(part, "L")) {
        r->last_day = true;
        return 0;
    }
    int err = bounds(r, part, text, step_text.at != NULL, &first, &last);
    if (err < 0)
        return err;
    if (step_text.at && (!number(step_text, &step) || step == 0 || step > r->field->max))
        return wrong(r, part, ", with a step that is no whole number in its range");
    for (unsigned v = first; v <= last; v += step)
        r->bits |= UINT64_C(1) << (r->field == &fields[WEEKDAY] ? v % 7 : v);
    return 0;
}

static int take_field(struct reading *r)
{
    struct span rest = r->whole;
    int err = 0;
    do {
        struct span part = rest;
        rest = (struct span){NULL, 0};
        part = cut(part, ',', &rest);
        err = part.len > 0 ? take_part(r, part) : wrong(r, r->whole, ", with an empty part");
    } while (err == 0 && rest.at);
    return err;
}

static struct span next_word(struct span *text)
{
    while (text->len > 0 && (text->at[0] == ' ' || text->at[0] == '\t'))
        *text = span_of(text->at + 1, text->len - 1);
    struct span word = {text->at, 0};
    while (word.len < text->len && text->at[word.len] != ' ' && text->at[word.len] != '\t')
        word.len++;
    *text = span_of(text->at + word.len, text->len - word.len);
    return word;
}

static bool begins_any(struct span text)
{
    return text.at[0] == '*' || text.at[0] == '?';
}

/* A day of the month that no allowed month has never occurs. */
static bool occurs(const struct cron *c)
{
    static const uint8_t longest[13] = {0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (c->last_day || (!c->any_day && !c->any_weekday))
        return true;
    for (unsigned month = 1; month <= 12; month++)
        for (unsigned day = 1; c->months >> month & 1 && day <= longest[month]; day++)
            if (c->days >> day & 1)
                return true;
    return false;
}

static int take_fields(const struct span words[FIELD_COUNT], struct cron *c, struct err_note *note)
{
    uint64_t bits[FIELD_COUNT];
    for (int i = 0; i < FIELD_COUNT; i++) {
        struct reading r = {.field = &fields[i], .whole = words[i], .note = note};
        int err = take_field(&r);
        if (err < 0)
            return err;
        bits[i] = r.bits;
        c->last_day = c->last_day || r.last_day;
    }
    c->seconds = bits[SECOND];
    c->minutes = bits[MINUTE];
    c->hours = (uint32_t)bits[HOUR];
    c->days = (uint32_t)bits[DAY];
    c->months = (uint16_t)bits[MONTH];
    c->weekdays = (uint8_t)bits[WEEKDAY];
    c->any_day = begins_any(words[DAY]);
    c->any_weekday = begins_any(words[WEEKDAY]);
    c->every_hour = span_equal(words[HOUR], SPAN_LITERAL("*"));
    if (occurs(c))
        return 0;
    return err_note_set(note, -ERR_INVALID,
                        "cron has \"%.*s\" as its day of month, which none of its months has",
                        (int)words[DAY].len, words[DAY].at);
}

static int take_macro(struct span text, struct cron *ret, struct err_note *note)
{
    for (size_t i = 0; i < sizeof macros / sizeof *macros; i++)
        if (same_word(text, macros[i].name))
            return cron_parse(span_text(macros[i].means), ret, note);
    return err_note_set(note, -ERR_INVALID,
                        "cron is \"%.*s\", which is not known; allowed are @yearly, @annually, "
                        "@monthly, @weekly, @daily, @midnight and @hourly",
                        (int)(text.len < 40 ? text.len : 40), text.at);
}

int cron_parse(struct span text, struct cron *ret, struct err_note *note)
{
    struct span words[FIELD_COUNT], rest = text;
    struct cron c = {0};
    int count = 0;
    if (text.len > CRON_BYTES_MAX)
        return err_note_set(note, -ERR_INVALID, "cron has %zu bytes; %d are allowed", text.len,
                            CRON_BYTES_MAX);
    for (struct span word = next_word(&rest); word.len > 0; word = next_word(&rest))
        words[count < FIELD_COUNT ? count : FIELD_COUNT - 1] = word, count++;
    if (count == 1 && words[0].at[0] == '@')
        return take_macro(words[0], ret, note);
    if (count != FIELD_COUNT && count != FIELD_COUNT - 1)
        return err_note_set(note, -ERR_INVALID,
                            "cron has %d fields; it must have 5 (minute, hour, day of month, "
                            "month, day of week) or 6 (seconds first)",
                            count);
    if (count == FIELD_COUNT - 1) {
        memmove(words + 1, words, (FIELD_COUNT - 1) * sizeof *words);
        words[SECOND] = SPAN_LITERAL("0");
    }
    int err = take_fields(words, &c, note);
    if (err == 0)
        *ret = c;
    return err;
}

struct cron_dst cron_dst_default(const struct cron *c)
{
    return (struct cron_dst){.run_after_gap = !c->every_hour, .fold_twice = c->every_hour};
}
