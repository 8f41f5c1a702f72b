/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a command: its arguments, in the format of the protocol. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct rargs {
    struct buf body;
    size_t count;              /* arguments */
    size_t list;               /* offset of the length of the open list, and … */
    size_t list_from;          /* … how many arguments there were when it began */
    bool failed;               /* there was no memory: the command must not be sent */
    struct rargs *into;        /* not NULL: arguments are added there instead */
    struct rargs_plain *plain; /* commands that need no script go there; NULL = not used */
};

/* Commands without a script, one after the other, for a transaction. */
struct rargs_plain {
    struct rargs command; /* the command that is being built */
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
/* Eight bytes, most significant first, so that they sort like the number. */
void redis_args_seq(struct rargs *a, uint64_t seq);
/* A list: the number of arguments that follow until the end, as an argument itself; not nested. */
void redis_args_list_begin(struct rargs *a);
size_t redis_args_list_end(struct rargs *a);
/* To return to an earlier point: an operation without arguments is not sent. */
struct rargs_mark {
    size_t len, count;
};
void redis_plain_init(struct rargs_plain *p);
void redis_plain_done(struct rargs_plain *p);
void redis_plain_clear(struct rargs_plain *p);
void redis_plain_add(struct rargs_plain *p, struct rargs *command); /* clears the command */
struct rargs_mark redis_args_mark(const struct rargs *a);
void redis_args_undo(struct rargs *a, struct rargs_mark m);
