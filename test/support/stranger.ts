// Connections from another user of this host.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { NetConnectOpts } from 'node:net';
import type { Test } from 'tap';
import { until } from './until.ts';

/** A uid that the host has normally not assigned. */
export const STRANGER = 64_999;

const PROGRAM = `
const { connect } = require('node:net');
const [to, count, bytes, uid] = JSON.parse(process.argv[1]);
process.setgroups([]); process.setgid(uid); process.setuid(uid);
for (let i = 0; i < count; i++) {
  const socket = connect({ ...to, allowHalfOpen: true });
  let text = '';
  socket.on('data', (chunk) => (text += chunk));
  socket.on('error', () => {});
  socket.on('end', () => console.log(JSON.stringify(text)));
  socket.write(bytes);
}
process.stdin.on('end', () => process.exit()).resume();
`;

type Stranger = {
  /** Data received by connections that the peer has closed. */
  readonly ended: readonly string[];
  /** Ends the process and its connections. */
  leave(): Promise<void>;
};

/** Opens this many connections, sends the bytes on each, and keeps them open. */
export async function openAsStranger(
  t: Test,
  to: NetConnectOpts,
  count: number,
  bytes: string,
  uid = STRANGER,
): Promise<Stranger> {
  const child = spawn(process.execPath, ['-e', PROGRAM, JSON.stringify([to, count, bytes, uid])], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.on('data', (chunk) => (said += chunk));
  const leave = async () => {
    child.stdin.end();
    if (child.exitCode === null) await once(child, 'exit');
  };
  t.teardown(leave);
  await once(child, 'spawn');
  return {
    get ended() {
      return said
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as string);
    },
    leave,
  };
}

export function untilEnded(stranger: Stranger, count: number): Promise<void> {
  return until(() => stranger.ended.length >= count, `the end of ${count} connections of a stranger`);
}
