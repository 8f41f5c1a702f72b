/* SPDX-License-Identifier: Apache-2.0 */
/* Tells AddressSanitizer which bytes of a pool are not handed out; nothing in other builds. */
#pragma once

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define POISON_ON 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define POISON_ON 1
#endif

#ifdef POISON_ON
#include <sanitizer/asan_interface.h>
#define POISON(at, size) __asan_poison_memory_region((at), (size))
#define UNPOISON(at, size) __asan_unpoison_memory_region((at), (size))
#else
#define POISON(at, size) ((void)(at), (void)(size))
#define UNPOISON(at, size) ((void)(at), (void)(size))
#endif
