/* SPDX-License-Identifier: Apache-2.0 */
/* A kind of stream (net/stream.h) that splits and delays bytes in both directions, at random:
 *
 * - a read gives a part of what has come, keeps the rest (so `pending` matters), or gives nothing
 *   although there is something; now and then it waits until the socket can be written, as a TLS
 *   stream does in a handshake;
 * - a write takes a part, or nothing;
 * - a shutdown may have to be repeated.
 *
 * Nothing is lost, reordered or kept for ever, so every test must pass over it. */
#pragma once

#include "unit/base/support.h"

#include "net/stream.h"

/* The ctx of the kind. */
struct split_streams {
    struct random random;
    unsigned open;           /* streams */
    unsigned delays, splits; /* calls that gave less than they could have */
    bool refuse;             /* no more can be opened */
};
extern const struct net_stream_kind split_stream;

/* Runs each test three times: over plain streams, over split ones, and over TLS. HF_SEED repeats a
 * run. A test that is about what one read or one write does is marked plain_only; one whose clients
 * are sockets without TLS, or that counts memory, not_tls. */
int stream_tests_run(const char *group, const struct CMUnitTest *tests, size_t count);
extern const char stream_plain_only, stream_not_tls;
#define STREAM_TEST(name, f, mark)                                                                 \
    {                                                                                              \
        name, f, NULL, NULL, (void *)(uintptr_t) & (mark)                                          \
    }
#define cmocka_unit_test_plain_only(f) STREAM_TEST(#f, f, stream_plain_only)
#define cmocka_unit_test_not_tls(f) STREAM_TEST(#f, f, stream_not_tls)
#define RUN_OVER_STREAMS(tests) stream_tests_run(#tests, tests, COUNT_OF(tests))
/* What the test that runs now has to use; ctx: see net_config. */
const struct net_stream_kind *stream_under_test(void **ret_ctx);
