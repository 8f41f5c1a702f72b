void *mem_new(size_t size) { return malloc(size); }
