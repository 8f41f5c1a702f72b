/* SPDX-License-Identifier: Apache-2.0 */
/* The three formats of a job id. */
#include "core/jobs/id.h"

#include "base/check.h"
#include "core/limits.h"

#define VERSION_BITS UINT64_C(0x7000)    /* in hi */
#define VARIANT_BITS (UINT64_C(2) << 62) /* in lo */
#define TIME_MS_MAX ((INT64_C(1) << 48) - 1)

#define ULID_CHARS (ID_ULID_BYTES - 1)
#define UUID_CHARS (ID_UUID_BYTES - 1)

static const char crockford[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
static const char hex[] = "0123456789abcdef";

uint64_t id_hi(struct wall_time created, unsigned node)
{
    CHECK(created.ms >= 0 && created.ms <= TIME_MS_MAX && node <= ID_NODE_MAX);
    return (uint64_t)created.ms << 16 | VERSION_BITS | node;
}

struct job_id id_make(uint64_t hi, uint64_t seq)
{
    CHECK(seq <= LIMIT_SEQ);
    return (struct job_id){hi, VARIANT_BITS | seq};
}

uint64_t id_seq(struct job_id id)
{
    return id.lo & LIMIT_SEQ;
}

struct wall_time id_time(uint64_t hi)
{
    return (struct wall_time){(int64_t)(hi >> 16)};
}

unsigned id_node(uint64_t hi)
{
    return (unsigned)(hi & ID_NODE_MAX);
}

/* Five bits for each character from the right; the first one stands for the upper three. */
void id_ulid(struct job_id id, char out[ID_ULID_BYTES])
{
    for (int i = ULID_CHARS - 1; i >= 0; i--) {
        out[i] = crockford[id.lo & 31];
        id.lo = id.lo >> 5 | id.hi << 59;
        id.hi >>= 5;
    }
    out[ULID_CHARS] = '\0';
}

static bool hyphen_at(int i)
{
    return i == 8 || i == 13 || i == 18 || i == 23;
}

void id_uuid(struct job_id id, char out[ID_UUID_BYTES])
{
    for (int i = UUID_CHARS - 1; i >= 0; i--) {
        if (hyphen_at(i)) {
            out[i] = '-';
            continue;
        }
        out[i] = hex[id.lo & 15];
        id.lo = id.lo >> 4 | id.hi << 60;
        id.hi >>= 4;
    }
    out[UUID_CHARS] = '\0';
}

/* ---- parsing ---- */

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* -1 if it is not a digit. */
static int crockford_value(char c)
{
    c = upper(c);
    if (c == 'I' || c == 'L')
        return 1;
    if (c == 'O')
        return 0;
    const char *at = c ? strchr(crockford, c) : NULL;
    return at ? (int)(at - crockford) : -1;
}

static int hex_value(char c)
{
    c = upper(c);
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int ref_of(struct job_id id, struct job_ref *ret)
{
    uint64_t seq = id_seq(id);
    if ((id.hi & UINT64_C(0xf000)) != VERSION_BITS || (id.lo & ~LIMIT_SEQ) != VARIANT_BITS ||
        seq == 0)
        return -ERR_RANGE;
    *ret = (struct job_ref){.seq = seq, .hi = id.hi};
    return 0;
}

static int ulid_parse(const char *text, struct job_ref *ret)
{
    struct job_id id = {0, 0};
    for (int i = 0; i < ULID_CHARS; i++) {
        int v = crockford_value(text[i]);
        if (v < 0)
            return -ERR_SYNTAX;
        id.hi = id.hi << 5 | id.lo >> 59;
        id.lo = id.lo << 5 | (uint64_t)v;
    }
    /* Only three bits of the first character fit. */
    return crockford_value(text[0]) > 7 ? -ERR_RANGE : ref_of(id, ret);
}

static int uuid_parse(const char *text, struct job_ref *ret)
{
    struct job_id id = {0, 0};
    for (int i = 0; i < UUID_CHARS; i++) {
        if (hyphen_at(i)) {
            if (text[i] != '-')
                return -ERR_SYNTAX;
            continue;
        }
        int v = hex_value(text[i]);
        if (v < 0)
            return -ERR_SYNTAX;
        id.hi = id.hi << 4 | id.lo >> 60;
        id.lo = id.lo << 4 | (uint64_t)v;
    }
    return ref_of(id, ret);
}

static int integer_parse(struct span text, struct job_ref *ret)
{
    uint64_t seq = 0;
    bool too_large = false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return -ERR_SYNTAX;
        if (!too_large)
            seq = seq * 10 + (uint64_t)(text.at[i] - '0');
        too_large = seq > LIMIT_SEQ;
    }
    if (text.len == 0 || (text.at[0] == '0' && text.len > 1))
        return -ERR_SYNTAX;
    if (seq == 0 || too_large)
        return -ERR_RANGE;
    *ret = (struct job_ref){.seq = seq, .hi = 0};
    return 0;
}

/* The length distinguishes them: an integer has 16 digits at most. */
int id_parse(struct span text, struct job_ref *ret)
{
    switch (text.len) {
    case ULID_CHARS:
        return ulid_parse(text.at, ret);
    case UUID_CHARS:
        return uuid_parse(text.at, ret);
    default:
        return integer_parse(text, ret);
    }
}
