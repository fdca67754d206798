// Pods of others whose authors choose every value, and guests that choose every number.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readEnvironment } from '../../../../host-agent/src/fleet/host/pod-environment.ts';
import { PodReadiness } from '../../../../host-agent/src/fleet/host/pod-readiness.ts';
import { PodStatuses, toStatus } from '../../../../host-agent/src/fleet/host/pod-status.ts';
import { Turns } from '../../../../host-agent/src/fleet/host/turns.ts';
import { FleetSeal, type KubeClient } from '../../../../host-agent/src/fleet/index.ts';
import { KubeError, type KubeRequest } from '../../../../host-agent/src/fleet/kube/client.ts';
import {
  type ForeignPod,
  hasPlaceLabel,
  type KnownPod,
  readAnyPlace,
  readForeignPod,
  readKnownPod,
} from '../../../../host-agent/src/fleet/kubernetes/foreign-pods.ts';
import { SEAL, SIZE } from '../../../../host-agent/src/fleet/kubernetes/pods.ts';
import type { ServiceStatus } from '../../../../host-agent/src/guest/service.ts';
import { until } from '../../../support/until.ts';

const secret = join(t.testdir({}), 'secret');
writeFileSync(secret, 'a secret of this test that is long enough', { mode: 0o600 });
const seal = FleetSeal.read(secret);

type PodParts = { readonly container?: object; readonly metadata?: object; readonly status?: object };

function toObject({ container, metadata, status }: PodParts = {}): object {
  return {
    metadata: { name: 'p', namespace: 'sandboxd-acme', uid: 'u', labels: {}, ...metadata },
    spec: {
      ...{ runtimeClassName: 'sandboxd', nodeName: 'h' },
      containers: [{ name: 'c', image: 'i', ...container }],
    },
    ...(status && { status }),
  };
}

function read(wanted?: PodParts): ForeignPod {
  const pod = readForeignPod(toObject(wanted), seal);
  if (pod === undefined) throw new Error('no pod of others');
  return pod;
}

function keep(wanted?: PodParts, known?: KnownPod): KnownPod {
  const pod = readKnownPod(toObject(wanted), seal, 'sandboxd', known);
  if (pod === undefined) throw new Error('no pod of others');
  return pod;
}

function answering(answer: (request: KubeRequest) => unknown): KubeClient {
  return { request: async (request: KubeRequest) => answer(request) } as unknown as KubeClient;
}

async function envOf(wanted: PodParts, client = answering(() => ({}))): Promise<Record<string, string>> {
  const pod = read(wanted);
  if ('refusal' in pod.asked) throw new Error(pod.asked.refusal);
  return await readEnvironment(pod, pod.asked.wish.variables, client, new AbortController().signal);
}

t.test('values that name others are bounded before they are made', async (t) => {
  const env = [{ name: 'A0', value: 'x'.repeat(1000) }];
  for (let n = 1; n < 60; n++) env.push({ name: `A${n}`, value: `$(A${n - 1})$(A${n - 1})` });
  await t.rejects(envOf({ container: { env } }), { code: 'invalid_argument', message: /env has more than/ });
  const once = [...env.slice(0, 1), { name: 'B', value: '$(A0)'.repeat(12_000) }];
  await t.rejects(envOf({ container: { env: once } }), { code: 'invalid_argument' });
  const { asked } = read({ container: { command: ['$(A)'.repeat(5000), '$(A)'.repeat(5000)] } });
  t.throws(() => 'wish' in asked && asked.wish.toBody({ A: 'x'.repeat(60_000) }, undefined), {
    code: 'invalid_argument',
    message: /the command has more than/,
  });
});

t.test('Secrets are bounded together, and their keys are their own', async (t) => {
  const from = (name: string, key: string) => ({ secretKeyRef: { name, key } });
  const large = answering(() => ({ data: { key: 'x'.repeat(100_000), other: 'y'.repeat(1_000_000) } }));
  const env = [1, 2].map((n) => ({ name: `A${n}`, valueFrom: from(`s${n}`, 'key') }));
  await t.rejects(envOf({ container: { env } }, large), { code: 'invalid_argument' });
  for (const key of ['constructor', '__proto__', 'toString']) {
    const one = { container: { env: [{ name: 'A', valueFrom: from('s', key) }] } };
    await t.rejects(envOf(one), { code: 'upstream', message: /there is no key/ });
    const label = { fieldRef: { fieldPath: `metadata.labels['${key}']` } };
    t.same(await envOf({ container: { env: [{ name: 'A', valueFrom: label }] } }), { A: '' });
  }
  const down = answering(() => {
    throw new KubeError(500, 'InternalError', 'dial tcp 10.1.2.3:2379');
  });
  const one = { container: { env: [{ name: 'A', valueFrom: from('s', 'key') }] } };
  await t.rejects(envOf(one, down), { code: 'upstream', message: /^secrets s cannot be read now$/ });
});

