/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the beanstalk API share.
 *
 * server.c      the API as a whole, and beanstalk as a protocol of src/net
 * connection.c  one client: taking its commands, sending its replies, how it ends
 * orders.c      commands under way, and their answers
 * guard.c       other protocols, and commands that are never completed
 * account.c     what connections and orders hold, for the memory budget
 * held.c        the jobs a connection has reserved
 * tubes.c       tubes: who refers to them, how they come and go
 * parse.c       bytes become commands
 * commands.c    the table of commands; cmd_*.c what they do
 *
 * Order. Each command becomes an order, chained in the order the commands came; answers leave from
 * the front of the chain. Commands are handed to the broker as they are read, so that what one read
 * brings is one batch. Reserves in a row, and deletes of jobs in hand between them, are taken
 * together and answered by one claim. A command whose outcome the following ones need (a barrier:
 * every reserve, and what takes several steps) stops the reading until it is answered.
 *
 * Memory. Orders come from a pool and keep their buffer, which holds the body of a put until it is
 * answered and the answer from then on. An order whose connection is gone lives until its op is
 * answered (conn = NULL). Tubes that an op names are referenced by its order.
 *
 * Nothing is written when an answer is given: the connection is scheduled, and at the end of the
 * loop iteration src/net asks for what is ready of it. */
#pragma once

#include "api/beanstalk/beanstalk.h"
#include "api/beanstalk/parse.h"
#include "base/digest/hash.h"
#include "core/limits.h"

#define BS_ORDERS_MAX 1024 /* commands of one connection that are worked on at once */
#define BS_SAFETY_MS 1000  /* DEADLINE_SOON: so long before a lease ends */
#define BS_OWNER SPAN_LITERAL("beanstalk")

struct tube {
    struct hash128 key;
    struct link all, emptied;          /* emptied: it may have become superfluous */
    uint32_t refs;                     /* orders and held jobs that point here */
    uint32_t users, watchers, waiters; /* connections */
    uint32_t pause_s;                  /* as it was last asked for */
    uint64_t deletes, pauses;          /* commands */
    uint64_t listing;                  /* the last listing that has seen it */
    bool made;                         /* its queue was there when we last heard of it */
    bool ending;                       /* its queue is being deleted */
    uint8_t len;
    char name[BS_TUBE_BYTES];
};

static inline struct span tube_name(const struct tube *t)
{
    return span_of(t->name, t->len);
}

struct held {
    uint64_t seq;
    struct job_token token;
    int64_t until_ms; /* monotonic */
    uint32_t lease_ms;
    struct tube *tube;
};

struct order;

/* Sums over all tubes. */
struct tube_sums {
    uint64_t urgent, ready, reserved, delayed, buried, jobs, timeouts, tubes;
};

/* A walk over all queues, page by page. */
struct listing {
    struct tube_sums sums;
    uint64_t number;
    size_t after_len;
    char after[LIMIT_QUEUE_NAME_BYTES]; /* the last name of the page before */
};

/* One command under way. */
struct order {
    struct order *next;
    struct conn *conn; /* NULL: gone */
    struct beanstalk *api;
    struct tube *tube; /* referenced; NULL = none */
    struct buf out;
    struct span fixed; /* sent instead of `out` when not empty */
    size_t sent;
    size_t charged;                /* bytes of `out` that are charged beside the order … */
    enum budget_kind charged_kind; /* … and what they are */
    enum bs_word word;
    bool ready;   /* answered */
    bool waits;   /* a reserve that is not answered */
    bool barrier; /* nothing behind it is read before it is answered */
    uint64_t id;
    struct held held;              /* delete, release, bury, touch: the job as it was held */
    struct bs_command args;        /* less its spans */
    struct job_options options;    /* put */
    unsigned tries;                /* put, pause-tube: the tube was not there */
    uint32_t steps, kicked, fails; /* kick: requeues under way, done, refused */
    uint8_t state;                 /* kick: what is kicked */
    struct listing *listing;       /* stats, list-tubes: owned */
};

/* What a client has only a limited time for. */
enum bs_wait {
    BS_WAIT_LINE = NET_WAIT_PROTOCOL, /* the rest of a line */
    BS_WAIT_BODY,                     /* the rest of the body of a put */
};

