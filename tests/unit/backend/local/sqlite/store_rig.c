/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/backend/local/sqlite/store_rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "backend/local/pages/vfs.h"
#include "base/digest/crc32c.h"
#include "base/digest/hash.h"
#include "core/jobs/job_texts.h"
#include "core/limits.h"

/* ---- directories ---- */

void rig_dir_make(struct rig_dir *d)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(d->base, sizeof d->base, "%s/holdfast-store-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(d->base));
    snprintf(d->path, sizeof d->path, "%s/store", d->base);
}

static void each_file(const char *dir, void (*fn)(const char *dir, const char *name, void *ctx),
                      void *ctx)
{
    DIR *at = opendir(dir);
    if (!at)
        return;
    for (struct dirent *e; (e = readdir(at));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            fn(dir, e->d_name, ctx);
    closedir(at);
}

static void remove_one(const char *dir, const char *name, void *ctx)
{
    (void)ctx;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (unlink(path) == 0)
        return;
    each_file(path, remove_one, NULL);
    rmdir(path);
}

void rig_dir_remove(struct rig_dir *d)
{
    each_file(d->base, remove_one, NULL);
    assert_int_equal(rmdir(d->base), 0);
}

static void copy_one(const char *dir, const char *name, void *ctx)
{
    char from[512], to[512], block[65536];
    size_t n;
    if (strcmp(name, "lock") == 0)
        return;
    snprintf(from, sizeof from, "%s/%s", dir, name);
    snprintf(to, sizeof to, "%s/%s", (const char *)ctx, name);
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    while ((n = fread(block, 1, sizeof block, in)) > 0)
        assert_int_equal(fwrite(block, 1, n, out), n);
    fclose(in);
    fclose(out);
}

void rig_dir_copy(const char *from, const char *to)
{
    assert_int_equal(mkdir(to, 0700), 0);
    each_file(from, copy_one, (void *)to);
}

/* ---- stores ---- */

struct store *rig_open(const char *path)
{
    struct store *s = NULL;
    struct err_note note = {""};
    if (store_open_sqlite(path, RIG_NOW, &s, &note) != 0)
        fail_msg("cannot open %s: %s", path, note.text);
    return s;
}

void rig_apply(struct store *s, struct span frame)
{
    struct err_note note = {""};
    if (s->ops->apply(s, &frame, 1, &note) != 0)
        fail_msg("%s: apply: %s", s->ops->kind, note.text);
}

void rig_sql(const char *dir, const char *sql)
{
    char path[256];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/holdfast.db", dir);
    assert_int_equal(dbpage_vfs_register(), 0);
    assert_int_equal(
        sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, DBPAGE_VFS),
        SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

void rig_seal(const char *dir)
{
    static const struct dbpage_origin none;
    unsigned char page[DBPAGE_BYTES];
    char path[256];
    snprintf(path, sizeof path, "%s/holdfast.db", dir);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (uint32_t n = 1; pread(fd, page, sizeof page, (off_t)(n - 1) * DBPAGE_BYTES) > 0; n++) {
        dbpage_seal(page, n, &none);
        assert_int_equal(pwrite(fd, page, sizeof page, (off_t)(n - 1) * DBPAGE_BYTES), sizeof page);
    }
    close(fd);
}

/* ---- everything as text ---- */

struct dump {
    struct buf *out;
    uint64_t *seqs;
    size_t count, room;
    uint64_t kv_sum;
    size_t *damaged; /* counts reads that fail because of damage; NULL = none may */
};

/* Whether a read gave something. */
static bool dump_took(struct dump *d, int rc)
{
    if (!d->damaged || rc != -ERR_CORRUPT) {
        assert_int_equal(rc, 0);
        return true;
    }
    ++*d->damaged;
    return false;
}

/* Whether what was read is complete; an incomplete row is not printed as a line. */
static bool dump_whole(struct dump *d, bool whole)
{
    return dump_took(d, whole ? 0 : -ERR_CORRUPT);
}

#define PUT(b, ...) assert_int_equal(buf_printf((b), __VA_ARGS__), 0)

static void put_bytes(struct buf *b, const char *name, struct span s)
{
    PUT(b, " %s=%zu", name, s.len);
    if (s.len)
        PUT(b, ":%08" PRIx32, crc32c(0, s.at, s.len));
}

static void put_text(struct buf *b, const char *name, struct span s)
{
    PUT(b, " %s=\"%.*s\"", name, (int)s.len, s.len ? s.at : "");
}

static void put_job(struct buf *b, const struct job *j)
{
    PUT(b,
        "job %" PRIu64 " id=%" PRIx64 " p=%" PRId64 " run_at=%" PRId64 " since=%" PRId64
        " q=%" PRIu32 " bytes=%" PRIu32 " f=%d c=%d g=%d state=%d reason=%d kind=%d flags=%d",
        j->seq, j->id_hi, j->priority, j->run_at.ms, j->since.ms, j->queue, j->payload_bytes,
        j->failures, j->crashes, j->generation, j->state, j->reason, j->payload_kind, j->flags);
}

static void put_extra(struct buf *b, const struct job_extra *x)
{
    for (size_t i = 0; i < JOB_TEXTS; i++)
        put_text(b, job_texts[i].name, job_text_of(x, i));
    PUT(b, " expires=%" PRId64, x->expires_at.ms);
    put_bytes(b, "options", x->options);
}

static int dump_meta(void *ctx, const struct store_meta *m)
{
    struct dump *d = ctx;
    PUT(d->out, "meta epoch=%" PRIu32 " seq_upto=%" PRIu64 " position=%" PRIu64 "\n", m->epoch,
        m->seq_upto, m->position);
    return 0;
}

static int dump_queue(void *ctx, const struct rec_queue_put *q, bool gone)
{
    struct dump *d = ctx;
    PUT(d->out,
        "queue %" PRIu32 " g=%d created=%" PRId64 " updated=%" PRId64 " paused=%" PRId64 " gone=%d",
        q->queue, q->generation, q->created_at.ms, q->updated_at.ms, q->paused_until.ms, gone);
    put_text(d->out, "name", q->name);
    put_bytes(d->out, "policy", q->policy);
    put_text(d->out, "owner", q->owner);
    put_text(d->out, "note", q->note);
    put_text(d->out, "attributes", q->attributes);
    PUT(d->out, "\n");
    return 0;
}

static int dump_bulk(void *ctx, const struct stored_bulk *b)
{
    struct dump *d = ctx;
    PUT(d->out,
        "bulk %" PRIu64 " action=%d at=%" PRId64 " q=%" PRIu32 " states=%u max=%" PRIu64
        " cursor=%" PRIu64 " changed=%" PRIu64 " refused=%" PRIu64,
        b->begin.bulk, b->begin.action, b->begin.at.ms, b->begin.queue, b->begin.states,
        b->begin.seq_max, b->cursor, b->changed, b->refused);
    put_text(d->out, "group", b->begin.group);
    PUT(d->out, "\n");
    return 0;
}

static void put_limits(struct buf *b, const struct lease_limits *l)
{
    PUT(b, " limits=%" PRIu32 ",%" PRIu32 ",%" PRId64, l->timeout_ms, l->cancel_grace_ms,
        l->cancel_at.ms);
}

static int dump_job(void *ctx, const struct stored_job *j)
{
    struct dump *d = ctx;
    put_job(d->out, &j->job);
    PUT(d->out, " token=%" PRIu32 "-%" PRIu64 " lease=%" PRIu32, j->token.epoch, j->token.counter,
        j->lease_ms);
    put_limits(d->out, &j->limits);
    put_text(d->out, "worker", j->worker);
    PUT(d->out, " started=%" PRId64, j->started_at.ms);
    put_extra(d->out, &j->extra);
    PUT(d->out, "\n");
    if (d->count == d->room) {
        d->room = d->room ? d->room * 2 : 64;
        d->seqs = realloc(d->seqs, d->room * sizeof *d->seqs);
        assert_non_null(d->seqs);
    }
    d->seqs[d->count++] = j->job.seq;
    return 0;
}

static int dump_key(void *ctx, const struct rec_key_new *k)
{
    struct dump *d = ctx;
    PUT(d->out,
        "key %" PRIx64 "%016" PRIx64 " print=%" PRIx64 " seq=%" PRIu64 " id=%" PRIx64
        " expires=%" PRId64 "\n",
        k->key.hi, k->key.lo, k->fingerprint, k->seq, k->id_hi, k->expires_at.ms);
    return 0;
}

static void put_body(struct buf *b, const struct stored_body *body)
{
    put_bytes(b, "payload", body->payload);
    PUT(b, " rk=%d", body->result_kind);
    put_bytes(b, "result", body->result);
    PUT(b, " ek=%d", body->error_kind);
    put_bytes(b, "error", body->error);
    put_extra(b, &body->extra);
}

static void put_attempt(struct buf *b, const struct attempt_view *a)
{
    PUT(b,
        "attempt %" PRIu32 " of %" PRIu64 " id=%" PRIx64 " %s from %" PRId64 " to %" PRId64
        " ek=%d",
        a->number, a->seq, a->id_hi, attempt_outcome_name(a->outcome), a->started_at.ms,
        a->ended_at.ms, a->error_kind);
    put_text(b, "queue", a->queue);
    put_text(b, "worker", a->worker);
    put_bytes(b, "error", a->error);
    PUT(b, "\n");
}

int rig_read(struct store_reader *r, const uint64_t *seqs, size_t count, struct arena *arena,
             struct stored_body *bodies)
{
    struct store_query query = {
        .seqs = seqs, .count = count, .attempts = true, .log = true, .steps = true};
    return r->ops->read(r, &query, arena, bodies);
}

static void put_counters(struct buf *b, const struct counters *t)
{
    for (int i = 0; i < COUNTER_COUNT; i++)
        PUT(b, " %" PRIu64, t->of[i]);
    PUT(b, "\n");
}

static int dump_counters(void *ctx, uint32_t queue, const struct counters *totals)
{
    struct dump *d = ctx;
    PUT(d->out, "totals of queue %" PRIu32 ":", queue);
    put_counters(d->out, totals);
    return 0;
}

static void dump_hours(struct dump *d, struct store_reader *r)
{
    static const char *const queues[] = {"queue-1", "queue-2", "nope"};
    struct arena arena;
    arena_init(&arena);
    for (size_t q = 0; q < sizeof queues / sizeof queues[0]; q++) {
        struct op_history query = {.queue = span_text(queues[q]), .to = UINT32_MAX};
        struct hour_view *hours;
        uint32_t count;
        query.from = q == 1 ? 480100 : 0;
        if (!dump_took(d, r->ops->history(r, &query, &arena, &hours, &count)))
            continue;
        PUT(d->out, "hours of \"%s\": %" PRIu32 "\n", queues[q], count);
        for (uint32_t i = 0; i < count; i++) {
            PUT(d->out, "hour %" PRIu32 ":", hours[i].hour);
            put_counters(d->out, &hours[i].counters);
        }
        arena_reset(&arena);
    }
    arena_done(&arena);
}

static void dump_exceptions(struct dump *d, struct store_reader *r)
{
    static const char *const queues[] = {"", "queue-1", "queue-2"};
    struct arena arena;
    arena_init(&arena);
    for (size_t q = 0; q < sizeof queues / sizeof queues[0]; q++) {
        struct op_exceptions query = {.queue = span_text(queues[q]), .limit = q == 2 ? 7 : 0};
        struct attempt_view *attempts;
        uint32_t count;
        if (!dump_took(d, r->ops->exceptions(r, &query, &arena, &attempts, &count)))
            continue;
        PUT(d->out, "exceptions of \"%s\": %" PRIu32 "\n", queues[q], count);
        for (uint32_t i = 0; i < count; i++)
            put_attempt(d->out, &attempts[i]);
        arena_reset(&arena);
    }
    arena_done(&arena);
}

static int dump_schedule(void *ctx, const struct rec_schedule_put *p)
{
    struct dump *d = ctx;
    const struct schedule_state *s = &p->state;
    PUT(d->out, "schedule %" PRIu32 " paused=%d created=%" PRId64 " updated=%" PRId64, p->schedule,
        p->paused, p->created_at.ms, p->updated_at.ms);
    PUT(d->out,
        " next=%" PRId64 " retry=%" PRId64 " last=%" PRId64 " fired_at=%" PRId64 " job=%" PRIu64
        "/%" PRIu64 " item=%" PRIu64 " fired=%" PRIu64 " missed=%" PRIu64 " failures=%" PRIu32
        " error=%u",
        s->next_at.ms, s->retry_at.ms, s->last_at.ms, s->fired_at.ms, s->seq, s->id_hi, s->item,
        s->fired, s->missed, s->failures, s->error);
    put_text(d->out, "name", p->name);
    PUT(d->out, " spec=%zu/%" PRIx32, p->spec.len, crc32c(0, p->spec.at, p->spec.len));
    put_text(d->out, "owner", p->owner);
    put_text(d->out, "note", p->note);
    put_text(d->out, "attributes", p->attributes);
    PUT(d->out, "\n");
    return 0;
}

static int dump_link(void *ctx, const struct stored_link *l)
{
    struct dump *d = ctx;
    PUT(d->out, "link %" PRIu64 " to %" PRIu64 "/%" PRIu64 "\n", l->item, l->job, l->job_hi);
    return 0;
}

/* The texts alone are those of the whole body, and the long parts are not there. */
static void check_texts(const struct dump *d, struct store_reader *r, struct arena *arena,
                        const struct stored_body *whole)
{
    struct stored_body *bodies = calloc(d->count + 1, sizeof *bodies);
    struct store_query query = {.seqs = d->seqs, .count = d->count, .texts_only = true};
    assert_non_null(bodies);
    assert_int_equal(r->ops->read(r, &query, arena, bodies), 0);
    for (size_t i = 0; i < d->count; i++) {
        assert_int_equal(bodies[i].found, whole[i].found);
        assert_int_equal(bodies[i].payload.len + bodies[i].result.len, 0);
        assert_true(span_equal(bodies[i].extra.correlation, whole[i].extra.correlation));
        assert_true(span_equal(bodies[i].extra.options, whole[i].extra.options));
        assert_true(span_equal(bodies[i].error, whole[i].error));
    }
    free(bodies);
}

static void put_whole_body(struct buf *b, uint64_t seq, const struct stored_body *body)
{
    PUT(b, "body %" PRIu64 " found=%d", seq, body->found);
    put_body(b, body);
    put_bytes(b, "progress", body->progress);
    put_bytes(b, "log", body->log);
    put_bytes(b, "steps", body->steps);
    PUT(b, " started=%" PRId64 " holder=%" PRIu64 "\n", body->started_at.ms, body->holder.seq);
    for (uint32_t a = 0; a < body->attempt_count; a++)
        put_attempt(b, &body->attempts[a]);
}

static void dump_bodies(struct dump *d, struct store_reader *r)
{
    struct arena arena;
    arena_init(&arena);
    struct stored_body *bodies = calloc(d->count + 1, sizeof *bodies);
    assert_non_null(bodies);
    if (d->damaged) { /* one by one: the others can be read */
        for (size_t i = 0; i < d->count; i++)
            if (dump_took(d, rig_read(r, &d->seqs[i], 1, &arena, &bodies[i])) &&
                dump_whole(d, bodies[i].damage == 0))
                put_whole_body(d->out, d->seqs[i], &bodies[i]);
    } else {
        assert_int_equal(rig_read(r, d->seqs, d->count, &arena, bodies), 0);
        for (size_t i = 0; i < d->count; i++)
            if (dump_whole(d, bodies[i].damage == 0))
                put_whole_body(d->out, d->seqs[i], &bodies[i]);
        check_texts(d, r, &arena, bodies);
    }
    free(bodies);
    arena_done(&arena);
}

void rig_view(struct buf *b, const struct job_view *v)
{
    put_job(b, &v->job);
    put_text(b, "queue", v->queue);
    PUT(b, " token=%" PRIu32 "-%" PRIu64 " lease=%" PRIu32 " left=%" PRId64 " expires=%" PRId64,
        v->token.epoch, v->token.counter, v->lease_ms, v->lease_left_ms, v->expires_at.ms);
    put_limits(b, &v->limits);
    put_text(b, "worker", v->worker);
    PUT(b, " started=%" PRId64 " has_body=%d", v->started_at.ms, v->has_body);
    struct stored_body body = {.extra = v->extra,
                               .payload = v->payload,
                               .result_kind = v->result_kind,
                               .error_kind = v->error_kind,
                               .result = v->result,
                               .error = v->error};
    put_body(b, &body);
    PUT(b, "\n");
}

static void dump_pages(struct dump *d, struct store_reader *r)
{
    struct op_list query = {.limit = 37, .want_body = true};
    struct arena arena;
    arena_init(&arena);
    do {
        struct job_view *jobs;
        uint32_t count;
        uint64_t as_of;
        if (!dump_took(d, r->ops->list(r, &query, &arena, &jobs, &count, &query.after, &as_of)))
            break;
        PUT(d->out, "page of %" PRIu32 " as of %" PRIu64 "\n", count, as_of);
        for (uint32_t i = 0; i < count; i++)
            if (dump_whole(d, jobs[i].damage == 0))
                rig_view(d->out, &jobs[i]);
        arena_reset(&arena);
    } while (query.after != 0);
    arena_done(&arena);
}

/* Keys come in no order; their list, below, has one. */
static int dump_kv(void *ctx, const struct rec_kv_set *kv, uint64_t bytes)
{
    struct dump *d = ctx;
    d->kv_sum += kv->version * 31 + bytes + (uint64_t)kv->expires_at.ms + kv->kind + kv->key.len;
    return 0;
}

static int dump_undelivered(void *ctx, uint64_t seq, struct span keys)
{
    struct dump *d = ctx;
    PUT(d->out, "undelivered %" PRIu64 " %zu\n", seq, keys.len);
    return 0;
}

static void dump_keys(struct dump *d, struct store_reader *r)
{
    struct op_kv_list query = {.limit = 7, .want_value = true};
    struct arena arena;
    arena_init(&arena);
    do {
        struct kv_view *kvs;
        uint32_t count;
        uint64_t as_of;
        if (!dump_took(d, r->ops->kv_list(r, &query, &arena, &kvs, &count, &query.after, &as_of)))
            break;
        for (uint32_t i = 0; i < count; i++) {
            if (!dump_whole(d, !kvs[i].damaged))
                continue;
            PUT(d->out, "kv version=%" PRIu64 " expires=%" PRId64 " kind=%u", kvs[i].version,
                kvs[i].expires_at.ms, kvs[i].kind);
            put_text(d->out, "value", kvs[i].value);
            PUT(d->out, " key=");
            for (size_t k = 0; k < kvs[i].key.len; k++)
                PUT(d->out, "%02x", (unsigned char)kvs[i].key.at[k]);
            PUT(d->out, "\n");
        }
    } while (query.after.len != 0);
    arena_done(&arena);
}

static int dump_step(void *ctx, uint64_t seq, struct span name, size_t result_bytes)
{
    struct dump *d = ctx;
    PUT(d->out, "step %" PRIu64 " %.*s %zu\n", seq, (int)name.len, name.at, result_bytes);
    return 0;
}

/* As it would be on disk: what two stores load must be the same records. */
static int dump_record(void *ctx, const struct record *r)
{
    struct dump *d = ctx;
    struct buf bytes;
    buf_init(&bytes);
    assert_int_equal(record_encode(r, &bytes), 0);
    PUT(d->out, "record %s", record_name(r->kind));
    for (size_t i = 0; i < bytes.len; i++)
        PUT(d->out, " %02x", (unsigned char)bytes.data[i]);
    PUT(d->out, "\n");
    buf_done(&bytes);
    return 0;
}

static int dump_dependent(void *ctx, const struct rec_dependent_put *put)
{
    struct record r = {.kind = REC_DEPENDENT_PUT, .dependent_put = *put};
    return dump_record(ctx, &r);
}

static int dump_dependency(void *ctx, uint64_t child, uint64_t parent)
{
    struct dump *d = ctx;
    PUT(d->out, "dependency %" PRIu64 " %" PRIu64 "\n", child, parent);
    return 0;
}

static int dump_parent(void *ctx, uint64_t parent, uint8_t how)
{
    struct dump *d = ctx;
    PUT(d->out, "parent %" PRIu64 " %u\n", parent, how);
    return 0;
}

static int dump_numbers(void *ctx, const struct store_numbers *numbers)
{
    struct dump *d = ctx;
    PUT(d->out, "numbers %" PRIu32 " %" PRIu32 "\n", numbers->queue, numbers->schedule);
    return 0;
}

static int dump_all(struct store *s, struct store_reader *r, struct buf *ret, size_t *damaged,
                    struct err_note *note)
{
    struct dump d = {.out = ret, .damaged = damaged};
    struct store_sink sink = {
        &d,        dump_meta,      dump_queue,       dump_counters, dump_bulk,   dump_job,
        dump_key,  dump_kv,        dump_undelivered, dump_step,     dump_record, dump_schedule,
        dump_link, dump_dependent, dump_dependency,  dump_parent,   dump_numbers};
    int rc = s->ops->load(s, &sink, note);
    if (rc == 0 && r) {
        dump_bodies(&d, r);
        dump_pages(&d, r);
        dump_exceptions(&d, r);
        dump_keys(&d, r);
        dump_hours(&d, r);
    }
    if (rc == 0)
        PUT(d.out, "keys %" PRIu64 "\n", d.kv_sum);
    free(d.seqs);
    assert_int_equal(buf_append(ret, "", 1), 0);
    return rc;
}

int rig_dump_some(struct store *s, struct store_reader *r, struct buf *ret, size_t *ret_damaged,
                  struct err_note *note)
{
    *ret_damaged = 0;
    return dump_all(s, r, ret, ret_damaged, note);
}

void rig_dump(struct store *s, struct store_reader *r, struct buf *ret)
{
    struct err_note note = {""};
    if (dump_all(s, r, ret, NULL, &note) != 0)
        fail_msg("%s: load: %s", s->ops->kind, note.text);
}

void rig_same(struct store *a, struct store_reader *ra, struct store *b, struct store_reader *rb)
{
    struct buf one, two;
    buf_init(&one);
    buf_init(&two);
    rig_dump(a, ra, &one);
    rig_dump(b, rb, &two);
    if (strcmp(one.data, two.data) != 0) {
        size_t at = 0, line = 0;
        for (; one.data[at] == two.data[at]; at++)
            if (one.data[at] == '\n')
                line = at + 1;
        fail_msg("the stores differ:\n%s: %.*s\n%s: %.*s", a->ops->kind,
                 (int)strcspn(one.data + line, "\n"), one.data + line, b->ops->kind,
                 (int)strcspn(two.data + line, "\n"), two.data + line);
    }
    buf_done(&one);
    buf_done(&two);
}

void rig_open_both(const char *path, struct store *ret[2])
{
    assert_int_equal(store_open_memory(1, &ret[0]), 0);
    ret[1] = rig_open(path);
}

void rig_apply_both(struct store *const s[2], struct span frame)
{
    rig_apply(s[0], frame);
    rig_apply(s[1], frame);
}

void rig_same_both(struct store *const s[2])
{
    struct store_reader *readers[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(s[i]->ops->reader_open(s[i], &readers[i], NULL), 0);
    rig_same(s[0], readers[0], s[1], readers[1]);
    for (int i = 0; i < 2; i++)
        readers[i]->ops->close(readers[i]);
}

void rig_journal_put(struct journal *j, struct span frame)
{
    struct err_note note = {""};
    bool more = true;
    while (journal_append(j, &frame, 1, &note) != 0) {
        if (!more)
            fail_msg("append: %s", note.text);
        assert_int_equal(journal_provide(j, &more, &note), 0);
    }
}
