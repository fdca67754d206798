// Whether a lab's processor can be believed: guests that boot at once and then use all their memory, until one fails.
// usage, in the lab: node test/lab/stress.ts [rounds]
import type { Api } from '../support/api.ts';
import { makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';

const GUESTS_AT_ONCE = 3;
const MEMORY_MIB = 128;
const rounds = Number(process.argv[2] ?? 20);

const directories = await makeDirectories();
// Without templates each create is a boot.
const daemon = await spawnDaemon(directories, { flags: ['--template-disk-bytes', '0'] });
let failed = 0;
try {
  for (let round = 1; round <= rounds; round++) {
    const startedAt = performance.now();
    const results = await Promise.allSettled(Array.from({ length: GUESTS_AT_ONCE }, () => live(daemon.api)));
    const causes = results.flatMap((result) => (result.status === 'rejected' ? [String(result.reason)] : []));
    if (causes.length > 0) failed++;
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    console.log(
      `round ${round}: ${seconds} s ${causes.length === 0 ? 'ok' : `FAILED: ${causes.join('; ')}`}`,
    );
  }
} finally {
  await daemon.end();
  await removeDirectories(directories);
}
console.log(`${rounds} rounds of ${GUESTS_AT_ONCE} guests, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);

async function live(api: Api): Promise<void> {
  const { id } = await api.create({ memory_mib: MEMORY_MIB });
  try {
    const hog = await api.exec(id, ['sh', '-c', 'head -c 1G /dev/zero | tail -c 1G > /dev/null']);
    if (hog.result?.oom_killed !== true)
      throw new Error(`the hog ended otherwise: ${JSON.stringify(hog.result)}`);
    const said = await api.sh(id, 'seq 20000 | md5sum');
    if (!said.startsWith('e071f70')) throw new Error(`a wrong sum: ${said}`);
  } finally {
    await api.delete(id);
  }
}
