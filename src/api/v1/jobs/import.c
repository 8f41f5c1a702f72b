/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/import: jobs in the format of an export, an array or NDJSON, with an outcome for
 * each.
 *
 * A job gets a new id. The old id makes the import repeatable, because the idempotency key is
 * derived from it, and is shown as imported_from among the job's attributes. Members that only
 * describe the job in its old store (seq, state_since, attempts) are read and ignored.
 *
 * A blocked job comes open: it does not start before the jobs for which it still waits, whose new
 * ids only the client knows, were added to it and it was closed (job_depends_handle). */
#include "api/content.h"
#include "api/fields/job_option_fields.h"
#include "api/fields/job_text_fields.h"
#include "api/json_members.h"
#include "api/kv_keys.h"
#include "api/v1/jobs/batch.h"
#include "api/v1/jobs/depends.h"
#include "api/v1/jobs/reports.h"
#include "base/digest/base64.h"
#include "core/jobs/job_error.h"
#include "core/limits.h"
#include "core/validate.h"

#define OLD_ID_BYTES_MAX 128
#define LOG_LINES_MAX (LIMIT_LOG_BYTES / 8) /* a line is stored with its time and attempt */
#define BASE64_MAX ((LIMIT_PAYLOAD_BYTES + 2) / 3 * 4)

/* A payload or a result: at most one of the four is given. */
struct body_in {
    struct span json, json_text, text, base64;
};

struct import_in {
    struct job_texts; /* its members are members of this struct */
    struct span id, queue;
    uint8_t state, reason, error_kind;
    struct priority_in priority;
    int64_t failures, crashes;
    struct job_options_in options;
    struct wall_time run_at, due_at, expires_at;
    struct body_in payload, result;
    struct span error, error_type, stack;
    struct texts_in undelivered, log;
    struct span progress, steps;
    uint64_t damaged;         /* enum job_damage */
    struct span dependencies; /* an object; empty = it depends on nothing */
    uint8_t dependency_rule;
    struct texts_in waits_for;                /* ignored: the ids are those of the old store … */
    bool open;                                /* … and a job that comes blocked is open */
    int64_t seq, attempts;                    /* ignored, like … */
    struct wall_time state_since, created_at; /* … these; the old id contains created_at */
};

/* In the order of the enum, from 1. */
static const char *const error_kinds[] = {"app", "business", NULL};
/* In the order of enum job_damage. */
static const char *const damages[] = {"payload", "result", "keys", "history", "steps", NULL};

