/* SPDX-License-Identifier: Apache-2.0 */
/* Processor time and memory of a server: of the given processes and all their descendants,
 * because PostgreSQL works in its children and RabbitMQ below a shell. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

#define PROCESSES_MAX 32768

struct process {
    int pid, parent;
    bool ours;
};

struct processes {
    struct process *all;
    size_t count;
};

static int parent_of(int pid)
{
    char path[64], text[512];
    int parent = -1;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return -1;
    size_t n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    /* The name in parentheses may contain any character, also parentheses. */
    const char *end = strrchr(text, ')');
    if (end && strlen(end) > 4)
        parent = (int)strtol(end + 4, NULL, 10);
    return parent;
}

static void processes_read(struct processes *p)
{
    const struct dirent *entry;
    DIR *dir = opendir("/proc");
    p->count = 0;
    p->all = calloc(PROCESSES_MAX, sizeof *p->all);
    if (!dir || !p->all)
        load_fail("cannot read /proc: %s", strerror(errno));
    while ((entry = readdir(dir)) && p->count < PROCESSES_MAX) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        int pid = (int)strtol(entry->d_name, NULL, 10);
        p->all[p->count++] = (struct process){.pid = pid, .parent = parent_of(pid)};
    }
    (void)closedir(dir);
}

static bool is_ours(const struct processes *p, int pid)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->all[i].pid == pid)
            return p->all[i].ours;
    return false;
}

static void mark_named(struct processes *p, const char *pids)
{
    for (const char *at = pids; *at;) {
        char *end;
        int pid = (int)strtol(at, &end, 10);
        bool found = false;
        if (end == at || (*end && *end != ','))
            load_fail("--pids takes numbers separated by commas, not '%s'", pids);
        for (size_t i = 0; i < p->count; i++)
            if (p->all[i].pid == pid) {
                p->all[i].ours = true;
                found = true;
            }
        if (!found)
            load_fail("there is no process %d to measure", pid);
        at = *end ? end + 1 : end;
    }
}

static void mark_children(struct processes *p)
{
    bool more = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < p->count; i++)
            if (!p->all[i].ours && is_ours(p, p->all[i].parent)) {
                p->all[i].ours = true;
                more = true;
            }
    }
}

static double cpu_us(int pid)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) < 0)
        return 0; /* it has ended */
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

static double rss_bytes(int pid)
{
    char path[64], text[128] = "";
    char *end;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    (void)strtol(text, &end, 10);
    return (double)strtol(end, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

void load_server_usage(const char *pids, double *ret_cpu_us, double *ret_rss_bytes)
{
    struct processes p;
    *ret_cpu_us = *ret_rss_bytes = 0;
    if (!pids)
        return;
    processes_read(&p);
    mark_named(&p, pids);
    mark_children(&p);
    for (size_t i = 0; i < p.count; i++) {
        if (!p.all[i].ours)
            continue;
        *ret_cpu_us += cpu_us(p.all[i].pid);
        *ret_rss_bytes += rss_bytes(p.all[i].pid);
    }
    free(p.all);
}

double load_own_cpu_us(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e6 +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}
