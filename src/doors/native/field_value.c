/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/native/field_value.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/suggest.h"
#include "core/limits.h"
#include "core/validate.h"

/* One value on its way. The same converters serve bodies and queries: a query's text is given to
 * them as the token it would be in JSON, where that is possible. */
struct conv {
    struct field_reader *r;
    const struct field *f;
    struct json_reader *json; /* NULL: from a query */
    struct json_token token;
    struct span text; /* from a query */
    void *to;
};

typedef int (*conv_fn)(struct conv *c);

#define WORDS_MAX 32
#define TEXT_SHOWN_BYTES 40

int field_fail_error(struct field_reader *r, int error)
{
    problem_of_error(r->problem, error);
    return -ERR_INVALID;
}

static const char *came(const struct conv *c)
{
    static const char *const kinds[] = {
        [JSON_NULL] = "null",
        [JSON_TRUE] = "a boolean",
        [JSON_FALSE] = "a boolean",
        [JSON_NUMBER] = "a number",
        [JSON_STRING] = "a string",
        [JSON_ARRAY_BEGIN] = "an array",
        [JSON_OBJECT_BEGIN] = "an object",
    };
    if (!c->json)
        return "something else";
    return kinds[c->token.kind];
}

#define fail(c, ...)                                                                               \
    (problem_set((c)->r->problem, (c)->r->arena, PROBLEM_INVALID_FIELD, (c)->f->name,              \
                 __VA_ARGS__),                                                                     \
     -ERR_INVALID)

static int fail_type(struct conv *c, const char *right)
{
    return fail(c, "%s is %s; it must be %s", c->f->name, came(c), right);
}

/* Turns an error of a callee into the reader's problem. */
static int fail_error(struct conv *c, int error)
{
    return error == -ERR_SYNTAX ? error : field_fail_error(c->r, error);
}

/* ---- texts ---- */

/* The decoded text of a string, of either source. */
static int text_of(struct conv *c, const char *right, struct span *ret)
{
    if (!c->json) {
        *ret = c->text;
        return 0;
    }
    if (c->token.kind != JSON_STRING)
        return fail_type(c, right);
    int err = json_string(&c->token, c->r->arena, ret);
    if (err == -ERR_INVALID)
        return fail(c, "%s has an unpaired surrogate; it must be Unicode text", c->f->name);
    return err < 0 ? fail_error(c, err) : 0;
}

static int check_text(struct conv *c, struct span text)
{
    struct err_note note;
    if (validate_text(c->f->name, text, (size_t)c->f->max, &note) == 0)
        return 0;
    return fail(c, "%s", note.text);
}

static int conv_text(struct conv *c)
{
    struct span text;
    int err = text_of(c, "a string", &text);
    if (err == 0)
        err = check_text(c, text);
    if (err == 0)
        *(struct span *)c->to = text;
    return err;
}

/* Up to its first U+0000 and at most max bytes: a long error message is no reason to lose a fail.
 */
static int conv_cut(struct conv *c)
{
    struct span text;
    int err = text_of(c, "a string", &text);
    if (err < 0)
        return err;
    const char *nul = text.len > 0 ? memchr(text.at, 0, text.len) : NULL;
    if (nul)
        text.len = (size_t)(nul - text.at);
    *(struct span *)c->to = validate_cut(text, (size_t)c->f->max);
    return 0;
}

/* ---- numbers, booleans, times ---- */

static int fail_range(struct conv *c)
{
    const struct field *f = c->f;
    if (f->max == INT64_MAX)
        return fail(c, "%s must be a whole number, %" PRId64 " or more", f->name, f->min);
    return fail(c, "%s must be a whole number from %" PRId64 " to %" PRId64, f->name, f->min,
                f->max);
}

