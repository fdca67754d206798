// `sandboxd drain`: empties this host through the registry that its daemon follows. In a fleet it asks the daemon to
// cordon its node, which is what the drain follows there.
import { setTimeout as sleep } from 'node:timers/promises';
import { CORDON_TABLE, findNodeName } from '../../app/open-fleet.ts';
import { askCordon, type CordonRecord, forgetCordon, readCordon } from '../../fleet/index.ts';
import { AppError } from '../../lib/errors.ts';
import {
  type DrainProgress,
  type DrainRecord,
  readDrain,
  wantDrain,
  wantNoDrain,
} from '../../sandboxes/moves/index.ts';
import type { Table } from '../../store/store.ts';
import type { Command } from '../command.ts';
import { loadSharedConfig, SHARED_FLAGS, withStore } from '../shared-config.ts';

const POLL_MS = 500;
/** The daemon follows within a second; the API server of a fleet has five more. */
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
    await withStore(input, async (store) => {
      const records = store.table<DrainRecord>('drain');
      if (input.isSet('status')) return print(readDrain(records).progress, isJson);
      const isWanted = !input.isSet('cancel');
      const node = findNodeName(store) ?? fleet?.name;
      // The node is what gateways and the scheduler see.
      const cordons = node === undefined ? undefined : store.table<CordonRecord>(CORDON_TABLE);
      if (cordons !== undefined) await askCordon(cordons, isWanted);
      else await (isWanted ? wantDrain(records) : wantNoDrain(records));
      const startedAt = performance.now();
      for (let shown = ''; !signal.aborted; await sleep(POLL_MS)) {
        const isAsked = cordons !== undefined && (await isPending(cordons, isWanted));
        const { progress, isWanted: isOn } = readDrain(records);
        if (!isWanted && !isAsked && isOff(progress)) return print(progress, isJson);
        const isBegun = !isAsked && progress !== undefined && (progress.state !== 'off') === isWanted;
        if (isWanted && !isAsked && !isBegun && !isOn)
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

/** Whether the daemon has yet to change its node. AppError upstream when that was refused. */
async function isPending(cordons: Table<CordonRecord>, isCordoned: boolean): Promise<boolean> {
  const request = readCordon(cordons);
  if (request?.refusal === undefined) return request !== undefined;
  // Of another command.
  if (request.isCordoned !== isCordoned) return false;
  await forgetCordon(cordons);
  throw new AppError('upstream', request.refusal);
}

const isOff = (progress: DrainProgress | undefined): boolean =>
  progress === undefined || (progress.state === 'off' && progress.sandboxes.length === 0);

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
