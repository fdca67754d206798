// The modules of the agent that tests use; the agent's entry point is main.ts.
export { parseMountTargets } from './boot/mounts.ts';
