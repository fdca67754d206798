// Sandboxes from container images: a real registry, real guests.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { compileProgram } from '../support/image-program.ts';
import { scaled } from '../support/time-scale.ts';
import { pax } from '../unit/guest-agent/support/tar-blocks.ts';
import { type MadeImage, makeLayout, skopeo, World } from '../unit/host-agent/images/world.ts';

t.setTimeout(scaled(600_000));
const world = new World(t);
const registry = await world.startRegistry();
const daemon = await startDaemon(t, { flags: ['--template-disk-bytes', '0'] });
const { api } = daemon;

const program = compileProgram('gcc', '-static');
const scratch: MadeImage = {
  layers: [
    [
      { name: './', flag: '5', mode: 0o751 },
      { name: 'it', mode: 0o755, content: program },
      { name: 'gone', content: 'x' },
      pax({ uid: '3000000', gid: '1234', mtime: '1500000000' }),
      { name: 'owned', mode: 0o4755, content: 'x' },
      pax({ uid: '3000000', gid: '1234', mtime: '1500000000' }),
      { name: 'hard', flag: '1', target: 'owned', mode: 0o4755 },
    ],
    [{ name: '.wh.gone', content: '' }],
  ],
  config: {
    Entrypoint: ['/it'],
    Cmd: ['serve'],
    Env: ['A=b', 'PATH=/'],
    User: '1234:5',
    WorkingDir: '/made/for/it',
  },
};

t.test('an image from scratch runs: no shell, no /etc, no /tmp, nothing but its program', async (t) => {
  const name = `${registry}/scratch:v1`;
  world.push(name, scratch);
  const { id } = await api.ask('createSandbox', { body: { image: { oci: name } } });
  const status = await api.ask('getService', { params: { id } });
  t.match(status, {
    state: 'running',
    spec: { cmd: ['/it', 'serve'], user: '1234:5', cwd: '/made/for/it', env_exact: true },
  });
  const ran = await api.exec(id, ['it', 'here']);
  t.equal(ran.stdout, 'here uid=0 A=b cwd=/\n', 'the program is found in the PATH of the image');
  const { stdout } = await api.exec(id, ['/it', 'mode', '/', '/owned', '/hard', '/gone']);
  t.same(
    stdout
      .trim()
      .split('\n')
      .map((line) => line.split(' ')[0]),
    ['/', '/owned', '/hard', '/gone'],
  );
  t.match(stdout, /^\/ 40751 0:0 /);
  t.match(stdout, /^\/owned 104755 3000000:1234 1500000000 2$/m);
  t.match(stdout, /^\/hard 104755 3000000:1234 1500000000 2$/m);
  t.match(stdout, /^\/gone missing$/m);
  const { records } = await api.ask('readLogs', { params: { id }, query: { source: 'service' } });
  t.match(records.map((record) => record.text).join(''), /^serve uid=1234 A=b cwd=\/made\/for\/it\n/);

  await t.test('its copies are of the same image, also when that was deleted', async (t) => {
    await api.ask('deleteImage', { params: { ref: name } });
    t.same((await api.ask('listImages')).images, []);
    const snapshot = await api.ask('takeSnapshot', { params: { id } });
    const { sandboxes } = await api.ask('forkSnapshot', { params: { id: snapshot.id }, body: { count: 2 } });
    for (const copy of sandboxes ?? []) {
      t.equal((await api.exec(copy.id ?? '', ['it', 'copy'])).stdout, 'copy uid=0 A=b cwd=/\n');
      await api.ask('deleteSandbox', { params: { id: copy.id ?? '' } });
    }
    await api.ask('deleteSnapshot', { params: { id: snapshot.id } });
  });
  await api.ask('deleteSandbox', { params: { id } });
});

t.test('what was imported runs with another command, and is not pulled', async (t) => {
  const path = world.path('saved.tar');
  skopeo(
    'copy',
    `oci:${makeLayout(world.path('layout'), scratch)}:latest`,
    `docker-archive:${path}:saved/it:v1`,
  );
  const response = await api.fetch('/images/import', { method: 'POST', body: readFileSync(path) });
  t.equal(response.status, 201);
  const body = {
    image: { oci: 'saved/it:v1' },
    pull: 'never' as const,
    service: { cmd: ['/it', 'once'], user: '0' },
  };
  const { id } = await api.ask('createSandbox', { body });
  const read = async () => (await api.ask('getService', { params: { id } })).last_exit?.exit_code;
  t.equal(await read().then((code) => code ?? read()), 0);
  await api.ask('deleteSandbox', { params: { id } });
});

t.test('what is not there, or must not be pulled, is 404; what a registry refuses, 502', async (t) => {
  const create = (image: string, pull?: 'never') =>
    api.ask('createSandbox', { body: { image: { oci: image }, ...(pull && { pull }) } }).then(
      () => 0,
      ({ status }) => status,
    );
  t.equal(await create(`${registry}/scratch:v2`), 502);
  t.equal(await create(`${registry}/other`, 'never'), 404);
  t.equal(await create('sha256:00000000'), 404);
});
