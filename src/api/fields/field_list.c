/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are chosen from a list, and lists: names, labels, back-off. */
#include <inttypes.h>

#include "api/fields/field_conv.h"
#include "base/suggest.h"
#include "core/jobs/headers.h"
#include "core/kvkey.h"
#include "core/limits.h"
#include "core/validate.h"

#define WORDS_MAX 32
#define TEXT_SHOWN_BYTES 40

/* ---- names ---- */

static int fail_name(struct conv *c, struct span text)
{
    const char *nearest = NULL;
    size_t count = 0;
    const char *shown = arena_text(c->r->arena, validate_cut(text, TEXT_SHOWN_BYTES));
    while (c->f->names[count])
        count++;
    if (shown)
        nearest = suggest_nearest(shown, c->f->names, count);
    int err =
        conv_fail(c, "%s is %s%s%s%s; `allowed` lists the values that it can have", c->f->name,
                  !shown   ? "unknown"
                  : *shown ? shown
                           : "empty",
                  nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "");
    c->r->problem->allowed = c->f->names;
    c->r->problem->allowed_count = count;
    return err;
}

/* Finds the text among the few names of the row, or refuses it. */
static int name_find(struct conv *c, struct span text, uint8_t *ret)
{
    for (size_t i = 0; c->f->names[i]; i++) {
        if (span_equal(span_text(c->f->names[i]), text)) {
            *ret = (uint8_t)((int64_t)i + c->f->min);
            return 0;
        }
    }
    return fail_name(c, text);
}

int conv_enum(struct conv *c)
{
    struct span text;
    int err = conv_text_of(c, "a word", &text);
    return err < 0 ? err : name_find(c, text, c->to);
}

static int add_name(struct conv *c, struct span text)
{
    uint8_t index;
    int err = name_find(c, text, &index);
    if (err == 0)
        *(uint64_t *)c->to |= UINT64_C(1) << index;
    return err;
}

/* Calls fn for each part between commas. */
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
        return conv_fail_type(c, right);
    while ((err = json_next(c->json, &c->token)) == 0 && c->token.kind != JSON_ARRAY_END) {
        if ((err = fn(c)) < 0)
            return err;
    }
    return err;
}

static int name_element(struct conv *c)
{
    struct span text;
    int err = conv_text_of(c, "a list of names", &text);
    return err < 0 ? err : add_name(c, text);
}

int conv_enum_set(struct conv *c)
{
    *(uint64_t *)c->to = 0;
    return c->json ? each_element(c, "a list of names", name_element) : each_piece(c, add_name);
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
    int err =
        conv_fail(c, "%s is %s; it must be a whole number (higher first) or one of the labels",
                  c->f->name, shown ? shown : "unknown");
    const char **allowed = arena_copy(c->r->arena, names, count * sizeof *names);
    c->r->problem->allowed = allowed;
    c->r->problem->allowed_count = allowed ? count : 0;
    return err;
}

int conv_priority(struct conv *c)
{
    struct priority_in *p = c->to;
    struct span text;
    if (conv_number(c)) {
        if (json_int(&c->token, &p->value) < 0)
            return conv_fail(c, "%s must be a whole number of 64 bits, or a label", c->f->name);
        p->label = span_of(NULL, 0);
        return 0;
    }
    int err = conv_text_of(c, "a whole number or a label", &text);
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
    if (!conv_number(c) || json_int(&c->token, &ms) < 0 || ms < 0 || ms > LIMIT_BACKOFF_MS)
        return conv_fail(c, "a step of %s must be a whole number from 0 to %u", c->f->name,
                         LIMIT_BACKOFF_MS);
    if (b->step_count == LIMIT_BACKOFF_STEPS)
        return conv_fail(c, "%s has more than %d steps", c->f->name, LIMIT_BACKOFF_STEPS);
    b->step_ms[b->step_count++] = (uint32_t)ms;
    return 0;
}

