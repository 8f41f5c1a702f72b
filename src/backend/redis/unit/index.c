/* SPDX-License-Identifier: Apache-2.0 */
/* The indexes: the keys under which a job is found, and how they change with the job.
 *
 * Redis has no secondary indexes, so each way to find jobs is a separate key, which every store
 * updates:
 *
 *   row, pay, res, err         hashes: sequence to row, payload, result, error
 *   part, parts                which parts of 1024 sequences have jobs, and how many
 *   expiry                     waiting jobs that expire, by time
 *   bound:E, boundset          running jobs of connections of the node with epoch E
 *   w:SEQ, s:SEQ               progress and log; hash: name of a step to its result
 *   a:SEQ, wrong               attempts of a job; those of all jobs that failed
 *   q:N:1 … q:N:7              by state: run_at, order of claims, end of the lease, since (done,
 *                              dead, cancelled), sequence (blocked)
 *   q:N:all, q:N:u, q:N:g      by sequence; which job holds a unique key; counts by group and state
 *   dep                        hash: what a job depends on; store.lua has the other keys of
 *                              dependencies
 *   due:1, 3, 4, 5, 6          queues by the time at which something in them may be due
 *
 * A change of a job is the difference between two states: its packed row is the job as it was
 * loaded (was, was_bit), and struct row is the job as the unit leaves it (is). For each index a
 * function compares the two and adds the commands that remove the old entry and add the new one; a
 * job whose entry does not change costs nothing there. The commands of all jobs for one key are
 * sent as one, because the cost of a store depends on the number of commands.
 *
 * The checks (rd_check_rows) name the revision that was loaded of each row that changes, and the
 * holder of each unique key that is taken: lua/store.lua compares them before it changes anything.
 */
#include "backend/redis/impl.h"

#define PART_JOBS 1024
#define WRONG_KEPT 10000

/* --- commands --- */

