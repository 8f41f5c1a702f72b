/* SPDX-License-Identifier: Apache-2.0 */
/* What cancel, discard, requeue, patch, remove, note and bulk actions are refused for; and what
 * retention leaves of ended jobs. */
#include "conform/tell.h"
#include "core/bulk.h"

/* --- moves --- */

static const struct {
    enum op_kind kind;
    enum job_move move;
} moves[] = {
    {OP_CANCEL, MOVE_CANCEL}, {OP_CANCEL, MOVE_DISCARD}, {OP_REQUEUE, MOVE_REQUEUE},
    {OP_REMOVE, MOVE_REMOVE}, {OP_PATCH, MOVE_PATCH},
};
#define MOVES (sizeof moves / sizeof moves[0])

/* With values that would be refused as well: the state comes first. */
static struct op move_op(size_t i, uint64_t seq)
{
    struct op op = job_op(moves[i].kind, seq);
    if (moves[i].kind == OP_PATCH) {
        op.patch = (struct op_patch){.job = {.seq = seq}, .has_run_at = true, .run_at = {-1}};
        return op;
    }
    op.job.delay_ms = -1;
    op.job.discard = moves[i].move == MOVE_DISCARD;
    return op;
}

static void illegal(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    for (int state = STATE_SCHEDULED; state <= STATE_CANCELLED; state++) {
        e->named_count = 0;
        name_job(e, "a", job_in(e, "q", (enum job_state)state, NULL));
        uint64_t seq = e->named[0].seq;
        char text[80];
        snprintf(text, sizeof text, "illegal job=a %s queue=q", state_name((enum job_state)state));
        const char *before = world(e);
        for (size_t i = 0; i < MOVES; i++) {
            struct op op = move_op(i, seq);
            if (!move_starts_from(moves[i].move, (enum job_state)state))
                /* only from others */
                TELLS(run(e, op), text);
            if (op.kind == OP_PATCH)
                continue;
            op.job.states = STATES_ALL & ~STATE_BIT(state);
            TELLS(run(e, op), text);
        }
        UNCHANGED(before);
        run(e, queue_op(OP_PURGE, "q"));
    }
}

static void unknown(struct env *e)
{
    uint64_t seq = put(e, "q");
    struct job_ref refs[] = {{seq, 1}, {seq + 1000000, 0}, {0, 0}, {LIMIT_SEQ, 0}};
    const char *before = world(e);
    for (size_t k = 0; k < sizeof refs / sizeof refs[0]; k++) {
        for (size_t i = 0; i < MOVES; i++) {
            struct op op = move_op(i, 0);
            op.job.job = refs[k];
            if (op.kind == OP_PATCH)
                op.patch.job = refs[k];
            TELLS(run(e, op), "not_found");
        }
        struct op note = {.kind = OP_NOTE, .note = {.job = refs[k], .token = {7, 7}}};
        TELLS(run(e, note), "not_found"); /* with nothing to note, too */
        struct op look = {.kind = OP_GET, .job = {.job = refs[k]}};
        TELLS(run(e, look), "not_found");
    }
    UNCHANGED(before);
    EXPECT_INT(run(e, queue_op(OP_PURGE, "q"))->changed, 1);
    for (size_t i = 0; i < MOVES; i++)
        TELLS(run(e, move_op(i, seq)), "not_found");
}