static int add_step_text(struct conv *c, struct span piece)
{
    struct conv one = *c;
    one.text = piece;
    return add_step(&one);
}

int conv_steps(struct conv *c)
{
    *(struct backoff *)c->to = (struct backoff){.kind = BACKOFF_LIST};
    return c->json ? each_element(c, "a list of milliseconds", add_step)
                   : each_piece(c, add_step_text);
}

struct backoff_in {
    uint8_t type; /* enum backoff_kind */
    int64_t base_ms, max_ms, jitter_percent;
    struct backoff steps;
};

static const char *const backoff_names[] = {"exponential", "list", NULL};

#define BACKOFF_AT(member) offsetof(struct backoff_in, member)
static const struct field backoff_rows[] = {
    {"type", FIELD_ENUM, BACKOFF_AT(type), 0, 0, backoff_names, 0},
    {"base_ms", FIELD_INT, BACKOFF_AT(base_ms), 0, LIMIT_BACKOFF_MS, NULL, 0},
    {"max_ms", FIELD_INT, BACKOFF_AT(max_ms), 0, LIMIT_BACKOFF_MS, NULL, 0},
    {"jitter_percent", FIELD_INT, BACKOFF_AT(jitter_percent), 0, 100, NULL, 0},
    {"steps_ms", FIELD_STEPS, BACKOFF_AT(steps), 0, 0, NULL, 0},
};

/* Members that belong to the other type are refused, not ignored. */
static int backoff_type_of(struct conv *c, const struct field_reader *inner, struct backoff_in *in)
{
    bool steps = fields_has(inner, "steps_ms");
    bool curve = fields_has(inner, "base_ms") || fields_has(inner, "max_ms") ||
                 fields_has(inner, "jitter_percent");
    if (!fields_has(inner, "type"))
        in->type = steps ? BACKOFF_LIST : BACKOFF_EXPONENTIAL;
    if (in->type == BACKOFF_LIST && (curve || !steps))
        return conv_fail(c, "%s of type list takes steps_ms and nothing else", c->f->name);
    if (in->type == BACKOFF_EXPONENTIAL && steps)
        return conv_fail(c, "%s of type exponential takes base_ms, max_ms and jitter_percent",
                         c->f->name);
    if (in->type == BACKOFF_EXPONENTIAL && in->base_ms > in->max_ms)
        return conv_fail(c,
                         "%s has a base_ms of %" PRId64
                         "; it must not be more than max_ms, which is "
                         "%" PRId64,
                         c->f->name, in->base_ms, in->max_ms);
    return 0;
}

int conv_backoff(struct conv *c)
{
    struct queue_policy standard;
    policy_default(&standard);
    struct backoff_in in = {.base_ms = standard.backoff.base_ms,
                            .max_ms = standard.backoff.max_ms,
                            .jitter_percent = standard.backoff.jitter_percent};
    struct field_reader inner = *c->r;
    struct span raw;
    if (c->token.kind != JSON_OBJECT_BEGIN)
        return conv_fail_type(c, "an object with a type");
    int err = json_skip(c->json, c->token, &raw);
    if (err < 0)
        return conv_fail_error(c, err);
    inner.table = FIELDS(backoff_rows);
    inner.into = &in;
    if ((err = fields_read(&inner, raw)) < 0 || (err = backoff_type_of(c, &inner, &in)) < 0)
        return err;
    struct backoff curve = {.kind = BACKOFF_EXPONENTIAL,
                            .jitter_percent = (uint8_t)in.jitter_percent,
                            .base_ms = (uint32_t)in.base_ms,
                            .max_ms = (uint32_t)in.max_ms};
    *(struct backoff *)c->to = in.type == BACKOFF_LIST ? in.steps : curve;
    return 0;
}

/* ---- lists and values as they stand ---- */

int conv_raw(struct conv *c)
{
    int err = json_skip(c->json, c->token, c->to);
    return err < 0 ? conv_fail_error(c, err) : 0;
}

