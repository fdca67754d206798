// A program: does one thing with the images of a data directory, and is killed at a point on the way.
import { createReadStream } from 'node:fs';
import { pino } from 'pino';
import { openImages } from '../../../../host-agent/src/images/index.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { HELPERS } from '../../../support/helper-programs.ts';

const [what = '', dataDir = '', name = '', point = ''] = process.argv.slice(2);
const kill = (): void => {
  process.kill(process.pid, 'SIGKILL');
  // The signal is on its way; nothing more may happen.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
};
const store = await Store.open(`${dataDir}/state.lmdb`);
const images = await openImages({
  dataDir,
  records: store.table('images'),
  converter: { runtime: HELPERS.runtime, script: HELPERS.converter },
  // Room for one image only, the newest.
  maxBytes: what === 'evict' ? 1 : 0,
  allowedDirs: [],
  faults: { reach: (reached) => reached === point && kill() },
  log: pino({ level: 'silent' }),
});
const onProgress = (line: string) => line.startsWith(point) && kill();
if (what === 'import') await images.import(createReadStream(name), undefined, { onProgress });
else if (what === 'delete') await images.delete(name);
else if (what === 'prune') await images.prune({ keepsNamed: false });
else await images.pull(name, 'missing', { onProgress });
