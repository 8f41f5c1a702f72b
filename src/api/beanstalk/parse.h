/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of beanstalkd's text protocol: bytes become commands. It does not allocate and does
 * no I/O.
 *
 * A command is one line of at most BS_LINE_BYTES, including "\r\n"; `put` is followed by its
 * body and another "\r\n". The verb is found as beanstalkd finds it, by its beginning:
 * "reservex" is a malformed `reserve`, "quit now" is `quit`, "put" without a blank is not a
 * command.
 *
 * Input that is too long is discarded as it arrives, so a parser never needs more than one
 * command in memory.
 *
 * A new command is a number in enum bs_verb, a row of VERBS in parse.c, a row in commands.c and a
 * function in the cmd_*.c of its subject. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

#define BS_LINE_BYTES 224 /* including CR and LF */
#define BS_TUBE_BYTES 200

enum bs_verb {
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
    BS_VERB_COUNT,
};
const char *bs_verb_name(enum bs_verb w); /* "put", … */

struct bs_command {
    enum bs_verb verb;
    uint64_t id;
    uint32_t priority; /* 0 = most urgent */
    uint32_t delay_s, ttr_s;
    uint32_t count;    /* kick: at most this many */
    int64_t timeout_s; /* reserve-with-timeout; negative = none */
    struct span tube;  /* in the input */
    struct span body;  /* put: in the input */
};

enum bs_result {
    BS_MORE,    /* no complete command */
    BS_COMMAND, /* *ret is complete */
    /* refusals; ret->verb is BS_VERB_COUNT if the verb is unknown */
    BS_BAD_FORMAT,
    BS_UNKNOWN_COMMAND,
    BS_EXPECTED_CRLF, /* of a put */
    BS_JOB_TOO_BIG,   /* of a put */
    BS_NO_ROOM,       /* of a put that bs_parser_skip discarded */
};

struct bs_parser {
    uint32_t body_max; /* set it before the first call */
    uint8_t state;     /* private to the parser, 0 at first */
    uint64_t skip;     /* bytes of a body still to be discarded */
    uint8_t skip_as;   /* enum bs_result to return after them */
    size_t need;       /* a hint: a complete command needs at least this many bytes */
};

/* Takes one command from the front of `in`. *ret_used is the number of bytes that were used,
 * also if more are needed; the rest must be passed again, followed by the next input. */
enum bs_result bs_parse(struct bs_parser *p, struct span in, size_t *ret_used,
                        struct bs_command *ret);

/* What the client has begun and not completed. `kept`: bytes that were passed and not used. */
enum bs_part {
    BS_PART_NONE,
    BS_PART_LINE,
    BS_PART_BODY, /* of a put */
    BS_PART_COUNT,
};
enum bs_part bs_part(const struct bs_parser *p, size_t kept);

/* Which protocol the first line of a connection belongs to. A web page can make a browser send
 * HTTP or TLS to any port, and it controls the body, the method and the path. Nothing of such a
 * request may be executed, so the decision is taken on the first line, before the parser sees
 * it.
 *
 * A command never has "HTTP/" at the beginning of its third or a later token, whereas every
 * request line of a browser has, also where the method looks like a command ("use /x HTTP/1.1").
 * A first line that is too long is not a command either: it may be a request line with a long
 * path. */
enum bs_protocol {
    BS_PROTOCOL_OPEN,      /* undecided: the line is incomplete */
    BS_PROTOCOL_BEANSTALK, /* a known command, perhaps malformed */
    BS_PROTOCOL_HTTP,
    BS_PROTOCOL_BINARY,  /* begins with a byte that is not text: TLS, STUN … */
    BS_PROTOCOL_UNKNOWN, /* text that is neither */
    BS_PROTOCOL_COUNT,
};
/* `in` is all input since the connection was opened. A result other than BS_PROTOCOL_OPEN stays
 * the same for longer input. */
enum bs_protocol bs_protocol(struct span in);
/* Discards the put that `need` describes: the rest of it is discarded as it arrives, and the
 * result is BS_NO_ROOM. `have` is the number of its bytes that have arrived, all of which may be
 * freed. */
void bs_parser_skip(struct bs_parser *p, size_t have);

/* 1 to BS_TUBE_BYTES letters, digits and -+/;.$_(), of which the first is not a hyphen. */
bool bs_tube_valid(struct span name);