struct conn {
    struct net_conn net; /* first: see conn_of */
    struct beanstalk *api;
    struct link uneasy; /* among those that wait for a job and hold others */
    uint64_t part_from; /* net.bytes_in when the wait for the rest of a command began */
    struct order *first, *last;
    struct order *barrier;
    struct order *waiting;      /* the first reserve that is not answered … */
    uint32_t wants;             /* … of so many, all alike … */
    struct bs_command wish;     /* … and what they are like */
    struct broker_claim *claim; /* for them; NULL = none is under way */
    bool parked;                /* counted as waiting */
    struct bs_parser parser;
    struct tube *used;
    struct tube **watched, *watched_one;
    uint32_t watched_count, watched_room;
    struct held *held;
    uint32_t held_count, held_room;
    struct map64 held_index; /* when there are many: sequence → place + 1 */
    bool indexed;
    int64_t soonest_ms;      /* no lease ends before; exact only where it matters */
    uint32_t count;          /* orders in the chain */
    uint32_t orders_charged; /* orders that the budget knows of */
    bool begun : 1;          /* the first line has shown which protocol this is */
    bool answered : 1;       /* the first line has been taken */
    bool only_line : 1;      /* it was an unknown one: nothing behind it is taken */
    bool producer : 1, worker : 1;
};

static inline struct conn *conn_of(const struct net_conn *n)
{
    return LINK_OWNER(n, struct conn, net);
}

struct beanstalk {
    struct net_server net; /* first: see server.c */
    struct beanstalk_config config;
    struct broker *broker;
    struct queue_policy policy; /* of the tubes it makes */
    struct hash_key hash_key;
    struct map128 by_name;  /* → struct tube * */
    struct tube *last_tube; /* which tube_get returned last; NULL = none */
    struct tube *default_tube;
    struct link tubes, emptied;
    bool boot_listed; /* tubes that an earlier run left behind were looked at … */
    char boot_after[LIMIT_QUEUE_NAME_BYTES]; /* … up to this name */
    size_t boot_after_len;
    struct link uneasy;
    struct order *spare;
    size_t spare_count;
    uint64_t listings;
    bool refuses; /* puts */
    uv_timer_t deadline;
    struct wall_time started_at;
    /* figures */
    uint64_t commands[BS_WORD_COUNT];
    uint64_t past_jobs, past_timeouts;                      /* of tubes that are gone */
    uint64_t foreign[BS_PROTOCOL_COUNT], foreign_logged_ms; /* connections of other protocols */
    uint64_t incomplete; /* connections closed over a command that was not completed */
    uint32_t producers, workers, waiting;
    char id[17];
    /* Scratch: too big to be zeroed on the stack for each command. */
    struct span names[LIMIT_QUEUES_PER_CLAIM];
};

/* server.c */
void bs_uneasy(struct conn *c); /* waits with jobs in hand: DEADLINE_SOON when it is time */
static inline void conn_producer(struct conn *c)
{
    c->api->producers += !c->producer;
    c->producer = true;
}
static inline int64_t bs_now_ms(const struct beanstalk *b)
{
    return broker_now(b->broker).mono.ms;
}

/* connection.c: slots of the protocol (net.h) */
void conn_opened(struct net_conn *n);
size_t conn_input(struct net_conn *n, struct span in);
void conn_no_room(struct net_conn *n, size_t len);
void conn_input_ended(struct net_conn *n);
void conn_hung_up(struct net_conn *n);
bool conn_wants_input(const struct net_conn *n);
void conn_settle(struct net_conn *n);
bool conn_may_shed(const struct net_conn *n);
enum budget_shed conn_shed(void *net_conn);
void conn_gather(struct net_conn *n, struct net_pieces *p);
void conn_sent(struct net_conn *n, size_t len);
bool conn_flushed(struct net_conn *n);
bool conn_at_rest(const struct net_conn *n);
void conn_closed(struct net_conn *n);

/* guard.c */
/* Before the first command is taken. `in`: all that has come. False: more is needed, or the
 * connection was closed. */
bool guard_first_line(struct conn *c, struct span in);
/* The first command is malformed: it is answered, and nothing behind it is taken. */
void guard_bad_first(struct conn *c);
/* What is awaited of the client now; BS_PART_NONE when nothing is. */
void guard_part(struct conn *c, enum bs_part part);
void guard_late(struct net_conn *n, unsigned kind); /* a slot of the protocol */

/* account.c */
bool bs_account_order(struct conn *c); /* false: there is no room for another order */
void bs_account_rest(struct conn *c);  /* no order is under way */
void bs_account_closed(struct conn *c);
/* false: there is no room for so many bytes in the order's buffer. */
bool bs_account_room(struct order *k, enum budget_kind kind, size_t bytes);
void bs_account_reply(struct order *k);  /* the reply is complete */
void bs_account_loosen(struct order *k); /* before conn becomes NULL */
void bs_account_order_free(struct order *k);

