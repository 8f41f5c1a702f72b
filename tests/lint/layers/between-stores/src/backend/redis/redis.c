#include "backend/local/engine/engine.h"
