/* The rules; core/words.c
 * has their names, as has other/rule.c. */
int rule; // see names.h
