// Runs the command of E2B's SDKs in a sandbox by our library, once for each line of the input; prints milliseconds.
import process from 'node:process';
import { createInterface } from 'node:readline';
import { Client } from '../../client/src/index.ts';

const [, , id = '', line = 'true'] = process.argv;
const sandbox = await new Client().sandboxes.get(id);
for await (const _ of createInterface({ input: process.stdin })) {
  const began = performance.now();
  await sandbox.exec(['/bin/bash', '-l', '-c', line], { user: 'user' }).text();
  console.log(performance.now() - began);
}
