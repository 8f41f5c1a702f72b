/* SPDX-License-Identifier: Apache-2.0 */
/* PUT /api/queue-items/{id}, POST …/status, POST …/renew: the state machine of statuses.
 *
 * The item is read first. Then the operation that leads from its status to the requested one is
 * submitted with the lease token that was read or that the client gave, so that a lease which
 * another client obtained in the meantime is not affected. A status that is not one of the
 * document's five is stored as a label while the item is in progress. */
#include "api/claim_hold.h"
#include "api/json_members.h"
#include "api/orchestrator/orchestrator_impl.h"
#include "core/limits.h"
#include "core/validate.h"

struct change {
    struct call *c;
    struct job_ref job;
    struct claim_hold hold; /* of a claim */
    /* the request */
    struct span status, result, error;
    struct job_token token;
    int64_t robot_id, lease_seconds;
    bool has_status, has_result, has_error, has_token, has_robot;
    enum orc_status to;
    /* operations for the engine: possibly an annotation, and the move */
    struct op ops[2];
    size_t op_count;
    struct reply_kept {
        enum outcome outcome;
        enum job_state state;
    } worst;
    size_t waiting;
};

#define AT(member) offsetof(struct change, member)
#define HOLDER_ROWS                                                                                \
    {"token", FIELD_TOKEN, AT(token), 0, 0, NULL, FIELD_OPTIONAL},                                 \
        {"robot_id", FIELD_INT, AT(robot_id), 0, INT64_MAX, NULL, FIELD_OPTIONAL},                 \
    {                                                                                              \
        "lease_seconds", FIELD_INT, AT(lease_seconds), 1, LIMIT_LEASE_MS / 1000, NULL,             \
            FIELD_OPTIONAL                                                                         \
    }
static const struct field status_rows[] = {
    {"status", FIELD_TEXT, AT(status), 0, LIMIT_LABEL_BYTES, NULL, FIELD_OPTIONAL},
    {"result", FIELD_RAW, AT(result), 0, 0, NULL, FIELD_OPTIONAL},
    {"error_message", FIELD_CUT, AT(error), 0, LIMIT_ERROR_BYTES, NULL, FIELD_OPTIONAL},
    HOLDER_ROWS,
};
static const struct field renew_rows[] = {HOLDER_ROWS};

/* ---- the answer ---- */

static void refuse(struct change *ch, const struct reply *r)
{
    call_refuse(ch->c, r);
}

static void refuse_move(struct change *ch, const struct job_view *v)
{
    enum orc_status from = orc_status_of(&v->job);
    struct problem p;
    const char *to = !ch->has_status        ? "a note"
                     : ch->to == ORC_CUSTOM ? "a custom status"
                                            : orc_status_names[ch->to];
    problem_set(&p, ch->c->arena, PROBLEM_ILLEGAL_MOVE, "status",
                "the item is %s; %s is not possible from there", orc_status_names[from], to);
    p.terms = &orc_terms;
    p.state = v->job.state;
    p.seq = v->job.seq;
    p.id_hi = v->job.id_hi;
    problem_answer(ch->c->x, &p);
}

static void refuse_holder(struct change *ch, const char *detail)
{
    struct problem p = {.code = PROBLEM_LEASE_LOST, .terms = &orc_terms, .detail = detail};
    problem_answer(ch->c->x, &p);
}

/* ---- asking the engine ---- */

/* The last reply is answered; an annotation that was too late has the same outcome as its move. */
static void moved(void *ctx, const struct reply *r)
{
    struct change *ch = ctx;
    ch->c->changed |= r->outcome == OUT_OK;
    if (r->outcome != OUT_OK && ch->worst.outcome == OUT_OK)
        ch->worst = (struct reply_kept){r->outcome, r->state};
    if (--ch->waiting > 0)
        return;
    struct reply told = {.kind = r->kind,
                         .outcome = ch->worst.outcome,
                         .state = ch->worst.state,
                         .seq = r->seq,
                         .id_hi = r->id_hi,
                         .note = r->note};
    if (told.outcome == OUT_OK)
        orc_item_show(ch->c, ch->job);
    else
        refuse(ch, &told);
}

static struct op *ask(struct change *ch, enum op_kind kind)
{
    struct op *op = &ch->ops[ch->op_count++];
    *op = (struct op){.kind = kind};
    return op;
}

static void ask_job(struct change *ch, enum op_kind kind)
{
    struct op *op = ask(ch, kind);
    op->job.job = ch->job;
    op->job.discard = kind == OP_CANCEL;
}

static void ask_lease(struct change *ch, enum op_kind kind, struct job_token token)
{
    struct op_lease *l = &ask(ch, kind)->lease;
    bool body = kind == OP_ACK || kind == OP_FAIL;
    *l = (struct op_lease){
        .job = ch->job, .token = token, .lease_ms = (uint32_t)ch->lease_seconds * 1000};
    if (body && ch->has_result) {
        l->result_kind = PAYLOAD_JSON;
        l->result = ch->result;
    }
    if (kind != OP_FAIL)
        return;
    l->error = ch->error;
    l->error_kind = orc_classify(ch->result, ch->error);
}

