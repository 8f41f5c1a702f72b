/* SPDX-License-Identifier: Apache-2.0 */
/* The local backend on a store, and a journal, whose disk is full when the test says so: what goes
 * on, what waits, what is told, what is still there afterwards, and that closing does not wait for
 * ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/local/local.h"
#include "backend/local/store/disk_reserve.h"
#include "base/err.h"
#include "core/limits.h"
#include "unit/backend/local/sqlite/store_rig.h"

/* ---- a store that is full when told to be; its readers find nothing ---- */

/* A read of bodies that waits for the test, and then fails. */
struct held {
    atomic_bool on;
    uv_sem_t begun, go;
};

struct stub {
    struct store base;
    atomic_bool *full;
    struct held *held;
    struct store *kept; /* in memory; outlives it, as a file would */
};

static struct store *kept(struct store *s)
{
    return ((struct stub *)s)->kept;
}

static const struct store_meta *stub_meta(struct store *s)
{
    return kept(s)->ops->meta(kept(s));
}

static int stub_load(struct store *s, const struct store_sink *sink, struct err_note *note)
{
    return kept(s)->ops->load(kept(s), sink, note);
}

static int stub_journal_begun(struct store *s, struct err_note *note)
{
    return kept(s)->ops->journal_begun(kept(s), note);
}

static int stub_apply(struct store *s, const struct span *frames, size_t count,
                      struct err_note *note)
{
    if (atomic_load(((struct stub *)s)->full))
        return err_note_set(note, -ERR_NO_SPACE, "the stub is full");
    return kept(s)->ops->apply(kept(s), frames, count, note);
}

static int stub_tidy(struct store *s, bool *more, struct err_note *note)
{
    (void)s, (void)note;
    *more = false;
    return 0;
}

static void stub_close(struct store *s)
{
    free(s);
}

struct stub_reader {
    struct store_reader base;
    struct held *held;
};

static int stub_read(struct store_reader *r, const struct store_query *query, struct arena *arena,
                     struct stored_body *bodies)
{
    struct held *held = ((struct stub_reader *)r)->held;
    (void)arena;
    if (atomic_load(&held->on)) {
        uv_sem_post(&held->begun);
        uv_sem_wait(&held->go);
        return -ERR_IO;
    }
    memset(bodies, 0, query->count * sizeof *bodies);
    return 0;
}

static int stub_list(struct store_reader *r, const struct op_list *query, struct arena *arena,
                     struct job_view **ret_jobs, uint32_t *ret_count, uint64_t *ret_cursor,
                     uint64_t *ret_as_of)
{
    (void)r, (void)query, (void)arena;
    *ret_jobs = NULL;
    *ret_count = 0;
    *ret_cursor = *ret_as_of = 0;
    return 0;
}

static void stub_reader_close(struct store_reader *r)
{
    free(r);
}

static const struct store_reader_ops stub_reader_ops = {
    .read = stub_read, .list = stub_list, .close = stub_reader_close};

static int stub_reader_open(struct store *s, struct store_reader **ret, struct err_note *note)
{
    struct stub_reader *r = calloc(1, sizeof *r);
    (void)note;
    assert_non_null(r);
    *r = (struct stub_reader){{&stub_reader_ops}, ((struct stub *)s)->held};
    *ret = &r->base;
    return 0;
}

static const char *stub_dir(const struct store *s)
{
    (void)s;
    return "/nonexistent";
}

static const struct store_ops stub_ops = {.kind = "stub",
                                          .meta = stub_meta,
                                          .load = stub_load,
                                          .journal_begun = stub_journal_begun,
                                          .apply = stub_apply,
                                          .tidy = stub_tidy,
                                          .dir = stub_dir,
                                          .close = stub_close,
                                          .reader_open = stub_reader_open};

/* ---- a directory in which no file can be created while it is full ---- */

struct tight {
    struct files base;
    struct files *under;
    atomic_bool *full, *poor;
    atomic_uint *refused;
};

static struct files *under(struct files *fs)
{
    return ((struct tight *)fs)->under;
}

static int tight_list(struct files *fs, files_name_fn fn, void *ctx, struct err_note *note)
{
    return under(fs)->ops->list(under(fs), fn, ctx, note);
}

