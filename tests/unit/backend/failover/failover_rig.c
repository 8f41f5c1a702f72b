/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/backend/failover/failover_rig.h"

#include <ftw.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/reply_copy.h"
#include "base/mem.h"

struct failover_rig fr;
_Atomic bool fr_listening, fr_unsafe, fr_checked_on_loop;
_Atomic unsigned fr_checks;

static pthread_t loop_thread;

int fr_open_store(const char *name, struct backend **ret)
{
    char url[100];
    struct err_note note;
    snprintf(url, sizeof url, fr.on_disk ? "sqlite:%s/%s" : "memory:", fr.dir, name);
    return backend_open(url, &fr.config, ret, &note);
}

int fr_open_primary(void *ctx, struct backend **ret, struct err_note *note)
{
    struct backend *inner;
    (void)ctx;
    fr.opens++;
    if (fr.unusable)
        return err_note_set(note, -ERR_INVALID, "%s", fr.unusable);
    assert_int_equal(fr_open_store("primary", &inner), 0);
    fr.primary = switched_new(inner, &fr.loop);
    *ret = switched_backend(fr.primary);
    return 0;
}

bool fr_reachable(void *ctx)
{
    (void)ctx;
    return fr_listening;
}

static int check(void *ctx, struct err_note *note)
{
    (void)ctx;
    fr_checks++;
    if (pthread_equal(pthread_self(), loop_thread))
        fr_checked_on_loop = true;
    return fr_unsafe ? err_note_set(note, -ERR_UNSAFE, "appendonly is no") : 0;
}

int fr_try_open(struct err_note *note)
{
    struct failover_setup setup = {.kind = "test",
                                   .open = fr_open_primary,
                                   .reachable = fr_reachable,
                                   .check = check,
                                   .health_ms = 60000,
                                   .alert_url = fr.alert_url};
    assert_int_equal(fr_open_store("spool", &fr.spool), 0);
    return backend_open_failover(fr.spool, &setup, &fr.config, &fr.b, note);
}

void fr_open(void)
{
    struct err_note note = {""};
    assert_int_equal(fr_try_open(&note), 0);
}

void fr_begin_with(bool there)
{
    fr_listening = there;
    fr_unsafe = fr_checked_on_loop = false;
    fr_checks = 0;
    loop_thread = pthread_self();
    fr = (struct failover_rig){.clock.at = {{5000000}, {INT64_C(1767225600000)}}};
    snprintf(fr.dir, sizeof fr.dir, "/tmp/failover.XXXXXX");
    assert_non_null(mkdtemp(fr.dir));
    assert_int_equal(uv_loop_init(&fr.loop), 0);
    fr.config = (struct backend_config){.loop = &fr.loop,
                                        .clock = clock_manual(&fr.clock),
                                        .seed = 1,
                                        .node = FR_NODE,
                                        .journal_segment_bytes = 64 << 10,
                                        .list_wait_ms = 60000};
}

void fr_begin(void)
{
    fr_begin_with(true);
    fr_open();
}

static void closed_cb(void *ctx)
{
    *(bool *)ctx = true;
}

void fr_close(void)
{
    fr.closed = false;
    backend_close(fr.b, closed_cb, &fr.closed);
    assert_false(fr.closed);
    while (!fr.closed)
        uv_run(&fr.loop, UV_RUN_ONCE);
}

static int remove_cb(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

void fr_end_closed(void)
{
    uv_run(&fr.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&fr.loop), 0);
    for (size_t i = 0; i < fr.kept_count; i++)
        mem_free(fr.kept[i]);
    assert_int_equal(nftw(fr.dir, remove_cb, 8, FTW_DEPTH | FTW_PHYS), 0);
}

void fr_end(void)
{
    fr_close();
    fr_end_closed();
}

static void reply_cb(void *ctx, const struct reply *reply)
{
    (void)ctx;
    assert_true(fr.kept_count < FR_REPLIES_MAX);
    fr.kept[fr.kept_count] = reply_copy(reply);
    assert_non_null(fr.kept[fr.kept_count++]);
    fr.answered = true;
}

