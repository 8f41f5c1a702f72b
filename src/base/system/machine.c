/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#define PATH_BYTES 4096

/* "max" is no number and means no limit, as does a file that is not there. */
static uint64_t limit_of(const char *folder, const char *file)
{
    char path[PATH_BYTES + 64], text[64];
    uint64_t limit = UINT64_MAX;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *in = fopen(path, "re");
    if (!in)
        return limit;
    if (fgets(text, sizeof text, in)) {
        char *end;
        errno = 0;
        unsigned long long value = strtoull(text, &end, 10);
        if (end != text && errno == 0)
            limit = value;
    }
    fclose(in);
    return limit;
}

/* The limit of a group holds for the groups in it, so all folders up to the root are read. In a
 * container the path may be the host's, of which only the root is visible. */
static uint64_t limit_upwards(const char *root, const char *path, const char *file)
{
    char folder[PATH_BYTES];
    uint64_t least = UINT64_MAX;
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", root, path) >= sizeof folder)
        return least;
    size_t root_len = strlen(root);
    for (;;) {
        uint64_t limit = limit_of(folder, file);
        least = limit < least ? limit : least;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < root_len)
            return least;
        *slash = '\0';
    }
}

/* "0::/path" in version 2, "4:cpu,memory:/path" in version 1. */
static uint64_t limit_of_line(char *line, const char *root)
{
    char memory_root[PATH_BYTES];
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return UINT64_MAX;
    *path++ = '\0';
    if (strcmp(line, "0:") == 0)
        return limit_upwards(root, path, "memory.max");
    if (!strstr(controllers + 1, "memory") ||
        (size_t)snprintf(memory_root, sizeof memory_root, "%s/memory", root) >= sizeof memory_root)
        return UINT64_MAX;
    return limit_upwards(memory_root, path, "memory.limit_in_bytes");
}

uint64_t machine_cgroup_bytes(const char *membership, const char *root)
{
    char line[PATH_BYTES];
    uint64_t least = UINT64_MAX;
    FILE *in = fopen(membership, "re");
    if (!in)
        return least;
    while (fgets(line, sizeof line, in)) {
        uint64_t limit = limit_of_line(line, root);
        least = limit < least ? limit : least;
    }
    fclose(in);
    return least;
}

/* sysinfo, not /proc/meminfo, which a hardened service cannot see. */
static uint64_t physical_bytes(void)
{
    struct sysinfo info;
    if (sysinfo(&info) != 0)
        return UINT64_MAX;
    return (uint64_t)info.totalram * info.mem_unit;
}

uint64_t machine_memory_bytes(void)
{
    uint64_t physical = physical_bytes();
    uint64_t limit = machine_cgroup_bytes("/proc/self/cgroup", "/sys/fs/cgroup");
    return limit < physical ? limit : physical;
}