/* Makes a query's text the token it is in JSON; false when it is none. */
static bool number_token(struct conv *c)
{
    struct json_reader json;
    struct json_token end;
    if (c->json)
        return c->token.kind == JSON_NUMBER;
    json_open(&json, c->text);
    return json_next(&json, &c->token) == 0 && c->token.kind == JSON_NUMBER &&
           json_next(&json, &end) == 0 && end.kind == JSON_END;
}

static int conv_int(struct conv *c)
{
    int64_t v;
    if (c->json && c->token.kind != JSON_NUMBER)
        return fail_type(c, "a whole number");
    if (!number_token(c) || json_int(&c->token, &v) < 0 || v < c->f->min || v > c->f->max)
        return fail_range(c);
    *(int64_t *)c->to = v;
    return 0;
}

static int conv_bool(struct conv *c)
{
    if (c->json) {
        if (c->token.kind != JSON_TRUE && c->token.kind != JSON_FALSE)
            return fail_type(c, "true or false");
        *(bool *)c->to = c->token.kind == JSON_TRUE;
        return 0;
    }
    bool yes = span_equal(c->text, SPAN_LITERAL("true"));
    if (!yes && !span_equal(c->text, SPAN_LITERAL("false")))
        return fail(c, "%s must be true or false", c->f->name);
    *(bool *)c->to = yes;
    return 0;
}

/* Zero means "no time" everywhere below, so the earliest time is one millisecond later. */
static int conv_time(struct conv *c)
{
    struct span text;
    struct wall_time t;
    int err = text_of(c, "a time such as \"2026-01-31T12:00:00Z\"", &text);
    if (err < 0)
        return err;
    if (wall_parse(text.at, text.len, &t) < 0)
        return fail(c,
                    "%s must be an RFC 3339 time such as 2026-01-31T12:00:00Z, in the years 1970 "
                    "to 9999",
                    c->f->name);
    t.ms = t.ms < 1 ? 1 : t.ms > LIMIT_WALL_MS - 1 ? LIMIT_WALL_MS - 1 : t.ms;
    *(struct wall_time *)c->to = t;
    return 0;
}

/* ---- words ---- */

static int fail_word(struct conv *c, struct span text)
{
    const char *nearest = NULL;
    size_t count = 0;
    const char *shown = arena_text(c->r->arena, validate_cut(text, TEXT_SHOWN_BYTES));
    while (c->f->words[count])
        count++;
    if (shown)
        nearest = suggest_nearest(shown, c->f->words, count);
    int err = fail(c, "%s is %s%s%s%s; allowed lists what it may be", c->f->name,
                   shown ? shown : "unknown", nearest ? " (did you mean " : "",
                   nearest ? nearest : "", nearest ? "?)" : "");
    c->r->problem->allowed = c->f->words;
    c->r->problem->allowed_count = count;
    return err;
}

/* The row's words are few; text is one of them or refused. */
static int word_of(struct conv *c, struct span text, uint8_t *ret)
{
    for (size_t i = 0; c->f->words[i]; i++) {
        if (span_equal(span_text(c->f->words[i]), text)) {
            *ret = (uint8_t)((int64_t)i + c->f->min);
            return 0;
        }
    }
    return fail_word(c, text);
}

static int conv_word(struct conv *c)
{
    struct span text;
    int err = text_of(c, "a word", &text);
    return err < 0 ? err : word_of(c, text, c->to);
}

static int add_word(struct conv *c, struct span text)
{
    uint8_t index;
    int err = word_of(c, text, &index);
    if (err == 0)
        *(uint64_t *)c->to |= UINT64_C(1) << index;
    return err;
}

/* Calls fn for each piece between commas. */
static int each_piece(struct conv *c, int (*fn)(struct conv *c, struct span piece))
{
    struct span rest = c->text;
    int err = 0;
    for (;;) {
        const char *comma = rest.len > 0 ? memchr(rest.at, ',', rest.len) : NULL;
        size_t len = comma ? (size_t)(comma - rest.at) : rest.len;
        if ((err = fn(c, span_of(rest.at, len))) < 0 || !comma)
            return err;
        rest = span_of(comma + 1, rest.len - len - 1);
    }
}

