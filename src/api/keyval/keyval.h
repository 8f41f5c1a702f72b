/* SPDX-License-Identifier: Apache-2.0 */
/* The queue API of the keyval plugin, under /keyval/api: messages, dead letters, keys.
 * docs/apis/keyval.md describes it. */
#pragma once

#include "api/api.h"

extern const struct api keyval_api;
