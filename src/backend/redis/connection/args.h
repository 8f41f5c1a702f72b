/* SPDX-License-Identifier: Apache-2.0 */
/* A command in the making: its arguments, as the protocol has them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct rargs {
    struct buf body;
    size_t count;              /* arguments */
    size_t list;               /* where the length of the open list stands, and … */
    size_t list_from;          /* … how many arguments there were when it began */
    bool failed;               /* there was no memory: the command must not be sent */
    struct rargs *into;        /* not NULL: what is added goes there, until it is NULL again */
    struct rargs_plain *plain; /* where commands go that need no script; NULL = nowhere */
};

/* Commands as they are, one after the other, for a transaction. */
struct rargs_plain {
    struct rargs command; /* in the making */
    struct buf out;
    size_t commands;
    const char *prefix; /* of keys */
    bool failed;
};

void redis_args_init(struct rargs *a);
void redis_args_done(struct rargs *a);
void redis_args_clear(struct rargs *a); /* for the next command */
void redis_args_bytes(struct rargs *a, struct span s);
void redis_args_text(struct rargs *a, const char *text);
void redis_args_int(struct rargs *a, int64_t v);
/* Eight bytes, most significant first: sorts as the number does. */
void redis_args_seq(struct rargs *a, uint64_t seq);
/* The number of arguments that follow until the end, as an argument itself; not nested. */
void redis_args_list_begin(struct rargs *a);
size_t redis_args_list_end(struct rargs *a);
size_t redis_args_listed(const struct rargs *a); /* in the open list */
/* Back to where it was: an operation without arguments is not sent. */
struct rargs_mark {
    size_t len, count;
};
void redis_plain_init(struct rargs_plain *p);
void redis_plain_done(struct rargs_plain *p);
void redis_plain_clear(struct rargs_plain *p);
void redis_plain_add(struct rargs_plain *p, struct rargs *command); /* clears it */
struct rargs_mark redis_args_mark(const struct rargs *a);
void redis_args_undo(struct rargs *a, struct rargs_mark m);
