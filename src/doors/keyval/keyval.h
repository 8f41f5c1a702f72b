/* SPDX-License-Identifier: Apache-2.0 */
/* The queue API of the keyval plugin, under /keyval/api: messages, dead letters, keys. What it maps
 * to and what it mends is in docs/doors/keyval.md. */
#pragma once

#include "doors/door.h"

extern const struct door keyval_door;
