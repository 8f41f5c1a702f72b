/* SPDX-License-Identifier: Apache-2.0 */
/* An engine with its clock, and every frame it has made. */
#pragma once

#include "backend/local/engine/engine.h"

#define ENGINE_RIG_WALL INT64_C(1760000000000)

struct engine_rig {
    struct store *store;
    struct engine *engine;
    struct engine_out out;
    struct now now;
    struct buf log; /* the frames, one after the other */
};

void engine_rig_open(struct engine_rig *r, const struct engine_config *config); /* NULL = default */
void engine_rig_close(struct engine_rig *r); /* verifies it first */
/* The reply to the op; valid until the next step. */
const struct reply *engine_rig_step(struct engine_rig *r, const struct op *op);
void engine_rig_steps(struct engine_rig *r, const struct op *ops, size_t count);
void engine_rig_pass(struct engine_rig *r, int64_t ms);
/* Ticks until nothing is due; returns how many that took. */
size_t engine_rig_quiet(struct engine_rig *r);
/* A second engine that has replayed the log says the same of everything; both are sound. */
void engine_rig_same_replayed(struct engine_rig *r);

struct op engine_rig_enqueue(struct span queue);
struct op engine_rig_claim(const struct span *queue, uint32_t count);
