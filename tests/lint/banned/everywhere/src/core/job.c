void bad(void)
{
    strcpy(a, b); strcat(a, b);
    sprintf(a, "%s /*", b);
    x = strtok (a, b); /* atoi(1) */ y = atoi(a);
    gmtime(&t);
    z = f(rand(), "\"", system("ls"));
}
