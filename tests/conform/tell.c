/* SPDX-License-Identifier: Apache-2.0 */
#include "conform/tell.h"

#include <stdarg.h>
#include <string.h>

#include "base/check.h"
#include "base/digest/crc32c.h"
#include "core/kvkey.h"

/* --- text --- */

struct text {
    struct env *e;
    char *at;
    size_t len, room;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
    char piece[700];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    size_t len = n < (int)sizeof piece ? (size_t)n : sizeof piece - 1;
    if (t->len + len + 1 > t->room) {
        char *grown = arena_alloc(&t->e->arena, t->room * 2 + len + 256);
        CHECK(grown);
        t->room = t->room * 2 + len + 256;
        if (t->len)
            memcpy(grown, t->at, t->len);
        t->at = grown;
    }
    memcpy(t->at + t->len, piece, len + 1);
    t->len += len;
}

static void add_span(struct text *t, const char *name, struct span s)
{
    if (s.len)
        add(t, " %s=%.*s", name, (int)s.len, s.at);
}

/* A text that may be long, or have any bytes. */
static void add_bytes(struct text *t, const char *name, struct span s)
{
    if (s.len)
        add(t, " %s=%zu/%08x", name, s.len, crc32c(0, s.at, s.len));
}

static void add_number(struct text *t, const char *name, int64_t n)
{
    if (n)
        add(t, " %s=%lld", name, (long long)n);
}

static void add_flag(struct text *t, const char *name, bool set)
{
    if (set)
        add(t, " %s", name);
}

/* --- replies --- */

void name_job(struct env *e, const char *name, uint64_t seq)
{
    CHECK(e->named_count < sizeof e->named / sizeof e->named[0]);
    e->named[e->named_count].name = name;
    e->named[e->named_count++].seq = seq;
}

static const char *job_name(const struct env *e, uint64_t seq)
{
    for (size_t i = e->named_count; i > 0; i--)
        if (e->named[i - 1].seq == seq)
            return e->named[i - 1].name;
    return "?";
}

static void add_job(struct text *t, const struct reply *r)
{
    if (r->seq)
        add(t, " job=%s%s", job_name(t->e, r->seq), r->id_hi ? "" : "(half)");
    if (r->state)
        add(t, " %s", state_name(r->state));
    if (r->run_at.ms)
        add(t, " run_at=%+lld", (long long)(r->run_at.ms - t->e->clock.at.wall.ms));
    add_flag(t, "created", r->created);
    add_flag(t, "repeat", r->repeat);
    add_flag(t, "relaxed", r->relaxed);
}

static void add_commit(struct text *t, const struct reply *r)
{
    add_number(t, "deleted", (int64_t)r->deleted);
    add_flag(t, "version", r->version != 0);
    if (r->failed_enqueue || r->outcome == OUT_VERSION)
        add(t, " %s %u failed", r->failed_enqueue ? "enqueue" : "check", r->failed);
    for (uint32_t i = 0; i < r->enqueued_count; i++)
        add(t, " %s%s%s", state_name(r->enqueued[i].state),
            r->enqueued[i].created ? " created" : "", r->enqueued[i].repeat ? " repeat" : "");
}

static void add_family(struct text *t, const struct reply *r)
{
    switch (reply_family(r)) {
    case REPLY_ENQUEUE:
        if (r->replaced_seq)
            add(t, " replaced=%s", job_name(t->e, r->replaced_seq));
        break;
    case REPLY_CHANGE:
        add_number(t, "ran_ms", r->ran_ms);
        add_span(t, "worker", r->worker);
        add_span(t, "queue", r->queue);
        break;
    case REPLY_JOBS:
        add_number(t, "total", (int64_t)r->job_total);
        add_number(t, "jobs", r->job_count);
        break;
    case REPLY_QUEUES:
        add_number(t, "queues", r->queue_count);
        break;
    case REPLY_BULK:
        add_number(t, "changed", (int64_t)r->changed);
        add_number(t, "refused", (int64_t)r->refused);
        break;
    case REPLY_CLOCK:
        add_flag(t, "was_suspect", r->was_suspect);
        break;
    case REPLY_WORKERS:
        add_number(t, "total", (int64_t)r->worker_total);
        break;
    case REPLY_KV_COMMIT:
        add_commit(t, r);
        break;
    case REPLY_KV:
        add_number(t, "keys", r->kv_count);
        break;
    case REPLY_ALERTS:
        add_number(t, "discarded", (int64_t)r->discarded);
        add_number(t, "alerts", r->alert_count);
        break;
    case REPLY_NOTICES:
        add_number(t, "notices", r->notice_count);
        break;
    case REPLY_SCHEDULES:
        add_flag(t, "fired", r->fired);
        add_number(t, "taken", (int64_t)r->taken);
        add_number(t, "schedules", r->schedule_count);
        break;
    case REPLY_PLAIN:
    case REPLY_REGISTRY:
    case REPLY_ATTEMPTS:
    case REPLY_HISTORY:
    case REPLY_BREAKERS:
    case REPLY_FAMILY_COUNT:
        break;
    }
}

