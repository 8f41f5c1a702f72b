#include <sqlite3.h>
#include <sys/stat.h>
#include <uv.h>
