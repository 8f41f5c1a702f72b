/* SPDX-License-Identifier: Apache-2.0 */
/* src/ops/kv has the commits of the key-value store. Like all of src/ops it may use core and base.
 *
 * What a request to the key-value store must be like, whatever the store: checked before anything
 * is looked up. */
#pragma once

#include "base/containers/arena.h"
#include "ops/op.h"

/* How many enqueues the commit may have. */
uint32_t kv_enqueues_max(const struct op_kv_commit *want);
/* OUT_OK, or why not; *note is then the sentence, or NULL. OUT_UNAVAILABLE: no memory. */
enum outcome kv_commit_right(const struct op_kv_commit *want, struct arena *arena,
                             const char **note);
enum outcome kv_keys_right(const struct span *keys, uint32_t count, const char **note);
/* A payload, result or value: its kind, and that it has no more than max bytes. */
enum outcome kv_body_right(uint8_t kind, struct span body, uint64_t max, const char **note);
