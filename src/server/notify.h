/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the service manager (systemd, Type=notify) how the server is: datagrams of NAME=value lines
 * to the socket named in NOTIFY_SOCKET, a path or, with '@' in front, an abstract name.
 *
 * Started by hand there is no such socket; then every call does nothing and succeeds. */
#pragma once

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/err.h"

struct notifier {
    int fd; /* -1: no service manager */
    struct sockaddr_un to;
    socklen_t to_len;
};

enum notify_event {
    NOTIFY_READY,     /* listening, or done with reloading */
    NOTIFY_RELOADING, /* NOTIFY_READY must follow */
    NOTIFY_STOPPING,
    NOTIFY_WATCHDOG, /* alive; at least once in each notify_watchdog_ms */
    NOTIFY_STATUS,   /* only the status line, which must be given */
};

/* name: the value of NOTIFY_SOCKET, NULL or "" when it is not set. -ERR_INVALID with a note for a
 * name that cannot be a socket's, -ERR_IO; *ret can still be used, and sends nothing. */
MUST_CHECK int notifier_open(struct notifier *ret, const char *name, struct err_note *note);
void notifier_close(struct notifier *n);

/* Sends an event, with a status line for `systemctl status` unless it is NULL; line breaks in it
 * become spaces, and it is cut at 400 bytes. Waits at most a second for room in the socket, and
 * for NOTIFY_WATCHDOG and NOTIFY_STATUS not at all. -ERR_IO: it did not arrive; there is nothing to
 * do about it but to log it. */
MUST_CHECK int notifier_send(const struct notifier *n, enum notify_event event, const char *status);

/* How often to send NOTIFY_WATCHDOG: half of the time the manager allows, or 0 when it does not
 * watch. usec and pid are the values of WATCHDOG_USEC and WATCHDOG_PID, or NULL; self is the
 * process's own id. Values that make no sense count as not watching. */
int64_t notify_watchdog_ms(const char *usec, const char *pid, pid_t self);
