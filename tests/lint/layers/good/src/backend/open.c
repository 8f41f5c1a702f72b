#include "backend/local/local.h"
#include "core/job.h"