#define AT(member) offsetof(struct import_in, member)
static const struct field rows[] = {
    {"id", FIELD_TEXT, AT(id), 0, OLD_ID_BYTES_MAX, NULL, FIELD_REQUIRED},
    {"queue", FIELD_TEXT, AT(queue), 0, LIMIT_QUEUE_NAME_BYTES, NULL, FIELD_REQUIRED},
    {"state", FIELD_ENUM, AT(state), STATE_SCHEDULED, 0, native_states, 0},
    {"reason", FIELD_ENUM, AT(reason), REASON_FAILED, 0, native_reasons, 0},
    {"priority", FIELD_PRIORITY, AT(priority), 0, 0, NULL, 0},
    {"failures", FIELD_INT, AT(failures), 0, UINT16_MAX, NULL, 0},
    {"crashes", FIELD_INT, AT(crashes), 0, UINT16_MAX, NULL, 0},
    {"created_at", FIELD_TIME, AT(created_at), 0, 0, NULL, 0},
    {"run_at", FIELD_TIME, AT(run_at), 0, 0, NULL, 0},
    {"due_at", FIELD_TIME, AT(due_at), 0, 0, NULL, 0},
    {"expires_at", FIELD_TIME, AT(expires_at), 0, 0, NULL, 0},
    JOB_TEXT_FIELDS JOB_OPTION_FIELDS /* of the job */
    {"attributes", FIELD_RAW, AT(attributes), 0, 0, NULL, 0},
    {"payload", FIELD_RAW, AT(payload.json), 0, 0, NULL, 0},
    {"payload_json", FIELD_TEXT, AT(payload.json_text), 0, LIMIT_PAYLOAD_BYTES, NULL, 0},
    {"payload_text", FIELD_TEXT, AT(payload.text), 0, LIMIT_PAYLOAD_BYTES, NULL, 0},
    {"payload_base64", FIELD_TEXT, AT(payload.base64), 0, BASE64_MAX, NULL, 0},
    {"result", FIELD_RAW, AT(result.json), 0, 0, NULL, 0},
    {"result_json", FIELD_TEXT, AT(result.json_text), 0, LIMIT_PAYLOAD_BYTES, NULL, 0},
    {"result_text", FIELD_TEXT, AT(result.text), 0, LIMIT_PAYLOAD_BYTES, NULL, 0},
    {"result_base64", FIELD_TEXT, AT(result.base64), 0, BASE64_MAX, NULL, 0},
    {"error", FIELD_CUT, AT(error), 0, LIMIT_ERROR_BYTES, NULL, 0},
    {"error_type", FIELD_CUT, AT(error_type), 0, LIMIT_ERROR_TYPE_BYTES, NULL, 0},
    {"stack", FIELD_CUT, AT(stack), 0, LIMIT_STACK_BYTES, NULL, 0},
    {"error_kind", FIELD_ENUM, AT(error_kind), ERROR_APP, 0, error_kinds, 0},
    {"keys_if_undelivered", FIELD_KV_KEYS, AT(undelivered), 0, LIMIT_KV_UNDELIVERED, NULL, 0},
    {"progress", FIELD_RAW, AT(progress), 0, 0, NULL, 0},
    {"log", FIELD_OBJECTS, AT(log), 0, LOG_LINES_MAX, NULL, FIELD_EMPTY},
    {"steps", FIELD_RAW, AT(steps), 0, 0, NULL, 0},
    {"damaged", FIELD_ENUM_SET, AT(damaged), 0, 0, damages, 0},
    {"on_dependency_failure", FIELD_ENUM, AT(dependency_rule), 0, 0, dependency_rules, 0},
    {"dependencies", FIELD_RAW, AT(dependencies), 0, 0, NULL, 0},
    {"open", FIELD_BOOL, AT(open), 0, 0, NULL, 0},
    {"waits_for", FIELD_TEXTS, AT(waits_for), 0, LIMIT_DEPENDENCIES, NULL, FIELD_EMPTY},
    {"seq", FIELD_INT, AT(seq), 0, INT64_MAX, NULL, 0},
    {"attempts", FIELD_INT, AT(attempts), 0, INT64_MAX, NULL, 0},
    {"state_since", FIELD_TIME, AT(state_since), 0, 0, NULL, 0},
};

/* One job that is being read. */
struct import {
    struct native *n;
    struct http_exchange *x;
    struct field_reader reader;
    struct problem problem;
    struct import_in in;
    struct op_enqueue *op;
};

#define wrong(im, field, ...)                                                                      \
    (problem_set(&(im)->problem, (im)->reader.arena, PROBLEM_INVALID_FIELD, field, __VA_ARGS__),   \
     -ERR_INVALID)

static int no_memory(struct import *im)
{
    problem_of_error(&im->problem, -ERR_NOMEM);
    return -ERR_INVALID;
}

/* ---- payload and result ---- */

static int take_base64(struct import *im, const char *name, struct span text, struct span *ret)
{
    char *bytes = arena_alloc(im->reader.arena, base64_decoded_max(text.len) + 1);
    size_t len;
    if (!bytes)
        return no_memory(im);
    if (base64_decode(text, bytes, &len) < 0)
        return wrong(im, name, "%s is not base 64 with padding (RFC 4648)", name);
    *ret = span_of(bytes, len);
    return 0;
}

static int take_json(struct import *im, const char *name, struct span text, struct span *ret)
{
    const char *error;
    size_t at;
    if (json_check(text, &error, &at) < 0)
        return wrong(im, name, "%s is a text that is not JSON at byte %zu: %s", name, at, error);
    *ret = text;
    return 0;
}

/* A body can be given as JSON, as JSON in a text (because of line breaks), as text, or as bytes.
 * If none is given, the job has no body. */
