/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/options.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/client/http/http.h"
#include "config/rate.h"
#include "core/limits.h"
#include "core/validate.h"

#define CONCURRENCY_MAX 1000
#define HOST_BYTES 256
/* Open files: the ends of five pipes and sockets on both sides while a command is started, and a
 * connection to the server; or connections to the target and to the server. */
#define FILES_PER_COMMAND 6
#define FILES_PER_REQUEST 2
#define FILES_OF_RUNNER 40
#define DAY_MS (INT64_C(24) * 3600 * 1000)

const struct option work_options[WORK_OPTION_COUNT] = {
    CLIENT_ENDPOINT_OPTIONS,
    {"concurrency", 'n', "N", "number of jobs at once (1)", OPTION_NUMBER},
    {"url", 0, "URL", "send each job to this address instead of running a command", OPTION_TEXT},
    {"rate", 0, "N/DURATION", "start at most N jobs in this time: 10/s, 10/500ms, 100/1m",
     OPTION_TEXT},
    {"poll", 0, "DURATION", "how long a claim waits for a job (5s)", OPTION_DURATION},
    {"lease", 0, "DURATION", "lease of a job, renewed while it runs (60s)", OPTION_DURATION},
    {"timeout", 0, "DURATION", "a job that runs longer is terminated and fails (10m); 0: no limit",
     OPTION_DURATION},
    {"kill_after", 0, "DURATION", "SIGKILL follows SIGTERM after this time (10s)", OPTION_DURATION},
    {"stop", 0, "finish|drain",
     "after SIGTERM: finish the current jobs (default), or work until no job is ready",
     OPTION_CHOICE},
    {"stop_timeout", 0, "DURATION",
     "after SIGTERM: terminate commands that still run after this time (25s)", OPTION_DURATION},
    {"until_empty", 0, NULL, "end when no job is ready or running", OPTION_FLAG},
    {"once", 0, NULL, "run one job and end", OPTION_FLAG},
    {"breaker", 0, "NAME", "ask this circuit breaker before each claim, and report outcomes to it",
     OPTION_TEXT},
    {"exit", 0, "CODE=ack|fail|dead|release", "what an exit status means; may be repeated",
     OPTION_LIST},
    {"max_age", 0, "DURATION",
     "with --url: replies 429 and 503 fail a job that is older than this (24h)", OPTION_DURATION},
    {"name", 0, "NAME", "name of the worker (HOST-PID)", OPTION_TEXT},
    {"config", 0, "FILE", "run the workers that this file describes (docs/worker.md)", OPTION_FILE},
    {"json", 'j', NULL, "write the log as JSON lines", OPTION_FLAG},
};

/* ---- numbers ---- */

static const struct duration_row {
    const char *option;
    int64_t otherwise, low, high;
    size_t at;
} durations[] = {
#define AT(member) offsetof(struct work_plan, member)
    {"poll", 5000, 0, 60000, AT(poll_ms)},
    {"lease", 60000, 1000, LIMIT_LEASE_MS, AT(lease_ms)},
    {"timeout", 600000, 0, 30 * DAY_MS, AT(timeout_ms)},
    {"kill_after", 10000, 0, DAY_MS, AT(kill_after_ms)},
    {"stop_timeout", 25000, 0, 30 * DAY_MS, AT(stop_timeout_ms)},
    {"max_age", DAY_MS, 0, 3650 * DAY_MS, AT(max_age_ms)},
#undef AT
};

static int durations_read(const struct arguments *args, struct work_plan *p, struct err_note *note)
{
    char name[OPTION_NAME_MAX], low[UNITS_TEXT_MAX], high[UNITS_TEXT_MAX];
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
        const struct duration_row *d = &durations[i];
        int64_t ms = arguments_number(args, d->option, d->otherwise);
        if (ms < d->low || ms > d->high)
            return err_note_set(note, -ERR_INVALID, "--%s is %s; it must be from %s to %s",
                                option_name(&(struct option){.name = d->option}, name),
                                arguments_text(args, d->option, ""),
                                units_text(d->low, UNIT_MS, low),
                                units_text(d->high, UNIT_MS, high));
        memcpy((char *)p + d->at, &ms, sizeof ms);
    }
    return 0;
}