/* Calls fn with each element of an array as the token. */
static int each_element(struct conv *c, const char *right, conv_fn fn)
{
    int err = 0;
    if (c->token.kind != JSON_ARRAY_BEGIN)
        return fail_type(c, right);
    while ((err = json_next(c->json, &c->token)) == 0 && c->token.kind != JSON_ARRAY_END) {
        if ((err = fn(c)) < 0)
            return err;
    }
    return err;
}

static int word_element(struct conv *c)
{
    struct span text;
    int err = text_of(c, "a list of words", &text);
    return err < 0 ? err : add_word(c, text);
}

static int conv_words(struct conv *c)
{
    *(uint64_t *)c->to = 0;
    return c->json ? each_element(c, "a list of words", word_element) : each_piece(c, add_word);
}

/* ---- priority ---- */

static int fail_label(struct conv *c, struct span text)
{
    const char *names[WORDS_MAX];
    size_t count = 0;
    const struct broker_label *l;
    while (count < WORDS_MAX && (l = broker_label_at(c->r->broker, count)))
        names[count++] = l->name;
    const char *shown = arena_text(c->r->arena, validate_cut(text, TEXT_SHOWN_BYTES));
    int err = fail(c, "%s is %s; it must be a whole number (higher first) or one of the labels",
                   c->f->name, shown ? shown : "unknown");
    const char **allowed = arena_copy(c->r->arena, names, count * sizeof *names);
    c->r->problem->allowed = allowed;
    c->r->problem->allowed_count = allowed ? count : 0;
    return err;
}

static int conv_priority(struct conv *c)
{
    struct priority_in *p = c->to;
    struct span text;
    if (number_token(c)) {
        if (json_int(&c->token, &p->value) < 0)
            return fail(c, "%s must be a whole number of 64 bits, or a label", c->f->name);
        p->label = span_of(NULL, 0);
        return 0;
    }
    int err = text_of(c, "a whole number or a label", &text);
    if (err < 0)
        return err;
    if (!broker_label_find(c->r->broker, text, &p->value))
        return fail_label(c, text);
    p->label = text;
    return 0;
}

/* ---- back-off ---- */

static int add_step(struct conv *c)
{
    struct backoff *b = c->to;
    int64_t ms;
    if (!number_token(c) || json_int(&c->token, &ms) < 0 || ms < 0 || ms > LIMIT_BACKOFF_MS)
        return fail(c, "a step of %s must be a whole number from 0 to %u", c->f->name,
                    LIMIT_BACKOFF_MS);
    if (b->step_count == LIMIT_BACKOFF_STEPS)
        return fail(c, "%s has more than %d steps", c->f->name, LIMIT_BACKOFF_STEPS);
    b->step_ms[b->step_count++] = (uint32_t)ms;
    return 0;
}

static int add_step_text(struct conv *c, struct span piece)
{
    struct conv one = *c;
    one.text = piece;
    return add_step(&one);
}

static int conv_steps(struct conv *c)
{
    *(struct backoff *)c->to = (struct backoff){.kind = BACKOFF_LIST};
    return c->json ? each_element(c, "a list of milliseconds", add_step)
                   : each_piece(c, add_step_text);
}

struct backoff_in {
    uint8_t kind;
    int64_t base_ms, max_ms, jitter_percent;
    struct backoff steps;
};

static const char *const backoff_words[] = {"exponential", "list", NULL};

#define BACKOFF_AT(member) offsetof(struct backoff_in, member)
static const struct field backoff_rows[] = {
    {"kind", FIELD_WORD, BACKOFF_AT(kind), 0, 0, backoff_words, 0},
    {"base_ms", FIELD_INT, BACKOFF_AT(base_ms), 0, LIMIT_BACKOFF_MS, NULL, 0},
    {"max_ms", FIELD_INT, BACKOFF_AT(max_ms), 0, LIMIT_BACKOFF_MS, NULL, 0},
    {"jitter_percent", FIELD_INT, BACKOFF_AT(jitter_percent), 0, 100, NULL, 0},
    {"steps_ms", FIELD_STEPS, BACKOFF_AT(steps), 0, 0, NULL, 0},
};

