// The service of a profile: when it is ready, and which templates have it.
import { Duplex } from 'node:stream';
import { type ServiceSpec, serviceSpec } from '@sandboxd/api';
import t from 'tap';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import { startReadyService } from '../../../../host-agent/src/sandboxes/ready-service.ts';
import { templatesInRoot, toReadyService } from '../../../../host-agent/src/sandboxes/template-choice.ts';

const spec: ServiceSpec = serviceSpec.parse({ cmd: ['serve'] });
const ready = toReadyService({ service: spec, readyPort: 8000 });
if (ready === undefined) throw new Error('it has a port');

function guest(answers: readonly (Error | undefined)[], status: object = { state: 'running' }) {
  const left = [...answers];
  const seen: unknown[] = [];
  return {
    seen,
    service: {
      configure: async (...given: unknown[]) => void seen.push(given.slice(0, 2)),
      control: async () => status,
    },
    ports: {
      connect: async (port: number) => {
        seen.push(port);
        const answer = left.shift();
        if (answer !== undefined) throw answer;
        return new Duplex({ read: () => undefined });
      },
    },
  };
}
const start = (made: ReturnType<typeof guest>, signal = new AbortController().signal) =>
  startReadyService(made as never, ready, { A: '1' }, signal);
const closed = new AppError('port_not_listening', 'nothing listens');

t.test('it is ready when it answers', async (t) => {
  const made = guest([closed, closed]);
  await start(made);
  t.same(made.seen, [[spec, { A: '1' }], 8000, 8000, 8000]);
});

t.test('one that fails, and a guest that cannot be reached, are errors', async (t) => {
  const fails = (status: object, message: RegExp) =>
    t.rejects(start(guest([closed], status)), { code: 'internal', message, details: { stage: 'service' } });
  await fails({ state: 'failed', lastExit: { error: 'no such program' } }, /no such program/);
  await fails(
    { state: 'waiting', restarts: 3, lastExit: { exitCode: 1 } },
    /ended 3 times.*with exit code 1$/,
  );
  await fails({ state: 'running', restarts: 4, lastExit: { exitCode: 137, signal: 'SIGKILL' } }, /SIGKILL/);
  const slow = startReadyService(
    guest(Array(10_000).fill(closed), { state: 'running', restarts: 1, lastExit: { exitCode: 2 } }) as never,
    ...([ready as never, {}, new AbortController().signal, 250] as const),
  );
  await t.rejects(slow, {
    message: /did not answer within 250 ms at port 8000; last it ended with exit code 2/,
  });
  const lost = new AppError('guest_unreachable', 'lost');
  await t.rejects(start(guest([lost])), { code: 'guest_unreachable' });
  const stop = new AbortController();
  stop.abort(new Error('stopped'));
  await t.rejects(start(guest([closed]), stop.signal), /stopped/);
});

t.test('templates with a service are for creates with that service', (t) => {
  const rootfs = {
    kind: 'profile',
    name: 'p',
    digest: 'd',
    rootfsPath: '/r',
    env: {},
    workdir: '/',
  } as const;
  const plain = { rootfs, vcpus: 1, memoryMib: 256, diskBytes: 1, timeoutS: 0, bootArgs: '' };
  const context = { compatibility: {}, kernelDigest: 'k', diskBytes: 1 };
  const keys = (options: Parameters<typeof templatesInRoot>[0]) =>
    templatesInRoot(options, undefined, context).flatMap(({ key, booted }) => [key, booted.key]);
  const own = { ...plain, service: spec };
  t.same(keys(own), keys(plain), 'a service of the request is no part of a template');
  const [one] = templatesInRoot({ ...own, readyPort: 8000 }, undefined, context);
  t.match(one, { ready: { port: 8000, spec }, booted: { ready: { port: 8000 } } });
  t.notOk('service' in one.options || 'readyPort' in one.options);
  const all = [
    plain,
    { ...own, readyPort: 8000 },
    { ...own, readyPort: 8001 },
    { ...own, readyPort: 8000, service: { ...spec, cmd: ['other'] } },
  ].flatMap(keys);
  t.equal(new Set(all).size, 8);
  t.equal(toReadyService({ service: spec }), undefined);
  t.end();
});
