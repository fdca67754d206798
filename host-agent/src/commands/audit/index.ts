// `sandboxd audit …`: the audit trail.
import { join } from 'node:path';
import { ANCHOR_TABLE, AUDIT_DIR, type Verified, verifyTrail } from '../../audit/index.ts';
import type { Command, Group } from '../command.ts';
import { SHARED_FLAGS, withStore } from '../shared-config.ts';

const verify: Command = {
  name: 'verify',
  operands: '',
  summary: 'verify the whole trail; fails when a line is missing or was changed',
  flags: { ...SHARED_FLAGS, json: { type: 'boolean', help: 'print the result as JSON' } },
  run: async (input) => {
    const found = await withStore(input, (store, dataDir) =>
      verifyTrail(join(dataDir, AUDIT_DIR), store.table(ANCHOR_TABLE)),
    );
    if (input.isSet('json')) process.stdout.write(`${JSON.stringify(toJson(found), null, 2)}\n`);
    else for (const line of describe(found)) process.stdout.write(`${line}\n`);
    if (found.problems.length > 0) process.exitCode = 1;
  },
};

function describe({ lines, files, first, last, problems, notes }: Verified): string[] {
  const range =
    first === undefined || last === undefined
      ? 'there is no audit trail'
      : `lines ${first.seq} (${first.at}) to ${last.seq} (${last.at}), ${lines} in ${files} files`;
  const verdict = problems.length === 0 ? 'nothing is missing or changed' : 'NOT AS IT WAS WRITTEN';
  return [
    `${range}: ${verdict}`,
    ...problems.map((text) => `problem: ${text}`),
    ...notes.map((text) => `note: ${text}`),
  ];
}

function toJson({ lines, files, first, last, problems, notes }: Verified) {
  const toRange = (at: Verified['first']) => at && { seq: at.seq, at: at.at, hash: at.hash };
  return {
    is_intact: problems.length === 0,
    lines,
    files,
    first: toRange(first),
    last: toRange(last),
    problems,
    notes,
  };
}

export const audit: Group = {
  name: 'audit',
  summary: 'The audit trail of requests and refusals (audit/ in the data directory).',
  commands: [verify],
};
