// The table of verbs, and what is made of it: help, completions, the reading of words, suggestions.
import { chmodSync, chownSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { UsageError } from '../../../api/src/command-line.ts';
import { suggest } from '../../../api/src/suggest.ts';
import { parseInput } from '../../../client/src/command/args.ts';
import {
  findContext,
  readContexts,
  resolveContext,
  writeContexts,
} from '../../../client/src/command/context.ts';
import { renderOverview, renderVerb } from '../../../client/src/command/help.ts';
import { toBytes, toEnvironment, toMib, toPort, toSeconds } from '../../../client/src/command/units.ts';
import type { Verb } from '../../../client/src/command/verb.ts';
import { VERBS } from '../../../client/src/command/verbs.ts';

const verbOf = (name: string): Verb => VERBS.find((each) => each.name === name)!;

t.test('every verb has a summary, flags with help, and an example that can be read', (t) => {
  t.ok(VERBS.length > 15);
  t.equal(new Set(VERBS.map(({ name }) => name)).size, VERBS.length);
  for (const verb of VERBS) {
    const help = renderVerb(verb);
    t.ok(help.includes(verb.example) && help.includes(verb.summary), verb.name);
    for (const [name, { help: said }] of Object.entries(verb.flags))
      t.ok(help.includes(`--${name}`) && said !== '', `${verb.name} --${name}`);
    t.ok(renderOverview(VERBS).includes(verb.summary));
    const words = /sandbox ([^)]+)/.exec(verb.example)?.[1]?.split(' ') ?? [];
    t.equal(words[0], verb.name, verb.example);
    t.doesNotThrow(() => parseInput(verb, words.slice(1)), verb.example);
    const letters = Object.values(verb.flags).flatMap(({ short = [] }) => short);
    t.equal(new Set(letters).size, letters.length, `${verb.name} has no letter twice`);
  }
  t.end();
});

t.test('words behind the command are the command’s own', (t) => {
  const run = verbOf('run');
  const { operands, isSet, text, texts } = parseInput(run, [
    '-ite',
    'A=b',
    '--rm',
    '-m512m',
    '--env=C=d',
    'base',
    'ls',
    '--rm',
    '-l',
  ]);
  t.same(operands, ['base', 'ls', '--rm', '-l']);
  t.ok(isSet('interactive') && isSet('tty') && isSet('rm'));
  t.equal(text('memory'), '512m');
  t.same(texts('env'), ['A=b', 'C=d']);
  t.same(parseInput(run, ['base', '--', '-x']).operands, ['base', '-x']);
  t.same(parseInput(verbOf('exec'), ['-u', 'me', 'sbx_1', 'env', '-i']).operands, ['sbx_1', 'env', '-i']);
  t.same(parseInput(verbOf('cp'), ['-', 'sbx_1:/x', '-q']).operands, ['-', 'sbx_1:/x']);
  t.same(parseInput(verbOf('service'), ['set', 'sbx_1', 'sleep', '-f']).operands, [
    'set',
    'sbx_1',
    'sleep',
    '-f',
  ]);
  t.throws(() => parseInput(run, []), UsageError);
  t.same(parseInput(verbOf('exec'), ['sbx_1', 'echo', '']).operands, ['sbx_1', 'echo', '']);
  for (const [name, words] of [
    ['exec', ['', 'ls']],
    ['rm', ['']],
    ['cp', ['', 'sbx_1:/x']],
    ['context', ['set', '']],
  ] as const)
    t.throws(
      () => parseInput(verbOf(name), words),
      { message: /one of the arguments is empty: sandbox / },
      name,
    );
  t.throws(() => parseInput(verbOf('ps'), ['x']), { message: /"x" is one argument too many: sandbox ps/ });
  t.throws(() => parseInput(run, ['--memroy', '1g', 'base']), {
    message: /did you mean --memory\? `sandbox run --help`/,
  });
  t.end();
});

t.test('suggestions for misspelt verbs', (t) => {
  const known = VERBS.map(({ name }) => name);
  t.equal(suggest('exce', known), '; did you mean exec?');
  t.equal(suggest('snap', known), '; did you mean snapshot?');
  t.equal(suggest('lgos', known), '; did you mean logs?');
  t.equal(suggest('xyzzy', known), '');
  t.end();
});