t.test('of a pod only what is needed is kept, and it is read once', (t) => {
  const large = keep({ container: { args: ['x'.repeat(200_000)] }, metadata: { labels: { a: 'b' } } });
  t.match(large.asked, { refusal: /more than/ });
  const named = { valueFrom: { fieldRef: { fieldPath: "metadata.annotations['mine']" } }, name: 'A' };
  const annotations = { mine: '1', other: 'x'.repeat(100_000), 'sandboxd.dev/id': 'sbx_x' };
  const wanted = { container: { env: [named] }, metadata: { annotations } };
  t.same(Object.keys(read(wanted).annotations).sort(), ['mine', 'sandboxd.dev/id']);
  const first = keep(wanted);
  t.same(first.annotations, { 'sandboxd.dev/id': 'sbx_x' });
  const later = keep({ ...wanted, status: { phase: 'Running' } }, first);
  t.equal(later.asked, first.asked, 'a change of its status');
  t.equal(later.phase, 'Running');
  t.not(keep({ ...wanted, metadata: {} }, first).asked, first.asked);
  const mounts = Array.from({ length: 1001 }, () => ({ name: 'kube-api-access-x' }));
  t.match(keep({ container: { volumeMounts: mounts } }).asked, { refusal: /volumeMounts/ });
  t.end();
});

t.test('many pods with much text fill no memory, and those of other namespaces less', (t) => {
  const sizeOf = (pod: KnownPod): number => JSON.stringify(pod).length;
  const text = (chars: number): string => 'x'.repeat(chars);
  const items = (chars: number): string[] => Array.from({ length: 1000 }, () => text(chars));
  const container = {
    ...{ image: text(1000), command: items(50), workingDir: text(5000) },
    env: items(10).map((value, n) => ({ name: `A${n}`, value })),
    ports: items(0).map((_, n) => ({ containerPort: n + 1, name: 'p' })),
    readinessProbe: { httpGet: { port: 80, path: `/${text(1000)}` } },
  };
  const annotations = Object.fromEntries(
    ['id', 'seal', 'size', 'allow-hosts', 'other'].map((key) => [`sandboxd.dev/${key}`, text(50_000)]),
  );
  const status = { phase: 'Pending', message: text(100_000) };
  const wanted = { container, status, metadata: { annotations, labels: { a: text(1000) } } };
  t.ok('wish' in keep(wanted).asked);
  t.ok(sizeOf(keep(wanted)) < 4000, `${sizeOf(keep(wanted))} characters`);
  const probe = { readinessProbe: { httpGet: { port: 80, path: `/${text(2000)}` } } };
  t.match(keep({ container: probe }).asked, { refusal: /readinessProbe/ });
  const strange = { namespace: 'strangers', labels: { 'sandboxd.dev/place': 'pod' } };
  const other = keep({ status: { phase: 'Pending', message: text(5000) }, metadata: strange });
  t.match(other, { status: undefined, isLabelled: false, asked: { refusal: '' } });
  t.end();
});

t.test('a seal that is a copy makes no place of a pod of others, and their label is their own', (t) => {
  const name = 'sbx-0123456789abc';
  const proof = seal.make('pod', 'sandboxd-acme', name, '1x256');
  const metadata = { name, annotations: { [SIZE]: '1x256', [SEAL]: proof } };
  t.equal(readAnyPlace(toObject({ metadata }), seal), undefined);
  t.equal(read({ metadata }).name, name);
  const labelled = (value: string) => hasPlaceLabel({ labels: { 'sandboxd.dev/place': value } });
  t.same(['pod', 'true', ''].map(labelled), [true, false, false]);
  t.end();
});

