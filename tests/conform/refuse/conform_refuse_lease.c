/* SPDX-License-Identifier: Apache-2.0 */
/* What a claim and its holder's ack, fail, extend and release are refused for: every state, every
 * sort of token, every value out of bounds. */
#include "conform/tell.h"

static const enum op_kind kinds[] = {OP_ACK, OP_FAIL, OP_EXTEND, OP_RELEASE};

/* --- tokens --- */

enum token_sort { OWN, OLDER, OTHER, INVENTED, NO_TOKEN, ANY, SORT_COUNT };
static const char *const sorts[] = {"own", "older", "other", "invented", "none", "any"};

/* Where a job is that was claimed twice: the first lease ended with a release. */
enum place {
    READY,
    SCHEDULED,
    RUNNING,
    DONE,
    DEAD,
    CANCELLED,
    REMOVED,
    PURGED,
    NEVER,
    PLACE_COUNT
};

/* Of ack, fail, extend, release, in this order: R = a repeat of what was answered before, L = lease
 * lost, C = cancelled, I = illegal, G = gone, N = not found; - = would be done, see the other
 * cases. */
static const char *const answers[PLACE_COUNT][SORT_COUNT] = {
    [READY] = {"LLLR", "LLLR", "LLLL", "LLLL", "LLLL", "IIII"},
    [SCHEDULED] = {"LRLL", "LLLR", "LLLL", "LLLL", "LLLL", "IIII"},
    [RUNNING] = {"----", "LLLR", "LLLL", "LLLL", "LLLL", "----"},
    [DONE] = {"RLLL", "LLLR", "LLLL", "LLLL", "LLLL", "IIII"},
    [DEAD] = {"LRLL", "LLLR", "LLLL", "LLLL", "LLLL", "IIII"},
    [CANCELLED] = {"CCCC", "CCCR", "CCCC", "CCCC", "CCCC", "IIII"},
    [REMOVED] = {"RGGG", "GGGR", "GGGG", "GGGG", "GGGG", "GGGG"},
    [PURGED] = {"GGGR", "GGGR", "GGGG", "GGGG", "GGGG", "GGGG"},
    [NEVER] = {"NNNN", "NNNN", "NNNN", "NNNN", "NNNN", "NNNN"},
};

struct leased {
    uint64_t seq, hi;
    struct job_token tokens[SORT_COUNT];
};

static struct leased leased_in(struct env *e, enum place place)
{
    struct leased l = {.seq = put(e, "q")};
    struct held first = seize(e, l.seq);
    EXPECT_OUT(release(e, first), OUT_OK);
    struct held last = seize(e, l.seq);
    struct op end = lease_op(place == DONE || place == REMOVED ? OP_ACK : OP_FAIL, last);
    end.lease.no_retry = place == DEAD;
    end.lease.has_delay = place == SCHEDULED;
    end.lease.delay_ms = 60000;
    if (place == READY || place == PURGED)
        EXPECT_OUT(release(e, last), OUT_OK);
    else if (place == CANCELLED)
        EXPECT_OUT(cancel(e, l.seq), OUT_OK);
    else if (place != RUNNING && place != NEVER)
        EXPECT_OUT(run(e, end), OUT_OK);
    if (place == REMOVED)
        EXPECT_OUT(run(e, job_op(OP_REMOVE, l.seq)), OUT_OK);
    if (place == PURGED)
        EXPECT_INT(run(e, queue_op(OP_PURGE, "q"))->changed, 1);
    l.hi = first.hi;
    l.tokens[OWN] = last.token;
    l.tokens[OLDER] = first.token;
    l.tokens[INVENTED] = (struct job_token){last.token.counter + 1000, last.token.epoch};
    return l;
}

static const char *const states[PLACE_COUNT] = {
    [READY] = " ready", [SCHEDULED] = " scheduled", [RUNNING] = " running", [DONE] = " done",
    [DEAD] = " dead",   [CANCELLED] = " cancelled", [REMOVED] = "",         [PURGED] = "",
    [NEVER] = "",
};
static const char *const ended_as[PLACE_COUNT] = {
    [READY] = " ready",  [SCHEDULED] = " scheduled run_at=+60000",
    [DONE] = " done",    [DEAD] = " dead",
    [REMOVED] = " done", [PURGED] = " ready",
};

