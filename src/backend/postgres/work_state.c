/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/postgres/work_state.h"

#include "base/check.h"

#define TO(state) (1u << WORK_STATE_##state)

/* The states that may follow each. */
static const unsigned allowed[WORK_STATE_COUNT] = {
    [WORK_STATE_IDLE] = TO(READING) | TO(LEAVING),
    [WORK_STATE_READING] =
        TO(COMMITTING) | TO(READ_UNSENT) | TO(REFUSING) | TO(RETRYING) | TO(IDLE),
    [WORK_STATE_COMMITTING] =
        TO(READING) | TO(COMMIT_UNSENT) | TO(REFUSING) | TO(RETRYING) | TO(IDLE),
    [WORK_STATE_READ_UNSENT] = TO(IDLE),
    [WORK_STATE_COMMIT_UNSENT] = TO(IDLE),
    [WORK_STATE_REFUSING] = TO(IDLE),
    [WORK_STATE_RETRYING] = TO(READING) | TO(IDLE),
    [WORK_STATE_LEAVING] = 0,
};

void work_move(struct work_progress *p, enum work_state to)
{
    CHECK(to < WORK_STATE_COUNT && allowed[p->state] & (1u << to));
    p->state = to;
}

void work_begin(struct work_progress *p, enum pg_work work)
{
    work_move(p, work == WORK_LEAVE ? WORK_STATE_LEAVING : WORK_STATE_READING);
    p->work = work;
}

void work_end(struct work_progress *p)
{
    work_move(p, WORK_STATE_IDLE);
    *p = (struct work_progress){.work = WORK_NONE};
}

void work_pass_on(struct work_progress *p)
{
    if (p->state != WORK_STATE_READING) /* it only read */
        work_move(p, WORK_STATE_READING);
    p->tries = 0;
}
