/* SPDX-License-Identifier: Apache-2.0 */
/* src/ops/schedules has the operations on schedules, and the firing of them. Like all of src/ops it
 * may use core and base.
 *
 * The rules of schedules for every store: put, fire, and the job that is created. Nothing here
 * reads the state of a store. */
#pragma once

#include "base/buf.h"
#include "base/containers/arena.h"
#include "ops/op.h"

/* --- put, pause --- */

/* Whether a schedule of which `there` is known may be put, where there are `count` in all. OUT_OK,
 * or why not; for OUT_INVALID the note says more. */
enum outcome schedule_put_right(const struct op_schedule *want, bool there, uint64_t count,
                                struct err_note *note);
MUST_CHECK int schedule_texts_right(struct span owner, struct span text, struct span attributes,
                                    struct err_note *note);
/* After a change the count of failures starts again at 0; the rest of the state stays. */
void schedule_restart(const struct op_schedule *want, struct schedule_state *state);

/* Triggers lead from the queue whose items they take to the queue that their jobs go to. */
struct schedule_flow {
    struct span source, queue;
};
/* Would one more feed itself over these? -ERR_NOMEM */
MUST_CHECK int schedule_ring(const struct schedule_flow *flows, size_t count,
                             const struct schedule_flow *more, struct arena *arena, bool *ret);
#define SCHEDULE_RING_NOTE                                                                         \
    "source_queue must not get its items, over other schedules, from the queue that the job goes " \
    "to: the ring would never end"

/* --- fire, trigger --- */

/* Whether the time may be fired. OUT_OK, OUT_NOT_DUE, OUT_INVALID with a note. */
enum outcome schedule_fire_right(const struct op *op, const struct schedule_spec *spec,
                                 const struct schedule_state *state, bool paused,
                                 struct wall_time now, const char **note);
/* The state after a firing, without the id of its job. */
struct schedule_state schedule_moved_on(const struct op_schedule *want,
                                        const struct schedule_state *before);
/* Its job could not be created: whether that is a failure of the schedule. *state is then changed.
 */
bool schedule_failed(const struct op_schedule *want, enum outcome why, struct wall_time now,
                     struct schedule_state *state);

/* What is enqueued, but for attributes and a trigger's payload. Points into spec and *options. */
void schedule_enqueue(const struct schedule_spec *spec, struct wall_time now,
                      struct job_options *options, struct op_enqueue *ret);

struct schedule_origin {
    struct span name, owner;
    uint32_t number;
    struct wall_time at; /* the time that is fired */
};
struct schedule_item {
    uint64_t seq, id_hi;
    struct job_token token; /* by which a worker ends it */
};
/* Appends the attributes of the job: where it comes from and the ids of its items. With items, its
 * payload follows from *ret_split on: the same with their tokens, and the schedule's own payload in
 * it. -ERR_NOMEM */
MUST_CHECK int schedule_job_text(const struct schedule_origin *origin,
                                 const struct schedule_spec *spec,
                                 const struct schedule_item *items, size_t count, struct buf *out,
                                 size_t *ret_split);