static int numbers_read(const struct arguments *args, struct work_plan *p, struct err_note *note)
{
    char shown[QUOTED_MAX];
    int64_t n = arguments_number(args, "concurrency", 1);
    const char *rate = arguments_text(args, "rate", NULL);
    if (n < 1 || n > CONCURRENCY_MAX)
        return err_note_set(note, -ERR_INVALID,
                            "--concurrency is %" PRId64 "; it must be from 1 to %d", n,
                            CONCURRENCY_MAX);
    p->concurrency = (unsigned)n;
    if (rate && rate_parse(span_text(rate), "", &p->rate) < 0)
        return err_note_set(
            note, -ERR_INVALID,
            "--rate is %s; it must be N/DURATION, such as 10/s, 10/500ms or 100/1m, "
            "with at most %u jobs; the duration needs its unit",
            quoted(span_text(rate), shown), LIMIT_RATE_COUNT);
    return durations_read(args, p, note);
}

/* ---- what to work on, and with what ---- */

static int queues_read(const struct arguments *args, struct work_plan *p, struct err_note *note)
{
    p->queues = args->words;
    p->queue_count = args->words_before;
    if (p->queue_count == 0)
        return err_note_set(note, -ERR_INVALID,
                            "name the queues to work on: holdfast work QUEUE... -- COMMAND");
    if (p->queue_count > LIMIT_QUEUES_PER_REQUEST)
        return err_note_set(note, -ERR_INVALID, "%zu queues were named; at most %d are allowed",
                            p->queue_count, LIMIT_QUEUES_PER_REQUEST);
    for (size_t i = 0; i < p->queue_count; i++) {
        if (p->queues[i][0] == '\0')
            return err_note_set(note, -ERR_INVALID, "the name of a queue is empty");
    }
    return 0;
}

static int url_check(const char *url, struct err_note *note)
{
    CURLU *parts = curl_url();
    char *scheme = NULL;
    char shown[QUOTED_MAX];
    CURLUcode code = parts ? curl_url_set(parts, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME)
                           : CURLUE_OUT_OF_MEMORY;
    if (code == CURLUE_OK)
        code = curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0);
    bool http = scheme && (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    curl_free(scheme);
    curl_url_cleanup(parts);
    if (code == CURLUE_OK && http)
        return 0;
    if (code == CURLUE_OUT_OF_MEMORY)
        return -ERR_NOMEM;
    return err_note_set(note, -ERR_INVALID,
                        "--url is %s; it must be like http://HOST:PORT/PATH%s%s",
                        quoted(span_text(url), shown), code == CURLUE_OK ? "" : ": ",
                        code == CURLUE_OK ? "" : curl_url_strerror(code));
}

static int target_read(const struct arguments *args, struct work_plan *p, struct arena *arena,
                       struct err_note *note)
{
    size_t words = args->word_count - args->words_before;
    p->url = arguments_text(args, "url", NULL);
    if ((words > 0) == (p->url != NULL))
        return err_note_set(note, -ERR_INVALID,
                            p->url ? "--url and a command cannot be combined"
                                   : "give a command after `--`, or an address with --url");
    if (p->url)
        return url_check(p->url, note);
    char **command = arena_array(arena, words + 1, sizeof *command);
    for (size_t i = 0; command && i < words; i++) {
        const char *word = args->words[args->words_before + i];
        command[i] = arena_text(arena, span_text(word));
        if (!command[i])
            return -ERR_NOMEM;
    }
    p->command = command;
    return command ? 0 : -ERR_NOMEM;
}

