/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/jobs/why.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/limits.h"

#define DETAIL_BYTES 700 /* names of queues, workers and breakers are shorter */

static const char *const names[] = {
#define WHY_NAME(number, name, meaning) name,
    WHY_CODES(WHY_NAME)
#undef WHY_NAME
};

static const char *const meanings[] = {
#define WHY_MEANING(number, name, meaning) meaning,
    WHY_CODES(WHY_MEANING)
#undef WHY_MEANING
};

const char *why_code_name(enum why_code code)
{
    return (unsigned)code < WHY_CODE_COUNT ? names[code] : "invalid_code";
}

const char *why_code_meaning(enum why_code code)
{
    return (unsigned)code < WHY_CODE_COUNT ? meanings[code] : "";
}

void job_wait_limits(struct job_wait *w, const struct queue_policy *p,
                     const struct claim_use *queue, const struct claim_use *group, int64_t now_us)
{
    const struct rate_limit *rate = &p->claim_rate;
    w->grouped = claim_grouped(p);
    w->queue = (struct slots){queue->running, p->max_running};
    w->group = (struct slots){group->running, p->max_running_per_group};
    w->token_ms = 0;
    if (rate->count == 0)
        return;
    w->rate_by_group = rate->per == RATE_GROUP;
    int64_t full_us = w->rate_by_group ? group->full_us : queue->full_us;
    int64_t at_us = claim_token_at_us(rate, full_us, now_us);
    w->token_ms = at_us > now_us ? (at_us - now_us + 999) / 1000 : 0;
}

/* --- all jobs of a queue --- */

static const enum why_code code_of_block[CLAIM_BLOCK_COUNT] = {
    [CLAIM_FREE] = WHY_BEHIND,
    [CLAIM_QUEUE_LIMIT] = WHY_QUEUE_LIMIT,
    [CLAIM_GROUP_LIMIT] = WHY_GROUP_LIMIT,
    [CLAIM_RATE] = WHY_CLAIM_RATE,
};

uint32_t why_counts(const struct queue_view *q, struct wall_time now,
                    struct why_count ret[WHY_COUNTS_MAX])
{
    const struct queue_counts *c = &q->counts;
    uint64_t ready = c->by_state[STATE_READY];
    bool paused = q->paused_until.ms > now.ms;
    uint64_t free = paused ? 0 : ready;
    uint32_t n = 0;
    ret[n++] = (struct why_count){WHY_DEPENDS_ON, c->by_state[STATE_BLOCKED]};
    ret[n++] = (struct why_count){WHY_NOT_DUE, c->by_state[STATE_SCHEDULED]};
    ret[n++] = (struct why_count){WHY_QUEUE_PAUSED, paused ? ready : 0};
    for (unsigned b = CLAIM_FREE + 1;
         q->policy && claim_limited(q->policy) && b < CLAIM_BLOCK_COUNT; b++) {
        /* A shared store may count the jobs and those that wait at different moments. */
        uint64_t count = c->limited[b] < free ? c->limited[b] : free;
        ret[n++] = (struct why_count){code_of_block[b], count};
        free -= count;
    }
    ret[n++] = (struct why_count){WHY_BEHIND, free};
    return n;
}

/* --- the reasons --- */

struct why {
    const struct why_facts *f;
    struct arena *arena;
    struct why_answer *answer;
    bool nomem;
};

