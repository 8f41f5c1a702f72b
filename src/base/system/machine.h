/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the machine this process may use. */
#pragma once

#include <stdint.h>

/* Memory of the machine, or the smallest limit of the control groups that the process is in, if
 * that is less. */
uint64_t machine_memory_bytes(void);

/* The smallest memory limit of control groups (version 1 or 2): `membership` is a file like
 * /proc/self/cgroup, `root` the folder that they are mounted on. UINT64_MAX = no limit was found.
 */
uint64_t machine_cgroup_bytes(const char *membership, const char *root);
