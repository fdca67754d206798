// The gateway: a process for one sandbox, without a network, that reads the requests of its guest where rules need
// that. It gets its connections, and those to servers, by one socket, and what holds by descriptor 3.
import { Socket } from 'node:net';
import { getHeapStatistics } from 'node:v8';
import type { ConnectionRecord } from '../network/connection-record.ts';
import { type FromGateway, type ToGateway, toLine } from '../network/gateway-wire.ts';
import { Gate } from './gate.ts';
import { GuestConnections } from './guest-connections.ts';
import { Records } from './records.ts';
import { SecretSubstitution } from './secret-substitution.ts';
import { Settings } from './settings.ts';

const CHANNEL = 3;
/** It asks to be ended after so long without a connection. */
const IDLE_MS = 60_000;
const MAX_WORDS = 1800;
const WARNING_MS = 120_000;
/** Of objects and buffers; it ends beyond. What nghttp2 and OpenSSL hold is not counted. */
const MAX_HELD_BYTES = 192 * 2 ** 20;
const WATCH_MS = 200;
/** The daemon may not read its last words. */
const LAST_WORDS_MS = 100;

export function runGateway([path = '']: readonly string[]): void {
  const channel = new Socket({ fd: CHANNEL });
  const records = new Records(
    (lines) => channel.write(lines),
    () => channel.writableLength,
  );
  const say = (message: FromGateway): void => {
    records.flush();
    channel.write(toLine(message));
  };
  const report = (record: ConnectionRecord): void => records.add(record);
  const settings = new Settings();
  const gate = new Gate(path, (handed, socket) => connections.add(handed, socket), exit);
  const substitution = new SecretSubstitution();
  const connections = new GuestConnections(settings, gate, substitution, report);
  // Nothing reads what it prints.
  process.removeAllListeners('warning');
  let warnedAt = Number.NEGATIVE_INFINITY;
  process.on('warning', (warning) => {
    if (performance.now() - warnedAt < WARNING_MS) return;
    warnedAt = performance.now();
    say({ failed: toWords(warning) });
  });
  for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined);
  process.on('uncaughtException', (error) => {
    records.flush();
    channel.end(toLine({ failed: toWords(error) }), exit);
    setTimeout(exit, LAST_WORDS_MS);
  });
  // Without the daemon, nothing says what holds.
  channel.on('error', exit);
  channel.on('close', exit);
  const obey = (line: string): void => {
    const { settle, settings: next }: ToGateway = JSON.parse(line);
    settings.change(next);
    substitution.change(next.secrets, next.allowsPlainHttp);
    say({ settled: settle, closed: connections.settle() });
    if (!gate.isOpen) gate.open();
  };
  let text = '';
  channel.setEncoding('utf8');
  channel.on('data', (data: string) => {
    text += data;
    if (!data.includes('\n')) return;
    const whole = text.split('\n');
    text = whole.pop() ?? '';
    for (const line of whole) obey(line);
  });
  setInterval(() => {
    const { used_heap_size: objects, external_memory: buffers } = getHeapStatistics();
    if (objects + buffers > MAX_HELD_BYTES) throw new Error('it holds too much');
  }, WATCH_MS);
  let idleSince = performance.now();
  setInterval(() => {
    if (connections.size > 0) idleSince = performance.now();
    else if (performance.now() - idleSince >= IDLE_MS) say({ idle: true });
  }, 1000);
  process.stdout.write('ready\n');
}

/** In one line, of which little must be escaped. */
function toWords({ stack }: Error): string {
  return String(stack).replaceAll(/\p{C}/gu, ' ').slice(0, MAX_WORDS);
}

function exit(): never {
  process.exit(0);
}
