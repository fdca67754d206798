// `sandbox export` and `import`: snapshots on their way to another host.
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { counted } from '../../images.ts';
import { writeWhole } from '../../platform/whole-file.ts';
import { formatBytes } from '../terminal.ts';
import { UsageError, type Verb } from '../verb.ts';

export const exportSnapshot: Verb = {
  name: 'export',
  operands: '<snapshot>',
  completes: ['snapshot'],
  summary: 'Write a snapshot as one file, for another host',
  details: 'All that was in the memory of its guest is in it, keys and passwords included.',
  flags: {
    output: {
      type: 'string',
      short: 'o',
      placeholder: 'file',
      completes: 'path',
      help: 'the file; - is standard output, which a pipe gets by default',
    },
  },
  count: [1, 1],
  example: 'sandbox export -o work.snap $SNAPSHOT',
  async run({ operands: [id = ''], text }, { client, terminal, signal, isJson }) {
    const to = text('output') ?? '-';
    const isStdout = to === '-';
    if (isStdout && terminal.stdout.isTTY)
      throw new UsageError('a snapshot is nothing to read: name a file with --output, or use a pipe');
    let bytes = 0;
    using progress = terminal.progress(id);
    const body = counted(await client.snapshots.get(id).export({ signal }), (sum) => {
      bytes = sum;
      progress.update(sum);
    });
    if (isStdout) for await (const part of body) await terminal.write(part);
    else await writeWhole(to, body, { signal, mode: 0o600 });
    progress[Symbol.dispose]();
    if (isJson && !isStdout) terminal.printJson({ bytes });
    else terminal.note(`${to}  ${formatBytes(bytes)}`);
    return 0;
  },
};

export const importSnapshot: Verb = {
  name: 'import',
  operands: '<file|->',
  completes: ['path'],
  summary: 'Make a snapshot of what another host exported',
  details:
    'Devices are restored from it: import only what comes from a host that you trust. Engine, its version and CPU model must be those of that host, unless only the disk is used.',
  flags: {
    'disk-only': {
      type: 'boolean',
      help: 'boot it from its disk; what was in its memory is lost',
    },
  },
  count: [1, 1],
  example: 'sandbox import work.snap',
  async run({ operands: [from = ''], isSet }, { client, terminal, signal, isJson }) {
    const isStdin = from === '-';
    const totalBytes = isStdin ? undefined : (await stat(from)).size;
    using progress = terminal.progress(from, totalBytes);
    const made = await client.snapshots.import(isStdin ? terminal.stdin : createReadStream(from), {
      isDiskOnly: isSet('disk-only'),
      onProgress: progress.update,
      signal,
    });
    progress[Symbol.dispose]();
    if (isJson) terminal.printJson(await made.info({ signal }));
    else terminal.print(made.id);
    return 0;
  },
};
