#include "core/job.h"
  #  include   "backend/backend.h"
