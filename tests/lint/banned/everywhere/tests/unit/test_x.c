char *name = mktemp(text);