/* Adds a reason with a sentence. */
static struct why_reason *add(struct why *y, enum why_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static struct why_reason *add(struct why *y, enum why_code code, const char *format, ...)
{
    static struct why_reason nowhere;
    char text[DETAIL_BYTES];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t bytes = len < 0 ? 0 : (size_t)len < sizeof text ? (size_t)len : sizeof text - 1;
    const char *copy = arena_copy(y->arena, text, bytes);
    if (!copy || y->answer->count == WHY_REASONS_MAX) {
        y->nomem = y->nomem || !copy;
        return &nowhere;
    }
    struct why_reason *r = &y->answer->reasons[y->answer->count++];
    *r = (struct why_reason){.code = code, .detail = span_of(copy, bytes)};
    return r;
}

static struct span keep(struct why *y, struct span text)
{
    y->nomem = !arena_keep(y->arena, &text) || y->nomem;
    return text;
}

static struct span keep_id(struct why *y, struct job_ref job)
{
    char id[ID_ULID_BYTES];
    id_ulid(id_make(job.hi, job.seq), id);
    return keep(y, span_text(id));
}

#define SPAN_ARGS(s) (int)(s).len, (s).len ? (s).at : ""

/* "45 s", "4 min", "3 h", "2 days". */
#define AGO_BYTES 32
static const char *ago(int64_t ms, char out[AGO_BYTES])
{
    int64_t s = ms > 0 ? ms / 1000 : 0;
    if (s < 120)
        snprintf(out, AGO_BYTES, "%" PRId64 " s", s);
    else if (s < INT64_C(2) * 3600)
        snprintf(out, AGO_BYTES, "%" PRId64 " min", s / 60);
    else if (s < INT64_C(2) * 86400)
        snprintf(out, AGO_BYTES, "%" PRId64 " h", s / 3600);
    else
        snprintf(out, AGO_BYTES, "%" PRId64 " days", s / 86400);
    return out;
}

static void store_away(struct why *y)
{
    const struct why_store *s = &y->f->store;
    char since[WALL_TEXT_BYTES] = "", when[WALL_TEXT_BYTES + 8] = "";
    char trouble[DETAIL_BYTES / 2] = "";
    if (s->since.ms) {
        wall_text(s->since, since);
        snprintf(when, sizeof when, " since %s", since);
    }
    if (s->trouble.len)
        snprintf(trouble, sizeof trouble, " (%.*s)", SPAN_ARGS(s->trouble));
    if (y->f->job)
        add(y, WHY_STORE_AWAY,
            "The shared store has not answered%s%s. The job is in the spool of this node, and only "
            "claims through this node get it.",
            when, trouble);
    else
        add(y, WHY_STORE_AWAY,
            "The store that has the job has not answered%s%s. The state of the job is not known "
            "until it answers.",
            when, trouble);
}

static void ended(struct why *y)
{
    const struct job *j = &y->f->job->job;
    char since[WALL_TEXT_BYTES];
    wall_text(j->since, since);
    const char *reason = j->reason ? reason_name((enum job_reason)j->reason) : "";
    add(y, WHY_ENDED, "The job has been %s since %s%s%s.", state_name((enum job_state)j->state),
        since, *reason ? ", reason " : "", reason);
}

static void held(struct why *y)
{
    struct span id = keep_id(y, y->f->job->holder);
    add(y, WHY_HELD_BY_TRIGGER,
        "The job %.*s, which a schedule has created, holds this one until it ends.", SPAN_ARGS(id))
        ->by = id;
}

static void running(struct why *y)
{
    const struct job_view *v = y->f->job;
    char text[WALL_TEXT_BYTES], end[96] = "", cancel[128] = "";
    struct wall_time until = {v->lease_left_ms >= 0 ? y->f->now.ms + v->lease_left_ms : 0};
    if (v->holder.seq) {
        held(y);
        return;
    }
    if (until.ms) {
        wall_text(until, text);
        snprintf(end, sizeof end, "; its lease ends at %s unless it is extended", text);
    }
    if (cancel_requested(&v->limits)) {
        wall_text(cancel_deadline(&v->limits), text);
        snprintf(cancel, sizeof cancel,
                 ". A cancel is requested and takes effect at %s at the "
                 "latest",
                 text);
    }
    struct why_reason *r = add(y, WHY_RUNNING, "%s%.*s runs the job, attempt %" PRIu32 "%s%s.",
                               v->worker.len ? "The worker " : "A worker without a name",
                               SPAN_ARGS(v->worker), job_attempts(&v->job), end, cancel);
    r->until = until;
    r->by = keep(y, v->worker);
}

static void depends(struct why *y)
{
    const struct job_view *v = y->f->job;
    uint32_t shown = v->parent_count < WHY_PARENTS_SHOWN ? v->parent_count : WHY_PARENTS_SHOWN;
    for (uint32_t i = 0; i < shown; i++) {
        struct span id = keep_id(y, v->parents[i]);
        add(y, WHY_DEPENDS_ON, "The job waits until the job %.*s has ended.", SPAN_ARGS(id))->by =
            id;
    }
    if (v->waits > shown)
        add(y, WHY_DEPENDS_ON, "The job waits for %" PRIu32 " %sjobs that have not ended.",
            v->waits - shown, shown ? "more " : "");
    if (v->dependent.open)
        add(y, WHY_DEPENDS_ON,
            "The job is open: dependencies can be added to it until it is closed.");
}

static void not_due(struct why *y)
{
    const struct job *j = &y->f->job->job;
    char at[WALL_TEXT_BYTES];
    struct why_reason *r;
    wall_text(j->run_at, at);
    if (j->failures + j->crashes > 0)
        r = add(y, WHY_RETRY_WAIT, "The job waits until %s for its next attempt: %" PRIu32 " %s.",
                at, job_attempts(j), job_attempts(j) == 1 ? "has failed" : "have failed");
    else if (j->reason == REASON_RELEASED)
        r = add(y, WHY_RETRY_WAIT, "The job was released and can be claimed again at %s.", at);
    else
        r = add(y, WHY_NOT_DUE, "The job is scheduled for %s.", at);
    r->until = j->run_at;
}

static void paused(struct why *y)
{
    const struct job_view *v = y->f->job;
    struct wall_time until = v->wait->paused_until;
    char text[WALL_TEXT_BYTES];
    if (until.ms <= y->f->now.ms)
        return;
    if (until.ms >= LIMIT_WALL_MS) {
        add(y, WHY_QUEUE_PAUSED, "The queue %.*s is paused until it is resumed.",
            SPAN_ARGS(v->queue));
        return;
    }
    wall_text(until, text);
    add(y, WHY_QUEUE_PAUSED, "The queue %.*s is paused until %s.", SPAN_ARGS(v->queue), text)
        ->until = until;
}

static void breakers(struct why *y)
{
    const struct why_claims *c = &y->f->claims;
    char until[WALL_TEXT_BYTES];
    for (uint32_t i = 0; i < c->breaker_count && i < WHY_BREAKERS_SHOWN; i++) {
        const struct why_breaker *b = &c->breakers[i];
        wall_text(b->until, until);
        struct why_reason *r = add(y, WHY_BREAKER_OPEN,
                                   "The breaker %.*s is open until %s: workers that consult it "
                                   "claim nothing until then.",
                                   SPAN_ARGS(b->name), until);
        r->until = b->until;
        r->by = keep(y, b->name);
    }
}

/* Workers that an open breaker keeps from claiming exist. */
static void no_workers(struct why *y)
{
    const struct why_claims *c = &y->f->claims;
    const struct job_view *v = y->f->job;
    char busy[128] = "", text[WALL_TEXT_BYTES], ago_text[AGO_BYTES];
    int64_t now = y->f->now.ms;
    bool recent = c->last.ms && now - c->last.ms <= (int64_t)c->recent_ms;
    if (c->waiting || recent || c->breaker_count > 0)
        return;
    if (v->wait->running)
        snprintf(busy, sizeof busy, " %" PRIu64 " of its jobs %s, which may occupy all workers.",
                 v->wait->running, v->wait->running == 1 ? "is running" : "are running");
    wall_text(c->last.ms ? c->last : c->since, text);
    if (c->last.ms)
        add(y, WHY_NO_WORKERS,
            "No claim has asked for jobs of the queue %.*s for %s; the last one did at %s.%s",
            SPAN_ARGS(v->queue), ago(now - c->last.ms, ago_text), text, busy);
    else
        add(y, WHY_NO_WORKERS,
            "No claim is known that asked for jobs of the queue %.*s since %s, when this server "
            "started.%s",
            SPAN_ARGS(v->queue), text, busy);
}

static bool is_full(const struct slots *s)
{
    return s->most > 0 && s->running >= s->most;
}

static void limits(struct why *y)
{
    const struct job_view *v = y->f->job;
    const struct job_wait *w = v->wait;
    char at[WALL_TEXT_BYTES];
    if (is_full(&w->queue))
        add(y, WHY_QUEUE_LIMIT,
            "Running jobs of the queue %.*s: %" PRIu64 "; its max_running is %" PRIu64 ".",
            SPAN_ARGS(v->queue), w->queue.running, w->queue.most);
    if (is_full(&w->group))
        add(y, WHY_GROUP_LIMIT,
            "Running jobs of the group: %" PRIu64 "; max_running_per_group of the queue %.*s is "
            "%" PRIu64 ".",
            w->group.running, SPAN_ARGS(v->queue), w->group.most);
    if (w->token_ms == 0)
        return;
    struct wall_time until = {y->f->now.ms + w->token_ms};
    wall_text(until, at);
    add(y, WHY_CLAIM_RATE, "The claim_rate of the queue %.*s lets the next job%s start at %s.",
        SPAN_ARGS(v->queue), w->rate_by_group ? " of the group" : "", at)
        ->until = until;
}

/* Nothing is before it, but other groups share the queue. */
static bool others_share(const struct job_wait *w)
{
    return w->grouped && w->ready > w->before + 1;
}

static void behind(struct why *y)
{
    static const char *const about[] = {
        [COUNT_EXACT] = "", [COUNT_ESTIMATE] = "About ", [COUNT_AT_LEAST] = "At least "};
    const struct job_wait *w = y->f->job->wait;
    char share[96] = "";
    if (w->before == 0 && y->answer->count > 0 && !others_share(w))
        return;
    if (others_share(w))
        snprintf(share, sizeof share,
                 " %" PRIu64 " jobs of the queue are ready, and its groups share it.", w->ready);
    struct why_reason *r =
        w->before == 0 ? add(y, WHY_BEHIND, "No ready job%s comes before it%s.%s",
                             w->grouped ? " of its group" : "",
                             *share ? "" : ": the next claim of the queue can get it", share)
                       : add(y, WHY_BEHIND, "%s%" PRIu64 " ready job%s%s come%s before it.%s",
                             about[w->before_kind], w->before, w->before == 1 ? "" : "s",
                             w->grouped ? " of its group" : "", w->before == 1 ? "s" : "", share);
    r->counts = true;
    r->count = w->before;
    r->count_kind = w->before_kind;
}

static void waiting(struct why *y)
{
    const struct job *j = &y->f->job->job;
    if (j->state == STATE_BLOCKED)
        depends(y);
    if (j->run_at.ms > 0 && (j->state == STATE_SCHEDULED || j->run_at.ms > y->f->now.ms))
        not_due(y);
    if (!y->f->job->wait)
        return;
    paused(y);
    if (j->state != STATE_READY)
        return;
    breakers(y);
    no_workers(y);
    limits(y);
    behind(y);
}

/* Known only if every reason has an end, and the job is then the next one. */
static void expect(struct why_answer *answer, const struct job_wait *w)
{
    int64_t last = 0;
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct why_reason *r = &answer->reasons[i];
        if (r->until.ms == 0 && r->code != WHY_STORE_AWAY)
            return;
        last = r->until.ms > last ? r->until.ms : last;
    }
    if (w && (w->before == 0 || answer->job->job.state != STATE_READY))
        answer->expected_start.ms = last;
}

bool why_decide(const struct why_facts *f, struct arena *a, struct why_answer *ret)
{
    struct why y = {.f = f, .arena = a, .answer = ret};
    *ret = (struct why_answer){.job = f->job};
    if (f->store.away || !f->job)
        store_away(&y);
    if (!f->job)
        return !y.nomem;
    unsigned state = STATE_BIT(f->job->job.state);
    if (state & STATES_WAITING)
        waiting(&y);
    else if (f->job->job.state == STATE_RUNNING)
        running(&y);
    else
        ended(&y);
    if (state & STATES_WAITING)
        expect(ret, f->job->wait);
    return !y.nomem;
}
