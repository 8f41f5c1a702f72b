/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast enqueue: one job, as JSON or as bytes, or many from lines of input. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/client/answer.h"
#include "cli/client/client_commands.h"
#include "cli/client/input.h"
#include "cli/client/job_text_options.h"
#include "cli/client/session.h"
#include "cli/client/terminal/text.h"

#define BATCH_JOBS 1000               /* the maximum of the server */
#define BATCH_BYTES ((size_t)1 << 20) /* a single job may be longer */
#define PROBLEMS_SHOWN 20

static const struct client_field job_fields[] = {
    {"priority", "priority", CLIENT_FIELD_NUMBER_OR_TEXT},
    {"delay", "delay_ms", CLIENT_FIELD_NUMBER},
    {"run_at", "run_at", CLIENT_FIELD_TEXT},
    JOB_TEXT_MEMBERS /* texts of the job */
    {"unique_mode", "unique_mode", CLIENT_FIELD_TEXT},
    {"max_attempts", "max_attempts", CLIENT_FIELD_NUMBER},
    {"lease", "lease_ms", CLIENT_FIELD_NUMBER},
    {"timeout", "timeout_ms", CLIENT_FIELD_NUMBER},
    {"backoff", "backoff_ms", CLIENT_FIELD_MS_LIST},
    {"expires_at", "expires_at", CLIENT_FIELD_TEXT},
    {"expires_in", "expires_in_ms", CLIENT_FIELD_NUMBER},
    {"depends_on", "depends_on", CLIENT_FIELD_TEXTS},
    {"on_dependency_failure", "on_dependency_failure", CLIENT_FIELD_TEXT},
};

static void jobs_path(struct client_session *s)
{
    client_path_add(&s->path, "/v1/queues/");
    client_path_encode(&s->path, s->args->words[0]);
    client_path_add(&s->path, "/jobs");
}

#define KEY_HEADER_MAX 1024
#define KEY_MAX ((size_t)200) /* the maximum of the server */
#define PART_MAX ((size_t)20) /* "/" and the number of a batch */

/* "Idempotency-Key: KEY", followed by "/part" if part is not 0; NULL without --key. A key with
 * line breaks has been refused before. */
static const char *key_header(struct client_session *s, uint64_t part, char out[KEY_HEADER_MAX])
{
    const char *key = arguments_text(s->args, "key", NULL);
    if (!key)
        return NULL;
    if (part > 0)
        snprintf(out, KEY_HEADER_MAX, "Idempotency-Key: %s/%" PRIu64, key, part);
    else
        snprintf(out, KEY_HEADER_MAX, "Idempotency-Key: %s", key);
    return out;
}

static int key_check(struct client_session *s)
{
    const char *key = arguments_text(s->args, "key", "x");
    size_t max = arguments_has(s->args, "ndjson") ? KEY_MAX - PART_MAX : KEY_MAX;
    bool bad = *key == '\0' || strlen(key) > max;
    for (const char *c = key; *c; c++)
        bad |= (unsigned char)*c < 0x20 || *c == 0x7f;
    if (!bad)
        return CLIENT_DONE;
    return client_complain(CLIENT_USAGE,
                           "--key must be 1 to %zu bytes without control characters%s", max,
                           max < KEY_MAX ? "; the number of each batch is appended to it" : "");
}

/* ---- one job ----------------------------------------------------------------------------------
 */

static int show_one(struct client_session *s)
{
    struct span answer = client_answer(s);
    if (s->json)
        return client_print_json(s);
    struct span id = client_answer_text(answer, "id", &s->arena);
    struct span state = client_answer_text(answer, "state", &s->arena);
    client_print_text(stdout, id, CLIENT_TEXT_WHOLE);
    fputs("  ", stdout);
    client_print_text(stdout, state, CLIENT_TEXT_WHOLE);
    struct span found;
    if (client_answer_find(answer, "created", &found) && !client_answer_true(answer, "created"))
        fputs("  (already existed)", stdout);
    fputc('\n', stdout);
    return CLIENT_DONE;
}

static int one_as_json(struct client_session *s)
{
    char key[KEY_HEADER_MAX];
    if (s->args->word_count < 2)
        return client_complain(CLIENT_USAGE,
                               "the payload is missing; give JSON ('{\"to\":\"ann\"}'), - to read "
                               "it from standard input, @FILE to read it from a file, or null for "
                               "a job without data");
    client_body_begin(s);
    int status = client_body_json(
        s, "payload", s->args->words[1], "the payload",
        "; text is written in quotes ('\"text\"'), and --raw sends bytes as they are");
    if (status == CLIENT_DONE)
        status = client_body_fields(s, job_fields, CLIENT_COUNT(job_fields));
    if (status == CLIENT_DONE)
        status = client_body_end(s);
    if (status != CLIENT_DONE)
        return status;
    jobs_path(s);
    return client_ask_with(
        s, (struct client_request){.method = "POST", .headers = {key_header(s, 0, key)}});
}

static int one_as_bytes(struct client_session *s)
{
    char key[KEY_HEADER_MAX];
    const char *word = s->args->word_count > 1 ? s->args->words[1] : "-";
    if (client_input_read(word, &s->body, &s->note) < 0)
        return client_complain(CLIENT_USAGE, "%s", s->note.text);
    jobs_path(s);
    if (client_fields_query(s->args, job_fields, CLIENT_COUNT(job_fields), &s->path, &s->note) < 0)
        return client_complain(CLIENT_USAGE, "%s", s->note.text);
    return client_ask_with(s, (struct client_request){.method = "POST",
                                                      .content_type = "application/octet-stream",
                                                      .headers = {key_header(s, 0, key)}});
}

/* ---- many -------------------------------------------------------------------------------------
 */

