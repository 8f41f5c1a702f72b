/* SPDX-License-Identifier: Apache-2.0 */
/* The queue API of the keyval plugin, under /keyval/api: messages, dead letters, keys. What it maps
 * to and what it mends is in docs/apis/keyval.md. */
#pragma once

#include "api/api.h"

extern const struct api keyval_api;