/* Members that belong to the other kind are refused rather than forgotten. */
static int backoff_kind_of(struct conv *c, const struct field_reader *inner, struct backoff_in *in)
{
    bool steps = fields_has(inner, "steps_ms");
    bool curve = fields_has(inner, "base_ms") || fields_has(inner, "max_ms") ||
                 fields_has(inner, "jitter_percent");
    if (!fields_has(inner, "kind"))
        in->kind = steps ? BACKOFF_LIST : BACKOFF_EXPONENTIAL;
    if (in->kind == BACKOFF_LIST && (curve || !steps))
        return fail(c, "%s of kind list takes steps_ms and nothing else", c->f->name);
    if (in->kind == BACKOFF_EXPONENTIAL && steps)
        return fail(c, "%s of kind exponential takes base_ms, max_ms and jitter_percent",
                    c->f->name);
    if (in->kind == BACKOFF_EXPONENTIAL && in->base_ms > in->max_ms)
        return fail(c,
                    "%s has a base_ms of %" PRId64 "; it must not be more than max_ms, which is "
                    "%" PRId64,
                    c->f->name, in->base_ms, in->max_ms);
    return 0;
}

static int conv_backoff(struct conv *c)
{
    struct queue_policy standard;
    policy_default(&standard);
    struct backoff_in in = {.base_ms = standard.backoff.base_ms,
                            .max_ms = standard.backoff.max_ms,
                            .jitter_percent = standard.backoff.jitter_percent};
    struct field_reader inner = *c->r;
    struct span raw;
    if (c->token.kind != JSON_OBJECT_BEGIN)
        return fail_type(c, "an object with a kind");
    int err = json_skip(c->json, c->token, &raw);
    if (err < 0)
        return fail_error(c, err);
    inner.table = FIELDS(backoff_rows);
    inner.into = &in;
    if ((err = fields_read(&inner, raw)) < 0 || (err = backoff_kind_of(c, &inner, &in)) < 0)
        return err;
    struct backoff curve = {.kind = BACKOFF_EXPONENTIAL,
                            .jitter_percent = (uint8_t)in.jitter_percent,
                            .base_ms = (uint32_t)in.base_ms,
                            .max_ms = (uint32_t)in.max_ms};
    *(struct backoff *)c->to = in.kind == BACKOFF_LIST ? in.steps : curve;
    return 0;
}

/* ---- lists and values as they stand ---- */

static int conv_raw(struct conv *c)
{
    int err = json_skip(c->json, c->token, c->to);
    return err < 0 ? fail_error(c, err) : 0;
}

struct list_in {
    struct span *list;
    size_t count, room;
};

static int list_add(struct conv *c, struct list_in *l, struct span s)
{
    if (l->count == (size_t)c->f->max)
        return fail(c, "%s has more than %" PRId64 " elements", c->f->name, c->f->max);
    if (l->count == l->room) {
        size_t room = l->room ? l->room * 2 : 8;
        struct span *list = arena_array(c->r->arena, room, sizeof *list);
        if (!list)
            return fail_error(c, -ERR_NOMEM);
        if (l->count > 0)
            memcpy(list, l->list, l->count * sizeof *list);
        l->list = list;
        l->room = room;
    }
    l->list[l->count++] = s;
    return 0;
}

static int text_element(struct conv *c)
{
    struct span text = {0};
    int err = text_of(c, "a list of strings", &text);
    return err < 0 ? err : list_add(c, c->to, text);
}

