/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/migrate_store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/reply_copy.h"
#include "base/mem.h"
#include "cli/client/session.h"
#include "core/limits.h"
#include "server/fatal.h"

#define LIST_WAIT_MS 600000 /* a list must show everything that was written */
#define PAGE_JOBS 500
#define SILENT_MS 15000 /* a node that was silent for this long has ended */

/* ---- opening and closing ---- */

/* No later result of this store can be trusted. */
static void fatal_cb(void *ctx, int error, const char *why)
{
    const struct migrate_store *s = ctx;
    client_complain(CLIENT_REFUSED, "the %s failed: %s; %s", s->role, why, fatal_advice(error));
    _exit(CLIENT_REFUSED);
}

static int open_failed(const struct migrate_store *s, int err, const struct err_note *note)
{
    int status = err == -ERR_IO || err == -ERR_TIMEOUT ? CLIENT_UNREACHABLE : CLIENT_USAGE;
    return client_complain(status, "the %s cannot be opened: %s", s->role,
                           note->text[0] ? note->text : err_text(err));
}

static int able(const struct migrate_store *s)
{
    if ((backend_caps(s->backend) & s->needs) == s->needs)
        return CLIENT_DONE;
    return client_complain(CLIENT_USAGE,
                           "the %s cannot be used: a store of this kind (%s) does not take jobs "
                           "with their ids and history",
                           s->role, backend_kind(s->backend));
}

/* The nodes that use a shared store are known after our first heartbeat, which is sent before
 * the first operation. */
static int nodes_read(struct migrate_store *s, struct backend_cluster *ret)
{
    struct op op = {.kind = OP_QUEUE_LIST};
    int status;
    op.queue.limit = 1;
    mem_free(migrate_need(s, op, "queues", &status));
    backend_cluster(s->backend, ret);
    if (status == CLIENT_DONE && ret->as_of.ms == 0)
        return client_complain(CLIENT_UNREACHABLE, "the %s does not show which nodes use it",
                               s->role);
    return status;
}

/* Nodes send a heartbeat every two seconds, and one when they stop. */
static int nodes_none(struct migrate_store *s, struct wall_time now)
{
    struct backend_cluster c;
    if (!(backend_caps(s->backend) & CAP_SHARED))
        return CLIENT_DONE;
    int status = nodes_read(s, &c);
    if (status != CLIENT_DONE)
        return status;
    for (size_t i = 0; i < c.node_count; i++) {
        const struct backend_node *n = &c.nodes[i];
        if (n->self || n->seen_at.ms < now.ms - SILENT_MS)
            continue;
        return client_complain(CLIENT_USAGE,
                               "the %s is in use by node %u; stop it first, or, if it was killed, "
                               "try again in %d seconds",
                               s->role, n->number, SILENT_MS / 1000);
    }
    return CLIENT_DONE;
}

int migrate_open(struct migrate_store *s, struct wall_time at, struct wall_time now)
{
    struct err_note note = {""};
    s->clock.at = (struct now){.mono = {1}, .wall = at};
    struct backend_config config = {
        .loop = s->loop,
        .clock = clock_manual(&s->clock),
        .no_auto_create = true,
        .still = true,
        .kv_keys_max =
            UINT32_MAX, /* limits belong to the server, whose settings are not known here */
        .kv_bytes_max = INT64_MAX,
        .list_wait_ms = LIST_WAIT_MS,
        .fatal = fatal_cb,
        .fatal_ctx = s,
    };
    int err = backend_open(s->url, &config, &s->backend, &note);
    if (err) {
        s->backend = NULL;
        (void)uv_run(s->loop, UV_RUN_NOWAIT); /* handles that may still have to be closed */
        return open_failed(s, err, &note);
    }
    int status = able(s);
    if (status == CLIENT_DONE)
        status = nodes_none(s, now);
    if (status != CLIENT_DONE)
        migrate_close(s);
    return status;
}

static void closed_cb(void *ctx)
{
    struct migrate_store *s = ctx;
    s->backend = NULL;
}

void migrate_close(struct migrate_store *s)
{
    if (!s->backend)
        return;
    backend_close(s->backend, closed_cb, s);
    while (s->backend)
        (void)uv_run(s->loop, UV_RUN_ONCE);
}

/* ---- asking ---- */

struct asked {
    struct reply **answers;
    size_t left;
    bool nomem;
};

static void answer_cb(void *ctx, const struct reply *reply)
{
    struct asked *a = ctx;
    struct reply *copy = reply_copy(reply);
    a->nomem |= !copy;
    a->answers[reply->tag] = copy;
    a->left--;
}

void migrate_answers_free(struct reply **answers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mem_free(answers[i]);
        answers[i] = NULL;
    }
}

