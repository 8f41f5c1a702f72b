/* SPDX-License-Identifier: Apache-2.0 */
/* beanstalkd's protocol: any bytes as what a client sends.
 *
 * What must hold: the commands that come out do not depend on how the bytes are cut; every call
 * sees a copy of its size, so nothing outside is read; a parser that says it needs more has used
 * all but a bounded rest, and what is incomplete is named (bs_part), so that it has a time limit;
 * the first line decides the protocol, at its end or earlier and for good, and a line that the
 * parser takes for a command is one there unless it has the version of HTTP in it; numbers and
 * names of a command are those of its line, written out again the command reads the same. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/beanstalk/parse.h"
#include "base/check.h"
#include "base/digest/hash.h"
#include "base/digest/random.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BODY_MAX 300
#define BYTEWISE_MAX 2000

/* One number for all that came out, in order. */
struct outcome {
    uint64_t hash;
    size_t count, used;
};

static void mix(struct outcome *o, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++)
        o->hash = (o->hash ^ at[i]) * UINT64_C(1099511628211);
}

static void mix_number(struct outcome *o, uint64_t n)
{
    mix(o, &n, sizeof n);
}

static int command_text(const struct bs_command *c, char *out, size_t room)
{
    const char *name = bs_verb_name(c->verb);
    switch ((int)c->verb) {
    case BS_PUT:
        return snprintf(out, room, "%s %u %u %u %zu\r\n%.*s", name, c->priority, c->delay_s,
                        c->ttr_s, c->body.len, 0, "");
    case BS_RELEASE:
        return snprintf(out, room, "%s %" PRIu64 " %u %u", name, c->id, c->priority, c->delay_s);
    case BS_BURY:
        return snprintf(out, room, "%s %" PRIu64 " %u", name, c->id, c->priority);
    case BS_RESERVE_TIMEOUT:
        return snprintf(out, room, "%s %" PRId64, name, c->timeout_s);
    case BS_KICK:
        return snprintf(out, room, "%s %u", name, c->count);
    case BS_PAUSE_TUBE:
        return snprintf(out, room, "%s %.*s %u", name, (int)c->tube.len, c->tube.at, c->delay_s);
    case BS_USE:
    case BS_WATCH:
    case BS_IGNORE:
    case BS_STATS_TUBE:
        return snprintf(out, room, "%s %.*s", name, (int)c->tube.len, c->tube.at);
    case BS_RESERVE_JOB:
    case BS_DELETE:
    case BS_TOUCH:
    case BS_PEEK:
    case BS_KICK_JOB:
    case BS_STATS_JOB:
        return snprintf(out, room, "%s %" PRIu64, name, c->id);
    default:
        return snprintf(out, room, "%s", name);
    }
}

static void again_holds(const struct bs_command *c)
{
    char text[BS_LINE_BYTES + BODY_MAX + 8];
    struct bs_parser p = {.body_max = BODY_MAX};
    struct bs_command again;
    size_t used;
    int len = command_text(c, text, sizeof text);
    CHECK(len > 0 && (size_t)len + c->body.len + 2 < sizeof text);
    if (c->verb == BS_PUT && c->body.len)
        memcpy(text + len, c->body.at, c->body.len);
    size_t all = (size_t)len + (c->verb == BS_PUT ? c->body.len : 0);
    memcpy(text + all, "\r\n", 2);
    CHECK(bs_parse(&p, span_of(text, all + 2), &used, &again) == BS_COMMAND && used == all + 2);
    CHECK(again.verb == c->verb && again.id == c->id && again.priority == c->priority &&
          again.delay_s == c->delay_s && again.ttr_s == c->ttr_s && again.count == c->count &&
          again.timeout_s == c->timeout_s && span_equal(again.tube, c->tube) &&
          span_equal(again.body, c->body));
}

static void note(struct outcome *o, enum bs_result r, const struct bs_command *c)
{
    o->count++;
    mix_number(o, (uint64_t)r);
    if (r != BS_COMMAND)
        return;
    CHECK(c->verb < BS_VERB_COUNT && c->body.len <= BODY_MAX);
    CHECK(c->tube.len == 0 || bs_tube_valid(c->tube));
    mix_number(o, c->verb);
    mix_number(o, c->id);
    mix_number(o, c->priority);
    mix_number(o, c->delay_s);
    mix_number(o, c->ttr_s);
    mix_number(o, c->count);
    mix_number(o, (uint64_t)c->timeout_s);
    mix(o, c->tube.at, c->tube.len);
    mix(o, c->body.at, c->body.len);
    again_holds(c);
}

