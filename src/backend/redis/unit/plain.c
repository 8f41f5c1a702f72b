/* SPDX-License-Identifier: Apache-2.0 */
/* A store as a transaction: while no other node stores anything, most changes of a unit need no
 * script, and the arguments of a script cost the server as much as the changes.
 *
 * Before the load the key meta is watched, which every store changes. The commands are then sent
 * between MULTI and EXEC, followed by the script with the few changes that need one (sums, the next
 * due times). An EXEC that finds meta changed does nothing, and the unit begins again. The script
 * is sent with its text: if the server had lost a loaded script, half of the store would not be
 * done. */
#include "backend/redis/impl.h"

#define PLAIN_ROWS_MIN 4 /* with fewer rows the script alone is shorter */

bool rd_plain_possible(const struct item *it)
{
    return it->kind == ITEM_UNIT && !it->shared && !it->unit.alone && !it->no_growth &&
           it->unit.count >= PLAIN_ROWS_MIN;
}

static void word(struct rargs_plain *p, const char *command, const char *key)
{
    char whole[REDIS_PREFIX_BYTES + 16];
    redis_args_text(&p->command, command);
    if (key) {
        snprintf(whole, sizeof whole, "%s%s", p->prefix, key);
        redis_args_text(&p->command, whole);
    }
    redis_plain_add(p, &p->command);
}

static void send_all(struct item *it, enum item_stage stage, redis_reply_fn fn)
{
    struct rargs_plain *p = &it->plain;
    it->stage = stage;
    /* without memory: the connection is closed, and all waiting commands are answered in their
     * order */
    if (p->failed)
        buf_clear(&p->out);
    redis_conn_send_all(rd_of_unit(&it->unit)->pipeline, &p->out, p->commands, fn, it);
    redis_plain_clear(p);
}

/* A watch that is left from a unit that stored nothing is ended first. */
void rd_plain_load(struct item *it, redis_reply_fn fn)
{
    it->plain.prefix = rd_of_unit(&it->unit)->url.prefix;
    it->watched = true;
    word(&it->plain, "UNWATCH", NULL);
    word(&it->plain, "WATCH", "meta");
    redis_plain_add(&it->plain, &it->args);
    send_all(it, STAGE_ASKING, fn);
}

/* No changes whose order between commands and script matters: unique keys that pass from one job to
 * another, queues, keys and values. */
bool rd_plain_fits(const struct item *it)
{
    const struct unit *u = &it->unit;
    bool fits = u->wkey_count == 0 && !u->bulk && !u->rescoped;
    for (size_t i = 0; i < u->queue_count && fits; i++)
        fits = !u->queues[i]->put && !u->queues[i]->purged && !u->queues[i]->ended;
    for (size_t i = 0; i < u->row_count && fits; i++)
        fits = !u->rows[i]->extra.unique.len;
    return fits;
}

void rd_plain_begin(struct item *it)
{
    word(&it->plain, "MULTI", NULL);
    it->args.plain = &it->plain;
}

void rd_plain_store(struct item *it, redis_reply_fn fn)
{
    struct rargs_plain *p = &it->plain;
    redis_plain_add(p, &it->args);
    it->args.plain = p; /* the answer is read accordingly */
    word(p, "EXEC", NULL);
    send_all(it, STAGE_LAST, fn);
}
