// Directories for the choice of an engine, and the choice itself among engines of a test.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Logger, pino } from 'pino';
import type { Test } from 'tap';
import { EngineChoice } from '../../host-agent/src/engines/choice.ts';
import { ChoiceCache } from '../../host-agent/src/engines/choice-cache.ts';
import type { MadeEngine } from './made-engines.ts';

const never = new AbortController().signal;
const log = pino({ level: 'silent' });

export function makePlace(t: Test) {
  const dir = mkdtempSync(join(tmpdir(), 'choice-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const [vmlinuxPath, initramfsPath] = [join(dir, 'kernel'), join(dir, 'initramfs')];
  for (const path of [vmlinuxPath, initramfsPath]) writeFileSync(path, path);
  const [cacheDir, scratchDir] = [join(dir, 'cache', 'engines'), join(dir, 'scratch', 'probe')];
  const kernel = { vmlinuxPath, initramfsPath, digest: 'k' };
  const open = (engines: readonly MadeEngine[], signal = never, to: Logger = log) =>
    EngineChoice.open(
      { engines: engines.map(({ asEngine }) => asEngine), kernel, scratchDir, cacheDir, log: to },
      signal,
    );
  return {
    cacheDir,
    scratchDir,
    kernel,
    cache: (engines: readonly MadeEngine[], digest = 'k') =>
      ChoiceCache.open(cacheDir, {
        engines: engines.map(({ asEngine }) => asEngine),
        kernel: { ...kernel, digest },
      }),
    open,
    choose: async (engines: readonly MadeEngine[], signal = never) => {
      const choice = await open(engines, signal);
      await choice.chosen(signal);
      return choice;
    },
  };
}
