/* SPDX-License-Identifier: Apache-2.0 */
/* The signals of the fault wrapper: the inner backend's, some of them late, and some made up. Only
 * fault*.c include this. */
#pragma once

#include "base/digest/random.h"
#include "wrappers/fault.h"

struct fault_watch;

struct fault_signals {
    const struct fault_config *config;
    struct random random; /* drawn from when a signal comes, so apart from the submits' */
    struct fault_watch *watches;
    size_t watch_count;
    unsigned spurious; /* to be given, one a turn */
    uint64_t turn;
    void (*wanted)(void *ctx); /* something is held back: please call signals_turn each turn */
    void *ctx;
};

void signals_init(struct fault_signals *s, const struct fault_config *config,
                  void (*wanted)(void *ctx), void *ctx);
/* Frees the watches that nobody gave back; the inner backend is closed by then. */
void signals_done(struct fault_signals *s);
MUST_CHECK int signals_watch(struct fault_signals *s, struct backend *inner, struct span queue,
                             backend_signal_fn fn, void *ctx, struct backend_watch **ret);
/* inner is NULL once it is closed. */
void signals_unwatch(struct fault_signals *s, struct backend *inner, struct backend_watch *handle);
/* A signal without a job, to some watch, in the next turn. */
void signals_make_up(struct fault_signals *s);
/* Gives what is due; callbacks may watch and unwatch. Returns whether something is still held. */
bool signals_turn(struct fault_signals *s);
