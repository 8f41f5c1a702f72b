/* SPDX-License-Identifier: Apache-2.0 */
/* The URL of a webhook: what it may contain, and its target (scheme, host, port). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "core/limits.h"

struct webhook_url {
    bool tls;
    bool literal;     /* the host is an IP address */
    struct span host; /* without brackets; in the url's bytes */
    uint16_t port;
};

/* http or https, a host, no user or password, no fragment, printable ASCII, at most
 * LIMIT_URL_BYTES. The note says what is wrong. Spans point into the text. */
MUST_CHECK int webhook_url_parse(struct span text, struct webhook_url *ret, struct err_note *note);

#define WEBHOOK_TARGET_BYTES 288
/* "https://hooks.example:443": the target of a breaker. Host in lower case. Returns its length. */
size_t webhook_target(const struct webhook_url *url, char out[WEBHOOK_TARGET_BYTES]);
