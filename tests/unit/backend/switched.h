/* SPDX-License-Identifier: Apache-2.0 */
/* A backend round another one that is switched off and on by the test: for wrappers that have to
 * live with it. Watches, events and figures are the inner one's. */
#pragma once

#include "backend/backend_impl.h"

enum switched_mode {
    SWITCH_ON,
    SWITCH_OFF,     /* nothing is passed on; OUT_UNAVAILABLE */
    SWITCH_DENYING, /* the same of a store that takes itself to be there */
    SWITCH_LOST,    /* done, but OUT_UNKNOWN; queries are answered */
    SWITCH_DROPPED, /* not done, and OUT_UNKNOWN; queries are answered */
    SWITCH_SILENT,  /* nothing is passed on, nothing answered until the mode changes; then OFF */
};

struct switched;
struct switched *switched_new(struct backend *inner, uv_loop_t *loop);
struct backend *switched_backend(struct switched *s);
void switched_set(struct switched *s, enum switched_mode mode);
void switched_lead(struct switched *s, bool leads); /* at first it does */
/* Ops that reached the inner backend, and all that came. */
size_t switched_passed(const struct switched *s, enum op_kind kind);
size_t switched_met(const struct switched *s, enum op_kind kind);
