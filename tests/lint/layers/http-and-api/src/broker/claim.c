#include "backend/backend_impl.h"
#include "backend/local/engine/engine.h"
#include "http/router.h"
