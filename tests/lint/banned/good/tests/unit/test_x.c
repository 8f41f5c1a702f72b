void *p(void) { return malloc(3); }
