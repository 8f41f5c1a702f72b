/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of what a shared store returns. The store may be damaged, changed by hand, or created
 * by another program, so values are accepted only within the limits that this program itself keeps.
 * An invalid row of a job counts as not found. An invalid queue, time or new number ends the unit.
 * A value that can do no harm except to be displayed is clamped to its limits. */
#pragma once

#include "backend/shared/unit.h"

bool sound_row(const struct row *r);
bool sound_queue(const struct wqueue *q);
/* The time of a unit, and the sequences, numbers of queues and versions it was given. */
bool sound_drawn(const struct unit *u);

int64_t sound_time(int64_t ms); /* 0 … LIMIT_WALL_MS */
int64_t sound_sum(int64_t n); /* may be negative; limited so that adding several cannot overflow */
uint64_t sound_count(int64_t n);  /* not negative */
uint64_t sound_seq(uint64_t seq); /* 0 (no job) if it exceeds LIMIT_SEQ */
/* The value of an enum with this many members; 0 if it is out of range. */
uint8_t sound_kind(int64_t value, unsigned count);