static void told(struct env *e)
{
    struct queue_policy p = test_policy();
    p.durability = DURABILITY_RELAXED;
    queue_make(e, "q", &p);
    name_job(e, "a", put(e, "q"));
    uint64_t seq = e->named[0].seq;
    struct op op = {.kind = OP_PATCH,
                    .patch = {.job = {.seq = seq}, .has_run_at = true, .run_at = now_plus(e, 900)}};
    TELLS(run(e, op), "ok job=a scheduled run_at=+900 relaxed queue=q");
    op.patch.run_at.ms = 0;
    TELLS(run(e, op), "ok job=a ready relaxed queue=q");
    TELLS(cancel(e, seq), "ok job=a cancelled relaxed queue=q");
    op = job_op(OP_REQUEUE, seq);
    op.job.delay_ms = 800;
    TELLS(run(e, op), "ok job=a scheduled run_at=+800 relaxed queue=q");
    op.job.delay_ms = INT64_MAX;
    EXPECT_OUT(cancel(e, seq), OUT_OK);
    TELLS(run(e, op), "ok job=a scheduled run_at=+251635075199999 relaxed queue=q");
    op = job_op(OP_CANCEL, seq);
    op.job.discard = true;
    TELLS(run(e, op), "ok job=a cancelled relaxed queue=q");
    EXPECT_INT(get(e, seq)->job.reason, REASON_DISCARDED);
    op = (struct op){.kind = OP_NOTE,
                     .note = {.job = {.seq = seq}, .has_label = true, .label = SPAN_LITERAL("l")}};
    TELLS(run(e, op), "ok job=a cancelled relaxed queue=q");
    TELLS(run(e, job_op(OP_REMOVE, seq)), "ok job=a relaxed queue=q");
    TELLS(run(e, op), "not_found");
}

/* --- values --- */

static void patches(struct env *e)
{
    struct queue_policy p = test_policy();
    p.payload_max = 8;
    queue_make(e, "q", &p);
    name_job(e, "a", put(e, "q"));
    uint64_t seq = e->named[0].seq;
    struct op good = {.kind = OP_PATCH, .patch = {.job = {.seq = seq}, .has_run_at = true}};
    const char *before = world(e);
    WITH(patch.run_at.ms, -1,
         "invalid: run_at must be a time before the year 10000; job=a ready queue=q");
    WITH(patch.run_at.ms, LIMIT_WALL_MS + 1,
         "invalid: run_at must be a time before the year 10000; job=a ready queue=q");
    good.patch =
        (struct op_patch){.job = {.seq = seq}, .has_payload = true, .payload_kind = PAYLOAD_JSON};
    WITH(patch.payload, text_of(e, 9), "too_big job=a ready queue=q");
    WITH(patch.payload_kind, 3,
         "invalid: the kind of a payload or result is none (0), json (1) or bytes (2); job=a ready "
         "queue=q");
    good.patch.payload = SPAN_LITERAL("1");
    WITH(patch.payload_kind, PAYLOAD_NONE,
         "invalid: a payload or result of no kind cannot have bytes; job=a ready queue=q");
    good.patch.payload = text_of(e, 9);
    WITH(patch.payload_kind, 3, "too_big job=a ready queue=q"); /* the size first */
    good.patch.has_run_at = true;
    /* and before it the time */
    WITH(patch.run_at.ms, -1,
         "invalid: run_at must be a time before the year 10000; job=a ready queue=q");
    UNCHANGED(before);
    good.patch.payload = text_of(e, 8);
    good.patch.has_priority = true;
    good.patch.priority = 5;
    good.patch.run_at.ms = LIMIT_WALL_MS;
    EXPECT_OUT(run(e, good), OUT_OK);
    EXPECT_INT(get(e, seq)->job.priority, 5);
    good.patch = (struct op_patch){.job = {.seq = seq}};
    /* nothing to change is no error */
    TELLS(run(e, good), "ok job=a scheduled run_at=+251635075199999 queue=q");
}