const char *tell(struct env *e, const struct reply *r)
{
    struct text t = {.e = e};
    add(&t, "%s", outcome_name(r->outcome));
    if (r->note)
        add(&t, ": %s;", r->note);
    add_job(&t, r);
    add_number(&t, "retry_ms", r->retry_ms);
    add_family(&t, r);
    return t.at;
}

void expect_tells(struct env *e, const char *file, int line, const struct reply *r,
                  const char *text)
{
    const char *is = tell(e, r);
    if (strcmp(is, text) != 0)
        leave_case(e, file, line, "it tells \"%s\", not \"%s\"", is, text);
    e->file = file;
    e->line = line;
}

/* --- everything --- */

static void add_queues(struct text *t)
{
    struct env *e = t->e;
    const struct reply *r = run(e, (struct op){.kind = OP_QUEUE_LIST});
    EXPECT_OUT(r, OUT_OK);
    for (uint32_t i = 0; i < r->queue_count; i++) {
        const struct queue_view *q = &r->queues[i];
        struct buf policy;
        buf_init(&policy);
        CHECK(policy_encode(q->policy, &policy) == 0);
        add(t, "queue %.*s:", (int)q->name.len, q->name.at);
        add_bytes(t, "policy", buf_span(&policy));
        buf_done(&policy);
        add_bytes(t, "owner", q->owner);
        add_bytes(t, "note", q->note);
        add_bytes(t, "attributes", q->attributes);
        add_number(t, "updated", q->updated_at.ms);
        add_number(t, "paused", q->paused_until.ms);
        for (int s = STATE_SCHEDULED; s < STATE_COUNT; s++)
            add_number(t, state_name((enum job_state)s), (int64_t)q->counts.by_state[s]);
        for (int n = 0; n < COUNTER_COUNT; n++)
            add(t, " %llu", (unsigned long long)q->totals.of[n]);
        add(t, "\n");
    }
}

static void add_job_view(struct text *t, const struct job_view *v)
{
    const struct job *j = &v->job;
    add(t, "job %s: %s %d", job_name(t->e, j->seq), state_name((enum job_state)j->state),
        j->reason);
    add_number(t, "priority", j->priority);
    add_number(t, "run_at", j->run_at.ms);
    add_number(t, "since", j->since.ms);
    add_number(t, "failures", j->failures);
    add_number(t, "crashes", j->crashes);
    add_number(t, "lease", v->lease_ms);
    add_number(t, "token", (int64_t)v->token.counter);
    add_span(t, "worker", v->worker);
    add_bytes(t, "payload", v->payload);
    add_bytes(t, "result", v->result);
    add_bytes(t, "error", v->error);
    add_bytes(t, "label", v->extra.label);
    add_bytes(t, "attributes", v->extra.attributes);
    add(t, "\n");
}

static void add_jobs(struct text *t)
{
    struct op_list query = {.limit = LIMIT_BATCH, .want_body = true};
    do {
        const struct reply *r = list(t->e, query);
        for (uint32_t i = 0; i < r->job_count; i++)
            add_job_view(t, &r->jobs[i]);
        query.after = r->cursor;
    } while (query.after);
}