/* What is kept between two calls must fit into one command, and has a time limit. */
static void rest_holds(const struct bs_parser *p, size_t rest)
{
    enum bs_part part = bs_part(p, rest);
    CHECK(part != BS_PART_NONE || (rest == 0 && p->skip == 0));
    CHECK(part != BS_PART_BODY || p->skip > 0 || p->need > rest);
    CHECK(rest < BS_LINE_BYTES + BODY_MAX + 2);
    CHECK(p->need == 0 || p->need > rest);
}

static void read_pieces(struct outcome *o, struct span text, const size_t *cuts, size_t count)
{
    struct bs_parser p = {.body_max = BODY_MAX};
    size_t at = 0;
    *o = (struct outcome){.hash = 1};
    for (size_t i = 0; i <= count; i++) {
        size_t end = i < count ? cuts[i] : text.len;
        for (;;) {
            struct bs_command c;
            size_t used, len = end - at;
            char *copy = mem_copy(text.at + at, len);
            CHECK(copy);
            enum bs_result r = bs_parse(&p, span_of(copy, len), &used, &c);
            CHECK(used <= len);
            if (r != BS_MORE)
                note(o, r, &c);
            mem_free(copy);
            at += used;
            if (r == BS_MORE && used == 0)
                break;
        }
        rest_holds(&p, end - at);
    }
    o->used = at;
}

static enum bs_protocol protocol_of(struct span in)
{
    char *copy = mem_copy(in.at, in.len);
    CHECK(copy);
    enum bs_protocol protocol = bs_protocol(span_of(copy, in.len));
    mem_free(copy);
    return protocol;
}

/* What the parser would do first with the same bytes. */
static void first_line_holds(struct span text, enum bs_protocol protocol)
{
    struct bs_parser p = {.body_max = BODY_MAX};
    struct bs_command c;
    size_t used;
    enum bs_result r = bs_parse(&p, text, &used, &c);
    bool late = p.need > 0 || p.skip > 0; /* the line of a put */
    if (protocol == BS_PROTOCOL_OPEN)
        CHECK(r == BS_MORE && used == 0 && !late && text.len < BS_LINE_BYTES);
    else if (protocol == BS_PROTOCOL_BEANSTALK)
        CHECK(r != BS_UNKNOWN_COMMAND && (r != BS_MORE || late));
    else if (protocol == BS_PROTOCOL_UNKNOWN)
        CHECK(r != BS_COMMAND && r != BS_EXPECTED_CRLF && r != BS_JOB_TOO_BIG && !late);
    else if (protocol == BS_PROTOCOL_HTTP && r == BS_COMMAND)
        CHECK(text.len >= 5 && memmem(text.at, used, "/", 1));
}

static void protocol_holds(struct span text)
{
    size_t end = text.len < BS_LINE_BYTES + 8 ? text.len : BS_LINE_BYTES + 8;
    enum bs_protocol all = protocol_of(text);
    for (size_t len = 0; len <= end; len++) {
        enum bs_protocol part = protocol_of(span_of(text.at, len));
        CHECK(part == BS_PROTOCOL_OPEN || part == all);
        CHECK(part != BS_PROTOCOL_OPEN || len < BS_LINE_BYTES);
    }
    first_line_holds(text, all);
}

static int compare(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

static void same(const struct outcome *a, const struct outcome *b)
{
    CHECK(a->hash == b->hash && a->count == b->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = span_of(data, size);
    struct outcome whole, cut;
    struct random random;
    size_t cuts[BYTEWISE_MAX];
    random_seed(&random, size ? data[0] + size : 1);
    read_pieces(&whole, text, NULL, 0);
    protocol_holds(text);
    for (int round = 0; round < 3; round++) {
        size_t count = 1 + random_below(&random, 8);
        for (size_t i = 0; i < count; i++)
            cuts[i] = random_below(&random, size + 1);
        qsort(cuts, count, sizeof *cuts, compare);
        read_pieces(&cut, text, cuts, count);
        same(&whole, &cut);
    }
    if (size <= BYTEWISE_MAX && random_chance(&random, 25)) {
        for (size_t i = 0; i < size; i++)
            cuts[i] = i;
        read_pieces(&cut, text, cuts, size);
        same(&whole, &cut);
    }
    return 0;
}
