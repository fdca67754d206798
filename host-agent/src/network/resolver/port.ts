/**
 * The resolver's port on the host; guests query port 53 of their gateway. It is privileged, so no user's program can
 * take it while the daemon is stopped, and name servers that listen on every address do not use it.
 */
export const RESOLVER_PORT = 1013;
