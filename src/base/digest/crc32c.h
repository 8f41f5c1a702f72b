/* SPDX-License-Identifier: Apache-2.0 */
/* The two ways crc32c() of hash.h can go, apart so that a test can hold them against each other. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* By tables, on any machine. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t len);
