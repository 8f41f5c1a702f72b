/* SPDX-License-Identifier: Apache-2.0 */
/* Signs of life: a time for each node, a lease for the one that leads, and what this node knows of
 * both and of the server, kept for whoever asks. All times are the server's: a node whose clock is
 * wrong must not take the lease from one that has it, nor look dead. */
#include "backend/redis/impl.h"

/* Places in the answer of lua/beat.lua. */
enum beat { BEAT_NOW, BEAT_OTHERS, BEAT_MINE, BEAT_LEADER, BEAT_NODES, BEAT_TOLD };

int64_t rd_leader_ttl_ms(const struct rd_store *s)
{
    return s->sh.config.leader_ttl_ms ? s->sh.config.leader_ttl_ms : LEADER_TTL_MS;
}

int64_t rd_silent_ms(const struct rd_store *s)
{
    return s->sh.config.silent_ms ? s->sh.config.silent_ms : NODE_SILENT_MS;
}

/* Often enough that neither the lease nor the patience of others runs out over one that was lost.
 */
int64_t rd_beat_ms(const struct rd_store *s)
{
    int64_t ttl = rd_leader_ttl_ms(s), silent = rd_silent_ms(s);
    return (ttl < silent ? ttl : silent) / 5;
}

static int64_t process_ms(void)
{
    return (int64_t)(clock_ns() / 1000000);
}

bool rd_beat_due(const struct rd_store *s)
{
    if (s->seen_at_ms == 0 || process_ms() - s->seen_at_ms >= rd_beat_ms(s))
        return true;
    /* A manual clock may leap over the leader's lease. */
    return s->sh.config.clock.manual && llabs(rd_now(s) - s->beat_now_ms) >= rd_beat_ms(s);
}

/* By the clock that nobody can set: ours may leap before the server tells its own again. */
void rd_took_time(struct rd_store *s, int64_t theirs)
{
    struct now ours = clock_now(&s->sh.config.clock);
    s->offset_ms = theirs - ours.mono.ms;
    s->cluster.offset_ms = theirs - ours.wall.ms;
}

/* --- who leads --- */

void rd_leader_lost(struct rd_store *s, bool overtaken)
{
    if (!s->leader)
        return;
    s->leader = false;
    s->cluster.overtaken += overtaken;
    log_event(s->sh.config.log, overtaken ? LOG_WARN : LOG_INFO, "leader_lost",
              LOG_INT("epoch", s->leader_epoch),
              LOG_TEXT("note", overtaken ? "another node leads; what this one was about to do as "
                                           "the leader was not done"
                                         : "this node does not lead any more"));
}

static void take_leader(struct rd_store *s, int64_t epoch)
{
    bool before = s->leader;
    if (before && epoch != s->leader_epoch)
        rd_leader_lost(s, true);
    if (epoch == 0)
        return;
    if (!s->leader)
        log_event(s->sh.config.log, LOG_INFO, "leader_taken", LOG_INT("epoch", epoch),
                  LOG_TEXT("note", "this node leads"));
    s->sh.tick_wanted |= !before;
    s->leader = true;
    s->leader_epoch = epoch;
}

/* told: "NUMBER VERSION" */
static void take_node(struct rd_store *s, struct backend_node *n, const char *told, int64_t now,
                      uint32_t holder)
{
    const char *space = strchr(told, ' ');
    n->number = (unsigned)strtoul(told, NULL, 10);
    n->self = n->epoch == s->sh.facts.epoch;
    n->leader = holder != 0 && n->epoch == holder;
    n->silent = now - n->seen_at.ms >= rd_silent_ms(s);
    snprintf(n->version, sizeof n->version, "%s", space ? space + 1 : "");
}

static int by_epoch(const void *x, const void *y)
{
    const struct backend_node *a = x, *b = y;
    return a->epoch < b->epoch ? -1 : a->epoch > b->epoch;
}