static void notes(struct env *e)
{
    struct held h;
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    name_job(e, "a", job_in(e, "q", STATE_RUNNING, &h));
    struct op good = {.kind = OP_NOTE, .note = {.job = {.seq = h.seq}}};
    struct op_note base = good.note;
    const char *before = world(e);
    TELLS(run(e, good), "invalid: nothing to note: give a label, attributes, result or error; "
                        "job=a running queue=q");
    good.note.has_label = true;
    WITH(note.label, BAD_UTF8,
         "invalid: label is not valid UTF-8 at byte 1; job=a running queue=q");
    WITH(note.label, WITH_NUL, "invalid: label has a U+0000 at byte 1; job=a running queue=q");
    WITH(note.label, text_of(e, LIMIT_LABEL_BYTES + 1),
         "invalid: label has 65 bytes; 64 are allowed; job=a running queue=q");
    good.note = base;
    good.note.has_attributes = true;
    WITH(note.attributes, BAD_UTF8,
         "invalid: attributes is not valid UTF-8 at byte 1; job=a running queue=q");
    WITH(note.attributes, WITH_NUL,
         "invalid: attributes has a U+0000 at byte 1; job=a running queue=q");
    WITH(note.attributes, text_of(e, LIMIT_ATTRIBUTES_BYTES + 1),
         "invalid: attributes has 65537 bytes; 65536 are allowed; job=a running queue=q");
    good.note = base;
    good.note.has_error = true;
    WITH(note.error_kind, 2,
         "invalid: the kind of an error is app (0) or business (1); job=a running queue=q");
    good.note = base;
    good.note.has_result = true;
    WITH(note.result_kind, PAYLOAD_NONE,
         "invalid: a result must have a kind; job=a running queue=q");
    WITH(note.result_kind, 3,
         "invalid: the kind of a payload or result is none (0), json (1) or bytes (2); job=a "
         "running queue=q");
    good.note.token = h.token; /* values before the lease */
    good.note.token.counter++;
    WITH(note.result_kind, 3,
         "invalid: the kind of a payload or result is none (0), json (1) or bytes (2); job=a "
         "running queue=q");
    WITH(note.result_kind, PAYLOAD_JSON, "lease_lost job=a running queue=q");
    good.note.token = (struct job_token){h.token.counter, h.token.epoch + 1};
    WITH(note.result_kind, PAYLOAD_JSON, "lease_lost job=a running queue=q");
    UNCHANGED(before);
    good.note.token = h.token;
    WITH(note.result_kind, PAYLOAD_JSON, "ok job=a running queue=q");
    EXPECT_OUT(ack(e, h), OUT_OK);
    WITH(note.result_kind, PAYLOAD_JSON, "lease_lost job=a done queue=q"); /* the lease is over */
    good.note.token = (struct job_token){0, 0};
    good.note.has_label = good.note.has_attributes = true;
    good.note.label = text_of(e, LIMIT_LABEL_BYTES);
    good.note.attributes = json_of(e, LIMIT_ATTRIBUTES_BYTES);
    WITH(note.result_kind, PAYLOAD_BYTES, "ok job=a done queue=q");
    EXPECT_SPAN(get(e, h.seq)->extra.label, good.note.label);
    EXPECT_SPAN(get(e, h.seq)->extra.attributes, good.note.attributes);
}

/* --- bulk --- */

static const struct reply *bulk(struct env *e, uint8_t action, unsigned states, struct span group)
{
    return run(e, (struct op){.kind = OP_BULK,
                              .bulk = {.action = action,
                                       .queue = SPAN_LITERAL("q"),
                                       .states = states,
                                       .group = group}});
}

static const struct span nothing = {NULL, 0};

static void bulk_refused(struct env *e)
{
    uint64_t seq = put(e, "q");
    name_job(e, "a", seq);
    const char *before = world(e);
    TELLS(bulk(e, 0, STATES_ALL, nothing), "invalid: action must be requeue, cancel or remove;");
    TELLS(bulk(e, BULK_CANCEL_NOW + 1, STATES_ALL, nothing),
          "invalid: action must be requeue, cancel or remove;");
    TELLS(bulk(e, BULK_CANCEL, 0, nothing),
          "invalid: states is missing: a cancel or a remove must name the states of its jobs;");
    TELLS(bulk(e, BULK_REMOVE, 0, nothing),
          "invalid: states is missing: a cancel or a remove must name the states of its jobs;");
    TELLS(bulk(e, BULK_CANCEL, STATES_ALL, BAD_UTF8),
          "invalid: group is too long or not valid UTF-8;");
    TELLS(bulk(e, BULK_CANCEL, STATES_ALL, WITH_NUL),
          "invalid: group is too long or not valid UTF-8;");
    TELLS(bulk(e, BULK_CANCEL, STATES_ALL, text_of(e, LIMIT_KEY_BYTES + 1)),
          "invalid: group is too long or not valid UTF-8;");
    TELLS(bulk(e, BULK_CANCEL, 1u << STATE_COUNT, nothing), "ok"); /* of no such state */
    struct op good = {.kind = OP_BULK,
                      .bulk = {.action = BULK_REQUEUE, .queue = SPAN_LITERAL("q")}};
    WITH(bulk.queue, SPAN_LITERAL("none"), "no_queue");
    WITH(bulk.queue, BAD_UTF8, "no_queue");
    WITH(bulk.queue, WITH_NUL, "no_queue");
    WITH(bulk.queue, nothing, "no_queue");
    good.bulk.queue = SPAN_LITERAL("none");
    /* before the queue */
    WITH(bulk.action, 9, "invalid: action must be requeue, cancel or remove;");
    UNCHANGED(before);
}

