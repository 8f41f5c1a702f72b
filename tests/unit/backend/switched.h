/* SPDX-License-Identifier: Apache-2.0 */
/* A wrapper that a test switches off and on, for tests of wrappers that must handle an unavailable
 * store. Watches, events and figures are those of the inner backend. */
#pragma once

#include "backend/backend_impl.h"

enum switched_mode {
    SWITCH_ON,
    SWITCH_OFF,     /* nothing is passed on; OUT_UNAVAILABLE */
    SWITCH_DENYING, /* the same, but the store reports itself as available */
    SWITCH_LOST,    /* done, but OUT_UNKNOWN; queries are answered */
    SWITCH_DROPPED, /* not done, and OUT_UNKNOWN; queries are answered */
    SWITCH_SILENT,  /* nothing is passed on, nothing answered until the mode changes; then OFF */
};

struct switched;
struct switched *switched_new(struct backend *inner, uv_loop_t *loop);
struct backend *switched_backend(struct switched *s);
void switched_set(struct switched *s, enum switched_mode mode);
void switched_lead(struct switched *s, bool leads); /* initially true */
/* The number of ops that reached the inner backend, and of all ops. */
size_t switched_passed(const struct switched *s, enum op_kind kind);
size_t switched_met(const struct switched *s, enum op_kind kind);
