/* Wakes the loop.
 * The door is
 * made anew. */
int heart_new(void);
struct LANE *lane;
