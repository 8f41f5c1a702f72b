#include "base/buf.h"
#include "net/net.h"
