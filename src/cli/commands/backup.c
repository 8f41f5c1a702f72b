/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast backup: the server's store as DIR/holdfast.db.
 *
 * It is received as DIR/holdfast.db.part, synced and checked, and only then renamed: a file with
 * the final name is complete. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/local/pages/dbfile.h"
#include "base/system/clock.h"
#include "cli/client/client_commands.h"
#include "cli/client/session.h"
#include "cli/client/terminal/interrupt.h"
#include "cli/client/watch.h"
#include "cli/progress.h"

struct backup {
    struct client_session *s;
    const char *dir;
    const char *part, *path; /* in the session's arena */
    int dir_fd, fd;          /* -1: not open */
    bool made;               /* the directory was created by this command */
    bool interrupted;
    int error; /* errno of a failed write */
    uint64_t bytes, total;
    uint64_t began_ns;
    struct progress bar;
    struct client_watch watch;
};

/* ---- the directory ---- */

static const char *name_in(struct backup *b, const char *name)
{
    struct buf text;
    buf_init(&text);
    char *path = buf_printf(&text, "%s/%s", b->dir, name) == 0
                     ? arena_text(&b->s->arena, buf_span(&text))
                     : NULL;
    buf_done(&text);
    return path;
}

static bool is_empty(int fd)
{
    int copy = dup(fd);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *entry;
    bool empty = d != NULL;
    while (d && empty && (entry = readdir(d)) != NULL)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (d)
        closedir(d);
    else if (copy >= 0)
        close(copy);
    return empty;
}

static int cannot(int status, const char *doing, const char *path)
{
    return client_complain(status, "cannot %s %s: %s", doing, path, strerror(errno));
}

static int directory_take(struct backup *b)
{
    b->made = mkdir(b->dir, 0700) == 0;
    if (!b->made && errno != EEXIST)
        return cannot(CLIENT_USAGE, "create the directory", b->dir);
    b->dir_fd = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b->dir_fd < 0)
        return cannot(CLIENT_USAGE, "open the directory", b->dir);
    if (!b->made && !is_empty(b->dir_fd))
        return client_complain(CLIENT_USAGE,
                               "%s is not empty; a backup needs an empty directory: name one that "
                               "does not exist yet",
                               b->dir);
    b->part = name_in(b, "holdfast.db.part");
    b->path = name_in(b, "holdfast.db");
    if (!b->part || !b->path)
        return client_no_memory();
    b->fd = open(b->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return b->fd < 0 ? cannot(CLIENT_USAGE, "make", b->part) : CLIENT_DONE;
}

static void directory_give_up(struct backup *b)
{
    if (b->fd >= 0)
        (void)unlink(b->part);
    if (b->made)
        (void)rmdir(b->dir);
}

/* ---- receiving ---- */

static void total_learn(struct backup *b)
{
    char digits[24] = "";
    struct span length = client_reply_header(&b->s->reply, "Content-Length");
    if (length.len < sizeof digits)
        memcpy(digits, length.at, length.len);
    b->total = strtoull(digits, NULL, 10);
}

static int body_cb(void *ctx, struct span piece)
{
    struct backup *b = ctx;
    if (b->bytes == 0)
        total_learn(b);
    for (size_t at = 0; at < piece.len;) {
        ssize_t n = write(b->fd, piece.at + at, piece.len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            b->error = n < 0 ? errno : ENOSPC;
            return 1;
        }
        at += (size_t)n;
    }
    b->bytes += piece.len;
    progress_show(&b->bar, b->bytes, b->total, true);
    return 0;
}

/* Until the first byte arrives, the server creates its copy. */
static bool stop_cb(void *ctx)
{
    struct backup *b = ctx;
    b->interrupted = b->interrupted || client_interrupt_pending();
    if (b->bytes == 0 && !b->interrupted && client_watch_due(&b->watch))
        progress_show(&b->bar, (uint64_t)client_watch_int(&b->watch, "store.backup_pages"),
                      (uint64_t)client_watch_int(&b->watch, "store.backup_pages_total"), false);
    return b->interrupted;
}

