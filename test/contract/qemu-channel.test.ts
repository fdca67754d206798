// The QEMU engine's way to the guest agent: one port for all connections, of this daemon and of those before it.
import t from 'tap';
import { adoptVmm } from '../../host-agent/src/engines/adoption.ts';
import type { Vm } from '../../host-agent/src/engines/engine.ts';
import { QEMU } from '../../host-agent/src/engines/qemu/control.ts';
import { bootQemu } from '../../host-agent/src/engines/qemu/index.ts';
import { makeFakeQemuHost } from '../support/fake-qemu/host.ts';

t.setTimeout(120_000);

async function connectTwice(vm: Vm): Promise<boolean[]> {
  const needs: boolean[] = [];
  for (let n = 0; n < 2; n++) {
    const { link, needsResync } = await vm.openChannel(AbortSignal.timeout(60_000));
    needs.push(needsResync);
    link.start({ data: () => undefined, drain: () => undefined, close: () => undefined });
    link.destroy();
  }
  return needs;
}

t.test('only the first connection of all finds nothing of another in the port', async (t) => {
  const host = makeFakeQemuHost(t);
  const vm = await bootQemu(host.bootOptions(host.makePaths('one')), host.setup);
  t.same(await connectTwice(vm), [false, true]);
  vm.detach();
  const adopted = adoptVmm(QEMU, vm.identity, { log: host.log })!;
  t.same(await connectTwice(adopted), [true, true]);
  await adopted.kill();
});
