/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/redis/connection/scripts.h"

#include "backend/redis/lua_gen.h"

/* Parts that are placed between what all scripts share and the script itself, in this order. Most
 * loads and stores do without them, which saves time in the server, and bytes where the script is
 * sent as text. */
enum part { PART_PLACES = 1, PART_CLAIMS = 2, PART_LIMITS = 4, PART_NOTICES = 8 };
static const enum lua_id parts[] = {LUA_PLACES, LUA_CLAIMS, LUA_LIMITS, LUA_NOTICES};

static const struct {
    enum lua_id text;
    unsigned parts; /* enum part */
} scripts[SCRIPT_COUNT] = {
    [SCRIPT_OPEN] = {LUA_OPEN, 0},
    [SCRIPT_HEARTBEAT] = {LUA_HEARTBEAT, 0},
    [SCRIPT_LOAD] = {LUA_LOAD, 0},
    [SCRIPT_LOAD_LIMITED] = {LUA_LOAD, PART_PLACES | PART_CLAIMS},
    [SCRIPT_STORE] = {LUA_STORE, 0},
    [SCRIPT_STORE_LIMITED] = {LUA_STORE, PART_PLACES},
    [SCRIPT_STORE_ALL] = {LUA_STORE, PART_PLACES | PART_LIMITS | PART_NOTICES},
    [SCRIPT_TICK] = {LUA_TICK, 0},
    [SCRIPT_READ_VIEW] = {LUA_READ_VIEW, PART_PLACES},
    [SCRIPT_SCAN] = {LUA_SCAN, 0},
    [SCRIPT_SCHEDULES] = {LUA_SCHEDULES, 0},
    [SCRIPT_SHARERS] = {LUA_SHARERS, 0},
    [SCRIPT_LEAVE] = {LUA_LEAVE, 0},
    [SCRIPT_ALERTS] = {LUA_ALERTS, 0},
    [SCRIPT_ORDER] = {LUA_ORDER, 0},
    [SCRIPT_GROUPS] = {LUA_GROUPS, PART_PLACES},
    [SCRIPT_DEPENDENCIES] = {LUA_DEPENDENCIES, 0},
};

static void put_text(enum script_id id, struct rargs *a)
{
    struct buf text;
    buf_init(&text);
    a->failed |= buf_append_text(&text, redis_lua[LUA_COMMON]) != 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (scripts[id].parts & 1u << i)
            a->failed |= buf_append_text(&text, redis_lua[parts[i]]) != 0;
    a->failed |= buf_append_text(&text, redis_lua[scripts[id].text]) != 0;
    redis_args_bytes(a, buf_span(&text));
    buf_done(&text);
}

void redis_script_load(enum script_id id, struct rargs *a)
{
    redis_args_text(a, "SCRIPT");
    redis_args_text(a, "LOAD");
    put_text(id, a);
}

void redis_script_eval(enum script_id id, const char *prefix, struct rargs *a)
{
    redis_args_text(a, "EVAL");
    put_text(id, a);
    redis_args_text(a, "1");
    redis_args_text(a, prefix);
}

void redis_script_call(const struct script_names *names, enum script_id id, const char *prefix,
                       struct rargs *a)
{
    redis_args_text(a, "EVALSHA");
    redis_args_text(a, names->sha[id]);
    redis_args_text(a, "1");
    redis_args_text(a, prefix);
}