static int name_read(const struct arguments *args, struct work_plan *p, struct arena *arena,
                     struct err_note *note)
{
    char host[HOST_BYTES] = "", text[HOST_BYTES + 24];
    p->name = arguments_text(args, "name", NULL);
    if (p->name && (p->name[0] == '\0' ||
                    validate_text("name", span_text(p->name), LIMIT_WORKER_BYTES, note) < 0))
        return err_note_set(note, -ERR_INVALID, "--name must have 1 to %d bytes of UTF-8",
                            LIMIT_WORKER_BYTES);
    if (p->name)
        return 0;
    (void)gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text, "%.100s-%d", host, (int)getpid());
    p->name = arena_text(arena, span_text(text));
    return p->name ? 0 : -ERR_NOMEM;
}

static int exits_read(const struct arguments *args, struct work_plan *p, struct err_note *note)
{
    size_t at = 0;
    const char *text;
    exit_map_init(&p->exits);
    while ((text = arguments_next(args, "exit", &at)) != NULL) {
        if (exit_map_set(&p->exits, text, note) < 0)
            return -ERR_INVALID;
    }
    return 0;
}

/* Checks options that belong to one kind of target, and options that cannot be combined. */
static int combination_check(const struct arguments *args, const struct work_plan *p,
                             struct err_note *note)
{
    if (p->url && arguments_has(args, "exit"))
        return err_note_set(note, -ERR_INVALID, "--exit is for commands; --url has no exit status");
    if (!p->url && arguments_has(args, "max_age"))
        return err_note_set(note, -ERR_INVALID, "--max-age can only be used with --url");
    if (p->once && p->until_empty)
        return err_note_set(note, -ERR_INVALID, "--once and --until-empty cannot be combined");
    if (p->breaker && p->breaker[0] == '\0')
        return err_note_set(note, -ERR_INVALID, "--breaker is empty; give it a name");
    return 0;
}

/* The runner raises its limit to the hard one. */
static int files_check(struct work_plan *p, struct err_note *note)
{
    rlim_t each = p->url ? FILES_PER_REQUEST : FILES_PER_COMMAND;
    if (getrlimit(RLIMIT_NOFILE, &p->files) != 0 || p->files.rlim_max == RLIM_INFINITY ||
        p->files.rlim_max >= FILES_OF_RUNNER + each * p->concurrency)
        return 0;
    rlim_t max =
        p->files.rlim_max > FILES_OF_RUNNER ? (p->files.rlim_max - FILES_OF_RUNNER) / each : 0;
    return err_note_set(note, -ERR_INVALID,
                        "--concurrency is %u; the limit of open files (ulimit -Hn) is %ju, which "
                        "is enough for %ju jobs at once",
                        p->concurrency, (uintmax_t)p->files.rlim_max, (uintmax_t)max);
}

int work_plan_build(const struct arguments *args, struct arena *arena, struct work_plan *ret,
                    struct err_note *note)
{
    struct work_plan p = {
        .to = client_endpoint_of(args),
        .breaker = arguments_text(args, "breaker", NULL),
        .drain = strcmp(arguments_text(args, "stop", "finish"), "drain") == 0,
        .until_empty = arguments_has(args, "until_empty"),
        .once = arguments_has(args, "once"),
        .json = arguments_has(args, "json"),
    };
    int rc = queues_read(args, &p, note);
    if (rc == 0)
        rc = target_read(args, &p, arena, note);
    if (rc == 0)
        rc = numbers_read(args, &p, note);
    if (rc == 0)
        rc = name_read(args, &p, arena, note);
    if (rc == 0)
        rc = exits_read(args, &p, note);
    if (rc == 0)
        rc = combination_check(args, &p, note);
    if (rc == 0)
        rc = files_check(&p, note);
    if (rc == -ERR_NOMEM)
        (void)!err_note_set(note, rc, "out of memory");
    if (rc == 0)
        *ret = p;
    return rc;
}
