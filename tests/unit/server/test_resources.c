/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that follow the machine (HF-19), and those that the settings name. */
#include "unit/base/support.h"

#include <sys/resource.h>

#include "server/resources.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct resources derived(uint32_t connections, uint32_t per_address, uint64_t memory,
                                uint64_t descriptors, uint64_t machine)
{
    struct config_limits limits = {.connections = connections,
                                   .connections_per_address = per_address,
                                   .memory_bytes = memory,
                                   .large_body_bytes = 64 * MIB};
    struct resources r;
    resources_derive(&limits, descriptors, machine, &r);
    return r;
}

static void connections_follow_descriptors(void **state)
{
    (void)state;
    static const struct {
        uint64_t descriptors;
        uint32_t connections, per_address;
    } rows[] = {
        {1024, 768, 576}, {20000, 19744, 14808}, {20256, 20000, 15000}, {UINT64_MAX, 20000, 15000},
        {300, 44, 33},    {272, 16, 12},         {0, 16, 12},           {319, 63, 48},
        {320, 64, 48},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct resources r = derived(0, 0, 0, rows[i].descriptors, GIB);
        assert_int_equal(r.connections, rows[i].connections);
        assert_int_equal(r.connections_per_address, rows[i].per_address);
        assert_int_equal(r.few_descriptors, r.connections < 64); /* for defaults only then */
    }
}

static void settings_win(void **state)
{
    (void)state;
    struct resources r = derived(1000, 0, 5 * MIB, 1064, GIB);
    assert_int_equal(r.connections, 1000);
    assert_int_equal(r.connections_per_address, 750);
    assert_int_equal(r.memory_bytes, 5 * MIB);
    assert_false(r.few_descriptors);
    r = derived(1000, 2000, 0, 1063, GIB);
    assert_int_equal(r.connections_per_address, 2000);
    assert_true(r.few_descriptors);
}

static void memory_follows_the_machine(void **state)
{
    (void)state;
    assert_int_equal(derived(0, 0, 0, 1024, 8 * GIB).memory_bytes, GIB);
    assert_int_equal(derived(0, 0, 0, 1024, 256 * MIB).memory_bytes, 128 * MIB);
    assert_int_equal(derived(0, 0, 0, 1024, 1024 * GIB).memory_bytes, 2 * GIB);
    struct config_limits limits = {.large_body_bytes = 3 * GIB};
    struct resources r;
    resources_derive(&limits, 1024, GIB, &r);
    assert_int_equal(r.memory_bytes, 6 * GIB);
}

static void descriptors_are_raised(void **state)
{
    (void)state;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t most = limit.rlim_max;
    limit.rlim_cur = 256;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(resources_raise_descriptors(), most);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limit.rlim_cur, most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_follow_descriptors),
        cmocka_unit_test(settings_win),
        cmocka_unit_test(memory_follows_the_machine),
        cmocka_unit_test(descriptors_are_raised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
