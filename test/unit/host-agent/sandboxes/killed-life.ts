// A daemon without VMs that creates, saves and deletes sandboxes until it is killed.
import { join } from 'node:path';
import type { Test } from 'tap';
import { startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { MemoryHost } from '../../../support/memory-host/engine.ts';

const [root = ''] = process.argv.slice(2);
const t = { setTimeout: () => undefined, teardown: () => undefined } as unknown as Test;
const home = { dataDir: join(root, 'data'), runDir: join(root, 'run'), host: new MemoryHost() };
const { manager } = await startMemoryDaemon(t, { home, templateBudgetBytes: 0 });
const step = () => process.stdout.write('.');
const live = async (): Promise<never> => {
  for (;;) {
    const { id } = await manager.create({});
    step();
    const snapshot = await manager.get(id).snapshot();
    step();
    await manager.delete(id);
    step();
    await manager.deleteSnapshot(snapshot.id);
  }
};
await Promise.all([live(), live(), live()]);
