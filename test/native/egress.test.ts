// The parsers of egressd, under sanitizers: mutated hellos and requests.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';

const PROGRAM = join(import.meta.dirname, '../../dist/sanitized/egress-fuzz');
const ROUNDS = process.env.FUZZ_ROUNDS ?? '60000';

for (const seed of ['1', String(Date.now())])
  t.test(`21: mutated hellos and requests are judged without a wrong access, seed ${seed}`, (t) => {
    const { status, stdout, stderr } = spawnSync(PROGRAM, [seed, ROUNDS], { encoding: 'utf8' });
    t.equal(stderr, '');
    t.equal(status, 0);
    const [, whole, allowed] = /^(\d+) whole, (\d+) allowed/.exec(stdout) ?? [];
    t.ok(Number(whole) > Number(ROUNDS) / 20 && Number(allowed) > 0, 'some are whole');
    t.end();
  });
