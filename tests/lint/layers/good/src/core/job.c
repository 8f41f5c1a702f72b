#include "core/job.h"

#include <string.h>

#include "base/buf.h"