/* Stores what the move does not contain. The time is stored because nothing else about the item
 * changes. false: out of memory was answered. */
static bool ask_note(struct change *ch, const struct job_view *v, struct job_token token,
                     bool result)
{
    struct orc_attributes a;
    struct op_note note = {.job = ch->job,
                           .token = token,
                           .has_attributes = true,
                           .has_result = result && ch->has_result,
                           .result_kind = PAYLOAD_JSON,
                           .result = ch->result,
                           .has_error = ch->has_error,
                           .error = ch->error,
                           .error_kind = orc_classify(ch->result, ch->error)};
    orc_attributes_read(v->extra.attributes, &a);
    a.noted_at = broker_now(ch->c->broker).wall;
    bool done = (ch->has_status && ch->to == ORC_DONE) || v->job.state == STATE_DONE;
    if (ch->has_error)
        a.error_stays = done;
    int err = orc_attributes_write(ch->c->arena, &a, &note.attributes);
    if (err == 0 && ch->has_status && ch->to == ORC_CUSTOM) {
        note.has_label = true;
        err = orc_upper(ch->c->arena, ch->status, &note.label);
    }
    if (err < 0) {
        answer_error(ch->c->x, err);
        return false;
    }
    ask(ch, OP_NOTE)->note = note;
    return true;
}

static void submit(struct change *ch)
{
    ch->waiting = ch->op_count;
    int err = broker_submit(ch->c->broker, ch->ops, ch->op_count, moved, ch);
    if (err < 0)
        answer_error(ch->c->x, err);
}

/* ---- NEW → IN_PROGRESS: a claim of this very item ---- */

static void claimed(void *ctx, const struct reply *r)
{
    struct change *ch = ctx;
    struct json_writer w;
    ch->hold.parked = NULL;
    if (r->outcome != OUT_OK || r->job_count == 0) {
        refuse(ch, r);
        return;
    }
    claim_hold_job(&ch->hold, &r->jobs[0]);
    answer_begin(ch->c->x, &w);
    orc_item_write(&w, &r->jobs[0], broker_now(ch->c->broker).wall, true);
    claim_hold_answer(&ch->hold, &w);
}

static void claim(struct change *ch, const struct job_view *v)
{
    char robot[ORC_ROBOT_BYTES];
    struct op_claim want = {
        .one = ch->job,
        .lease_ms = (uint32_t)ch->lease_seconds * 1000,
        .worker = ch->has_robot ? orc_robot_name(ch->robot_id, robot) : (struct span){NULL, 0},
        .want_body = true,
    };
    if (v->paused) {
        struct problem p = {.code = PROBLEM_REFUSED_NEW,
                            .detail = "the queue is not active (is_active is false) or paused; its "
                                      "items cannot be claimed"};
        problem_answer(ch->c->x, &p);
        return;
    }
    ch->hold = (struct claim_hold){.broker = ch->c->broker, .x = ch->c->x};
    claim_hold_begin(&ch->hold, &want, claimed, ch);
}

/* ---- which move ---- */

/* An item that no robot holds (a trigger's job, or a worker of /v1, may hold it) matches a robot
 * only if the robot has the lease token. */
static bool is_other_robot(const struct change *ch, const struct job_view *v)
{
    int64_t holder = orc_robot_id(v->worker);
    return ch->has_robot && holder != ch->robot_id && (holder >= 0 || !ch->has_token);
}

/* Checks that the client holds the lease: by its token, or that the lease exists if no token is
 * given; and by its robot. */
static bool may_speak(struct change *ch, const struct job_view *v)
{
    if (ch->has_token && !token_equal(ch->token, v->token))
        refuse_holder(ch, "the lease token is not that of the item's lease; another robot may have "
                          "the item, so stop working on it");
    else if (!ch->has_token && v->require_token)
        refuse_holder(ch, "this queue requires the lease token (require_token)");
    else if (is_other_robot(ch, v))
        refuse_holder(ch, "the item is not locked by this robot");
    else
        return true;
    return false;
}

static void from_in_progress(struct change *ch, const struct job_view *v)
{
    static const enum op_kind kinds[ORC_STATUS_COUNT] = {
        [ORC_NEW] = OP_RELEASE,    [ORC_DONE] = OP_ACK,    [ORC_FAILED] = OP_FAIL,
        [ORC_DELETED] = OP_CANCEL, [ORC_CUSTOM] = OP_NOTE,
    };
    enum op_kind kind = ch->has_status ? kinds[ch->to] : OP_NOTE;
    bool carries = kind == OP_ACK || kind == OP_FAIL;
    if (ch->has_status && ch->to == ORC_IN_PROGRESS) {
        refuse_move(ch, v);
        return;
    }
    if (!may_speak(ch, v))
        return;
    bool note = kind == OP_NOTE || (kind == OP_ACK && ch->has_error) ||
                (!carries && (ch->has_result || ch->has_error));
    if (note && !ask_note(ch, v, v->token, !carries))
        return;
    if (kind == OP_CANCEL)
        ask_job(ch, OP_CANCEL);
    else if (kind != OP_NOTE)
        ask_lease(ch, kind, v->token);
    submit(ch);
}

