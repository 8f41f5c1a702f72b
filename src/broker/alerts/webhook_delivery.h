/* SPDX-License-Identifier: Apache-2.0 */
/* src/broker/alerts checks the conditions of alert rules and delivers notices. It may use the rest
 * of the broker and what the broker may use, and libcurl (webhook.c, curl_loop.c).
 *
 * Delivers the notices of the backend's outbox to their webhooks, and starts the checks of the
 * conditions of alert rules. Part of the broker. */
#pragma once

#include "broker/broker.h"

struct webhook_deliveries;
struct conditions;

/* Needs the broker's loop and backend. Nothing is checked before deliveries_begin. */
MUST_CHECK int deliveries_open(struct broker *b, const struct broker_webhooks *config,
                               struct webhook_deliveries **ret);
void deliveries_begin(struct webhook_deliveries *n);
/* Another operation has its reply: rules may have changed, notices may have been created. */
void deliveries_observe(struct webhook_deliveries *n, const struct op *op, const struct reply *r);
/* Takes what is due and checks every condition, then calls fn, perhaps before it returns. */
void deliveries_settle(struct webhook_deliveries *n, void (*fn)(void *ctx), void *ctx);
/* No more deliveries are started. */
void deliveries_drain(struct webhook_deliveries *n);
/* Ends the deliveries in progress (they will be repeated), then calls fn; n is freed before. */
void deliveries_close(struct webhook_deliveries *n, void (*fn)(void *ctx), void *ctx);
void deliveries_figures(const struct webhook_deliveries *n, struct broker_figures *ret);

/* ---- conditions.c ---- */

MUST_CHECK int conditions_open(struct broker *b, struct conditions **ret);
/* The rules may have changed. */
void conditions_changed(struct conditions *c);
/* Another node may have reported conditions: each is reported once more, whether it holds or
 * not. */
void conditions_report_again(struct conditions *c);
/* The queue has reached its warn_depth. */
void conditions_deep(struct conditions *c, struct span queue, uint64_t depth);
/* Checks every queue that a rule matches; calls fn when all resulting operations have their
 * replies, perhaps before it returns. NULL = not called. */
void conditions_pass(struct conditions *c, void (*fn)(void *ctx), void *ctx);
bool conditions_idle(const struct conditions *c); /* no operation is outstanding */
void conditions_stop(struct conditions *c);       /* starts no more operations */
void conditions_close(struct conditions *c);      /* must be idle */
