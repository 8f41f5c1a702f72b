/* SPDX-License-Identifier: Apache-2.0 */
#include "api/beanstalk/parse.h"

#include <strings.h>

#include "base/check.h"

enum parse_state {
    PARSE_LINE, /* at the beginning of a command */
    PARSE_LONG, /* in a line that is too long */
    PARSE_SKIP, /* in a body that is too long */
};

/* The verbs: number, name, what must follow the name, and the arguments after that. p: priority, d:
 * delay, t: time to run, b: bytes of the body, i: id, u: tube, n: count, w: seconds to wait; "" =
 * none, "*" = any text. Of verbs with the same beginning the longest comes first; frequent verbs
 * come before the others. */
#define VERBS(V)                                                                                   \
    V(BS_PUT, "put", " ", "pdtb")                                                                  \
    V(BS_DELETE, "delete", " ", "i")                                                               \
    V(BS_RESERVE_TIMEOUT, "reserve-with-timeout", " ", "w")                                        \
    V(BS_RESERVE_JOB, "reserve-job", " ", "i")                                                     \
    V(BS_RESERVE, "reserve", "", "")                                                               \
    V(BS_RELEASE, "release", " ", "ipd")                                                           \
    V(BS_BURY, "bury", " ", "ip")                                                                  \
    V(BS_TOUCH, "touch", " ", "i")                                                                 \
    V(BS_USE, "use", " ", "u")                                                                     \
    V(BS_WATCH, "watch", " ", "u")                                                                 \
    V(BS_IGNORE, "ignore", " ", "u")                                                               \
    V(BS_PEEK, "peek", " ", "i")                                                                   \
    V(BS_PEEK_READY, "peek-ready", "", "")                                                         \
    V(BS_PEEK_DELAYED, "peek-delayed", "", "")                                                     \
    V(BS_PEEK_BURIED, "peek-buried", "", "")                                                       \
    V(BS_KICK_JOB, "kick-job", " ", "i")                                                           \
    V(BS_KICK, "kick", " ", "n")                                                                   \
    V(BS_STATS_JOB, "stats-job", " ", "i")                                                         \
    V(BS_STATS_TUBE, "stats-tube", " ", "u")                                                       \
    V(BS_STATS, "stats", "", "")                                                                   \
    V(BS_LIST_TUBES_WATCHED, "list-tubes-watched", "", "")                                         \
    V(BS_LIST_TUBE_USED, "list-tube-used", "", "")                                                 \
    V(BS_LIST_TUBES, "list-tubes", "", "")                                                         \
    V(BS_PAUSE_TUBE, "pause-tube", "", " ud")                                                      \
    V(BS_QUIT, "quit", "", "*")

static const struct verb_row {
    const char *text;
    uint8_t len;
    uint8_t verb;
    const char *args;
} verbs[] = {
#define VERB_ROW(verb, name, blank, args) {name blank, sizeof(name blank) - 1, verb, args},
    VERBS(VERB_ROW)
#undef VERB_ROW
};

const char *bs_verb_name(enum bs_verb w)
{
    static const char *const names[BS_VERB_COUNT] = {
#define VERB_NAME(verb, name, blank, args) [verb] = (name),
        VERBS(VERB_NAME)
#undef VERB_NAME
    };
    return w < BS_VERB_COUNT ? names[w] : NULL;
}

/* ---- characters ---- */

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool tube_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || digit(c) || c == '-' || c == '+' ||
           c == '/' || c == ';' || c == '.' || c == '$' || c == '_' || c == '(' || c == ')';
}

static void blanks_drop(struct span *s)
{
    while (s->len > 0 && s->at[0] == ' ')
        *s = span_of(s->at + 1, s->len - 1);
}

/* ---- arguments ---- */

/* Digits, with optional blanks before them. false: no digits, or more than max. */
static bool take_number(struct span *s, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;
    size_t i = 0;
    blanks_drop(s);
    for (; i < s->len && digit(s->at[i]); i++) {
        unsigned d = (unsigned)(s->at[i] - '0');
        if (v > (max - d) / 10)
            return false;
        v = v * 10 + d;
    }
    if (i == 0)
        return false;
    *s = span_of(s->at + i, s->len - i);
    *ret = v;
    return true;
}

static bool take_u32(struct span *s, uint32_t *ret)
{
    uint64_t v;
    if (!take_number(s, UINT32_MAX, &v))
        return false;
    *ret = (uint32_t)v;
    return true;
}

