/* SPDX-License-Identifier: Apache-2.0 */
/* The reserve file: created while there is room, removed, created again; lack of room is told from
 * other obstacles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/local/store/disk_reserve.h"
#include "unit/backend/local/sqlite/store_rig.h"

#define BYTES (UINT64_C(64) << 10)
#define MORE_THAN_ANY_DISK (UINT64_C(1) << 60)

/* Bytes on the disk; -1: it is not there. */
static int64_t on_disk(const struct rig_dir *dir)
{
    char path[4096];
    struct stat st;
    snprintf(path, sizeof path, "%s/reserve", dir->base);
    return stat(path, &st) == 0 ? (int64_t)st.st_blocks * 512 : -1;
}

static void test_there_and_back(void **state)
{
    (void)state;
    struct rig_dir dir;
    struct disk_reserve *b;
    rig_dir_make(&dir);
    assert_int_equal(disk_reserve_open(dir.base, BYTES, &b), 0);
    assert_int_equal(on_disk(&dir), -1);
    assert_false(disk_reserve_remove(b));
    disk_reserve_create(b);
    assert_false(disk_reserve_lacks_room(b));
    assert_true(on_disk(&dir) >= (int64_t)BYTES);
    disk_reserve_close(b);

    assert_int_equal(disk_reserve_open(dir.base, BYTES, &b), 0); /* found again */
    assert_true(disk_reserve_remove(b));
    assert_int_equal(on_disk(&dir), -1);
    assert_true(disk_reserve_lacks_room(b)); /* until somebody looks */
    disk_reserve_create(b);
    assert_false(disk_reserve_lacks_room(b));
    assert_true(on_disk(&dir) >= (int64_t)BYTES);
    disk_reserve_close(b);
    rig_dir_remove(&dir);
}

/* Neither made nor taken for one through a link: the file that it names is not ours. */
static void test_a_link_is_not_followed(void **state)
{
    (void)state;
    struct rig_dir dir;
    struct disk_reserve *b;
    char path[4096];
    rig_dir_make(&dir);
    snprintf(path, sizeof path, "%s/reserve", dir.base);
    assert_int_equal(symlink("elsewhere", path), 0);
    assert_int_equal(disk_reserve_open(dir.base, BYTES, &b), 0);
    disk_reserve_create(b);
    assert_int_equal(on_disk(&dir), -1); /* what the link names */
    assert_false(disk_reserve_remove(b));
    disk_reserve_close(b);
    assert_int_equal(unlink(path), 0);
    rig_dir_remove(&dir);
}

static void test_no_room(void **state)
{
    (void)state;
    struct rig_dir dir;
    struct disk_reserve *b;
    rig_dir_make(&dir);
    assert_int_equal(disk_reserve_open(dir.base, MORE_THAN_ANY_DISK, &b), 0);
    assert_false(disk_reserve_lacks_room(b)); /* not checked yet */
    disk_reserve_create(b);
    assert_true(disk_reserve_lacks_room(b));
    assert_true(disk_reserve_room(b) < MORE_THAN_ANY_DISK);
    assert_int_equal(on_disk(&dir), -1);
    disk_reserve_close(b);
    rig_dir_remove(&dir);
}

/* A directory that is gone says nothing about room. */
static void test_other_obstacles(void **state)
{
    (void)state;
    struct disk_reserve *b;
    assert_int_equal(disk_reserve_open("/nonexistent", BYTES, &b), 0);
    disk_reserve_create(b);
    assert_false(disk_reserve_lacks_room(b));
    assert_true(disk_reserve_room(b) == UINT64_MAX);
    disk_reserve_close(b);
    disk_reserve_create(NULL);
    assert_false(disk_reserve_remove(NULL) || disk_reserve_lacks_room(NULL));
    assert_true(disk_reserve_room(NULL) == UINT64_MAX);
    disk_reserve_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_a_link_is_not_followed),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_other_obstacles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
