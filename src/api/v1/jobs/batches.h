/* SPDX-License-Identifier: Apache-2.0 */
/* Several jobs that are enqueued in one commit, all or none. */
#pragma once

#include "api/v1/jobs/batch.h"

/* Submits the enqueues of a list whose jobs refer to each other, and answers as for a list of
 * jobs; a refusal of one is that of the request. All operations of the batch are enqueues. */
void batch_commit(struct batch *b);
