/* SPDX-License-Identifier: Apache-2.0 */
/* A backend that passes everything on to another one and prints it (trace.c). */
#pragma once

#include <stdio.h>

#include "backend/backend_impl.h"

/* Writes one line for each op and each reply (kinds, tags, sequences, outcomes; never payloads).
 * Takes ownership of inner, also on failure. */
MUST_CHECK int backend_open_trace(struct backend *inner, const struct backend_config *config,
                                  FILE *out, struct backend **ret);
