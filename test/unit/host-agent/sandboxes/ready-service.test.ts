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

function guest(answers: readonly (Error | undefined)[], state = 'running') {
  const left = [...answers];
  const seen: unknown[] = [];
  return {
    seen,
    service: {
      configure: async (...given: unknown[]) => void seen.push(given.slice(0, 2)),
      control: async () => ({ state, lastExit: { error: 'no such program' } }),
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
  await t.rejects(start(guest([closed], 'failed')), { code: 'internal', message: /no such program/ });
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
