// `sandbox export` and `import`: transfer of snapshots between hosts.
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { UsageError } from '@sandboxd/api/command-line';
import { counted } from '../../images.ts';
import { writeWhole } from '../../platform/whole-file.ts';
import { formatBytes } from '../terminal.ts';
import type { Verb } from '../verb.ts';

export const exportSnapshot: Verb = {
  name: 'export',
  operands: '<snapshot|sandbox>',
  completes: ['id'],
  summary: 'Export a snapshot or a paused sandbox as one file for another host',
  details: 'The file contains the memory of the guest, including keys and passwords.',
  flags: {
    output: {
      type: 'string',
      short: 'o',
      placeholder: 'file',
      completes: 'path',
      help: 'output file; -: standard output, the default in a pipe',
    },
  },
  example: 'sandbox export -o work.snap $SNAPSHOT',
  async run({ operands: [id = ''], text }, { client, terminal, signal, isJson }) {
    const to = text('output') ?? '-';
    const isStdout = to === '-';
    if (isStdout && terminal.stdout.isTTY)
      throw new UsageError('a snapshot is nothing to read: name a file with --output, or use a pipe');
    let bytes = 0;
    using progress = terminal.progress(id);
    const source = id.startsWith('snap_') ? client.snapshots.get(id) : client.sandboxes.get(id);
    const body = counted(await source.export({ signal }), (sum) => {
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
  summary: 'Import a snapshot that another host exported',
  details:
    'The file contains device state: import it only from a trusted host. Engine, engine version and CPU model must match that host, except with --disk-only.',
  flags: {
    'disk-only': {
      type: 'boolean',
      help: 'discard its memory, so that its sandboxes boot from its disk',
    },
  },
  example: 'sandbox import work.snap',
  async run({ operands: [from = ''], isSet }, { client, terminal, signal, isJson }) {
    const isStdin = from === '-';
    const totalBytes = isStdin ? undefined : (await stat(from)).size;
    using progress = terminal.progress(from, totalBytes);
    const imported = await client.snapshots.import(isStdin ? terminal.stdin : createReadStream(from), {
      isDiskOnly: isSet('disk-only'),
      onProgress: progress.update,
      signal,
    });
    progress[Symbol.dispose]();
    if (isJson) terminal.printJson(await imported.info({ signal }));
    else terminal.print(imported.id);
    return 0;
  },
};
