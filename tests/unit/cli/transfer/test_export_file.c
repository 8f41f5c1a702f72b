/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of an export, and the file that appears when it is whole. */
#include "cli/transfer/export_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json/json.h"
#include "unit/base/support.h"

static char dir[64], name[96], part[112];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/holdfast-export-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(name, sizeof name, "%s/out", dir);
    snprintf(part, sizeof part, "%s.part", name);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    (void)unlink(name);
    (void)unlink(part);
    return rmdir(dir);
}

static bool there(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

static const char *content(void)
{
    static char text[1 << 16];
    int fd = open(name, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    assert_true(n >= 0);
    close(fd);
    text[n] = '\0';
    return text;
}

/* The first line of a file that has this. */
static const char *line_of(const char *view, bool queue)
{
    struct export_file f;
    struct err_note note = {""};
    assert_int_equal(export_open(&f, name, true, &note), 0);
    struct span v = span_text(view);
    assert_int_equal(queue ? export_queue(&f, v, &note) : export_job(&f, v, &note), 0);
    assert_int_equal(export_end(&f, 0, &note), 0);
    export_close(&f);
    static char line[1024];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(content(), "\n"), content());
    assert_int_equal(json_check(span_text(line), NULL, NULL), 0);
    return line;
}

static void jobs(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"{\"id\":\"a\",\"uuid\":\"u\",\"payload_bytes\":3,\"payload\":[1]}",
         "{\"job\":{\"id\":\"a\",\"payload\":[1]}}"},
        {"{\"payload_bytes\":0,\"payload\":null}", "{\"job\":{}}"},
        {"{\"payload_bytes\":4,\"payload\":null}", "{\"job\":{\"payload\":null}}"},
        {"{\"payload_bytes\":9,\"payload\":{\n\"a\":1}}",
         "{\"job\":{\"payload_json\":\"{\\n\\\"a\\\":1}\"}}"},
        {"{\"payload_bytes\":9,\"payload\":[1,\r2]}", "{\"job\":{\"payload_json\":\"[1,\\r2]\"}}"},
        {"{\"result\":[\n]}", "{\"job\":{\"result_json\":\"[\\n]\"}}"},
        {"{\"attributes\":{\n\"a\":1},\"error\":null}", "{\"job\":{\"attributes\":{ \"a\":1}}}"},
        {"{\"worker\":\"w\",\"lease_until\":\"t\",\"started_at\":\"t\",\"history\":[],\"unique\":"
         "\"\\u00fc\"}",
         "{\"job\":{\"unique\":\"\\u00fc\"}}"},
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        const char *line = line_of(pairs[i][0], false);
        if (strcmp(line, pairs[i][1]) != 0)
            fail_msg("%s became %s", pairs[i][0], line);
    }
}

static void queues(void **state)
{
    (void)state;
    assert_string_equal(
        line_of("{\"name\":\"q\",\"paused\":true,\"paused_until\":null,\"description\":\"n\","
                "\"counts\":{\"ready\":1},\"policy\":{\"capacity\":null}}",
                true),
        "{\"queue\":{\"name\":\"q\",\"paused\":true,\"description\":\"n\","
        "\"policy\":{\"capacity\":null}}}");
}

static void whole_or_not_there(void **state)
{
    (void)state;
    struct export_file f;
    struct err_note note = {""};
    assert_int_equal(export_open(&f, name, false, &note), 0);
    assert_int_equal(export_begin(&f, "here", (struct wall_time){0}, &note), 0);
    assert_true(there(part) && !there(name));
    export_close(&f);
    assert_true(!there(part) && !there(name));

    assert_int_equal(export_open(&f, name, false, &note), 0);
    assert_int_equal(export_begin(&f, "here \"q\"", (struct wall_time){0}, &note), 0);
    assert_int_equal(export_queue(&f, span_text("{}"), &note), 0);
    assert_int_equal(export_end(&f, 7, &note), 0);
    assert_true(!there(part) && there(name));
    export_close(&f);
    assert_true(there(name));
    assert_non_null(strstr(content(),
                           "{\"holdfast\":\"export\",\"version\":1,\"created_at\":"
                           "\"1970-01-01T00:00:00.000Z\",\"source\":\"here \\\"q\\\"\""));
    assert_non_null(strstr(content(), "\n{\"end\":{\"queues\":1,\"jobs\":0,\"skipped\":7}}\n"));
}

static void replaces_only_when_told(void **state)
{
    (void)state;
    struct export_file f;
    struct err_note note = {""};
    assert_int_equal(export_open(&f, name, false, &note), 0);
    assert_int_equal(export_end(&f, 0, &note), 0);
    export_close(&f);
    assert_int_equal(export_open(&f, name, false, &note), -ERR_INVALID);
    assert_non_null(strstr(note.text, "--force"));
    assert_int_equal(export_open(&f, name, true, &note), 0);
    export_close(&f);
    assert_true(there(name)); /* it was not finished: the old one stays */
    /* Somebody else's that came meanwhile. */
    assert_int_equal(unlink(name), 0);
    assert_int_equal(export_open(&f, name, false, &note), 0);
    close(open(name, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(export_end(&f, 0, &note), -ERR_INVALID);
    export_close(&f);
    assert_int_equal(strlen(content()), 0);
    assert_false(there(part));
}

static void cannot_be_written(void **state)
{
    (void)state;
    struct export_file f;
    struct err_note note = {""};
    struct rlimit usual, none = {0, 0};
    assert_int_equal(symlink("/dev/null", part), 0); /* not followed */
    assert_int_equal(export_open(&f, name, false, &note), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    none.rlim_max = usual.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    int rc = export_end(&f, 0, &note);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    assert_int_equal(rc, -ERR_IO);
    assert_non_null(strstr(note.text, "cannot write"));
    export_close(&f);
    assert_true(!there(name) && !there(part));
    assert_int_equal(export_open(&f, "/nowhere/at/all", false, &note), -ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(jobs, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(queues, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(whole_or_not_there, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(replaces_only_when_told, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(cannot_be_written, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
