/* SPDX-License-Identifier: Apache-2.0 */
/* The setting routes: "PATTERN number=1 backend=URL", with the options after the pattern in any
 * order. The address may contain a password, so it is never shown. */
#include "backend/router/router.h"
#include "config/table.h"

#define SUBJECT "routes"

static struct span next_text(const char **at)
{
    *at += strspn(*at, " ");
    struct span word = span_of(*at, strcspn(*at, " "));
    *at += word.len;
    return word;
}

static bool option_is(struct span word, const char *name, struct span *ret_value)
{
    size_t len = strlen(name);
    if (word.len <= len || memcmp(word.at, name, len) != 0)
        return false;
    *ret_value = span_of(word.at + len, word.len - len);
    return true;
}

static int number_take(struct config_route *route, struct span value, struct err_note *note)
{
    char shown[QUOTED_MAX];
    int64_t number;
    if (units_parse(value, UNIT_NONE, &number) < 0 || number < 0 || number > ROUTER_NUMBER_MAX)
        return err_note_set(note, -ERR_INVALID,
                            SUBJECT " has number=%s for %s; it must be a whole number from 1 to "
                                    "%u, or 0 for the default backend",
                            quoted(value, shown), route->pattern, ROUTER_NUMBER_MAX);
    route->number = (unsigned)number;
    route->has_number = true;
    return 0;
}

static int option_take(struct config *c, struct config_route *route, struct span word,
                       struct err_note *note)
{
    struct span value;
    if (option_is(word, "number=", &value) && !route->has_number)
        return number_take(route, value, note);
    if (option_is(word, "backend=", &value) && !route->url) {
        route->url = arena_text(&c->memory, value);
        return route->url ? 0 : err_note_set(note, -ERR_NOMEM, "no memory for the settings");
    }
    return err_note_set(note, -ERR_INVALID,
                        SUBJECT " has an invalid option after %s; the pattern is followed by "
                                "number=N and, for the first route of a number, backend=URL",
                        route->pattern);
}

static int route_take(struct config *c, const char *item, struct config_route *ret,
                      struct err_note *note)
{
    struct span pattern = next_text(&item), word;
    *ret = (struct config_route){.pattern = arena_text(&c->memory, pattern)};
    int err = ret->pattern ? 0 : err_note_set(note, -ERR_NOMEM, "no memory for the settings");
    while (err == 0 && (word = next_text(&item)).len > 0)
        err = option_take(c, ret, word, note);
    if (err == 0 && !ret->has_number)
        err =
            err_note_set(note, -ERR_INVALID,
                         SUBJECT " has no number for %s; write number=N, from 1 to %u: it becomes "
                                 "part of the ids of the jobs there and must stay the same",
                         ret->pattern, ROUTER_NUMBER_MAX);
    return err;
}

/* A number is one backend, and a backend has one number. */
static int route_fits(const struct config *c, const struct config_route *routes, size_t i,
                      struct err_note *note)
{
    const struct config_route *route = &routes[i];
    bool known = route->number == 0;
    if (route->url && (route->number == 0 || strcmp(route->url, c->backend) == 0))
        return err_note_set(note, -ERR_INVALID,
                            SUBJECT " has backend= for %s, which belongs to the default backend; "
                                    "write number=0 and leave backend= out",
                            route->pattern);
    for (size_t k = 0; k < i; k++) {
        const struct config_route *other = &routes[k];
        bool same_number = other->number == route->number;
        bool same_url = route->url && other->url && strcmp(route->url, other->url) == 0;
        known = known || same_number;
        if (same_url != same_number && route->url && other->url)
            return err_note_set(
                note, -ERR_INVALID,
                SUBJECT " has %s for %s and %s; a number always means the same backend",
                same_url ? "one backend under two numbers" : "two backends under one number",
                other->pattern, route->pattern);
    }
    if (known || route->url)
        return 0;
    return err_note_set(note, -ERR_INVALID,
                        SUBJECT " has no backend for %s; the first route of number %u needs "
                                "backend=URL",
                        route->pattern, route->number);
}

int config_routes(struct config *c, struct err_note *note)
{
    size_t count = c->routes.items.count;
    struct config_route *routes = arena_array(&c->memory, count, sizeof *routes);
    int err = 0;
    if (!routes)
        return err_note_set(note, -ERR_NOMEM, "no memory for the settings");
    for (size_t i = 0; err == 0 && i < count; i++) {
        err = route_take(c, c->routes.items.items[i], &routes[i], note);
        if (err == 0)
            err = route_fits(c, routes, i, note);
    }
    c->routes.list = routes;
    return err;
}
