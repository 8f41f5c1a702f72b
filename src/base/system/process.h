/* SPDX-License-Identifier: Apache-2.0 */
/* The resources that this process uses, as reported by the kernel. */
#pragma once

#include <stdint.h>

struct process_figures {
    uint64_t resident_bytes; /* 0 = not known */
    uint64_t open_files;     /* descriptors; 0 = not known */
    uint64_t cpu_us;         /* user and system time of all threads */
};
/* Reads /proc/self; some microseconds, more with very many descriptors on older kernels. */
void process_figures(struct process_figures *ret);
