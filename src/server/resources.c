/* SPDX-License-Identifier: Apache-2.0 */
#include "server/resources.h"

#include <sys/resource.h>

#include "base/budget.h"

/* Descriptors for other uses than client connections: files of the store, listeners, connections
 * to databases and webhooks, and a spare one. */
#define OTHER_DESCRIPTORS 256
#define LEAST_OTHERS                                                                               \
    64 /* the store cannot work with fewer than these in addition to the connections */
#define CONNECTIONS_MAX 20000
#define CONNECTIONS_MIN 16
#define CONNECTIONS_FEW 64 /* a smaller default leads to a warning */
#define MEMORY_LEAST (UINT64_C(128) << 20)

uint64_t resources_raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

static uint32_t connections_for(uint64_t descriptors)
{
    if (descriptors >= CONNECTIONS_MAX + OTHER_DESCRIPTORS)
        return CONNECTIONS_MAX;
    if (descriptors <= CONNECTIONS_MIN + OTHER_DESCRIPTORS)
        return CONNECTIONS_MIN;
    return (uint32_t)descriptors - OTHER_DESCRIPTORS;
}

/* Without access tokens all clients are on this machine, most of them behind 127.0.0.1: one address
 * may have three quarters. */
static uint32_t per_address_for(uint32_t connections)
{
    return connections - connections / 4;
}

/* Two of the largest bodies must fit. */
static uint64_t memory_for(const struct config_limits *limits, uint64_t machine_bytes)
{
    uint64_t bodies = 2 * limits->large_body_bytes;
    return budget_default(machine_bytes, bodies > MEMORY_LEAST ? bodies : MEMORY_LEAST);
}

void resources_derive(const struct config_limits *limits, uint64_t descriptors,
                      uint64_t machine_bytes, struct resources *ret)
{
    uint32_t connections = limits->connections;
    uint32_t per_address = limits->connections_per_address;
    *ret = (struct resources){
        .memory_bytes = limits->memory_bytes,
    };
    if (!ret->memory_bytes)
        ret->memory_bytes = memory_for(limits, machine_bytes);
    ret->connections = connections ? connections : connections_for(descriptors);
    ret->few_descriptors = connections ? descriptors < (uint64_t)connections + LEAST_OTHERS
                                       : ret->connections < CONNECTIONS_FEW;
    ret->connections_per_address = per_address ? per_address : per_address_for(ret->connections);
}