/* The whole reply that a letter stands for. */
static const char *reply_of(struct env *e, char letter, enum place place, enum token_sort sort)
{
    static const char *const names[] = {
        ['L'] = "lease_lost", ['C'] = "cancelled", ['I'] = "illegal",
        ['G'] = "gone",       ['N'] = "not_found", ['R'] = "ok"};
    bool there = place < REMOVED;
    char *text = arena_alloc(&e->arena, 120);
    snprintf(text, 120, "%s%s%s%s%s", names[(int)letter],
             there           ? " job=a"
             : letter == 'R' ? " job=a(half)"
                             : "",
             letter != 'R'   ? states[place]
             : sort == OLDER ? " ready"
                             : ended_as[place],
             letter == 'R' ? " repeat" : "", there ? " queue=q" : "");
    return text;
}

static void ask(struct env *e, enum place place, const struct leased *l, enum token_sort sort)
{
    for (int k = 0; k < 4; k++) {
        char letter = answers[place][sort][k];
        if (letter == '-')
            continue;
        struct op op = lease_op(kinds[k], (struct held){l->seq, 0, l->tokens[sort]});
        op.lease.any_token = sort == ANY;
        op.lease.lease_ms = 1; /* who is refused the lease is not told of its values */
        op.lease.run_at.ms = -1;
        op.lease.result_kind = 9;
        const struct reply *r = run(e, op);
        if (letter == 'R' && place == PURGED &&
            known_difference(e, "postgres", r->outcome == OUT_GONE,
                             "what a purge takes away is no longer known to have ended how"))
            continue;
        const char *should = reply_of(e, letter, place, sort);
        if (strcmp(tell(e, r), should) != 0)
            LEAVE("place %d, %s token, op %d: \"%s\", not \"%s\"", place, sorts[sort], k,
                  tell(e, r), should);
        if (place < REMOVED)
            EXPECT_INT(r->id_hi, l->hi);
    }
}

static void every_token(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    struct held other = seize(e, put(e, "q"));
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct leased l = leased_in(e, (enum place)place);
        l.tokens[OTHER] = other.token;
        if (place == NEVER) { /* another store's, or of tomorrow */
            run(e, lease_op(OP_ACK, (struct held){l.seq, 0, l.tokens[OWN]}));
            l.seq += 1000000;
        }
        e->named_count = 0;
        name_job(e, "a", l.seq);
        const char *before = world(e);
        for (int sort = 0; sort < SORT_COUNT; sort++)
            ask(e, (enum place)place, &l, (enum token_sort)sort);
        UNCHANGED(before);
        run(e, queue_op(OP_PURGE, "q"));
    }
}

/* With the token of its own lease, or by its id, a job is done, failed, extended, released. */
static void what_is_told(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    static const char *const tells[] = {
        "ok job=a done ran_ms=700 worker=w queue=q",
        "ok job=a scheduled run_at=+5000 ran_ms=700 worker=w queue=q",
        "ok job=a running worker=w queue=q",
        "ok job=a scheduled run_at=+5000 ran_ms=700 worker=w queue=q",
    };
    for (int any = 0; any < 2; any++)
        for (int k = 0; k < 4; k++) {
            e->named_count = 0;
            name_job(e, "a", put(e, "q"));
            struct op op = claim_op(e, "q", 1);
            op.claim.worker = SPAN_LITERAL("w");
            struct held h = held_of(&run(e, op)->jobs[0]);
            advance(e, 700);
            op = lease_op(kinds[k], any ? (struct held){h.seq, h.hi, {0, 0}} : h);
            op.lease.any_token = any;
            op.lease.has_delay = kinds[k] != OP_EXTEND;
            op.lease.delay_ms = 5000;
            TELLS(run(e, op), tells[k]);
            run(e, queue_op(OP_PURGE, "q"));
            cancel(e, h.seq);
        }
}

