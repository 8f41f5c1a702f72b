/* SPDX-License-Identifier: Apache-2.0 */
/* Outgoing HTTP: one POST at a time to an address that somebody else chose.
 *
 * So nobody is called who must not be. The name is looked up once, every address it has is checked,
 * and the connection goes to the one that was checked. Redirects are not followed, proxies of the
 * environment are ignored, only http and https are spoken. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/span.h"
#include "base/system/ip.h"

/* Somebody who may be called although the address is not public: a block, or a host by its name. */
struct webhook_allow {
    struct ip_block block;
    const char *host; /* NULL = the block; borrowed */
};

struct webhook_policy {
    bool allow_private; /* everybody may be called */
    const struct webhook_allow *allow;
    size_t allow_count;
    uint32_t timeout_ms;
};

/* From the text of the setting: "10.0.0.0/8", "192.168.1.7", "hooks.internal". The text is
 * borrowed. */
MUST_CHECK int webhook_allow_parse(const char *text, struct webhook_allow *ret,
                                   struct err_note *note);
/* NULL: the address may be called. Else why not; a static text. */
const char *webhook_refused(const struct webhook_policy *policy, struct span host,
                            const struct ip_address *address);

struct webhook_result {
    bool reached;      /* somebody was called, or would have been but for the network */
    uint16_t status;   /* 0 = no answer */
    const char *error; /* a sentence, unless the status is 2xx; valid during the call */
};

struct webhook_header {
    const char *name, *value;
};

struct webhook_post {
    struct span url, body;                /* copied */
    const struct webhook_header *headers; /* copied */
    size_t header_count;
    void (*done)(void *ctx, const struct webhook_result *result);
    void *ctx;
};

struct webhooks;
/* The policy is copied, what it points to is borrowed. -ERR_NOMEM. */
MUST_CHECK int webhooks_open(uv_loop_t *loop, const struct webhook_policy *policy,
                             struct webhooks **ret);
/* done is called once, never before this returns, not at all after webhooks_close. -ERR_NOMEM,
 * -ERR_INVALID: the URL is none. */
MUST_CHECK int webhooks_send(struct webhooks *w, const struct webhook_post *post);
/* Cuts off what is under way, then calls fn; w is gone then. */
void webhooks_close(struct webhooks *w, void (*fn)(void *ctx), void *ctx);
