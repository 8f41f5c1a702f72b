/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers the notices of the backend's outbox to their webhooks, and has the conditions of alert
 * rules looked at. Part of the broker. */
#pragma once

#include "broker/broker.h"

struct webhook_deliveries;
struct conditions;

/* Needs the broker's loop and backend. Nothing is looked at before deliveries_begin. */
MUST_CHECK int deliveries_open(struct broker *b, const struct broker_webhooks *config,
                               struct webhook_deliveries **ret);
void deliveries_begin(struct webhook_deliveries *n);
/* An operation of somebody else's has been answered: rules may have changed, notices come. */
void deliveries_observe(struct webhook_deliveries *n, const struct op *op, const struct reply *r);
/* Takes what is due and looks at every condition, then calls fn, perhaps before it returns. */
void deliveries_settle(struct webhook_deliveries *n, void (*fn)(void *ctx), void *ctx);
/* No more deliveries are begun. */
void deliveries_drain(struct webhook_deliveries *n);
/* Cuts off what is under way (it will be delivered again), then calls fn; n is gone then. */
void deliveries_close(struct webhook_deliveries *n, void (*fn)(void *ctx), void *ctx);
void deliveries_figures(const struct webhook_deliveries *n, struct broker_figures *ret);

/* ---- conditions.c ---- */

MUST_CHECK int conditions_open(struct broker *b, struct conditions **ret);
/* The rules may have changed. */
void conditions_changed(struct conditions *c);
/* Others may have told of conditions: each is told once more, whichever way it stands. */
void conditions_anew(struct conditions *c);
/* The queue has reached its warn_depth. */
void conditions_deep(struct conditions *c, struct span queue, uint64_t depth);
/* Looks at every queue that a rule is about; fn when all that follows from it is answered, perhaps
 * before it returns. NULL = nobody waits. */
void conditions_pass(struct conditions *c, void (*fn)(void *ctx), void *ctx);
bool conditions_idle(const struct conditions *c); /* no operation is under way */
void conditions_stop(struct conditions *c);       /* makes no more operations */
void conditions_close(struct conditions *c);      /* must be idle */
