/* SPDX-License-Identifier: Apache-2.0 */
/* beanstalkd's text protocol, the reading half: bytes become commands. Pure: no allocation, no I/O.
 *
 * A command is one line of at most BS_LINE_BYTES, its "\r\n" included; `put` is followed by its
 * body and another "\r\n". The first word is found as beanstalkd finds it, by its beginning:
 * "reservex" is a malformed `reserve`, "quit now" is `quit`, "put" without a blank is no command.
 *
 * What is too long is thrown away as it comes, so a parser never needs more than one command in
 * memory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

#define BS_LINE_BYTES 224 /* the CR and LF included */
#define BS_TUBE_BYTES 200

enum bs_word {
    BS_PUT,
    BS_RESERVE,
    BS_RESERVE_TIMEOUT,
    BS_RESERVE_JOB,
    BS_DELETE,
    BS_RELEASE,
    BS_BURY,
    BS_TOUCH,
    BS_USE,
    BS_WATCH,
    BS_IGNORE,
    BS_PEEK,
    BS_PEEK_READY,
    BS_PEEK_DELAYED,
    BS_PEEK_BURIED,
    BS_KICK,
    BS_KICK_JOB,
    BS_STATS,
    BS_STATS_JOB,
    BS_STATS_TUBE,
    BS_LIST_TUBES,
    BS_LIST_TUBE_USED,
    BS_LIST_TUBES_WATCHED,
    BS_PAUSE_TUBE,
    BS_QUIT,
    BS_WORD_COUNT,
};
const char *bs_word_name(enum bs_word w); /* "put", … */

struct bs_command {
    enum bs_word word;
    uint64_t id;
    uint32_t priority; /* 0 = most urgent */
    uint32_t delay_s, ttr_s;
    uint32_t count;    /* kick: at most so many */
    int64_t timeout_s; /* reserve-with-timeout; negative = none */
    struct span tube;  /* in the input */
    struct span body;  /* put: in the input */
};

enum bs_result {
    BS_MORE,    /* nothing whole is there */
    BS_COMMAND, /* *ret says all */
    /* refusals; ret->word is BS_WORD_COUNT when the word is not known */
    BS_BAD_FORMAT,
    BS_UNKNOWN_COMMAND,
    BS_EXPECTED_CRLF, /* of a put */
    BS_JOB_TOO_BIG,   /* of a put */
    BS_NO_ROOM,       /* of a put that bs_parser_skip gave up */
};

struct bs_parser {
    uint32_t body_max; /* set it before the first call */
    uint8_t state;     /* the parser's own, 0 at first */
    uint64_t skip;     /* bytes of a body still to be thrown away */
    uint8_t skip_as;   /* enum bs_result that is given behind them */
    size_t need;       /* fewer bytes than these cannot make a whole command: a hint */
};

/* Takes one command off the front of `in`. *ret_used: bytes that are done with, also when more is
 * needed; the rest must be given again, with what follows it. */
enum bs_result bs_parse(struct bs_parser *p, struct span in, size_t *ret_used,
                        struct bs_command *ret);

/* What the client has begun and not finished. `kept`: bytes that were given and not used. */
enum bs_part {
    BS_PART_NONE,
    BS_PART_LINE,
    BS_PART_BODY, /* of a put */
    BS_PART_COUNT,
};
enum bs_part bs_part(const struct bs_parser *p, size_t kept);

/* Which protocol the first line of a connection belongs to. A web page can make a browser send HTTP
 * or TLS to any port, and it chooses the body, the method and the path. Nothing of such a request
 * may be run, so the decision is made on the first line, before the parser sees it.
 *
 * A command never has "HTTP/" at the beginning of its third word or a later one, whereas every
 * request line of a browser has, also where the method looks like a command ("use /x HTTP/1.1"). A
 * first line that is too long is no command either: it may be a request line with a long path. */
enum bs_protocol {
    BS_PROTOCOL_OPEN,      /* not decided: the line has not come to its end */
    BS_PROTOCOL_BEANSTALK, /* a known command, perhaps malformed */
    BS_PROTOCOL_HTTP,
    BS_PROTOCOL_BINARY,  /* begins with a byte that is no text: TLS, STUN … */
    BS_PROTOCOL_UNKNOWN, /* text that is neither */
    BS_PROTOCOL_COUNT,
};
/* `in`: all that has come since the connection was opened. The answer for longer input is the same
 * once it is not BS_PROTOCOL_OPEN. */
enum bs_protocol bs_protocol(struct span in);
/* Gives up the put that `need` tells of: the rest of it is thrown away as it comes, and the result
 * is BS_NO_ROOM. have: bytes of it that have come, all of which may be forgotten. */
void bs_parser_skip(struct bs_parser *p, size_t have);

/* Letters, digits and -+/;.$_(), not a hyphen first, 1 to BS_TUBE_BYTES of them. */
bool bs_tube_valid(struct span name);
