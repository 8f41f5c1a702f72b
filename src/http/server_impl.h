/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the HTTP server: for the files of src/http and nobody else.
 *
 * A connection is a socket with a poll handle. Its requests become exchanges, chained in the order
 * they came (first … last); the last of them may still be waiting for its body (`reading`). Answers
 * leave from the front of the chain. Nothing is written when an answer is given: its connection is
 * put on the server's dirty list, and the end of the turn of the loop (server_turn) writes what is
 * ready of each with one call.
 *
 * Who calls whom back: handlers run while input is taken (intake.c); gone, sent and room run at the
 * end of the turn. So no function that an API may call ever calls back, and a connection that is
 * closed in the middle of anything lives on, marked, until the loop's close callback.
 *
 * An exchange whose connection closed has conn = NULL ("loose"). It is told so at the end of the
 * turn and freed when the answer it still owes has come.
 *
 * Input: one read buffer for the server. A connection keeps bytes of its own (`in`) only for a head
 * that has come in part, or for requests that must wait because pipeline_max are under way. */
#pragma once

#include <sys/uio.h>
#include <uv.h>

#include "base/budget.h"
#include "base/containers/link.h"
#include "base/containers/map.h"
#include "http/router.h"
#include "http/server.h"

#define READ_BYTES ((size_t)64 << 10)
#define PEER_BYTES 46 /* the longest IPv6 address as text */
#define DATE_BYTES 37 /* "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" */
#define ANSWER_FIELDS_MAX 2048
#define BODY_INLINE_BYTES ((uint64_t)16 << 10) /* longer bodies have memory of their own */
#define WRITE_PIECES 256                       /* of one call */
#define LINGER_MS 2000 /* how long a refused client may go on sending before it is cut off */
#define LINGER_REFUSED_MAX                                                                         \
    64 /* connections beyond the limit that are told 503, not just closed                          \
        */

/* What a connection has only so long for. Each kind has one length, so each has a list in order of
 * deadlines, and a look at its front tells who is late. */
enum wait_kind {
    WAIT_IDLE,   /* for the next request */
    WAIT_HEAD,   /* for the rest of a head */
    WAIT_BODY,   /* for the rest of a body */
    WAIT_WRITE,  /* for the client to take something */
    WAIT_LINGER, /* for the client to read our last answer and close */
    WAIT_COUNT,
};
struct wait {
    struct link link;
    uint64_t deadline;   /* loop time, ms */
    enum wait_kind kind; /* as long as link is in a list */
};

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
    http_gone_fn gone;
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
    bool starved : 1;   /* a write to the stream was refused for want of memory */
    bool out_of_memory : 1;
};

struct connection {
    uv_poll_t poll;
    struct http_server *server;
    struct link all, dirty;
    struct wait reads, writes;
    struct http_exchange *first, *last, *reading;
    struct budget_account account;
    struct buf in;
    size_t in_charged;      /* bytes of `in` that the budget knows of */
    size_t seen;            /* bytes of `in` that were looked at and hold no whole head */
    size_t out_bytes;       /* answered and not handed to the kernel */
    size_t body_bytes;      /* bodies of the requests in the chain that are whole */
    struct span interim;    /* "100 Continue": to be sent before anything of `first` */
    struct span last_words; /* to be sent behind all answers */
    uint64_t address;       /* key of the per-address count; 0 = not counted */
    uint32_t count;         /* exchanges in the chain */
    int fd;
    int events;         /* polled for now */
    bool stalled : 1;   /* `in` may hold whole requests that were not taken yet */
    bool no_more : 1;   /* no further request is taken; what comes is thrown away */
    bool eof : 1;       /* the client has sent everything it will send */
    bool hung_up : 1;   /* so it seems, but not all of it was read yet */
    bool probed : 1;    /* a byte was sent to find out whether it still listens */
    bool urgent : 1;    /* urgent data came: that event tells nothing any more */
    bool linger : 1;    /* ends with a wait for the client to close */
    bool lingering : 1; /* in that wait */
    bool refused : 1;   /* beyond the limits: only told so */
    bool asked : 1;     /* a request has come since it was accepted */
    bool blocked : 1;   /* the kernel took less than there was */
    bool taking : 1;    /* requests are being taken from `in` */
    bool closed : 1;    /* its memory goes in the close callback */
    uint8_t peer_len;
    char peer[PEER_BYTES];
};

struct pieces {
    struct iovec iov[WRITE_PIECES];
    size_t count, bytes;
};

struct listener {
    uv_poll_t poll;
    struct http_server *server;
    struct link link;
    int fd;
    bool unix_socket;
    bool paused; /* no descriptor was free: until the next tick */
    bool closed;
    uint64_t device, inode; /* of the socket file, so that no other one is removed */
    char address[160];
};