/* Repeats, after others have moved the job on. */
static void repeats(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    name_job(e, "a", put(e, "q"));
    uint64_t seq = e->named[0].seq;
    struct held h = take(e, "q");
    TELLS(fail(e, h), "ok job=a scheduled run_at=+1000 queue=q");
    advance(e, 500);
    /* the same time, half a second nearer */
    TELLS(fail(e, h), "ok job=a scheduled run_at=+500 repeat queue=q");
    advance(e, 1000);
    struct held next = take(e, "q");
    const char *before = world(e);
    TELLS(fail(e, h), "ok job=a scheduled run_at=-500 repeat queue=q");
    TELLS(ack(e, h), "lease_lost job=a running queue=q");
    UNCHANGED(before);
    struct op op = lease_op(OP_FAIL, next);
    op.lease.no_retry = true;
    TELLS(run(e, op), "ok job=a dead run_at=-500 queue=q");
    EXPECT_OUT(requeue(e, seq), OUT_OK);
    before = world(e);
    TELLS(run(e, op), "ok job=a dead run_at=-500 repeat queue=q");
    TELLS(ack(e, next), "lease_lost job=a ready queue=q");
    UNCHANGED(before);
    h = take(e, "q");
    TELLS(ack(e, h), "ok job=a done queue=q");
    TELLS(ack(e, h), "ok job=a done repeat queue=q");
    TELLS(run(e, lease_op_by_id(OP_ACK, seq)), "illegal job=a done queue=q");
    h.hi++; /* another job's id */
    TELLS(ack(e, h), "ok job=a(half) done repeat");
    h.hi--;
    EXPECT_OUT(run(e, job_op(OP_REMOVE, seq)), OUT_OK);
    TELLS(ack(e, h), "ok job=a(half) done repeat");
    TELLS(fail(e, h), "gone");
    TELLS(run(e, lease_op_by_id(OP_ACK, seq)), "gone");
    TELLS(run(e, lease_op(OP_ACK, (struct held){0, 0, h.token})), "not_found");
    EXPECT_COUNTS("q", .done = 0);
}

/* --- require_token --- */

#define TOKEN_WANTED                                                                               \
    "invalid: token is required: the queue's policy (require_token) does not allow changes of a "  \
    "job by "                                                                                      \
    "its id alone; queue=q"

static void require_token(struct env *e)
{
    struct queue_policy p = test_policy();
    p.require_token = true;
    queue_make(e, "q", &p);
    for (int state = STATE_SCHEDULED; state <= STATE_CANCELLED; state++) {
        struct held h = {0};
        e->named_count = 0;
        name_job(e, "a", job_in(e, "q", (enum job_state)state, &h));
        uint64_t seq = e->named[0].seq;
        const char *before = world(e);
        for (int k = 0; k < 4; k++) {
            struct op op = lease_op_by_id(kinds[k], seq);
            TELLS(run(e, op), TOKEN_WANTED); /* whatever state it is in */
            op.lease.lease_ms = 1;
            op.lease.run_at.ms = -1;
            op.lease.result_kind = 9;
            TELLS(run(e, op), TOKEN_WANTED); /* and before its values are looked at */
            op.lease.job.hi = 1;
            TELLS(run(e, op), "gone");
            op.lease.job = (struct job_ref){.seq = seq + 1000000};
            TELLS(run(e, op), "not_found");
        }
        UNCHANGED(before);
        if (state == STATE_RUNNING)
            EXPECT_OUT(ack(e, h), OUT_OK);
        EXPECT_OUT(run(e, queue_op(OP_PURGE, "q")), OUT_OK);
        TELLS(run(e, lease_op_by_id(OP_ACK, seq)),
              STATE_BIT(state) & STATES_WAITING ? "gone" : TOKEN_WANTED);
    }
    /* What is no word of the holder needs no token. */
    struct held h;
    uint64_t seq = job_in(e, "q", STATE_RUNNING, &h);
    EXPECT_OUT(run(e, (struct op){.kind = OP_NOTE,
                                  .note = {.job = {.seq = seq},
                                           .has_label = true,
                                           .label = SPAN_LITERAL("l")}}),
               OUT_OK);
    EXPECT_OUT(cancel(e, seq), OUT_OK);
}

/* --- values --- */

#define WHEN_WRONG                                                                                 \
    "invalid: delay_ms must be 0 or more; run_at must be a time before the year 10000;"            \
    " job=a running queue=q"
#define LEASE_WRONG "invalid: lease_ms must be between 100 and 86400000;"

