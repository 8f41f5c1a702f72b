/* SPDX-License-Identifier: Apache-2.0 */
/* The resources of the process: more descriptors, more memory and more time are reported. */
#include "unit/base/support.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/process.h"

static void descriptors_are_counted(void **state)
{
    (void)state;
    struct process_figures before, after;
    process_figures(&before);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    process_figures(&after);
    close(fd);
    assert_int_equal(after.open_files, before.open_files + 1);
    assert_true(before.open_files >= 3);
}

static void memory_and_time_are_seen(void **state)
{
    (void)state;
    struct process_figures before, after;
    size_t size = (size_t)64 << 20;
    process_figures(&before);
    char *memory = malloc(size);
    assert_non_null(memory);
    memset(memory, 1, size);
    do
        process_figures(&after);
    while (after.cpu_us < before.cpu_us + 1000);
    free(memory);
    assert_true(before.resident_bytes > 0);
    assert_true(after.resident_bytes >= before.resident_bytes + size / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_are_counted),
        cmocka_unit_test(memory_and_time_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
