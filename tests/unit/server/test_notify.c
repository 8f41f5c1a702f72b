/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the service manager, received by a real datagram socket. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/notify.h"

struct manager {
    int fd;
    char folder[64];
    char name[108];
};

/* abstract: a name without a file. */
static void manager_open(struct manager *m, bool abstract)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(m->folder, sizeof m->folder, "/tmp/holdfast-test-notify-XXXXXX");
    assert_non_null(mkdtemp(m->folder));
    snprintf(m->name, sizeof m->name, "%s%s/socket", abstract ? "@" : "", m->folder);
    size_t len = strlen(m->name);
    memcpy(at.sun_path, m->name, len);
    if (abstract)
        at.sun_path[0] = '\0';
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(m->fd >= 0);
    assert_int_equal(bind(m->fd, (struct sockaddr *)&at,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
                     0);
}

static void manager_close(struct manager *m)
{
    close(m->fd);
    if (m->name[0] == '/')
        unlink(m->name);
    rmdir(m->folder);
}

/* Datagrams on one machine are there when sendto returns. */
static void assert_message(const struct manager *m, const char *expected)
{
    char text[1024];
    ssize_t n = recv(m->fd, text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    assert_string_equal(text, expected);
}

static void assert_silence(const struct manager *m)
{
    char text[16];
    assert_int_equal(recv(m->fd, text, sizeof text, 0), -1);
    assert_int_equal(errno, EAGAIN);
}

static void tell_everything(bool abstract)
{
    struct manager m;
    struct notifier n;
    struct err_note note = {""};
    manager_open(&m, abstract);
    assert_int_equal(notifier_open(&n, m.name, &note), 0);
    assert_silence(&m);
    assert_int_equal(notifier_send(&n, NOTIFY_READY, "listening on 127.0.0.1:8000"), 0);
    assert_message(&m, "READY=1\nSTATUS=listening on 127.0.0.1:8000\n");
    assert_int_equal(notifier_send(&n, NOTIFY_RELOADING, NULL), 0);
    assert_message(&m, "RELOADING=1\n");
    assert_int_equal(notifier_send(&n, NOTIFY_WATCHDOG, NULL), 0);
    assert_message(&m, "WATCHDOG=1\n");
    assert_int_equal(notifier_send(&n, NOTIFY_STATUS, "7 jobs\nREADY=1\tx"), 0);
    assert_message(&m, "STATUS=7 jobs READY=1 x\n");
    assert_int_equal(notifier_send(&n, NOTIFY_STOPPING, ""), 0);
    assert_message(&m, "STOPPING=1\nSTATUS=\n");
    notifier_close(&n);
    assert_int_equal(notifier_send(&n, NOTIFY_READY, NULL), 0);
    assert_silence(&m);
    manager_close(&m);
}

static void a_path_is_told(void **state)
{
    (void)state;
    tell_everything(false);
}

static void an_abstract_name_is_told(void **state)
{
    (void)state;
    tell_everything(true);
}

static void long_states_are_cut(void **state)
{
    (void)state;
    struct manager m;
    struct notifier n;
    char status[2000];
    char expected[600] = "READY=1\nSTATUS=";
    memset(status, 'x', sizeof status - 1);
    status[sizeof status - 1] = '\0';
    manager_open(&m, false);
    assert_int_equal(notifier_open(&n, m.name, NULL), 0);
    assert_int_equal(notifier_send(&n, NOTIFY_READY, status), 0);
    memset(expected + strlen(expected), 'x', 400);
    expected[strlen(expected)] = '\n';
    assert_message(&m, expected);
    notifier_close(&n);
    manager_close(&m);
}

static void without_a_manager_nothing_happens(void **state)
{
    (void)state;
    struct notifier n;
    assert_int_equal(notifier_open(&n, NULL, NULL), 0);
    assert_int_equal(notifier_send(&n, NOTIFY_READY, "x"), 0);
    notifier_close(&n);
    assert_int_equal(notifier_open(&n, "", NULL), 0);
    assert_int_equal(notifier_send(&n, NOTIFY_WATCHDOG, NULL), 0);
    notifier_close(&n);
}

static void names_that_are_none_are_refused(void **state)
{
    (void)state;
    char longest[110];
    memset(longest, 'x', sizeof longest);
    longest[0] = '/';
    longest[108] = '\0';
    const char *const names[] = {"relative", "vsock:2:1234", "/", "@", longest};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct notifier n;
        struct err_note note = {""};
        assert_int_equal(notifier_open(&n, names[i], &note), -ERR_INVALID);
        assert_non_null(strstr(note.text, "NOTIFY_SOCKET is '"));
        assert_int_equal(notifier_send(&n, NOTIFY_READY, NULL), 0);
        notifier_close(&n);
    }
    struct notifier n;
    longest[107] = '\0';
    assert_int_equal(notifier_open(&n, longest, NULL), 0);
    assert_int_equal(notifier_send(&n, NOTIFY_READY, NULL), -ERR_IO); /* no process listens */
    notifier_close(&n);
}

/* A manager that does not read: its socket fills up, and the alive message gives up at once. */
static void a_full_socket_does_not_stop_the_watchdog(void **state)
{
    (void)state;
    struct manager m;
    struct notifier n;
    int err = 0;
    manager_open(&m, false);
    assert_int_equal(notifier_open(&n, m.name, NULL), 0);
    for (int i = 0; err == 0 && i < 100000; i++)
        err = notifier_send(&n, NOTIFY_WATCHDOG, NULL);
    assert_int_equal(err, -ERR_IO);
    assert_message(&m, "WATCHDOG=1\n");
    assert_int_equal(notifier_send(&n, NOTIFY_READY, NULL), 0);
    notifier_close(&n);
    manager_close(&m);
}

static void the_watchdog_is_for_one_process(void **state)
{
    (void)state;
    assert_int_equal(notify_watchdog_ms(NULL, NULL, 7), 0);
    assert_int_equal(notify_watchdog_ms("30000000", NULL, 7), 15000);
    assert_int_equal(notify_watchdog_ms("30000000", "7", 7), 15000);
    assert_int_equal(notify_watchdog_ms("30000000", "8", 7), 0);
    assert_int_equal(notify_watchdog_ms("30000000", "x", 7), 0);
    assert_int_equal(notify_watchdog_ms("0", NULL, 7), 0);
    assert_int_equal(notify_watchdog_ms("-5", NULL, 7), 0);
    assert_int_equal(notify_watchdog_ms("soon", NULL, 7), 0);
    assert_int_equal(notify_watchdog_ms("", NULL, 7), 0);
    assert_int_equal(notify_watchdog_ms("1", NULL, 7), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_told),
        cmocka_unit_test(an_abstract_name_is_told),
        cmocka_unit_test(long_states_are_cut),
        cmocka_unit_test(without_a_manager_nothing_happens),
        cmocka_unit_test(names_that_are_none_are_refused),
        cmocka_unit_test(a_full_socket_does_not_stop_the_watchdog),
        cmocka_unit_test(the_watchdog_is_for_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
