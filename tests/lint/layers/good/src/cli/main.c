#include "backend/local/local.h"
#include "api/v1/jobs.h"
