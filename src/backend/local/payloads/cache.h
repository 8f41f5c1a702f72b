/* SPDX-License-Identifier: Apache-2.0 */
/* src/backend/local/payloads keeps the bodies of jobs that will soon be claimed. It may use the
 * engine, the store, core and base.
 *
 * The bodies (payload and texts) of jobs that will soon be claimed, by sequence.
 *
 * A body stays at least until the record that created it is applied, because the store cannot
 * return it before. After that it stays while there is room. If there is no room, the newest body
 * is dropped, because the oldest job is claimed first. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/jobs/job.h"

struct cache;

MUST_CHECK int cache_new(uint64_t bytes_max, struct cache **ret);
void cache_free(struct cache *c); /* NULL is allowed */
/* Copies the body. If memory is short, the body is not cached. */
void cache_put(struct cache *c, uint64_t seq, uint64_t position, const struct job_extra *extra,
               struct span payload);
/* Spans stay valid until the entry is dropped; between cache_hold and cache_release they stay valid
 * in any case. */
bool cache_get(const struct cache *c, uint64_t seq, struct job_extra *extra, struct span *payload);
void cache_drop(struct cache *c, uint64_t seq);
void cache_hold(struct cache *c);
void cache_release(struct cache *c);
/* Records up to this position can now be read from the store. If memory is short, this drops the
 * bodies of jobs that are not wanted (will not be claimed soon), then the newest ones. */
typedef bool (*cache_wanted_fn)(void *ctx, uint64_t seq);
void cache_applied(struct cache *c, uint64_t position, cache_wanted_fn wanted, void *ctx);
uint64_t cache_bytes(const struct cache *c);
