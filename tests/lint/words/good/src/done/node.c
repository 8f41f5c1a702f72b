/* The heartbeat of a node. */
int heartbeats;
