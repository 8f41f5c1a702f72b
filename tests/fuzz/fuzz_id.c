/* SPDX-License-Identifier: Apache-2.0 */
/* Ids, tokens and names from anybody: whatever is accepted has the spelling that we give out. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/utf8.h"
#include "core/jobs/id.h"
#include "core/jobs/job.h"
#include "core/limits.h"
#include "core/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folded(char c)
{
    c = (char)toupper((unsigned char)c);
    return c == 'I' || c == 'L' ? '1' : c == 'O' ? '0' : c;
}

static bool same_ignoring_case(struct span a, const char *b, bool look_alikes)
{
    for (size_t i = 0; i < a.len; i++) {
        char x = look_alikes ? folded(a.at[i]) : (char)toupper((unsigned char)a.at[i]);
        if (x != (char)toupper((unsigned char)b[i]))
            return false;
    }
    return b[a.len] == 0;
}

static void id_check(struct span text)
{
    struct job_ref ref;
    char spelled[64];
    if (id_parse(text, &ref) < 0)
        return;
    CHECK(ref.seq >= 1 && ref.seq <= LIMIT_SEQ);
    if (text.len == ID_ULID_BYTES - 1) {
        id_ulid(id_make(ref.hi, ref.seq), spelled);
        CHECK(same_ignoring_case(text, spelled, true));
    } else if (text.len == ID_UUID_BYTES - 1) {
        id_uuid(id_make(ref.hi, ref.seq), spelled);
        CHECK(same_ignoring_case(text, spelled, false));
    } else {
        snprintf(spelled, sizeof spelled, "%" PRIu64, ref.seq);
        CHECK(ref.hi == 0 && span_equal(text, span_text(spelled)));
    }
}

static void token_check(struct span text)
{
    struct job_token token;
    char spelled[TOKEN_TEXT_BYTES];
    if (token_parse(text, &token) < 0)
        return;
    token_text(token, spelled);
    CHECK(token.counter != 0 && span_equal(text, span_text(spelled)));
}

static void text_check(struct span text)
{
    struct err_note note;
    if (validate_queue_name(text, &note) == 0)
        CHECK(text.len >= 1 && text.len <= LIMIT_QUEUE_NAME_BYTES && utf8_valid(text));
    if (validate_text("key", text, LIMIT_KEY_BYTES, &note) == 0)
        CHECK(text.len == 0 || (utf8_valid(text) && !memchr(text.at, 0, text.len)));
    struct span cut = validate_cut(text, 24);
    CHECK(cut.len <= 24 && cut.len <= text.len && utf8_valid(cut));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = span_of(data, size);
    id_check(text);
    token_check(text);
    text_check(text);
    return 0;
}
