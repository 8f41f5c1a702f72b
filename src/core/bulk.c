/* SPDX-License-Identifier: Apache-2.0 */
#include "core/bulk.h"

#include "core/jobs/state.h"
#include "core/limits.h"
#include "core/validate.h"

static const struct {
    enum job_move move;
    unsigned states; /* used if none are named; 0 = they must be named */
} actions[] = {
    [BULK_REQUEUE] = {MOVE_REQUEUE, STATE_BIT(STATE_DEAD)},
    [BULK_CANCEL] = {MOVE_CANCEL, 0},
    [BULK_REMOVE] = {MOVE_REMOVE, 0},
    [BULK_CANCEL_NOW] = {MOVE_CANCEL, 0},
};

const char *bulk_refusal(uint8_t action, unsigned states, struct span group, struct span kind)
{
    struct err_note note;
    if (action < BULK_REQUEUE || action > BULK_CANCEL_NOW)
        return "action must be requeue, cancel or remove";
    if (states == 0 && bulk_states_default((enum bulk_action)action) == 0)
        return "states is missing: a cancel or a remove must name the states of its jobs";
    if (group.len > 0 && validate_text("group", group, LIMIT_KEY_BYTES, &note) != 0)
        return "group is too long or not valid UTF-8";
    if (kind.len > 0 && validate_text("kind", kind, LIMIT_KIND_BYTES, &note) != 0)
        return "kind is too long or not valid UTF-8";
    return NULL;
}

unsigned bulk_states_from(enum bulk_action action)
{
    unsigned states = 0;
    for (unsigned s = STATE_SCHEDULED; s < STATE_COUNT; s++)
        if (move_starts_from(actions[action].move, (enum job_state)s))
            states |= STATE_BIT(s);
    return states;
}

unsigned bulk_states_default(enum bulk_action action)
{
    return actions[action].states;
}

unsigned bulk_states_meant(enum bulk_action action, unsigned states)
{
    return (states ? states : bulk_states_default(action)) & bulk_states_from(action);
}
