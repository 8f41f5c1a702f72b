/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: the table of them, put, pause, delete, get, list. What a firing does is in
 * ops/schedules/fire.c. */
#include "backend/local/engine/engine_impl.h"
#include "base/containers/sorted.h"
#include "base/digest/crc32c.h"
#include "ops/schedules/schedule_rules.h"

#define LIST_MAX 1000u

struct span schedule_name(const struct schedule *s)
{
    return span_of(s->texts, s->name_len);
}

static struct span spec_text(const struct schedule *s)
{
    return span_of(s->texts + s->name_len, s->spec_len);
}

struct span schedule_owner(const struct schedule *s)
{
    return span_of(s->texts + s->name_len + s->spec_len, s->owner_len);
}

static struct span note_text(const struct schedule *s)
{
    return span_of(schedule_owner(s).at + s->owner_len, s->note_len);
}

static struct span attributes_text(const struct schedule *s)
{
    return span_of(note_text(s).at + s->note_len, s->attributes_len);
}

/* Where the number is, or would be. */
static size_t number_place(const struct engine *e, uint32_t number)
{
    return SORTED_INDEX(e->schedule_count, i, e->schedules[i]->number < number);
}

struct schedule *schedule_at(const struct engine *e, uint32_t number)
{
    size_t at = number_place(e, number);
    bool there = at < e->schedule_count && e->schedules[at]->number == number;
    return there ? e->schedules[at] : NULL;
}

struct schedule *schedules_find(const struct engine *e, struct span name)
{
    return schedule_at(e, (uint32_t)map128_get(&e->schedule_map, hash128_of(e->hash_key, name)));
}

/* --- the table --- */

/* Where the name is, or would be; with `after`, behind it. */
static size_t name_place(const struct engine *e, struct span name, bool after)
{
    return SORTED_INDEX(e->schedule_count, i,
                        span_order(schedule_name(e->schedules_by_name[i]), name) < (after ? 1 : 0));
}

static int grow(struct schedule ***array, size_t count, size_t *room)
{
    if (count < *room)
        return 0;
    size_t more = count ? count * 2 : 64;
    struct schedule **grown = mem_regrow(*array, more, sizeof(*grown));
    if (!grown)
        return -ERR_NOMEM;
    *array = grown;
    *room = more;
    return 0;
}

static int room_for_one(struct engine *e)
{
    int err = grow(&e->schedules, e->schedule_count, &e->schedule_room);
    if (!err)
        err = grow(&e->schedules_by_name, e->schedule_count, &e->schedules_by_name_room);
    return err ? err : map128_reserve(&e->schedule_map, 1);
}

static void insert(struct schedule **array, size_t count, size_t at, struct schedule *s)
{
    memmove(array + at + 1, array + at, (count - at) * sizeof(*array));
    array[at] = s;
}

static void take_out(struct schedule **array, size_t count, size_t at)
{
    memmove(array + at, array + at + 1, (count - at - 1) * sizeof(*array));
}

static void enter(struct engine *e, struct schedule *s)
{
    size_t count = e->schedule_count;
    insert(e->schedules_by_name, count, name_place(e, schedule_name(s), false), s);
    insert(e->schedules, count, number_place(e, s->number), s);
    e->schedule_count++;
    s->name_key = hash128_of(e->hash_key, schedule_name(s));
    CHECK(map128_put(&e->schedule_map, s->name_key, s->number) == 0);
    if (s->number >= e->schedule_next)
        e->schedule_next = s->number + 1;
}

static char *texts_copy(const struct rec_schedule_put *r)
{
    const struct span parts[] = {r->name, r->spec, r->owner, r->note, r->attributes};
    size_t len = 1; /* never of no size */
    for (size_t i = 0; i < 5; i++)
        len += parts[i].len;
    char *texts = mem_alloc(len), *at = texts;
    for (size_t i = 0; texts && i < 5; i++) {
        if (parts[i].len)
            memcpy(at, parts[i].at, parts[i].len);
        at += parts[i].len;
    }
    return texts;
}

