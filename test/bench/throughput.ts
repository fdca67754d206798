// stdout and stdin of a command over REST, against the bare channel.
import { EXEC_FRAME, ExecFrameDecoder, encodeExecFrame } from '@sandboxd/proto';
import type { Daemon } from '../support/daemon.ts';
import { RawExec } from '../support/interactive.ts';
import type { RawChannel } from './raw-channel.ts';
import { median, type Section, spread } from './stats.ts';

const MIB = 2 ** 20;
const OUT_MIB = 256;
const IN_MIB = 128;

/** Writes the same buffer again and again, as the bare program does: the channel is measured, not the source. */
const writer = (sizeMib: number): string[] => [
  'perl',
  '-e',
  `$x = "x" x 262144; syswrite STDOUT, $x for 1..${sizeMib * 4}`,
];
const zeros = (sizeMib: number): string[] => [
  'dd',
  'if=/dev/zero',
  'bs=256k',
  `count=${sizeMib * 4}`,
  'status=none',
];

/** MiB/s of one command's output, counted as a client gets it. */
export async function stdoutRate(
  daemon: Daemon,
  id: string,
  sizeMib: number,
  cmd: readonly string[] = zeros(sizeMib),
): Promise<number> {
  const startedAt = performance.now();
  const response = await daemon.api.fetch(`/sandboxes/${id}/exec`, {
    method: 'POST',
    body: JSON.stringify({ cmd }),
  });
  const decoder = new ExecFrameDecoder();
  let bytes = 0;
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    for (const { type, payload } of decoder.push(chunk))
      if (type === EXEC_FRAME.stdout) bytes += payload.length;
  }
  if (bytes !== sizeMib * MIB) throw new Error(`${bytes} bytes of ${sizeMib} MiB arrived`);
  return sizeMib / ((performance.now() - startedAt) / 1000);
}

/** MiB/s of one command's input, until it has said how much it got. */
async function stdinRate(daemon: Daemon, id: string, sizeMib: number): Promise<number> {
  const startedAt = performance.now();
  const script = '$n += $got while $got = sysread STDIN, $x, 262144; print $n';
  const exec = new RawExec(daemon.url, id, { cmd: ['perl', '-e', script] });
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
  raw: RawChannel,
  rounds: number,
): Promise<Section> {
  const rawOut: number[] = [];
  const rawIn: number[] = [];
  const rawEcho: number[] = [];
  const stdout: number[] = [];
  const stdoutZeros: number[] = [];
  const stdin: number[] = [];
  for (let warmUp = 0; warmUp < 3; warmUp++) {
    await raw.receive(64);
    await raw.send(64);
    await stdoutRate(daemon, id, 64, writer(64));
    await stdinRate(daemon, id, 64);
  }
  for (let round = 0; round < rounds; round++) {
    rawOut.push(await raw.receive(OUT_MIB));
    stdout.push(await stdoutRate(daemon, id, OUT_MIB, writer(OUT_MIB)));
    stdoutZeros.push(await stdoutRate(daemon, id, OUT_MIB, zeros(OUT_MIB)));
    rawIn.push(await raw.send(IN_MIB));
    stdin.push(await stdinRate(daemon, id, IN_MIB));
    for (let n = 0; n < 50; n++) rawEcho.push(await raw.echo(16));
  }
  return {
    title: 'Throughput',
    note: `${rounds} rounds of ${OUT_MIB} MiB out and ${IN_MIB} MiB in, in turn, after a warm-up. Bare channel: a C program at the guest's end of the same virtio-serial port, nothing but bytes. stdout: a program that writes one buffer again and again, through a pipe, the agent, the daemon and HTTP; stdin: the way back, over a raw connection, to a program that only reads. Ratio: median of the rounds' ratios; to reach: at least 70 %.`,
    head: ['', 'median (min–max)'],
    rows: [
      ['bare channel, guest → host', spread(rawOut, 0, 'MiB/s')],
      ['bare channel, host → guest', spread(rawIn, 0, 'MiB/s')],
      ['bare channel, 16 bytes there and back', spread(rawEcho, 2, 'ms')],
      ['stdout of a command over REST', spread(stdout, 0, 'MiB/s')],
      ['stdout of `dd if=/dev/zero`', spread(stdoutZeros, 0, 'MiB/s')],
      ['stdin of a command over REST', spread(stdin, 0, 'MiB/s')],
      ['**stdout ÷ bare channel**', percent(stdout, rawOut)],
      ['**stdin ÷ bare channel**', percent(stdin, rawIn)],
    ],
  };
}
