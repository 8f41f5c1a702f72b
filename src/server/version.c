/* SPDX-License-Identifier: Apache-2.0 */
#include "server/version.h"

#include "server/version_gen.h"

void version_print(FILE *out)
{
    if (HF_COMMIT[0])
        fprintf(out, "holdfast %s (%s)\n", HF_VERSION, HF_COMMIT);
    else
        fprintf(out, "holdfast %s\n", HF_VERSION);
}

const char *version_number(void)
{
    return HF_VERSION;
}

const char *version_commit(void)
{
    return HF_COMMIT;
}
