// stdout and stdin of a command over REST, against the bare channel.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EXEC_FRAME, encodeExecFrame } from '@sandboxd/api';
import type { Daemon } from '../support/daemon.ts';
import { makeTar, push } from '../support/files.ts';
import { compileGuestProgram } from '../support/guest-program.ts';
import { RawExec } from '../support/interactive.ts';
import { TIME_SCALE } from '../support/time-scale.ts';
import { PlainClient } from './plain-client.ts';
import { RawChannel } from './raw-channel.ts';
import { median, type Section, spread } from './stats.ts';

const MIB = 2 ** 20;
const OUT_MIB = Math.ceil(256 / TIME_SCALE);
const IN_MIB = Math.ceil(128 / TIME_SCALE);
const WARM_UP_MIB = Math.ceil(64 / TIME_SCALE);

const STDIO = '/bench-stdio';

/** Writes one buffer repeatedly, as the bare program does: this measures the channel, not the source. */
export const writer = (sizeMib: number): string[] => [STDIO, 'write', String(sizeMib * MIB)];
const zeros = (sizeMib: number): string[] => [
  'dd',
  'if=/dev/zero',
  'bs=256k',
  `count=${sizeMib * 4}`,
  'status=none',
];

/** Installs the program that writes and reads in the sandbox. */
export async function installStdio(daemon: Daemon, id: string): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'stdio-'));
  const content = await compileGuestProgram('stdio', dir);
  await rm(dir, { recursive: true });
  const archive = await makeTar([{ name: STDIO.slice(1), mode: 0o755, content }]);
  const { status, error } = await push(daemon.api, id, '/', archive);
  if (status !== 200) throw new Error(`push: ${status} ${error}`);
}

/** MiB/s of one command's output, up to its exit frame. */
export async function stdoutRate(
  daemon: Daemon,
  id: string,
  sizeMib: number,
  cmd: readonly string[] = zeros(sizeMib),
): Promise<number> {
  using client = new PlainClient(daemon.url);
  const body = Buffer.from(JSON.stringify({ cmd }));
  const { ms, wireBytes, tail } = await client.request('POST', `/sandboxes/${id}/exec`, body);
  if (wireBytes < sizeMib * MIB || !tail.includes('"exit_code":0'))
    throw new Error(`${wireBytes} bytes of ${sizeMib} MiB arrived: ${tail}`);
  return sizeMib / (ms / 1000);
}

/** MiB/s of one command's input, until it has printed the received size. */
export async function stdinRate(daemon: Daemon, id: string, sizeMib: number): Promise<number> {
  const startedAt = performance.now();
  const exec = new RawExec(daemon.url, id, { cmd: [STDIO, 'read'] });
  const block = encodeExecFrame(EXEC_FRAME.stdin, Buffer.alloc(65_536, 1));
  for (let sent = 0; sent < sizeMib * MIB; sent += 65_536) await exec.send(block);
  await exec.closeStdin();
  await exec.ended();
  if (exec.text !== String(sizeMib * MIB)) throw new Error(`${exec.text} bytes of ${sizeMib} MiB arrived`);
  return sizeMib / ((performance.now() - startedAt) / 1000);
}

const percent = (part: readonly number[], whole: readonly number[]): string =>
  `**${(median(part.map((rate, index) => rate / (whole[index] ?? Number.NaN))) * 100).toFixed(0)} %**`;

