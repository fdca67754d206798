// Configs as people and builders write them, read as Docker and podman read them; what neither takes is refused with its name.
import t from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { makeLayout, World } from './world.ts';

t.setTimeout(scaled(240_000));
const world = new World(t);
const images = await world.openImages(world.path('data'), { allowedDirs: [world.dir] });
t.teardown(() => images.close());

const importOf = (config: unknown, about: Readonly<Record<string, unknown>> = {}) => {
  const layers = [[{ name: 'hello', content: 'hello' }]];
  const layout = makeLayout(world.path('layout'), { layers, config: config as never, about });
  return images.obtainFile(layout).then(({ record }) => record.config);
};

/** What is kept of each. */
const TAKEN: Readonly<Record<string, readonly [config: unknown, kept: object]>> = {
  'a command that is a text': [{ Cmd: 'a b' }, { cmd: ['a b'] }],
  'an entrypoint that is a text': [{ Entrypoint: '/a' }, { entrypoint: ['/a'] }],
  'an empty entrypoint that is a text': [{ Entrypoint: '' }, { entrypoint: [''] }],
  'an empty entrypoint': [
    { Entrypoint: [''], Cmd: ['sh'] },
    { entrypoint: [''], cmd: ['sh'] },
  ],
  'an empty command': [{ Cmd: [''] }, { cmd: [''] }],
  'nulls in a command': [{ Cmd: ['a', null] }, { cmd: ['a', ''] }],
  'nulls in an environment': [{ Env: [null, 'A=b', '__proto__=c'] }, { env: { A: 'b', ['__proto__']: 'c' } }],
  'a label that is null': [{ Labels: { a: null, b: 'c' } }, { labels: { a: '', b: 'c' } }],
  'a port that is null': [{ ExposedPorts: { '80/tcp': null } }, { exposedPorts: ['80/tcp'] }],
  'all that is null': [
    {
      ...{ User: null, Env: null, Entrypoint: null, Cmd: null, WorkingDir: null },
      ...{ ExposedPorts: null, Labels: null, StopSignal: null, Volumes: null, OnBuild: null },
    },
    { user: '', env: {}, entrypoint: [], cmd: [], workdir: '', exposedPorts: [], labels: {}, stopSignal: '' },
  ],
  'a config that is null': [null, { cmd: [], user: '' }],
  'names in another case': [
    { cmd: ['x'], ENTRYPOINT: ['y'], user: 'me' },
    { cmd: ['x'], entrypoint: ['y'], user: 'me' },
  ],
  'names in both cases': [{ Cmd: ['x'], cmd: ['y'] }, { cmd: ['y'] }],
  'what nobody knows': [{ Healthcheck: { Test: ['NONE'] }, Shell: 'sh', Other: 1 }, { cmd: [] }],
};

for (const [name, [config, kept]] of Object.entries(TAKEN)) {
  t.test(`taken: ${name}`, async (t) => {
    const { ...found } = await importOf(config);
    t.match(found, kept);
    for (const [field, value] of Object.entries(kept))
      t.same(found[field as keyof typeof found], value, field);
  });
}

const REFUSED: Readonly<Record<string, readonly [config: unknown, message: RegExp]>> = {
  'a user that is a number': [
    { User: 1000 },
    /its config is not .*: "config.User": expected string, received number$/,
  ],
  'a stop signal that is a number': [
    { StopSignal: 15 },
    /"config.StopSignal": expected string, received number$/,
  ],
  'an environment that is a text': [{ Env: 'A=b' }, /"config.Env": expected an array of texts$/],
  'an environment that is a map': [{ Env: { A: 'b' } }, /"config.Env": expected an array of texts$/],
  'a command that is a map': [{ Cmd: {} }, /"config.Cmd": expected an array of texts$/],
  'a label that is a number': [{ Labels: { a: 1 } }, /"config.Labels.a": expected string, received number$/],
  'labels that are a list': [{ Labels: ['a=b'] }, /"config.Labels": expected record, received array$/],
  'ports that are a list': [
    { ExposedPorts: ['80/tcp'] },
    /"config.ExposedPorts": expected record, received array$/,
  ],
  'a config that is a list': [[], /"config": expected object, received array$/],
};

for (const [name, [config, message]] of Object.entries(REFUSED)) {
  t.test(`refused: ${name}`, async (t) => {
    await t.rejects(importOf(config), { code: 'invalid_argument', message });
  });
}

t.test('a stop signal that Linux lacks is reported when the image is made', async (t) => {
  const lines: string[] = [];
  const layers = [[{ name: 'hello', content: 'hello' }]];
  const layout = makeLayout(world.path('layout'), { layers, config: { StopSignal: 'SIGNONE' } });
  await images.obtainFile(layout, { onProgress: (line) => lines.push(line) });
  t.ok(lines.includes('Linux has no signal "SIGNONE", which the image wants for a stop; SIGTERM is sent'));
});
