/* SPDX-License-Identifier: Apache-2.0 */
#include "server/fatal.h"

#include <stddef.h>

#include "base/err.h"

static const struct {
    int error;
    const char *advice;
} advices[] = {
    {-ERR_CORRUPT,
     "the data directory is damaged and does not repair itself: stop the service, keep a copy of "
     "the directory, check the disk, and run holdfast check DIR; then restore the newest backup "
     "(holdfast restore), or save what can be read (holdfast export --data DIR)"},
    {-ERR_IO, "look for the cause in the kernel's log and check the disk, then start again: what "
              "was confirmed is in the journal or the database, and the start fails if it cannot "
              "be read"},
    {-ERR_NO_SPACE, "free disk space, then start again"},
    {-ERR_NOMEM, "give the process more memory, then start again: what was confirmed is in the "
                 "journal or the database"},
};

const char *fatal_advice(int error)
{
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
        if (advices[i].error == error)
            return advices[i].advice;
    return "run holdfast check DIR; if it finds no problem, start again";
}