static int take_body(struct import *im, const char *const forms[4], const struct body_in *in,
                     uint8_t *ret_kind, struct span *ret)
{
    const char *given = NULL;
    for (size_t i = 0; i < 4; i++) {
        if (!fields_has(&im->reader, forms[i]))
            continue;
        if (given)
            return wrong(im, forms[i], "both %s and %s are given; give one of them", given,
                         forms[i]);
        given = forms[i];
        *ret_kind = i < 2 ? PAYLOAD_JSON : PAYLOAD_BYTES;
    }
    *ret = in->json.len > 0 ? in->json : in->text;
    if (given == forms[1])
        return take_json(im, given, in->json_text, ret);
    return given == forms[3] ? take_base64(im, given, in->base64, ret) : 0;
}

static int take_payload(struct import *im)
{
    static const char *const forms[] = {"payload", "payload_json", "payload_text",
                                        "payload_base64"};
    return take_body(im, forms, &im->in.payload, &im->op->payload_kind, &im->op->payload);
}

/* Only a job that has ended has a result; a job that runs again produces a new one. */
static int take_result(struct import *im)
{
    static const char *const forms[] = {"result", "result_json", "result_text", "result_base64"};
    struct job_moved moved = {0};
    int err = take_body(im, forms, &im->in.result, &moved.result_kind, &moved.result);
    if (err < 0)
        return err;
    bool done = im->in.state == STATE_DONE;
    if (!done && (im->in.state != STATE_DEAD || moved.result_kind == PAYLOAD_NONE))
        return 0;
    im->op->moved = arena_copy(im->reader.arena, &moved, sizeof moved);
    return im->op->moved ? 0 : no_memory(im);
}

/* ---- attributes ---- */

static int attribute_copy(void *ctx, struct json_reader *r, struct span name,
                          struct json_token value)
{
    struct json_writer *w = ctx;
    struct span whole;
    int err = json_skip(r, value, &whole);
    if (err < 0 || span_equal(name, SPAN_LITERAL("imported_from")))
        return err;
    json_write_key_span(w, name);
    json_write_raw(w, whole);
    return 0;
}

static int attributes_write(const struct import *im, struct buf *text)
{
    struct json_writer w;
    struct json_reader r;
    int err = 0;
    json_writer_init(&w, text);
    json_write_object(&w);
    write_span(&w, "imported_from", im->in.id);
    if (im->in.attributes.len > 0) {
        json_open(&r, im->in.attributes);
        err = json_object(&r, im->reader.arena, attribute_copy, &w);
    }
    json_write_object_end(&w);
    return err < 0 ? err : json_writer_finish(&w);
}

/* Its attributes, with imported_from added. */
static int take_attributes(struct import *im)
{
    struct buf text;
    buf_init(&text);
    int err = attributes_write(im, &text);
    const char *copy = err == 0 ? arena_copy(im->reader.arena, text.data, text.len) : NULL;
    im->op->extra.attributes = span_of(copy, copy ? text.len : 0);
    buf_done(&text);
    if (err < 0 && err != -ERR_NOMEM)
        return wrong(im, "attributes", "attributes must be an object without a name given twice");
    return copy ? 0 : no_memory(im);
}

/* ---- the rest ---- */

/* Refuses a job whose payload or keys are damaged. Other damage concerns parts that are not
 * imported, except the text of an error. */
static int take_damage(struct import *im)
{
    if (!(im->in.damaged & DAMAGE_FATAL))
        return 0;
    return wrong(im, "damaged",
                 "the job was damaged where it was exported: its %s could not be read, so it is "
                 "not imported; enqueue it again from its source",
                 im->in.damaged & DAMAGE_PAYLOAD ? "payload"
                 : im->in.damaged & DAMAGE_TEXTS ? "keys or options"
                                                 : "steps");
}

