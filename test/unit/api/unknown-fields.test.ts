// Names that a body or a query has and its schema has not.
import { checkBody, findUnknownParameters, MAX_JSON_BYTES, ROUTES, type Route } from '@sandboxd/api';
import t from 'tap';
import type { z } from 'zod';
import { cpuMsOf } from '../../support/cpu-time.ts';
import { refuse } from './support/ask.ts';

const create = ROUTES.createSandbox.body.schema;
const exec = ROUTES.exec.body.schema;

function warn(schema: z.ZodType, body: unknown): readonly string[] {
  const checked = checkBody(schema, body);
  if (!checked.isValid) throw new Error(checked.problem);
  return checked.warnings;
}

t.test('each is named with what may have been meant', (t) => {
  const cases: readonly [unknown, string][] = [
    [{ memory_mb: 2048 }, 'memory_mb; did you mean memory_mib?'],
    [{ timeout: 60 }, 'timeout; did you mean timeout_s?'],
    [{ Vcpus: 2 }, 'Vcpus; did you mean vcpus?'],
    [{ memoryMib: 2 }, 'memoryMib; did you mean memory_mib?'],
    [{ disk_size: 2 }, 'disk_size; did you mean disk_bytes?'],
    [{ allowlist: ['a.b'] }, 'allowlist; did you mean network.allowlist?'],
    [{ environ: { A: '1' } }, 'environ'],
    [{ colour: null }, 'colour'],
    [{ 'a b': 1 }, '["a b"]'],
    [{ image: { oci: 'a', pull: 'never' } }, 'image.pull; did you mean pull?'],
    [{ service: { cmd: ['x'], restartt: {} } }, 'service.restartt; did you mean service.restart?'],
    [
      { service: { cmd: ['x'], restart: { polic: 'always' } } },
      'service.restart.polic; did you mean service.restart.policy?',
    ],
    [
      {
        publish: [
          { host_port: 1, guest_port: 1 },
          { host_port: 2, guest_port: 1, hostip: '::1' },
        ],
      },
      'publish[1].hostip; did you mean publish[1].host_ip?',
    ],
    [JSON.parse('{"__proto__":{"vcpus":1},"constructor":1}'), '__proto__|constructor'],
  ];
  for (const [body, expected] of cases)
    t.strictSame(
      warn(create, body),
      expected.split('|').map((each) => `unknown field ${each}`),
      JSON.stringify(body),
    );
  t.strictSame(warn(exec, { cmd: ['x'], tty: { cols: 1, rows: 1, columns: 1 } }), [
    'unknown field tty.columns',
  ]);
  t.end();
});

t.test('what is known, or of free form, is no warning', (t) => {
  t.strictSame(warn(create, undefined), []);
  t.strictSame(warn(create, { network: null, service: { cmd: ['x'], env: { memory_mb: '1' } } }), []);
  t.strictSame(warn(exec, { cmd: ['x'], env: { timeout: '1' } }), []);
  t.end();
});

t.test('strict, they are a refusal; and they stand beside what else is wrong in any case', (t) => {
  const strict = checkBody(create, { memory_mb: 1, vcpu: 1 }, true);
  t.same(strict, {
    isValid: false,
    problem: 'unknown field memory_mb; did you mean memory_mib?; unknown field vcpu; did you mean vcpus?',
  });
  t.equal(checkBody(create, { memory_mib: 512 }, true).isValid, true);
  t.match(
    refuse(exec, { command: ['x'] }),
    /^cmd must be a non-empty array of strings, the program first, got nothing; unknown field command$/,
  );
  t.match(refuse(ROUTES.createSandbox.body.schema, { image: { ocu: 'a' } }), /did you mean image\.oci\?$/);
  t.end();
});

t.test('they are few and short, and cost little, whatever comes', (t) => {
  let warnings: readonly string[] = [];
  const [small, large] = [5000, 50_000].map((length) => {
    const many = Object.fromEntries(Array.from({ length }, (_, at) => [`memory_${at}`, 1]));
    return cpuMsOf(() => {
      warnings = warn(create, many);
    });
  });
  t.equal(warnings.length, 6);
  t.equal(warnings.at(-1), 'and 49995 more unknown fields');
  t.ok(Number(large) < 40 * Number(small), `of ten times as many: ${small} and ${large} ms`);
  const [short, endless] = [1, MAX_JSON_BYTES - 10].map((length) =>
    cpuMsOf(() => {
      warnings = warn(create, { ['m'.repeat(length)]: 1 });
    }),
  );
  t.ok(warnings.join().length < 120, warnings.join().slice(0, 200));
  t.ok(Number(endless) < 20 * Number(short), `of a long name: ${short} and ${endless} ms`);
  t.end();
});

t.test('parameters of a query', (t) => {
  t.strictSame(findUnknownParameters(['stdin', 'max_output_bytes'], ['stdin', 'max_output_byte']), [
    'unknown query parameter max_output_byte; did you mean max_output_bytes?',
  ]);
  t.strictSame(findUnknownParameters([], []), []);
  const many = Array.from({ length: 9 }, (_, at) => `p${at}`);
  t.equal(findUnknownParameters([], many).at(-1), 'and 4 more unknown query parameters');
  t.end();
});

t.test('every answer to a JSON body has a place for warnings', (t) => {
  for (const [name, { body, answers }] of Object.entries<Route>(ROUTES)) {
    const [answer] = answers;
    const content = answer?.content?.['application/json'];
    if (body?.kind !== 'json' || content?.kind !== 'json') continue;
    t.ok('warnings' in (content.schema as z.ZodObject).shape, name);
  }
  t.end();
});

t.test('a list is looked through as far as it may be long', (t) => {
  let looks = 0;
  const entry = { host_port: 1, guest_port: 1 };
  const ownKeys = (target: object) => {
    looks += 1;
    return Reflect.ownKeys(target);
  };
  const publish = Array.from({ length: 50_000 }, () => new Proxy(entry, { ownKeys }));
  t.match(refuse(create, { publish }), /^publish must have at most 256 entries/);
  // The entries that the message shows are looked at, too.
  t.ok(looks <= 52_000, `${looks} entries`);
  t.end();
});
