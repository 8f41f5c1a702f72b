/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/checker/history.h"

#include <string.h>

#include "base/check.h"

static const char *const op_names[OP_KIND_COUNT] = {
    [OP_ENQUEUE] = "enqueue",
    [OP_CLAIM] = "claim",
    [OP_ACK] = "ack",
    [OP_FAIL] = "fail",
    [OP_EXTEND] = "extend",
    [OP_RELEASE] = "release",
    [OP_PROGRESS] = "progress",
    [OP_LOG] = "log",
    [OP_STEP] = "step",
    [OP_RELEASE_CLAIM] = "unclaim",
    [OP_CANCEL] = "cancel",
    [OP_REQUEUE] = "requeue",
    [OP_PATCH] = "patch",
    [OP_REMOVE] = "remove",
    [OP_QUEUE_PUT] = "queue_put",
    [OP_QUEUE_DELETE] = "queue_drop",
    [OP_QUEUE_GET] = "queue_get",
    [OP_QUEUE_LIST] = "queue_list",
    [OP_PAUSE] = "pause",
    [OP_PURGE] = "purge",
    [OP_BULK] = "bulk",
    [OP_GET] = "get",
    [OP_PEEK] = "peek",
    [OP_LIST] = "list",
    [OP_WORKERS] = "workers",
    [OP_REGISTRY] = "registry",
    [OP_ACCEPT_CLOCK] = "accept_clock",
    [OP_EXCEPTIONS] = "exceptions",
    [OP_KV_COMMIT] = "kv_commit",
    [OP_KV_GET] = "kv_get",
    [OP_KV_LIST] = "kv_list",
    [OP_ALERT_PUT] = "alert_put",
    [OP_ALERT_DELETE] = "alert_delete",
    [OP_ALERT_LIST] = "alert_list",
    [OP_ALERT_EDGE] = "alert_edge",
    [OP_NOTICE_TAKE] = "notice_take",
    [OP_NOTICE_END] = "notice_end",
    [OP_NOTICE_LIST] = "notice_list",
    [OP_NOTICE_AGAIN] = "notice_again",
    [OP_NOTICE_DISCARD] = "notice_discard",
    [OP_BREAKER_PUT] = "breaker_put",
    [OP_BREAKER_DELETE] = "breaker_delete",
    [OP_BREAKER_ALLOW] = "breaker_allow",
    [OP_BREAKER_REPORT] = "breaker_report",
    [OP_BREAKER_LIST] = "breaker_list",
    [OP_NOTE] = "note",
    [OP_DEPENDENCIES] = "dependencies",
    [OP_PAGE] = "page",
    [OP_HISTORY] = "history",
    [OP_PENDING] = "pending",
    [OP_DISPATCHED] = "dispatched",
    [OP_SCHEDULE_PUT] = "schedule_put",
    [OP_SCHEDULE_DELETE] = "schedule_delete",
    [OP_SCHEDULE_GET] = "schedule_get",
    [OP_SCHEDULE_LIST] = "schedule_list",
    [OP_SCHEDULE_PAUSE] = "schedule_pause",
    [OP_FIRE] = "fire",
    [OP_TRIGGER] = "trigger",
    [OP_TICK] = "tick",
};

const char *op_kind_name(enum op_kind kind)
{
    return (unsigned)kind < OP_KIND_COUNT ? op_names[kind] : "?";
}

void history_init(struct history *h, const struct queue_policy *policy, uint64_t key_ttl_ms)
{
    memset(h, 0, sizeof(*h));
    pool_init(&h->pool);
    h->policy = *policy;
    h->key_ttl_ms = key_ttl_ms;
    h->hash = TRACE_HASH_START;
}

void history_done(struct history *h)
{
    vec_free(h->entries);
    pool_done(&h->pool);
}