struct list_in {
    struct span *list;
    size_t count, room;
};

static int list_add(struct conv *c, struct list_in *l, struct span s)
{
    if (l->count == (size_t)c->f->max)
        return conv_fail(c, "%s has more than %" PRId64 " elements", c->f->name, c->f->max);
    if (l->count == l->room) {
        size_t room = l->room ? l->room * 2 : 8;
        struct span *list = arena_array(c->r->arena, room, sizeof *list);
        if (!list)
            return conv_fail_error(c, -ERR_NOMEM);
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
    int err = conv_text_of(c, "a list of strings", &text);
    return err < 0 ? err : list_add(c, c->to, text);
}

static int raw_element(struct conv *c)
{
    struct span raw;
    int err = json_skip(c->json, c->token, &raw);
    return err < 0 ? conv_fail_error(c, err) : list_add(c, c->to, raw);
}

static int conv_list(struct conv *c, const char *right, conv_fn element)
{
    struct texts_in *to = c->to;
    struct list_in l = {0};
    c->to = &l;
    int err = each_element(c, right, element);
    if (err < 0)
        return err;
    if (l.count == 0 && !(c->f->flags & FIELD_EMPTY))
        return conv_fail(c, "%s is empty; it must have at least one element", c->f->name);
    *to = (struct texts_in){l.list, l.count};
    return 0;
}

int conv_texts(struct conv *c)
{
    return conv_list(c, "a list of strings", text_element);
}

int conv_objects(struct conv *c)
{
    return conv_list(c, "a list of objects", raw_element);
}

/* ---- keys ---- */

static int key_from_json(struct conv *c, struct span json, bool empty_right, struct span *ret)
{
    struct err_note note = {""};
    int err = kvkey_from_json(json, empty_right, c->r->arena, ret, &note);
    if (err == 0 || !note.text[0])
        return err < 0 ? conv_fail_error(c, err) : 0;
    return conv_fail(c, "%s: %s", c->f->name, note.text);
}

static int key_raw(struct conv *c, struct span *ret)
{
    if (c->token.kind != JSON_ARRAY_BEGIN)
        return conv_fail_type(c, "a key: a list of texts, numbers and booleans");
    int err = json_skip(c->json, c->token, ret);
    return err < 0 ? conv_fail_error(c, err) : 0;
}

int conv_kv_key(struct conv *c)
{
    struct err_note note = {""};
    struct span raw = c->text;
    bool prefix = c->f->min == 0;
    if (c->json) {
        int err = key_raw(c, &raw);
        return err < 0 ? err : key_from_json(c, raw, prefix, c->to);
    }
    if (raw.len > 0 && raw.at[0] == '[')
        return key_from_json(c, raw, prefix, c->to);
    if (raw.len == 0 && prefix) {
        *(struct span *)c->to = (struct span){NULL, 0};
        return 0;
    }
    int err = kvkey_from_text(raw, c->r->arena, c->to, &note);
    if (err == 0 || !note.text[0])
        return err < 0 ? conv_fail_error(c, err) : 0;
    return conv_fail(c, "%s: %s", c->f->name, note.text);
}

static int key_element(struct conv *c)
{
    struct span raw = {NULL, 0}, key = {NULL, 0};
    int err = key_raw(c, &raw);
    if (err == 0)
        err = key_from_json(c, raw, false, &key);
    return err < 0 ? err : list_add(c, c->to, key);
}

int conv_kv_keys(struct conv *c)
{
    return conv_list(c, "a list of keys", key_element);
}

int conv_headers(struct conv *c)
{
    struct err_note note = {""};
    struct span raw = c->text;
    int err = c->json ? json_skip(c->json, c->token, &raw) : 0;
    if (err == 0)
        err = headers_read(raw, c->r->arena, c->to, &note);
    if (err == 0 || !note.text[0])
        return err < 0 ? conv_fail_error(c, err) : 0;
    return conv_fail(c, "%s", note.text);
}
