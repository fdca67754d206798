// The parts of the agent that others (tests) may use; the agent itself is main.ts.
export { parseMountTargets } from './boot/mounts.ts';
