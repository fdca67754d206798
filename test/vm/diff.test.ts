// Differences of snapshots of a real guest: what was done in it, also to files of its root image, and right before the
// snapshot.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { runCommand } from '../support/command.ts';
import { startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(900_000));

t.test('what was done between two snapshots, and to a disk that its guest destroyed', async (t) => {
  const daemon = await startDaemon(t);
  const { api, url } = daemon;
  const { id } = await api.create({ memory_mib: 256 });
  const save = async (name: string) => (await api.ask('takeSnapshot', { params: { id }, body: { name } })).id;
  const diff = (from: string, body: object) =>
    api.ask('diffSnapshots', { params: { id: from }, body } as never);
  await api.sh(id, 'mkdir -p /srv/app; echo one > /srv/app/one; echo two > /srv/app/two; echo x > /srv/same');
  const before = await save('before');
  await api.sh(
    id,
    `rm /srv/app/one /etc/hostname; echo changed > /srv/app/two; echo x > /srv/same; chmod 700 /srv
     echo more >> /etc/passwd; mv /opt /opt2; ln -s target /srv/link; touch "/srv/a
b"; chown 5:6 /home; rm -r /mnt; touch /mnt`,
  );
  const after = await save('after');
  const { files } = await diff(before, { with: after });
  const lines = files.map(({ path, change, kind, differs = [] }) =>
    `${change} ${kind} ${path} ${differs}`.trim(),
  );
  t.same(lines, [
    'removed file /etc/hostname',
    'changed file /etc/passwd content',
    'changed directory /home owner',
    'changed file /mnt kind,content,mode',
    'removed directory /opt',
    'added directory /opt2',
    'changed directory /srv mode',
    'added file /srv/a\nb',
    'removed file /srv/app/one',
    'changed file /srv/app/two content',
    'added symlink /srv/link',
  ]);
  t.match(
    files.find(({ path }) => path === '/home'),
    { uid: 5, gid: 6, before: { kind: 'directory', mode: '0755', uid: 0, gid: 0 } },
  );

  await t.test('by the command', async (t) => {
    const { stdout, code } = await runCommand(['diff', 'before', 'after'], { SANDBOXD_HOST: url });
    t.equal(code, 0);
    t.match(stdout, /^D \/etc\/hostname\nM \/etc\/passwd\n/);
    t.match(stdout, /^A \/srv\/a\\nb$/m);
    t.match(stdout, /^A \/opt2\/$/m);
  });

  await t.test('a disk that its guest destroyed', async (t) => {
    // The layer is the second disk. Its blocks that the kernel has in its cache do not matter: the file is on the host.
    await api.sh(id, 'dd if=/dev/urandom of=/dev/vdb bs=64k count=64 conv=notrunc,fsync 2>/dev/null; true');
    const destroyed = await save('destroyed');
    await t.rejects(diff(before, { with: destroyed }), /409|cannot be compared/);
    t.equal((await fetch(`${url}/healthz`)).status, 200);
    t.same((await diff(before, { with: 'before' })).files, []);
  });

  await t.test('it needs the disks of both', async (t) => {
    await api.ask('deleteSnapshot', { params: { id: after } });
    await t.rejects(diff(before, { with: after }), /404|does not exist/);
    const left = await readdir(join(daemon.directories.dataDir, 'snapshots'));
    t.equal(left.length, 2);
  });
});
