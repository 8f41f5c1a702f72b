/* SPDX-License-Identifier: Apache-2.0 */
/* The signals of the fault wrapper: those of the inner backend, some of them late, and some
 * spurious ones. Only fault*.c include this. */
#pragma once

#include "base/digest/random.h"
#include "wrappers/fault.h"

struct fault_watch;

struct fault_signals {
    const struct fault_config *config;
    struct random
        random; /* used when a signal arrives, so it is not the generator of the submits */
    struct fault_watch *watches;
    size_t watch_count;
    unsigned spurious; /* signals to send, one per iteration */
    uint64_t turn;
    void (*wanted)(void *ctx); /* something is held: call signals_turn in each iteration */
    void *ctx;
};

void signals_init(struct fault_signals *s, const struct fault_config *config,
                  void (*wanted)(void *ctx), void *ctx);
/* Frees the watches that were not removed; the inner backend is already closed. */
void signals_done(struct fault_signals *s);
MUST_CHECK int signals_watch(struct fault_signals *s, struct backend *inner, struct span queue,
                             backend_signal_fn fn, void *ctx, struct backend_watch **ret);
/* inner is NULL once it is closed. */
void signals_unwatch(struct fault_signals *s, struct backend *inner, struct backend_watch *handle);
/* Sends a signal without a job to some watch in the next iteration. */
void signals_make_up(struct fault_signals *s);
/* Sends the signals that are due; callbacks may watch and unwatch. Returns whether any is still
 * held. */
bool signals_turn(struct fault_signals *s);