/* A number with an optional sign and any text after it: some clients send this. */
static bool take_loose(struct span *s, int64_t *ret)
{
    blanks_drop(s);
    bool minus = s->len > 0 && s->at[0] == '-';
    if (minus || (s->len > 0 && s->at[0] == '+'))
        *s = span_of(s->at + 1, s->len - 1);
    uint64_t v;
    if (s->len == 0 || !digit(s->at[0]) || !take_number(s, INT64_MAX, &v))
        return false;
    *ret = minus ? -(int64_t)v : (int64_t)v;
    *s = span_of(s->at, 0);
    return true;
}

static bool take_count(struct span *s, uint32_t *ret)
{
    int64_t v;
    if (!take_loose(s, &v))
        return false;
    *ret = v < 0 || v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
    return true;
}

bool bs_tube_valid(struct span name)
{
    if (name.len == 0 || name.len > BS_TUBE_BYTES || name.at[0] == '-')
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!tube_char(name.at[i]))
            return false;
    return true;
}

static bool take_tube(struct span *s, struct span *ret)
{
    size_t len = 0;
    while (len < s->len && s->at[len] != ' ')
        len++;
    *ret = span_of(s->at, len);
    *s = span_of(s->at + len, s->len - len);
    return bs_tube_valid(*ret);
}

static bool take_argument(char kind, struct span *s, struct bs_command *c, uint32_t *bytes)
{
    switch (kind) {
    case 'p':
        return take_u32(s, &c->priority);
    case 'd':
        return take_u32(s, &c->delay_s);
    case 't':
        return take_u32(s, &c->ttr_s);
    case 'b':
        return take_u32(s, bytes);
    case 'i':
        return take_number(s, UINT64_MAX, &c->id);
    case 'n':
        return take_count(s, &c->count);
    case 'w':
        return take_loose(s, &c->timeout_s);
    case ' ':
        blanks_drop(s);
        return true;
    case 'u':
        return take_tube(s, &c->tube);
    default: /* '*' */
        *s = span_of(s->at, 0);
        return true;
    }
}

/* false: malformed. *ret_rest is the text after the arguments. */
static bool take_arguments(const char *kinds, struct span *rest, struct bs_command *c,
                           uint32_t *bytes)
{
    for (; *kinds; kinds++)
        if (!take_argument(*kinds, rest, c, bytes))
            return false;
    return true;
}

/* ---- lines ---- */

static const struct verb_row *verb_find(struct span line)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (line.len >= verbs[i].len && memcmp(line.at, verbs[i].text, verbs[i].len) == 0)
            return &verbs[i];
    return NULL;
}

/* The length of the line including its end; 0 = the line is incomplete. */
static size_t line_length(struct span in)
{
    const char *from = in.at, *end = in.at + in.len, *lf;
    while (from < end && (lf = memchr(from, '\n', (size_t)(end - from))) != NULL) {
        if (lf > in.at && lf[-1] == '\r')
            return (size_t)(lf - in.at) + 1;
        from = lf + 1;
    }
    return 0;
}

/* The line of a put is complete; this checks its body. */
static enum bs_result body_take(struct bs_parser *p, struct span in, size_t line, uint32_t bytes,
                                bool rest, size_t *ret_used, struct bs_command *ret)
{
    if (bytes > p->body_max) {
        p->state = PARSE_SKIP;
        p->skip = (uint64_t)bytes + 2;
        p->skip_as = BS_JOB_TOO_BIG;
        *ret_used = line;
        return BS_MORE;
    }
    if (rest) {
        *ret_used = line;
        return BS_BAD_FORMAT;
    }
    if (in.len - line < (size_t)bytes + 2) {
        p->need = line + bytes + 2;
        return BS_MORE;
    }
    *ret_used = line + bytes + 2;
    ret->body = span_of(in.at + line, bytes);
    const char *end = in.at + line + bytes;
    return end[0] == '\r' && end[1] == '\n' ? BS_COMMAND : BS_EXPECTED_CRLF;
}

static enum bs_result line_take(struct bs_parser *p, struct span in, size_t len, size_t *ret_used,
                                struct bs_command *ret)
{
    struct span line = span_of(in.at, len - 2);
    uint32_t bytes = 0;
    *ret_used = len;
    if (memchr(line.at, 0, line.len))
        return BS_BAD_FORMAT;
    const struct verb_row *w = verb_find(line);
    if (!w)
        return BS_UNKNOWN_COMMAND;
    *ret = (struct bs_command){.verb = w->verb};
    struct span rest = span_of(line.at + w->len, line.len - w->len);
    if (!take_arguments(w->args, &rest, ret, &bytes))
        return BS_BAD_FORMAT;
    if (w->verb == BS_PUT) {
        *ret_used = 0;
        return body_take(p, in, len, bytes, rest.len > 0, ret_used, ret);
    }
    return rest.len == 0 ? BS_COMMAND : BS_BAD_FORMAT;
}

