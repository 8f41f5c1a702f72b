/* SPDX-License-Identifier: Apache-2.0 */
#include "server/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/check.h"
#include "config/units.h"

static const struct {
    const char *line;
    int flags;
} events[] = {
    [NOTIFY_READY] = {"READY=1\n", 0},       [NOTIFY_RELOADING] = {"RELOADING=1\n", 0},
    [NOTIFY_STOPPING] = {"STOPPING=1\n", 0}, [NOTIFY_WATCHDOG] = {"WATCHDOG=1\n", MSG_DONTWAIT},
    [NOTIFY_STATUS] = {"", MSG_DONTWAIT},
};

enum { STATUS_BYTES = 400 };

/* The bytes of the name, unchanged; an abstract one begins with NUL and has no NUL at its end. */
static int address_fill(struct notifier *n, const char *name, struct err_note *note)
{
    char shown[QUOTED_MAX];
    size_t len = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof n->to.sun_path)
        return err_note_set(note, -ERR_INVALID,
                            "NOTIFY_SOCKET is %s; it must be a path that begins with / or an "
                            "abstract name that begins with @, of at most %zu bytes",
                            quoted(span_text(name), shown), sizeof n->to.sun_path - 1);
    n->to.sun_family = AF_UNIX;
    memcpy(n->to.sun_path, name, len);
    n->to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] == '/'));
    if (name[0] == '@')
        n->to.sun_path[0] = '\0';
    return 0;
}

int notifier_open(struct notifier *ret, const char *name, struct err_note *note)
{
    *ret = (struct notifier){.fd = -1};
    if (!name || !*name)
        return 0;
    int err = address_fill(ret, name, note);
    if (err < 0)
        return err;
    struct timeval limit = {.tv_sec = 1};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_note_set(note, -ERR_IO, "no socket to notify the service manager: %s",
                            strerror(errno));
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) < 0) {
        err = err_note_set(note, -ERR_IO, "no socket to notify the service manager: %s",
                           strerror(errno));
        close(fd);
        return err;
    }
    ret->fd = fd;
    return 0;
}

void notifier_close(struct notifier *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

/* Another line in a status would be another message to the manager. */
static void one_line(char *status)
{
    for (; *status; status++) {
        if ((unsigned char)*status < 0x20)
            *status = ' ';
    }
}

int notifier_send(const struct notifier *n, enum notify_event event, const char *status)
{
    char line[STATUS_BYTES + 1] = "";
    char message[STATUS_BYTES + 64];
    ssize_t sent;
    if (n->fd < 0)
        return 0;
    if (status)
        snprintf(line, sizeof line, "%s", status);
    one_line(line);
    int len = snprintf(message, sizeof message, "%s%s%s%s", events[event].line,
                       status ? "STATUS=" : "", line, status ? "\n" : "");
    CHECK(len > 0 && (size_t)len < sizeof message);
    do {
        sent = sendto(n->fd, message, (size_t)len, MSG_NOSIGNAL | events[event].flags,
                      (const struct sockaddr *)&n->to, n->to_len);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -ERR_IO : 0;
}

int64_t notify_watchdog_ms(const char *usec, const char *pid, pid_t self)
{
    int64_t time;
    int64_t owner = self;
    if (!usec || units_parse(span_text(usec), UNIT_NONE, &time) < 0 || time <= 0)
        return 0;
    if (pid && units_parse(span_text(pid), UNIT_NONE, &owner) < 0)
        return 0;
    if (owner != self)
        return 0;
    int64_t half_ms = time / 2000;
    return half_ms > 0 ? half_ms : 1;
}
