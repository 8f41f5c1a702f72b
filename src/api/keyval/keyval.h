/* SPDX-License-Identifier: Apache-2.0 */
/* The queue API of the keyval plugin, under /keyval/api: messages, dead letters, keys.
 * docs/apis/keyval.md describes it.
 *
 * src/api/keyval may use what src/api may use (api.h); of the other APIs, only v1. */
#pragma once

#include "api/api.h"

extern const struct api keyval_api;
