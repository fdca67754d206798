// A web app as people develop one: pages with absolute paths, modules that reload over a WebSocket, a chat, events,
// uploads and downloads. Runs in a guest, or in a test. usage: web-app PORT
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { WebSocket, WebSocketServer } from 'ws';

const MIB = 2 ** 20;
const DOWNLOAD = Buffer.alloc(3 * MIB, 'a line of a file\n');
const LOGO =
  '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8" fill="red"/></svg>';

const PAGE = `<!doctype html><title>app</title>
<link rel="stylesheet" href="/assets/style.css"><img id="logo" src="/assets/logo.svg">
<h1 id="version"></h1><a id="file" href="/download" download>file</a>
<script type="module" src="/src/main.js"></script>`;

const MAIN = `import { version } from '/src/version.js';
document.getElementById('version').textContent = version;
const socket = new WebSocket(location.origin.replace('http', 'ws') + '/hmr', 'vite-hmr');
socket.onopen = () => { window.hmr = 'open'; };
socket.onmessage = ({ data }) => { if (data === 'full-reload') location.reload(); };`;

export function createApp(): Server {
  let version = 1;
  const hmr = new WebSocketServer({ noServer: true });
  const chat = new WebSocketServer({ noServer: true });
  chat.on('connection', (socket) => {
    socket.on('message', (data, isBinary) => {
      for (const client of chat.clients)
        if (client.readyState === WebSocket.OPEN) client.send(data, { binary: isBinary });
    });
  });
  const files: Readonly<Record<string, () => readonly [string, string | Buffer]>> = {
    '/': () => ['text/html', PAGE],
    '/assets/style.css': () => ['text/css', 'h1 { color: rgb(1, 2, 3) }'],
    '/assets/logo.svg': () => ['image/svg+xml', LOGO],
    '/src/main.js': () => ['text/javascript', MAIN],
    '/src/version.js': () => ['text/javascript', `export const version = 'version ${version}';`],
    '/download': () => ['application/octet-stream', DOWNLOAD],
  };
  const server = createServer((request, response) => {
    const path = request.url?.replace(/\?.*$/s, '') ?? '/';
    if (path === '/events') return void sendEvents(request, response);
    if (path === '/upload') return void digest(request, response);
    if (path.startsWith('/bytes/')) return void sendBytes(Number(path.slice(7)), response);
    if (path === '/headers') return void response.end(JSON.stringify(request.headers));
    if (path === '/edit') {
      version += 1;
      for (const client of hmr.clients) client.send('full-reload');
      return void response.end();
    }
    const [type, body] = files[path]?.() ?? [];
    if (type === undefined) return void response.writeHead(404).end('no such page');
    response.writeHead(200, { 'content-type': type, 'cache-control': 'no-cache' });
    response.end(body);
  });
  // A large upload to a slow guest takes longer than Node's 5 minutes.
  server.requestTimeout = 0;
  server.on('upgrade', (request, socket, head) => {
    const target = { '/hmr': hmr, '/chat': chat }[request.url ?? ''];
    if (target === undefined) return void socket.destroy();
    target.handleUpgrade(request, socket, head, (client) => target.emit('connection', client, request));
  });
  return server;
}

function sendEvents(request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  let count = 0;
  const timer = setInterval(() => response.write(`id: ${++count}\ndata: event ${count}\n\n`), 100);
  request.once('close', () => clearInterval(timer));
}

/** Their digest is a trailer. */
async function sendBytes(count: number, response: ServerResponse): Promise<void> {
  const hash = createHash('sha256');
  response.writeHead(200, { 'content-type': 'application/octet-stream', trailer: 'x-digest' });
  for (let left = count; left > 0; left -= DOWNLOAD.length) {
    const piece = DOWNLOAD.subarray(0, left);
    hash.update(piece);
    if (!response.write(piece)) await once(response, 'drain');
  }
  response.addTrailers({ 'x-digest': hash.digest('hex') });
  response.end();
}

async function digest(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const hash = createHash('sha256');
  for await (const chunk of request) hash.update(chunk as Buffer);
  response.end(hash.digest('hex'));
}

const [, , port] = process.argv;
if (port !== undefined && import.meta.main) createApp().listen(Number(port), () => console.log('listening'));