static int schedule_fill(struct schedule *s, const struct rec_schedule_put *r)
{
    char *texts = texts_copy(r);
    if (!texts)
        return -ERR_NOMEM;
    struct schedule_spec spec;
    int err = schedule_decode(span_of(texts + r->name.len, r->spec.len), &spec);
    if (err) {
        mem_free(texts);
        return err;
    }
    mem_free(s->texts);
    s->number = r->schedule;
    s->paused = r->paused;
    s->texts = texts;
    s->name_len = r->name.len;
    s->spec_len = r->spec.len;
    s->owner_len = r->owner.len;
    s->note_len = r->note.len;
    s->attributes_len = r->attributes.len;
    s->created_at = r->created_at;
    s->updated_at = r->updated_at;
    s->state = r->state;
    s->spec = spec;
    return 0;
}

int schedules_apply_put(struct engine *e, const struct rec_schedule_put *r)
{
    struct schedule *s = schedule_at(e, r->schedule);
    const struct schedule *named = schedules_find(e, r->name);
    if (named != s) /* another one's name, or a change of it */
        return -ERR_CORRUPT;
    int err = s ? 0 : room_for_one(e);
    struct schedule *fresh = s || err ? NULL : mem_zalloc(sizeof(*s));
    if (!err && !s && !fresh)
        err = -ERR_NOMEM;
    if (!err)
        err = schedule_fill(s ? s : fresh, r);
    if (err) {
        mem_free(fresh);
        return err;
    }
    if (fresh)
        enter(e, fresh);
    (s ? s : fresh)->position = e->position;
    return 0;
}

static void schedule_free(struct schedule *s)
{
    mem_free(s->texts);
    mem_free(s);
}

int schedules_apply_gone(struct engine *e, uint32_t number)
{
    struct schedule *s = schedule_at(e, number);
    if (!s)
        return -ERR_CORRUPT;
    take_out(e->schedules_by_name, e->schedule_count, name_place(e, schedule_name(s), false));
    take_out(e->schedules, e->schedule_count, number_place(e, number));
    e->schedule_count--;
    map128_drop(&e->schedule_map, s->name_key);
    schedule_free(s);
    return 0;
}

int schedules_apply_state(struct engine *e, const struct rec_schedule_state *r)
{
    struct schedule *s = schedule_at(e, r->schedule);
    if (!s)
        return -ERR_CORRUPT;
    s->state = r->state;
    s->position = e->position;
    return 0;
}

void schedules_free(struct engine *e)
{
    for (size_t i = 0; i < e->schedule_count; i++)
        schedule_free(e->schedules_by_name[i]);
    mem_free(e->schedules_by_name);
    mem_free(e->schedules);
}

/* --- views --- */

int schedule_view_of(struct engine *e, const struct schedule *s, struct schedule_view *ret)
{
    size_t len = s->name_len + s->spec_len + s->owner_len + s->note_len + s->attributes_len;
    const char *texts = arena_copy(&e->out->arena, s->texts, len ? len : 1);
    if (!texts)
        return -ERR_NOMEM;
    struct schedule copy = *s;
    copy.texts = (char *)(uintptr_t)texts;
    const struct live *last = jobs_find(e, (struct job_ref){s->state.seq, s->state.id_hi}, NULL);
    *ret = (struct schedule_view){
        .number = s->number,
        .name = schedule_name(&copy),
        .owner = schedule_owner(&copy),
        .note = note_text(&copy),
        .attributes = attributes_text(&copy),
        .paused = s->paused,
        .created_at = s->created_at,
        .updated_at = s->updated_at,
        .state = s->state,
        .last_live = last && state_lives(last->job.state),
    };
    return schedule_decode(spec_text(&copy), &ret->spec);
}

void schedule_show(struct engine *e, const struct schedule *s, struct engine_reply *r)
{
    struct schedule_view *view = arena_alloc(&e->out->arena, sizeof(*view));
    if (!view || schedule_view_of(e, s, view) != 0)
        return;
    r->reply.schedules = view;
    r->reply.schedule_count = 1;
}

void op_schedule_get(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    uint32_t number = op->schedule.number;
    const struct schedule *s =
        number ? schedule_at(e, number) : schedules_find(e, op->schedule.name);
    if (!s) {
        refuse(r, OUT_NO_SCHEDULE, NULL);
        return;
    }
    r->after = s->position;
    schedule_show(e, s, r);
    if (r->reply.schedule_count == 0)
        refuse_nomem(r);
}