/* orders.c */
struct order *order_new(struct conn *c); /* at the end of the chain; NULL when out of memory */
void order_free(struct order *k);        /* in no chain */
void order_pool_free(struct beanstalk *b);
/* Answers. The order may be gone afterwards, when its connection is. */
void bs_answer_fixed(struct order *k, struct span text);
void bs_answer_number(struct order *k, struct span word, uint64_t n); /* "WORD n\r\n" */
/* "WORD id bytes\r\nbody\r\n"; false: out of memory, and so it was answered. */
bool bs_answer_job(struct order *k, struct span word, uint64_t id, struct span body);
/* What out holds becomes the data of "OK bytes\r\n…". */
void bs_answer_data(struct order *k);
void bs_answer_out(struct order *k);                            /* what out holds */
void bs_answer_refusal(struct order *k, const struct reply *r); /* what no command has a word for */
#define ANSWER(k, text) bs_answer_fixed(k, SPAN_LITERAL(text "\r\n"))
/* Submits one op of the order; fn hears its reply. When that cannot be done it is answered. */
void order_submit(struct order *k, const struct op *op, broker_reply_fn fn);
/* Reads the queue of the tube, which the order refers to from then on, as a barrier. */
void order_get_tube(struct order *k, struct span tube, broker_reply_fn fn);
void order_barrier(struct order *k);
size_t order_left(const struct order *k); /* bytes of the answer still to be sent */
struct span order_bytes(const struct order *k);

/* held.c */
bool held_add(struct conn *c, const struct held *h);            /* takes a reference of its tube */
bool held_take(struct conn *c, uint64_t seq, struct held *ret); /* the reference goes along */
struct held *held_find(const struct conn *c, uint64_t seq);
void held_put_back(struct conn *c, const struct held *h);
bool held_deadline_soon(struct conn *c);
void held_release_all(struct conn *c);

/* tubes.c */
int tubes_init(struct beanstalk *b);
void tubes_done(struct beanstalk *b);
struct tube *tube_find(const struct beanstalk *b, struct span name);
struct tube *tube_get(struct beanstalk *b,
                      struct span name); /* made when missing; NULL: no memory */
void tube_ref(struct tube *t);
void tube_unref(struct beanstalk *b, struct tube *t);
/* Nobody may need it any more: it is looked at when the turn ends. */
void tube_emptied(struct beanstalk *b, struct tube *t);
/* The same by name, of a tube nobody may have spoken of. */
void tube_emptied_name(struct beanstalk *b, struct span name);
void tubes_sweep(struct beanstalk *b);
void tube_use(struct conn *c, struct tube *t);
bool tube_watch(struct conn *c, struct tube *t); /* false: no memory, or too many */
void tube_ignore(struct conn *c, struct tube *t);
bool tube_watched(const struct conn *c, const struct tube *t);
void tubes_leave(struct conn *c); /* the connection refers to none any more */
void tubes_parked(struct conn *c, bool waits);
/* Whether beanstalkd would have this tube: somebody refers to it, it has jobs, or its queue is not
 * one of ours. v may be NULL: it has no queue. */
bool tube_exists(const struct beanstalk *b, const struct tube *t, const struct queue_view *v);
/* Submits the op that creates its queue, if it is not there; the next op on it shows whether that
 * succeeded. */
void tube_make(struct beanstalk *b, struct tube *t);

/* cmd_reserve.c */
/* Asks for the jobs of the reserves that were taken, unless that is under way. */
void reserve_run(struct conn *c);
/* Whether this command may be taken before they are answered. */
bool reserve_lets(const struct conn *c, const struct bs_command *cmd);
void reserve_deadline(struct conn *c); /* the first of them is answered DEADLINE_SOON */
void reserve_hurry(struct conn *c);    /* the client waits no longer for jobs that are not there */
void reserve_cancel(struct conn *c);   /* all of them are answered TIMED_OUT */

/* cmd_tubes.c, cmd_stats.c */
void bs_list_begin(struct order *k);   /* walks over all queues for stats and list-tubes … */
void bs_stats_answer(struct order *k); /* … and ends so for stats */

/* commands.c */
void bs_command_run(struct conn *c, struct order *k, const struct bs_command *cmd);

/* ---- handlers: answer the order, now or later ---- */

#define BS_HANDLER(name) void name(struct conn *c, struct order *k, const struct bs_command *cmd)
BS_HANDLER(bs_put);
BS_HANDLER(bs_use);
BS_HANDLER(bs_reserve);
BS_HANDLER(bs_reserve_job);
BS_HANDLER(bs_delete);
BS_HANDLER(bs_release);
BS_HANDLER(bs_bury);
BS_HANDLER(bs_touch);
BS_HANDLER(bs_watch);
BS_HANDLER(bs_ignore);
BS_HANDLER(bs_peek);
BS_HANDLER(bs_peek_state);
BS_HANDLER(bs_kick);
BS_HANDLER(bs_kick_job);
BS_HANDLER(bs_stats);
BS_HANDLER(bs_stats_job);
BS_HANDLER(bs_stats_tube);
BS_HANDLER(bs_list_tubes);
BS_HANDLER(bs_list_tube_used);
BS_HANDLER(bs_list_tubes_watched);
BS_HANDLER(bs_pause_tube);
BS_HANDLER(bs_quit);