static int tight_open(struct files *fs, const char *name, bool make, int *ret,
                      struct err_note *note)
{
    if (make && atomic_load(((struct tight *)fs)->full))
        return err_note_set(note, -ERR_NO_SPACE, "no room for %s", name);
    if (make && atomic_load(((struct tight *)fs)->poor)) {
        atomic_fetch_add(((struct tight *)fs)->refused, 1);
        return err_note_set(note, -ERR_NOMEM, "no descriptor for %s", name);
    }
    return under(fs)->ops->open(under(fs), name, make, ret, note);
}

static int tight_read(struct files *fs, int file, uint64_t at, void *into, size_t len, size_t *ret,
                      struct err_note *note)
{
    return under(fs)->ops->read(under(fs), file, at, into, len, ret, note);
}

static int tight_write(struct files *fs, int file, uint64_t at, const struct span *parts,
                       size_t count, struct err_note *note)
{
    return under(fs)->ops->write(under(fs), file, at, parts, count, note);
}

static int tight_sync(struct files *fs, int file, struct err_note *note)
{
    return under(fs)->ops->sync(under(fs), file, note);
}

static int tight_sync_names(struct files *fs, struct err_note *note)
{
    return under(fs)->ops->sync_names(under(fs), note);
}

static int tight_remove(struct files *fs, const char *name, struct err_note *note)
{
    return under(fs)->ops->remove(under(fs), name, note);
}

static void tight_close(struct files *fs, int file)
{
    under(fs)->ops->close(under(fs), file);
}

static void tight_done(struct files *fs)
{
    under(fs)->ops->done(under(fs));
    free(fs);
}

static const struct files_ops tight_ops = {.list = tight_list,
                                           .open = tight_open,
                                           .read = tight_read,
                                           .write = tight_write,
                                           .sync = tight_sync,
                                           .sync_names = tight_sync_names,
                                           .remove = tight_remove,
                                           .close = tight_close,
                                           .done = tight_done};

/* ---- the rig ---- */

#define OPS_MAX 64

struct rig {
    uv_loop_t loop;
    struct clock_manual clock;
    struct log log;
    char said[8192]; /* what was logged; other threads log too, so only after close */
    uv_mutex_t lock;
    atomic_bool full, tight; /* the store; the journal */
    atomic_bool poor;        /* no file can be opened for the journal … */
    atomic_uint refused;     /* … and this many attempts were refused */
    struct held held;
    struct store *kept;
    struct rig_dir dir;
    struct disk_reserve *reserve; /* for the next start */
    struct backend *b;
    struct op ops[OPS_MAX];
    enum outcome outcomes[OPS_MAX];
    unsigned answers[OPS_MAX];
    enum job_state states[OPS_MAX];
    size_t op_count;
    struct job_token token;
    unsigned settled, news;
    bool closed;
};

static void log_cb(void *ctx, const char *line, size_t len)
{
    struct rig *r = ctx;
    uv_mutex_lock(&r->lock);
    size_t used = strlen(r->said);
    if (used + len < sizeof r->said)
        memcpy(r->said + used, line, len);
    uv_mutex_unlock(&r->lock);
}

static struct files *files_make(struct rig *r)
{
    struct tight *t = calloc(1, sizeof *t);
    assert_non_null(t);
    *t = (struct tight){
        .base = {&tight_ops}, .full = &r->tight, .poor = &r->poor, .refused = &r->refused};
    assert_int_equal(files_open_dir(r->dir.path, true, false, &t->under, NULL), 0);
    return &t->base;
}

/* As a new process would. */
static void backend_start(struct rig *r)
{
    struct err_note note = {""};
    assert_int_equal(uv_loop_init(&r->loop), 0);
    struct stub *stub = calloc(1, sizeof *stub);
    assert_non_null(stub);
    *stub = (struct stub){.base = {&stub_ops}, .full = &r->full, .held = &r->held, .kept = r->kept};
    struct backend_config config = {.loop = &r->loop,
                                    .clock = clock_manual(&r->clock),
                                    .log = &r->log,
                                    .seed = 1,
                                    .journal_segment_bytes = 16 << 10,
                                    .journal_bytes_max = 1 << 20,
                                    .list_wait_ms = 20};
    assert_int_equal(
        backend_open_on_store(&stub->base, files_make(r), r->reserve, &config, &r->b, &note), 0);
    r->reserve = NULL;
}