static int raw_element(struct conv *c)
{
    struct span raw;
    int err = json_skip(c->json, c->token, &raw);
    return err < 0 ? fail_error(c, err) : list_add(c, c->to, raw);
}

static int conv_list(struct conv *c, const char *right, conv_fn element)
{
    struct texts_in *to = c->to;
    struct list_in l = {0};
    c->to = &l;
    int err = each_element(c, right, element);
    if (err < 0)
        return err;
    if (l.count == 0)
        return fail(c, "%s is empty; it must have at least one element", c->f->name);
    *to = (struct texts_in){l.list, l.count};
    return 0;
}

static int conv_texts(struct conv *c)
{
    return conv_list(c, "a list of strings", text_element);
}

static int conv_objects(struct conv *c)
{
    return conv_list(c, "a list of objects", raw_element);
}

/* ---- jobs and tokens ---- */

static int conv_job(struct conv *c)
{
    struct span text;
    bool number = c->json && c->token.kind == JSON_NUMBER;
    int err = number ? 0 : text_of(c, "a job id", &text);
    if (err < 0)
        return err;
    if (id_parse(number ? c->token.raw : text, c->to) == 0)
        return 0;
    *c->r->problem = (struct problem){.code = PROBLEM_INVALID_ID, .field = c->f->name};
    return -ERR_INVALID;
}

/* Epochs begin at 1. */
static const struct job_token never_issued = {.counter = 1, .epoch = 0};

static int conv_token(struct conv *c)
{
    struct span text;
    int err = text_of(c, "a string", &text);
    if (err < 0)
        return err;
    if (text.len == 0)
        return fail(c, "%s is empty; it must be the token of the claim", c->f->name);
    if (token_parse(text, c->to) < 0)
        *(struct job_token *)c->to = never_issued;
    return 0;
}

/* ---- the table of types ---- */

static const struct {
    conv_fn fn;
    bool body_only;
    const char *text;
} types[FIELD_TYPE_COUNT] = {
    [FIELD_TEXT] = {conv_text, false, "a string"},
    [FIELD_CUT] = {conv_cut, false, "a string"},
    [FIELD_INT] = {conv_int, false, "a whole number"},
    [FIELD_BOOL] = {conv_bool, false, "true or false"},
    [FIELD_TIME] = {conv_time, false, "an RFC 3339 time"},
    [FIELD_WORD] = {conv_word, false, "a word"},
    [FIELD_WORDS] = {conv_words, false, "a list of words"},
    [FIELD_RAW] = {conv_raw, true, "any JSON value"},
    [FIELD_PRIORITY] = {conv_priority, false, "a whole number or a label"},
    [FIELD_STEPS] = {conv_steps, false, "a list of milliseconds"},
    [FIELD_BACKOFF] = {conv_backoff, true, "an object with a kind"},
    [FIELD_TEXTS] = {conv_texts, true, "a list of strings"},
    [FIELD_JOB] = {conv_job, false, "a job id"},
    [FIELD_TOKEN] = {conv_token, false, "the token of the claim"},
    [FIELD_OBJECTS] = {conv_objects, true, "a list of objects"},
};

const char *field_type_text(enum field_type t)
{
    return types[t].text;
}

int field_from_json(struct field_reader *r, const struct field *f, struct json_reader *json,
                    struct json_token value)
{
    struct conv c = {
        .r = r, .f = f, .json = json, .token = value, .to = (char *)r->into + f->offset};
    if (value.kind == JSON_NULL && (f->flags & FIELD_NULLABLE)) {
        CHECK(f->type == FIELD_INT);
        *(int64_t *)c.to = f->max;
        return 0;
    }
    return types[f->type].fn(&c);
}

int field_from_text(struct field_reader *r, const struct field *f, struct span text)
{
    struct conv c = {.r = r, .f = f, .text = text, .to = (char *)r->into + f->offset};
    if (types[f->type].body_only)
        return fail(&c, "%s cannot be a query parameter", f->name);
    return types[f->type].fn(&c);
}
