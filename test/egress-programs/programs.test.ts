// Programs that speak TLS, through an inspected rule in a real guest: each trusts the authority of its sandbox by the
// files and variables that the agent gives, and does what it is for.
import '../support/network/own-network.ts';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { Leaves, makeAuthority } from '../../host-agent/src/network/authority/index.ts';
import { startDaemon } from '../support/daemon.ts';
import { Lab, WEB_IP } from '../support/network/lab.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(1_100_000));
const TOKEN = 'ghp_never-in-the-guest-0123456789abcdef';
const dir = mkdtempSync(join(tmpdir(), 'egress-programs-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const inDir = (command: string) =>
  execFileSync('sh', ['-ec', command], { cwd: dir, stdio: ['ignore', 'ignore', 'inherit'] });

const world = await makeAuthority('world');
const { cert, key } = await new Leaves(world).get('api.test');
for (const [name, text] of Object.entries({
  'cert.pem': cert,
  'key.pem': key,
  'roots.pem': world.certificate,
}))
  writeFileSync(join(dir, name), text);
const files = join(dir, 'files');
mkdirSync(join(files, 'package'), { recursive: true });
writeFileSync(
  join(files, 'package/package.json'),
  '{"name": "greeting", "version": "1.0.0", "main": "index.js"}',
);
writeFileSync(join(files, 'package/index.js'), 'module.exports = "hello of npm";');
inDir(`
  git init -q --bare -b main git/repo.git
  git -C git/repo.git config http.receivepack true
  git init -q -b main work && cd work && echo one > file && git add file
  git -c user.name=t -c user.email=t@t commit -qm one && git push -q ../git/repo.git main && cd ..
  tar -C files -czf files/greeting-1.0.0.tgz package
  mkdir layer && echo hello > layer/hello && tar -C layer -cf files/layer.tar hello && gzip -kn files/layer.tar
  mkdir -p wheel/greeting-1.0.dist-info && cd wheel
  echo 'TEXT = "hello of pip"' > greeting.py
  printf 'Metadata-Version: 2.1\\nName: greeting\\nVersion: 1.0\\n' > greeting-1.0.dist-info/METADATA
  printf 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n' > greeting-1.0.dist-info/WHEEL
  printf 'greeting.py,,\\ngreeting-1.0.dist-info/METADATA,,\\ngreeting-1.0.dist-info/WHEEL,,\\ngreeting-1.0.dist-info/RECORD,,\\n' > greeting-1.0.dist-info/RECORD
  zip -qr ../files/greeting-1.0-py3-none-any.whl .`);

const lab = await Lab.open(t);
lab.names.set('api.test', [WEB_IP]);
const argv = [join(dir, 'cert.pem'), join(dir, 'key.pem'), WEB_IP, join(dir, 'git'), files];
const server = await lab.serve(
  lab.internet,
  `process.argv.push(...${JSON.stringify(['server', ...argv])}); process.argv.splice(1, process.argv.length - 7);
   require(${JSON.stringify(join(import.meta.dirname, 'server.cjs'))});`,
);
const seen: string[] = [];
server.stdout?.on('data', (data) => seen.push(...String(data).trim().split('\n')));

const flags = ['--dns-upstream', lab.names.address, '--egress-ca-file', join(dir, 'roots.pem')];
const { api } = await startDaemon(t, { flags });
await api.call('PUT', '/secrets/token', { value: TOKEN, hosts: ['api.test'] });
t.teardown(() => api.call('DELETE', '/secrets/token'));
const { id } = await api.create({
  profile: 'egress-programs',
  memory_mib: 1024,
  disk_bytes: 4 * 2 ** 30,
  network: { enabled: true, rules: [{ host: 'api.test', tls: 'inspect' }] },
  secrets: { TOKEN: { use: 'token' } },
});
const sh = (script: string) => api.sh(id, `set -e; cd /root; ${script}`);
/** Its output comes at its end, and lines before: a client gives up on a stream that is silent for 5 minutes. */
const long = (script: string) =>
  sh(
    `(${script}) > /tmp/out 2>&1 & p=$!; while kill -0 $p 2> /dev/null; do echo; sleep 5; done; cat /tmp/out`,
  );

t.test('git clones and pushes, with a token that the guest does not have', async (t) => {
  // A handshake must begin within 5 s, and an emulated git reads its roots for the first time.
  const out = await sh(`
    git config --global user.email t@t; git config --global user.name t
    for attempt in 1 2 3 4 5; do git ls-remote https://api.test/git/repo.git > /dev/null 2>&1 && break; done || true
    git -c http.extraHeader="Authorization: Bearer $TOKEN" clone -q https://api.test/git/repo.git clone
    cd clone; cat file; echo two > file; git commit -qam two
    git -c http.extraHeader="Authorization: Bearer $TOKEN" push -q origin main 2>&1; git log --oneline | wc -l`);
  t.equal(out, 'one\n2');
  const pushed = execFileSync('git', ['-C', join(dir, 'git/repo.git'), 'show', 'main:file'], {
    encoding: 'utf8',
  });
  t.equal(pushed, 'two\n');
  t.ok(seen.some((line) => line === `POST /git/repo.git/git-receive-pack Bearer ${TOKEN}`));
  t.notMatch(await sh('env; cat ~/.gitconfig'), TOKEN);
});

t.test('curl and wget', async (t) => {
  t.match(
    await sh('curl -sS https://api.test/hello; curl -sS --http1.1 https://api.test/hello'),
    /2\.0.*1\.1/s,
  );
  t.match(await sh('wget -qO- https://api.test/hello'), 'hello by HTTP/1.1');
});

t.test('pip and Python’s requests', async (t) => {
  const pip = 'pip install -q --disable-pip-version-check --index-url https://api.test/simple greeting';
  t.equal(await sh(`${pip}; python3 -c 'import greeting; print(greeting.TEXT)'`), 'hello of pip');
  t.match(
    await sh(`python3 -c 'import requests; print(requests.get("https://api.test/hello").text)'`),
    'hello',
  );
});

t.test('npm and Node.js', async (t) => {
  const npm = 'npm install --silent --no-audit --no-fund --registry https://api.test/npm/ greeting';
  t.equal(await sh(`mkdir -p n; cd n; ${npm}; node -p 'require("greeting")'`), 'hello of npm');
  t.match(
    await sh(`node -e 'fetch("https://api.test/hello").then((a) => a.text()).then(console.log)'`),
    'hello',
  );
});

t.test('gRPC, by its core in C', async (t) => {
  const program = `
import grpc
channel = grpc.secure_channel('api.test:443', grpc.ssl_channel_credentials())
call = channel.unary_unary('/test.Echo/Say', request_serializer=None, response_deserializer=None)
print(call(b'hello of gRPC', timeout=120).decode())`;
  t.equal(await sh(`python3 - <<'X'\n${program}\nX`), 'hello of gRPC');
});

t.test('server-sent events arrive one by one', async (t) => {
  const program = `
import urllib.request as u
stream = u.urlopen('https://api.test/events')
for n in range(3):
    print(stream.readline().decode().strip()); stream.readline()
    u.urlopen('https://api.test/next-event').read()`;
  t.equal(await sh(`python3 - <<'X'\n${program}\nX`), 'data: event 1\ndata: event 2\ndata: event 3');
});

t.test('Go', async (t) => {
  const program = `package main
import ("fmt"; "io"; "net/http")
func main() { answer, err := http.Get("https://api.test/hello"); if err != nil { panic(err) }
  text, _ := io.ReadAll(answer.Body); fmt.Println(string(text)) }`;
  const run = 'GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0 go run main.go 2>&1';
  t.match(await long(`mkdir -p g; cd g; cat > main.go <<'X'\n${program}\nX\n${run}`), 'hello by HTTP/2.0');
});

t.test('Java, by the store of its distribution', async (t) => {
  // Before its first handshake, which must begin within 5 s, an emulated Java may take longer to load its classes.
  const program = `
import java.net.URI; import java.net.http.*;
class Fetch { public static void main(String[] args) throws Exception {
  var request = HttpRequest.newBuilder(URI.create("https://api.test/hello")).build();
  var client = HttpClient.newHttpClient();
  for (int attempt = 0; attempt < 5; attempt++) try {
    System.out.println(client.send(request, HttpResponse.BodyHandlers.ofString()).body());
    return;
  } catch (java.io.IOException error) { error.printStackTrace(); } } }`;
  t.match(await long(`cat > Fetch.java <<'X'\n${program}\nX\njava Fetch.java 2>&1`), 'hello by HTTP/');
});

t.test('docker pull', async (t) => {
  const start = `dockerd --iptables=false --ip6tables=false --bridge=none --storage-driver=vfs > /tmp/dockerd.log 2>&1 &
    for n in $(seq 300); do docker info > /dev/null 2>&1 && break; sleep 1; done`;
  const pulled = await long(`mkdir -p /var/lib/docker; mount -t tmpfs tmpfs /var/lib/docker; ${start}
    docker pull api.test/hello 2>&1 || tail -20 /tmp/dockerd.log; docker image ls --format '{{.Repository}}:{{.Tag}}'`);
  t.match(pulled, /api\.test\/hello:latest$/);
});