static void rig_begin(struct rig *r)
{
    memset(r, 0, sizeof *r);
    rig_dir_make(&r->dir);
    assert_int_equal(store_open_memory(1, &r->kept), 0);
    assert_int_equal(uv_mutex_init(&r->lock), 0);
    assert_int_equal(uv_sem_init(&r->held.begun, 0) + uv_sem_init(&r->held.go, 0), 0);
    r->clock.at = (struct now){{5000}, {1700000000000}};
    r->log = (struct log){.write = log_cb, .ctx = r, .clock = clock_manual(&r->clock)};
    backend_start(r);
}

static void reply_cb(void *ctx, const struct reply *reply)
{
    struct rig *r = ctx;
    r->answers[reply->tag]++;
    r->outcomes[reply->tag] = reply->outcome;
    r->states[reply->tag] = reply->state;
    if (reply_family(reply) == REPLY_JOBS && reply->job_count == 1)
        r->token = reply->jobs[0].token;
    uv_stop(&r->loop);
}

/* Submits one op; returns its number. */
static size_t ask(struct rig *r, struct op op)
{
    size_t n = r->op_count++;
    assert_true(n < OPS_MAX);
    r->ops[n] = op;
    r->ops[n].tag = n;
    assert_int_equal(backend_submit(r->b, &r->ops[n], 1, reply_cb, r), 0);
    return n;
}

static enum outcome answer(struct rig *r, size_t n)
{
    while (r->answers[n] == 0)
        assert_true(uv_run(&r->loop, UV_RUN_ONCE));
    return r->outcomes[n];
}

static void closed_cb(void *ctx)
{
    ((struct rig *)ctx)->closed = true;
}

static void settled_cb(void *ctx)
{
    ((struct rig *)ctx)->settled++;
    uv_stop(&((struct rig *)ctx)->loop);
}

static void news_cb(void *ctx)
{
    ((struct rig *)ctx)->news++;
}

static void backend_end(struct rig *r)
{
    r->closed = false;
    backend_close(r->b, closed_cb, r);
    while (uv_run(&r->loop, UV_RUN_DEFAULT) != 0) {
        /* each answer stops it */
    }
    assert_true(r->closed);
    for (size_t i = 0; i < r->op_count; i++)
        assert_int_equal(r->answers[i], 1);
    assert_int_equal(uv_loop_close(&r->loop), 0);
}

static void rig_free(struct rig *r)
{
    r->kept->ops->close(r->kept);
    uv_sem_destroy(&r->held.begun);
    uv_sem_destroy(&r->held.go);
    uv_mutex_destroy(&r->lock);
    rig_dir_remove(&r->dir);
}

static void rig_end(struct rig *r)
{
    backend_end(r);
    rig_free(r);
}

static void wait_until_full(struct rig *r, bool full)
{
    struct backend_figures f;
    do {
        assert_true(uv_run(&r->loop, UV_RUN_ONCE));
        backend_figures(r->b, &f);
    } while (f.disk_full != full);
}

static const struct span queue = {"q", 1};

static struct op enqueue_op(void)
{
    return (struct op){.kind = OP_ENQUEUE,
                       .enqueue = {.queue = queue, .payload_kind = PAYLOAD_BYTES}};
}

static struct op claim_op(void)
{
    return (struct op){.kind = OP_CLAIM, .claim = {.queues = &queue, .queue_count = 1, .count = 1}};
}

static struct op ack_op(const struct rig *r)
{
    return (struct op){.kind = OP_ACK, .lease = {.job = {.seq = 1}, .token = r->token}};
}

/* ---- */

static struct op get_op(void)
{
    return (struct op){.kind = OP_GET, .job = {.job = {.seq = 1}}};
}

/* Each until another time, so that each leaves a record. */
static struct op pause_op(const struct rig *r)
{
    int64_t until = LIMIT_WALL_MS - (int64_t)r->op_count;
    return (struct op){.kind = OP_PAUSE, .queue = {.name = queue, .until = {until}}};
}

