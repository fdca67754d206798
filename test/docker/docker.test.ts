// Debian's Docker in a guest, as docs/kernel-modules.md has it: it builds, runs and publishes, and so does a copy of the guest.
import '../support/network/own-network.ts';
import { execFile, execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { poll } from '../../host-agent/src/lib/wait.ts';
import type { SandboxJson } from '../support/api.ts';
import { startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(900_000));
execFileSync('ip', ['link', 'set', 'lo', 'up']);
const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, '../..');
const PAGE = readFileSync(resolve(ROOT, 'docs/kernel-modules.md'), 'utf8');
const WITH_COMMAND = `${resolve(ROOT, 'dist')}:${process.env.PATH}`;
const soon = () => AbortSignal.timeout(scaled(180_000));

/** Of a program that every guest has, as there is no registry. */
const BUILD = `
mkdir -p /tree/bin /tree/www /build
cp /.sandbox/modprobe /tree/bin/busybox
ln -s busybox /tree/bin/sh
tar -C /tree -c . | docker import - tree
cat > /build/Dockerfile <<'END'
FROM tree
RUN busybox echo built > /www/index.html
CMD ["busybox", "httpd", "-f", "-h", "/www"]
END
docker build -q -t web /build`;

t.test('it builds an image, runs it, and its published port is reached from the host', async (t) => {
  const { api, url } = await startDaemon(t);
  const example = /```sh\n(.*?)```/s.exec(PAGE)?.[1]?.replace(/^sudo .*\n/, '');
  await run('bash', ['-ec', `${example}`], {
    env: { ...process.env, PATH: WITH_COMMAND, SANDBOXD_HOST: url },
  });
  const [{ id } = { id: '' }] = await api.list();
  const facts = '{{.Driver}} {{.CgroupVersion}} {{.CgroupDriver}} {{json .Warnings}}';
  t.equal(await api.sh(id, `docker info -f '${facts}'`), 'overlay2 2 cgroupfs null');
  await api.sh(id, BUILD);
  await api.sh(id, 'docker run -d --name web -p 8080:80 --memory 64m web');
  const read = () =>
    fetch('http://127.0.0.1:8080/')
      .then((answer) => answer.text())
      .catch(() => undefined);
  t.equal(await poll(read, 500, soon()), 'built\n', 'from the host');
  t.equal(await api.sh(id, 'curl -s http://127.0.0.1:8080/'), 'built', 'in the guest');
  t.equal(
    await api.sh(
      id,
      'docker run --rm web busybox wget -qO- http://$(docker inspect -f "{{.NetworkSettings.IPAddress}}" web)/',
    ),
    'built',
    'from another container, over the bridge',
  );
  t.match(await api.sh(id, 'docker exec web busybox cat /sys/fs/cgroup/memory.max'), /^67108864$/);

  const { id: snapshot } = await api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
  const { sandboxes } = await api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${snapshot}/fork`);
  const copy = sandboxes[0]!.id;
  t.equal(
    await api.sh(copy, 'curl -s http://127.0.0.1:8080/; docker ps -q | wc -l'),
    'built\n1',
    'a copy goes on',
  );
  t.equal(await api.sh(copy, 'docker run --rm web busybox cat /www/index.html'), 'built');
  for (const each of [id, copy]) await api.delete(each);
  await api.call('DELETE', `/snapshots/${snapshot}`);
});
