#include <uv.h>

#include "base/buf.h"
#include "net/net.h"