export async function benchThroughput(
  daemon: Daemon,
  id: string,
  { raw, stream }: { readonly raw: RawChannel; readonly stream: RawChannel },
  rounds: number,
): Promise<Section> {
  const rawOut: number[] = [];
  const streamOut: number[] = [];
  const rawPipeOut: number[] = [];
  const rawIn: number[] = [];
  const rawPipe: number[] = [];
  const rawEcho: number[] = [];
  const stdout: number[] = [];
  const stdoutZeros: number[] = [];
  const stdin: number[] = [];
  await installStdio(daemon, id);
  for (let warmUp = 0; warmUp < 6; warmUp++) {
    for (const channel of [raw, stream]) await channel.receive(WARM_UP_MIB);
    await raw.receiveThroughPipe(WARM_UP_MIB);
    await raw.send(WARM_UP_MIB);
    await stdoutRate(daemon, id, OUT_MIB, writer(OUT_MIB));
    await stdinRate(daemon, id, WARM_UP_MIB);
  }
  const stockOut: number[] = [];
  const stockIn: number[] = [];
  for (let round = 0; round < rounds; round++) {
    rawOut.push(await raw.receive(OUT_MIB));
    streamOut.push(await stream.receive(OUT_MIB));
    rawPipeOut.push(await raw.receiveThroughPipe(OUT_MIB));
    stdout.push(await stdoutRate(daemon, id, OUT_MIB, writer(OUT_MIB)));
    stdoutZeros.push(await stdoutRate(daemon, id, OUT_MIB, zeros(OUT_MIB)));
    rawIn.push(await raw.send(IN_MIB));
    rawPipe.push(await raw.sendThroughPipe(IN_MIB));
    stdin.push(await stdinRate(daemon, id, IN_MIB));
    for (let n = 0; n < 50; n++) rawEcho.push(await raw.echo(16));
  }
  {
    await using stock = await RawChannel.open({ isStock: true });
    for (let round = 0; round < rounds; round++) {
      stockOut.push(await stock.receive(Math.ceil(OUT_MIB / 8)));
      stockIn.push(await stock.send(Math.ceil(IN_MIB / 8)));
    }
  }
  return {
    title: 'Throughput',
    note: `${rounds} rounds of ${OUT_MIB} MiB out and ${IN_MIB} MiB in, in turn, after a warm-up. Bare channel: a C program at the guest's end of the same virtio-serial port, nothing but bytes; through a pipe: it passes them on to another C program, or gets them from one, as the agent has to, by plain reads and writes. At the host's end this benchmark reads to the same memory and only counts; as a Node stream: into new memory each time, which was the baseline of earlier versions of this page. stdout: a program that writes one buffer again and again, through a pipe, the agent, the daemon and HTTP; stdin: the way back, over a raw connection, to a program that only reads. Ratio: median of the rounds' ratios; to reach: at least 70 %.`,
    head: ['', 'median (min–max)'],
    rows: [
      ['bare channel, guest → host', spread(rawOut, 0, 'MiB/s')],
      ['the same, read as a Node stream', spread(streamOut, 0, 'MiB/s')],
      ['the same, through a pipe from another program there', spread(rawPipeOut, 0, 'MiB/s')],
      ['bare channel, host → guest', spread(rawIn, 0, 'MiB/s')],
      ['the same, through a pipe to another program there', spread(rawPipe, 0, 'MiB/s')],
      ['bare channel with the processor that the VMM emulates by itself, out', spread(stockOut, 0, 'MiB/s')],
      ['that processor, in', spread(stockIn, 0, 'MiB/s')],
      ['bare channel, 16 bytes there and back', spread(rawEcho, 2, 'ms')],
      ['stdout of a command over REST', spread(stdout, 0, 'MiB/s')],
      ['stdout of `dd if=/dev/zero`', spread(stdoutZeros, 0, 'MiB/s')],
      ['stdin of a command over REST', spread(stdin, 0, 'MiB/s')],
      ['**stdout ÷ bare channel**', percent(stdout, rawOut)],
      ['**stdout ÷ bare channel as a Node stream**', percent(stdout, streamOut)],
      ['**bare channel through a pipe, out ÷ bare channel**', percent(rawPipeOut, rawOut)],
      ['**stdout ÷ bare channel through a pipe**', percent(stdout, rawPipeOut)],
      ['**stdin ÷ bare channel**', percent(stdin, rawIn)],
      ['**bare channel through a pipe, in ÷ bare channel**', percent(rawPipe, rawIn)],
      ['**stdin ÷ bare channel through a pipe**', percent(stdin, rawPipe)],
    ],
  };
}
