/* SPDX-License-Identifier: Apache-2.0 */
/* The system's clocks and the manual one. Text forms are in clock_text.c. */
#include "base/system/clock.h"

#include <limits.h>
#include <time.h>

#include "base/err.h"

static int64_t read_ms(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct now system_read(void *ctx)
{
    (void)ctx;
    return (struct now){
        .mono = {read_ms(CLOCK_MONOTONIC)},
        .wall = {read_ms(CLOCK_REALTIME)},
    };
}

struct clock clock_system(void)
{
    return (struct clock){.read = system_read};
}

static struct now manual_read(void *ctx)
{
    const struct clock_manual *m = ctx;
    return m->at;
}

struct clock clock_manual(struct clock_manual *m)
{
    return (struct clock){.read = manual_read, .ctx = m, .manual = true};
}

void clock_manual_advance(struct clock_manual *m, int64_t ms)
{
    m->at.mono.ms += ms;
    m->at.wall.ms += ms;
}

uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int clock_cpu_ns(int64_t pid, uint64_t *ret)
{
    clockid_t clock;
    struct timespec t;
    if (pid <= 0 || pid > INT_MAX || clock_getcpuclockid((pid_t)pid, &clock) != 0 ||
        clock_gettime(clock, &t) < 0)
        return -ERR_NOT_FOUND;
    *ret = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return 0;
}