/* A job in every state, in "q": how many each action takes. */
static void bulk_everything(struct env *e, uint8_t action, const char *text)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    uint64_t seqs[STATE_COUNT] = {0};
    static const int order[] = {STATE_RUNNING,   STATE_DONE,      STATE_DEAD,
                                STATE_CANCELLED, STATE_SCHEDULED, STATE_READY};
    for (size_t i = 0; i < 6; i++)
        seqs[order[i]] = job_in(e, "q", (enum job_state)order[i], NULL);
    TELLS(bulk(e, action, STATES_ALL, nothing), text);
    for (int s = STATE_SCHEDULED; s <= STATE_CANCELLED; s++) {
        bool moves_it = bulk_states_from((enum bulk_action)action) & STATE_BIT(s);
        const struct job_view *v = get(e, seqs[s]);
        enum job_state now = v ? (enum job_state)v->job.state : STATE_NONE;
        enum job_state then = action == BULK_REQUEUE      ? STATE_READY
                              : action == BULK_CANCEL_NOW ? STATE_CANCELLED
                                                          : STATE_NONE;
        EXPECT_INT(now, moves_it ? then : (enum job_state)s);
        if (action == BULK_REQUEUE && moves_it) {
            EXPECT_INT(v->outcome_counts.requeues, 1); /* as if each had been asked for by itself */
            EXPECT_INT(v->job.failures, 0);
        }
    }
    TELLS(bulk(e, action, bulk_states_from((enum bulk_action)action) & STATES_ALL,
               SPAN_LITERAL("no such group")),
          "ok");
    EXPECT_OUT(run(e, queue_op(OP_QUEUE_DELETE, "q")), OUT_OK);
}

static void bulk_actions(struct env *e)
{
    bulk_everything(e, BULK_REQUEUE, "ok changed=3");
    bulk_everything(e, BULK_CANCEL_NOW, "ok changed=3");
    bulk_everything(e, BULK_REMOVE, "ok changed=5");
}

/* --- retention --- */

struct keeping {
    const char *queue;
    int64_t ms;
    uint64_t count;
    unsigned at_once, later; /* of two jobs in each state */
};

static const struct keeping keepings[] = {
    {"all", INT64_MAX, UINT64_MAX, 2, 2}, {"none by count", INT64_MAX, 0, 0, 0},
    {"none by age", 0, UINT64_MAX, 0, 0}, {"none", 0, 0, 0, 0},
    {"one", INT64_MAX, 1, 1, 1},          {"a second", 1000, UINT64_MAX, 2, 0},
    {"one a second", 1000, 1, 1, 0},
};
#define KEEPINGS (sizeof keepings / sizeof keepings[0])

struct ended {
    struct held done[2], dead[2], cancelled[2];
};

static void keep_made(struct env *e, const struct keeping *k, bool dead, struct ended *ret)
{
    struct queue_policy p = test_policy();
    p.keep_done = p.keep_dead = UINT64_MAX;
    p.keep_done_ms = p.keep_dead_ms = INT64_MAX;
    *(dead ? &p.keep_dead : &p.keep_done) = k->count;
    *(dead ? &p.keep_dead_ms : &p.keep_done_ms) = k->ms;
    queue_make(e, k->queue, &p);
    for (int i = 0; i < 2; i++) {
        job_in(e, k->queue, STATE_DONE, &ret->done[i]);
        job_in(e, k->queue, STATE_DEAD, &ret->dead[i]);
        job_in(e, k->queue, STATE_CANCELLED, &ret->cancelled[i]);
    }
}

static void expect_kept(struct env *e, const struct keeping *k, bool dead, unsigned kept)
{
    const struct queue_view *v = queue_get(e, k->queue);
    EXPECT_INT(v->counts.by_state[STATE_DONE], dead ? 2 : kept);
    EXPECT_INT(v->counts.by_state[STATE_CANCELLED], dead ? 2 : kept);
    EXPECT_INT(v->counts.by_state[STATE_DEAD], dead ? kept : 2);
}

