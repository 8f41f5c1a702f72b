#include <sqlite3.h>

#include "backend/backend_impl.h"
#include "backend/local/store.h"
