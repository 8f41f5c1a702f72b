void now(struct timespec *ret) { clock_gettime(CLOCK_MONOTONIC, ret); }