t.test('numbers and times of guests fit into a status', (t) => {
  for (const value of [Number.MAX_SAFE_INTEGER, Number.MAX_VALUE, Number.NaN, -1e300, 8.64e15]) {
    const service = {
      ...{ state: 'running', restarts: value, startedUnixMs: value, lastExitUnixMs: value },
      lastExit: { exitCode: value, oomKilled: false },
    } as unknown as ServiceStatus;
    const report = { container: 'c', image: 'i', startedAtMs: value };
    const running = toStatus({ id: 'x' }, { ...report, state: { kind: 'running', isReady: true, service } });
    const outcome = {
      phase: 'Failed',
      reason: '',
      message: '',
      exitCode: value,
      finishedAtMs: value,
    } as const;
    const over = toStatus({ id: 'x' }, { ...report, state: { kind: 'over', outcome } });
    const text = JSON.stringify([running, over]);
    for (const [, time] of text.matchAll(/At":"([^"]*)"/g)) t.match(time, /^\d{4}-\d\d-\d\dT[\d:]{8}Z$/);
    for (const [, code = ''] of text.matchAll(/(?:exitCode|restartCount)":([^,}]*)/g))
      t.ok(Number.isInteger(Number(code)) && Math.abs(Number(code)) < 2 ** 31, code);
  }
  t.end();
});

t.test('a status that the API server has is not written again after a restart', async (t) => {
  const written: Record<string, unknown>[] = [];
  const client = answering(({ body }) => void written.push((body as { status: object }).status as never));
  const report = { container: 'c', image: 'i', startedAtMs: 1000, hostIp: '127.0.0.1' };
  const post = async (pod: KnownPod, isReady: boolean): Promise<void> => {
    const state = { kind: 'running', isReady, service: undefined } as const;
    await new PodStatuses(client, seal).post(pod, { ...report, state }, new AbortController().signal);
  };
  await post(keep(), true);
  const [status] = written as [Record<string, never>];
  const [container] = status.containerStatuses as unknown as [object];
  const kept = {
    ...status,
    qosClass: 'Burstable',
    containerStatuses: [{ ...container, lastState: {} }],
    conditions: [
      ...(status.conditions as unknown as object[]).map((each) => ({
        ...each,
        ...{ lastProbeTime: null, lastTransitionTime: '2020-01-01T00:00:00Z' },
      })),
      { type: 'PodScheduled', status: 'True', lastTransitionTime: '2020-01-01T00:00:00Z' },
    ],
  };
  await post(keep({ status: kept }), true);
  t.equal(written.length, 1);
  await post(keep({ status: kept }), false);
  const [, second] = written as [unknown, { conditions: unknown }];
  const times = (second.conditions as { type: string; lastTransitionTime: string }[]).map(
    ({ type, lastTransitionTime: at }) => [type, at === '2020-01-01T00:00:00Z'],
  );
  t.match(Object.fromEntries(times), { Initialized: true, Ready: false });
  for (const odd of [undefined, '', 'x', null, [], { conditions: 'x' }, { conditions: [null] }])
    await post({ ...keep(), status: odd }, true);
  t.equal(written.length, 9);
});

t.test('one answer makes a pod ready, and failures in turn make it not ready', (t) => {
  const readiness = new PodReadiness();
  const ask = (isAnswered: boolean) => readiness.isReady('x', { port: 1, failureThreshold: 3 }, isAnswered);
  t.same([false, false, true, false, true, false, false].map(ask), [
    false,
    false,
    true,
    true,
    true,
    true,
    true,
  ]);
  t.same([false, false, true].map(ask), [false, false, true]);
  readiness.forget('x');
  t.equal(ask(false), false);
  t.end();
});

t.test('a group has its share of the turns, and leaves the others theirs', async (t) => {
  const waiting = new Map<string, () => void>();
  const work = (id: string) => new Promise<void>((resolve) => waiting.set(id, resolve));
  const turns = new Turns(work, () => undefined, { atOnce: 4, share: 2, groupOf: (id) => id[0] ?? '' });
  for (let n = 0; n < 50; n++) turns.enqueue(`a${n}`);
  turns.enqueue('b0');
  await until(() => waiting.has('b0'), 'its turn');
  t.same([...waiting.keys()], ['a0', 'a1', 'b0']);
  waiting.get('a0')?.();
  await until(() => waiting.has('a2'), 'the next one');
  t.ok(turns.isRunning('a2'));
  t.notOk(turns.isRunning('a0'));
  turns.stop();
  for (const done of waiting.values()) done();
  await turns.idle();
});

t.test('each change costs no look at all that wait', async (t) => {
  let looks = 0;
  const groupOf = (id: string): string => {
    looks += 1;
    return id[0] ?? '';
  };
  const begun: string[] = [];
  const work = async (id: string): Promise<void> => void begun.push(id);
  const turns = new Turns(work, () => undefined, { atOnce: 3, share: 2, groupOf });
  for (let n = 0; n < 3000; n++) turns.enqueue(`a${n}`);
  for (const id of ['b0', 'c0', 'a0', 'b0']) turns.enqueue(id);
  await until(() => new Set(begun).size === 3002, 'all turns');
  t.ok(looks <= 6000, `${looks} looks`);
  t.ok(begun.indexOf('c0') < 20, 'a group that came last waits for no other one');
});