static void values(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    struct held h;
    name_job(e, "a", job_in(e, "q", STATE_RUNNING, &h));
    const char *before = world(e);
    struct op good = lease_op(OP_ACK, h);
    WITH(lease.result_kind, 3,
         "invalid: the kind of a payload or result is none (0), json (1) or bytes (2); job=a "
         "running queue=q");
    WITH(lease.result, SPAN_LITERAL("x"),
         "invalid: a payload or result of no kind cannot have bytes; job=a running queue=q");
    good.kind = OP_FAIL;
    WITH(lease.result_kind, 3,
         "invalid: the kind of a payload or result is none (0), json (1) or bytes (2); job=a "
         "running queue=q");
    WITH(lease.result, SPAN_LITERAL("x"),
         "invalid: a payload or result of no kind cannot have bytes; job=a running queue=q");
    WITH(lease.run_at.ms, -1, WHEN_WRONG);
    WITH(lease.run_at.ms, LIMIT_WALL_MS + 1, WHEN_WRONG);
    good.lease.has_delay = true;
    WITH(lease.delay_ms, -1, WHEN_WRONG);
    good.lease.has_delay = false;
    WITH(lease.error_kind, ERROR_BUSINESS + 1,
         "invalid: the kind of an error is app (0) or business (1); job=a running queue=q");
    good.lease.run_at.ms = -1; /* the time first, then the result, then the error */
    good.lease.result_kind = 3;
    WITH(lease.error_kind, 2, WHEN_WRONG);
    good.lease.run_at.ms = 0;
    WITH(lease.error_kind, 2,
         "invalid: the kind of a payload or result is none (0), json (1) or bytes (2); job=a "
         "running queue=q");
    good = lease_op(OP_RELEASE, h);
    WITH(lease.run_at.ms, -1, WHEN_WRONG);
    WITH(lease.run_at.ms, LIMIT_WALL_MS + 1, WHEN_WRONG);
    good.lease.has_delay = true;
    WITH(lease.delay_ms, -1, WHEN_WRONG);
    good = lease_op(OP_EXTEND, h);
    WITH(lease.lease_ms, LIMIT_LEASE_MS_MIN - 1, LEASE_WRONG " job=a running queue=q");
    WITH(lease.lease_ms, LIMIT_LEASE_MS + 1, LEASE_WRONG " job=a running queue=q");
    UNCHANGED(before);
    WITH(lease.lease_ms, LIMIT_LEASE_MS, "ok job=a running queue=q");
    EXPECT_INT(get(e, h.seq)->lease_ms, LIMIT_LEASE_MS);
    WITH(lease.lease_ms, LIMIT_LEASE_MS_MIN, "ok job=a running queue=q");
    EXPECT_INT(get(e, h.seq)->lease_ms, LIMIT_LEASE_MS_MIN);
    WITH(lease.lease_ms, 0, "ok job=a running queue=q");
    EXPECT_INT(get(e, h.seq)->lease_ms, LIMIT_LEASE_MS_MIN);
    good = lease_op(OP_RELEASE, h);
    good.lease.has_delay = true;
    WITH(lease.delay_ms, INT64_MAX, "ok job=a scheduled run_at=+251635075199999 queue=q");
    EXPECT_INT(get(e, h.seq)->job.run_at.ms, LIMIT_WALL_MS);
}

