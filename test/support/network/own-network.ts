// Import this first: the test file runs again in a network namespace and a mount namespace of its own, as the host of what it
// tests, so that whatever it does to networks goes with it.
import { spawnSync } from 'node:child_process';

if (process.env.OWN_NETWORK === undefined) {
  const program = process.argv[1] ?? '';
  const { status } = spawnSync('unshare', ['--net', '--mount', process.execPath, program], {
    stdio: 'inherit',
    env: { ...process.env, OWN_NETWORK: '1' },
  });
  process.exit(status ?? 1);
}