static void add_keys(struct text *t)
{
    struct env *e = t->e;
    const struct reply *r =
        run(e, (struct op){.kind = OP_KV_LIST, .kv_list = {.want_value = true}});
    EXPECT_OUT(r, OUT_OK);
    for (uint32_t i = 0; i < r->kv_count; i++) {
        add(t, "key %llu:", (unsigned long long)r->kvs[i].version);
        add_bytes(t, "key", r->kvs[i].key);
        add_bytes(t, "value", r->kvs[i].value);
        add_number(t, "expires", r->kvs[i].expires_at.ms);
        add(t, "\n");
    }
}

static void add_schedules(struct text *t)
{
    struct env *e = t->e;
    const struct reply *r = run(e, (struct op){.kind = OP_SCHEDULE_LIST});
    EXPECT_OUT(r, OUT_OK);
    for (uint32_t i = 0; i < r->schedule_count; i++) {
        const struct schedule_view *s = &r->schedules[i];
        add(t, "schedule %.*s:", (int)s->name.len, s->name.at);
        add_flag(t, "paused", s->paused);
        add_span(t, "queue", s->spec.queue);
        add_bytes(t, "owner", s->owner);
        add_bytes(t, "note", s->note);
        add_number(t, "updated", s->updated_at.ms);
        add_number(t, "next", s->state.next_at.ms);
        add_number(t, "last", s->state.last_at.ms);
        add_number(t, "fired", (int64_t)s->state.fired);
        add_number(t, "missed", (int64_t)s->state.missed);
        add_number(t, "failures", s->state.failures);
        add(t, "\n");
    }
}

static void add_alerts(struct text *t)
{
    struct env *e = t->e;
    const struct reply *r = run(e, (struct op){.kind = OP_ALERT_LIST});
    EXPECT_OUT(r, OUT_OK);
    for (uint32_t i = 0; i < r->alert_count; i++) {
        const struct alert_view *a = &r->alerts[i];
        add(t, "alert %.*s: %d", (int)a->name.len, a->name.at, a->rule.on);
        add_number(t, "updated", a->updated_at.ms);
        add_number(t, "raised", (int64_t)a->raised_total);
        add_number(t, "pending", (int64_t)a->pending);
        add_number(t, "dead", (int64_t)a->dead);
        add_span(t, "url", a->rule.url);
        add(t, "\n");
    }
    r = run(e, (struct op){.kind = OP_NOTICE_LIST});
    EXPECT_OUT(r, OUT_OK);
    for (uint32_t i = 0; i < r->notice_count; i++) {
        const struct rec_notice_tried *n = &r->notices[i].tried;
        add(t, "notice %llu: %d tries=%u due=%lld\n", (unsigned long long)n->number, n->state,
            n->tries, (long long)n->due.ms);
    }
}

const char *world(struct env *e)
{
    struct text t = {.e = e};
    add(&t, "\n");
    add_queues(&t);
    add_jobs(&t);
    if (!(e->profile->lacks & NEEDS_KV))
        add_keys(&t);
    if (!(e->profile->lacks & NEEDS_SCHEDULES))
        add_schedules(&t);
    add_alerts(&t);
    return t.at;
}

/* Shows the first line that differs. */
void expect_same(struct env *e, const char *file, int line, const char *before, const char *after)
{
    size_t at = 0, start = 0;
    while (before[at] && before[at] == after[at]) {
        if (before[at] == '\n')
            start = at + 1;
        at++;
    }
    if (before[at] != after[at])
        leave_case(e, file, line, "it changed: \"%.*s\" is now \"%.*s\"",
                   (int)strcspn(before + start, "\n"), before + start,
                   (int)strcspn(after + start, "\n"), after + start);
    e->file = file;
    e->line = line;
}

struct span text_of(struct env *e, size_t bytes)
{
    char *at = arena_alloc(&e->arena, bytes + 1);
    CHECK(at);
    memset(at, 'x', bytes);
    return span_of(at, bytes);
}

struct span json_of(struct env *e, size_t bytes)
{
    struct span text = text_of(e, bytes);
    char *at = (char *)(uintptr_t)text.at;
    at[0] = at[bytes - 1] = '"';
    return text;
}

bool known_difference(struct env *e, const char *store, bool differs, const char *what)
{
    if (!differs || !strstr(e->profile->name, store))
        return false;
    if (e->differs != what)
        printf("# known difference of %s: %s\n", store, what);
    e->differs = what;
    return true;
}
