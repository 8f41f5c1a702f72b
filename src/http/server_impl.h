/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the files of src/http.
 *
 * server.c      the server: configuration, routes, the table for src/net
 * connection.c  one client: its waits, and its end
 * intake.c      from bytes to handlers
 * parse*.c      heads and bodies; url.c decodes paths and queries
 * router.c      finds the route
 * guard.c       requests that pages of other sites may have sent
 * exchange.c    the life of an exchange
 * answer.c      answers; refusal.c those of the server itself
 * stream.c      streams; feed.c the same events for many of them; file.c a file
 * write.c       the answers of a connection that are ready
 * account.c     memory of exchanges, for the memory budget
 *
 * A connection (struct net_conn with the fields of HTTP) is read, polled and written by src/net.
 * Its requests become exchanges in a chain in the order of arrival (first … last); the last of them
 * may still be waiting for its body (`reading`). Answers are sent from the front of the chain. An
 * answer is not written at once: its connection is scheduled, and at the end of the loop iteration
 * src/net asks for the answers that are ready.
 *
 * Handlers run while input is taken (intake.c); the callbacks closed, sent and room run at the end
 * of the iteration. So no function that an API may call ever calls back, and a connection that is
 * closed in the middle of an operation stays in memory, marked, until the loop's close callback.
 *
 * An exchange whose connection was closed has conn = NULL ("loose"). Its handler is notified at the
 * end of the iteration, and it is freed after its handler has answered. */
#pragma once

#include "http/router.h"
#include "http/server.h"

#define DATE_BYTES 37 /* "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" */
#define ANSWER_FIELDS_MAX 2048
#define BODY_INLINE_BYTES ((uint64_t)16 << 10) /* longer bodies have memory of their own */

/* What a client has only a limited time for. */
enum wait_kind {
    WAIT_IDLE = NET_WAIT_PROTOCOL, /* the next request */
    WAIT_HEAD,                     /* the rest of a head */
    WAIT_BODY,                     /* the rest of a body */
    WAIT_COUNT,
};
_Static_assert((int)WAIT_COUNT <= (int)NET_WAITS, "src/net has a list for each kind of wait");

enum exchange_state {
    EXCHANGE_READING,  /* its body has not come yet */
    EXCHANGE_OPEN,     /* a handler owes the answer */
    EXCHANGE_STREAM,   /* the head of a stream is out, its end is not */
    EXCHANGE_ANSWERED, /* everything there is to send is known */
};

struct http_exchange {
    struct http_request request;
    struct http_server *server;
    struct connection *conn;    /* NULL: loose */
    struct http_exchange *next; /* in the connection's chain, or in the server's loose list */
    void *route_ctx;
    http_closed_fn client_closed;
    http_sent_fn sent;
    void *watch_ctx;
    void (*room)(void *ctx);
    void *room_ctx;
    size_t room_need; /* bytes of the write that was refused */
    struct arena arena;
    struct buf body; /* of the request */
    struct http_body body_state;
    struct http_fault refusal;  /* status 0: a handler answers */
    unsigned allow;             /* for 405 and OPTIONS */
    struct span origin;         /* an allowed foreign origin, to be named in the answer */
    struct buf fields;          /* what http_answer_header added */
    struct buf out;             /* the body, then the head behind it; of a stream, all in order */
    struct http_shared *shared; /* the body, instead of one in `out`; NULL = none */
    struct span fixed;          /* sent instead of `out` when there was no memory for it */
    size_t out_body;            /* bytes of `out` that are body */
    size_t out_skip;            /* body bytes that are not sent (HEAD) */
    size_t done;        /* bytes handed to the kernel: of the head first, then of the body */
    size_t extra_bytes; /* held for the answer besides `out` */
    uint64_t bound;     /* of a stream: bytes that may wait */
    struct {
        struct http_feed *feed;   /* NULL = none */
        struct feed_chunk *chunk; /* NULL = everything is sent */
        size_t at;                /* bytes of the chunk that are sent */
        uint64_t mark;            /* of the last piece, when it follows no longer */
        struct link link;         /* among the readers of the chunk, or the idle ones */
    } follows;
    struct {
        size_t block, body, out; /* bytes charged to the budget */
        enum budget_kind out_kind;
    } charged;
    uint16_t status;
    enum exchange_state state : 8;
    uint8_t minor;
    bool keep_alive : 1;  /* as the client asked */
    bool close : 1;       /* the connection ends with this answer */
    bool expects : 1;     /* waits for "100 Continue" */
    bool body_inline : 1; /* the body's memory is part of this block */
    bool queued : 1;      /* on the server's loose list */
    bool room_due : 1;    /* a write to the stream was refused */
    bool left_feed : 1; /* … or it left its feed: room is when its client has taken everything */
    bool sized : 1;     /* a stream with a length: nothing but its bytes may be sent */
    bool alone : 1;     /* while it is the last, no other request is taken */
    bool parked : 1;    /* its handler waits for a job, and needs the body no more */
    bool starved : 1;   /* a write to the stream was refused for lack of memory */
    bool out_of_memory : 1;
};

