/* SPDX-License-Identifier: Apache-2.0 */
/* An intrusive list: the head is a link as well, an element that is in no list points to itself. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct link {
    struct link *prev, *next;
};
static inline void link_init(struct link *l)
{
    l->prev = l->next = l;
}
static inline bool link_alone(const struct link *l)
{
    return l->next == l;
}
static inline void link_remove(struct link *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    link_init(l);
}
static inline void link_append(struct link *head, struct link *l)
{
    l->prev = head->prev;
    l->next = head;
    head->prev->next = l;
    head->prev = l;
}
#define LINK_OWNER(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))
