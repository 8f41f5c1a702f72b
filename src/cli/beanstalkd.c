/* SPDX-License-Identifier: Apache-2.0 */
/* A link named beanstalkd to this program takes beanstalkd's options, so that a script which
 * starts beanstalkd can start this server. The options become settings of `serve`: no HTTP, the
 * store in memory without -b, and in the directory of -b with it.
 *
 * Differences: without -l it listens on 127.0.0.1 and not on every address, and the reply to a
 * put is durable, so -f has no effect; -F disables the sync. */
#include "cli/beanstalkd.h"

#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "core/limits.h"
#include "server/version.h"

#define PORT_DEFAULT "11300"
#define SEGMENT_MIN (INT64_C(1) << 20)
#define SEGMENT_MAX (INT64_C(1) << 30)
#define WORDS_MAX 16

struct wish {
    const char *address, *port, *dir, *user;
    int64_t job_bytes, segment_bytes; /* 0 = unchanged */
    bool no_sync;
    unsigned verbose;
};

bool beanstalkd_called(const char *argv0)
{
    const char *slash = argv0 ? strrchr(argv0, '/') : NULL;
    const char *name = slash ? slash + 1 : argv0;
    return name && strcmp(name, "beanstalkd") == 0;
}

static const char usage[] =
    "Use: beanstalkd [OPTIONS]\n\nOptions:\n -b DIR   keep jobs in a store in this directory; "
    "without it they are in memory\n -f MS    accepted and ignored: with a store, every reply is "
    "durable\n -F       never sync; a crash of the machine may lose jobs\n -l ADDR  listen on this "
    "address, or on unix:PATH (default is 127.0.0.1)\n -p PORT  listen on this port (default "
    "is " PORT_DEFAULT ")\n -z BYTES the largest job (default is 65535)\n -s BYTES size of one "
    "file of the store's journal\n -u USER  become this user and its group\n -V "
    "      log more; twice: log everything\n -c, -n   accepted and ignored\n -v "
    "      show the version and exit\n -h       show this help and exit\n";

/* ---- reading the options ---- */

static bool number_of(char letter, const char *text, int64_t max, int64_t *ret)
{
    char *end;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end || n < 0) {
        fprintf(stderr, "beanstalkd: -%c needs a number of 0 or more\n", letter);
        return false;
    }
    if (n > max)
        fprintf(stderr, "beanstalkd: -%c is more than the maximum, so %lld is used\n", letter,
                (long long)max);
    *ret = n > max ? max : n;
    return true;
}

static bool option_take(struct wish *w, char letter, const char *value)
{
    int64_t ignored;
    switch (letter) {
    case 'b':
        w->dir = value;
        return true;
    case 'l':
        w->address = value;
        return true;
    case 'p':
        w->port = value;
        return true;
    case 'u':
        w->user = value;
        return true;
    case 'z':
        return number_of(letter, value, LIMIT_PAYLOAD_BYTES, &w->job_bytes);
    case 's':
        return number_of(letter, value, SEGMENT_MAX, &w->segment_bytes);
    case 'f':
        return number_of(letter, value, INT64_MAX, &ignored);
    case 'F':
        w->no_sync = true;
        return true;
    case 'V':
        w->verbose++;
        return true;
    default: /* c, n */
        return true;
    }
}

/* EXIT_DONE with *ret_run false: nothing remains to be done. */
static int options_take(int argc, char **argv, struct wish *w, bool *ret_run)
{
    int letter;
    *ret_run = false;
    while ((letter = getopt(argc, argv, "b:cFf:hl:np:s:u:Vvz:")) != -1) {
        if (letter == 'h') {
            fputs(usage, stdout);
            return EXIT_DONE;
        }
        if (letter == 'v') {
            printf("beanstalkd holdfast-%s\n", version_number());
            return EXIT_DONE;
        }
        if (letter == '?' || !option_take(w, (char)letter, optarg)) {
            fputs(usage, stderr);
            return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "beanstalkd: unknown argument %s\n%s", argv[optind], usage);
        return EXIT_USAGE;
    }
    *ret_run = true;
    return EXIT_DONE;
}

/* ---- what they mean ---- */

static bool user_become(const char *name)
{
    const struct passwd *p = getpwnam(name);
    if (!p) {
        fprintf(stderr, "beanstalkd: there is no user %s\n", name);
        return false;
    }
    if (initgroups(p->pw_name, p->pw_gid) != 0 || setgid(p->pw_gid) != 0 ||
        setuid(p->pw_uid) != 0) {
        fprintf(stderr, "beanstalkd: this user may not become %s\n", name);
        return false;
    }
    return true;
}

static void address_text(const struct wish *w, char *out, size_t room)
{
    const char *address = w->address ? w->address : "127.0.0.1";
    const char *port = w->port ? w->port : PORT_DEFAULT;
    if (strncmp(address, "unix:", 5) == 0)
        snprintf(out, room, "%s", address);
    else if (strchr(address, ':') && address[0] != '[')
        snprintf(out, room, "[%s]:%s", address, port);
    else
        snprintf(out, room, "%s:%s", address, port);
}

static int serve(const struct wish *w)
{
    char program[] = "holdfast", word[] = "serve", level_flag[] = "--log-level",
         http_flag[] = "--listen", none[] = "none", own_flag[] = "--beanstalk",
         store_flag[] = "--backend", memory[] = "memory:";
    char address[256], level[8], job[48], segment[48], no_sync[] = "--queue-defaults-durability",
                                                       relaxed[] = "relaxed", store[4200];
    char *words[WORDS_MAX] = {program, word,       http_flag, none,      own_flag,
                              address, level_flag, level,     store_flag};
    int count = 9;
    address_text(w, address, sizeof address);
    snprintf(level, sizeof level, "%s",
             w->verbose == 0   ? "warn"
             : w->verbose == 1 ? "info"
                               : "debug");
    snprintf(store, sizeof store, "sqlite:%s", w->dir ? w->dir : "");
    words[count++] = w->dir ? store : memory;
    if (w->job_bytes > 0) {
        snprintf(job, sizeof job, "--beanstalk-max-job-bytes=%lld", (long long)w->job_bytes);
        words[count++] = job;
    }
    if (w->segment_bytes > 0) {
        int64_t bytes = w->segment_bytes < SEGMENT_MIN ? SEGMENT_MIN : w->segment_bytes;
        snprintf(segment, sizeof segment, "--journal-segment-bytes=%lld", (long long)bytes);
        words[count++] = segment;
    }
    if (w->no_sync) {
        words[count++] = no_sync;
        words[count++] = relaxed;
    }
    return command_line(count, words);
}

int beanstalkd_line(int argc, char **argv)
{
    struct wish w = {0};
    bool run;
    int status = options_take(argc, argv, &w, &run);
    if (!run)
        return status;
    if (w.user && !user_become(w.user))
        return EXIT_FAILED;
    return serve(&w);
}
