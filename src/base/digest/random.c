/* SPDX-License-Identifier: Apache-2.0 */
/* xoshiro256** for what a seed must reproduce, getrandom(2) for what must not be guessed. */
#include "base/digest/random.h"

#include <errno.h>
#include <sys/random.h>

#include "base/check.h"

/* SplitMix64 spreads the seed over the state, so that near seeds give unrelated runs. */
void random_seed(struct random *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        r->state[i] = z ^ (z >> 31);
    }
}

static uint64_t rotl(uint64_t v, int by)
{
    return (v << by) | (v >> (64 - by));
}

uint64_t random_next(struct random *r)
{
    uint64_t *s = r->state;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

/* The high half of a 128-bit product is even over 0 … limit-1, once the few low halves that would
 * favour some results are thrown away. */
uint64_t random_below(struct random *r, uint64_t limit)
{
    CHECK(limit > 0);
    unsigned __int128 product = (unsigned __int128)random_next(r) * limit;
    if ((uint64_t)product < limit) {
        uint64_t unfair = -limit % limit;
        while ((uint64_t)product < unfair)
            product = (unsigned __int128)random_next(r) * limit;
    }
    return (uint64_t)(product >> 64);
}

int64_t random_between(struct random *r, int64_t low, int64_t high)
{
    CHECK(low <= high);
    uint64_t width = (uint64_t)high - (uint64_t)low + 1;
    uint64_t offset = width == 0 ? random_next(r) : random_below(r, width);
    return (int64_t)((uint64_t)low + offset);
}

int random_chance(struct random *r, unsigned percent)
{
    return random_below(r, 100) < percent;
}

int random_bytes(void *out, size_t len)
{
    char *at = out;
    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -ERR_IO;
        at += got;
        len -= (size_t)got;
    }
    return 0;
}