int migrate_ask_all(struct migrate_store *s, const struct op *ops, size_t count,
                    struct reply **answers)
{
    struct asked asked = {.answers = answers, .left = count};
    for (size_t i = 0; i < count; i++)
        answers[i] = NULL;
    if (backend_submit(s->backend, ops, count, answer_cb, &asked) != 0)
        return client_no_memory();
    while (asked.left > 0)
        (void)uv_run(s->loop, UV_RUN_ONCE);
    if (!asked.nomem)
        return CLIENT_DONE;
    migrate_answers_free(answers, count);
    return client_no_memory();
}

struct reply *migrate_ask(struct migrate_store *s, struct op op)
{
    struct reply *answer = NULL;
    op.tag = 0;
    return migrate_ask_all(s, &op, 1, &answer) == CLIENT_DONE ? answer : NULL;
}

int migrate_refused(const struct migrate_store *s, const char *what, const struct reply *reply)
{
    bool trouble = reply->outcome == OUT_UNAVAILABLE || reply->outcome == OUT_UNKNOWN;
    int status = trouble ? CLIENT_UNREACHABLE : CLIENT_REFUSED;
    return client_complain(status, "%s, asked for %s, answered: %s%s%s", s->role, what,
                           outcome_name(reply->outcome), reply->note ? ": " : "",
                           reply->note ? reply->note : "");
}

struct reply *migrate_need(struct migrate_store *s, struct op op, const char *what, int *ret_status)
{
    struct reply *r = migrate_ask(s, op);
    *ret_status = CLIENT_REFUSED;
    if (!r)
        return NULL;
    *ret_status = CLIENT_DONE;
    if (r->outcome == OUT_OK)
        return r;
    *ret_status = migrate_refused(s, what, r);
    mem_free(r);
    return NULL;
}

/* ---- pages of jobs ---- */

static int attempts_take(const struct migrate_store *s, struct job_page *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        const struct reply *r = p->more[i];
        if (!r)
            return client_no_memory();
        if (r->outcome != OUT_OK || r->job_count != 1)
            return migrate_refused(s, "the history of a job", r);
        p->jobs[i].attempts = r->jobs[0].attempts;
        p->jobs[i].attempt_count = r->jobs[0].attempt_count;
        p->jobs[i].progress = r->jobs[0].progress;
        p->jobs[i].log = r->jobs[0].log;
        p->jobs[i].steps = r->jobs[0].steps;
        p->jobs[i].damage |= r->jobs[0].damage;
        p->jobs[i].is_dependent = r->jobs[0].is_dependent;
        p->jobs[i].dependent = r->jobs[0].dependent;
        p->jobs[i].waits = r->jobs[0].waits;
        p->jobs[i].parents = r->jobs[0].parents;
        p->jobs[i].parent_count = r->jobs[0].parent_count;
    }
    return CLIENT_DONE;
}

/* Nothing else shows which jobs have a history: a release or a requeue leaves no other trace. */
static int attempts_read(struct migrate_store *s, struct job_page *p)
{
    struct op *ops = mem_array(p->count, sizeof *ops);
    p->more = mem_array(p->count, sizeof *p->more);
    if (!ops || !p->more) {
        mem_free(ops);
        return client_no_memory();
    }
    for (uint32_t i = 0; i < p->count; i++) {
        ops[i] = (struct op){.kind = OP_GET, .tag = i};
        ops[i].job.job = (struct job_ref){p->jobs[i].job.seq, p->jobs[i].job.id_hi};
        ops[i].job.want_attempts = ops[i].job.want_log = ops[i].job.want_steps = true;
        ops[i].job.want_parents = p->jobs[i].job.state == STATE_BLOCKED;
    }
    int status = migrate_ask_all(s, ops, p->count, p->more);
    if (status == CLIENT_DONE)
        status = attempts_take(s, p);
    mem_free(ops);
    return status;
}

int job_page_read(struct migrate_store *s, uint64_t after, enum page_with with,
                  struct job_page *ret)
{
    struct op op = {.kind = OP_LIST};
    int status;
    *ret = (struct job_page){0};
    op.list.after = after;
    op.list.limit = PAGE_JOBS;
    op.list.want_body = with == PAGE_WHOLE;
    op.list.filter.states = with == PAGE_BLOCKED ? STATE_BIT(STATE_BLOCKED) : 0;
    ret->list = migrate_need(s, op, "a page of jobs", &status);
    if (!ret->list)
        return status;
    ret->count = ret->list->job_count;
    ret->next = ret->list->cursor;
    ret->jobs = mem_array(ret->count + 1, sizeof *ret->jobs);
    if (!ret->jobs) {
        job_page_free(ret);
        return client_no_memory();
    }
    if (ret->count > 0)
        memcpy(ret->jobs, ret->list->jobs, ret->count * sizeof *ret->jobs);
    if (with != PAGE_BARE && ret->count > 0)
        status = attempts_read(s, ret);
    if (status != CLIENT_DONE)
        job_page_free(ret);
    return status;
}

void job_page_free(struct job_page *p)
{
    if (p->more)
        migrate_answers_free(p->more, p->count);
    mem_free(p->more);
    mem_free(p->jobs);
    mem_free(p->list);
    *p = (struct job_page){0};
}