void op_schedule_list(struct engine *e, const struct op *op)
{
    struct engine_reply *r = reply_new(e, op);
    uint32_t limit = op->schedule.limit;
    limit = limit == 0 || limit > LIST_MAX ? LIST_MAX : limit;
    size_t at = op->schedule.after.len ? name_place(e, op->schedule.after, true) : 0;
    size_t left = e->schedule_count - at;
    size_t count = left < limit ? left : limit, bytes = 0;
    struct schedule_view *views = arena_array(&e->out->arena, count ? count : 1, sizeof(*views));
    if (!views) {
        refuse_nomem(r);
        return;
    }
    for (size_t i = 0; i < count && bytes < LIMIT_ANSWER_BYTES; i++) {
        const struct schedule *s = e->schedules_by_name[at + i];
        if (schedule_view_of(e, s, &views[i]) != 0) {
            refuse_nomem(r);
            return;
        }
        bytes += s->spec_len;
        r->reply.schedule_count++;
    }
    r->reply.schedules = views;
    r->reply.more = at + r->reply.schedule_count < e->schedule_count;
}

/* --- changing --- */

/* Texts allocate; a failure there must not leave a record behind. */
static int emit_put(struct engine *e, const struct rec_schedule_put *put)
{
    struct record rec = {.kind = REC_SCHEDULE_PUT, .schedule_put = *put};
    int err = emit_reserve(e, record_bytes_max(&rec));
    if (err)
        return err;
    size_t mark = e->out->frame.len;
    CHECK(record_encode(&rec, &e->out->frame) == 0);
    e->position++;
    err = engine_apply(e, &rec);
    if (err) {
        e->out->frame.len = mark;
        e->position--;
        return err;
    }
    e->out->count++;
    return 0;
}

void schedules_read(const struct schedule *s, struct rec_schedule_put *put)
{
    *put = (struct rec_schedule_put){
        .schedule = s->number,
        .paused = s->paused,
        .created_at = s->created_at,
        .updated_at = s->updated_at,
        .state = s->state,
        .name = schedule_name(s),
        .spec = spec_text(s),
        .owner = schedule_owner(s),
        .note = note_text(s),
        .attributes = attributes_text(s),
    };
}

bool schedules_flows(struct engine *e, struct span but, const struct schedule_flow **ret,
                     size_t *ret_count)
{
    struct schedule_flow *flows =
        arena_array(&e->out->arena, e->schedule_count + 1, sizeof(*flows));
    *ret = flows;
    *ret_count = 0;
    for (size_t i = 0; flows && i < e->schedule_count; i++) {
        const struct schedule *s = e->schedules_by_name[i];
        if (s->spec.kind == SCHEDULE_QUEUE && !span_equal(schedule_name(s), but))
            flows[(*ret_count)++] = (struct schedule_flow){s->spec.source, s->spec.queue};
    }
    return flows != NULL;
}

struct schedule *schedules_put(struct engine *e, const struct rec_schedule_put *put)
{
    return emit_put(e, put) == 0 ? schedule_at(e, put->schedule) : NULL;
}

bool schedules_delete(struct engine *e, const struct schedule *s)
{
    struct record rec = {
        .kind = REC_SCHEDULE_GONE,
        .schedule_gone = {.schedule = s->number, .at = e->now.wall},
    };
    if (emit_reserve(e, record_bytes_max(&rec)) != 0)
        return false;
    engine_emit(e, &rec);
    return true;
}

/* --- for checks --- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + UINT64_C(0x9E3779B97F4A7C15) + (h << 12) + (h >> 4);
    h *= UINT64_C(0xFF51AFD7ED558CCD);
    return h ^ (h >> 32);
}

uint64_t schedules_hash(const struct engine *e)
{
    uint64_t h = 1;
    for (size_t i = 0; i < e->schedule_count; i++) {
        const struct schedule *s = e->schedules_by_name[i];
        const struct schedule_state *st = &s->state;
        size_t len = s->name_len + s->spec_len + s->owner_len + s->note_len + s->attributes_len;
        const uint64_t fields[] = {s->number,
                                   s->paused,
                                   (uint64_t)s->created_at.ms,
                                   (uint64_t)s->updated_at.ms,
                                   (uint64_t)st->next_at.ms,
                                   (uint64_t)st->retry_at.ms,
                                   (uint64_t)st->last_at.ms,
                                   (uint64_t)st->fired_at.ms,
                                   st->seq,
                                   st->id_hi,
                                   st->item,
                                   st->fired,
                                   st->missed,
                                   st->failures,
                                   st->error,
                                   s->name_len,
                                   crc32c(0, s->texts, len)};
        for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++)
            h = mix(h, fields[k]);
    }
    return h;
}