static struct hist_entry *entry_new(struct history *h, enum hist_kind kind, struct now now)
{
    h->entries = vec_room(h->entries, &h->room, h->count + 1, sizeof(*h->entries));
    struct hist_entry *e = &h->entries[h->count++];
    memset(e, 0, sizeof(*e));
    e->kind = kind;
    e->mono = now.mono.ms;
    e->wall = now.wall.ms;
    h->hash = trace_hash_number(h->hash, kind);
    h->hash = trace_hash_number(h->hash, (uint64_t)e->mono);
    h->hash = trace_hash_number(h->hash, (uint64_t)e->wall);
    return e;
}

size_t history_op(struct history *h, uint32_t call, const struct op *op, struct now now)
{
    struct hist_entry *e = entry_new(h, HIST_OP, now);
    e->call = call;
    e->op = *op;
    h->hash = trace_hash_number(h->hash, ((uint64_t)op->kind << 32) | call);
    return h->count - 1;
}

void history_taken(struct history *h, size_t first, uint64_t position, bool strained)
{
    for (size_t i = first; i < h->count; i++) {
        h->entries[i].position = position;
        h->entries[i].strained = strained;
    }
    h->hash = trace_hash_number(h->hash, position);
}

static void copy_jobs(struct history *h, struct hist_entry *e, const struct reply *r)
{
    e->job_count = r->job_count;
    e->jobs = pool_alloc(&h->pool, r->job_count * sizeof(*e->jobs));
    for (uint32_t i = 0; i < r->job_count; i++) {
        const struct job_view *v = &r->jobs[i];
        e->jobs[i] = (struct hist_job){
            .job = v->job,
            .queue = pool_span(&h->pool, v->queue),
            .token = v->token,
            .lease_ms = v->lease_ms,
            .limits = v->limits,
            .holder = v->holder.seq,
            .group = pool_span(&h->pool, v->extra.group),
            .has_body = v->has_body,
            .payload = v->has_body ? pool_span(&h->pool, v->payload) : (struct span){NULL, 0},
            .progress = pool_span(&h->pool, v->progress),
            .log = pool_span(&h->pool, v->log),
            .steps = pool_span(&h->pool, v->steps),
        };
        if (v->has_body && e->apart) {
            e->jobs[i].attributes = pool_span(&h->pool, v->extra.attributes);
            e->jobs[i].label = pool_span(&h->pool, v->extra.label);
        }
        h->hash = trace_hash_number(h->hash, v->job.seq);
        h->hash = trace_hash_number(h->hash, v->job.state);
        h->hash = trace_hash_number(h->hash, v->token.counter);
        h->hash = trace_hash(h->hash, e->jobs[i].payload.at, e->jobs[i].payload.len);
        h->hash = trace_hash(h->hash, e->jobs[i].log.at, e->jobs[i].log.len);
        h->hash = trace_hash(h->hash, e->jobs[i].steps.at, e->jobs[i].steps.len);
    }
}

static void copy_queues(struct history *h, struct hist_entry *e, const struct reply *r)
{
    e->queue_count = r->queue_count;
    e->queues = pool_alloc(&h->pool, r->queue_count * sizeof(*e->queues));
    for (uint32_t i = 0; i < r->queue_count; i++) {
        const struct queue_view *v = &r->queues[i];
        struct hist_queue *q = &e->queues[i];
        q->name = pool_span(&h->pool, v->name);
        q->policy = *v->policy;
        q->paused_until = v->paused_until;
        memcpy(q->by_state, v->counts.by_state, sizeof(q->by_state));
        h->hash = trace_hash(h->hash, q->by_state, sizeof(q->by_state));
    }
}

static void copy_kvs(struct history *h, struct hist_entry *e, const struct reply *r)
{
    e->kv_count = r->kv_count;
    e->kvs = pool_alloc(&h->pool, r->kv_count * sizeof(*e->kvs));
    for (uint32_t i = 0; i < r->kv_count; i++) {
        const struct kv_view *v = &r->kvs[i];
        e->kvs[i] = (struct hist_kv){
            .key = pool_span(&h->pool, v->key), .found = v->found, .version = v->version};
        if (v->has_value)
            e->kvs[i].value = pool_span(&h->pool, v->value);
        h->hash = trace_hash_number(h->hash, v->version);
    }
}