/* Whether a transaction can do it without a script. */
static bool is_plain(const char *command)
{
    static const char *const plain[] = {"HSET", "HDEL",  "ZADD",  "ZREM", "SADD",
                                        "SREM", "RPUSH", "LPUSH", "LTRIM"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (strcmp(command, plain[i]) == 0)
            return true;
    return false;
}

void rd_change(struct rargs *a, const char *command, const char *key)
{
    char whole[REDIS_PREFIX_BYTES + 64];
    if (a->plain && is_plain(command)) {
        snprintf(whole, sizeof whole, "%s%s", a->plain->prefix, key);
        a->into = &a->plain->command;
        redis_args_text(a, command);
        redis_args_text(a, whole);
        return;
    }
    redis_args_text(a, command);
    redis_args_text(a, key);
    redis_args_list_begin(a);
}

bool rd_change_end(struct rargs *a)
{
    if (a->into) {
        bool any = a->into->count > 2;
        if (any)
            redis_plain_add(a->plain, a->into);
        redis_args_clear(a->into);
        a->into = NULL;
        return any;
    }
    return redis_args_list_end(a) > 0;
}

void rd_change_one(struct rargs *a, const char *command, const char *key)
{
    rd_change(a, command, key);
    redis_args_list_end(a);
}

const char *rd_queue_key(uint32_t number, const char *what, char out[48])
{
    snprintf(out, 48, "q:%u:%s", number, what);
    return out;
}

void rd_change_each(struct rargs *a, const char *command, const char *key, struct row *const *rows,
                    size_t count, rd_row_fn fn)
{
    struct rargs_mark before = redis_args_mark(a);
    rd_change(a, command, key);
    for (size_t i = 0; i < count; i++)
        fn(a, rows[i]);
    if (!rd_change_end(a))
        redis_args_undo(a, before);
}

/* --- before and after --- */

static uint8_t was(const struct row *r)
{
    return r->fresh ? STATE_NONE : r->loaded_state;
}

static uint8_t is(const struct row *r)
{
    return r->gone ? STATE_NONE : r->job.state;
}

static bool waits(uint8_t state)
{
    return (STATE_BIT(state) & STATES_WAITING) != 0;
}

static bool was_bit(const struct row *r, enum row_bit bit)
{
    return (redis_packed_bits(r->packed) & bit) != 0;
}

static void put_seq(struct rargs *a, const struct row *r)
{
    redis_args_seq(a, r->job.seq);
}

/* --- rows and bodies --- */

static void row_del(struct rargs *a, const struct row *r)
{
    if (r->gone && !r->fresh)
        put_seq(a, r);
}

static void body_set(struct rargs *a, const struct row *r, bool set, struct span body)
{
    if (r->gone || !body.len || !(set || r->fresh))
        return;
    put_seq(a, r);
    redis_args_bytes(a, body);
}

static void body_del(struct rargs *a, const struct row *r, bool had, bool emptied)
{
    if (had && (r->gone || emptied))
        put_seq(a, r);
}

static void pay_set(struct rargs *a, const struct row *r)
{
    body_set(a, r, r->set_payload, r->payload);
}

static void pay_del(struct rargs *a, const struct row *r)
{
    body_del(a, r, was_bit(r, ROW_PAYLOAD), r->set_payload && !r->payload.len);
}

static void res_set(struct rargs *a, const struct row *r)
{
    body_set(a, r, r->set_result, r->result);
}

static void res_del(struct rargs *a, const struct row *r)
{
    body_del(a, r, was_bit(r, ROW_RESULT), r->set_result && !r->result.len);
}

static void err_set(struct rargs *a, const struct row *r)
{
    body_set(a, r, r->set_error, r->error);
}

static void err_del(struct rargs *a, const struct row *r)
{
    body_del(a, r, was_bit(r, ROW_ERROR), r->set_error && !r->error.len);
}

/* --- indexes of all queues --- */

static void expiry_set(struct rargs *a, const struct row *r)
{
    if (!r->extra.expires_at.ms || !waits(is(r)) || waits(was(r)))
        return;
    redis_args_int(a, r->extra.expires_at.ms);
    put_seq(a, r);
}

static void expiry_del(struct rargs *a, const struct row *r)
{
    if (r->extra.expires_at.ms && waits(was(r)) && !waits(is(r)))
        put_seq(a, r);
}

static void attempts_del(struct rargs *a, const struct row *r)
{
    char key[32];
    if (!r->gone || !was_bit(r, ROW_ATTEMPTS))
        return;
    snprintf(key, sizeof key, "a:%llu", (unsigned long long)r->job.seq);
    redis_args_text(a, key);
    key[0] = 'w';
    redis_args_text(a, key);
}

static void steps_del(struct rargs *a, const struct row *r)
{
    char key[32];
    if (!r->gone || !r->step_index.len)
        return;
    snprintf(key, sizeof key, "s:%llu", (unsigned long long)r->job.seq);
    redis_args_text(a, key);
}

static void dependent_set(struct rargs *a, const struct row *r)
{
    char packed[DEPENDENT_BYTES];
    if (r->gone || !r->dependent || !r->dependent->changed)
        return;
    redis_dependent_encode(&r->dependent->dependent, packed);
    put_seq(a, r);
    redis_args_bytes(a, span_of(packed, sizeof packed));
}

static const struct {
    const char *command, *key;
    rd_row_fn fn;
} shared_indexes[] = {
    {"HDEL", "row", row_del},       {"HDEL", "pay", pay_del},       {"HSET", "pay", pay_set},
    {"HDEL", "res", res_del},       {"HSET", "res", res_set},       {"HDEL", "err", err_del},
    {"HSET", "err", err_set},       {"ZREM", "expiry", expiry_del}, {"ZADD", "expiry", expiry_set},
    {"DROP", "", steps_del},        {"DROP", "", attempts_del},     {"HDEL", "dep", row_del},
    {"HSET", "dep", dependent_set},
};

/* What was reported about one job. */
static void change_report(struct rargs *a, const struct row *r)
{
    char key[32];
    if (!r->set_report || r->gone)
        return;
    snprintf(key, sizeof key, "w:%llu", (unsigned long long)r->job.seq);
    rd_change(a, "REPORT", key);
    redis_args_bytes(a, r->progress);
    redis_args_bytes(a, r->log);
    rd_change_end(a);
}

static void change_steps(struct rargs *a, const struct row *r)
{
    char key[32];
    struct span list = r->new_steps;
    struct step s;
    if (!list.len || r->gone)
        return;
    snprintf(key, sizeof key, "s:%llu", (unsigned long long)r->job.seq);
    rd_change(a, "HSET", key);
    while (steps_next(&list, &s)) {
        redis_args_bytes(a, s.name);
        redis_args_bytes(a, s.result);
    }
    rd_change_end(a);
}

/* --- indexes of one queue --- */

static void all_set(struct rargs *a, const struct row *r)
{
    if (!r->fresh || r->gone)
        return;
    redis_args_int(a, (int64_t)r->job.seq);
    put_seq(a, r);
}

/* Whether its place in the index is the same as when it was loaded. */
static bool same_place(const struct row *r)
{
    char now[READY_MEMBER_BYTES];
    redis_ready_member(r->job.priority, r->job.seq, now);
    return ROW_GET(now, ready, order) == ROW_GET(r->packed.at, job, order);
}

static void ready_del(struct rargs *a, const struct row *r)
{
    char member[READY_MEMBER_BYTES];
    if (was(r) != STATE_READY || (is(r) == STATE_READY && same_place(r)))
        return;
    ROW_PUT(member, ready, order, ROW_GET(r->packed.at, job, order));
    ROW_PUT(member, ready, seq, r->job.seq);
    redis_args_bytes(a, span_of(member, sizeof member));
}

static void ready_set(struct rargs *a, const struct row *r)
{
    char member[READY_MEMBER_BYTES];
    if (is(r) != STATE_READY || (was(r) == STATE_READY && same_place(r)))
        return;
    redis_ready_member(r->job.priority, r->job.seq, member);
    redis_args_int(a, 0);
    redis_args_bytes(a, span_of(member, sizeof member));
}

static void del_from(struct rargs *a, const struct row *r, uint8_t state)
{
    if (was(r) == state && is(r) != state)
        put_seq(a, r);
}

static void set_in(struct rargs *a, const struct row *r, uint8_t state, int64_t score)
{
    if (is(r) != state)
        return;
    redis_args_int(a, score);
    put_seq(a, r);
}

static void scheduled_del(struct rargs *a, const struct row *r)
{
    del_from(a, r, STATE_SCHEDULED);
}

static void scheduled_set(struct rargs *a, const struct row *r)
{
    set_in(a, r, STATE_SCHEDULED, r->job.run_at.ms);
}

static void running_del(struct rargs *a, const struct row *r)
{
    del_from(a, r, STATE_RUNNING);
}

static void running_set(struct rargs *a, const struct row *r)
{
    set_in(a, r, STATE_RUNNING, r->until_ms);
}

#define KEPT_INDEX(name, state)                                                                    \
    static void name##_del(struct rargs *a, const struct row *r)                                   \
    {                                                                                              \
        del_from(a, r, state);                                                                     \
    }                                                                                              \
    static void name##_set(struct rargs *a, const struct row *r)                                   \
    {                                                                                              \
        if (was(r) != (state))                                                                     \
            set_in(a, r, state, r->job.since.ms);                                                  \
    }
KEPT_INDEX(done, STATE_DONE)
KEPT_INDEX(dead, STATE_DEAD)
KEPT_INDEX(cancelled, STATE_CANCELLED)

static void blocked_del(struct rargs *a, const struct row *r)
{
    del_from(a, r, STATE_BLOCKED);
}

static void blocked_set(struct rargs *a, const struct row *r)
{
    if (was(r) != STATE_BLOCKED)
        set_in(a, r, STATE_BLOCKED, (int64_t)r->job.seq);
}

static void key_del(struct rargs *a, const struct row *r)
{
    if (r->fresh || !r->was_held || (r->held && !r->gone))
        return;
    redis_args_bytes(a, r->extra.unique);
    put_seq(a, r);
}

static void key_set(struct rargs *a, const struct row *r)
{
    if (r->gone || !r->held || (r->was_held && !r->fresh))
        return;
    redis_args_bytes(a, r->extra.unique);
    put_seq(a, r);
}

static void group_change(struct rargs *a, const struct row *r, uint8_t state, const char *by)
{
    char field[LIMIT_KEY_BYTES + 1];
    if (state == STATE_NONE || r->extra.group.len > LIMIT_KEY_BYTES)
        return;
    field[0] = (char)('0' + state);
    memcpy(field + 1, r->extra.group.at, r->extra.group.len);
    redis_args_bytes(a, span_of(field, r->extra.group.len + 1));
    redis_args_text(a, by);
}

static void group_set(struct rargs *a, const struct row *r)
{
    if (!r->extra.group.len || was(r) == is(r))
        return;
    group_change(a, r, was(r), "-1");
    group_change(a, r, is(r), "1");
}

static const struct {
    const char *command, *index;
    rd_row_fn fn;
    bool counts; /* would create the key again, so not for a deleted queue */
} queue_indexes[] = {
    {"ZREM", "all", row_del, false},     {"ZADD", "all", all_set, true},
    {"ZREM", "2", ready_del, false},     {"ZADD", "2", ready_set, true},
    {"ZREM", "1", scheduled_del, false}, {"ZADD", "1", scheduled_set, true},
    {"ZREM", "3", running_del, false},   {"ZADD", "3", running_set, true},
    {"ZREM", "4", done_del, false},      {"ZADD", "4", done_set, true},
    {"ZREM", "5", dead_del, false},      {"ZADD", "5", dead_set, true},
    {"ZREM", "6", cancelled_del, false}, {"ZADD", "6", cancelled_set, true},
    {"ZREM", "7", blocked_del, false},   {"ZADD", "7", blocked_set, true},
    {"UNKEY", "u", key_del, false},      {"HSET", "u", key_set, true},
    {"COUNT", "g", group_set, true},
};

/* --- when something is due --- */

static int64_t due_of(const struct row *r, uint8_t state, int64_t now)
{
    return state == STATE_SCHEDULED ? r->job.run_at.ms : state == STATE_RUNNING ? r->until_ms : now;
}

static void change_due(struct unit *u, struct rargs *a, const struct wqueue *q,
                       struct row *const *rows, size_t count)
{
    static const uint8_t states[] = {STATE_SCHEDULED, STATE_RUNNING, STATE_DONE, STATE_DEAD,
                                     STATE_CANCELLED};
    for (size_t k = 0; k < sizeof states; k++) {
        int64_t first = INT64_MAX;
        char key[8];
        for (size_t i = 0; i < count; i++)
            if (is(rows[i]) == states[k] && due_of(rows[i], states[k], u->now.ms) < first)
                first = due_of(rows[i], states[k], u->now.ms);
        if (first == INT64_MAX)
            continue;
        snprintf(key, sizeof key, "due:%u", states[k]);
        rd_change(a, "DUE", key);
        redis_args_int(a, q->number);
        redis_args_int(a, first);
        rd_change_end(a);
    }
}

/* --- leases of connections --- */

static bool was_bound(const struct row *r, uint32_t *ret_epoch)
{
    bool had = was(r) == STATE_RUNNING && was_bit(r, ROW_BOUND);
    *ret_epoch = had ? (uint32_t)ROW_GET(r->packed.at, job, token_epoch) : 0;
    return had;
}

static bool is_bound(const struct row *r)
{
    return is(r) == STATE_RUNNING && (r->job.flags & JOB_BOUND);
}

/* Leases of this epoch that have ended. */
static void unbind(struct rargs *a, struct row *const *rows, size_t count, uint32_t epoch)
{
    char key[32];
    uint32_t of;
    snprintf(key, sizeof key, "bound:%u", epoch);
    rd_change(a, "SREM", key);
    for (size_t i = 0; i < count; i++)
        if (was_bound(rows[i], &of) && of == epoch &&
            !(is_bound(rows[i]) && rows[i]->token.epoch == epoch))
            put_seq(a, rows[i]);
    rd_change_end(a);
}

/* New ones belong to this node; those that end mostly do, too. */
static void change_bound(struct item *it, struct row *const *rows, size_t count)
{
    struct rargs *a = &it->args;
    struct rargs_mark before = redis_args_mark(a);
    uint32_t mine = it->unit.s->facts.epoch, epoch, last = 0;
    char key[32];
    snprintf(key, sizeof key, "bound:%u", mine);
    rd_change(a, "SADD", key);
    for (size_t i = 0; i < count; i++)
        if (is_bound(rows[i]) && rows[i]->token.epoch == mine &&
            !(was_bound(rows[i], &epoch) && epoch == mine))
            put_seq(a, rows[i]);
    if (rd_change_end(a)) {
        rd_change(a, "SADD", "boundset");
        redis_args_int(a, mine);
        rd_change_end(a);
    } else {
        redis_args_undo(a, before);
    }
    for (size_t i = 0; i < count; i++) {
        bool over =
            was_bound(rows[i], &epoch) && !(is_bound(rows[i]) && rows[i]->token.epoch == epoch);
        if (!over || epoch == last)
            continue;
        unbind(a, rows, count, epoch); /* a repeated epoch does no harm */
        last = epoch;
    }
}

/* --- items that a trigger's job holds --- */

static void item_of_holder(struct rargs *a, const char *command, uint64_t holder,
                           const struct row *r)
{
    char key[32];
    snprintf(key, sizeof key, "items:%llu", (unsigned long long)holder);
    rd_change(a, command, key);
    put_seq(a, r);
    rd_change_end(a);
}

static void change_item(struct rargs *a, const struct row *r)
{
    struct row before = {.gone = false};
    bool was_item =
        !r->fresh && was_bit(r, ROW_ITEM) && redis_row_decode(r->job.seq, r->packed, &before) == 0;
    bool is_item = is(r) == STATE_RUNNING && r->lease_ms == 0 && r->holder.seq;
    if (was_item && !(is_item && before.holder.seq == r->holder.seq))
        item_of_holder(a, "SREM", before.holder.seq, r);
    if (!is_item || (was_item && before.holder.seq == r->holder.seq))
        return;
    item_of_holder(a, "SADD", r->holder.seq, r);
    rd_change(a, "SADD", "holders");
    redis_args_seq(a, r->holder.seq);
    rd_change_end(a);
}

/* --- parts of the sequence --- */

static void change_parts(struct rargs *a, struct row *const *rows, size_t count)
{
    struct rargs_mark before = redis_args_mark(a);
    uint64_t part = 0;
    int64_t by = 0;
    rd_change(a, "PART", "part");
    for (size_t i = 0; i <= count; i++) {
        int64_t one = i == count ? 0 : (int64_t)(is(rows[i]) != 0) - (was(rows[i]) != 0);
        uint64_t of = i == count ? 0 : rows[i]->job.seq / PART_JOBS;
        if (by && (i == count || (one && of != part))) {
            redis_args_int(a, (int64_t)part);
            redis_args_int(a, by);
            by = 0;
        }
        if (one) {
            part = of;
            by += one;
        }
    }
    if (!rd_change_end(a))
        redis_args_undo(a, before);
}

/* --- attempts --- */

static void change_attempts(struct item *it)
{
    struct rargs *a = &it->args;
    char key[32];
    bool wrong = false;
    for (const struct ended *x = it->unit.ended; x; x = x->next) {
        if (x->row->gone)
            continue;
        struct span packed = redis_attempt_encode(&it->unit, x);
        snprintf(key, sizeof key, "a:%llu", (unsigned long long)x->row->job.seq);
        rd_change(a, "RPUSH", key);
        redis_args_bytes(a, packed);
        rd_change_end(a);
        rd_change(a, "LTRIM", key);
        redis_args_int(a, -(int64_t)LIMIT_ATTEMPTS_KEPT);
        redis_args_int(a, -1);
        rd_change_end(a);
        if (packed.len < ATTEMPT_IDENT_BYTES || !attempt_went_wrong(x->outcome))
            continue;
        char entry[ROW_HEAD(wrong) + ATTEMPT_IDENT_BYTES];
        ROW_PUT(entry, wrong, seq, x->row->job.seq);
        memcpy(entry + ROW_HEAD(wrong), packed.at, ATTEMPT_IDENT_BYTES);
        rd_change(a, "LPUSH", "wrong");
        redis_args_bytes(a, span_of(entry, sizeof entry));
        rd_change_end(a);
        wrong = true;
    }
    if (!wrong)
        return;
    rd_change(a, "LTRIM", "wrong");
    redis_args_int(a, 0);
    redis_args_int(a, WRONG_KEPT - 1);
    rd_change_end(a);
}

/* --- all of it --- */

static bool touched(const struct row *r)
{
    return (r->changed || r->set_payload || r->set_result || r->set_error || r->set_note ||
            r->set_report || r->new_steps.len) &&
           !(r->gone && r->fresh);
}

static int by_queue(const void *x, const void *y)
{
    const struct row *a = *(struct row *const *)x, *b = *(struct row *const *)y;
    if (a->q != b->q)
        return a->q->number != b->q->number ? (a->q->number < b->q->number ? -1 : 1)
                                            : (a->q < b->q ? -1 : 1);
    return a->job.seq < b->job.seq ? -1 : a->job.seq > b->job.seq;
}

static struct row **touched_rows(struct unit *u, size_t *ret_count)
{
    struct row **rows = unit_alloc(u, (u->row_count + 1) * sizeof(struct row *));
    size_t n = 0;
    for (size_t i = 0; rows && i < u->row_count; i++)
        if (touched(u->rows[i]))
            rows[n++] = u->rows[i];
    if (rows)
        qsort(rows, n, sizeof(struct row *), by_queue);
    *ret_count = n;
    return rows;
}

static void change_queue(struct item *it, const struct wqueue *q, struct row *const *rows,
                         size_t count)
{
    char key[48];
    for (size_t i = 0; i < sizeof queue_indexes / sizeof queue_indexes[0]; i++)
        if (!q->gone || !queue_indexes[i].counts)
            rd_change_each(&it->args, queue_indexes[i].command,
                           rd_queue_key(q->number, queue_indexes[i].index, key), rows, count,
                           queue_indexes[i].fn);
    if (!q->gone && claim_limited(&q->policy))
        rd_limits_change_rows(&it->args, q, rows, count);
    if (!q->gone)
        change_due(&it->unit, &it->args, q, rows, count);
}

static void change_packed(struct item *it, struct row *const *rows, size_t count)
{
    struct rargs *a = &it->args;
    struct rargs_mark before = redis_args_mark(a);
    rd_change(a, "HSET", "row");
    for (size_t i = 0; i < count; i++) {
        if (rows[i]->gone)
            continue;
        put_seq(a, rows[i]);
        redis_args_bytes(a, redis_row_encode(&it->unit, rows[i]));
    }
    if (!rd_change_end(a))
        redis_args_undo(a, before);
}

void rd_change_rows(struct item *it)
{
    struct unit *u = &it->unit;
    size_t count, from = 0;
    for (const struct ended *x = u->ended; x; x = x->next)
        x->row->attempted = true;
    struct row **rows = touched_rows(u, &count);
    if (!rows || count == 0)
        return;
    change_packed(it, rows, count);
    for (size_t i = 0; i < sizeof shared_indexes / sizeof shared_indexes[0]; i++)
        rd_change_each(&it->args, shared_indexes[i].command, shared_indexes[i].key, rows, count,
                       shared_indexes[i].fn);
    for (size_t i = 1; i <= count; i++) {
        if (i < count && rows[i]->q == rows[from]->q)
            continue;
        change_queue(it, rows[from]->q, rows + from, i - from);
        from = i;
    }
    change_bound(it, rows, count);
    for (size_t i = 0; i < count; i++)
        change_item(&it->args, rows[i]);
    for (size_t i = 0; i < count; i++)
        change_report(&it->args, rows[i]);
    for (size_t i = 0; i < count; i++)
        change_steps(&it->args, rows[i]);
    change_parts(&it->args, rows, count);
    change_attempts(it);
}

/* --- checks --- */

static bool brings_id(const struct row *r)
{
    return r->moved || id_spooled(r->job.seq);
}

static void check_revision(struct rargs *a, const struct row *r)
{
    if (!r->fresh && r->packed.len < ROW_REVISION_BYTES)
        return;
    if (r->fresh && !brings_id(r))
        return;
    put_seq(a, r); /* a job that came with its id must not exist yet */
    redis_args_bytes(a, span_of(r->packed.at, r->fresh ? 0 : ROW_REVISION_BYTES));
}

/* The previous holder of the key, as far as this unit knows. */
static const struct row *holder_before(const struct unit *u, const struct row *r)
{
    for (size_t i = 0; i < u->row_count; i++) {
        const struct row *x = u->rows[i];
        if (x->was_held && !x->fresh && x->q == r->q &&
            span_equal(x->extra.unique, r->extra.unique))
            return x;
    }
    return NULL;
}

static void check_keys(struct item *it, struct row *const *rows, size_t count)
{
    struct rargs *a = &it->args;
    char key[48], seq[8];
    for (size_t i = 0; i < count; i++) {
        const struct row *r = rows[i];
        if (r->gone || !r->held || (r->was_held && !r->fresh))
            continue;
        const struct row *before = holder_before(&it->unit, r);
        if (before)
            redis_seq_encode(before->job.seq, seq);
        redis_args_text(a, rd_queue_key(r->q->number, "u", key));
        redis_args_int(a, 2);
        redis_args_bytes(a, r->extra.unique);
        redis_args_bytes(a, span_of(seq, before ? sizeof seq : 0));
    }
}

/* Not nested in a list: lengths are written before what they count. */
void rd_check_rows(struct item *it)
{
    size_t count, revisions = 0;
    struct row **rows = touched_rows(&it->unit, &count);
    if (!rows)
        return;
    for (size_t i = 0; i < count; i++)
        revisions +=
            rows[i]->fresh ? brings_id(rows[i]) : rows[i]->packed.len >= ROW_REVISION_BYTES;
    if (revisions) {
        redis_args_text(&it->args, "row");
        redis_args_int(&it->args, (int64_t)(2 * revisions));
        for (size_t i = 0; i < count; i++)
            check_revision(&it->args, rows[i]);
    }
    check_keys(it, rows, count);
}