t.test('amounts, ports, variables', (t) => {
  t.same(
    ['512', '512m', '2g', '1GiB'].map((text) => toMib('memory', text)),
    [512, 512, 2048, 1024],
  );
  t.same(
    ['90', '30s', '10m', '2h', '1d'].map((text) => toSeconds('timeout', text)),
    [90, 30, 600, 7200, 86_400],
  );
  t.same(
    ['100', '64m'].map((text) => toBytes('disk', text)),
    [100, 2 ** 26],
  );
  for (const bad of ['', '-1', '1.5g', '2x', 'g']) t.throws(() => toMib('memory', bad), UsageError, bad);
  t.same(toPort('8080:80'), { host_port: 8080, guest_port: 80 });
  t.same(toPort('127.0.0.1:8080:80/tcp'), { host_ip: '127.0.0.1', host_port: 8080, guest_port: 80 });
  t.same(toPort('[::1]:8080:80'), { host_ip: '::1', host_port: 8080, guest_port: 80 });
  for (const bad of ['80', 'a:b', '1:2:3:4/udp']) t.throws(() => toPort(bad), UsageError, bad);
  process.env.TEST_PASSED_ON = 'yes';
  t.same(toEnvironment(['A=b=c', 'TEST_PASSED_ON', 'TEST_NOT_SET']), { A: 'b=c', TEST_PASSED_ON: 'yes' });
  t.throws(() => toEnvironment(['=x']), UsageError);
  t.end();
});

t.test('a file of contexts that was edited by hand', async (t) => {
  const home = t.testdir({ sandbox: {} });
  const path = join(home, 'sandbox/contexts.json');
  const env = { XDG_CONFIG_HOME: home };
  const near = { host: 'http://127.0.0.1:1' };
  for (const text of [
    'broken',
    'null',
    '[]',
    '5',
    '{}',
    '{"contexts":5}',
    '{"contexts":null}',
    '{"contexts":{"a":null}}',
    '{"contexts":{"a":{"host":5}}}',
    '{"contexts":{"a":{"host":"http://x","apiKey":5}}}',
    '{"current":5,"contexts":{}}',
  ]) {
    writeFileSync(path, text, { mode: 0o600 });
    t.throws(
      () => resolveContext({}, env),
      { name: 'SandboxdError', message: /contexts\.json cannot be read: / },
      text,
    );
    t.same(resolveContext({ host: 'http://x' }, env), { host: 'http://x' }, 'who names a host needs none');
  }
  await writeContexts({ current: 'near', contexts: { near } }, path);
  t.same(resolveContext({}, env), near);
  for (const name of ['toString', 'constructor', '__proto__', 'hasOwnProperty']) {
    t.throws(() => resolveContext({ context: name }, env), { name: 'UsageError' }, name);
    const own = { host: `http://${name.toLowerCase()}` };
    await writeContexts({ current: name, contexts: { near, [name]: own } }, path);
    t.same(resolveContext({}, env), own);
    t.same(findContext(readContexts(path), name), own);
    await writeContexts({ contexts: { near } }, path);
  }
  chmodSync(path, 0o644);
  t.same(resolveContext({ context: 'near' }, env), near, 'without a key there is nothing to keep');
  for (const mode of [0o644, 0o660, 0o604]) {
    await writeContexts({ current: 'near', contexts: { near: { ...near, apiKey: 'sbk_secret' } } }, path);
    t.match(resolveContext({}, env), { apiKey: 'sbk_secret' });
    chmodSync(path, mode);
    t.throws(
      () => resolveContext({}, env),
      { message: /others may read it; `chmod 600` it/ },
      mode.toString(8),
    );
  }
  if (process.getuid?.() !== 0) return;
  await writeContexts({ current: 'near', contexts: { near: { ...near, apiKey: 'sbk_secret' } } }, path);
  chownSync(path, 65_534, 65_534);
  t.throws(
    () => resolveContext({}, env),
    { message: /it belongs to another user \(uid 65534\)/ },
    'its owner decides where keys and commands go',
  );
  await writeContexts({ contexts: { near } }, path);
  chownSync(path, 65_534, 65_534);
  t.throws(() => resolveContext({}, env), { message: /another user/ }, 'also without a key');
  t.match(
    readContexts(path, { SUDO_UID: '65534' }),
    { contexts: { near } },
    "with sudo, the home can be the caller's",
  );
});