struct connection {
    struct net_conn net; /* first: see connection_of */
    struct http_exchange *first, *last, *reading;
    size_t seen;            /* bytes of kept input that were looked at and hold no whole head */
    size_t body_bytes;      /* bodies of the requests in the chain that are whole */
    struct span interim;    /* "100 Continue": to be sent before anything of `first` */
    struct span last_words; /* to be sent behind all answers */
    uint32_t count;         /* exchanges in the chain */
    bool stalled : 1;       /* kept input may hold whole requests that were not taken yet */
    bool probed : 1;        /* a byte was sent to find out whether it still listens */
    bool asked : 1;         /* a request has come since it was accepted */
};

struct http_server {
    struct net_server net; /* first: see server_of */
    struct http_server_config config;
    struct http_limits limits_large; /* for routes with ROUTE_LARGE */
    struct router router;
    bool routes_failed; /* out of memory while routes were added */
    struct http_exchange *loose_first, *loose_last;
    bool starved; /* there may be streams that wait for memory */
    uint64_t requests, by_status[6];
    uint64_t date_until; /* loop time, ms */
    char date[DATE_BYTES + 1];
    struct http_head head; /* scratch: too big to be zeroed on the stack for each request */
};

static inline struct connection *connection_of(struct net_conn *c)
{
    return LINK_OWNER(c, struct connection, net);
}
static inline struct http_server *server_of(const struct connection *c)
{
    return LINK_OWNER(c->net.server, struct http_server, net);
}

/* connection.c: slots of the protocol (net.h) */
void connection_refused(struct net_conn *n);
void connection_input_ended(struct net_conn *n);
void connection_settle(struct net_conn *n);
void connection_late(struct net_conn *n, unsigned kind);
bool connection_may_shed(const struct net_conn *n);
enum budget_shed connection_shed(void *net_conn);
bool connection_at_rest(const struct net_conn *n);
void connection_closed(struct net_conn *n);

/* account.c */
/* false: there is no room for an exchange of this many bytes, or for a body of `cap` bytes. */
bool account_exchange(struct connection *c, size_t bytes);
void account_exchange_created(struct http_exchange *x, size_t bytes);
bool account_body(struct http_exchange *x, size_t cap);
void account_body_freed(struct http_exchange *x);
/* false: there is no room for the reply in `out`. */
bool account_reply(struct http_exchange *x);
void account_out(struct http_exchange *x);               /* `out` has grown or shrunk */
bool account_hold(struct http_exchange *x, size_t more); /* false: there is no room for them */
/* false: there is no room for more bytes of a stream. */
bool account_stream(struct http_exchange *x, size_t more);
void account_is_stream(struct http_exchange *x);
void account_loosen(struct http_exchange *x); /* before conn becomes NULL */
void account_free(struct http_exchange *x);

