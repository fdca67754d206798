// The examples of the pages on life, networks, keys and the trail, each run as it is written: on a host whose /etc, /run and /var/lib
// are for this test alone, with a daemon at the address of the examples.
import '../support/network/own-network.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { makeAuthority } from '../http/certificates.ts';
import { checkedUrl } from '../support/checked-proxy.ts';
import { makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';
import { openInternet } from '../support/internet/index.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const ROOT = resolve(import.meta.dirname, '../..');
const PORT = 7878;
/** What curl exits with then. */
const NOBODY_LISTENS = 7;

/** Lines of its blocks of shell, and indented ones that are commands. */
function readCommands(page: string): string[] {
  const text = readFileSync(join(ROOT, 'docs', page), 'utf8').replace(/\\\n\s*/g, '');
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].flatMap(([, block = '']) =>
    block.trim().split('\n'),
  );
  const indented = [...text.matchAll(/^ {4}((?:API=|curl|for|nft|nsenter|sandbox|sudo) ?.*)$/gm)].map(
    ([, line = '']) => line,
  );
  return [...indented, ...blocks];
}

/** What the page shows as JSON. */
function readJson(page: string): Record<string, unknown> {
  const [, json = ''] =
    /^```json\n([\s\S]*?)^```$/m.exec(readFileSync(join(ROOT, 'docs', page), 'utf8')) ?? [];
  return JSON.parse(json) as Record<string, unknown>;
}

