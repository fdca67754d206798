// What may follow: verbs, flags, values, names; the shells themselves are in test/http/command/completion.test.ts.
import t from 'tap';
import { complete } from '../../../client/src/command/complete.ts';
import { VERBS } from '../../../client/src/command/verbs.ts';

const asked: unknown[] = [];

async function names(...words: string[]): Promise<string[]> {
  const { candidates, hasFiles } = await complete(words, VERBS, async (kind, flags) => {
    asked.push([kind, flags]);
    return [{ name: `${kind}_1` }, { name: `${kind}_2`, help: 'another' }];
  });
  return [...candidates.map(({ name }) => name), ...(hasFiles ? [':files'] : [])];
}

t.test('verbs, and flags for every verb before them', async (t) => {
  t.same(
    await names(''),
    VERBS.map(({ name }) => name),
  );
  t.same(await names('sna'), ['snapshot', 'snapshots']);
  t.same(await names('--json', 'sna'), ['snapshot', 'snapshots']);
  t.same(await names('--host', 'sna', 'vers'), ['version'], 'a value is no verb');
  t.same(await names('--c'), ['--context', '--ca']);
  t.same(await names('nosuch', ''), []);
});

t.test('flags of the verb, and their values', async (t) => {
  for (const { name, flags } of VERBS) {
    const known = await names(name, '-');
    for (const [flag, { short }] of Object.entries(flags)) {
      t.ok(known.includes(`--${flag}`), `${name} --${flag}`);
      t.ok(short === undefined || known.includes(`-${short}`), `${name} -${short}`);
    }
  }
  t.same(await names('run', '--pull', ''), ['missing', 'always', 'never']);
  t.same(await names('run', '--pull', 'a'), ['always']);
  t.same(await names('run', '--memory', ''), []);
  t.same(await names('ps', '--context', ''), ['context_1', 'context_2']);
  t.same(await names('ps', '--ca', ''), [':files']);
});

t.test('operands, whatever flags stand between', async (t) => {
  t.same(await names('exec', ''), ['sandbox_1', 'sandbox_2']);
  t.same(await names('exec', '-it', '-e', 'A=b', '--user', 'me', 'sandbox_2'), ['sandbox_2']);
  t.same(await names('exec', '--user=me', 'sandbox_2'), ['sandbox_2']);
  t.same(await names('exec', 'sbx_1', 'ca'), [':files'], 'the command');
  t.same(await names('exec', 'sbx_1', 'ls', '-'), [':files'], 'its flags are its own');
  t.same(await names('exec', 'sbx_1', '--', '-'), [':files']);
  t.same(await names('run', ''), ['source_1', 'source_2']);
  t.same(await names('rm', 'a', 'b', ''), ['id_1', 'id_2']);
  t.same(await names('cp', 'place_'), ['place_1', 'place_2', ':files']);
  t.same(await names('service', 'st'), ['status', 'start', 'stop']);
  t.same(await names('service', 'stop', ''), ['sandbox_1', 'sandbox_2']);
  t.same(await names('context', 'use', ''), ['context_1', 'context_2']);
  t.same(await names('keys', ''), ['create', 'list', 'show', 'revoke']);
  t.same(await names('completion', 'b'), ['bash']);
  t.same(await names('ps', ''), []);
});

t.test('the daemon that is asked is the one that is meant', async (t) => {
  await names('--host', 'http://a', 'exec', '--ca=x.pem', '');
  t.same(asked.at(-1), ['sandbox', { host: 'http://a', ca: 'x.pem' }]);
});