struct many {
    struct client_session *s;
    struct client_lines lines;
    uint64_t created, existing, refused;
    uint64_t *numbers; /* line number of each job in the batch */
    size_t jobs;       /* in the batch */
    uint64_t batches;
    bool progress; /* standard error is a terminal */
};

static void job_refused(struct many *m, size_t index, struct span problem)
{
    struct span detail = client_answer_text(problem, "detail", &m->s->arena);
    if (m->refused++ < PROBLEMS_SHOWN)
        client_complain(CLIENT_REFUSED, "line %" PRIu64 ": %.*s", m->numbers[index],
                        (int)detail.len, detail.at);
}

static void outcomes_count(struct many *m)
{
    struct client_items items;
    struct span item, error;
    size_t index = 0;
    client_items_of(&items, client_answer(m->s), "jobs");
    for (; client_items_next(&items, &item) && index < m->jobs; index++) {
        if (client_answer_find(item, "error", &error))
            job_refused(m, index, error);
        else if (client_answer_true(item, "created"))
            m->created++;
        else
            m->existing++;
    }
    for (; index < m->jobs; index++) /* an answer must have an outcome for each job */
        job_refused(m, index,
                    SPAN_LITERAL("{\"detail\":\"the server returned no outcome for it\"}"));
}

static void progress_show(const struct many *m)
{
    if (m->progress)
        fprintf(stderr, "\r%" PRIu64 " enqueued, %" PRIu64 " refused ", m->created + m->existing,
                m->refused);
}

static int batch_send(struct many *m)
{
    char key[KEY_HEADER_MAX];
    struct client_session *s = m->s;
    if (m->jobs == 0)
        return CLIENT_DONE;
    jobs_path(s);
    int status =
        client_ask_with(s, (struct client_request){.method = "POST",
                                                   .content_type = "application/x-ndjson",
                                                   .headers = {key_header(s, ++m->batches, key)}});
    if (status != CLIENT_DONE)
        return client_complain(status,
                               "lines %" PRIu64 " to %" PRIu64 " were not enqueued, nor "
                               "any behind them",
                               m->numbers[0], m->numbers[m->jobs - 1]);
    outcomes_count(m);
    if (s->json)
        status = client_print_json(s);
    arena_reset(&s->arena);
    m->jobs = 0;
    progress_show(m);
    return status;
}

static bool is_blank(struct span line)
{
    for (size_t i = 0; i < line.len; i++) {
        if (!strchr(" \t\r", line.at[i]))
            return false;
    }
    return true;
}

/* Adds the line to the batch, which is sent first if it has no room for the line. */
static int line_add(struct many *m, struct span line)
{
    struct buf *body = &m->s->body;
    bool full = m->jobs == BATCH_JOBS || (m->jobs > 0 && body->len + line.len + 1 > BATCH_BYTES);
    int status = full ? batch_send(m) : CLIENT_DONE;
    if (status != CLIENT_DONE)
        return status;
    if (buf_append_span(body, line) < 0 || buf_append(body, "\n", 1) < 0)
        return client_no_memory();
    m->numbers[m->jobs++] = m->lines.number;
    return CLIENT_DONE;
}

static int lines_send(struct many *m)
{
    struct span line;
    int status = CLIENT_DONE, more = 1;
    while (status == CLIENT_DONE &&
           (more = client_lines_next(&m->lines, &line, &m->s->note)) == 1) {
        if (!is_blank(line))
            status = line_add(m, line);
    }
    if (more < 0)
        return client_complain(CLIENT_USAGE, "%s", m->s->note.text);
    return status == CLIENT_DONE ? batch_send(m) : status;
}

static int many_run(struct many *m)
{
    const char *word = m->s->args->word_count > 1 ? m->s->args->words[1] : "-";
    if (word[0] != '@' && strcmp(word, "-") != 0)
        return client_complain(CLIENT_USAGE, "with --ndjson the input is - or @FILE");
    if (client_lines_open(&m->lines, word, &m->s->note) < 0)
        return client_complain(CLIENT_USAGE, "%s", m->s->note.text);
    int status = lines_send(m);
    client_lines_close(&m->lines);
    if (m->progress)
        fputs("\r\033[K", stderr);
    if (!m->s->json)
        printf("%" PRIu64 " enqueued, %" PRIu64 " already present, %" PRIu64 " refused\n",
               m->created, m->existing, m->refused);
    return status == CLIENT_DONE && m->refused > 0 ? CLIENT_REFUSED : status;
}

static int many(struct client_session *s)
{
    char name[OPTION_NAME_MAX];
    if (arguments_has(s->args, "raw"))
        return client_complain(CLIENT_USAGE, "--raw and --ndjson cannot be combined");
    const struct client_field *f =
        client_fields_given(s->args, job_fields, CLIENT_COUNT(job_fields));
    if (f)
        return client_complain(
            CLIENT_USAGE,
            "with --ndjson the lines contain what --%s would set: {\"payload\":…,\"%s\":…}",
            option_name(&(struct option){.name = f->option}, name), f->member);
    struct many m = {.s = s, .progress = isatty(STDERR_FILENO)};
    m.numbers = mem_array(BATCH_JOBS, sizeof *m.numbers);
    int status = m.numbers ? many_run(&m) : client_no_memory();
    mem_free(m.numbers);
    return status;
}

static int enqueue(struct client_session *s)
{
    int status = key_check(s);
    if (status != CLIENT_DONE)
        return status;
    if (arguments_has(s->args, "ndjson"))
        return many(s);
    status = arguments_has(s->args, "raw") ? one_as_bytes(s) : one_as_json(s);
    return status == CLIENT_DONE ? show_one(s) : status;
}

int client_enqueue(const struct command *cmd, const struct arguments *args)
{
    return client_run(cmd, args, enqueue);
}
