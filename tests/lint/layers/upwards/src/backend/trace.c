#include "broker/waiters.h"