static int take_past(struct import *im)
{
    const struct import_in *in = &im->in;
    bool dead = in->state == STATE_DEAD, ended = dead || in->state == STATE_DONE;
    bool kept = ended || in->state == STATE_BLOCKED;
    if (in->state == STATE_CANCELLED)
        return wrong(im, "state", "the job is cancelled; any other job can be imported");
    struct job_past past = {
        .state = kept ? in->state : STATE_READY,
        .reason = fields_has(&im->reader, "reason") ? in->reason
                  : dead                            ? REASON_FAILED
                                                    : REASON_NONE,
        .failures = (uint16_t)in->failures,
        .crashes = (uint16_t)in->crashes,
        .error_kind = in->error_kind,
    };
    struct job_error error = {in->error, in->error_type, in->stack};
    if (job_error_pack(&error, im->reader.arena, &past.error) < 0)
        return no_memory(im);
    int err = reports_read(im->n->broker, im->x, in->progress, &in->log, &past, &im->problem);
    if (err == 0)
        err = steps_read(im->reader.arena, in->steps, &past.steps, &im->problem);
    if (err < 0)
        return err;
    im->op->past = arena_copy(im->reader.arena, &past, sizeof past);
    return im->op->past ? 0 : no_memory(im);
}

static int take_options(struct import *im)
{
    const struct import_in *in = &im->in;
    struct job_options o = job_options_of(&in->options, fields_has(&im->reader, "backoff"));
    if (options_empty(&o))
        return 0;
    im->op->options = arena_copy(im->reader.arena, &o, sizeof o);
    return im->op->options ? 0 : no_memory(im);
}

struct counts_in {
    int64_t by_end[DEPENDENCY_END_COUNT]; /* [DEPENDENCY_END_NONE]: all */
    int64_t waiting;                      /* ignored: it follows from the others */
};
#define COUNT_ROW(name, at)                                                                        \
    {                                                                                              \
        name, FIELD_INT, offsetof(struct counts_in, at), 0, LIMIT_DEPENDENCIES, NULL, 0            \
    }
static const struct field count_rows[] = {
    COUNT_ROW("total", by_end[DEPENDENCY_END_NONE]),
    COUNT_ROW("waiting", waiting),
    COUNT_ROW("done", by_end[DEPENDENCY_END_DONE]),
    COUNT_ROW("dead", by_end[DEPENDENCY_END_DEAD]),
    COUNT_ROW("cancelled", by_end[DEPENDENCY_END_CANCELLED]),
    COUNT_ROW("removed", by_end[DEPENDENCY_END_REMOVED]),
};

/* How the jobs on which it depends have ended. A blocked job counts the others when they are
 * added. */
static int take_counts(struct import *im, struct dependent *ret)
{
    struct counts_in in = {0};
    struct field_reader r = reader_of(im->n->broker, im->x, FIELDS(count_rows), &in, &im->problem);
    uint32_t ended = 0;
    if (fields_read(&r, im->in.dependencies) < 0)
        return -ERR_INVALID;
    *ret =
        (struct dependent){.rule = im->in.dependency_rule, .open = im->in.state == STATE_BLOCKED};
    for (unsigned e = DEPENDENCY_END_DONE; e < DEPENDENCY_END_COUNT; e++)
        ended += ret->counts[e] = (uint32_t)in.by_end[e];
    ret->counts[DEPENDENCY_END_NONE] = ret->open ? ended : (uint32_t)in.by_end[DEPENDENCY_END_NONE];
    if (ended <= in.by_end[DEPENDENCY_END_NONE])
        return 0;
    return wrong(im, "dependencies",
                 "dependencies: total is less than done, dead, cancelled and removed together");
}

static int take_depends(struct import *im)
{
    struct dependent had;
    bool blocked = im->in.state == STATE_BLOCKED;
    if (!fields_has(&im->reader, "dependencies"))
        return blocked ? wrong(im, "dependencies",
                               "the job is blocked, but the export does not say on what it depends "
                               "(dependencies, waits_for): these could not be read, or an earlier "
                               "version wrote the file; enqueue the job again, with the new ids of "
                               "those jobs")
                       : 0;
    if (!(broker_caps(im->n->broker) & CAP_DEPENDENCIES))
        return blocked ? depends_supported(im->n->broker, &im->problem, "dependencies") : 0;
    int err = take_counts(im, &had);
    if (err < 0)
        return err;
    struct op_depends *d = arena_array(im->reader.arena, 1, sizeof *d);
    struct dependent *past = arena_copy(im->reader.arena, &had, sizeof had);
    if (!d || !past)
        return no_memory(im);
    *d = (struct op_depends){.rule = had.rule, .past = past};
    im->op->depends = d;
    return 0;
}

