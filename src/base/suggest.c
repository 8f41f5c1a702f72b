/* SPDX-License-Identifier: Apache-2.0 */
#include "base/suggest.h"

#include <string.h>

enum { WORD_MAX = 64 }; /* longer words are no typing slip of a name */

/* Levenshtein distance, one row at a time. Both lengths are at most WORD_MAX. */
static size_t edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t row[WORD_MAX + 1];
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t best = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b_len];
}

const char *suggest_nearest(const char *word, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t word_len = strlen(word);
    if (word_len > WORD_MAX)
        return NULL;

    size_t limit = word_len / 3 > 1 ? word_len / 3 : 1;
    for (size_t i = 0; i < count; i++) {
        size_t name_len = strlen(names[i]);
        if (name_len > WORD_MAX)
            continue;
        size_t distance = edit_distance(word, word_len, names[i], name_len);
        if (distance <= limit) {
            nearest = names[i];
            limit = distance - (distance > 0);
        }
    }
    return nearest;
}