/* intake.c */
bool intake_open(const struct connection *c); /* it may take another request now */
/* Slots of the protocol: takes requests off the front of `in`; nothing can be kept of the request;
 * whether another request may be taken. */
size_t intake_input(struct net_conn *n, struct span in);
void intake_no_room(struct net_conn *n, size_t len);
bool intake_wanted(const struct net_conn *n);
/* Puts a refusal behind what is under way; the connection ends with it. */
void intake_fault(struct connection *c, unsigned status, const char *text);
/* The same with the fixed text, when there is no memory for as much as an exchange. */
void intake_give_up(struct connection *c);
void intake_abandon(struct connection *c); /* what has come of an unfinished request */
/* Discards the kept input, of which nothing was taken. */
void intake_discard(struct connection *c);

/* exchange.c */
/* A copy of the head (NULL: none could be read) with the text it was read from, at the end of the
 * connection's chain; NULL when out of memory. */
struct http_exchange *exchange_new(struct connection *c, const struct http_head *head,
                                   struct span text);
void exchange_unlink_last(struct connection *c, struct http_exchange *x);
void exchange_loosen(struct http_exchange *x); /* its connection is gone */
/* The same of one that is parked: its handler hears it now, and its memory goes when it has
 * answered. */
void exchange_give_up(struct http_exchange *x);
void exchange_queue_loose(struct http_exchange *x);
void exchange_free(struct http_exchange *x);
void exchange_body_free(struct http_exchange *x);    /* unless it is part of the block */
bool exchange_parked(const struct http_exchange *x); /* NULL allowed */
bool exchange_only_reads(const struct http_exchange *x);
/* Tells `sent` and frees. */
void exchange_finish(struct http_exchange *x, bool whole);
size_t exchange_waiting(const struct http_exchange *x); /* bytes not handed to the kernel */
void server_loose_run(struct http_server *s);

/* write.c: slots of the protocol */
void write_gather(struct net_conn *n, struct net_pieces *p);
void write_sent(struct net_conn *n, size_t len);
bool write_flushed(struct net_conn *n);

/* answer.c */
extern const struct span answer_continue;
extern const struct span answer_out_of_memory;
extern const struct span answer_crowded;   /* too many connections */
extern const struct span answer_needs_tls; /* HTTP without TLS on a listener that has TLS */
extern const struct span answer_no_room;   /* the memory budget is used up; nothing was done */
#define LENGTH_NONE UINT64_MAX
/* Puts the head for a body of `length` bytes behind what `out` holds; -ERR_NOMEM. */
MUST_CHECK int answer_head(struct http_exchange *x, unsigned status, const char *type,
                           uint64_t length);

/* stream.c */
/* Sends the head of a body that comes with http_stream_write. */
void stream_open(struct http_exchange *x, const char *type, uint64_t length);
/* The client has received this many of the waiting bytes. */
void stream_sent(struct http_exchange *x, size_t len);
bool stream_room_for(const struct http_exchange *x, size_t more);
/* What waits is little enough for the write that was refused. */
bool stream_room_due(const struct http_exchange *x);
/* After a tick: a stream that was refused memory is told of room when there is enough. */
void stream_retry(struct http_exchange *x);

/* feed.c */
uint64_t feed_pending(const struct http_exchange *x); /* bytes of the feed still to be sent */
void feed_gather(const struct http_exchange *x, struct net_pieces *p);
void feed_sent(struct http_exchange *x, size_t len);
void feed_unlink(struct http_exchange *x); /* the exchange loses its connection, or is freed */
void feed_end(struct http_exchange *x);    /* the stream ends: what remains becomes its own */

/* guard.c */
/* false: the request must be refused, with *ret set. */
bool guard_pass(const struct http_server *s, const struct http_head *h, struct http_exchange *x,
                struct http_fault *ret);

/* refusal.c */
/* Answers with a problem document. */
void refusal_send(struct http_exchange *x, unsigned status, const char *detail);
void refusal_options(struct http_exchange *x);
