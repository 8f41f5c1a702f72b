/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/system reads what the system says about itself: clocks, time zones, addresses, the
 * machine and this process. It may use src/base, GLib and system calls.
 *
 * Wall time (run_at, retention, what users see) and monotonic time (leases, waits) are different
 * types, so that mixing them does not compile. Both count milliseconds. Everything that needs the
 * time takes it as a value or reads an injected clock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct wall_time {
    int64_t ms; /* since 1970-01-01T00:00:00Z */
};

struct mono_time {
    int64_t ms; /* since some moment before the process started; never goes back */
};

struct now {
    struct mono_time mono;
    struct wall_time wall;
};

struct clock {
    struct now (*read)(void *ctx);
    void *ctx;
    bool manual; /* moved by hand: a leap is meant, not a process that stood still */
};

struct clock clock_system(void);
static inline struct now clock_now(const struct clock *c)
{
    return c->read(c->ctx);
}

/* A clock that moves only when told; wall and monotonic time may be moved apart. */
struct clock_manual {
    struct now at;
};
struct clock clock_manual(struct clock_manual *m);
void clock_manual_advance(struct clock_manual *m, int64_t ms);

/* RFC 3339, milliseconds, UTC: 2026-01-31T12:00:00.000Z. Years 0001 to 9999. */
#define WALL_TEXT_BYTES 25
void wall_text(struct wall_time t, char out[WALL_TEXT_BYTES]);
/* Accepts any RFC 3339 time stamp (offset, 0 to 9 fraction digits); -ERR_SYNTAX, -ERR_RANGE. */
int wall_parse(const char *text, uint64_t len, struct wall_time *ret);
/* Nanoseconds for measuring, not for rules. */
uint64_t clock_ns(void);
/* Processor time of a process, all its threads; -ERR_NOT_FOUND. */
int clock_cpu_ns(int64_t pid, uint64_t *ret);
