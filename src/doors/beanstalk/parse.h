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
};

struct bs_parser {
    uint32_t body_max; /* set it before the first call */
    uint8_t state;     /* the parser's own, 0 at first */
    uint64_t skip;     /* bytes of a body still to be thrown away */
    size_t need;       /* fewer bytes than these cannot make a whole command: a hint */
};

/* Takes one command off the front of `in`. *ret_used: bytes that are done with, also when more is
 * needed; the rest must be given again, with what follows it. */
enum bs_result bs_parse(struct bs_parser *p, struct span in, size_t *ret_used,
                        struct bs_command *ret);

/* Letters, digits and -+/;.$_(), not a hyphen first, 1 to BS_TUBE_BYTES of them. */
bool bs_tube_valid(struct span name);
