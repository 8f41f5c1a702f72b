#include "base/buf.h"
#include "core/job.h"
