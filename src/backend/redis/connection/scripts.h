/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts that run inside the server, one file each in lua/. They move data; what is to become
 * of it is decided by the rules of core, outside. */
#pragma once

#include "backend/redis/connection/args.h"

enum script_id {
    SCRIPT_OPEN,      /* the format, and a number for this boot */
    SCRIPT_HEARTBEAT, /* a heartbeat; who leads */
    SCRIPT_LOAD,      /* what a unit is about */
    SCRIPT_STORE,     /* what it leaves */
    SCRIPT_TICK,      /* what is due, for the leader */
    SCRIPT_READ_VIEW, /* quick questions */
    SCRIPT_SCAN,      /* a step through many jobs */
    SCRIPT_SCHEDULES, /* those a unit is about */
    SCRIPT_SHARERS,   /* jobs that share a unique key */
    SCRIPT_LEAVE,     /* a node stops */
    SCRIPT_ALERTS,    /* rules, and what a unit about them or about notices is about */
    SCRIPT_NOTICES,   /* what a unit leaves, where that is also something of these */
    SCRIPT_COUNT
};

#define SCRIPT_SHA_BYTES 41

/* As the server calls them, since it was asked to load them. */
struct script_names {
    char sha[SCRIPT_COUNT][SCRIPT_SHA_BYTES];
};

/* Adds the words of the command that loads the script: its text, behind what all of them share. */
void redis_script_load(enum script_id id, struct rargs *a);
/* The same with its whole text, for where a script that was forgotten must not matter. */
void redis_script_eval(enum script_id id, const char *prefix, struct rargs *a);
/* Begins a call of it: arguments of the script follow. */
void redis_script_call(const struct script_names *names, enum script_id id, const char *prefix,
                       struct rargs *a);