/* Constant: a repetition after a restart must find its key. The fingerprint covers the members
 * that never change, so that a newer export of the same job is recognized as the same job. */
static const struct hash_key fingerprint_key = {0x686f6c6466617374, 0x696d706f72746564};

static int take_key(struct import *im)
{
    static const char prefix[] = "import/";
    size_t len = sizeof prefix - 1;
    char *key = arena_alloc(im->reader.arena, len + im->in.id.len);
    if (!key)
        return no_memory(im);
    memcpy(key, prefix, len);
    memcpy(key + len, im->in.id.at, im->in.id.len);
    im->op->idempotency_key = span_of(key, len + im->in.id.len);
    uint64_t scope = hash128_of(fingerprint_key, im->in.queue).lo;
    im->op->fingerprint = hash128_scoped(fingerprint_key, scope, im->op->payload).lo;
    return 0;
}

static int take_names(struct import *im)
{
    struct err_note note;
    if (im->in.id.len == 0)
        return wrong(im, "id", "id is empty; it must be the old id of the job, 1 to %d bytes",
                     OLD_ID_BYTES_MAX);
    if (validate_queue_name(im->in.queue, &note) < 0)
        return wrong(im, "queue", "%s", note.text);
    return 0;
}

static int take_job(struct import *im)
{
    const struct import_in *in = &im->in;
    struct op_enqueue *op = im->op;
    op->queue = in->queue;
    op->has_priority = fields_has(&im->reader, "priority");
    op->priority = in->priority.value;
    op->run_at = in->run_at;
    op->due_at = in->due_at;
    op->extra = (struct job_extra){.expires_at = in->expires_at};
    job_texts_set(&op->extra, in);
    if (in->label.len == 0)
        op->extra.label = in->priority.label;
    if (in->undelivered.count > 0 &&
        kv_keys_pack(im->reader.arena, in->undelivered, &op->extra.undelivered) < 0)
        return no_memory(im);
    static int (*const steps[])(struct import *) = {take_names,   take_damage,     take_past,
                                                    take_options, take_attributes, take_payload,
                                                    take_result,  take_depends,    take_key};
    int err = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && err == 0; i++)
        err = steps[i](im);
    return err;
}

static void add_job(struct native *n, struct http_exchange *x, struct batch *b, size_t index,
                    struct span text)
{
    struct import im = {.n = n, .x = x, .in = {.state = STATE_READY}};
    im.op = &batch_op(b, index, OP_ENQUEUE)->enqueue;
    im.reader = reader_of(n->broker, x, FIELDS(rows), &im.in, &im.problem);
    int err = fields_read(&im.reader, text);
    if (err == 0)
        err = take_job(&im);
    if (err < 0)
        batch_refuse(b, index, &im.problem);
}

/* ---- the answer ---- */

static void write_imported(const struct batch *b, struct json_writer *w,
                           const struct batch_item *item)
{
    (void)b;
    write_job_name(w, item->id_hi, item->seq);
    write_text(w, "state", state_name(item->state));
    write_bool(w, "created", item->created);
}

void import_handle(void *ctx, struct http_exchange *x)
{
    struct native *n = ctx;
    const struct http_request *request = http_request(x);
    struct pieces pieces = {0};
    struct problem p;
    enum content_form form = content_form(request);
    if (!query_none(n->broker, x))
        return;
    if (form != CONTENT_LINES && form != CONTENT_ARRAY) {
        problem_set(&p, request->arena, PROBLEM_INVALID_FIELD, NULL,
                    "an import must be an array of jobs (application/json) or have one job per "
                    "line (application/x-ndjson)");
        problem_answer(x, &p);
        return;
    }
    if (content_pieces(request, form, LIMIT_BATCH, &pieces, &p) < 0) {
        problem_answer(x, &p);
        return;
    }
    struct batch *b = batch_new(n, x, pieces.count, true, write_imported);
    for (size_t i = 0; b && i < pieces.count; i++)
        add_job(n, x, b, i, pieces.list[i]);
    if (b)
        batch_submit(b);
}
