// Processes that are killed while a policy changes, and a daemon that ends: what the new policy does not allow reaches no
// server afterwards, and what it allows soon does again. The numbers are those of the attack list (docs/egress-attacks.md).
import '../../../support/network/own-network.ts';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { openInspectLab } from '../../../support/network/inspect-lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(240_000));
const { lab, seen, open, roots } = await openInspectLab(t);
const READ = { host: 'ok.test', protocol: 'tls', ports: [443], tls: 'inspect', methods: ['GET'] } as const;
const WIDE = { rules: [{ ...READ, paths: ['/a', '/b'] }] };
const NARROW = { rules: [{ ...READ, paths: ['/b'] }] };
/** From the start of the change: some are before its first step, some after its last one. */
const DELAYS_MS = [0, 5, 12, 25, 45];

type Opened = Awaited<ReturnType<typeof open>>;
/** Undefined while there is none. */
function pidOf({ slot }: Opened, suffix: string): number | undefined {
  const record = join(lab.dir, 'egress', basename(slot.namespace) + suffix);
  if (!existsSync(record)) return undefined;
  return (JSON.parse(readFileSync(record, 'utf8').split('\n')[1] || '{}') as { pid?: number }).pid;
}
function kill(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
}
/** Requests without end, of both paths. */
const ASK = `console.log('up'); for (;;) { for (const path of ['/a', '/b']) { const word = await ask('GET', path, { timeout: 4000 }); if (word.startsWith('200')) console.log('passed ' + path); } await new Promise((next) => setTimeout(next, 5)); }`;
const arrived = (path: string) => seen.filter((line) => line.endsWith(`GET ${path}`)).length;

for (const [what, suffix] of [
  ['gateway', '.gateway'],
  ['egressd', ''],
] as const)
  t.test(`106: ${what} killed at each step of a change`, async (t) => {
    const opened = await open(t, WIDE);
    const lines = await opened.background(ASK);
    for (const delayMs of DELAYS_MS) {
      lines.length = 0;
      await until(
        () => lines.includes('passed /a') && lines.includes('passed /b'),
        `requests before ${delayMs}`,
        60_000,
      );
      const pid = pidOf(opened, suffix);
      const changed = opened.change(NARROW);
      await sleep(delayMs);
      kill(pid);
      await changed;
      // One that the server had before is still on its way through the witness.
      await sleep(50);
      const before = arrived('/a');
      lines.length = 0;
      await until(
        () => lines.filter((line) => line === 'passed /b').length >= 3,
        `requests after ${delayMs}`,
        60_000,
      );
      t.equal(arrived('/a'), before, `nothing of the old policy arrives after ${delayMs} ms`);
      await opened.change(WIDE);
    }
  });

t.test(
  '106: with its daemon the gateway ends, nothing is read by another, and the next daemon starts one',
  async (t) => {
    const opened = await open(t, WIDE);
    const lines = await opened.background(ASK);
    await until(() => lines.includes('passed /a'));
    const [gateway, egressd] = [pidOf(opened, '.gateway') ?? 0, pidOf(opened, '')];
    await opened.network.close();
    await until(
      () =>
        !existsSync(`/proc/${gateway}`) ||
        /^State:\s+Z/m.test(readFileSync(`/proc/${gateway}/status`, 'latin1')),
    );
    await sleep(50);
    const before = arrived('/a') + arrived('/b');
    lines.length = 0;
    await sleep(1000);
    t.equal(arrived('/a') + arrived('/b'), before, 'without a daemon nothing passes');
    t.notOk(lines.some((line) => line.startsWith('passed')));
    const next = await lab.openNetwork({}, roots);
    opened.owner.network = next;
    next.adopt(opened.slot);
    await next.start(opened.slot, {
      ...{ allowlist: [], ...NARROW, wasServed: true, generation: 2 },
      authority: opened.authority,
      onDenied: () => undefined,
      onEgress: () => undefined,
    });
    const narrowed = arrived('/a');
    await until(
      () => lines.filter((line) => line === 'passed /b').length >= 3,
      'requests by the next daemon',
      60_000,
    );
    t.equal(arrived('/a'), narrowed, 'by its own policy');
    t.equal(pidOf(opened, ''), egressd, 'egressd outlives the daemon');
    t.not(pidOf(opened, '.gateway'), gateway);
  },
);
