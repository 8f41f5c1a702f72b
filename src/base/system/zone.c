/* SPDX-License-Identifier: Apache-2.0 */
/* Zones through GLib's GTimeZone (docs/decisions/016-time-zones.md).
 *
 * GTimeZone numbers the intervals between a zone's transitions and tells which one a moment is in,
 * but not where an interval ends; numbers rise with time, so its end is found by doubling and
 * halving. Which names there are comes from the database's own list: GLib would also take paths,
 * POSIX rules and the "right/" zones, which count leap seconds. */
#include "base/system/zone.h"

#include <fcntl.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/suggest.h"

#define ZONE_DIR "/usr/share/zoneinfo"
#define NAMES_FILE "tzdata.zi" /* the whole database as text: names stand in its Z and L lines */
#define NAMES_BYTES_MAX (4u << 20)
#define FIRST_STEP_S (INT64_C(30) * 86400)
#define FAR_S INT64_C(253402300800) /* the year 10000: beyond it no change matters */

struct zone {
    GTimeZone *tz;
    struct zone *next;
    /* The last answer about changes: from `from` on the next one is at `change`. Mostly the next
     * question is about the same stretch. */
    int64_t from, change;
    char name[ZONE_NAME_BYTES_MAX + 1];
};

struct zones {
    struct zone *first;
    char *text; /* the file of names, cut into them */
    const char **names;
    size_t count, room;
};

/* ---- names ---- */

static char *file_read(const char *path, size_t *ret_len)
{
    struct stat st;
    char *text = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size < NAMES_BYTES_MAX)
        text = mem_alloc((size_t)st.st_size + 1);
    ssize_t n = text ? read(fd, text, (size_t)st.st_size) : -1;
    if (fd >= 0)
        close(fd);
    if (n < 0) {
        mem_free(text);
        return NULL;
    }
    text[n] = '\0';
    *ret_len = (size_t)n;
    return text;
}

static int name_add(struct zones *z, const char *name)
{
    const char **names = mem_more(z->names, z->count, &z->room, sizeof *names);
    if (!names)
        return -ERR_NOMEM;
    z->names = names;
    z->names[z->count++] = name;
    return 0;
}

