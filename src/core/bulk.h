/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of bulk actions, the same on every store and in every API.
 *
 * A requeue without states concerns the dead jobs. A cancel or a remove must name its states:
 * otherwise the default would be every job of the queue. */
#pragma once

#include <stdint.h>

#include "base/span.h"
#include "core/records/record.h"

#define BULKS_MAX                                                                                  \
    64 /* under way at the same time; the text of the refusal says this number, too                \
        */

/* NULL, or a sentence that says why the request is refused. It begins with the name of the member
 * that is wrong. `states` is a mask; 0 = none are named. */
const char *bulk_refusal(uint8_t action, unsigned states, struct span group, struct span kind);
/* The states from which the action can take jobs, as a mask. */
unsigned bulk_states_from(enum bulk_action action);
/* The states that are used if none are named; 0 = they must be named. */
unsigned bulk_states_default(enum bulk_action action);
/* The states that an accepted request concerns: those named, or the default, without those from
 * which the action cannot take jobs. */
unsigned bulk_states_meant(enum bulk_action action, unsigned states);
