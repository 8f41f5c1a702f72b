/* strcpy(a, b) in a comment,
 * also over lines: malloc(3) */
// rand() here too
const char *text = "sprintf(\"%d\") /* atoi(x) ";
char quote = '"'; // gets(line)
void ok(struct ops *ops)
{
    ops->free(ops);
    ops->table.time(1);
    gmtime_r(&a, &b);
    sqlite3_free(c);
    snprintf(text, 2, "x");
    run_time(1), mkdtemp(d);
}