/* "Z NAME offset …" begins a zone, "L TARGET NAME" gives it another name; the rest are rules. */
static char *line_name(char *line)
{
    char *at = line + 2;
    if ((line[0] != 'Z' && line[0] != 'L') || line[1] != ' ')
        return NULL;
    if (line[0] == 'L') {
        at = strchr(at, ' ');
        if (!at)
            return NULL;
        at++;
    }
    at[strcspn(at, " ")] = '\0';
    return *at ? at : NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int names_load(struct zones *z)
{
    const char *dir = getenv("TZDIR"); /* GLib looks there, too */
    char path[512];
    size_t len = 0;
    int n = g_snprintf(path, sizeof path, "%s/" NAMES_FILE, dir && *dir ? dir : ZONE_DIR);
    z->text = n > 0 && (size_t)n < sizeof path ? file_read(path, &len) : NULL;
    int err = 0;
    for (char *line = z->text, *end; err == 0 && line && *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = '\0';
        char *name = line_name(line);
        if (name && strlen(name) <= ZONE_NAME_BYTES_MAX)
            err = name_add(z, name);
    }
    if (z->count > 1)
        qsort(z->names, z->count, sizeof *z->names, by_name);
    return err;
}

const char *const *zones_names(const struct zones *z, size_t *ret_count)
{
    *ret_count = z->count;
    return z->names;
}

/* ---- opening ---- */

int zones_new(struct zones **ret)
{
    struct zones *z = mem_zalloc(sizeof *z);
    int err = z ? names_load(z) : -ERR_NOMEM;
    if (err < 0)
        zones_free(z);
    else
        *ret = z;
    return err;
}

void zones_free(struct zones *z)
{
    if (!z)
        return;
    while (z->first) {
        struct zone *one = z->first;
        z->first = one->next;
        g_time_zone_unref(one->tz);
        mem_free(one);
    }
    mem_free(z->names);
    mem_free(z->text);
    mem_free(z);
}

static int unknown(const struct zones *z, const char *name, struct err_note *note)
{
    const char *near = suggest_nearest(name, z->names, z->count);
    if (z->count == 0)
        return err_note_set(note, -ERR_INVALID,
                            "timezone is \"%s\", but this machine has no tz database: install the "
                            "package tzdata; UTC works without it",
                            name);
    return err_note_set(note, -ERR_INVALID,
                        "timezone is \"%s\", which is not known%s%s%s; it must be a name of the "
                        "tz database such as Europe/Berlin, or UTC",
                        name, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* What may be put into a message and a path. */
static bool plain_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!g_ascii_isalnum(name.at[i]) && !strchr("_+-/", name.at[i]))
            return false;
    return name.len <= ZONE_NAME_BYTES_MAX;
}

static int zone_make(struct zones *z, const char *name, struct zone **ret, struct err_note *note)
{
    bool listed = strcmp(name, "UTC") == 0 ||
                  (z->count && bsearch(&name, z->names, z->count, sizeof *z->names, by_name));
    GTimeZone *tz = listed ? g_time_zone_new_identifier(name) : NULL;
    if (!tz)
        return unknown(z, name, note);
    struct zone *one = mem_zalloc(sizeof *one);
    if (!one) {
        g_time_zone_unref(tz);
        return -ERR_NOMEM;
    }
    one->tz = tz;
    memcpy(one->name, name, strlen(name) + 1);
    one->next = z->first;
    z->first = one;
    *ret = one;
    return 0;
}

int zones_open(struct zones *z, struct span name, const struct zone **ret, struct err_note *note)
{
    char text[ZONE_NAME_BYTES_MAX + 1] = "UTC";
    if (!plain_name(name))
        return err_note_set(note, -ERR_INVALID,
                            "timezone must be a name of the tz database such as Europe/Berlin, or "
                            "UTC: letters, digits and _+-/, at most %d bytes",
                            ZONE_NAME_BYTES_MAX);
    if (name.len > 0) {
        memcpy(text, name.at, name.len);
        text[name.len] = '\0';
    }
    struct zone *found = z->first;
    while (found && strcmp(found->name, text) != 0)
        found = found->next;
    int err = found ? 0 : zone_make(z, text, &found, note);
    if (err == 0)
        *ret = found;
    return err;
}

/* ---- asking ---- */

static int interval_at(const struct zone *zone, int64_t at)
{
    return g_time_zone_find_interval(zone->tz, G_TIME_TYPE_UNIVERSAL, at);
}

int32_t zone_offset(const void *ctx, int64_t at)
{
    const struct zone *zone = ctx;
    return g_time_zone_get_offset(zone->tz, interval_at(zone, at));
}

/* The end of the interval that `at` is in; INT64_MAX = it does not end before FAR_S. */
static int64_t interval_end(const struct zone *zone, int64_t at)
{
    int here = interval_at(zone, at);
    int64_t inside = at, beyond = at, step = FIRST_STEP_S;
    do {
        if (beyond >= FAR_S)
            return INT64_MAX;
        inside = beyond;
        beyond += step;
        step *= 2;
    } while (interval_at(zone, beyond) == here);
    while (beyond - inside > 1) {
        int64_t middle = inside + (beyond - inside) / 2;
        if (interval_at(zone, middle) == here)
            inside = middle;
        else
            beyond = middle;
    }
    return beyond;
}

/* Some transitions change the name or the kind of the time, but not the offset. */
int64_t zone_next_change(const void *ctx, int64_t at)
{
    struct zone *zone = (struct zone *)(uintptr_t)ctx;
    if (at >= zone->from && at < zone->change)
        return zone->change;
    int32_t offset = zone_offset(zone, at);
    int64_t end = interval_end(zone, at);
    while (end != INT64_MAX && zone_offset(zone, end) == offset)
        end = interval_end(zone, end);
    zone->from = at;
    zone->change = end;
    return end;
}
