/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions for programmer errors, on in release builds too. Never for what a client, a file or a
 * peer can cause. */
#pragma once

/* Prints what was expected and where, then aborts. */
__attribute__((noreturn, cold)) void check_failed(const char *what, const char *file, int line);

#define CHECK(condition)                                                                           \
    (__builtin_expect(!(condition), 0) ? check_failed(#condition, __FILE__, __LINE__) : (void)0)