struct http_server {
    struct http_server_config config;
    struct http_limits limits_large; /* for routes with ROUTE_LARGE */
    struct router router;
    bool routes_failed; /* out of memory while routes were added */
    struct link listeners, connections, dirty;
    struct link waits[WAIT_COUNT];
    uint64_t wait_ms[WAIT_COUNT];
    struct http_exchange *loose_first, *loose_last;
    struct budget_account loose; /* what exchanges without a connection hold */
    struct budget unlimited;     /* used when the configuration has no budget */
    struct map64 addresses;      /* connections for each peer address */
    uint64_t lingering_refused;
    uint64_t exchanges; /* not freed yet */
    bool starved;       /* there may be streams that wait for memory */
    int spare_fd;       /* given up for a moment when the process has no descriptor left */
    uint64_t shed, shed_logged_ms; /* connections dropped for want of a descriptor */
    uv_prepare_t prepare;
    uv_idle_t idle;
    uv_timer_t timer;
    unsigned handles; /* open, listeners' and connections' included */
    bool ticking, idling, draining, closing, ending;
    uint64_t drain_deadline;
    uint64_t ticked_ms; /* loop time of the last tick */
    void (*drained)(void *ctx);
    void *drained_ctx;
    void (*closed)(void *ctx);
    void *closed_ctx;
    struct http_server_figures figures;
    uint64_t date_until; /* loop time, ms */
    char date[DATE_BYTES + 1];
    /* Scratch: too big to be zeroed on the stack for each request. */
    struct http_head head;
    struct pieces pieces;
    char read_buf[READ_BYTES];
};

/* server.c */
void server_rouse(struct http_server *s); /* the turn's end must be reached without waiting */
void server_tick_start(struct http_server *s);
void server_handle_closed(struct http_server *s);
uint64_t server_now(const struct http_server *s);
void wait_start(struct http_server *s, struct wait *w, enum wait_kind kind);
void wait_stop(struct wait *w);
bool wait_is(const struct wait *w, enum wait_kind kind);

/* listen.c */
void listen_spare(struct http_server *s); /* takes the spare descriptor unless it is there */
void listener_resume(struct listener *l);
void listener_close(struct listener *l);

/* connection.c */
/* Takes the descriptor, whatever happens. */
void connection_open(struct http_server *s, int fd, struct span peer, uint64_t address,
                     bool refused);
void connection_close(struct connection *c);
void connection_dirty(struct connection *c);
/* After anything that changes what it waits for: polls for the right events, sets deadlines. */
void connection_settle(struct connection *c);
void connection_input_free(struct connection *c); /* what it has kept of its input */
void connection_late(struct connection *c, enum wait_kind kind);
/* Neither a request under way nor a part of one, nor an answer that may not have been read. */
bool connection_at_rest(const struct connection *c);
/* Takes requests from the bytes it kept and then these. */
void connection_take(struct connection *c, struct span fresh);
/* Its last answer is out. */
void connection_finish(struct connection *c);
/* For the budget: gives up the request that is being read, or closes. */
enum budget_shed connection_shed(void *c);

/* account.c */
void account_open(struct connection *c);
void account_close(struct connection *c);
/* false: there is no room for `more` bytes of input to be kept. */
bool account_input(struct connection *c, size_t more);
void account_input_freed(struct connection *c);
void account_moved(struct connection *c, size_t bytes); /* the client has sent or taken them */
void account_settle(struct connection *c);              /* tells whether it may be shed */
/* false: there is no room for an exchange of so many bytes, or for a body of `cap` bytes. */
bool account_exchange(struct connection *c, size_t bytes);
void account_exchange_made(struct http_exchange *x, size_t bytes);
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
/* Takes requests off the front of `in`; returns how many bytes were used. */
size_t intake(struct connection *c, struct span in);
/* Puts a refusal behind what is under way; the connection ends with it. */
void intake_fault(struct connection *c, unsigned status, const char *text);
void intake_no_room(struct connection *c); /* nothing can be kept of the request */
void intake_abandon(struct connection *c); /* what has come of an unfinished request */

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

/* write.c */
void connection_flush(struct connection *c);

/* answer.c */
extern const struct span answer_continue;
extern const struct span answer_out_of_memory;
extern const struct span answer_crowded; /* too many connections */
extern const struct span answer_no_room; /* the memory budget is used up; nothing was done */
#define LENGTH_NONE UINT64_MAX
/* Puts the head for a body of `length` bytes behind what `out` holds; -ERR_NOMEM. */
MUST_CHECK int answer_head(struct http_exchange *x, unsigned status, const char *type,
                           uint64_t length);

/* stream.c */
/* Sends the head of a body that comes with http_stream_write. */
void stream_open(struct http_exchange *x, const char *type, uint64_t length);
/* The client has taken so many bytes of what waits. */
void stream_sent(struct http_exchange *x, size_t len);
bool stream_room_for(const struct http_exchange *x, size_t more);
/* What waits is little enough for the write that was refused. */
bool stream_room_due(const struct http_exchange *x);
/* After a tick: a stream that was refused memory is told of room when there is enough. */
void stream_retry(struct http_exchange *x);

/* feed.c */
uint64_t feed_pending(const struct http_exchange *x); /* bytes of the feed still to be sent */
size_t feed_gather(const struct http_exchange *x, struct iovec *out, size_t max, size_t *ret_bytes);
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
