// A VMM that a guest has taken over, while it is saved: the directory for that is the only one in which it makes files then.
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { MEMORY_BYTES, makeFakeHost } from '../support/fake-cloud-hypervisor/host.ts';
import { until } from '../support/until.ts';

t.setTimeout(200_000);
const nothing = async (): Promise<void> => undefined;

t.test(
  'a VMM that makes files of its own while it is saved, or keeps what it has saved, is ended',
  async (t) => {
    const host = makeFakeHost(t);
    const engine = host.engine();
    await engine.probe();
    for (const [kind, why] of [
      ['hoard', 'it makes files of its own while it is saved'],
      ['keep', 'it keeps what it has saved'],
    ] as const) {
      const paths = host.makePaths(kind);
      const vm = await engine.boot(host.bootOptions(paths));
      host.fault({ at: 'vm.snapshot', kind });
      const save = { memoryBytes: MEMORY_BYTES, whilePaused: nothing };
      await t.rejects(vm.save({ dir: host.makeSaveDir(), ...save }), {
        message: `cannot save the VM: its VMM was ended: ${why}`,
      });
      t.match(await vm.exited, { reason: `${why}, as no VMM does` });
      t.same(
        readdirSync(paths.dir).filter((name) => name.startsWith('save-')),
        [],
      );
    }
    // One that is still at it is not waited for.
    const [paths, dir] = [host.makePaths('endless'), host.makeSaveDir()];
    const vm = await engine.boot(host.bootOptions(paths));
    host.fault({ at: 'vm.snapshot', kind: 'hang' });
    const saving = vm.save({ dir, memoryBytes: MEMORY_BYTES, whilePaused: nothing });
    const staging = (): string[] => readdirSync(paths.dir).filter((name) => name.startsWith('save-'));
    await until(() => staging().length > 0);
    // As large as it says, and nothing of it on the disk, would be no matter.
    writeFileSync(join(paths.dir, staging()[0] ?? '', 'memory-ranges'), Buffer.alloc(32 * 2 ** 20, 1));
    await t.rejects(saving, { message: /cannot save the VM/ });
    t.match(await vm.exited, { reason: /^it has saved \d+ bytes where \d+ are enough, as no VMM does$/ });
    host.fault();
  },
);
