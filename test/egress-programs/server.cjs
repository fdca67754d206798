// The servers that programs in a guest ask, in one: a registry of npm, an index of Python packages, repositories of git,
// a registry of images, gRPC and server-sent events. `argv`: certificate and key (PEM files), address, directory of git
// repositories, directory of files.
const { createSecureServer: createServer } = require('node:http2');
const { spawn } = require('node:child_process');
const { createHash } = require('node:crypto');
const { readFileSync, existsSync } = require('node:fs');
const { join } = require('node:path');

const [, , cert, key, address, repositories, files] = process.argv;
const sha256 = (bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/** By its name, one event at a time: the next one is sent when it was asked for. */
let sendEvent = () => undefined;

function git(request, response, path, query) {
  const child = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: repositories,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: path,
      QUERY_STRING: query,
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      REMOTE_USER: 'guest',
      REMOTE_ADDR: '192.0.2.1',
      GIT_PROTOCOL: request.headers['git-protocol'] ?? '',
      ...(request.headers['content-encoding'] && { HTTP_CONTENT_ENCODING: request.headers['content-encoding'] }),
    },
  });
  request.pipe(child.stdin);
  child.stdin.on('error', () => undefined);
  const parts = [];
  child.stdout.on('data', (part) => parts.push(part));
  child.on('close', () => {
    const all = Buffer.concat(parts);
    const end = all.indexOf('\r\n\r\n');
    const headers = all.subarray(0, end).toString().split('\r\n');
    let status = 200;
    for (const line of headers) {
      const [, name, value] = /^([^:]+): (.*)$/.exec(line) ?? [];
      if (name === 'Status') status = Number.parseInt(value, 10);
      else if (name !== undefined) response.setHeader(name, value);
    }
    response.statusCode = status;
    response.end(all.subarray(end + 4));
  });
}

/** A call of gRPC that sends back what it gets, with the status in the trailers. */
function echo(request, response) {
  const parts = [];
  response.setHeader('content-type', 'application/grpc');
  response.addTrailers({ 'grpc-status': '0' });
  request.on('data', (part) => parts.push(part));
  request.on('end', () => response.end(Buffer.concat(parts)));
}

/** One image of one layer. */
function image(path, response) {
  const layer = readFileSync(join(files, 'layer.tar.gz'));
  const config = Buffer.from(
    JSON.stringify({
      architecture: 'amd64',
      os: 'linux',
      config: { Cmd: ['/hello'] },
      rootfs: { type: 'layers', diff_ids: [sha256(readFileSync(join(files, 'layer.tar')))] },
    }),
  );
  const type = 'application/vnd.docker.distribution.manifest.v2+json';
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: type,
      config: {
        mediaType: 'application/vnd.docker.container.image.v1+json',
        size: config.length,
        digest: sha256(config),
      },
      layers: [
        {
          mediaType: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
          size: layer.length,
          digest: sha256(layer),
        },
      ],
    }),
  );
  response.setHeader('docker-distribution-api-version', 'registry/2.0');
  if (path === '/v2/') return response.end('{}');
  if (/^\/v2\/hello\/manifests\/(latest|sha256:.*)$/.test(path)) {
    response.setHeader('content-type', type);
    response.setHeader('docker-content-digest', sha256(manifest));
    // Docker asks for the size by HEAD first.
    response.setHeader('content-length', manifest.length);
    return response.end(manifest);
  }
  const found = [layer, config].find((bytes) => path === `/v2/hello/blobs/${sha256(bytes)}`);
  response.statusCode = found === undefined ? 404 : 200;
  return response.end(found);
}

const server = createServer(
  { cert: readFileSync(cert), key: readFileSync(key), allowHTTP1: true },
  (request, response) => {
    if (String(request.headers['content-type']).startsWith('application/grpc')) return echo(request, response);
    const { pathname: path, search } = new URL(request.url, 'https://api.test');
    console.log(`${request.method} ${path} ${request.headers.authorization ?? ''}`);
    if (path.startsWith('/git/')) return git(request, response, path.slice(4), search.slice(1));
    if (path.startsWith('/v2/')) return image(path, response);
    if (path === '/events') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      let count = 0;
      sendEvent = () => response.write(`data: event ${++count}\n\n`);
      sendEvent();
      return undefined;
    }
    if (path === '/next-event') {
      sendEvent();
      return response.end('sent');
    }
    if (path === '/hello') return response.end(`hello by HTTP/${request.httpVersion}`);
    if (path === '/npm/greeting') {
      const tarball = readFileSync(join(files, 'greeting-1.0.0.tgz'));
      const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
      const dist = { tarball: 'https://api.test/files/greeting-1.0.0.tgz', integrity };
      const version = { name: 'greeting', version: '1.0.0', dist };
      response.setHeader('content-type', 'application/json');
      return response.end(
        JSON.stringify({ name: 'greeting', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': version } }),
      );
    }
    if (path === '/simple/greeting/') {
      const wheel = 'greeting-1.0-py3-none-any.whl';
      response.setHeader('content-type', 'text/html');
      return response.end(`<a href="/files/${wheel}">${wheel}</a>`);
    }
    const [, name] = /^\/files\/([\w.-]+)$/.exec(path) ?? [];
    if (name !== undefined && existsSync(join(files, name))) return response.end(readFileSync(join(files, name)));
    response.statusCode = 404;
    return response.end();
  },
);
server.listen(443, address, () => console.log('up'));
