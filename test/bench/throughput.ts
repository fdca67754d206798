// stdout throughput over REST, against the bare channel.
import { EXEC_FRAME, ExecFrameDecoder } from '@sandboxd/proto';
import type { Daemon } from '../support/daemon.ts';
import type { RawChannel } from './raw-channel.ts';
import { median, type Section, spread } from './stats.ts';

/** MiB/s of one command's output, counted as a client gets it. */
export async function stdoutRate(daemon: Daemon, id: string, sizeMib: number): Promise<number> {
  const startedAt = performance.now();
  const response = await daemon.api.fetch(`/sandboxes/${id}/exec`, {
    method: 'POST',
    body: JSON.stringify({ cmd: ['dd', 'if=/dev/zero', 'bs=256k', `count=${sizeMib * 4}`, 'status=none'] }),
  });
  const decoder = new ExecFrameDecoder();
  let bytes = 0;
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    for (const { type, payload } of decoder.push(chunk))
      if (type === EXEC_FRAME.stdout) bytes += payload.length;
  }
  if (bytes !== sizeMib * 2 ** 20) throw new Error(`${bytes} bytes of ${sizeMib} MiB arrived`);
  return sizeMib / ((performance.now() - startedAt) / 1000);
}

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
  await raw.receive(64);
  await stdoutRate(daemon, id, 64);
  for (let round = 0; round < rounds; round++) {
    rawOut.push(await raw.receive(256));
    stdout.push(await stdoutRate(daemon, id, 256));
    rawIn.push(await raw.send(64));
    for (let n = 0; n < 50; n++) rawEcho.push(await raw.echo(16));
  }
  const ratio = median(stdout.map((rate, index) => rate / (rawOut[index] ?? Number.NaN)));
  return {
    title: 'Throughput',
    note: `${rounds} rounds of 256 MiB out and 64 MiB in, in turn, after a warm-up. Bare channel: a C program at the guest's end of the same virtio-serial port, nothing but bytes. stdout: \`dd if=/dev/zero\` through a pipe, the agent, the daemon and HTTP. Ratio: median of the rounds' ratios; to reach: at least 60 %.`,
    head: ['', 'median (min–max)'],
    rows: [
      ['bare channel, guest → host', spread(rawOut, 0, 'MiB/s')],
      ['bare channel, host → guest', spread(rawIn, 0, 'MiB/s')],
      ['bare channel, 16 bytes there and back', spread(rawEcho, 2, 'ms')],
      ['stdout of a command over REST', spread(stdout, 0, 'MiB/s')],
      ['**stdout ÷ bare channel**', `**${(ratio * 100).toFixed(0)} %**`],
    ],
  };
}
