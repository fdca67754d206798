// What an image runs as a service, and what a request says differently.

import { type CreatedService, DEFAULT_LOG_BUFFER_BYTES, type ServiceSpec } from '@sandboxd/api';
import t from 'tap';
import { toServiceSpec } from '../../../../host-agent/src/images/image-service.ts';
import { resolveService } from '../../../../host-agent/src/sandboxes/image-service.ts';

const CONFIG = {
  entrypoint: ['/entry'],
  cmd: ['serve', '--all'],
  env: { A: '1', PATH: '/opt/bin' },
  user: 'web',
  workdir: 'srv',
  stopSignal: 'SIGQUIT',
  exposedPorts: [],
  labels: {},
};
const EMPTY = { ...CONFIG, entrypoint: [], cmd: [], user: '', workdir: '', stopSignal: '' };
/** A request's, with the defaults that reading it has filled in. */
const asked = (change: Partial<CreatedService> = {}): CreatedService => ({
  env: {},
  env_exact: false,
  log_buffer_bytes: DEFAULT_LOG_BUFFER_BYTES,
  restart: { policy: 'never', max_retries: 0 },
  stop_grace_s: 10,
  stop_signal: 'SIGTERM',
  ...change,
});

t.test('entrypoint and cmd, with all that the image says', async (t) => {
  t.match(resolveService(undefined, toServiceSpec(CONFIG)), {
    cmd: ['/entry', 'serve', '--all'],
    env: { A: '1', PATH: '/opt/bin' },
    env_exact: true,
    user: 'web',
    cwd: '/srv',
    stop_signal: 'SIGQUIT',
  });
});

t.test('an image that names no command has no service, and cannot be given one without', async (t) => {
  const image = toServiceSpec(EMPTY);
  t.equal(resolveService(undefined, image), undefined);
  t.throws(() => resolveService(asked(), image), {
    code: 'invalid_argument',
    message: /service.cmd is missing/,
  });
  const spec = resolveService(asked({ cmd: ['/x'] }), image);
  t.match(spec, { cmd: ['/x'], env_exact: true });
  t.notOk(spec && ('user' in spec || 'cwd' in spec));
});

t.test('a request replaces the command, and what else it names', async (t) => {
  const image = toServiceSpec(CONFIG);
  t.match(resolveService(asked({ cmd: ['/other'] }), image), {
    cmd: ['/other'],
    user: 'web',
    cwd: '/srv',
    stop_signal: 'SIGQUIT',
  });
  t.match(
    resolveService(
      asked({ env: { A: '2', B: '3' }, user: '0', cwd: '/', stop_signal: 'SIGINT', stop_grace_s: 3 }),
      image,
    ),
    {
      cmd: ['/entry', 'serve', '--all'],
      env: { A: '2', B: '3', PATH: '/opt/bin' },
      user: '0',
      cwd: '/',
      stop_signal: 'SIGINT',
      stop_grace_s: 3,
    },
  );
});

t.test('without an image a service is what was asked for', async (t) => {
  t.equal(resolveService(undefined, undefined), undefined);
  const spec = asked({ cmd: ['/x'] });
  t.same(resolveService(spec, undefined), spec);
});

t.test('stop signals by name, short name and number', async (t) => {
  const signal = (stopSignal: string): ServiceSpec['stop_signal'] =>
    toServiceSpec({ ...CONFIG, stopSignal }).stop_signal;
  t.same(['SIGINT', 'int', '3', '', 'SIGRTMIN+3', '99', 'x'].map(signal), [
    'SIGINT',
    'SIGINT',
    'SIGQUIT',
    'SIGTERM',
    'SIGTERM',
    'SIGTERM',
    'SIGTERM',
  ]);
});
