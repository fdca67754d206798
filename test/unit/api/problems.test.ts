// The sentence that names what is wrong.
import { checkBody, checkParameters, ROUTES, type Route, sandboxPath, show } from '@sandboxd/api';
import fc from 'fast-check';
import t from 'tap';
import { POOL, refuse } from './support/ask.ts';

const create = ROUTES.createSandbox.body.schema;

t.test('field, expectation, value seen', (t) => {
  t.equal(refuse(create, { memory_mib: 'x' }), 'memory_mib must be an integer from 128 to 65536, got "x"');
  t.equal(
    refuse(create, { vcpus: -1, pull: 'x', network: { enabled: 1 } }),
    'vcpus must be an integer from 1 to 32, got -1; pull must be one of missing, always, never, got "x"; ' +
      'network.enabled must be true or false, got 1',
  );
  t.equal(refuse(create, [1]), 'the body must be a JSON object, got [1]');
  t.equal(refuse(create, 'text'), 'the body must be a JSON object, got "text"');
  t.equal(refuse(ROUTES.exec.body.schema, { cmd: ['x', 1] }), 'cmd[1] must be a string, got 1');
  const { problem = '' } = { problem: undefined, ...checkParameters(sandboxPath, { id: 'sbx_1' }) };
  t.equal(problem, 'sandbox id "sbx_1" is malformed; expected sbx_ and 13 characters of 0-9 and a-v');
  t.end();
});

t.test('it is short whatever comes', (t) => {
  const many = Array.from({ length: 50 }, () => 1);
  t.match(
    refuse(ROUTES.exec.body.schema, { cmd: many }),
    /^cmd\[0\] .*cmd\[4\] must be a string, got 1; and 45 more$/,
  );
  const long = 'x'.repeat(10_000);
  t.ok(refuse(create, { vcpus: long }).length < 160);
  t.ok(refuse(ROUTES.exec.body.schema, { cmd: ['x'], env: { [long]: 1 } }).length < 200);
  // A key of this name takes JSON.stringify off its way without recursion.
  const deep = JSON.parse(`${'[{"toJSON":1,"a":'.repeat(50_000)}1${'}]'.repeat(50_000)}`);
  t.equal(refuse(create, deep), 'the body must be a JSON object, got a value that is nested too deeply');
  t.equal(show(undefined), 'nothing');
  t.end();
});

t.test('so is the search for problems: a body may contain hundreds of thousands of invalid entries', (t) => {
  const numbers = Array.from({ length: 100_000 }, () => 1);
  const variables = Object.fromEntries(numbers.map((each, at) => [`a${at}`, each]));
  const specs = [{ cmd: numbers }, { cmd: numbers.map(() => ({})) }, { cmd: ['x'], env: variables }];
  for (const spec of specs) {
    for (const [schema, body] of [
      [ROUTES.exec.body.schema, spec],
      [ROUTES.configureService.body.schema, spec],
      [create, { service: spec }],
    ] as const) {
      const { error } = schema.safeParse(body);
      t.ok(error !== undefined && error.issues.length <= 1000, `${error?.issues.length} problems`);
    }
  }
  t.end();
});

t.test('a value is shown at most once for each problem that is listed', (t) => {
  const env = Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`a=${at}`, at]));
  let shown = 0;
  const toJSON = (): string => {
    shown += 1;
    return `shown ${shown} times`;
  };
  Object.defineProperty(env, 'toJSON', { enumerable: false, value: toJSON });
  t.match(
    refuse(ROUTES.exec.body.schema, { cmd: ['x'], env }),
    /^env must have names .*got "shown 1 times"; env.* must be a string, got 0; .*; and 996 more$/,
  );
  t.equal(shown, 1);
  t.end();
});

t.test('names and values of a client are no part of the message’s form', (t) => {
  const body = { cmd: ['x'], env: { '{value}': 1, 'a b': 1, a: 'x\0' } };
  t.equal(
    refuse(ROUTES.exec.body.schema, body),
    'env["{value}"] must be a string, got 1; env["a b"] must be a string, got 1; ' +
      'env.a must be a string without a NUL character, got "x\\u0000"',
  );
  t.equal(
    refuse(create, { pull: '$& {name}' }),
    'pull must be one of missing, always, never, got "$& {name}"',
  );
  t.end();
});

t.test('every problem of every body is ours: no text of the library, one line', (t) => {
  const bodies = Object.values<Route>(ROUTES).flatMap(({ body }) =>
    body?.kind === 'json' ? [body.schema] : [],
  );
  const values = fc.oneof(fc.constantFrom(...POOL), fc.jsonValue());
  const names = [
    'cmd',
    'env',
    'cwd',
    'user',
    'tty',
    'vcpus',
    'network',
    'image',
    'publish',
    'service',
    'restart',
    'count',
    'ref',
  ];
  fc.assert(
    fc.property(
      fc.constantFrom(...bodies),
      fc.dictionary(fc.constantFrom(...names), values),
      (schema, body) => {
        const result = checkBody(schema, body);
        if (!result.isValid) {
          t.notMatch(
            result.problem,
            /Invalid|Too (big|small)|expected (string|number|object|array)|\n|undefined/,
          );
        }
      },
    ),
    { numRuns: 2000 },
  );
  t.end();
});
