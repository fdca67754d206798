// A program: runs its arguments as a command of an agent in this process, and prints the command's output.
import process from 'node:process';
import type { Test } from 'tap';
import { run, startLocalAgent } from './local-agent.ts';

const agent = startLocalAgent({ teardown: () => undefined } as unknown as Test);
const channel = await agent.connect();
const { out, err } = await run(channel, process.argv.slice(2)).done;
process.stdout.write(`${out}${err}`);
process.exit();
