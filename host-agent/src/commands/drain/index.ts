// `sandboxd drain`: empties this host through the registry that its daemon follows.
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../../lib/errors.ts';
import {
  type DrainProgress,
  type DrainRecord,
  readDrain,
  wantDrain,
  wantNoDrain,
} from '../../sandboxes/moves/index.ts';
import type { Command } from '../command.ts';
import { loadSharedConfig, SHARED_FLAGS, withStore } from '../shared-config.ts';

const POLL_MS = 500;
/** The daemon follows within a second. */
const DAEMON_MS = 20_000;

export const drain: Command = {
  name: 'drain',
  operands: '',
  summary: 'empty this host: pause its sandboxes into the snapshot store, for other hosts to go on with',
  flags: {
    ...SHARED_FLAGS,
    cancel: { type: 'boolean', help: 'take back what no other host has, and take new sandboxes again' },
    status: { type: 'boolean', help: 'show how far it is, and change nothing' },
    json: { type: 'boolean', help: 'print the result as JSON' },
  },
  run: async (input, signal) => {
    const isJson = input.isSet('json');
    const { snapshotStore, fleet } = loadSharedConfig(input);
    if (snapshotStore === undefined)
      throw new AppError('unsupported', 'sandboxes leave a host through snapshot_store, which is not set');
    // The node is what gateways see.
    if (fleet !== undefined && !input.isSet('status'))
      throw new AppError('unsupported', 'a host of a fleet is drained by `kubectl cordon` of its node');
    await withStore(input, async (store) => {
      const records = store.table<DrainRecord>('drain');
      if (input.isSet('status')) return print(readDrain(records).progress, isJson);
      const isWanted = !input.isSet('cancel');
      await (isWanted ? wantDrain(records) : wantNoDrain(records));
      const startedAt = performance.now();
      for (let shown = ''; !signal.aborted; await sleep(POLL_MS)) {
        const { progress } = readDrain(records);
        if (!isWanted && progress === undefined) return print(progress, isJson);
        const isBegun = progress !== undefined && (progress.state !== 'off') === isWanted;
        if (isWanted && !isBegun && !readDrain(records).isWanted)
          throw new AppError('unsupported', progress?.refusal ?? 'the drain was cancelled');
        if (!isBegun && performance.now() - startedAt > DAEMON_MS)
          throw new AppError('exhausted', 'the daemon does not answer; it goes on with it at its next start');
        if (!isBegun || progress === undefined) continue;
        const line = toLine(progress);
        if (!isJson && line !== shown) process.stderr.write(`${line}\n`);
        shown = line;
        if (isWanted && progress.state === 'drained') return print(progress, isJson);
      }
    });
  },
};

function toLine({ sandboxes, moved, secondsLeft }: DrainProgress): string {
  const count = (state: string) => sandboxes.filter((each) => each.state === state).length;
  const parts = ['waiting', 'copying', 'pausing', 'sending', 'offered', 'stays'].flatMap((state) =>
    count(state) > 0 ? [`${count(state)} ${state}`] : [],
  );
  const left = secondsLeft === undefined ? '' : `; about ${secondsLeft} s left`;
  return `${[...parts, `${moved} moved`].join(', ')}${left}`;
}

function print(progress: DrainProgress | undefined, isJson: boolean): void {
  const shown = progress ?? { state: 'off' as const, moved: 0, sandboxes: [] };
  if (isJson) return void process.stdout.write(`${JSON.stringify(shown, null, 2)}\n`);
  const rows = shown.sandboxes.map(({ id, state, reason }) => [id, state, reason ?? ''].join('  ').trimEnd());
  process.stdout.write(`${[shown.state, ...rows].join('\n')}\n`);
}
