/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/import_waits.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "cli/client/answer.h"
#include "core/limits.h"

void import_waits_init(struct import_waits *w)
{
    map128_init(&w->ids);
    buf_init(&w->texts);
}

void import_waits_done(struct import_waits *w)
{
    map128_done(&w->ids);
    buf_done(&w->texts);
    mem_free(w->list);
}

struct hash128 import_waits_id(struct span old)
{
    static const struct hash_key key = {0x6f6c642d69647300, 0x696d706f72740000};
    return hash128_of(key, old);
}

bool import_waits_there(struct import_waits *w, struct hash128 job, uint64_t seq)
{
    return seq == 0 || map128_put(&w->ids, job, seq) == 0;
}

/* ---- noting ---- */

static bool is_text(struct span item)
{
    return item.len > 2 && item.at[0] == '"';
}

/* Appends the ids; false: one of them is not a text, or there are too many. */
static bool parents_note(struct import_waits *w, struct span list, size_t *ret_count)
{
    struct client_items items;
    struct span item, text;
    *ret_count = 0;
    client_items_open(&items, list);
    while (client_items_next(&items, &item)) {
        char wrapped[256];
        int len = snprintf(wrapped, sizeof wrapped, "{\"id\":%.*s}", (int)item.len, item.at);
        if (!is_text(item) || len >= (int)sizeof wrapped || ++*ret_count > LIMIT_DEPENDENCIES)
            return false;
        text = client_answer_text(span_of(wrapped, (size_t)len), "id", &w->s->arena);
        if (buf_append_span(&w->texts, text) < 0 || buf_append(&w->texts, "", 1) < 0)
            return false;
    }
    return true;
}

static uint32_t ended_of(struct span job)
{
    static const char *const ends[] = {"dependencies.done", "dependencies.dead",
                                       "dependencies.cancelled", "dependencies.removed"};
    int64_t n = 0;
    for (size_t i = 0; i < CLIENT_COUNT(ends); i++)
        n += client_answer_int(job, ends[i], 0);
    return n > 0 && n <= LIMIT_DEPENDENCIES ? (uint32_t)n : 0;
}

int import_waits_note(struct import_waits *w, uint64_t number, struct span job)
{
    struct import_wait *more = mem_more(w->list, w->count, &w->room, sizeof *more);
    struct import_wait wait = {.number = number, .parents = w->texts.len};
    struct span list;
    if (!more)
        return client_no_memory();
    w->list = more;
    wait.job = import_waits_id(client_answer_text(job, "id", &w->s->arena));
    wait.open = client_answer_true(job, "open");
    wait.had = ended_of(job);
    if (!client_answer_find(job, "waits_for", &list) || list.at[0] != '[' ||
        !parents_note(w, list, &wait.count)) {
        w->texts.len = wait.parents;
        w->refuse(w->ctx, number,
                  SPAN_LITERAL("the job is blocked, but waits_for is not the list of the ids of "
                               "the jobs for which it waits"));
        return CLIENT_REFUSED;
    }
    w->list[w->count++] = wait;
    return CLIENT_DONE;
}

/* ---- connecting ---- */

/* Those that were not imported. */
struct missing {
    size_t count;
    const char *first;
};

static struct missing missing_of(const struct import_waits *w, const struct import_wait *wait)
{
    struct missing m = {0, ""};
    const char *at = w->texts.data + wait->parents;
    for (size_t i = 0; i < wait->count; i++, at += strlen(at) + 1)
        if (map128_get(&w->ids, import_waits_id(span_text(at))) == 0)
            m.first = m.count++ == 0 ? at : m.first;
    return m;
}

/* Writes the new ids of those that were imported. */
static void parents_write(struct import_waits *w, const struct import_wait *wait)
{
    const char *at = w->texts.data + wait->parents;
    for (size_t i = 0; i < wait->count; i++, at += strlen(at) + 1) {
        char text[24];
        uint64_t seq = map128_get(&w->ids, import_waits_id(span_text(at)));
        snprintf(text, sizeof text, "%" PRIu64, seq);
        if (seq != 0)
            json_write_text(&w->s->writer, span_text(text));
    }
}

static void refuse(struct import_waits *w, const struct import_wait *wait, struct span why)
{
    char text[500];
    int len = snprintf(text, sizeof text, "the job is imported, but stays blocked: %.*s",
                       (int)(why.len < 400 ? why.len : 400), why.at);
    w->refuse(w->ctx, wait->number, span_of(text, (size_t)len));
}

static void refuse_missing(struct import_waits *w, const struct import_wait *wait,
                           const struct missing *m)
{
    char text[400], others[60] = "";
    if (m->count > 1)
        snprintf(others, sizeof others, ", and %zu others that are not", m->count - 1);
    int len = snprintf(text, sizeof text,
                       "it waits for %.128s, which is not imported%s; import a file that has them "
                       "all, or use --ignore-missing",
                       m->first, others);
    refuse(w, wait, span_of(text, (size_t)len));
}

