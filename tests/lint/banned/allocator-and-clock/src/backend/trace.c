void bad(void)
{
    p = malloc(3);
    free(p);
    q = strdup("x");
    now = time(NULL);
    clock_gettime(CLOCK_REALTIME, &ts);
}
