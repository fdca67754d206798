// The tables and texts of a fleet: what a host does about a place, seals, headers, pods and kubeconfigs.
import { spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { readClientHeader, writeClientHeader } from '../../../../host-agent/src/fleet/client-header.ts';
import { toRequest } from '../../../../host-agent/src/fleet/front/create-request.ts';
import { decide, type Facts } from '../../../../host-agent/src/fleet/host/decide.ts';
import {
  makeCertificateRequest,
  nodeSubject,
  requestNameOf,
} from '../../../../host-agent/src/fleet/kube/certificate-request.ts';
import { isForBootstrap, readKubeconfig } from '../../../../host-agent/src/fleet/kube/kubeconfig.ts';
import { toDoorAnnotations } from '../../../../host-agent/src/fleet/kubernetes/doors.ts';
import { toHoldingLabel, toImageHolding } from '../../../../host-agent/src/fleet/kubernetes/holdings.ts';
import {
  readHost,
  readPlacePod,
  toHostAnnotations,
  toNamespace,
  toPod,
} from '../../../../host-agent/src/fleet/kubernetes/pods.ts';
import { readPlaceHeader, writePlaceHeader } from '../../../../host-agent/src/fleet/place-header.ts';
import { FleetSeal } from '../../../../host-agent/src/fleet/seal.ts';

const seal = new FleetSeal(Buffer.alloc(32, 1));
const other = new FleetSeal(Buffer.alloc(32, 2));
const ID = 'sbx_0123456789abc';
const REQUEST = { id: ID, tenant: undefined, vcpus: 2, memoryMib: 512, claims: [] };

function podOf(changes: Record<string, unknown> = {}, metadata: Record<string, unknown> = {}) {
  const made = toPod(REQUEST, 'sandboxd', seal);
  const stored = { ...made, metadata: { ...made.metadata, uid: 'u1', ...metadata } };
  return { ...stored, spec: { ...made.spec, nodeName: 'h0' }, ...changes };
}

t.test('a host does about each place what the table of the page says', (t) => {
  const pod = readPlacePod(podOf(), seal)!;
  const record = { namespace: 'sandboxd', uid: 'u1', nodeUid: 'n1' };
  const node = { nodeUid: 'n1', nodeKnownMs: 0 };
  const facts: Facts = { pod, record, sandbox: 'running', isBusy: false, knownMs: 0, ...node };
  const running = { ...pod, phase: 'Running' };
  const unlisted = { ...record, uid: '', isUnlisted: true };
  for (const [changes, action] of [
    [{}, 'mark-running'],
    [{ pod: running }, 'nothing'],
    [{ isBusy: true, pod: undefined }, 'wait'],
    [{ sandbox: 'failed' }, 'mark-failed'],
    [{ sandbox: undefined }, 'remove-pod'],
    [{ pod: { ...running, isDeleting: true } }, 'end-sandbox'],
    [{ pod: { ...running, isDeleting: true }, isDraining: true }, 'end-sandbox'],
    [{ pod: { ...running, isDeleting: true, isEvicted: true } }, 'end-sandbox'],
    [{ pod: { ...running, isDeleting: true, isEvicted: true }, isDraining: true }, 'unlist'],
    [{ pod: { ...running, isEvicted: true }, isDraining: true }, 'nothing'],
    [{ pod: { ...running, isShrunk: true } }, 'end-shrunk'],
    [{ pod: { ...running, isDeleting: true }, nodeUid: 'n2' }, 'unlist'],
    // A Node that was made again before its pods went.
    [{ nodeUid: 'n2', nodeKnownMs: 60_000 }, 'mark-running'],
    [{ pod: running, nodeUid: 'n2' }, 'wait'],
    [{ pod: running, nodeUid: 'n2', nodeKnownMs: 60_000 }, 'renew-record'],
    [{ pod: undefined }, 'end-sandbox'],
    [{ pod: undefined, nodeUid: 'n2' }, 'unlist'],
    [{ pod: undefined, sandbox: undefined }, 'drop-record'],
    [{ pod: undefined, record: undefined }, 'nothing'],
    [{ pod: { ...running, uid: 'u2' } }, 'end-sandbox'],
    [{ record: undefined, sandbox: undefined }, 'wait'],
    [{ record: undefined, sandbox: undefined, knownMs: 60_000 }, 'remove-pod'],
    [{ record: undefined, sandbox: undefined, pod: running }, 'mark-lost'],
    [{ record: undefined, sandbox: undefined, pod: { ...pod, phase: 'Failed' } }, 'nothing'],
    [{ record: undefined, sandbox: undefined, pod: { ...pod, isDeleting: true } }, 'remove-pod'],
    // Its place is gone, though no client deleted it.
    [{ record: unlisted, pod: undefined }, 'nothing'],
    [{ record: unlisted }, 'adopt-place'],
    [{ record: unlisted, pod: { ...pod, isDeleting: true } }, 'remove-pod'],
    [{ record: unlisted, sandbox: undefined }, 'drop-record'],
    // A sandbox that was there before the host joined has no place, and is not the fleet’s to end.
    [{ record: undefined, pod: undefined }, 'nothing'],
  ] as const)
    t.equal(decide({ ...facts, ...(changes as Partial<Facts>) }), action, JSON.stringify(changes));
  t.end();
});

t.test('pods and nodes count with the seal of the fleet only', (t) => {
  t.match(readPlacePod(podOf(), seal), {
    id: ID,
    namespace: 'sandboxd',
    vcpus: 2,
    memoryMib: 512,
    host: 'h0',
  });
  t.equal(readPlacePod(podOf(), other), undefined);
  t.equal(readPlacePod(podOf({}, { namespace: 'sandboxd-evil' }), seal), undefined);
  t.equal(readPlacePod(podOf({}, { name: 'sbx-0123456789abd' }), seal), undefined);
  const { annotations } = toPod(REQUEST, 'sandboxd', seal).metadata;
  const grown = { ...annotations, 'sandboxd.dev/size': '32x65536' };
  t.equal(readPlacePod(podOf({}, { annotations: grown }), seal), undefined);
  // The API server writes quantities in its own way: 1000m is 1, and 928 MiB and the VMM’s 96 are 1Gi.
  const big = toPod({ ...REQUEST, vcpus: 10, memoryMib: 928 }, 'sandboxd', seal);
  for (const [requests, isCounted] of [
    [{ cpu: '1000m', memory: '1024Mi' }, true],
    [{ cpu: '1', memory: '1Gi' }, true],
    [{ cpu: '1', memory: '1073741824' }, true],
    [{ cpu: '100m', memory: '1Gi' }, false],
    [{ cpu: '1', memory: '1Mi' }, false],
    [{ cpu: '1', memory: '1 Gi' }, false],
    [{}, false],
  ] as const) {
    const containers = [{ name: 'sandbox', resources: { requests } }];
    const stored = { ...big, metadata: { ...big.metadata, uid: 'u' }, spec: { containers } };
    t.match(readPlacePod(stored, seal), { vcpus: 10, isCounted }, JSON.stringify(requests));
  }
  for (const odd of [undefined, null, 7, {}, { metadata: {} }, { metadata: { name: 7 } }])
    t.equal(readPlacePod(odd, seal), undefined);
  const url = new URL('https://10.0.0.5:7878');
  const node = (name: string, by = seal) => ({
    metadata: { name, uid: 'n', annotations: toHostAnnotations('h0', url, by) },
  });
  t.match(readHost(node('h0'), seal), { name: 'h0', isReady: false });
  t.equal(readHost(node('h1'), seal), undefined, 'the address of another host');
  t.equal(readHost(node('h0', other), seal), undefined);

  const ingress = new URL('https://10.0.0.5:7879');
  const withDoors = (own: Record<string, string>) => {
    const annotations = { ...toHostAnnotations('h0', url, seal), ...own };
    return readHost({ metadata: { name: 'h0', uid: 'n', annotations } }, seal)?.doors;
  };
  t.same(withDoors(toDoorAnnotations('h0', { ingress }, seal)), { ingress, e2b: undefined });
  t.same(withDoors(toDoorAnnotations('h1', { ingress }, seal)), {}, 'the listeners of another host');
  t.same(withDoors(toDoorAnnotations('h0', { ingress }, other)), {});
  t.same(
    withDoors({ ...toDoorAnnotations('h0', { ingress }, seal), 'sandboxd.dev/e2b-url': 'http://x/' }),
    {},
  );
  t.same(withDoors({}), {}, 'a host of an earlier version');
  t.end();
});

t.test('what a gateway says of a client comes from a gateway', (t) => {
  const header = writeClientHeader('10.1.2.3', seal);
  t.equal(readClientHeader(header, seal), '10.1.2.3');
  t.equal(readClientHeader(header, other), undefined);
  for (const odd of [
    undefined,
    '',
    '10.1.2.3',
    header.replace('10', '11'),
    `${header} x`,
    [header],
    ` ${header}`,
  ])
    t.equal(readClientHeader(odd, seal), undefined, String(odd));
  t.end();
});

t.test('a place header is of a gateway, and of one kind', (t) => {
  const header = { kind: 'place', namespace: 'sandboxd', places: [{ id: ID, uid: 'u1' }] } as const;
  const text = writePlaceHeader(header, seal);
  t.same(readPlaceHeader(text, seal), header);
  t.equal(readPlaceHeader(text, other), undefined);
  for (const [from, to] of [
    ['place', 'held'],
    ['sandboxd', 'sandboxd-a'],
    ['=u1', '=u2'],
    ['abc', 'abd'],
    [' ', '  '],
  ] as const)
    t.equal(readPlaceHeader(text.replace(from, to), seal), undefined, to);
  for (const odd of ['', ' ', 'place', 'place a b', `${text} x`])
    t.equal(readPlaceHeader(odd, seal), undefined, odd);
  t.end();
});

t.test('tenants have namespaces, unless their name cannot be one', (t) => {
  t.equal(toNamespace('sandboxd', undefined), 'sandboxd');
  t.equal(toNamespace('sandboxd', 'acme'), 'sandboxd-acme');
  t.equal(toNamespace('sandboxd', 'kube-system'), 'sandboxd-kube-system');
  for (const odd of ['a.b', 'a_b', 'a-', 'x'.repeat(60)])
    t.throws(() => toNamespace('sandboxd', odd), { code: 'forbidden' }, odd);
  t.end();
});

t.test('a kubeconfig says what is wrong with it', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'kubeconfig-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const path = join(dir, 'config');
  const yaml = (cluster: string, user: string) =>
    `current-context: a\ncontexts:\n- {name: a, context: {cluster: c, user: u}}\nclusters:\n- name: c\n  cluster: ${cluster}\nusers:\n- name: u\n  user: ${user}\n`;
  const read = (text: string) => {
    writeFileSync(path, text, { mode: 0o644 });
    return readKubeconfig(path);
  };
  writeFileSync(join(dir, 'token'), 'secret\n', { mode: 0o644 });
  const ok = read(yaml('{server: "https://10.0.0.1:6443"}', '{tokenFile: token}'));
  t.equal(ok.server.href, 'https://10.0.0.1:6443/');
  t.equal(ok.token?.(), 'secret');
  const server = '{server: "https://10.0.0.1:6443"}';
  for (const [user, isOnlyForBootstrap] of [
    ['{token: abcdef.0123456789abcdef}', true],
    ['{}', true],
    ['{tokenFile: token}', false],
    ['{token: abcdef.0123456789abcdef.a}', false],
    ['{client-certificate-data: YQ==, client-key-data: YQ==}', false],
  ] as const)
    t.equal(isForBootstrap(read(yaml(server, user))), isOnlyForBootstrap, user);
  for (const [text, message] of [
    [yaml('{server: "http://10.0.0.1"}', '{token: a}'), /not reached by https/],
    [yaml('{server: "https://a", insecure-skip-tls-verify: true}', '{token: a}'), /insecure-skip-tls-verify/],
    [yaml(server, '{exec: {command: evil}}'), /plug-in/],
    [yaml(server, '{username: a, password: b}'), /password/],
    [yaml(server, '{client-certificate-data: YQ==}'), /go together/],
    [yaml(server, '{token: a}').replace('current-context: a', 'current-context: b'), /current-context "b"/],
    ['[1', /cannot be used/],
    ['a: &a [*a, *a]', /cannot be used/],
    ['{}', /current-context is not valid/],
  ] as const)
    t.throws(() => read(text), { code: 'invalid_argument', message }, String(message));
  t.throws(() => readKubeconfig(join(dir, 'none')), { message: /ENOENT/ });
  t.throws(() => readKubeconfig(dir), { message: /it is not a file/ });
  t.throws(() => read(' '.repeat(2 ** 20 + 1)), { message: /has 1048577 bytes/ });
  chmodSync(path, 0o664);
  t.throws(() => readKubeconfig(path), { code: 'invalid_argument', message: /other users can write it/ });
  t.end();
});

