/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts that run inside the server, one file each in lua/. They only move data; the decisions
 * are made outside, by the rules of core. A new script is a file in lua/, which the build turns
 * into a constant LUA_NAME, an id here, and a row of the table in scripts.c. */
#pragma once

#include "backend/redis/connection/args.h"

enum script_id {
    SCRIPT_OPEN,          /* checks the format and draws a number for this boot */
    SCRIPT_HEARTBEAT,     /* a heartbeat, and the leader */
    SCRIPT_LOAD,          /* loads what a unit needs */
    SCRIPT_STORE,         /* stores the changes of a unit */
    SCRIPT_TICK,          /* loads what is due, for the leader */
    SCRIPT_READ_VIEW,     /* quick queries */
    SCRIPT_SCAN,          /* a step through many jobs */
    SCRIPT_SCHEDULES,     /* loads the schedules of a unit */
    SCRIPT_SHARERS,       /* jobs that share a unique key */
    SCRIPT_LEAVE,         /* a node leaves */
    SCRIPT_ALERTS,        /* loads rules and notices for a unit about them */
    SCRIPT_STORE_ALL,     /* the same with notices, or changes of the limits of a queue */
    SCRIPT_STORE_LIMITED, /* the same with jobs of queues with limits */
    SCRIPT_LOAD_LIMITED,  /* loads what a unit with claims on queues with limits needs */
    SCRIPT_ORDER,         /* loads a step that builds the order of a queue with limits */
    SCRIPT_GROUPS,        /* what groups of queues with limits use */
    SCRIPT_DEPENDENCIES,  /* loads a slice of the work list of dependencies */
    SCRIPT_COUNT
};

#define SCRIPT_SHA_BYTES 41

/* The hashes by which the server knows the loaded scripts. */
struct script_names {
    char sha[SCRIPT_COUNT][SCRIPT_SHA_BYTES];
};

/* Adds the words of the command that loads the script: its text, after the part that all scripts
 * share. */
void redis_script_load(enum script_id id, struct rargs *a);
/* The same with its whole text, for calls that must work even if the server has lost the script. */
void redis_script_eval(enum script_id id, const char *prefix, struct rargs *a);
/* Begins a call of the script: its arguments follow. */
void redis_script_call(const struct script_names *names, enum script_id id, const char *prefix,
                       struct rargs *a);
