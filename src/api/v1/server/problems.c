/* SPDX-License-Identifier: Apache-2.0 */
/* GET /problems and GET /problems/{code}: the pages to which the type of a problem refers. */
#include <stdio.h>

#include "api/json_members.h"
#include "api/problems/problem_table.h"
#include "api/v1/name_page.h"
#include "api/v1/v1_impl.h"
#include "base/check.h"

/* Writes a sentence of the table with a capital and a full stop. */
static void write_sentence(struct json_writer *w, const char *key, const char *text)
{
    char sentence[512];
    int len = snprintf(sentence, sizeof sentence, "%s.", text);
    if (sentence[0] >= 'a' && sentence[0] <= 'z')
        sentence[0] = (char)(sentence[0] - 'a' + 'A');
    CHECK(len > 0 && (size_t)len < sizeof sentence);
    write_text(w, key, sentence);
}

static void write_row(struct json_writer *w, const struct problem_row *row)
{
    char type[PROBLEM_TYPE_BYTES];
    json_write_object(w);
    write_text(w, "type", problem_type(row->name, type));
    write_text(w, "code", row->name);
    write_uint(w, "status", row->status);
    write_text(w, "title", row->title);
    write_sentence(w, "explanation", row->explanation);
    write_sentence(w, "advice", row->advice);
    json_write_object_end(w);
}

void problem_list_handle(void *ctx, struct http_exchange *x)
{
    const struct problem_row *rows[PROBLEM_CODE_COUNT - 1];
    struct name_page *page = name_page_read(broker_of(ctx), x);
    struct json_writer w;
    if (!page)
        return;
    problem_rows_sorted(rows);
    answer_object_begin(x, &w);
    write_array(&w, "problems");
    for (size_t i = 0; i < PROBLEM_CODE_COUNT - 1; i++)
        if (name_page_takes(page, span_text(rows[i]->name)))
            write_row(&w, rows[i]);
    json_write_array_end(&w);
    name_page_end(page, &w);
    answer_object_end(x, &w, 200);
}

void problem_get_handle(void *ctx, struct http_exchange *x)
{
    const struct problem_row *row = problem_row_find(http_request(x)->params[0]);
    struct json_writer w;
    struct problem p;
    if (!query_none(broker_of(ctx), x))
        return;
    if (!row) {
        problem_set(&p, http_request(x)->arena, PROBLEM_NO_ROUTE, NULL,
                    "no problem has this code; GET /problems lists all codes");
        problem_answer(x, &p);
        return;
    }
    answer_begin(x, &w);
    write_row(&w, row);
    answer_end(x, &w, 200);
}
