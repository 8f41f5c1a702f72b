/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the beanstalk API.
 *
 * server.c      the API as a whole, and beanstalk as a protocol of src/net
 * connection.c  one client: reading its commands, sending its replies, closing
 * orders.c      commands under way, and their replies
 * guard.c       other protocols, and commands that are never completed
 * account.c     memory of connections and orders, for the memory budget
 * held.c        the jobs that a connection has reserved
 * tubes.c       tubes: references to them, how they are created and deleted
 * parse.c       the parser
 * commands.c    the table of commands; their handlers are in cmd_*.c
 *
 * Order. Each command becomes an order in a chain, in the order of arrival; replies are sent from
 * the front of the chain. Commands are submitted to the broker as they are read, so that the
 * commands of one read form one batch. Consecutive reserves, and deletes of reserved jobs between
 * them, are taken together and answered by one claim. A command on whose outcome the next ones
 * depend (a barrier: every reserve, and commands of several steps) stops the reading until it is
 * answered.
 *
 * Memory. Orders come from a pool and keep their buffer, which contains the body of a put until it
 * is answered and then the reply. An order whose connection was closed lives until its operation is
 * answered (conn = NULL). An order has references to the tubes that its operation names.
 *
 * A reply is not written at once: the connection is scheduled, and at the end of the loop iteration
 * src/net asks for all replies that are ready. */
#pragma once

#include "api/beanstalk/beanstalk.h"
#include "api/beanstalk/parse.h"
#include "base/digest/hash.h"
#include "core/limits.h"

#define BS_ORDERS_MAX 1024 /* commands of one connection that may be under way at once */
#define BS_SAFETY_MS 1000  /* DEADLINE_SOON: this long before a lease ends */
#define BS_OWNER SPAN_LITERAL("beanstalk")

