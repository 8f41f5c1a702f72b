#include "backend/local/local.h"
#include "doors/native/jobs.h"