static void take_nodes(struct rd_store *s, const redisReply *r)
{
    struct backend_cluster *c = &s->cluster;
    const redisReply *leader = reply_at(r, BEAT_LEADER), *nodes = reply_at(r, BEAT_NODES);
    int64_t now = rd_reply_int(reply_at(r, BEAT_NOW));
    int64_t left = rd_reply_int(reply_at(leader, 1)) - now;
    uint32_t holder = (uint32_t)rd_reply_int(reply_at(leader, 0));
    c->leader_epoch = (uint64_t)rd_reply_int(reply_at(leader, 2));
    c->lease_left_ms = holder && left > 0 ? left : 0;
    c->as_of.ms = now;
    c->node_count = 0;
    for (size_t i = 0; i + 1 < reply_count(nodes) && c->node_count < BACKEND_NODES_MAX; i += 2) {
        struct backend_node *n = &c->nodes[c->node_count++];
        struct span told = reply_span(reply_at(reply_at(r, BEAT_TOLD), i / 2));
        *n = (struct backend_node){.epoch = (uint32_t)rd_reply_int(reply_at(nodes, i)),
                                   .seen_at = {rd_reply_int(reply_at(nodes, i + 1))}};
        take_node(s, n, told.len ? told.at : "", now, holder);
    }
    qsort(c->nodes, c->node_count, sizeof c->nodes[0], by_epoch);
}

/* --- a sign --- */

static void beat_cb(void *ctx, redisReply *r)
{
    struct item *it = ctx;
    struct rd_store *s = rd_of_unit(&it->unit);
    if (!rd_item_answered(it, r, false))
        return;
    rd_item_keep(it, r);
    rd_took_time(s, rd_reply_int(reply_at(r, BEAT_NOW)));
    s->others = (unsigned)rd_reply_int(reply_at(r, BEAT_OTHERS));
    s->contended = false;
    take_leader(s, rd_reply_int(reply_at(r, BEAT_MINE)));
    take_nodes(s, r);
    rd_item_over(it);
}

void rd_beat_begin(struct item *it)
{
    struct rd_store *s = rd_of_unit(&it->unit);
    struct rargs *a = &it->args;
    char told[64];
    s->seen_at_ms = process_ms();
    s->beat_now_ms = rd_now(s);
    snprintf(told, sizeof told, "%u %.23s", s->sh.config.node,
             s->sh.config.version ? s->sh.config.version : "");
    rd_item_call(it, SCRIPT_BEAT);
    rd_args_now(s, a);
    redis_args_int(a, s->sh.facts.epoch);
    redis_args_text(a, told);
    redis_args_int(a, rd_leader_ttl_ms(s));
    redis_args_int(a, NODE_OTHER_MS);
    /* Who leads is to know what is due before others ask: nothing follows until it is answered. */
    rd_item_send(it, STAGE_ASKING, beat_cb);
}

/* --- how the server is --- */

static void since_now(struct rd_store *s, bool up)
{
    if (s->cluster.up != up || s->cluster.since.ms == 0)
        s->cluster.since = clock_now(&s->sh.config.clock).wall;
    s->cluster.up = up;
}

void rd_cluster_lost(struct rd_store *s, const char *why)
{
    since_now(s, false);
    snprintf(s->cluster.trouble, sizeof s->cluster.trouble, "%.190s", why);
}

void rd_cluster_opened(struct rd_store *s)
{
    since_now(s, true);
}

int64_t rd_clock_offset(const struct backend *b)
{
    const struct rd_store *s = (const struct rd_store *)(const void *)b;
    return rd_now(s) - clock_now(&s->sh.config.clock).wall.ms;
}

void rd_cluster(const struct backend *b, struct backend_cluster *ret)
{
    const struct rd_store *s = (const struct rd_store *)(const void *)b;
    *ret = s->cluster;
    ret->connections_of = 2;
    ret->connections =
        (unsigned)redis_conn_open_now(s->lane) + (unsigned)redis_conn_open_now(s->ear);
}
