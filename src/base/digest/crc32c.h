/* SPDX-License-Identifier: Apache-2.0 */
/* The two implementations of crc32c() (hash.h), separate so that a test can compare them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* By tables, on any machine. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t len);
