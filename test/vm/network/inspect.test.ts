// Requests that the gateway reads, of real programs in a real guest: they trust the authority of their sandbox without
// being told. The numbers are those of the attack list (docs/network.md).
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import '../../support/network/own-network.ts';
import t from 'tap';
import { Leaves, makeAuthority } from '../../../host-agent/src/network/authority/index.ts';
import { startDaemon } from '../../support/daemon.ts';
import { openInternet } from '../../support/internet/index.ts';
import { scaled } from '../../support/time-scale.ts';

t.setTimeout(scaled(300_000));

/** Status and text of an answer, by Python's own HTTPS. */
const GET = `
import sys, urllib.error, urllib.request
def get(method, url):
  try:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=20) as r: return f'{r.status} {r.read().decode()}'
  except urllib.error.HTTPError as e: return f'{e.code} {e.read().decode()}'
  except Exception as e: return repr(e)
print('\\n'.join(get(*each.split(' ')).strip() for each in sys.argv[1:]))
`;

t.test('27, 33, 46: methods and paths within TLS, in a guest and in a fork of it', async (t) => {
  const internet = await openInternet(t);
  const { web } = internet.machines;
  await internet.names.serve([`host-record=web.test,${web.address},60`]);
  const world = await makeAuthority('world');
  const { cert, key } = await new Leaves(world).get('web.test');
  const dir = mkdtempSync(join(tmpdir(), 'inspect-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const roots = join(dir, 'roots.pem');
  writeFileSync(roots, world.certificate);
  const server = `require('https').createServer(${JSON.stringify({ key, cert })}, (q, s) => s.end(q.method + ' ' + q.url)).listen(443, '${web.address}')`;
  web.start(process.execPath, '-e', server);
  await web.listening('tcp', 443, web.address);
  const { api } = await startDaemon(t, { flags: [...internet.daemonFlags, '--egress-ca-file', roots] });
  const rule = { host: 'web.test', methods: ['GET'], paths: ['/open/**'] };
  const network = { enabled: true, rules: [rule] };
  const sandbox = await api.create({ profile: 'python-3.11', memory_mib: 256, network });
  const requests = [
    'GET https://web.test/open/x?q',
    'POST https://web.test/open/x',
    'GET https://web.test/secret',
  ];
  const ask = async (id: string) =>
    (await api.exec(id, ['python3', '-c', GET, ...requests])).stdout.trim().split('\n');
  const wanted = [
    '200 GET /open/x?q',
    /^403 sandbox network: no rule for the name has the method POST/,
    /^403 .*path/,
  ];
  t.match(await ask(sandbox.id), wanted);
  type Log = { readonly records: readonly Readonly<Record<string, unknown>>[] };
  const { records } = await api.call<Log>('GET', `/sandboxes/${sandbox.id}/egress`);
  t.match(
    records.filter(({ method }) => method !== undefined),
    [
      { verdict: 'allowed', method: 'GET', path: '/open/x', status: 200, name: 'web.test', port: 443 },
      { verdict: 'denied', method: 'POST', status: 403 },
      { verdict: 'denied', path: '/secret', status: 403 },
    ],
  );
  const { sandboxes } = await api.call<{ sandboxes: readonly { readonly id: string }[] }>(
    'POST',
    `/sandboxes/${sandbox.id}/fork`,
    { count: 1 },
  );
  t.match(await ask(sandboxes[0]?.id ?? ''), wanted, 'a fork has a gateway of its own');
});