/* A call of the lease's holder may be a repetition, which the engine recognizes. */
static bool may_be_repeated(const struct change *ch, enum orc_status from)
{
    return from != ORC_DELETED && ch->has_token && ch->has_status &&
           (ch->to == ORC_DONE || ch->to == ORC_FAILED || ch->to == ORC_NEW);
}

static void from_elsewhere(struct change *ch, const struct job_view *v, enum orc_status from)
{
    static const enum op_kind kinds[] = {
        [ORC_NEW] = OP_RELEASE, [ORC_DONE] = OP_ACK, [ORC_FAILED] = OP_FAIL};
    bool notes = ch->has_result || ch->has_error;
    struct job_token no_token = {0};
    if (from == ORC_FAILED && ch->has_status && ch->to == ORC_NEW) {
        if (notes && !ask_note(ch, v, no_token, true))
            return;
        ask_job(ch, OP_REQUEUE);
    } else if (may_be_repeated(ch, from)) {
        ask_lease(ch, kinds[ch->to], ch->token);
    } else if (ch->has_status && ch->to == ORC_DELETED) {
        if (from == ORC_DELETED) {
            orc_item_show(ch->c, ch->job);
            return;
        }
        ask_job(ch, OP_CANCEL);
    } else if (!ch->has_status && (from == ORC_DONE || from == ORC_FAILED)) {
        if (!ask_note(ch, v, no_token, true))
            return;
    } else {
        refuse_move(ch, v);
        return;
    }
    submit(ch);
}

static void item_read(struct call *c, const struct reply *r)
{
    struct change *ch = c->more;
    if (!owned_job_found(&orc_items, c->x, r))
        return;
    const struct job_view *v = &r->jobs[0];
    enum orc_status from = orc_status_of(&v->job);
    ch->job = (struct job_ref){.seq = v->job.seq, .hi = v->job.id_hi};
    if (from == ORC_IN_PROGRESS)
        from_in_progress(ch, v);
    else if (from == ORC_NEW && ch->has_status && ch->to == ORC_IN_PROGRESS)
        claim(ch, v);
    else
        from_elsewhere(ch, v, from);
}

/* ---- renewal ---- */

static void renew_read(struct call *c, const struct reply *r)
{
    struct change *ch = c->more;
    if (!owned_job_found(&orc_items, c->x, r))
        return;
    const struct job_view *v = &r->jobs[0];
    ch->job = (struct job_ref){.seq = v->job.seq, .hi = v->job.id_hi};
    if (v->job.state != STATE_RUNNING) {
        refuse_holder(ch, "the item is not in progress; it has no lease to renew");
        return;
    }
    if (!may_speak(ch, v))
        return;
    ask_lease(ch, OP_EXTEND, v->token);
    submit(ch);
}

/* ---- the request ---- */

static int take_status(struct change *ch, const struct field_reader *r)
{
    struct err_note note;
    ch->has_status = fields_has(r, "status");
    ch->has_result = fields_has(r, "result");
    ch->has_error = fields_has(r, "error_message");
    ch->to = orc_status_parse(ch->status);
    if (!ch->has_status && !ch->has_result && !ch->has_error) {
        problem_set(r->problem, r->arena, PROBLEM_MISSING_FIELD, "status",
                    "nothing to change: give status, result or error_message");
        return -ERR_INVALID;
    }
    if (ch->has_status && validate_queue_name(ch->status, &note) != 0) {
        problem_set(r->problem, r->arena, PROBLEM_INVALID_FIELD, "status",
                    "status must be one of NEW, IN_PROGRESS, DONE, FAILED and DELETED, or a custom "
                    "status of 1 to %d bytes",
                    LIMIT_LABEL_BYTES);
        return -ERR_INVALID;
    }
    return 0;
}

static void change_run(void *ctx, struct http_exchange *x, struct fields table, bool renew)
{
    struct job_ref job;
    struct problem p;
    struct broker *b = orc_broker(ctx);
    bool plain = query_none(b, x) && owned_job_path(&orc_items, x, &job);
    struct call *c = plain ? orc_call(ctx, x, OP_GET, renew ? renew_read : item_read) : NULL;
    struct change *ch = call_more(c, sizeof *ch);
    if (!ch)
        return;
    ch->c = c;
    ch->robot_id = -1;
    struct field_reader r = reader_of(b, x, table, ch, &p);
    int err = renew ? fields_read_optional(&r, http_request(x)->body)
                    : fields_read(&r, http_request(x)->body);
    if (err == 0 && !renew)
        err = take_status(ch, &r);
    if (err < 0) {
        problem_answer(x, &p);
        return;
    }
    ch->has_token = fields_has(&r, "token");
    ch->has_robot = fields_has(&r, "robot_id");
    c->op.job = (struct op_job){.job = job, .want_texts = true};
    call_submit(c);
}

void orc_item_status(void *ctx, struct http_exchange *x)
{
    change_run(ctx, x, FIELDS(status_rows), false);
}

void orc_item_renew(void *ctx, struct http_exchange *x)
{
    change_run(ctx, x, FIELDS(renew_rows), true);
}
