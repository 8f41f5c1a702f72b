/* SPDX-License-Identifier: Apache-2.0 */
#include "api/v1/queues/policy_fields.h"

#include <stdio.h>

#include "api/json_members.h"
#include "core/limits.h"

static const char *const backoff_kinds[] = {"exponential", "list"};

/* ---- the rows ---- */

#define AT(member) offsetof(struct policy_in, member)

/* Members of a queue besides its policy, and a short form of the back-off. */
static const struct field other_rows[] = {
    {"backoff_ms", FIELD_STEPS, AT(policy.backoff), 0, 0, NULL, 0},
    {"description", FIELD_TEXT, AT(note), 0, LIMIT_NOTE_BYTES, NULL, 0},
    {"owner", FIELD_TEXT, AT(owner), 0, LIMIT_LABEL_BYTES, NULL, 0},
    {"attributes", FIELD_RAW, AT(attributes), 0, 0, NULL, 0},
};
enum { OTHER_ROWS = sizeof other_rows / sizeof *other_rows };

/* How a member is read. Types other than that of the member are read into `given` first. */
static const struct {
    enum field_type type;
    bool given;
} readers[] = {
    [POLICY_MS] = {FIELD_INT, true},           [POLICY_BYTES] = {FIELD_INT, true},
    [POLICY_NUMBER] = {FIELD_INT, true},       [POLICY_BOOL] = {FIELD_BOOL, false},
    [POLICY_WORD] = {FIELD_ENUM, false},       [POLICY_PRIORITY] = {FIELD_PRIORITY, true},
    [POLICY_BACKOFF] = {FIELD_BACKOFF, false}, [POLICY_RATE] = {FIELD_RAW, true},
};

/* The names of a row as a NULL-terminated list; NULL: no memory. */
static const char *const *names_split(struct arena *arena, const char *words)
{
    size_t count = (size_t)policy_word_count(words);
    const char **list = arena_array(arena, count + 1, sizeof *list);
    for (size_t i = 0; list && i < count; i++) {
        if (!(list[i] = arena_text(arena, policy_word(words, i))))
            return NULL;
    }
    return list;
}

static bool row_fill(struct field *row, size_t i, struct arena *arena)
{
    const struct policy_field *f = &policy_fields[i];
    size_t given = AT(given) + i * sizeof((struct policy_in *)0)->given[0];
    *row = (struct field){.name = f->name,
                          .type = readers[f->kind].type,
                          .offset = (uint32_t)(readers[f->kind].given ? given : f->offset),
                          .min = f->min,
                          .max = f->max,
                          .flags = policy_unlimited(f) ? FIELD_NULLABLE : 0};
    if (f->kind == POLICY_WORD)
        row->names = names_split(arena, f->value);
    return f->kind != POLICY_WORD || row->names;
}

struct fields policy_rows(struct arena *arena)
{
    _Static_assert(AT(policy) == 0, "the offset of a member is its offset in the policy");
    struct field *rows = arena_array(arena, POLICY_FIELDS + OTHER_ROWS, sizeof *rows);
    for (size_t i = 0; rows && i < POLICY_FIELDS; i++) {
        if (!row_fill(&rows[i], i, arena))
            rows = NULL;
    }
    if (rows)
        memcpy(rows + POLICY_FIELDS, other_rows, sizeof other_rows);
    return (struct fields){rows, rows ? POLICY_FIELDS + OTHER_ROWS : 0};
}

/* ---- read ---- */

struct rate_in {
    uint8_t per;
    int64_t count, window_ms;
};

/* Problems with a part name MEMBER.PART. */
static int rate_problem(const struct policy_field *f, const struct field_reader *r)
{
    char name[64];
    const char *part = r->problem->field;
    snprintf(name, sizeof name, "%s%s%s", f->name, part ? "." : "", part ? part : "");
    r->problem->field = arena_text(r->arena, span_text(name));
    return -ERR_INVALID;
}

