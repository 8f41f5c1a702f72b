/* SPDX-License-Identifier: Apache-2.0 */
/* Outgoing HTTP: POST requests to addresses that users have chosen.
 *
 * It must not be possible to reach internal addresses this way. The name is resolved once, every
 * address it has is checked, and the connection goes to the address that was checked. Redirects are
 * not followed, proxies of the environment are ignored, and only http and https are used. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/span.h"
#include "base/system/ip.h"

/* A target that may be called although its address is not public: a block, or a host by its
 * name. */
struct webhook_allow {
    struct ip_block block;
    const char *host; /* NULL = the block; borrowed */
};

struct webhook_policy {
    bool allow_private; /* every address may be called */
    const struct webhook_allow *allow;
    size_t allow_count;
    uint32_t timeout_ms;
};

/* Parses the text of the setting: "10.0.0.0/8", "192.168.1.7", "hooks.internal". The text is
 * borrowed. */
MUST_CHECK int webhook_allow_parse(const char *text, struct webhook_allow *ret,
                                   struct err_note *note);
/* NULL: the address may be called. Otherwise why not, as a static text. */
const char *webhook_refused(const struct webhook_policy *policy, struct span host,
                            const struct ip_address *address);

struct webhook_result {
    bool reached;      /* the target was called, or would have been without a network error */
    uint16_t status;   /* 0 = no response */
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
/* done is called once, never before this returns, and not after webhooks_close. -ERR_NOMEM,
 * -ERR_INVALID: not a URL. */
MUST_CHECK int webhooks_send(struct webhooks *w, const struct webhook_post *post);
/* Ends the calls in progress, then calls fn; w is freed before. */
void webhooks_close(struct webhooks *w, void (*fn)(void *ctx), void *ctx);