/* ---- what is thrown away ---- */

static enum bs_result skip_body(struct bs_parser *p, struct span in, size_t *ret_used,
                                struct bs_command *ret)
{
    *ret_used = in.len < p->skip ? in.len : (size_t)p->skip;
    p->skip -= *ret_used;
    if (p->skip > 0)
        return BS_MORE;
    p->state = PARSE_LINE;
    ret->verb = BS_PUT;
    return (enum bs_result)p->skip_as;
}

/* The last byte may be the CR of the line's end, so it is kept. */
static enum bs_result skip_line(struct bs_parser *p, struct span in, size_t *ret_used)
{
    size_t len = line_length(in);
    if (len == 0) {
        *ret_used = in.len > 0 && in.at[in.len - 1] == '\r' ? in.len - 1 : in.len;
        return BS_MORE;
    }
    p->state = PARSE_LINE;
    *ret_used = len;
    return BS_BAD_FORMAT;
}

void bs_parser_skip(struct bs_parser *p, size_t have)
{
    CHECK(p->state == PARSE_LINE && p->need > have);
    p->state = PARSE_SKIP;
    p->skip = p->need - have;
    p->skip_as = BS_NO_ROOM;
    p->need = 0;
}

enum bs_result bs_parse(struct bs_parser *p, struct span in, size_t *ret_used,
                        struct bs_command *ret)
{
    *ret_used = 0;
    ret->verb = BS_VERB_COUNT;
    p->need = 0;
    if (in.len == 0)
        return BS_MORE;
    if (p->state == PARSE_SKIP)
        return skip_body(p, in, ret_used, ret);
    if (p->state == PARSE_LONG)
        return skip_line(p, in, ret_used);
    size_t len = line_length(span_of(in.at, in.len < BS_LINE_BYTES ? in.len : BS_LINE_BYTES));
    if (len > 0)
        return line_take(p, in, len, ret_used, ret);
    if (in.len < BS_LINE_BYTES)
        return BS_MORE;
    p->state = PARSE_LONG;
    return skip_line(p, in, ret_used);
}

enum bs_part bs_part(const struct bs_parser *p, size_t kept)
{
    if (p->state == PARSE_SKIP || p->need > 0)
        return BS_PART_BODY;
    return kept > 0 || p->state == PARSE_LONG ? BS_PART_LINE : BS_PART_NONE;
}

/* ---- the first line ---- */

/* The next token of the line, empty at its end. A client may end lines with LF alone. */
static struct span take_token(struct span *s)
{
    static const char blanks[] = " \t\r\n";
    size_t from = 0, to;
    while (from < s->len && memchr(blanks, s->at[from], sizeof blanks - 1))
        from++;
    for (to = from; to < s->len && !memchr(blanks, s->at[to], sizeof blanks - 1); to++)
        ;
    struct span token = span_of(s->at + from, to - from);
    *s = span_of(s->at + to, s->len - to);
    return token;
}

static bool is_version(struct span token)
{
    return token.len >= 5 && strncasecmp(token.at, "HTTP/", 5) == 0;
}

static bool has_version(struct span line)
{
    (void)take_token(&line); /* the method … */
    (void)take_token(&line); /* … and the target */
    for (struct span token = take_token(&line); token.len > 0; token = take_token(&line))
        if (is_version(token))
            return true;
    return false;
}

/* Whether the first token is followed by "/path", "*" or "http://host/path". */
static bool has_target(struct span line)
{
    (void)take_token(&line);
    struct span target = take_token(&line);
    return target.len > 0 &&
           (target.at[0] == '/' || target.at[0] == '*' || memmem(target.at, target.len, "://", 3));
}

static bool is_text(unsigned char c)
{
    return (c >= ' ' && c <= '~') || c == '\t' || c == '\r' || c == '\n';
}

enum bs_protocol bs_protocol(struct span in)
{
    struct span line = span_of(in.at, in.len < BS_LINE_BYTES ? in.len : BS_LINE_BYTES);
    if (line.len == 0)
        return BS_PROTOCOL_OPEN;
    if (!is_text((unsigned char)line.at[0]))
        return BS_PROTOCOL_BINARY;
    size_t len = line_length(line);
    if (len == 0 && line.len < BS_LINE_BYTES)
        return BS_PROTOCOL_OPEN;
    if (len > 0)
        line.len = len;
    if (has_version(line))
        return BS_PROTOCOL_HTTP;
    if (len > 0 && verb_find(line))
        return BS_PROTOCOL_BEANSTALK;
    return has_target(line) ? BS_PROTOCOL_HTTP : BS_PROTOCOL_UNKNOWN;
}
