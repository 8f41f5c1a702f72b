/* SPDX-License-Identifier: Apache-2.0 */
/* Decides the outcome of a job: from the end of a command or the status of an HTTP reply to ack,
 * fail, dead or release. No I/O. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/span.h"

enum work_verb {
    WORK_ACK,
    WORK_FAIL,    /* the attempt counts; the policy of the queue decides what follows */
    WORK_DEAD,    /* no retry; error_kind business */
    WORK_RELEASE, /* retried after a back-off, uncounted */
    WORK_PROBLEM, /* a problem of the worker itself: released uncounted, and the runner backs off */
};

#define WORK_EXITS 256
#define WORK_RESULT_BYTES_MAX ((size_t)64 << 10)
#define WORK_ERROR_BYTES_MAX ((size_t)8 << 10)

/* What each exit status of a command means: enum work_verb. */
struct exit_map {
    uint8_t verbs[WORK_EXITS];
};

/* 0 ack, 65 dead, 75 release, 78, 126 and 127 a problem of the worker, all others fail. */
void exit_map_init(struct exit_map *m);
/* CODE=ack|fail|dead|release. -ERR_INVALID with a sentence. */
MUST_CHECK int exit_map_set(struct exit_map *m, const char *text, struct err_note *note);

#define WORK_TYPE_BYTES 32
struct verdict {
    enum work_verb verb;
    char type[WORK_TYPE_BYTES]; /* error_type: "exit 3", "SIGKILL", "http 500"; "" after an ack */
};

/* status is that of waitpid. */
struct verdict verdict_of_exit(const struct exit_map *m, int status);
/* 0 = no reply. */
struct verdict verdict_of_http(long status);
/* "SIGTERM"; "signal 40" without a name. */
void signal_name(int number, char out[WORK_TYPE_BYTES]);
const char *work_verb_name(enum work_verb verb); /* for the log: "acked", "failed" … */

/* Writes the value of `result`: the output itself if it is JSON, otherwise a text without its last
 * line break. kept has the first bytes of `total`; if some are missing, the value is
 * {"truncated": true, "bytes": total, "text": …}. */
void result_write(struct json_writer *w, struct span kept, uint64_t total);

/* The delay of a release after `times` earlier releases: 1 s, doubled each time, up to 5
 * minutes. */
int64_t release_delay_ms(unsigned times);