t.test('every example of these pages', async (t) => {
  const internet = await openInternet(t);
  await internet.names.serve([`host-record=example.com,${internet.machines.web.address},60`]);
  const directories = await makeDirectories();
  const bin = mkdtempSync(join(tmpdir(), 'docs-'));
  t.teardown(async () => {
    rmSync(bin, { recursive: true });
    await removeDirectories(directories);
  });
  writeFileSync(join(bin, 'sudo'), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 });
  const authority = makeAuthority(t);
  const { certPath, keyPath } = authority.issue('box.example', 'DNS:box.example');
  const place = () => `set -e
mount -t tmpfs none /run
for dir in /etc /var/lib; do
  mkdir -p /run/over$dir/upper /run/over$dir/work
  mount -t overlay overlay -o lowerdir=$dir,upperdir=/run/over$dir/upper,workdir=/run/over$dir/work $dir
done
mkdir -p /etc/sandboxd /var/lib/sandboxd /run/sandboxd
cp ${certPath} /etc/sandboxd/cert.pem
cp ${keyPath} /etc/sandboxd/key.pem
echo '127.0.0.1 localhost box.example' > /etc/hosts
grep -q ^kvm: /etc/group || echo kvm:x:64000: >> /etc/group
mount --rbind ${directories.dataDir} /var/lib/sandboxd
mount --rbind ${directories.runDir} /run/sandboxd
set +e -o pipefail
`;
  const env: Record<string, string | undefined> = {
    ...process.env,
    PATH: `${bin}:${join(ROOT, 'dist')}:${process.env.PATH}`,
    CURL_CA_BUNDLE: authority.caPath,
    XDG_CONFIG_HOME: bin,
  };
  const run = async (script: string): Promise<string> => {
    const args = ['--mount', 'bash', '-c', `${place()}${script}`];
    try {
      return (await promisify(execFile)('unshare', args, { env })).stdout;
    } catch (error) {
      // tap shows no error whose code is a number.
      const { stderr, code } = error as { stderr: string; code: number };
      throw new Error(`exit ${code} of ${script}: ${stderr}`);
    }
  };
  const done: string[] = [];
  /** The example that `pattern` finds; it must be the only one, and what it says must be like `answer`. */
  const example = async (page: string, pattern: RegExp, answer: RegExp): Promise<string> => {
    const [command = '', ...more] = readCommands(page).filter((line) => pattern.test(line));
    t.ok(command !== '' && more.length === 0, `${page}: ${pattern}`);
    done.push(command);
    const said = await run(command);
    t.match(said, answer, command);
    return said;
  };

  const daemon = await spawnDaemon(directories, { flags: internet.daemonFlags });
  t.teardown(() => daemon.end());
  const proxy: (() => unknown)[] = [];
  t.teardown(() => Promise.all(proxy.splice(0).map((end) => end())));
  await checkedUrl({ teardown: (end) => proxy.push(end as () => unknown) }, daemon.url, PORT);

  await example('lifecycle.md', /^sandbox run/, /^sbx_\w+\n$/);
  await example('network.md', /^API=/, /^$/);
  env.API = done.at(-1)?.replace('API=', '');
  const made = JSON.parse(await example('network.md', /"allowlist"/, /"guest_ip"/)) as { id: string };
  env.ID = made.id;
  const lookups =
    'getent ahostsv4 example.com > /dev/null && echo found; getent ahostsv4 evil.example || echo denied';
  t.equal(await daemon.api.sh(made.id, lookups), 'found\ndenied');
  await example('network.md', /\/egress\?/, /"allowed".*"example\.com".*"denied".*"evil\.example"/);
  await example('network.md', /-X PATCH[\s\S]*9000-9010/, /"generation":2,.*"closed":0/);
  await example('network.md', /network\/check/, /"verdict":"allowed"/);
  await example('network.md', /"methods"/, /"generation":3,.*"api\.github\.com".*"closed":0/);
  await example('network.md', /"publish"/, /"host_port":8080/);
  await example('network.md', /\/logs"/, /network: denied name evil\.example: not in the allowlist/);
  const rules = () => example('network.md', /^for gates/, /counter packets/);
  // A network that goes meanwhile fails it, and rules that change while they are read may.
  await rules().catch((error: Error) => {
    t.comment(error.message);
    return rules();
  });
  await example('network.md', /^nft list tables/, /^table ip sandboxd_/m);

  env.KEY = /sbk_[\w-]{32}/.exec(await example('keys.md', /keys create alice/, /sbk_[\w-]{32}/))?.[0];
  await example('keys.md', /\/whoami$/, /^\{"scoped":false,"key":\{"name":"alice"\},"usage":\[\]\}$/);
  t.match(
    await run('curl -s http://127.0.0.1:7878/sandboxes'),
    /"error"/,
    'from the first key on, all need one',
  );
  await example('keys.md', /keys create ci/, /sbk_[\w-]{32}/);
  await example('keys.md', /tenants set acme/, /acme/);
  await example('keys.md', /tenants list/, /acme[\s\S]*20[\s\S]*32/);

  const [, tenant] = /(sbk_[\w-]{32})/.exec(await run('sandboxd keys create acme-ci --tenant acme')) ?? [];
  const body = '{"memory_mib": 128}';
  await run(`curl -s -H "Authorization: Bearer ${tenant}" $API/sandboxes -d '${body}'`);
  const line = JSON.parse(await example('audit.md', /tail -n 1 \| jq/, /"createSandbox"/)) as object;
  t.same(Object.keys(line), Object.keys(readJson('audit.md')), 'the line has the fields that the page shows');
  await example(
    'audit.md',
    /audit verify$/,
    /^lines 1 \(.*\) to \d+ \(.*\), \d+ in 1 files: nothing is missing or changed\n$/,
  );
  for (const end of proxy.splice(0)) await end();
  t.equal(await daemon.end(), 0);

  /** A daemon as the first example starts it, and a client as the second asks. */
  const both = async (start: RegExp, ask: RegExp): Promise<void> => {
    const pick = (pattern: RegExp) => readCommands('keys.md').filter((each) => pattern.test(each));
    const [daemonLine, clientLine] = [pick(start), pick(ask)];
    t.same([daemonLine.length, clientLine.length], [1, 1], String(start));
    done.push(...daemonLine, ...clientLine);
    const said = await run(`${daemonLine[0]} > ${bin}/log 2>&1 &
pid=$!
while answer=$(${clientLine[0]?.replace('curl', 'curl -s')}); [ $? = ${NOBODY_LISTENS} ]; do
  kill -0 $pid || { cat ${bin}/log; exit 1; }
  sleep 0.2
done
echo "$answer"
kill $pid
wait $pid
echo "ended with $?"`);
    t.match(said, /\{"sandboxes":\[.*\]\}\nended with 0\n$/);
  };
  await both(/--tls-cert/, /https:\/\/box\.example/);
  await forgetKeys();
  await both(/--listen unix:/, /--unix-socket/);

  for (const page of ['lifecycle.md', 'network.md', 'keys.md', 'audit.md'])
    t.same(
      readCommands(page).filter((command) => !done.includes(command)),
      [],
      `${page}: nothing was left out`,
    );

  /** The socket lets in who may write to it, while there are no keys: a host of its own. */
  async function forgetKeys(): Promise<void> {
    await removeDirectories(directories);
    Object.assign(directories, await makeDirectories());
  }
});
