/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/work/targets/outcome.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "config/units.h"

/* From sysexits.h and the shells. */
enum {
    EXIT_DATA = 65,
    EXIT_TEMPORARY = 75,
    EXIT_CONFIG = 78,
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127
};
#define DELAY_MS_MIN INT64_C(1000)
#define DELAY_MS_MAX INT64_C(300000)

/* The names of --exit, by enum work_verb; WORK_PROBLEM has none. */
static const char *const exit_words[] = {
    [WORK_ACK] = "ack", [WORK_FAIL] = "fail", [WORK_DEAD] = "dead", [WORK_RELEASE] = "release"};
static const char *const verb_names[] = {
    [WORK_ACK] = "acked",        [WORK_FAIL] = "failed",      [WORK_DEAD] = "dead",
    [WORK_RELEASE] = "released", [WORK_PROBLEM] = "released",
};

void exit_map_init(struct exit_map *m)
{
    memset(m->verbs, WORK_FAIL, sizeof m->verbs);
    m->verbs[0] = WORK_ACK;
    m->verbs[EXIT_DATA] = WORK_DEAD;
    m->verbs[EXIT_TEMPORARY] = WORK_RELEASE;
    m->verbs[EXIT_CONFIG] = WORK_PROBLEM;
    m->verbs[EXIT_NOT_EXECUTABLE] = WORK_PROBLEM;
    m->verbs[EXIT_NOT_FOUND] = WORK_PROBLEM;
}

int exit_map_set(struct exit_map *m, const char *text, struct err_note *note)
{
    char shown[QUOTED_MAX];
    size_t len = strcspn(text, "=");
    int64_t code;
    if (text[len] == '=' && units_parse(span_of(text, len), UNIT_NONE, &code) == 0 && code >= 0 &&
        code < WORK_EXITS) {
        for (size_t i = 0; i < sizeof exit_words / sizeof *exit_words; i++) {
            if (strcmp(text + len + 1, exit_words[i]) != 0)
                continue;
            m->verbs[code] = (uint8_t)i;
            return 0;
        }
    }
    return err_note_set(note, -ERR_INVALID,
                        "--exit is %s; it must be CODE=ack|fail|dead|release with a CODE from 0 to "
                        "255, such as 3=dead",
                        quoted(span_text(text), shown));
}

void signal_name(int number, char out[WORK_TYPE_BYTES])
{
    const char *name = sigabbrev_np(number);
    if (name)
        snprintf(out, WORK_TYPE_BYTES, "SIG%s", name);
    else
        snprintf(out, WORK_TYPE_BYTES, "signal %d", number);
}

struct verdict verdict_of_exit(const struct exit_map *m, int status)
{
    struct verdict v = {.verb = WORK_FAIL};
    if (WIFSIGNALED(status)) {
        signal_name(WTERMSIG(status), v.type);
        return v;
    }
    v.verb = m->verbs[WEXITSTATUS(status)];
    if (v.verb != WORK_ACK)
        snprintf(v.type, sizeof v.type, "exit %d", WEXITSTATUS(status));
    return v;
}

struct verdict verdict_of_http(long status)
{
    struct verdict v = {.verb = WORK_FAIL};
    if (status >= 200 && status <= 299)
        v.verb = WORK_ACK;
    else if (status == 429 || status == 503)
        v.verb = WORK_RELEASE;
    else if (status == 422)
        v.verb = WORK_DEAD;
    if (status == 0)
        snprintf(v.type, sizeof v.type, "http no reply");
    else if (v.verb != WORK_ACK)
        snprintf(v.type, sizeof v.type, "http %ld", status);
    return v;
}

const char *work_verb_name(enum work_verb verb)
{
    return verb_names[verb];
}

void result_write(struct json_writer *w, struct span kept, uint64_t total)
{
    bool whole = kept.len == total;
    struct span text = kept;
    if (whole && json_check(kept, NULL, NULL) == 0) {
        json_write_raw(w, kept);
        return;
    }
    if (whole && text.len > 0 && text.at[text.len - 1] == '\n')
        text.len--;
    if (whole) {
        json_write_text(w, text);
        return;
    }
    json_write_object(w);
    json_write_key(w, "truncated");
    json_write_bool(w, true);
    json_write_key(w, "bytes");
    json_write_uint(w, total);
    json_write_key(w, "text");
    json_write_text(w, text);
    json_write_object_end(w);
}

int64_t release_delay_ms(unsigned times)
{
    int64_t ms = times < 16 ? DELAY_MS_MIN << times : DELAY_MS_MAX;
    return ms < DELAY_MS_MAX ? ms : DELAY_MS_MAX;
}