/* Ended jobs that were not kept answer their holders as before, and everybody else as no job. */
static void expect_remembered(struct env *e, struct held h, enum job_state state)
{
    e->named_count = 0;
    name_job(e, "a", h.seq);
    const struct reply *r = run(e, lease_op(state == STATE_DONE ? OP_ACK : OP_FAIL, h));
    if (!known_difference(e, "postgres", r->outcome == OUT_GONE,
                          "what retention takes away is no longer known to have ended how"))
        TELLS(r, state == STATE_DONE ? "ok job=a(half) done repeat" : "ok job=a(half) dead repeat");
    TELLS(run(e, lease_op(OP_EXTEND, h)), "gone");
    TELLS(run(e, lease_op_by_id(OP_ACK, h.seq)), "gone");
    TELLS(requeue(e, h.seq), "not_found");
    TELLS(run(e, job_op(OP_GET, h.seq)), "not_found");
}

static void retention(struct env *e, bool dead)
{
    struct ended made[KEEPINGS];
    for (size_t i = 0; i < KEEPINGS; i++)
        keep_made(e, &keepings[i], dead, &made[i]);
    settle_due(e);
    for (size_t i = 0; i < KEEPINGS; i++)
        expect_kept(e, &keepings[i], dead, keepings[i].at_once);
    EXPECT(!get(e, dead ? made[4].dead[0].seq : made[4].done[0].seq)); /* the oldest goes */
    EXPECT(get(e, dead ? made[4].dead[1].seq : made[4].done[1].seq));
    advance(e, 1500);
    settle_due(e);
    for (size_t i = 0; i < KEEPINGS; i++)
        expect_kept(e, &keepings[i], dead, keepings[i].later);
    for (size_t i = 0; i < KEEPINGS; i++)
        if (keepings[i].later == 0)
            expect_remembered(e, dead ? made[i].dead[0] : made[i].done[0],
                              dead ? STATE_DEAD : STATE_DONE);
}

static void retention_done(struct env *e)
{
    retention(e, false);
}

static void retention_dead(struct env *e)
{
    retention(e, true);
}

/* A lease that ends by time ends in retention, too; a replaced job as any cancelled one. */
static void retention_by_time(struct env *e)
{
    struct queue_policy p = test_policy();
    p.keep_dead = 0;
    p.keep_done = 0;
    p.lease_end = LEASE_END_FAIL;
    p.lease_ms = 1000;
    queue_make(e, "q", &p);
    put(e, "q");
    take(e, "q");
    struct op op = enqueue_op("q");
    op.enqueue.delay_ms = 3600000;
    op.enqueue.extra.expires_at = now_plus(e, 1000);
    put_op(e, op);
    put_unique(e, "q", "u");
    op = enqueue_op("q");
    op.enqueue.extra.unique = SPAN_LITERAL("u");
    op.enqueue.unique_mode = UNIQUE_REPLACE;
    EXPECT_OUT(run(e, op), OUT_OK);
    advance(e, 1500);
    settle_due(e);
    EXPECT_COUNTS("q", .ready = 1);
}

static const struct conform_case cases[] = {
    CASE("HF-27 changes: every illegal move tells the state", illegal, EXACT),
    CASE("HF-27 changes: jobs that are not there", unknown, EXACT),
    CASE("HF-27 changes: what a reply tells", told, EXACT),
    CASE("HF-27 patch: values out of bounds", patches, EXACT),
    CASE("HF-27 notes: values out of bounds, leases that are over", notes, EXACT),
    CASE("HF-27 bulk: what is refused", bulk_refused, EXACT),
    CASE("HF-27 bulk: every action on every state", bulk_actions, EXACT),
    CASE("HF-27 retention of done and cancelled jobs: none, one, by age", retention_done, EXACT),
    CASE("HF-27 retention of dead jobs: none, one, by age", retention_dead, EXACT),
    CASE("HF-27 retention of what time ended", retention_by_time, EXACT),
};
TOPIC(topic_refuse_change, cases);
