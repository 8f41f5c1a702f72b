long n = atol(argv[1]);