struct tube {
    struct hash128 key;
    struct link all, emptied;          /* list of tubes that may be deleted */
    uint32_t refs;                     /* references of orders and held jobs */
    uint32_t users, watchers, waiters; /* connections */
    uint32_t pause_s;                  /* as it was last requested */
    uint64_t deletes, pauses;          /* commands */
    uint64_t listing;                  /* the last listing that contains it */
    bool made;                         /* its queue existed at the last reply */
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

/* A listing of all queues, page by page. */
struct listing {
    struct tube_sums sums;
    uint64_t number;
    size_t after_len;
    char after[LIMIT_QUEUE_NAME_BYTES]; /* the last name of the previous page */
};

/* One command under way. */
struct order {
    struct order *next;
    struct conn *conn; /* NULL: closed */
    struct beanstalk *api;
    struct tube *tube; /* referenced; NULL = none */
    struct buf out;
    struct span fixed; /* sent instead of `out` when not empty */
    size_t sent;
    size_t charged; /* bytes of `out` that are charged in addition to the order … */
    enum budget_kind charged_kind; /* … and their kind */
    enum bs_verb verb;
    bool ready;   /* answered */
    bool waits;   /* a reserve that has not been answered */
    bool barrier; /* later commands are read after this one was answered */
    uint64_t id;
    struct held held;       /* delete, release, bury, touch: the job as the connection held it */
    struct bs_command args; /* without its spans */
    struct job_options options;    /* put */
    unsigned tries;                /* put, pause-tube: the tube did not exist */
    uint32_t steps, kicked, fails; /* kick: requeues under way, done, refused */
    uint8_t state;                 /* kick: the state of the jobs that are kicked */
    struct listing *listing;       /* stats, list-tubes: owned */
};

/* Parts of a command that the client must send within a time limit. */
enum bs_wait {
    BS_WAIT_LINE = NET_WAIT_PROTOCOL, /* the rest of a line */
    BS_WAIT_BODY,                     /* the rest of the body of a put */
};

struct conn {
    struct net_conn net; /* first: see conn_of */
    struct beanstalk *api;
    struct link uneasy; /* in the list of connections that wait for a job and hold others */
    uint64_t part_from; /* net.bytes_in when the wait for the rest of a command began */
    struct order *first, *last;
    struct order *barrier;
    struct order *waiting;      /* the first reserve that is not answered … */
    uint32_t wants;             /* … of this many equal ones … */
    struct bs_command wish;     /* … and their arguments */
    struct broker_claim *claim; /* the claim for them; NULL = none is under way */
    bool parked;                /* counted as waiting */
    struct bs_parser parser;
    struct tube *used;
    struct tube **watched, *watched_one;
    uint32_t watched_count, watched_room;
    struct held *held;
    uint32_t held_count, held_room;
    struct map64 held_index; /* index for many jobs: sequence → place + 1 */
    bool indexed;
    int64_t soonest_ms;      /* no lease ends before this time; exact only where needed */
    uint32_t count;          /* orders in the chain */
    uint32_t orders_charged; /* orders that are charged to the budget */
    bool begun : 1;          /* the first line has shown which protocol this is */
    bool answered : 1;       /* the first line has been taken */
    bool only_line : 1;      /* it was an unknown command: no later one is taken */
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
    struct queue_policy policy; /* of the tubes that it creates */
    struct hash_key hash_key;
    struct map128 by_name;  /* name → struct tube * */
    struct tube *last_tube; /* the last result of tube_get; NULL = none */
    struct tube *default_tube;
    struct link tubes, emptied;
    bool boot_listed; /* the search for tubes of an earlier run has ended … */
    char boot_after[LIMIT_QUEUE_NAME_BYTES]; /* … or has reached this name */
    size_t boot_after_len;
    struct link uneasy;
    struct order *spare;
    size_t spare_count;
    uint64_t listings;
    bool refuses; /* puts */
    uv_timer_t deadline;
    struct wall_time started_at;
    /* figures */
    uint64_t commands[BS_VERB_COUNT];
    uint64_t past_jobs, past_timeouts; /* counters of deleted tubes */
    uint64_t foreign[BS_PROTOCOL_COUNT],
        foreign_logged_ms; /* connections that used another protocol */
    uint64_t incomplete;   /* connections closed because of an incomplete command */
    uint32_t producers, workers, waiting;
    char id[17];
    /* Scratch space that is too large to be zeroed on the stack for each command. */
    struct span names[LIMIT_QUEUES_PER_CLAIM];
};

/* server.c */
void bs_uneasy(struct conn *c); /* the connection waits while it holds jobs: DEADLINE_SOON is
                                   answered in time */
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
/* Called before the first command is taken. `in` is all input so far. false: more is needed, or
 * the connection was closed. */
bool guard_first_line(struct conn *c, struct span in);
/* The first command is malformed: it is answered, and no later command is taken. */
void guard_bad_first(struct conn *c);
/* The part that the client must send next; BS_PART_NONE = none. */
void guard_part(struct conn *c, enum bs_part part);
void guard_late(struct net_conn *n, unsigned kind); /* a slot of the protocol */

/* account.c */
bool bs_account_order(struct conn *c); /* false: no room for another order */
void bs_account_rest(struct conn *c);  /* the connection became idle */
void bs_account_closed(struct conn *c);
/* false: no room for this many bytes in the order's buffer. */
bool bs_account_room(struct order *k, enum budget_kind kind, size_t bytes);
void bs_account_reply(struct order *k);  /* the reply is complete */
void bs_account_loosen(struct order *k); /* before conn becomes NULL */
void bs_account_order_free(struct order *k);

/* orders.c */
struct order *order_new(struct conn *c); /* at the end of the chain; NULL when out of memory */
void order_free(struct order *k);        /* the order must not be in a chain */
void order_pool_free(struct beanstalk *b);
/* Answers. If the connection was closed, the order is freed. */
void bs_answer_fixed(struct order *k, struct span text);
void bs_answer_number(struct order *k, struct span word, uint64_t n); /* "WORD n\r\n" */
/* "WORD id bytes\r\nbody\r\n"; false: OUT_OF_MEMORY was answered. */
bool bs_answer_job(struct order *k, struct span word, uint64_t id, struct span body);
/* Answers "OK bytes\r\n…" with the contents of `out` as data. */
void bs_answer_data(struct order *k);
void bs_answer_out(struct order *k); /* the contents of `out` */
void bs_answer_refusal(
    struct order *k,
    const struct reply *r); /* for outcomes that a command does not handle itself */
#define ANSWER(k, text) bs_answer_fixed(k, SPAN_LITERAL(text "\r\n"))
/* Submits one operation of the order; fn gets its reply. If it cannot be submitted, this is
 * answered. */
void order_submit(struct order *k, const struct op *op, broker_reply_fn fn);
/* Reads the queue of the tube, which the order refers to from then on, as a barrier. */
void order_get_tube(struct order *k, struct span tube, broker_reply_fn fn);
void order_barrier(struct order *k);
size_t order_left(const struct order *k); /* bytes of the reply still to be sent */
struct span order_bytes(const struct order *k);

/* held.c */
bool held_add(struct conn *c, const struct held *h); /* takes over the reference to its tube */
bool held_take(struct conn *c, uint64_t seq,
               struct held *ret); /* passes the reference to the caller */
struct held *held_find(const struct conn *c, uint64_t seq);
void held_put_back(struct conn *c, const struct held *h);
bool held_deadline_soon(struct conn *c);
void held_release_all(struct conn *c);

/* tubes.c */
int tubes_init(struct beanstalk *b);
void tubes_done(struct beanstalk *b);
struct tube *tube_find(const struct beanstalk *b, struct span name);
struct tube *tube_get(struct beanstalk *b,
                      struct span name); /* created if it does not exist; NULL: no memory */
void tube_ref(struct tube *t);
void tube_unref(struct beanstalk *b, struct tube *t);
/* The tube may be unused now: this is checked at the end of the loop iteration. */
void tube_emptied(struct beanstalk *b, struct tube *t);
/* The same by name, for a tube that may be unknown. */
void tube_emptied_name(struct beanstalk *b, struct span name);
void tubes_sweep(struct beanstalk *b);
void tube_use(struct conn *c, struct tube *t);
bool tube_watch(struct conn *c, struct tube *t); /* false: no memory, or too many */
void tube_ignore(struct conn *c, struct tube *t);
bool tube_watched(const struct conn *c, const struct tube *t);
void tubes_leave(struct conn *c); /* the connection drops its references */
void tubes_parked(struct conn *c, bool waits);
/* Whether beanstalkd would have this tube: a connection refers to it, it has jobs, or its queue
 * belongs to another API. v may be NULL: it has no queue. */
bool tube_exists(const struct beanstalk *b, const struct tube *t, const struct queue_view *v);
/* Submits the operation that creates its queue, if it does not exist; the next operation on it
 * shows whether that succeeded. */
void tube_create(struct beanstalk *b, struct tube *t);

/* cmd_reserve.c */
/* Claims jobs for the reserves that were taken, unless a claim is under way. */
void reserve_run(struct conn *c);
/* Whether this command may be executed before the reserves are answered. */
bool reserve_lets(const struct conn *c, const struct bs_command *cmd);
void reserve_deadline(struct conn *c);     /* answers the first reserve with DEADLINE_SOON */
void reserve_stop_waiting(struct conn *c); /* reserves no longer wait for jobs that are not ready */
void reserve_cancel(struct conn *c);       /* answers all reserves with TIMED_OUT */

/* cmd_tubes.c, cmd_stats.c */
void bs_list_begin(struct order *k);   /* lists all queues for stats and list-tubes … */
void bs_stats_answer(struct order *k); /* … and then answers stats */

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

/* Jobs that the protocol calls delayed: they wait for a time, or for other jobs. */
static inline uint64_t delayed_jobs(const struct queue_counts *n)
{
    return n->by_state[STATE_SCHEDULED] + n->by_state[STATE_BLOCKED];
}
