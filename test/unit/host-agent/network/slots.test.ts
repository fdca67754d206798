// Slots of networks: who has one, and whether what a killed daemon left of one is used.
import '../../../support/network/own-network.ts';
import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { parseIpv4Range } from '../../../../host-agent/src/lib/ipv4.ts';
import { Lab, UNHEARD } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(120_000));
const lab = await Lab.open(t);

t.test('one that a daemon was killed in the middle of making again does not exist', async (t) => {
  const runDir = await mkdtemp(join(lab.dir, 'unfinished-'));
  const policy = { allowlist: ['web.example'], ...UNHEARD };
  const first = await lab.openNetwork({ runDir });
  const slot = await first.allocate();
  await first.createAgain(slot);
  await first.close();
  const next = await lab.openNetwork({ runDir });
  next.adopt(slot);
  await next.tidy();
  t.equal(await next.exists(slot), false, 'without its policy');
  await next.createAgain(slot);
  await next.start(slot, policy);
  t.equal(await next.exists(slot), true);
  await next.close();
  const last = await lab.openNetwork({ runDir });
  await last.tidy();
  t.same(existsSync(join(runDir, 'net')) ? readdirSync(join(runDir, 'net')) : [], [], 'nothing of it stays');
  await last.close();
});

t.test('a slot has one owner, and is allocated again when it is cleared and freed', async (t) => {
  const subnet = parseIpv4Range('10.99.0.0/28');
  const network = await lab.openNetwork({ subnet });
  t.teardown(() => network.close());
  const slots = [await network.allocate()];
  for (;;) {
    const next = await network.allocate().catch(() => undefined);
    if (next === undefined) break;
    slots.push(next);
  }
  const [slot] = slots;
  if (slot === undefined) throw new Error('no slot');
  network.adopt(slot);
  t.throws(() => network.adopt({ ...slot }), { code: 'internal', message: /belongs to another sandbox/ });
  network.free(slot);
  await t.rejects(network.allocate(), { code: 'exhausted' }, 'it was not cleared');
  await network.create(slot);
  await network.clear(slot);
  await t.rejects(network.allocate(), { code: 'exhausted' }, 'it was not freed');
  network.free(slot);
  t.same(await network.allocate(), slot);
  for (const each of slots) await network.destroy(each);
});