t.test('the secret of a fleet is in a file of its own', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'fleet-secret-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const path = join(dir, 'secret');
  const read = (text: string, mode: number) => {
    writeFileSync(path, text);
    chmodSync(path, mode);
    return FleetSeal.read(path);
  };
  const key = 'k'.repeat(32);
  const seal = read(`${key}\n`, 0o600);
  t.equal(seal.make('pod', 'a'), new FleetSeal(Buffer.from(key)).make('pod', 'a'));
  read(key, 0o440);
  for (const [text, mode, message] of [
    [key, 0o644, /the secret of the fleet, .*secret, cannot be used: other users can read it/],
    [key, 0o660, /other users can read it/],
    [`${key.slice(1)}   `, 0o600, /it has 31 bytes; a secret has 32 to 4096/],
    ['k', 0o600, /it has 1 bytes/],
    ['k'.repeat(4097), 0o600, /it has 4097 bytes/],
  ] as const)
    t.throws(() => read(text, mode), { code: 'invalid_argument', message }, String(message));
  t.throws(() => FleetSeal.read(dir), { code: 'invalid_argument', message: /it is not a file/ });
  t.end();
});

t.test('openssl takes a request for a certificate', async (t) => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  // Its length needs two bytes.
  const node = `${'a'.repeat(60)}.${'b'.repeat(60)}.example`;
  const input = makeCertificateRequest(nodeSubject(node), privateKey);
  const words = ['req', '-verify', '-noout', '-subject', '-nameopt', 'RFC2253'];
  const { status, stdout } = spawnSync('openssl', words, { input, encoding: 'utf8' });
  t.equal(status, 0);
  t.equal(stdout.trim(), `subject=CN=system:node:${node},O=system:nodes`);
  t.equal(requestNameOf(privateKey), requestNameOf(privateKey));
  t.match(requestNameOf(privateKey), /^sandboxd-[0-9a-f]{32}$/);
});

t.test('what a host has is a label that Kubernetes allows, of one image in any spelling', async (t) => {
  t.equal(toImageHolding('debian:12'), toImageHolding('docker.io/library/debian:12'));
  t.not(toHoldingLabel(toImageHolding('debian:12')), toHoldingLabel(toImageHolding('debian:11')));
  for (const text of ['debian', 'odd name\n', 'x'.repeat(5000), ''])
    t.match(toHoldingLabel(toImageHolding(text)), /^sandboxd\.dev\/has-[0-9a-f]{12}$/);
});

t.test('a create prefers hosts that have its image', async (t) => {
  const image = { oci: 'debian:12' };
  t.equal(toRequest({ value: { image } })?.prefers, toImageHolding('docker.io/library/debian:12'));
  for (const image of [undefined, null, 'debian:12', { path: '/x' }, { oci: 7 }, { oci: '' }, []])
    t.equal(toRequest({ value: { image } })?.prefers, undefined, JSON.stringify(image));
});