/* null removes the limit; an object replaces it. */
static int rate_take(const struct policy_field *f, struct span text, const struct field_reader *r,
                     struct queue_policy *p)
{
    struct rate_in rate = {0};
    const struct field rows[] = {
        {"per", FIELD_ENUM, offsetof(struct rate_in, per), 0, 0, names_split(r->arena, f->value),
         0},
        {"count", FIELD_INT, offsetof(struct rate_in, count), 1, LIMIT_RATE_COUNT, NULL,
         FIELD_REQUIRED},
        {"window_ms", FIELD_INT, offsetof(struct rate_in, window_ms), 1, LIMIT_RATE_WINDOW_MS, NULL,
         FIELD_REQUIRED},
    };
    struct field_reader parts = {.table = FIELDS(rows),
                                 .broker = r->broker,
                                 .arena = r->arena,
                                 .problem = r->problem,
                                 .into = &rate};
    policy_rate_set(f, p, (struct rate_limit){0});
    if (span_equal(text, SPAN_LITERAL("null")))
        return 0;
    if (text.at[0] != '{') {
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, f->name,
                    "%s must be null or an object such as {\"per\":\"group\",\"count\":10,"
                    "\"window_ms\":1000}",
                    f->name);
        return -ERR_INVALID;
    }
    if (!rows[0].names) {
        problem_of_error(r->problem, -ERR_NOMEM);
        return -ERR_INVALID;
    }
    if (fields_read(&parts, text) < 0)
        return rate_problem(f, r);
    policy_rate_set(f, p,
                    (struct rate_limit){rate.per, (uint32_t)rate.count, (uint32_t)rate.window_ms});
    return 0;
}

static int member_take(struct policy_in *in, size_t i, const struct field_reader *r)
{
    const struct policy_field *f = &policy_fields[i];
    if (f->kind == POLICY_RATE)
        return rate_take(f, in->given[i].rate, r, &in->policy);
    policy_number_set(f, &in->policy,
                      f->kind == POLICY_PRIORITY ? in->given[i].priority.value
                                                 : in->given[i].number);
    return 0;
}

int policy_in_take(struct policy_in *in, const struct field_reader *r)
{
    struct err_note note;
    if (fields_exclude(r, "backoff", "backoff_ms") < 0)
        return -ERR_INVALID;
    for (size_t i = 0; i < POLICY_FIELDS; i++) {
        const struct policy_field *f = &policy_fields[i];
        if (readers[f->kind].given && fields_has(r, f->name) && member_take(in, i, r) < 0)
            return -ERR_INVALID;
    }
    if (policy_check(&in->policy, &note) == 0)
        return 0;
    problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD,
                problem_note_field(r->arena, note.text), "%s", note.text);
    return -ERR_INVALID;
}

/* ---- written ---- */

void backoff_write(struct json_writer *w, const struct backoff *b)
{
    write_object(w, "backoff");
    write_text(w, "type", backoff_kinds[b->kind]);
    if (b->kind == BACKOFF_EXPONENTIAL) {
        write_uint(w, "base_ms", b->base_ms);
        write_uint(w, "max_ms", b->max_ms);
        write_uint(w, "jitter_percent", b->jitter_percent);
    } else {
        write_array(w, "steps_ms");
        for (size_t i = 0; i < b->step_count; i++)
            json_write_uint(w, b->step_ms[i]);
        json_write_array_end(w);
    }
    json_write_object_end(w);
}

static void rate_write(struct json_writer *w, const struct policy_field *f,
                       const struct rate_limit *r)
{
    json_write_key(w, f->name);
    if (r->count == 0) {
        json_write_null(w);
        return;
    }
    json_write_object(w);
    write_span(w, "per", policy_word(f->value, r->per));
    write_uint(w, "count", r->count);
    write_uint(w, "window_ms", r->window_ms);
    json_write_object_end(w);
}

static void number_write(struct json_writer *w, const struct policy_field *f, int64_t value)
{
    json_write_key(w, f->name);
    if (value == INT64_MAX && policy_unlimited(f))
        json_write_null(w);
    else
        json_write_int(w, value);
}

void policy_member_write(struct json_writer *w, const struct policy_field *f,
                         const struct queue_policy *p)
{
    if (f->kind == POLICY_BACKOFF)
        backoff_write(w, policy_backoff(f, p));
    else if (f->kind == POLICY_RATE)
        rate_write(w, f, policy_rate(f, p));
    else if (f->kind == POLICY_BOOL)
        write_bool(w, f->name, policy_number(f, p) != 0);
    else if (f->kind == POLICY_WORD)
        write_span(w, f->name, policy_word(f->value, (size_t)(policy_number(f, p) - f->min)));
    else
        number_write(w, f, policy_number(f, p));
}

void policy_write(struct json_writer *w, const struct queue_policy *p)
{
    json_write_object(w);
    for (size_t i = 0; i < POLICY_FIELDS; i++)
        policy_member_write(w, &policy_fields[i], p);
    json_write_object_end(w);
}
