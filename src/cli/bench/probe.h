/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements besides a run: the speed of the disk, and the processor time of the server. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Writes 4 KiB to a new file in dir and calls fdatasync, repeatedly for ms milliseconds; *ret is
 * the number of calls per second. The file is removed afterwards. -ERR_IO with a sentence. */
MUST_CHECK int bench_probe_sync(const char *dir, int64_t ms, double *ret, struct err_note *note);
/* Processor time of a process up to now, all threads. -ERR_NOT_FOUND with a sentence. */
MUST_CHECK int bench_probe_cpu(int64_t pid, uint64_t *ret_ns, struct err_note *note);
