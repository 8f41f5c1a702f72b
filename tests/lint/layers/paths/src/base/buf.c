#include "../core/job.h"
#include "buf.h"
#include "util/misc.h"