/* A list wants to see the newest records: the sweeper is called, and finds no room. */
static void fill_store(struct rig *r)
{
    assert_int_equal(answer(r, ask(r, enqueue_op())), OUT_OK);
    assert_int_equal(answer(r, ask(r, enqueue_op())), OUT_OK);
    atomic_store(&r->full, true);
    size_t list = ask(r, (struct op){.kind = OP_LIST});
    wait_until_full(r, true);
    assert_int_equal(answer(r, list), OUT_OK); /* as of what is there */
    (void)uv_run(&r->loop, UV_RUN_NOWAIT);     /* the engine hears of it with the next turn */
}

/* Promise 4: a store without room refuses new jobs and nothing else; the journal has all of it. */
static void test_store_full(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r);
    fill_store(&r);
    assert_int_equal(answer(&r, ask(&r, enqueue_op())), OUT_DISK_FULL);
    assert_int_equal(answer(&r, ask(&r, claim_op())), OUT_OK);
    assert_int_equal(answer(&r, ask(&r, ack_op(&r))), OUT_OK);
    backend_end(&r);
    assert_null(strstr(r.said, "closed_with_full_disk"));

    backend_start(&r);
    size_t get = ask(&r, get_op());
    assert_int_equal(answer(&r, get), OUT_OK);
    assert_int_equal(r.states[get], STATE_DONE);
    atomic_store(&r.full, false);
    struct backend_figures f;
    backend_figures(r.b, &f);
    backend_end(&r);
    assert_int_equal(r.kept->ops->meta(r.kept)->position, f.position); /* a close sweeps the rest */
    backend_start(&r);
    rig_end(&r);
}

/* Room that comes back: new jobs are taken again. */
static void test_store_full_for_a_while(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r);
    fill_store(&r);
    atomic_store(&r.full, false);
    wait_until_full(&r, false);
    (void)uv_run(&r.loop, UV_RUN_NOWAIT);
    assert_int_equal(answer(&r, ask(&r, enqueue_op())), OUT_OK);
    rig_end(&r);
}

/* Without space for the reserve file, there is no space for new jobs. */
static void test_no_room_for_the_reserve(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r);
    assert_int_equal(answer(&r, ask(&r, enqueue_op())), OUT_OK);
    backend_end(&r);
    assert_int_equal(disk_reserve_open(r.dir.path, UINT64_C(1) << 60, &r.reserve), 0);
    backend_start(&r);
    assert_int_equal(uv_run(&r.loop, UV_RUN_NOWAIT), 1);
    assert_int_equal(answer(&r, ask(&r, enqueue_op())), OUT_DISK_FULL);
    assert_int_equal(answer(&r, ask(&r, (struct op){.kind = OP_LIST})), OUT_OK);
    rig_end(&r);
    assert_non_null(strstr(r.said, "not enough free space for the reserve file"));
}

/* Uses up the journal: the number of the first op that gets no answer. */
static size_t fill_journal(struct rig *r, atomic_bool *lack)
{
    struct backend_figures f;
    fill_store(r);
    atomic_store(lack, true);
    for (;;) {
        size_t n = ask(r, pause_op(r));
        do {
            (void)uv_run(&r->loop, UV_RUN_NOWAIT);
            backend_figures(r->b, &f);
        } while (r->answers[n] == 0 && f.journal_stuck_ms == 0);
        if (r->answers[n] == 0)
            return n;
    }
}

/* Without space in the journal nothing can be promised: for what a close loses, it says that the
 * outcome is unknown; what was acknowledged still exists afterwards. */
static void test_close_while_stuck(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r);
    size_t last = fill_journal(&r, &r.tight);
    size_t claim = ask(&r, claim_op());
    size_t list = ask(&r, (struct op){.kind = OP_LIST});
    assert_int_equal(backend_settle(r.b, settled_cb, &r), 0);
    assert_int_equal(r.answers[last] + r.answers[list] + r.settled, 0);
    backend_end(&r);
    assert_int_equal(r.outcomes[last], OUT_UNKNOWN);
    assert_int_equal(r.outcomes[list], OUT_UNAVAILABLE);
    assert_int_equal(r.outcomes[claim], OUT_OK); /* the queue is paused: no job, at once */
    assert_int_equal(r.settled, 1);
    assert_non_null(strstr(r.said, "closed_with_full_disk"));
    assert_non_null(strstr(r.said, "no room for"));

    atomic_store(&r.tight, false);
    backend_start(&r);
    size_t get = ask(&r, get_op());
    assert_int_equal(answer(&r, get), OUT_OK);
    assert_int_equal(r.states[get], STATE_READY);
    atomic_store(&r.full, false);
    rig_end(&r);
}

