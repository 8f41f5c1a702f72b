/* SPDX-License-Identifier: Apache-2.0 */
/* Notifies the service manager (systemd, Type=notify) of the state of the server: datagrams of
 * NAME=value lines to the socket named in NOTIFY_SOCKET, a path or, with '@' in front, an
 * abstract name.
 *
 * Without a service manager there is no such socket; then every call does nothing and succeeds. */
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
    NOTIFY_READY,     /* listening, or reloaded */
    NOTIFY_RELOADING, /* NOTIFY_READY must follow */
    NOTIFY_STOPPING,
    NOTIFY_WATCHDOG, /* alive; at least once in each notify_watchdog_ms */
    NOTIFY_STATUS,   /* only the status line, which must be given */
};

/* name: the value of NOTIFY_SOCKET, NULL or "" if it is not set. -ERR_INVALID with a note for a
 * name that cannot be that of a socket, -ERR_IO; *ret can still be used, and sends nothing. */
MUST_CHECK int notifier_open(struct notifier *ret, const char *name, struct err_note *note);
void notifier_close(struct notifier *n);

/* Sends an event, with a status line for `systemctl status` unless it is NULL; line breaks in it
 * become spaces, and it is truncated at 400 bytes. Waits at most a second for room in the
 * socket, and not at all for NOTIFY_WATCHDOG and NOTIFY_STATUS. -ERR_IO: it did not arrive;
 * callers can only log this. */
MUST_CHECK int notifier_send(const struct notifier *n, enum notify_event event, const char *status);

/* How often to send NOTIFY_WATCHDOG: half of the time that the manager allows, or 0 if it does
 * not watch. usec and pid are the values of WATCHDOG_USEC and WATCHDOG_PID, or NULL; self is the
 * id of this process. Invalid values count as not watching. */
int64_t notify_watchdog_ms(const char *usec, const char *pid, pid_t self);
