/* SPDX-License-Identifier: Apache-2.0 */
/* What the log tells when a store has failed for good: true for each kind of error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "server/fatal.h"

static void damage_does_not_repair_itself(void **state)
{
    (void)state;
    const char *advice = fatal_advice(-ERR_CORRUPT);
    assert_non_null(strstr(advice, "does not repair itself"));
    assert_non_null(strstr(advice, "holdfast export --data"));
    assert_null(strstr(advice, "start again"));
}

static void each_error_has_advice(void **state)
{
    (void)state;
    for (int error = 0; error < ERR_COUNT; error++)
        assert_true(strlen(fatal_advice(-error)) > 20);
    assert_non_null(strstr(fatal_advice(-ERR_IO), "kernel's log"));
    assert_non_null(strstr(fatal_advice(-ERR_NO_SPACE), "free disk space"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(damage_does_not_repair_itself),
                                       cmocka_unit_test(each_error_has_advice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
