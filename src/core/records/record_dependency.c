/* SPDX-License-Identifier: Apache-2.0 */
/* Records of jobs that depend on others. */
#include "core/records/record_impl.h"

/* ---- unblocked ---- */

static bool unblocked_fits(const struct record *r)
{
    const struct rec_job_unblocked *u = &r->job_unblocked;
    return seq_fits(u->seq) && move_allowed(MOVE_UNBLOCK, STATE_BLOCKED, u->state) &&
           wall_fits(u->at);
}

static uint8_t *unblocked_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->job_unblocked.seq);
    at = put_u8(at, r->job_unblocked.state);
    return put_wall(at, r->job_unblocked.at);
}

static void unblocked_decode(struct wire_in *in, struct record *ret)
{
    ret->job_unblocked.seq = take_varint(in);
    ret->job_unblocked.state = take_u8(in);
    ret->job_unblocked.at = take_wall(in);
}

const struct record_type record_job_unblocked = {
    .name = "job_unblocked",
    .body_max = WIRE_SEQ + WIRE_U8 + WIRE_WALL,
    .encode = unblocked_encode,
    .decode = unblocked_decode,
    .fits = unblocked_fits,
};

/* ---- the dependent ---- */

static bool put_fits(const struct record *r)
{
    return seq_fits(r->dependent_put.seq) && dependent_fits(&r->dependent_put.dependent, 0);
}

static uint8_t *put_encode(const struct record *r, uint8_t *at)
{
    const struct dependent *d = &r->dependent_put.dependent;
    at = put_varint(at, r->dependent_put.seq);
    at = put_u8(at, d->rule);
    at = put_u8(at, d->open);
    for (int i = 0; i < DEPENDENCY_END_COUNT; i++)
        at = put_varint(at, d->counts[i]);
    return at;
}

static void put_decode(struct wire_in *in, struct record *ret)
{
    struct dependent *d = &ret->dependent_put.dependent;
    ret->dependent_put.seq = take_varint(in);
    d->rule = take_u8(in);
    d->open = take_bool(in);
    for (int i = 0; i < DEPENDENCY_END_COUNT; i++)
        d->counts[i] = take_u32(in);
}

const struct record_type record_dependent_put = {
    .name = "dependent_put",
    .body_max = WIRE_SEQ + 2 * WIRE_U8 + DEPENDENCY_END_COUNT * WIRE_U32,
    .encode = put_encode,
    .decode = put_decode,
    .fits = put_fits,
};

static bool gone_fits(const struct record *r)
{
    return seq_fits(r->dependent.seq);
}

static uint8_t *gone_encode(const struct record *r, uint8_t *at)
{
    return put_varint(at, r->dependent.seq);
}

static void gone_decode(struct wire_in *in, struct record *ret)
{
    ret->dependent = (struct rec_dependent){.seq = take_varint(in)};
}

const struct record_type record_dependent_gone = {
    .name = "dependent_gone",
    .body_max = WIRE_SEQ,
    .encode = gone_encode,
    .decode = gone_decode,
    .fits = gone_fits,
};

/* ---- dependencies ---- */

static size_t new_span_bytes(const struct record *r)
{
    return r->dependencies_new.parents.len;
}

static bool new_fits(const struct record *r)
{
    const struct rec_dependencies_new *n = &r->dependencies_new;
    return seq_fits(n->seq) && n->count > 0 && n->count <= LIMIT_DEPENDENCIES &&
           n->count <= n->parents.len;
}

static uint8_t *new_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->dependencies_new.seq);
    at = put_varint(at, r->dependencies_new.count);
    return put_span(at, r->dependencies_new.parents);
}

static void new_decode(struct wire_in *in, struct record *ret)
{
    struct rec_dependencies_new *n = &ret->dependencies_new;
    n->seq = take_varint(in);
    n->count = take_u32(in);
    n->parents = take_span(in);
    struct span list = n->parents;
    uint64_t previous = 0, seq, count = 0;
    for (; list.len > 0; count++)
        if (record_seq_next(&list, &previous, &seq) < 0 || seq == n->seq) {
            wire_spoil(in);
            return;
        }
    if (count != n->count)
        wire_spoil(in);
}

const struct record_type record_dependencies_new = {
    .name = "dependencies_new",
    .body_max = WIRE_SEQ + WIRE_U32 + WIRE_LENGTH,
    .span_bytes = new_span_bytes,
    .encode = new_encode,
    .decode = new_decode,
    .fits = new_fits,
};

static bool end_fits(const struct record *r)
{
    const struct rec_dependency_end *e = &r->dependency_end;
    return seq_fits(e->seq) && seq_fits(e->parent) && e->how < DEPENDENCY_END_COUNT;
}

static uint8_t *end_encode(const struct record *r, uint8_t *at)
{
    at = put_varint(at, r->dependency_end.seq);
    at = put_varint(at, r->dependency_end.parent);
    at = put_u8(at, r->dependency_end.how);
    return put_u8(at, r->dependency_end.last);
}

static void end_decode(struct wire_in *in, struct record *ret)
{
    ret->dependency_end.seq = take_varint(in);
    ret->dependency_end.parent = take_varint(in);
    ret->dependency_end.how = take_u8(in);
    ret->dependency_end.last = take_bool(in);
}

const struct record_type record_dependency_end = {
    .name = "dependency_end",
    .body_max = 2 * WIRE_SEQ + 2 * WIRE_U8,
    .encode = end_encode,
    .decode = end_decode,
    .fits = end_fits,
};

static bool parent_fits(const struct record *r)
{
    return seq_fits(r->dependent.seq) && r->dependent.how > DEPENDENCY_END_NONE &&
           r->dependent.how < DEPENDENCY_END_COUNT;
}

static uint8_t *parent_encode(const struct record *r, uint8_t *at)
{
    return put_u8(put_varint(at, r->dependent.seq), r->dependent.how);
}

static void parent_decode(struct wire_in *in, struct record *ret)
{
    ret->dependent.seq = take_varint(in);
    ret->dependent.how = take_u8(in);
}

const struct record_type record_parent_ended = {
    .name = "parent_ended",
    .body_max = WIRE_SEQ + WIRE_U8,
    .encode = parent_encode,
    .decode = parent_decode,
    .fits = parent_fits,
};
