/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks with high and low priority, /api/tasks: created, scheduled, claimed, kept alive by
 * heartbeats, completed or failed. docs/apis/tasks.md describes them.
 *
 * src/api/tasks may use what src/api may use (api.h); of the other APIs, only v1. */
#pragma once

#include "api/api.h"

extern const struct api tasks_api;
