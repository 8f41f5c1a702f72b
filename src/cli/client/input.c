/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/input.h"

#include <errno.h>
#include <string.h>

#define PIECE ((size_t)64 << 10)

static int stream_open(const char *word, FILE **ret, bool *ret_owned, struct err_note *note)
{
    *ret_owned = word[0] == '@';
    *ret = *ret_owned ? fopen(word + 1, "rbe") : stdin;
    if (*ret)
        return 0;
    return err_note_set(note, -ERR_IO, "cannot read the file '%.200s': %s", word + 1,
                        strerror(errno));
}

/* Reads once more; 0 at the end. */
static int piece_read(FILE *from, struct buf *out, size_t *ret, struct err_note *note)
{
    if (buf_reserve(out, PIECE) < 0)
        return err_note_set(note, -ERR_NOMEM, "out of memory");
    *ret = fread(out->data + out->len, 1, PIECE, from);
    out->len += *ret;
    if (ferror(from))
        return err_note_set(note, -ERR_IO, "reading failed: %s", strerror(errno));
    if (out->len > CLIENT_INPUT_MAX)
        return err_note_set(note, -ERR_TOO_BIG, "the input is longer than %zu MiB",
                            CLIENT_INPUT_MAX >> 20);
    return 0;
}

int client_input_read(const char *word, struct buf *out, struct err_note *note)
{
    FILE *from;
    bool owned;
    size_t got = 1;
    if (word[0] != '@' && strcmp(word, "-") != 0)
        return buf_append_text(out, word) < 0 ? err_note_set(note, -ERR_NOMEM, "out of memory") : 0;
    int rc = stream_open(word, &from, &owned, note);
    if (rc < 0)
        return rc;
    while (rc == 0 && got > 0)
        rc = piece_read(from, out, &got, note);
    if (owned)
        (void)fclose(from);
    return rc;
}

int client_lines_open(struct client_lines *l, const char *word, struct err_note *note)
{
    *l = (struct client_lines){.at = 0};
    buf_init(&l->read);
    return stream_open(word, &l->from, &l->owned, note);
}

void client_lines_close(struct client_lines *l)
{
    if (l->owned && l->from)
        (void)fclose(l->from);
    buf_done(&l->read);
}

static void given_away(struct client_lines *l)
{
    if (l->at == 0)
        return;
    CHECK(l->read.data);
    memmove(l->read.data, l->read.data + l->at, l->read.len - l->at);
    l->read.len -= l->at;
    l->at = 0;
}

static void line_take(struct client_lines *l, size_t len, size_t ending, struct span *ret)
{
    CHECK(l->read.data);
    const char *at = l->read.data + l->at;
    l->at += len + ending;
    l->number++;
    if (len > 0 && at[len - 1] == '\r')
        len--;
    *ret = span_of(at, len);
}

int client_lines_next(struct client_lines *l, struct span *ret, struct err_note *note)
{
    size_t searched = 0;
    for (;;) {
        size_t have = l->read.len - l->at;
        const char *at = l->read.data ? l->read.data + l->at : "";
        const char *end = memchr(at + searched, '\n', have - searched);
        if (end) {
            line_take(l, (size_t)(end - at), 1, ret);
            return 1;
        }
        if (l->over) {
            if (have > 0)
                line_take(l, have, 0, ret);
            return have > 0;
        }
        searched = have;
        given_away(l);
        size_t got = 0;
        int rc = piece_read(l->from, &l->read, &got, note);
        if (rc < 0)
            return rc;
        l->over = got == 0;
    }
}