/* What a claim took cannot be given back any more when its bodies turn out unreadable after that:
 * the close must not wait for it. */
static void test_close_while_stuck_and_reading(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r);
    assert_int_equal(answer(&r, ask(&r, enqueue_op())), OUT_OK);
    backend_end(&r);
    backend_start(&r); /* its body is in no cache now */
    atomic_store(&r.held.on, true);
    struct op op = claim_op();
    op.claim.want_body = true;
    size_t claim = ask(&r, op);
    (void)uv_run(&r.loop, UV_RUN_NOWAIT);
    uv_sem_wait(&r.held.begun);
    size_t last = fill_journal(&r, &r.tight);
    r.closed = false;
    backend_close(r.b, closed_cb, &r);
    assert_int_equal(answer(&r, last), OUT_UNKNOWN);
    assert_int_equal(r.answers[claim], 0);
    uv_sem_post(&r.held.go);
    while (r.answers[claim] == 0)
        (void)uv_run(&r.loop, UV_RUN_ONCE);
    assert_int_equal(r.outcomes[claim], OUT_UNKNOWN);
    for (int turns = 0; turns < 10; turns++)
        (void)uv_run(&r.loop, UV_RUN_NOWAIT);
    assert_true(r.closed);
    assert_int_equal(uv_loop_close(&r.loop), 0);
    rig_free(&r);
}

/* For example because there are too many connections, no segment can be created for a while.
 * Nothing is lost, nothing fails. */
static void test_no_descriptors_for_a_while(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r);
    size_t last = fill_journal(&r, &r.poor);
    while (atomic_load(&r.refused) == 0) /* records may wait before the helper has tried */
        (void)uv_run(&r.loop, UV_RUN_NOWAIT);
    atomic_store(&r.poor, false);
    assert_int_equal(answer(&r, last), OUT_OK);
    atomic_store(&r.full, false);
    rig_end(&r);
    assert_non_null(strstr(r.said, "journal_segment_not_created"));
    assert_non_null(strstr(r.said, "no descriptor for"));
}

/* Events wait until they are durable, and come when there is room. */
static void test_stuck_for_a_while(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r);
    size_t last = fill_journal(&r, &r.tight);
    backend_on_news(r.b, news_cb, &r);
    uint64_t seen = backend_events_last(r.b), oldest;
    struct backend_event v[4];
    assert_int_equal(backend_settle(r.b, settled_cb, &r), 0);
    (void)uv_run(&r.loop, UV_RUN_NOWAIT);
    assert_int_equal(r.answers[last] + r.settled + r.news, 0);
    assert_int_equal(backend_events(r.b, seen, 0, v, 4, &oldest), 0);
    atomic_store(&r.tight, false);
    atomic_store(&r.full, false);
    while (r.settled == 0)
        assert_true(uv_run(&r.loop, UV_RUN_ONCE));
    assert_int_equal(answer(&r, last), OUT_OK);
    assert_int_equal(r.news, 1);
    assert_int_equal(backend_events(r.b, seen, 0, v, 4, &oldest), 1);
    assert_int_equal(v[0].kind, EVENT_QUEUE_PAUSED);
    rig_end(&r);
    assert_null(strstr(r.said, "closed_with_full_disk"));
}

/* Removes a segment that holds no entry. */
static void blank_remove_cb(void *ctx, const char *name, uint64_t size)
{
    struct files *fs = ctx;
    char magic[4] = {0};
    size_t got;
    int file;
    (void)size;
    assert_int_equal(fs->ops->open(fs, name, false, &file, NULL), 0);
    assert_int_equal(fs->ops->read(fs, file, 0, magic, sizeof magic, &got, NULL), 0);
    fs->ops->close(fs, file);
    if (magic[0] == 0)
        assert_int_equal(fs->ops->remove(fs, name, NULL), 0);
}

/* The last entry fills its segment, none is spare, and the store could not take a thing: the start
 * needs a segment for its first record. */