/* Sends a request without reporting what the server refuses. */
static int ask(struct import_waits *w, const char *method, uint64_t seq, const char *suffix)
{
    struct client_session *s = w->s;
    char path[64];
    snprintf(path, sizeof path, "/v1/jobs/%" PRIu64 "%s", seq, suffix);
    struct client_request request = {.method = method, .path = path, .body = buf_span(&s->body)};
    int rc = client_call(s->client, &request, &s->reply, &s->note);
    buf_clear(&s->body);
    return rc < 0 ? client_complain(CLIENT_UNREACHABLE, "%s", s->note.text) : CLIENT_DONE;
}

static int send_dependencies(struct import_waits *w, const struct import_wait *wait, uint64_t seq)
{
    struct client_session *s = w->s;
    client_body_begin(s);
    json_write_key(&s->writer, "depends_on");
    json_write_array(&s->writer);
    parents_write(w, wait);
    json_write_array_end(&s->writer);
    json_write_key(&s->writer, "close");
    json_write_bool(&s->writer, !wait->open);
    int status = client_body_end(s);
    return status == CLIENT_DONE ? ask(w, "POST", seq, "/dependencies") : status;
}

/* Forgets jobs that were imported and do not exist any more. */
static int gone_forget(struct import_waits *w, const struct import_wait *wait)
{
    const char *at = w->texts.data + wait->parents;
    int status = CLIENT_DONE;
    for (size_t i = 0; i < wait->count && status == CLIENT_DONE; i++, at += strlen(at) + 1) {
        struct hash128 job = import_waits_id(span_text(at));
        uint64_t seq = map128_get(&w->ids, job);
        if (seq == 0)
            continue;
        status = ask(w, "GET", seq, "?payload=false");
        if (status == CLIENT_DONE && w->s->reply.status == 404)
            map128_drop(&w->ids, job);
    }
    return status;
}

static int send_one(struct import_waits *w, const struct import_wait *wait, uint64_t seq)
{
    struct client_session *s = w->s;
    int status = send_dependencies(w, wait, seq);
    if (status == CLIENT_DONE && s->reply.status == 422 && w->ignore_missing) {
        status = gone_forget(w, wait);
        if (status == CLIENT_DONE)
            status = send_dependencies(w, wait, seq);
    }
    long code = s->reply.status;
    /* A job that is not open, or does not exist any more, was connected earlier. */
    if (status != CLIENT_DONE || code / 100 == 2 || code == 404 || code == 409)
        return status;
    if (code != 422)
        return client_outcome(s);
    refuse(w, wait, client_answer_text(client_answer(s), "detail", &s->arena));
    return CLIENT_DONE;
}

/* Whether an earlier run connected a job that stays open, to this many others. One that does not
 * exist any more has nothing to wait for. */
static int connected(struct import_waits *w, const struct import_wait *wait, uint64_t seq,
                     size_t others, bool *ret)
{
    struct client_session *s = w->s;
    int status = ask(w, "GET", seq, "?payload=false");
    *ret = s->reply.status == 404;
    if (status != CLIENT_DONE || *ret)
        return status;
    status = client_outcome(s);
    if (status == CLIENT_DONE)
        *ret = client_answer_int(client_answer(s), "dependencies.total", 0) >=
               (int64_t)(wait->had + others);
    return status;
}

static int connect_one(struct import_waits *w, const struct import_wait *wait)
{
    uint64_t seq = map128_get(&w->ids, wait->job);
    struct missing missing = missing_of(w, wait);
    size_t others = wait->count - (w->ignore_missing ? missing.count : 0);
    bool over = seq == 0; /* its line was refused */
    int status = CLIENT_DONE;
    if (!over && wait->open)
        status = connected(w, wait, seq, others, &over);
    if (status == CLIENT_DONE && !over) {
        if (missing.count > 0 && !w->ignore_missing)
            refuse_missing(w, wait, &missing);
        else
            status = send_one(w, wait, seq);
    }
    arena_reset(&w->s->arena);
    return status;
}

int import_waits_connect(struct import_waits *w, bool end)
{
    int status = CLIENT_DONE;
    size_t kept = end ? 0 : w->tried;
    for (size_t i = kept; i < w->count && status == CLIENT_DONE; i++) {
        const struct import_wait wait = w->list[i];
        if (end || missing_of(w, &wait).count == 0)
            status = connect_one(w, &wait);
        else
            w->list[kept++] = wait;
    }
    w->count = w->tried = kept;
    if (kept == 0)
        buf_clear(&w->texts);
    return status;
}
