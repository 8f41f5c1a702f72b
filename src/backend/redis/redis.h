/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a Redis server that any number of nodes share.
 *
 * redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss:// for TLS; a Unix socket is named by ?socket=.
 * docs/redis.md has the parameters. */
#pragma once

#include "backend/backend_impl.h"

/* rest: the part of the URL after the scheme and its colon. Blocks until the server has answered
 * and the handshake has checked its settings. Changes nothing if it fails. */
MUST_CHECK int backend_open_redis(const char *rest, const struct backend_config *config,
                                  struct backend **ret, struct err_note *note);
MUST_CHECK int backend_open_rediss(const char *rest, const struct backend_config *config,
                                   struct backend **ret, struct err_note *note);
/* As backend_check. */
MUST_CHECK int backend_check_redis(const char *rest, const struct backend_config *config,
                                   struct err_note *note);
MUST_CHECK int backend_check_rediss(const char *rest, const struct backend_config *config,
                                    struct err_note *note);
