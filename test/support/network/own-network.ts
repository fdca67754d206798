// Import this first. The test file then runs again in its own network and mount namespace, as the host under test, so
// that all changes to networks disappear with it.
import { spawnSync } from 'node:child_process';

if (process.env.OWN_NETWORK === undefined) {
  const program = process.argv[1] ?? '';
  const { status } = spawnSync('unshare', ['--net', '--mount', process.execPath, program], {
    stdio: 'inherit',
    env: { ...process.env, OWN_NETWORK: '1' },
  });
  process.exit(status ?? 1);
}