static void claims(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    name_job(e, "a", put(e, "q"));
    struct span *many = arena_array(&e->arena, LIMIT_QUEUES_PER_CLAIM + 1, sizeof *many);
    EXPECT(many);
    for (int i = 0; i <= LIMIT_QUEUES_PER_CLAIM; i++)
        many[i] = SPAN_LITERAL("q");
    struct op good = claim_op(e, "q", 1);
    good.claim.queues = many;
    const char *before = world(e);
    WITH(claim.count, 0, "invalid: count must be between 1 and 1000;");
    WITH(claim.count, LIMIT_BATCH + 1, "invalid: count must be between 1 and 1000;");
    WITH(claim.lease_ms, LIMIT_LEASE_MS_MIN - 1, LEASE_WRONG);
    WITH(claim.lease_ms, LIMIT_LEASE_MS + 1, LEASE_WRONG);
    WITH(claim.queue_count, LIMIT_QUEUES_PER_CLAIM + 1,
         "invalid: a claim names at most 1000 queues;");
    WITH(claim.worker, BAD_UTF8, "invalid: worker is not valid UTF-8 at byte 1;");
    WITH(claim.worker, WITH_NUL, "invalid: worker has a U+0000 at byte 1;");
    WITH(claim.worker, text_of(e, LIMIT_WORKER_BYTES + 1),
         "invalid: worker has 129 bytes; 128 are allowed;");
    good.claim.count = 0; /* the lease first, then the queues, the count, the worker */
    good.claim.worker = BAD_UTF8;
    good.claim.queue_count = LIMIT_QUEUES_PER_CLAIM + 1;
    WITH(claim.lease_ms, 1, LEASE_WRONG);
    WITH(claim.lease_ms, 0, "invalid: a claim names at most 1000 queues;");
    WITH(claim.queue_count, 1, "invalid: count must be between 1 and 1000;");
    /* Of one job: its count does not matter, its lease and worker do. */
    good = (struct op){.kind = OP_CLAIM, .claim = {.one = {.seq = e->named[0].seq}}};
    WITH(claim.lease_ms, 1, LEASE_WRONG);
    WITH(claim.worker, BAD_UTF8, "invalid: worker is not valid UTF-8 at byte 1;");
    WITH(claim.one.hi, 1, "not_found");
    WITH(claim.one.seq, e->named[0].seq + 1000000, "not_found");
    good.claim.worker = WITH_NUL;
    WITH(claim.one.seq, e->named[0].seq + 1000000, "invalid: worker has a U+0000 at byte 1;");
    /* No queue has such a name. */
    good = claim_op(e, "q", 1);
    good.claim.queues = (struct span[]){BAD_UTF8, WITH_NUL, {"", 0}, SPAN_LITERAL("none")};
    WITH(claim.queue_count, 4, "ok");
    WITH(claim.queue_count, 0, "ok");
    UNCHANGED(before);
    pause_queue(e, "q", (struct wall_time){LIMIT_WALL_MS});
    before = world(e);
    TELLS(run(e, claim_op(e, "q", 1)), "ok");
    good = (struct op){.kind = OP_CLAIM, .claim = {.one = {.seq = e->named[0].seq}}};
    WITH(claim.only_ready, true, "illegal job=a ready");
    UNCHANGED(before);
    good.claim.worker = text_of(e, LIMIT_WORKER_BYTES);
    WITH(claim.lease_ms, LIMIT_LEASE_MS, "ok job=a running jobs=1");
    EXPECT_SPAN(get(e, e->named[0].seq)->worker, good.claim.worker);
    EXPECT_INT(get(e, e->named[0].seq)->lease_ms, LIMIT_LEASE_MS);
}

/* Which states a job can be claimed from by its id. */
static void seized(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    for (int state = STATE_SCHEDULED; state <= STATE_CANCELLED; state++) {
        e->named_count = 0;
        name_job(e, "a", job_in(e, "q", (enum job_state)state, NULL));
        struct op op = {.kind = OP_CLAIM, .claim = {.one = {.seq = e->named[0].seq}}};
        const char *before = world(e);
        char text[60];
        snprintf(text, sizeof text, "illegal job=a %s", state_name((enum job_state)state));
        if (!move_starts_from(MOVE_SEIZE, (enum job_state)state))
            TELLS(run(e, op), text);
        op.claim.only_ready = true;
        if (state != STATE_READY)
            TELLS(run(e, op), text);
        UNCHANGED(before);
        run(e, queue_op(OP_PURGE, "q"));
    }
}

/* --- damaged texts --- */

