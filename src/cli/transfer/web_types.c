/* SPDX-License-Identifier: Apache-2.0 */
/* Types are a setting of the server, webqueue.types, which no request can change: the message
 * says what to add. */
#include "cli/transfer/web_types.h"

#include <inttypes.h>

#include "cli/client/answer.h"
#include "cli/transfer/import_alerts.h"

#define NAME_SHOWN 64 /* bytes of a name, which may be any text */

void web_types_init(struct web_types *t)
{
    *t = (struct web_types){0};
    arena_init(&t->arena);
}

void web_types_done(struct web_types *t)
{
    arena_done(&t->arena);
}

int web_types_ask(struct web_types *t, struct client_session *s)
{
    struct client_items items;
    struct span item;
    bool there = false;
    int status = import_find(s, "/api/web/queue/", "types", &there);
    if (status != CLIENT_DONE)
        return status;
    if (!there)
        return client_complain(CLIENT_REFUSED, "the server does not have the API webqueue; add "
                                               "webqueue to its setting apis and restart it");
    client_items_of(&items, client_answer(s), "types");
    while (t->known_count < WEBQUEUE_TYPES_MAX && client_items_next(&items, &item)) {
        struct span name = client_answer_text(item, "queue_type", &s->arena);
        struct span kept = span_of(arena_copy(&t->arena, name.at, name.len), name.len);
        if (!kept.at)
            return client_no_memory();
        t->known[t->known_count++] = kept;
    }
    arena_reset(&s->arena);
    return CLIENT_DONE;
}

static bool list_has(const struct span *list, size_t count, struct span name)
{
    for (size_t i = 0; i < count; i++)
        if (span_equal(list[i], name))
            return true;
    return false;
}

bool web_types_has(struct web_types *t, struct span name)
{
    if (list_has(t->known, t->known_count, name))
        return true;
    t->rows++;
    struct span shown = span_of(name.at, name.len < NAME_SHOWN ? name.len : NAME_SHOWN);
    if (list_has(t->missing, t->missing_count, shown))
        return false;
    char *kept =
        t->missing_count < WEB_TYPES_NAMED ? arena_copy(&t->arena, shown.at, shown.len) : NULL;
    if (kept)
        t->missing[t->missing_count++] = span_of(kept, shown.len);
    else
        t->more = true;
    return false;
}

static int names_join(const struct web_types *t, struct buf *names)
{
    int err = 0;
    for (size_t i = 0; i < t->missing_count && err == 0; i++)
        err = buf_printf(names, "%s%.*s", i ? ", " : "", (int)t->missing[i].len, t->missing[i].at);
    if (err == 0 && t->more)
        err = buf_append(names, ", ...", 5);
    return err;
}

int web_types_complain(const struct web_types *t)
{
    struct buf names;
    buf_init(&names);
    int err = names_join(t, &names);
    int status =
        err < 0
            ? client_no_memory()
            : client_complain(CLIENT_REFUSED,
                              "nothing was imported: %" PRIu64
                              " rows have a queue type that the server does not have; add "
                              "these types to the setting webqueue.types of the server, restart "
                              "it and run the same command again: %.*s",
                              t->rows, (int)names.len, names.data);
    buf_done(&names);
    return status;
}