static void copy_schedules(struct history *h, struct hist_entry *e, const struct reply *r)
{
    e->schedule_count = r->schedule_count;
    e->schedules = pool_alloc(&h->pool, r->schedule_count * sizeof(*e->schedules));
    for (uint32_t i = 0; i < r->schedule_count; i++) {
        const struct schedule_view *v = &r->schedules[i];
        e->schedules[i] = (struct hist_schedule){pool_span(&h->pool, v->name), v->state};
        h->hash = trace_hash_number(h->hash, (uint64_t)v->state.next_at.ms ^ v->state.fired << 44);
    }
}

static void copy_notices(struct history *h, struct hist_entry *e, const struct reply *r)
{
    e->notice_count = r->notice_count;
    e->notices = pool_alloc(&h->pool, r->notice_count * sizeof(*e->notices));
    for (uint32_t i = 0; i < r->notice_count; i++) {
        const struct notice_view *v = &r->notices[i];
        e->notices[i] = (struct hist_notice){.number = v->notice.number,
                                             .job = v->notice.job_seq,
                                             .alert = pool_span(&h->pool, v->notice.alert),
                                             .tries = v->tried.tries,
                                             .state = v->tried.state};
        h->hash = trace_hash_number(h->hash, v->notice.number);
    }
}

static void copy_enqueued(struct history *h, struct hist_entry *e, const struct reply *r)
{
    e->enqueued_count = r->enqueued_count;
    e->enqueued = pool_copy(&h->pool, r->enqueued, r->enqueued_count * sizeof(*r->enqueued));
}

static void (*const copies[REPLY_FAMILY_COUNT])(struct history *h, struct hist_entry *e,
                                                const struct reply *r) = {
    [REPLY_JOBS] = copy_jobs,
    [REPLY_QUEUES] = copy_queues,
    [REPLY_KV] = copy_kvs,
    [REPLY_KV_COMMIT] = copy_enqueued,
    [REPLY_SCHEDULES] = copy_schedules,
    [REPLY_NOTICES] = copy_notices,
};

void history_reply(struct history *h, size_t entry, const struct reply *reply, int64_t mono)
{
    CHECK(entry < h->count);
    struct hist_entry *e = &h->entries[entry];
    CHECK(e->kind == HIST_OP && !e->replied);
    e->replied = true;
    e->replied_mono = mono;
    e->reply = *reply;
    e->reply.note = NULL;
    h->hash = trace_hash_number(h->hash, entry);
    h->hash = trace_hash_number(h->hash, reply->outcome);
    h->hash = trace_hash_number(h->hash, reply->seq);
    h->hash = trace_hash_number(h->hash, (uint64_t)mono);
    if (copies[reply_family(reply)])
        copies[reply_family(reply)](h, e, reply);
}

