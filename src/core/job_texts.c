/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job_texts.h"

#include "core/validate.h"

#define ROW(member, name, column, max, kind)                                                       \
    {name, offsetof(struct job_extra, member), max, JOB_TEXT_##kind},
const struct job_text job_texts[JOB_TEXTS] = {JOB_TEXT_TABLE(ROW)};

int job_texts_check(const struct job_extra *x, struct err_note *note)
{
    int err = 0;
    for (size_t i = 0; err == 0 && i < JOB_TEXTS; i++) {
        struct span text = job_text_of(x, i);
        if (text.len > 0)
            err = validate_text(job_texts[i].name, text, job_texts[i].max, note);
    }
    return err;
}
