// A drain that is cancelled and wanted again while the one before it is undone.
import t from 'tap';
import { scaled } from '../support/time-scale.ts';
import { create, drain } from './moves-hosts.ts';
import { eventually, prepareHosts } from './store-hosts.ts';

t.setTimeout(scaled(120_000));

t.test('a drain that is cancelled before the one before it is undone', async (t) => {
  const hosts = await prepareHosts(t);
  const a = await hosts.start();
  const id = await create(a);
  await drain(a);
  const gate = Promise.withResolvers<void>();
  hosts.s3.fault = async () => {
    await gate.promise;
    return undefined;
  };
  const { drain: own } = a.manager.moves;
  await own.cancel();
  const begun = own.begin();
  await eventually(() => own.isWanted);
  await own.cancel();
  gate.resolve();
  await begun;
  t.equal(own.isOn, false);
  t.equal(own.isWanted, false);
  await eventually(() => a.manager.get(id).state === 'running');
});
