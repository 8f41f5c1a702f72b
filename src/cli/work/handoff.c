/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/handoff.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the object ---- */

struct parse {
    struct handoff handoff;
    bool with_result;
    bool unknown;
    char name[64]; /* of the unknown member */
};

static struct span *member_of(struct parse *p, struct span name)
{
    const struct {
        const char *name;
        struct span *at;
    } members[] = {{"enqueues", &p->handoff.enqueues},
                   {"sets", &p->handoff.sets},
                   {"deletes", &p->handoff.deletes},
                   {"result", &p->handoff.result}};
    size_t count = sizeof members / sizeof *members - !p->with_result;
    for (size_t i = 0; i < count; i++)
        if (span_equal(name, span_text(members[i].name)))
            return members[i].at;
    return NULL;
}

static int member_cb(void *ctx, struct json_reader *r, struct span name, struct json_token value)
{
    struct parse *p = ctx;
    struct span *at = member_of(p, name);
    if (at)
        return json_skip(r, value, at);
    p->unknown = true;
    snprintf(p->name, sizeof p->name, "%.*s", (int)(name.len < 40 ? name.len : 40), name.at);
    return -ERR_INVALID;
}

int handoff_parse(struct span text, bool with_result, struct handoff *ret, struct err_note *note)
{
    struct parse p = {.with_result = with_result};
    struct json_reader r;
    struct arena names;
    arena_init(&names);
    json_open(&r, text);
    int err = json_object(&r, &names, member_cb, &p);
    arena_done(&names);
    if (p.unknown)
        return err_note_set(
            note, -ERR_INVALID,
            "the hand-off has a member \"%s\"; it can have enqueues, sets%s deletes", p.name,
            with_result ? ", result and" : " and");
    if (err == -ERR_NOMEM)
        return err_note_set(note, err, "out of memory");
    if (err < 0)
        return err_note_set(note, -ERR_INVALID,
                            "the hand-off must be one JSON object, such as "
                            "{\"enqueues\":[{\"queue\":\"mail\",\"payload\":1}]}; at byte %zu: %s",
                            r.error ? r.error_at : r.at, r.error ? r.error : "no object");
    *ret = p.handoff;
    return 0;
}

bool handoff_given(const struct handoff *h)
{
    return h->enqueues.at || h->sets.at || h->deletes.at;
}

void handoff_write_members(const struct handoff *h, struct json_writer *w)
{
    const struct {
        const char *name;
        struct span value;
    } members[] = {{"enqueues", h->enqueues}, {"sets", h->sets}, {"deletes", h->deletes}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (!members[i].value.at)
            continue;
        json_write_key(w, members[i].name);
        json_write_raw(w, members[i].value);
    }
}

/* ---- the file ---- */

int handoff_dir_create(char out[HANDOFF_PATH_BYTES], struct err_note *note)
{
    const char *base = getenv("TMPDIR");
    int len =
        snprintf(out, HANDOFF_PATH_BYTES, "%s/holdfast-work-XXXXXX", base && *base ? base : "/tmp");
    if (len < HANDOFF_PATH_BYTES && mkdtemp(out))
        return 0;
    int error = len < HANDOFF_PATH_BYTES ? errno : ENAMETOOLONG;
    return err_note_set(note, -ERR_IO, "no directory for hand-offs could be created in %.200s: %s",
                        base && *base ? base : "/tmp", strerror(error));
}

static int file_take(int fd, struct buf *out, struct err_note *note)
{
    struct stat st;
    ssize_t len;
    char bytes[4096];
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return err_note_set(note, -ERR_INVALID, "the hand-off is not a regular file");
    while ((len = read(fd, bytes, sizeof bytes)) > 0) {
        if (out->len + (size_t)len > HANDOFF_BYTES_MAX)
            return err_note_set(note, -ERR_INVALID, "the hand-off has more than %zu bytes",
                                HANDOFF_BYTES_MAX);
        if (buf_append(out, bytes, (size_t)len) < 0)
            return err_note_set(note, -ERR_NOMEM, "out of memory");
    }
    return len == 0
               ? 0
               : err_note_set(note, -ERR_IO, "the hand-off cannot be read: %s", strerror(errno));
}

int handoff_file_read(const char *path, struct buf *out, struct err_note *note)
{
    /* A FIFO must not block the runner. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return err_note_set(note, -ERR_IO, "the hand-off cannot be read: %s", strerror(errno));
    int err = file_take(fd, out, note);
    close(fd);
    return err;
}
