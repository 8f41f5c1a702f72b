/* SPDX-License-Identifier: Apache-2.0 */
/* URLs that only test builds know: "fault+URL" puts the fault wrapper in front of the store URL, so
 * that the end-to-end tests can run the whole program over it. HF_FAULT_SEED is its seed (default
 * 1). */
#include <stdlib.h>
#include <string.h>

#include "backend/backend_impl.h"
#include "wrappers/fault.h"

#define FAULT_PREFIX "fault+"
#define FAULT_SEED "HF_FAULT_SEED"

static int fault_seed(uint64_t *ret, struct err_note *note)
{
    const char *text = getenv(FAULT_SEED);
    char *end = NULL;
    *ret = text ? strtoull(text, &end, 0) : 1;
    if (text && (end == text || *end != '\0'))
        return err_note_set(note, -ERR_INVALID, FAULT_SEED " must be a whole number");
    return 0;
}

/* For end-to-end tests: these faults are harmless to a caller that follows backend.h. */
static int open_faulty(const char *url, const struct backend_config *config, struct backend **ret,
                       struct err_note *note)
{
    struct fault_config faults = {
        .late_percent = 20,
        .late_turns = 4,
        .reorder_percent = 30,
        .unknown_done_percent = 2,
        .unknown_undone_percent = 2,
        .unavailable_percent = 2,
        .meddle_percent = 5,
        .meddling = MEDDLE_HARMLESS,
        .spurious_percent = 5,
    };
    struct backend *inner = NULL;
    int err = fault_seed(&faults.seed, note);
    if (!err)
        err = backend_open(url, config, &inner, note);
    return err ? err : backend_open_fault(inner, config, &faults, ret);
}

int backend_open_wrapped(const char *url, const struct backend_config *config, bool *ret_known,
                         struct backend **ret, struct err_note *note)
{
    *ret_known = strncmp(url, FAULT_PREFIX, strlen(FAULT_PREFIX)) == 0;
    return *ret_known ? open_faulty(url + strlen(FAULT_PREFIX), config, ret, note) : 0;
}