static void test_start_without_spares(void **state)
{
    (void)state;
    struct rig r;
    static const char bytes[40 << 10];
    struct op large = enqueue_op();
    large.enqueue.payload = span_of(bytes, sizeof bytes);
    rig_begin(&r);
    assert_int_equal(answer(&r, ask(&r, (struct op){.kind = OP_LIST})), OUT_OK); /* sweeps */
    assert_int_equal(answer(&r, ask(&r, enqueue_op())), OUT_OK);
    assert_int_equal(answer(&r, ask(&r, large)), OUT_OK);
    atomic_store(&r.full, true);
    backend_end(&r);
    struct files *fs = files_make(&r);
    assert_int_equal(fs->ops->list(fs, blank_remove_cb, fs, NULL), 0);
    fs->ops->done(fs);
    backend_start(&r);
    assert_int_equal(answer(&r, ask(&r, get_op())), OUT_OK);
    atomic_store(&r.full, false);
    rig_end(&r);
}

static void again_cb(void *ctx, const struct reply *reply)
{
    struct rig *r = ctx;
    backend_on_news(r->b, news_cb, r);
    reply_cb(ctx, reply);
}

/* A listener that sets on_news again inside a reply must not lose the events of this iteration. */
static void test_news_asked_for_again(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r);
    backend_on_news(r.b, news_cb, &r);
    r.ops[0] = enqueue_op();
    r.op_count = 1;
    assert_int_equal(backend_submit(r.b, r.ops, 1, again_cb, &r), 0);
    assert_int_equal(answer(&r, 0), OUT_OK);
    assert_int_equal(backend_settle(r.b, settled_cb, &r), 0);
    while (r.settled == 0)
        assert_true(uv_run(&r.loop, UV_RUN_ONCE));
    assert_int_equal(r.news, 1);
    rig_end(&r);
}

struct backups {
    struct rig *r;
    unsigned called;
    int error;
};

static void backup_cb(void *ctx, const struct backup_result *result)
{
    struct backups *b = ctx;
    b->called++;
    b->error = result->error;
    assert_non_null(strstr(result->note, "free some space"));
    uv_stop(&b->r->loop);
}

/* What a backup waits for may never come: it is refused, and one that was given up is not in the
 * way of the next. */
static void test_backup_while_full(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r);
    fill_store(&r);
    struct backups told = {.r = &r}, never = {.r = &r};
    struct backup_request first = {backup_cb, &never}, second = {backup_cb, &told};
    assert_int_equal(backend_backup(r.b, &first, NULL), 0);
    backend_backup_cancel(r.b);
    assert_int_equal(backend_backup(r.b, &second, NULL), 0);
    while (told.called == 0)
        assert_true(uv_run(&r.loop, UV_RUN_ONCE));
    assert_int_equal(told.error, -ERR_NO_SPACE);
    atomic_store(&r.full, false);
    rig_end(&r);
    assert_int_equal(told.called, 1);
    assert_int_equal(never.called, 0);
}

/* Whether the loop's own thread has made a commit or the writer's: the turn that answers brings the
 * news, or the next does, although no thread wakes the loop. */
static void test_news_come_with_the_answer(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r);
    backend_on_news(r.b, news_cb, &r);
    for (int i = 0; i < 40; i++) {
        unsigned before = r.news;
        assert_int_equal(answer(&r, ask(&r, enqueue_op())), OUT_OK);
        if (r.news == before) /* then the loop must not sleep first */
            assert_int_equal(uv_backend_timeout(&r.loop), 0);
        (void)uv_run(&r.loop, UV_RUN_NOWAIT);
        assert_true(r.news > before);
    }
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_full),
        cmocka_unit_test(test_store_full_for_a_while),
        cmocka_unit_test(test_close_while_stuck),
        cmocka_unit_test(test_close_while_stuck_and_reading),
        cmocka_unit_test(test_no_descriptors_for_a_while),
        cmocka_unit_test(test_stuck_for_a_while),
        cmocka_unit_test(test_news_asked_for_again),
        cmocka_unit_test(test_news_come_with_the_answer),
        cmocka_unit_test(test_no_room_for_the_reserve),
        cmocka_unit_test(test_start_without_spares),
        cmocka_unit_test(test_backup_while_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
