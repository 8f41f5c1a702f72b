/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies of the records about schedules and what they make. */
#include "core/limits.h"
#include "core/records/record_impl.h"

/* ---- state ---- */

#define STATE_MAX (4 * WIRE_WALL + 2 * WIRE_SEQ + WIRE_FIXED64 + 2 * WIRE_U64 + WIRE_U32 + WIRE_U8)

static bool state_fits(const struct schedule_state *s)
{
    return wall_fits(s->next_at) && wall_fits(s->retry_at) && wall_fits(s->last_at) &&
           wall_fits(s->fired_at) && s->seq <= LIMIT_SEQ && s->item <= LIMIT_SEQ &&
           s->error < SCHEDULE_ERROR_COUNT;
}

static uint8_t *state_encode(const struct schedule_state *s, uint8_t *at)
{
    at = put_wall(at, s->next_at);
    at = put_wall(at, s->retry_at);
    at = put_wall(at, s->last_at);
    at = put_wall(at, s->fired_at);
    at = put_varint(at, s->seq);
    at = put_fixed64(at, s->id_hi);
    at = put_varint(at, s->item);
    at = put_varint(at, s->fired);
    at = put_varint(at, s->missed);
    at = put_varint(at, s->failures);
    return put_u8(at, s->error);
}

static void state_decode(struct wire_in *in, struct schedule_state *s)
{
    s->next_at = take_wall(in);
    s->retry_at = take_wall(in);
    s->last_at = take_wall(in);
    s->fired_at = take_wall(in);
    s->seq = take_varint(in);
    s->id_hi = take_fixed64(in);
    s->item = take_varint(in);
    s->fired = take_varint(in);
    s->missed = take_varint(in);
    s->failures = take_u32(in);
    s->error = take_u8(in);
}

/* ---- put ---- */

static size_t put_span_bytes(const struct record *r)
{
    const struct rec_schedule_put *p = &r->schedule_put;
    return p->name.len + p->spec.len + p->owner.len + p->note.len + p->attributes.len;
}

static bool put_fits(const struct record *r)
{
    const struct rec_schedule_put *p = &r->schedule_put;
    struct schedule_spec spec;
    return p->schedule != 0 && wall_fits(p->created_at) && wall_fits(p->updated_at) &&
           state_fits(&p->state) && validate_queue_name(p->name, NULL) == 0 &&
           p->owner.len <= LIMIT_LABEL_BYTES && p->note.len <= LIMIT_NOTE_BYTES &&
           p->attributes.len <= LIMIT_NOTE_BYTES && schedule_decode(p->spec, &spec) == 0;
}

static uint8_t *put_encode(const struct record *r, uint8_t *at)
{
    const struct rec_schedule_put *p = &r->schedule_put;
    at = put_varint(at, p->schedule);
    at = put_u8(at, p->paused);
    at = put_wall(at, p->created_at);
    at = put_wall(at, p->updated_at);
    at = state_encode(&p->state, at);
    at = put_span(at, p->name);
    at = put_span(at, p->spec);
    at = put_span(at, p->owner);
    at = put_span(at, p->note);
    return put_span(at, p->attributes);
}

static void put_decode(struct wire_in *in, struct record *ret)
{
    struct rec_schedule_put *p = &ret->schedule_put;
    p->schedule = take_u32(in);
    p->paused = take_bool(in);
    p->created_at = take_wall(in);
    p->updated_at = take_wall(in);
    state_decode(in, &p->state);
    p->name = take_span(in);
    p->spec = take_span(in);
    p->owner = take_text(in, LIMIT_LABEL_BYTES);
    p->note = take_text(in, LIMIT_NOTE_BYTES);
    p->attributes = take_text(in, LIMIT_NOTE_BYTES);
}

const struct record_type record_schedule_put = {
    .name = "schedule_put",
    .body_max = WIRE_U32 + WIRE_U8 + 2 * WIRE_WALL + STATE_MAX + 5 * WIRE_LENGTH,
    .span_bytes = put_span_bytes,
    .encode = put_encode,
    .decode = put_decode,
    .fits = put_fits,
};

/* ---- gone ---- */

static bool gone_fits(const struct record *r)
{
    return r->schedule_gone.schedule != 0 && wall_fits(r->schedule_gone.at);
}

static uint8_t *gone_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->schedule_gone.schedule);
    return put_wall(at, r->schedule_gone.at);
}

static void gone_decode(struct wire_in *in, struct record *ret)
{
    ret->schedule_gone.schedule = take_u32(in);
    ret->schedule_gone.at = take_wall(in);
}

const struct record_type record_schedule_gone = {
    .name = "schedule_gone",
    .body_max = WIRE_U32 + WIRE_WALL,
    .encode = gone_encode,
    .decode = gone_decode,
    .fits = gone_fits,
};

/* ---- fired, passed, failed ---- */

static bool moved_fits(const struct record *r)
{
    const struct rec_schedule_state *s = &r->schedule_state;
    return s->schedule != 0 && wall_fits(s->at) && state_fits(&s->state);
}

static uint8_t *moved_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->schedule_state.schedule);
    at = put_wall(at, r->schedule_state.at);
    return state_encode(&r->schedule_state.state, at);
}

static void moved_decode(struct wire_in *in, struct record *ret)
{
    ret->schedule_state.schedule = take_u32(in);
    ret->schedule_state.at = take_wall(in);
    state_decode(in, &ret->schedule_state.state);
}

#define MOVED_TYPE(text)                                                                           \
    {                                                                                              \
        .name = (text), .body_max = WIRE_U32 + WIRE_WALL + STATE_MAX, .encode = moved_encode,      \
        .decode = moved_decode, .fits = moved_fits                                                 \
    }
const struct record_type record_schedule_fired = MOVED_TYPE("schedule_fired");
const struct record_type record_schedule_passed = MOVED_TYPE("schedule_passed");
const struct record_type record_schedule_failed = MOVED_TYPE("schedule_failed");

/* ---- linked ---- */

static size_t linked_span_bytes(const struct record *r)
{
    return r->job_linked.items.len;
}

/* The list is looked at when it is read; a caller makes it with record_seq_append. */
static bool linked_fits(const struct record *r)
{
    const struct rec_job_linked *l = &r->job_linked;
    return seq_fits(l->seq) && l->count > 0 && l->count <= l->items.len;
}

static uint8_t *linked_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->job_linked.seq);
    at = put_fixed64(at, r->job_linked.id_hi);
    at = put_varint(at, r->job_linked.count);
    return put_span(at, r->job_linked.items);
}

static void linked_decode(struct wire_in *in, struct record *ret)
{
    struct rec_job_linked *l = &ret->job_linked;
    l->seq = take_varint(in);
    l->id_hi = take_fixed64(in);
    l->count = take_u32(in);
    l->items = take_span(in);
    struct span list = l->items;
    uint64_t previous = 0, seq, count = 0;
    for (; list.len > 0 && !in->bad; count++)
        if (record_seq_next(&list, &previous, &seq) < 0)
            wire_spoil(in);
    if (count != l->count)
        wire_spoil(in);
}

const struct record_type record_job_linked = {
    .name = "job_linked",
    .body_max = WIRE_SEQ + WIRE_FIXED64 + WIRE_U32 + WIRE_LENGTH,
    .span_bytes = linked_span_bytes,
    .encode = linked_encode,
    .decode = linked_decode,
    .fits = linked_fits,
};
