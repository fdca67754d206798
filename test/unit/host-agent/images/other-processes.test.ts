// Processes of other containers that work on the same images.
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ImageFiles } from '../../../../host-agent/src/images/files.ts';
import { startElsewhere } from '../../../support/elsewhere.ts';

const MODULE = 'host-agent/src/images/files.ts';

t.test('what a process in another PID namespace works on stays, until it has ended', async (t) => {
  const dir = t.testdir({});
  const files = await ImageFiles.open(dir);
  const list = (name: string) => readdirSync(join(dir, name)).filter((each) => each !== 'blobs');
  const open = `const files = await module.ImageFiles.open(${JSON.stringify(dir)});`;
  const { child, done } = startElsewhere(t, MODULE, `${open} await files.makeWork();`);
  await done;
  const [made] = list('oci');
  await files.sweep([]);
  t.same(list('oci'), [made]);
  const own = await files.makeWork();
  await startElsewhere(t, MODULE, `${open} await files.sweep([]);`).done;
  t.equal(list('oci').length, 2, 'also from within a namespace');
  await own[Symbol.asyncDispose]();
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
  // The kernel ends what is left of the namespace a little later.
  while (list('oci').length > 0) {
    await sleep(20);
    await files.sweep([]);
  }
  await files.sweep([]);
  t.equal(list('owners').length, 1, 'that of this process');
});
