/* The heart knocks. */
int doomed;
