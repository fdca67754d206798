// A log that cannot be written loses its lines, and does not affect the daemon.
import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import t from 'tap';

const LOGGER = new URL('../../../../host-agent/src/lib/logger.ts', import.meta.url).href;
const PROGRAM = `
  const { createLogger } = await import(${JSON.stringify(LOGGER)});
  const log = createLogger({ level: 'info', format: process.argv[1] });
  for (let n = 0; n < 5000; n++) log.info({ n }, 'a line of some hundred bytes'.repeat(20));
  await new Promise((resolve) => setTimeout(resolve, 20));
  log.error('once more');
  console.log('alive, ' + (process.memoryUsage().rss < 2 ** 28 ? 'small' : 'large'));
`;

for (const format of ['json', 'pretty']) {
  t.test(`${format} to a device that is full`, async (t) => {
    const full = openSync('/dev/full', 'w');
    const { stdout, status } = spawnSync(process.execPath, ['--input-type=module', '-e', PROGRAM, format], {
      stdio: ['ignore', 'pipe', full],
      encoding: 'utf8',
    });
    closeSync(full);
    t.equal(stdout, 'alive, small\n');
    t.equal(status, 0);
  });
}
