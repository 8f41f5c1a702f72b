/* SPDX-License-Identifier: Apache-2.0 */
/* What this process takes of the machine, as the kernel tells it. */
#pragma once

#include <stdint.h>

struct process_figures {
    uint64_t resident_bytes; /* 0 = not known */
    uint64_t open_files;     /* descriptors; 0 = not known */
    uint64_t cpu_us;         /* user and system time of all threads */
};
/* Reads /proc/self; some microseconds, more with very many descriptors on older kernels. */
void process_figures(struct process_figures *ret);