const struct reply *fr_run_at(struct backend *b, struct op op)
{
    fr.answered = false;
    assert_int_equal(backend_submit(b, &op, 1, reply_cb, NULL), 0);
    assert_false(fr.answered);
    while (!fr.answered)
        uv_run(&fr.loop, UV_RUN_ONCE);
    return fr.kept[fr.kept_count - 1];
}

const struct reply *fr_run(struct op op)
{
    return fr_run_at(fr.b, op);
}

struct backend_figures fr_figures(void)
{
    struct backend_figures f;
    backend_figures(fr.b, &f);
    assert_true(f.has_spool);
    return f;
}

void fr_until_up(bool up)
{
    while (fr_figures().primary_up != up)
        uv_run(&fr.loop, UV_RUN_ONCE);
}

void fr_until_copied(void)
{
    const struct failover *f = (const struct failover *)fr.b;
    while (f->mirror.busy || !f->mirror.looked_ms || f->rules.busy || f->rules.copy_due ||
           !f->rules.told)
        uv_run(&fr.loop, UV_RUN_ONCE);
}

void fr_until_moved(void)
{
    fr_until_up(true);
    while (fr_figures().spool_jobs > 0)
        uv_run(&fr.loop, UV_RUN_ONCE);
}

struct op fr_enqueue_op(void)
{
    return (struct op){.kind = OP_ENQUEUE,
                       .enqueue = {.queue = SPAN_LITERAL("q"),
                                   .payload_kind = PAYLOAD_JSON,
                                   .payload = SPAN_LITERAL("{\"n\":1}")}};
}

struct job_ref fr_enqueue_this(struct op op)
{
    const struct reply *r = fr_run(op);
    assert_int_equal(r->outcome, OUT_OK);
    return (struct job_ref){r->seq, r->id_hi};
}

struct job_ref fr_enqueue(void)
{
    return fr_enqueue_this(fr_enqueue_op());
}

const struct reply *fr_claim(uint32_t count)
{
    static const struct span queue = {"q", 1};
    const struct reply *r = fr_run((struct op){
        .kind = OP_CLAIM,
        .claim = {.queues = &queue, .queue_count = 1, .count = count, .want_body = true}});
    assert_int_equal(r->outcome, OUT_OK);
    return r;
}

struct op fr_lease_op(enum op_kind kind, const struct job_view *v)
{
    return (struct op){.kind = kind,
                       .lease = {.job = {v->job.seq, v->job.id_hi}, .token = v->token}};
}

const struct reply *fr_get(struct job_ref id)
{
    return fr_run((struct op){.kind = OP_GET, .job = {.job = id, .want_body = true}});
}

const struct reply *fr_get_at_primary(struct job_ref id)
{
    return fr_run_at(switched_backend(fr.primary),
                     (struct op){.kind = OP_GET, .job = {.job = id, .want_body = true}});
}

void fr_outage(void)
{
    switched_set(fr.primary, SWITCH_OFF);
    assert_int_equal(fr_run((struct op){.kind = OP_WORKERS})->outcome, OUT_OK); /* the spool's */
    assert_false(fr_figures().primary_up);
}

void fr_put_queue(struct span name, const struct queue_policy *policy, struct span owner)
{
    assert_int_equal(
        fr_run((struct op){
                   .kind = OP_QUEUE_PUT,
                   .queue = {.name = name, .policy = policy, .has_owner = true, .owner = owner}})
            ->outcome,
        OUT_OK);
}

struct backend_cluster fr_health(void)
{
    struct backend_cluster c;
    backend_cluster(fr.b, &c);
    assert_true(c.up); /* the node works */
    assert_int_equal(c.spooling, !fr_figures().primary_up);
    return c;
}

void fr_lose_move(enum switched_mode mode)
{
    switched_set(fr.primary, mode);
    while (switched_met(fr.primary, OP_ENQUEUE) == 0)
        uv_run(&fr.loop, UV_RUN_ONCE);
    switched_set(fr.primary, SWITCH_OFF);
    fr_until_up(false);
}
