/**
 * Of the resolver, as the host has it; guests ask port 53 of their gateway. One that programs of users may not have while no
 * daemon runs, and that other name servers, which may listen on every address, do not have either.
 */
export const RESOLVER_PORT = 1013;
