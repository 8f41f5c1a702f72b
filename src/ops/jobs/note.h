/* SPDX-License-Identifier: Apache-2.0 */
/* Annotations of a job (OP_NOTE): its label, attributes, result or error, but not its state. */
#pragma once

#include "ops/op.h"

/* The record of an annotation of the job with this sequence. */
void note_record(const struct op_note *want, uint64_t seq, struct record *ret);
