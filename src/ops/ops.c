/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/ops.h"

static const ops_fn functions[OP_KIND_COUNT] = {
    [OP_ENQUEUE] = ops_enqueue,
    [OP_KV_COMMIT] = ops_kv_commit,
    [OP_SCHEDULE_PUT] = ops_schedule_put,
    [OP_SCHEDULE_PAUSE] = ops_schedule_pause,
    [OP_SCHEDULE_DELETE] = ops_schedule_delete,
    [OP_FIRE] = ops_fire,
    [OP_TRIGGER] = ops_trigger,
    [OP_CLAIM] = ops_claim,
    [OP_ACK] = ops_ack,
    [OP_FAIL] = ops_fail,
    [OP_EXTEND] = ops_extend,
    [OP_RELEASE] = ops_release,
    [OP_PROGRESS] = ops_progress,
    [OP_LOG] = ops_log,
    [OP_STEP] = ops_step,
    [OP_RELEASE_CLAIM] = ops_release_claim,
    [OP_CANCEL] = ops_cancel,
    [OP_REQUEUE] = ops_requeue,
    [OP_PATCH] = ops_patch,
    [OP_REMOVE] = ops_remove,
    [OP_NOTE] = ops_note,
    [OP_DEPENDENCIES] = ops_dependencies,
    [OP_QUEUE_PUT] = ops_queue_put,
    [OP_QUEUE_DELETE] = ops_queue_delete,
    [OP_PAUSE] = ops_pause,
    [OP_PURGE] = ops_purge,
    [OP_BULK] = ops_bulk,
    [OP_ALERT_PUT] = ops_alert_put,
    [OP_ALERT_DELETE] = ops_alert_delete,
    [OP_ALERT_EDGE] = ops_alert_edge,
    [OP_NOTICE_TAKE] = ops_notice_take,
    [OP_NOTICE_END] = ops_notice_end,
    [OP_NOTICE_AGAIN] = ops_notice_again,
    [OP_NOTICE_DISCARD] = ops_notice_discard,
    [OP_BREAKER_PUT] = ops_breaker_put,
    [OP_BREAKER_DELETE] = ops_breaker_delete,
    [OP_BREAKER_ALLOW] = ops_breaker_allow,
    [OP_BREAKER_REPORT] = ops_breaker_report,
};

ops_fn ops_function(enum op_kind kind)
{
    return functions[kind];
}
