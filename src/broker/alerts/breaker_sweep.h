/* SPDX-License-Identifier: Apache-2.0 */
/* Deletes named breakers that have not been used for a long time. Part of the broker. */
#pragma once

#include "broker/broker.h"

struct breaker_sweep;

/* idle is called each time a pass has ended. */
MUST_CHECK int breaker_sweep_open(struct broker *b, void (*idle)(void *ctx), void *ctx,
                                  struct breaker_sweep **ret);
/* Starts a pass, unless the last one started less than an hour ago. */
void breaker_sweep_pass(struct breaker_sweep *s);
bool breaker_sweep_idle(const struct breaker_sweep *s); /* no operation is outstanding */
void breaker_sweep_close(struct breaker_sweep *s);      /* must be idle; NULL is allowed */
