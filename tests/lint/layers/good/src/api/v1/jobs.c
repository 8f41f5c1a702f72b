#include "broker/enqueue.h"
#include "core/job.h"
#include "http/router.h"
#include "net/net.h"
