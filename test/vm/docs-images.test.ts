// The examples of docs/images.md, each run as it is written: Docker's registry is one of this machine, as a host's administrator
// would set up a mirror.
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { checkedUrl } from '../support/checked-proxy.ts';
import { startDaemon } from '../support/daemon.ts';
import { compileProgram } from '../support/image-program.ts';
import { scaled } from '../support/time-scale.ts';
import { makeLayout, skopeo, World } from '../unit/host-agent/images/world.ts';

t.setTimeout(scaled(300_000));
const run = promisify(execFile);
const PAGE = resolve(import.meta.dirname, '../../docs/images.md');

t.test('every example of the page on images', async (t) => {
  const world = new World(t);
  const registry = await world.startRegistry();
  const image = {
    layers: [[{ name: 'it', mode: 0o755, content: compileProgram('gcc', '-static') }]],
    config: { Entrypoint: ['/it'] },
  };
  world.push(`${registry}/library/nginx:alpine`, image);
  const home = world.path('home');
  const settings = join(home, '.config/containers');
  mkdirSync(settings, { recursive: true });
  const mirror = `[[registry]]\nprefix = "docker.io"\nlocation = "${registry}"\ninsecure = true\n`;
  writeFileSync(join(settings, 'registries.conf'), mirror);
  const saved = world.path('saved.tar');
  skopeo(
    'copy',
    `oci:${makeLayout(world.path('layout'), image)}:latest`,
    `docker-archive:${saved}:nginx:alpine`,
  );
  const programs = world.path('bin');
  mkdirSync(programs);
  writeFileSync(join(programs, 'docker'), `#!/bin/sh\nexec cat ${saved}\n`, { mode: 0o755 });
  const { api, ...daemon } = await startDaemon(t, { env: { HOME: home } });
  const url = await checkedUrl(t, daemon.url);

  const commands = readFileSync(PAGE, 'utf8')
    .split('\n')
    .flatMap((line) => /^ {4}((?:curl|docker|API=).*)$/.exec(line)?.[1] ?? [])
    .filter((command) => !command.startsWith('API='));
  t.equal(commands.length, 7, 'the examples that are known here');
  const env = { ...process.env, API: url, PATH: `${programs}:${process.env.PATH}` };
  const outputs: string[] = [];
  for (const command of commands) {
    const { stdout } = await run('bash', ['-o', 'pipefail', '-c', command], { env });
    t.notMatch(stdout, /"error"/, command);
    outputs.push(stdout);
  }
  const [created = '', pulled, lines = '', imported, list = '', one, removed] = outputs;
  t.match(await api.ask('getService', { params: { id: JSON.parse(created).id } }), { state: 'running' });
  for (const each of [pulled, imported, one]) t.match(JSON.parse(each ?? ''), { source_ref: 'nginx:alpine' });
  t.match(JSON.parse(lines.trimEnd().split('\n').at(-1) ?? ''), { image: { source_ref: 'nginx:alpine' } });
  const named = ({ images }: { images: { refs?: string[] | undefined }[] | null }) =>
    (images ?? []).flatMap(({ refs = [] }) => refs);
  t.same(named(JSON.parse(list)), ['nginx:alpine'], 'one image has the name, the newest');
  t.equal(removed, '');
  t.same(named(await api.ask('listImages')), []);
});
