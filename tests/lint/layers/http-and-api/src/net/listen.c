#include "http/router.h"
#include "core/job.h"
