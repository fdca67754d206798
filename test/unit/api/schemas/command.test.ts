// What bodies that run commands may say, and what comes of what they leave out.
import {
  createSandboxRequest,
  execRequest,
  INTERFACE_LIMITS,
  SIGNALS,
  serviceSpec,
  stopRequest,
} from '@sandboxd/api';
import t from 'tap';
import { accept, refuse } from '../support/ask.ts';

const create = createSandboxRequest(INTERFACE_LIMITS);

t.test('exec', (t) => {
  t.same(accept(execRequest, { cmd: ['x'] }), { cmd: ['x'], env: {}, timeout_s: 0 });
  for (const cmd of [undefined, null, [], 'ls'])
    t.match(refuse(execRequest, { cmd }), /^cmd must be a non-empty array/);
  t.match(refuse(execRequest, { cmd: ['', 'x'] }), /^cmd must name a program first/);
  t.equal(refuse(execRequest, { cmd: ['x', ''] }), '');
  for (const timeout_s of [0, 1, 2 ** 41])
    t.equal(accept(execRequest, { cmd: ['x'], timeout_s }).timeout_s, timeout_s);
  t.equal(
    refuse(execRequest, { cmd: ['x'], timeout_s: -1 }),
    'timeout_s must be an integer of seconds, 0 for none, got -1',
  );
  t.match(
    refuse(execRequest, { cmd: ['x'], timeout_s: '5' }),
    /^timeout_s must be an integer of seconds, 0 for none, got "5"/,
  );
  t.match(
    refuse(execRequest, { cmd: ['x'], tty: { cols: 1 } }),
    /^tty.rows must be an integer from 1 to 65535, got nothing/,
  );
  t.match(
    refuse(execRequest, { cmd: ['x'], tty: { cols: 0, rows: 65_536 } }),
    /^tty.cols .*, got 0; tty.rows .*, got 65536/,
  );
  for (const cwd of ['', '/', '/a b'])
    t.equal(accept(execRequest, { cmd: ['x'], cwd }).cwd, cwd || undefined);
  t.match(refuse(execRequest, { cmd: ['x'], cwd: 'tmp' }), /^cwd must be an absolute path, got "tmp"/);
  t.end();
});

t.test('env: every name that Linux has, __proto__ as well', (t) => {
  const env = JSON.parse('{"__proto__":"1","constructor":"2","a b":"","toString":"😀"}');
  const taken = accept(execRequest, { cmd: ['x'], env }).env ?? {};
  t.strictSame(Object.entries(taken), Object.entries(env));
  t.equal(Object.hasOwn(taken, '__proto__'), true);
  t.same(accept(execRequest, { cmd: ['x'], env: null }).env, {});
  for (const name of ['', 'A=B', 'A\0', 'A\ud800']) {
    t.match(refuse(execRequest, { cmd: ['x'], env: { [name]: '' } }), /^env must have names/);
  }
  for (const value of [['A=1'], 'A=1', 1])
    t.match(refuse(execRequest, { cmd: ['x'], env: value }), /^env must be an object of strings/);
  t.match(refuse(execRequest, { cmd: ['x'], env: { A: 1 } }), /^env.A must be a string, got 1/);
  t.end();
});

t.test('half of a surrogate pair and NUL are refused wherever a string goes to the guest', (t) => {
  for (const [text, error] of [
    ['/a\ud800b', /surrogate pair, got "\/a\\ud800b"$/],
    ['/\udc00', /surrogate pair/],
    ['/a\0', /without a NUL character/],
  ] as const) {
    for (const fields of [
      { cmd: ['x', text] },
      { cmd: [text] },
      { cwd: text },
      { user: text },
      { env: { A: text } },
    ]) {
      t.match(refuse(execRequest, { cmd: ['x'], ...fields }), error);
      t.match(refuse(create, { service: { cmd: ['x'], ...fields } }), error);
    }
    for (const fields of [
      { profile: text },
      { boot_args: text },
      { image: { oci: text } },
      { image: { path: text } },
    ]) {
      t.match(refuse(create, fields), error);
    }
  }
  t.equal(refuse(execRequest, { cmd: ['😀'], cwd: '/😀' }), '');
  t.end();
});

t.test('service: defaults, signals, policies, users', (t) => {
  const defaults = {
    env_exact: false,
    log_buffer_bytes: 2 * 2 ** 20,
    restart: { policy: 'never', max_retries: 0 },
    stop_grace_s: 10,
    stop_signal: 'SIGTERM',
  };
  t.match(accept(serviceSpec, { cmd: ['x'] }), defaults);
  const zeros = { log_buffer_bytes: 0, stop_grace_s: 0, stop_signal: '', restart: {}, user: '', cwd: '' };
  t.match(accept(serviceSpec, { cmd: ['x'], ...zeros }), defaults);
  t.same(
    accept(serviceSpec, { cmd: ['x'], restart: { policy: '', max_retries: 0 } }).restart,
    defaults.restart,
  );
  t.equal(refuse(serviceSpec, { cmd: ['x'], log_buffer_bytes: 16 * 2 ** 20 }), '');
  t.match(
    refuse(serviceSpec, { cmd: ['x'], log_buffer_bytes: 16 * 2 ** 20 + 1 }),
    /^log_buffer_bytes must be an integer/,
  );
  for (const field of ['stop_grace_s', 'log_buffer_bytes']) {
    t.match(refuse(serviceSpec, { cmd: ['x'], [field]: -1 }), new RegExp(`^${field} must be`));
  }
  t.equal(SIGNALS.length, 62);
  t.equal(SIGNALS.at(-1), 'SIGRTMIN+30');
  for (const stop_signal of SIGNALS) t.equal(refuse(serviceSpec, { cmd: ['x'], stop_signal }), '');
  for (const stop_signal of ['TERM', 'sigterm', 'SIGRTMIN+31', 'SIGRTMAX', 'SIG0', 15]) {
    t.match(
      refuse(serviceSpec, { cmd: ['x'], stop_signal }),
      /^stop_signal must be a Linux signal, such as SIGTERM or SIGRTMIN\+3/,
    );
  }
  for (const policy of ['never', 'always', '']) {
    t.match(
      refuse(serviceSpec, { cmd: ['x'], restart: { policy, max_retries: 1 } }),
      /^restart must not have max_retries/,
    );
  }
  t.equal(refuse(serviceSpec, { cmd: ['x'], restart: { policy: 'on-failure', max_retries: 5 } }), '');
  t.match(
    refuse(serviceSpec, { cmd: ['x'], restart: { policy: 'maybe' } }),
    /^restart.policy must be one of never, on-failure, always/,
  );
  for (const user of ['root', '0', 'a:b', '1000:1000'])
    t.equal(accept(serviceSpec, { cmd: ['x'], user }).user, user);
  for (const user of ['a:b:c', 'a:', ':b', ':', 0]) {
    t.match(refuse(serviceSpec, { cmd: ['x'], user }), /^user must be name\|uid\[:group\|gid\], got/);
  }
  t.end();
});

t.test('stop', (t) => {
  for (const body of [undefined, null, {}, { grace_s: 0 }, { grace_s: null }])
    t.equal(accept(stopRequest, body).grace_s, undefined);
  t.equal(accept(stopRequest, { grace_s: 3 }).grace_s, 3);
  t.match(refuse(stopRequest, { grace_s: -1 }), /^grace_s must be an integer from 0 to 2147483647 seconds/);
  t.end();
});
