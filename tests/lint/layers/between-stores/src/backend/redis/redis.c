#include "backend/local/engine.h"