static int receive(struct backup *b)
{
    client_interrupt_hold();
    progress_begin(&b->bar, "backing up");
    client_watch_open(&b->watch, b->s, b->bar.terminal);
    client_path_add(&b->s->path, "/v1/backup");
    int status = client_ask_with(
        b->s,
        (struct client_request){.method = "GET", .on_body = body_cb, .stop = stop_cb, .ctx = b});
    client_watch_close(&b->watch);
    progress_end(&b->bar);
    if (b->interrupted)
        return client_complain(CLIENT_REFUSED, "interrupted; nothing was kept");
    if (b->error) {
        errno = b->error;
        return cannot(CLIENT_REFUSED, "write", b->part);
    }
    return status;
}

/* ---- keeping ---- */

static int keep(struct backup *b, struct dbfile_contents *ret)
{
    struct err_note note = {""};
    if (fsync(b->fd) != 0)
        return cannot(CLIENT_REFUSED, "sync", b->part);
    if (dbfile_verify(b->part, ret, &note) != 0)
        return client_complain(CLIENT_REFUSED, "the data from the server is not a good backup: %s",
                               note.text);
    if (rename(b->part, b->path) != 0)
        return cannot(CLIENT_REFUSED, "rename", b->part);
    if (fsync(b->dir_fd) != 0)
        return cannot(CLIENT_REFUSED, "sync", b->dir);
    int parent = b->made ? openat(b->dir_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int rc = parent >= 0 ? fsync(parent) : 0;
    if (parent >= 0)
        close(parent);
    return rc != 0 ? cannot(CLIENT_REFUSED, "sync the parent directory", b->dir) : CLIENT_DONE;
}

static int print_json(const struct backup *b, const struct dbfile_contents *c, uint64_t ms)
{
    const struct {
        const char *name;
        uint64_t value;
    } members[] = {{"bytes", c->bytes},
                   {"jobs", c->jobs},
                   {"queues", c->queues},
                   {"position", c->position},
                   {"elapsed_ms", ms}};
    struct buf text;
    struct json_writer w;
    buf_init(&text);
    json_writer_init(&w, &text);
    json_write_object(&w);
    json_write_key(&w, "file");
    json_write_text(&w, span_text(b->path));
    for (size_t i = 0; i < CLIENT_COUNT(members); i++) {
        json_write_key(&w, members[i].name);
        json_write_uint(&w, members[i].value);
    }
    json_write_object_end(&w);
    int rc = json_writer_finish(&w);
    if (rc == 0)
        printf("%.*s\n", (int)text.len, text.data);
    buf_done(&text);
    return rc < 0 ? client_no_memory() : CLIENT_DONE;
}

static int print_summary(const struct backup *b, const struct dbfile_contents *c)
{
    uint64_t ns = clock_ns() - b->began_ns;
    if (b->s->json)
        return print_json(b, c, ns / 1000000);
    printf("%s: %" PRIu64 " job%s in %" PRIu64 " queue%s, %.1f MiB, %.1f s; checked\n", b->path,
           c->jobs, c->jobs == 1 ? "" : "s", c->queues, c->queues == 1 ? "" : "s",
           (double)c->bytes / (1 << 20), (double)ns / 1e9);
    return CLIENT_DONE;
}

static int backup(struct client_session *s)
{
    struct backup b = {
        .s = s, .dir = s->args->words[0], .dir_fd = -1, .fd = -1, .began_ns = clock_ns()};
    struct dbfile_contents contents = {0};
    int status = directory_take(&b);
    if (status == CLIENT_DONE)
        status = receive(&b);
    if (status == CLIENT_DONE)
        status = keep(&b, &contents);
    if (status == CLIENT_DONE)
        status = print_summary(&b, &contents);
    else
        directory_give_up(&b);
    if (b.fd >= 0)
        close(b.fd);
    if (b.dir_fd >= 0)
        close(b.dir_fd);
    return status;
}

int client_backup(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, backup);
}
