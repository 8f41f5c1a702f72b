/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/ops.h"

static const ops_fn functions[OP_KIND_COUNT] = {
    [OP_ENQUEUE] = ops_enqueue, [OP_KV_COMMIT] = ops_kv_commit,
    [OP_FIRE] = ops_fire,       [OP_TRIGGER] = ops_trigger,
    [OP_CLAIM] = ops_claim,     [OP_ACK] = ops_ack,
    [OP_FAIL] = ops_fail,       [OP_EXTEND] = ops_extend,
    [OP_RELEASE] = ops_release, [OP_RELEASE_CLAIM] = ops_release_claim,
    [OP_CANCEL] = ops_cancel,   [OP_REQUEUE] = ops_requeue,
    [OP_PATCH] = ops_patch,     [OP_REMOVE] = ops_remove,
    [OP_NOTE] = ops_note,
};

ops_fn ops_function(enum op_kind kind)
{
    return functions[kind];
}
