/* The rules of core/rule.h.
 * Addresses such as a.b.c.d are not names of files, nor is <sys/none.h>. */
#include "core/absent_is_no_comment.h"
static const char *text = "none.c"; // rule.h
