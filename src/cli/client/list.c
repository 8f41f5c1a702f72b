/* SPDX-License-Identifier: Apache-2.0 */
/* See client/list.h. */
#include "cli/client/list.h"

#include "cli/client/answer.h"

int client_list_print(struct client_session *s, const struct client_list *list, const char *prefix)
{
    struct client_table table;
    struct client_items items;
    struct span item, next;
    const char *cursor = NULL;
    int status;
    client_table_init(&table, list->columns, list->column_count);
    do {
        client_path_add(&s->path, list->path);
        client_path_query(&s->path, "limit", "1000");
        client_path_query(&s->path, "prefix", prefix);
        client_path_query(&s->path, "cursor", cursor);
        if ((status = client_ask(s, "GET")) != CLIENT_DONE)
            break;
        if (s->json)
            status = client_print_json(s);
        client_items_of(&items, client_answer(s), list->items);
        while (client_items_next(&items, &item))
            list->row(&table, item, &s->arena);
        next = client_answer_text(client_answer(s), "next_cursor", &s->arena);
        /* The answer that it points into is about to be replaced. */
        if (next.len > 0 && !(cursor = arena_text(&s->arena, next)))
            status = client_no_memory();
    } while (status == CLIENT_DONE && next.len > 0);
    if (status == CLIENT_DONE && !s->json)
        return client_print_table(&table);
    client_table_done(&table);
    return status;
}