void history_event(struct history *h, enum hist_kind kind, uint64_t position, struct now now)
{
    CHECK(kind != HIST_OP);
    struct hist_entry *e = entry_new(h, kind, now);
    e->position = position;
    h->hash = trace_hash_number(h->hash, position);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_subject(const struct op *op, FILE *out)
{
    switch (op->kind) {
    case OP_ENQUEUE:
        fprintf(out, " %.*s prio=%lld delay=%lld", (int)op->enqueue.queue.len, op->enqueue.queue.at,
                (long long)op->enqueue.priority, (long long)op->enqueue.delay_ms);
        if (op->enqueue.extra.unique.len)
            fprintf(out, " unique=%.*s mode=%u", (int)op->enqueue.extra.unique.len,
                    op->enqueue.extra.unique.at, op->enqueue.unique_mode);
        if (op->enqueue.idempotency_key.len)
            fprintf(out, " key=%.*s", (int)op->enqueue.idempotency_key.len,
                    op->enqueue.idempotency_key.at);
        for (uint32_t i = 0; op->enqueue.depends && i < op->enqueue.depends->count; i++)
            fprintf(out, " after=%llu rule=%u",
                    (unsigned long long)op->enqueue.depends->parents[i].job.seq,
                    op->enqueue.depends->rule);
        break;
    case OP_CLAIM:
        for (uint32_t i = 0; i < op->claim.queue_count; i++)
            fprintf(out, " %.*s", (int)op->claim.queues[i].len, op->claim.queues[i].at);
        fprintf(out, " count=%u lease=%u%s", op->claim.count, op->claim.lease_ms,
                op->claim.bound ? " bound" : "");
        if (op->claim.one.seq)
            fprintf(out, " job=%llu", (unsigned long long)op->claim.one.seq);
        break;
    case OP_ACK:
    case OP_FAIL:
    case OP_EXTEND:
    case OP_RELEASE:
    case OP_PROGRESS:
    case OP_LOG:
    case OP_STEP:
        fprintf(out, " job=%llu lease=%u token=%u-%llu%s%s", (unsigned long long)op->lease.job.seq,
                op->lease.lease_ms, op->lease.token.epoch,
                (unsigned long long)op->lease.token.counter, op->lease.any_token ? " any" : "",
                op->lease.lost ? " lost" : "");
        break;
    case OP_CANCEL:
    case OP_REQUEUE:
    case OP_REMOVE:
    case OP_GET:
        fprintf(out, " job=%llu%s", (unsigned long long)op->job.job.seq,
                op->job.force ? " force" : "");
        break;
    case OP_PATCH:
        fprintf(out, " job=%llu%s%s%s", (unsigned long long)op->patch.job.seq,
                op->patch.has_priority ? " priority" : "", op->patch.has_run_at ? " run_at" : "",
                op->patch.has_payload ? " payload" : "");
        break;
    case OP_QUEUE_PUT:
    case OP_QUEUE_DELETE:
    case OP_QUEUE_GET:
    case OP_PAUSE:
    case OP_PURGE:
        fprintf(out, " %.*s until=%lld", (int)op->queue.name.len, op->queue.name.at,
                (long long)op->queue.until.ms);
        break;
    case OP_BULK:
        fprintf(out, " %.*s action=%u states=%x", (int)op->bulk.queue.len, op->bulk.queue.at,
                op->bulk.action, op->bulk.states);
        break;
    case OP_PEEK:
        fprintf(out, " %.*s state=%u", (int)op->peek.queue.len, op->peek.queue.at, op->peek.state);
        break;
    case OP_SCHEDULE_PUT:
    case OP_SCHEDULE_DELETE:
    case OP_SCHEDULE_GET:
    case OP_SCHEDULE_LIST:
    case OP_SCHEDULE_PAUSE:
    case OP_FIRE:
    case OP_TRIGGER:
        fprintf(out, " %.*s at=%lld next=%lld%s%s", (int)op->schedule.name.len,
                op->schedule.name.at, (long long)op->schedule.at.ms,
                (long long)op->schedule.next_at.ms, op->schedule.now ? " now" : "",
                op->schedule.skip ? " skip" : "");
        break;
    case OP_NOTICE_END:
        fprintf(out, " %llu tries=%u%s%s", (unsigned long long)op->notice_end.number,
                op->notice_end.tries, op->notice_end.delivered ? " delivered" : "",
                op->notice_end.give_up ? " give_up" : "");
        break;
    case OP_NOTICE_AGAIN:
    case OP_NOTICE_DISCARD:
        fprintf(out, " %llu", (unsigned long long)op->notice.id.seq);
        break;
    case OP_ALERT_EDGE:
        fprintf(out, " %s", op->alert_edge.raised ? "raised" : "cleared");
        break;
    case OP_NOTE:
        fprintf(out, " job=%llu", (unsigned long long)op->note.job.seq);
        break;
    case OP_DEPENDENCIES:
        fprintf(out, " job=%llu", (unsigned long long)op->dependencies.job.seq);
        break;
    case OP_RELEASE_CLAIM:
    case OP_QUEUE_LIST:
    case OP_LIST:
    case OP_WORKERS:
    case OP_REGISTRY:
    case OP_ACCEPT_CLOCK:
    case OP_EXCEPTIONS:
    case OP_KV_COMMIT:
    case OP_KV_GET:
    case OP_KV_LIST:
    case OP_ALERT_PUT:
    case OP_ALERT_DELETE:
    case OP_ALERT_LIST:
    case OP_NOTICE_TAKE:
    case OP_NOTICE_LIST:
    case OP_BREAKER_PUT:
    case OP_BREAKER_DELETE:
    case OP_BREAKER_ALLOW:
    case OP_BREAKER_REPORT:
    case OP_BREAKER_LIST:
    case OP_PAGE:
    case OP_HISTORY:
    case OP_PENDING:
    case OP_DISPATCHED:
    case OP_TICK:
    case OP_KIND_COUNT:
        break;
    }
}

static void print_reply(const struct hist_entry *e, FILE *out)
{
    const struct reply *r = &e->reply;
    fprintf(out, " -> %s at %lld", outcome_name(r->outcome), (long long)e->replied_mono);
    if (r->seq)
        fprintf(out, " seq=%llu", (unsigned long long)r->seq);
    if (reply_family(r) == REPLY_ENQUEUE && r->replaced_seq)
        fprintf(out, " replaced=%llu", (unsigned long long)r->replaced_seq);
    if (r->state != STATE_NONE)
        fprintf(out, " %s", state_name(r->state));
    if (r->run_at.ms)
        fprintf(out, " run_at=%lld", (long long)r->run_at.ms);
    fprintf(out, "%s%s%s", r->repeat ? " repeat" : "", r->created ? " created" : "",
            r->relaxed ? " relaxed" : "");
    for (uint32_t i = 0; i < e->job_count && i < 20; i++)
        fprintf(out, " [%llu %s t=%u-%llu f=%u c=%u p=%lld lease=%u held=%llu]",
                (unsigned long long)e->jobs[i].job.seq,
                state_name((enum job_state)e->jobs[i].job.state), e->jobs[i].token.epoch,
                (unsigned long long)e->jobs[i].token.counter, e->jobs[i].job.failures,
                e->jobs[i].job.crashes, (long long)e->jobs[i].job.priority, e->jobs[i].lease_ms,
                (unsigned long long)e->jobs[i].holder);
    for (uint32_t i = 0; i < e->schedule_count; i++)
        fprintf(out, " {%.*s next=%lld last=%lld fired=%llu seq=%llu}",
                (int)e->schedules[i].name.len, e->schedules[i].name.at,
                (long long)e->schedules[i].state.next_at.ms,
                (long long)e->schedules[i].state.last_at.ms,
                (unsigned long long)e->schedules[i].state.fired,
                (unsigned long long)e->schedules[i].state.seq);
    for (uint32_t i = 0; i < e->notice_count && i < 20; i++)
        fprintf(out, " <%llu of %llu tries=%u%s>", (unsigned long long)e->notices[i].number,
                (unsigned long long)e->notices[i].job, e->notices[i].tries,
                e->notices[i].state ? " dead" : "");
    if (reply_family(r) == REPLY_BULK)
        fprintf(out, " changed=%llu", (unsigned long long)r->changed);
    if (reply_family(r) == REPLY_SCHEDULES && r->fired)
        fprintf(out, " fired");
    for (uint32_t i = 0; i < e->enqueued_count; i++)
        fprintf(out, " made=%llu", (unsigned long long)e->enqueued[i].seq);
}

void history_print(const struct history *h, size_t entry, FILE *out)
{
    static const char *const kinds[HIST_KIND_COUNT] = {
        [HIST_OP] = "op",     [HIST_CRASH] = "crash", [HIST_BOOT] = "boot",
        [HIST_WALL] = "wall", [HIST_STALL] = "stall", [HIST_DRAINED] = "drained",
    };
    const struct hist_entry *e = &h->entries[entry];
    fprintf(out, "%5zu %8lld ms wall %lld pos %llu ", entry, (long long)e->mono, (long long)e->wall,
            (unsigned long long)e->position);
    if (e->kind != HIST_OP) {
        fprintf(out, "== %s\n", kinds[e->kind]);
        return;
    }
    fprintf(out, "#%u %s", e->call, op_kind_name(e->op.kind));
    print_subject(&e->op, out);
    if (e->replied)
        print_reply(e, out);
    else
        fputs(" -> no reply", out);
    fputc('\n', out);
}

static uint64_t subject_of(const struct op *op)
{
    switch (op->kind) {
    case OP_ACK:
    case OP_FAIL:
    case OP_EXTEND:
    case OP_RELEASE:
    case OP_PROGRESS:
    case OP_LOG:
    case OP_STEP:
        return op->lease.job.seq;
    case OP_CANCEL:
    case OP_REQUEUE:
    case OP_REMOVE:
    case OP_GET:
        return op->job.job.seq;
    case OP_PATCH:
        return op->patch.job.seq;
    case OP_CLAIM:
        return op->claim.one.seq;
    case OP_ENQUEUE:
    case OP_RELEASE_CLAIM:
    case OP_QUEUE_PUT:
    case OP_QUEUE_DELETE:
    case OP_QUEUE_GET:
    case OP_QUEUE_LIST:
    case OP_PAUSE:
    case OP_PURGE:
    case OP_BULK:
    case OP_PEEK:
    case OP_LIST:
    case OP_WORKERS:
    case OP_REGISTRY:
    case OP_ACCEPT_CLOCK:
    case OP_EXCEPTIONS:
    case OP_KV_COMMIT:
    case OP_KV_GET:
    case OP_KV_LIST:
    case OP_ALERT_PUT:
    case OP_ALERT_DELETE:
    case OP_ALERT_LIST:
    case OP_ALERT_EDGE:
    case OP_NOTICE_TAKE:
    case OP_NOTICE_END:
    case OP_NOTICE_LIST:
    case OP_NOTICE_AGAIN:
    case OP_NOTICE_DISCARD:
    case OP_BREAKER_PUT:
    case OP_BREAKER_DELETE:
    case OP_BREAKER_ALLOW:
    case OP_BREAKER_REPORT:
    case OP_BREAKER_LIST:
    case OP_NOTE:
    case OP_DEPENDENCIES:
    case OP_PAGE:
    case OP_HISTORY:
    case OP_PENDING:
    case OP_DISPATCHED:
    case OP_SCHEDULE_PUT:
    case OP_SCHEDULE_DELETE:
    case OP_SCHEDULE_GET:
    case OP_SCHEDULE_LIST:
    case OP_SCHEDULE_PAUSE:
    case OP_FIRE:
    case OP_TRIGGER:
    case OP_TICK:
    case OP_KIND_COUNT:
        break;
    }
    return 0;
}

static bool concerns(const struct hist_entry *e, uint64_t seq)
{
    if (e->kind != HIST_OP || seq == 0)
        return true;
    bool wide = e->op.kind == OP_PURGE || e->op.kind == OP_BULK || e->op.kind == OP_QUEUE_DELETE ||
                e->op.kind == OP_QUEUE_PUT || e->op.kind == OP_PAUSE;
    if (wide || subject_of(&e->op) == seq)
        return true;
    if (!e->replied)
        return e->op.kind == OP_CLAIM;
    for (uint32_t i = 0; i < e->job_count; i++)
        if (e->jobs[i].job.seq == seq)
            return true;
    return e->reply.seq == seq ||
           (reply_family(&e->reply) == REPLY_ENQUEUE && e->reply.replaced_seq == seq);
}

void history_print_job(const struct history *h, uint64_t seq, size_t upto, size_t limit, FILE *out)
{
    size_t first = upto < h->count ? upto : h->count - 1, found = 0;
    for (size_t i = first + 1; i-- > 0 && found < limit;) {
        if (concerns(&h->entries[i], seq)) {
            first = i;
            found++;
        }
    }
    for (size_t i = first; i <= upto && i < h->count; i++)
        if (concerns(&h->entries[i], seq) || i == upto)
            history_print(h, i, out);
}
