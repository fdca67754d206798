// A guest whose memory lies in two parts, as there are no addresses for it below 4 GiB: saved, copied, and the copy saved again.
import t from 'tap';
import type { AnswerOf } from '../support/answers.ts';
import type { SandboxJson } from '../support/api.ts';
import { startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

const MEMORY_MIB = 3584;
const FILL_BYTES = 32 * 2 ** 20;
const PAGE_BYTES = 4096;
/** Bytes that no part of the guest's kernel would have in the same place by chance, and that take an emulated CPU no time. */
const FILL = `seq 1 20000000 | head -c ${FILL_BYTES} > /dev/shm/fill`;
const FREE_ABOVE = "awk '/zone +Normal/ {is = 1} is && /pages free/ {print $3; exit}' /proc/zoneinfo";
const SUM = 'sha256sum < /dev/shm/fill';

t.setTimeout(scaled(400_000));

t.test('a guest of 3.5 GiB has all its memory in copies, and in copies of copies', async (t) => {
  const { api } = await startDaemon(t);
  const snapshot = ({ id }: SandboxJson) =>
    api.call<AnswerOf<'getSnapshot'>>('POST', `/sandboxes/${id}/snapshot`);
  const fork = async ({ id }: { readonly id: string }): Promise<SandboxJson> => {
    const { sandboxes } = await api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${id}/fork`);
    const [child] = sandboxes;
    if (child === undefined) throw new Error('no copy');
    return child;
  };

  const source = await api.create({ memory_mib: MEMORY_MIB });
  t.ok(Number(await api.sh(source.id, "awk '/MemTotal/ {print int($2 / 1024)}' /proc/meminfo")) > 3072);
  t.match(await api.sh(source.id, 'cat /proc/iomem'), /^100000000-[\da-f]{9} : System RAM$/m);
  const freeBefore = Number(await api.sh(source.id, FREE_ABOVE));
  await api.sh(source.id, FILL);
  const taken = (freeBefore - Number(await api.sh(source.id, FREE_ABOVE))) * PAGE_BYTES;
  t.ok(taken > FILL_BYTES / 2, `${taken} bytes of it lie above 4 GiB`);
  const sum = await api.sh(source.id, SUM);

  const first = await snapshot(source);
  const child = await fork(first);
  await api.delete(source.id);
  await api.call('DELETE', `/snapshots/${first.id}`);
  t.equal(await api.sh(child.id, SUM), sum, 'a copy');
  await api.sh(child.id, 'printf other | dd of=/dev/shm/fill bs=1 seek=20000000 conv=notrunc 2> /dev/null');
  const changed = await api.sh(child.id, SUM);
  t.not(changed, sum);

  const second = await snapshot(child);
  const grandchild = await fork(second);
  t.equal(await api.sh(grandchild.id, SUM), changed, 'a copy of it, with what it changed');
  await Promise.all([child, grandchild].map(({ id }) => api.delete(id)));
  await api.call('DELETE', `/snapshots/${second.id}`);
});
