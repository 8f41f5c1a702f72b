/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies of the records about schedules and what they make. */
#include "core/limits.h"
#include "core/records/record_impl.h"

/* ---- state ---- */

static bool state_fits(const struct schedule_state *s)
{
    return wall_fits(s->next_at) && wall_fits(s->retry_at) && wall_fits(s->last_at) &&
           wall_fits(s->fired_at) && s->seq <= LIMIT_SEQ && s->item <= LIMIT_SEQ &&
           s->error < SCHEDULE_ERROR_COUNT;
}

#define STATE(F)                                                                                   \
    F(wall, next_at)                                                                               \
    F(wall, retry_at)                                                                              \
    F(wall, last_at)                                                                               \
    F(wall, fired_at)                                                                              \
    F(seq, seq)                                                                                    \
    F(fixed64, id_hi)                                                                              \
    F(seq, item)                                                                                   \
    F(u64, fired)                                                                                  \
    F(u64, missed)                                                                                 \
    F(u32, failures)                                                                               \
    F(u8, error)

static size_t state_max(const struct schedule_state *m)
{
    (void)m;
    return 0 STATE(WIRE_MAX);
}

static uint8_t *state_put(uint8_t *at, const struct schedule_state *m)
{
    STATE(WIRE_PUT)
    return at;
}

static struct schedule_state take_state(struct wire_in *in)
{
    struct schedule_state s = {0}, *m = &s;
    STATE(WIRE_TAKE)
    return s;
}

#define wire_max_state(v) state_max(&(v))
#define put_state(at, v) state_put(at, &(v))

/* ---- put ---- */

static bool schedule_put_fits(const struct record *r)
{
    const struct rec_schedule_put *p = &r->schedule_put;
    struct schedule_spec spec;
    return p->schedule != 0 && wall_fits(p->created_at) && wall_fits(p->updated_at) &&
           state_fits(&p->state) && validate_queue_name(p->name, NULL) == 0 &&
           p->owner.len <= LIMIT_LABEL_BYTES && p->note.len <= LIMIT_NOTE_BYTES &&
           p->attributes.len <= LIMIT_NOTE_BYTES && schedule_decode(p->spec, &spec) == 0;
}

#define SCHEDULE_PUT(F)                                                                            \
    F(u32, schedule)                                                                               \
    F(bool, paused)                                                                                \
    F(wall, created_at)                                                                            \
    F(wall, updated_at)                                                                            \
    F(state, state)                                                                                \
    F(span, name)                                                                                  \
    F(span, spec)                                                                                  \
    F(text, owner, LIMIT_LABEL_BYTES)                                                              \
    F(text, note, LIMIT_NOTE_BYTES)                                                                \
    F(text, attributes, LIMIT_NOTE_BYTES)
RECORD(schedule_put, SCHEDULE_PUT);

/* ---- gone ---- */

static bool schedule_gone_fits(const struct record *r)
{
    return r->schedule_gone.schedule != 0 && wall_fits(r->schedule_gone.at);
}

#define SCHEDULE_GONE(F) F(u32, schedule) F(wall, at)
RECORD(schedule_gone, SCHEDULE_GONE);

/* ---- fired, passed, failed ---- */

static bool moved_fits(const struct record *r)
{
    const struct rec_schedule_state *s = &r->schedule_state;
    return s->schedule != 0 && wall_fits(s->at) && state_fits(&s->state);
}

#define SCHEDULE_STATE(F) F(u32, schedule) F(wall, at) F(state, state)
RECORD_BODY(moved, schedule_state, SCHEDULE_STATE)
RECORD_TYPE(schedule_fired, moved, moved_fits, NULL);
RECORD_TYPE(schedule_passed, moved, moved_fits, NULL);
RECORD_TYPE(schedule_failed, moved, moved_fits, NULL);

/* ---- linked ---- */

/* The list is looked at when it is read; a caller makes it with record_seq_append. */
static bool linked_fits(const struct record *r)
{
    const struct rec_job_linked *l = &r->job_linked;
    return seq_fits(l->seq) && l->count > 0 && l->count <= l->items.len;
}

static bool linked_readable(const struct record *r)
{
    return record_seqs_readable(r->job_linked.items, r->job_linked.count);
}

#define JOB_LINKED(F) F(seq, seq) F(fixed64, id_hi) F(u32, count) F(span, items)
RECORD_BODY(linked, job_linked, JOB_LINKED)
RECORD_TYPE(job_linked, linked, linked_fits, linked_readable);
