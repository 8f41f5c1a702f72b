/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/record_events.h"

/* Events about queues, keys, alerts and schedules come from where these change. */
const uint8_t record_event_kinds[UINT8_MAX + 1] = {
    [REC_JOB_NEW] = 1 + EVENT_ENQUEUED,
    [REC_JOB_READY] = 1 + EVENT_READY,
    [REC_JOB_CLAIMED] = 1 + EVENT_CLAIMED,
    [REC_JOB_BACK] = 1 + EVENT_RELEASED,
    [REC_JOB_DONE] = 1 + EVENT_DONE,
    [REC_JOB_DEAD] = 1 + EVENT_DEAD,
    [REC_JOB_CANCELLED] = 1 + EVENT_CANCELLED,
    [REC_JOB_REQUEUED] = 1 + EVENT_REQUEUED,
    [REC_JOB_PATCHED] = 1 + EVENT_PATCHED,
    [REC_JOB_CANCEL_REQUESTED] = 1 + EVENT_CANCEL_REQUESTED,
    [REC_JOB_PROGRESS] = 1 + EVENT_PROGRESS,
    [REC_JOB_UNBLOCKED] = 1 + EVENT_UNBLOCKED,
};

bool depth_warns(uint64_t warn_depth, uint64_t depth, bool *deep)
{
    if (*deep && (warn_depth == 0 || depth < warn_depth - warn_depth / 10))
        *deep = false;
    if (*deep || warn_depth == 0 || depth < warn_depth)
        return false;
    *deep = true;
    return true;
}
