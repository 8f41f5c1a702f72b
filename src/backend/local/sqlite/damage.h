/* SPDX-License-Identifier: Apache-2.0 */
/* Batches that must change a damaged page.
 *
 * When a page fails its checksum, SQLite rolls back the whole transaction. No statement may follow
 * an error in a batch: it would commit by itself, including the new position. The batch is
 * therefore repeated from its beginning, and from then on, until the server has started again:
 *
 *   - removed jobs are only marked, and no rows are deleted (sqlite/gone.h);
 *   - a payload that is to be copied or replaced is first read on another connection. What cannot
 *     be read is not changed: the key gets a damaged value, and a new payload is dropped, so that
 *     the job becomes dead with the reason `damaged` when it is claimed.
 *
 * Everything else in the batch is applied. A batch that still fails, for example because the page
 * on which new payloads are stored is damaged, stops the server. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct store_sqlite;

/* To be called after a transaction failed with rc. 0: a damaged page made SQLite roll it back, for
 * the first time; this has been logged, and the transaction may be repeated. Otherwise rc. */
MUST_CHECK int damage_met(struct store_sqlite *q, int rc, const struct err_note *note);
/* Whether the row of the job's payload must not be changed. Always false before damage was
 * found. */
MUST_CHECK int damage_payload(struct store_sqlite *q, uint64_t seq, bool *ret,
                              struct err_note *note);
/* Logs that the job's new payload was dropped. */
void damage_dropped(const struct store_sqlite *q, uint64_t seq);
void damage_done(struct store_sqlite *q);
