/* SPDX-License-Identifier: Apache-2.0 */
#include "api/v1/jobs/depends.h"

#include "api/json_members.h"
#include "core/limits.h"

const char *const dependency_rules[] = {"cancel", "run", "dead", NULL};

int depends_supported(const struct broker *b, struct problem *p, const char *field)
{
    if (broker_caps(b) & CAP_DEPENDENCIES)
        return 0;
    *p = (struct problem){.code = PROBLEM_NOT_SUPPORTED,
                          .field = field,
                          .detail = "the store of this server does not support jobs that depend "
                                    "on others: a server with routes or with failover has several "
                                    "stores"};
    return -ERR_INVALID;
}

/* "#12" */
static bool index_parse(struct span text, uint32_t *ret)
{
    uint32_t n = 0;
    if (text.len < 2 || text.len > 6 || text.at[0] != '#')
        return false;
    for (size_t i = 1; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        n = n * 10 + (uint32_t)(text.at[i] - '0');
    }
    *ret = n;
    return true;
}

static int take_parents(const struct field_reader *r, struct texts_in parents,
                        struct dependency_ref *refs, bool *ret_refs)
{
    for (size_t i = 0; i < parents.count; i++) {
        if (index_parse(parents.list[i], &refs[i].index)) {
            *ret_refs = true;
            continue;
        }
        if (id_parse(parents.list[i], &refs[i].job) == 0 && refs[i].job.seq != 0)
            continue;
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "depends_on",
                    "depends_on[%zu] is neither the id of a job nor \"#\" with the index of an "
                    "earlier job of the same request",
                    i);
        return -ERR_INVALID;
    }
    return 0;
}

/* Whether the list has "#…"; -ERR_SYNTAX does not occur, because the text was read before. */
static int find_ref(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    struct json_token t = value;
    struct span whole;
    if (!span_equal(name, SPAN_LITERAL("depends_on")) || value.kind != JSON_ARRAY_BEGIN)
        return json_skip(r, value, &whole);
    for (int err; t.kind != JSON_ARRAY_END;) {
        if ((err = json_next(r, &t)) < 0)
            return err;
        if (t.kind == JSON_STRING && t.raw.len > 1 && t.raw.at[1] == '#')
            *(bool *)ctx = true;
        else if (t.kind == JSON_ARRAY_BEGIN || t.kind == JSON_OBJECT_BEGIN)
            return -ERR_INVALID; /* no list of texts */
    }
    return 0;
}

bool depends_has_refs(struct arena *arena, struct span text)
{
    struct json_reader r;
    bool found = false;
    json_open(&r, text);
    int err = json_object(&r, arena, find_ref, &found);
    (void)err; /* what was found before an error counts */
    return found;
}

int depends_take(const struct field_reader *r, struct texts_in parents, uint8_t rule,
                 struct op_enqueue *op, bool *ret_refs)
{
    *ret_refs = false;
    if (!fields_has(r, "depends_on")) {
        if (!fields_has(r, "on_dependency_failure"))
            return 0;
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "on_dependency_failure",
                    "on_dependency_failure needs depends_on; the rule of a batch is its "
                    "on_failure");
        return -ERR_INVALID;
    }
    int err = depends_supported(r->broker, r->problem, "depends_on");
    if (err < 0 || parents.count == 0)
        return err;
    struct op_depends *d = arena_array(r->arena, 1, sizeof *d);
    struct dependency_ref *refs = arena_array(r->arena, parents.count, sizeof *refs);
    if (!d || !refs) {
        problem_of_error(r->problem, -ERR_NOMEM);
        return -ERR_INVALID;
    }
    *d = (struct op_depends){.parents = refs, .count = (uint32_t)parents.count, .rule = rule};
    op->depends = d;
    return take_parents(r, parents, refs, ret_refs);
}

/* ---- views ---- */

/* A job that has ended, or was requeued, stays as it is. */
bool depends_open(const struct job_view *v)
{
    return v->dependent.open && v->job.state == STATE_BLOCKED;
}

void depends_write_counts(struct json_writer *w, const struct job_view *v)
{
    json_write_object(w);
    write_uint(w, "total", v->dependent.counts[DEPENDENCY_END_NONE]);
    write_uint(w, "waiting", v->waits);
    for (unsigned e = DEPENDENCY_END_DONE; e < DEPENDENCY_END_COUNT; e++)
        write_uint(w, dependency_end_name((enum dependency_end)e), v->dependent.counts[e]);
    json_write_object_end(w);
}

void depends_write(struct json_writer *w, const struct job_view *v)
{
    if (!v->is_dependent)
        return;
    write_text(w, "on_dependency_failure",
               dependency_rule_name((enum dependency_rule)v->dependent.rule));
    json_write_key(w, "dependencies");
    depends_write_counts(w, v);
    if (depends_open(v))
        write_bool(w, "open", true);
    if (!v->parents)
        return;
    json_write_key(w, "waits_for");
    json_write_array(w);
    for (uint32_t i = 0; i < v->parent_count; i++) {
        char id[ID_ULID_BYTES];
        id_ulid(id_make(v->parents[i].hi, v->parents[i].seq), id);
        json_write_text(w, span_text(id));
    }
    json_write_array_end(w);
}