/* An error is no reason to refuse the end of a lease: what is no text is cut off. */
static void errors(struct env *e)
{
    struct queue_policy p = test_policy();
    p.backoff.step_ms[0] = p.backoff.step_ms[1] = 0;
    p.max_attempts = 10;
    queue_make(e, "q", &p);
    uint64_t seq = put(e, "q");
    struct {
        struct span is, kept;
    } texts[] = {
        {BAD_UTF8, SPAN_LITERAL("a")},
        {WITH_NUL, SPAN_LITERAL("a")},
        {SPAN_LITERAL("\xff"), {NULL, 0}}, /* none at all: the last one stays */
        {text_of(e, LIMIT_ERROR_BYTES + 1), text_of(e, LIMIT_ERROR_BYTES)},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct op op = lease_op(OP_FAIL, take(e, "q"));
        op.lease.error = texts[i].is;
        EXPECT_OUT(run(e, op), OUT_OK);
        EXPECT_SPAN(get(e, seq)->error, texts[i].kept.len ? texts[i].kept : SPAN_LITERAL("a"));
        op = (struct op){.kind = OP_NOTE, .note = {.job = {.seq = seq}, .has_error = true}};
        EXPECT_OUT(run(e, op), OUT_OK);
        EXPECT_INT(get(e, seq)->error.len, 0);
        op.note.error = texts[i].is;
        EXPECT_OUT(run(e, op), OUT_OK);
        EXPECT_SPAN(get(e, seq)->error, texts[i].kept);
    }
    struct op op = lease_op(OP_ACK, take(e, "q"));
    op.lease.result_kind = PAYLOAD_BYTES;
    op.lease.result = BAD_UTF8;
    EXPECT_OUT(run(e, op), OUT_OK);
    EXPECT_SPAN(get(e, seq)->result, op.lease.result);
}

/* A job whose body could not be read is dead at once, and no attempt is counted. */
static void damaged(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    name_job(e, "a", put(e, "q"));
    struct op op = lease_op(OP_FAIL, take(e, "q"));
    op.lease.damaged = true;
    op.lease.error = SPAN_LITERAL("not as it was written");
    TELLS(run(e, op), "ok job=a dead queue=q");
    TELLS(run(e, op),
          "lease_lost job=a dead queue=q"); /* not a call of the worker, so it has no repeat */
    const struct job_view *v = get(e, e->named[0].seq);
    EXPECT_INT(v->job.reason, REASON_DAMAGED);
    EXPECT_INT(v->job.failures, 0);
    EXPECT_TEXT(v->error, "not as it was written");
    EXPECT_INT(queue_get(e, "q")->counts.failed, 0);
    EXPECT_INT(queue_get(e, "q")->counts.died, 1);
}

/* --- claims given back --- */

static void given_back(struct env *e)
{
    struct queue_policy p = test_policy();
    queue_make(e, "q", &p);
    name_job(e, "a", put(e, "q"));
    struct op op = claim_op(e, "q", 1);
    op.claim.nonce = 5;
    struct held h = held_of(&run(e, op)->jobs[0]);
    const char *before = world(e);
    struct op back = {.kind = OP_RELEASE_CLAIM};
    TELLS(run(e, back), "ok");
    back.release_claim.nonce = 6;
    TELLS(run(e, back), "ok");
    UNCHANGED(before);
    back.release_claim.nonce = 5;
    TELLS(run(e, back), "ok changed=1");
    TELLS(run(e, back), "ok");
    EXPECT_COUNTS("q", .ready = 1);
    TELLS(ack(e, h), "lease_lost job=a ready queue=q");
    op.claim.nonce = 7;
    h = held_of(&run(e, op)->jobs[0]);
    EXPECT_OUT(ack(e, h), OUT_OK);
    back.release_claim.nonce = 7;
    TELLS(run(e, back), "ok"); /* over already */
    EXPECT_COUNTS("q", .done = 1);
}

static const struct conform_case cases[] = {
    CASE("HF-27 leases: every state, every sort of token", every_token, EXACT),
    CASE("HF-27 leases: what a reply tells", what_is_told, EXACT),
    CASE("HF-27 leases: repeats after the job moved on", repeats, EXACT),
    CASE("HF-27 leases: require_token, in every state", require_token, EXACT),
    CASE("HF-27 leases: values out of bounds, and at them", values, EXACT),
    CASE("HF-27 claims: what is refused, and in which order", claims, EXACT),
    CASE("HF-27 claims of one job: every state", seized, EXACT),
    CASE("HF-27 leases: damaged errors and results", errors, EXACT),
    CASE("HF-27 leases: a job whose body is damaged", damaged, EXACT),
    CASE("HF-27 claims given back", given_back, EXACT),
};
TOPIC(topic_refuse_lease, cases);
