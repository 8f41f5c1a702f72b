/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of the operating errors, from the one table in the header. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name;
    const char *text;
} errors[ERR_COUNT] = {[ERR_OK] = {"OK", "no error"},
#define ERR_ROW(name, text) [ERR_##name] = {#name, text},
                       ERR_TABLE(ERR_ROW)
#undef ERR_ROW
};

static int known(int code)
{
    return code <= 0 && code > -(int)ERR_COUNT;
}

const char *err_name(int code)
{
    return known(code) ? errors[-code].name : "UNKNOWN";
}

const char *err_text(int code)
{
    return known(code) ? errors[-code].text : "unknown error";
}

int err_note_set(struct err_note *note, int code, const char *format, ...)
{
    if (note) {
        va_list args;
        va_start(args, format);
        vsnprintf(note->text, sizeof note->text, format, args);
        va_end(args);
    }
    return code;
}
