// Push and pull over REST, against the bare channel and against `tar` run through exec, in the same rounds.
import { connect } from 'node:net';
import { EXEC_FRAME, ExecFrameDecoder, encodeExecFrame } from '@sandboxd/api';
import type { Daemon } from '../support/daemon.ts';
import { makeTar, type TarMember } from '../support/files.ts';
import { PlainClient } from './plain-client.ts';
import type { RawChannel, RawHttpChannel } from './raw-channel.ts';
import { median, type Section, spread } from './stats.ts';

const MIB = 2 ** 20;
const SMALL_FILES = 4000;
const DIR = '/bench-files';

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return (performance.now() - startedAt) / 1000;
}

/** Runs `tar x` in the guest with the archive as its stdin. */
async function tarThroughExec(daemon: Daemon, id: string, archive: Buffer, to: string): Promise<void> {
  const { hostname, port, host } = new URL(daemon.url);
  const socket = connect({ host: hostname, port: Number(port) });
  const body = JSON.stringify({ cmd: ['sh', '-c', `mkdir -p ${to} && tar x -C ${to}`] });
  socket.write(
    `POST /sandboxes/${id}/exec?stdin=1 HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  const decoder = new ExecFrameDecoder();
  let isHead = true;
  let exit: string | undefined;
  socket.on('data', (bytes: Buffer) => {
    const at = isHead ? bytes.indexOf('\r\n\r\n') + 4 : 0;
    isHead = false;
    for (const { type, payload } of decoder.push(bytes.subarray(at)))
      if (type === EXEC_FRAME.exit) exit = payload.toString();
  });
  const closed = new Promise((resolve) => socket.once('close', resolve));
  for (let at = 0; at < archive.length; at += 65_536) {
    if (!socket.write(encodeExecFrame(EXEC_FRAME.stdin, archive.subarray(at, at + 65_536))))
      await new Promise((resolve) => socket.once('drain', resolve));
  }
  socket.write(encodeExecFrame(EXEC_FRAME.stdinClose, Buffer.alloc(0)));
  await closed;
  if (!exit?.includes('"exit_code":0')) throw new Error(`tar x: ${exit}`);
}

/** The same channel with different transports. */
type BareChannels = {
  readonly raw: RawChannel;
  readonly stream: RawChannel;
  readonly http: RawHttpChannel;
};

export async function benchFiles(
  daemon: Daemon,
  id: string,
  { raw, stream, http }: BareChannels,
  rounds: number,
  sizeMib = 128,
): Promise<Section> {
  const { api } = daemon;
  const large = await makeTar([{ name: 'large', content: Buffer.alloc(sizeMib * MIB, 'large ') }]);
  const small = await makeTar(
    Array.from(
      { length: SMALL_FILES },
      (_, n): TarMember => ({ name: `d${n % 40}/f${n}`, content: 'x'.repeat((n * 37) % 6000) }),
    ),
  );
  using client = new PlainClient(daemon.url);
  const mustPush = async (path: string, archive: Buffer): Promise<void> => {
    const { status, tail } = await client.request('POST', `/sandboxes/${id}/files?path=${path}`, archive);
    if (status !== 200) throw new Error(`push: ${status} ${tail}`);
  };
  const mustPull = async (path: string, query: string): Promise<void> => {
    const target = `/sandboxes/${id}/files?path=${path}${query}`;
    const { status, tail } = await client.request('GET', target, Buffer.alloc(0));
    if (status !== 200) throw new Error(`pull: ${status} ${tail}`);
  };
  const rates: Record<
    | 'rawIn'
    | 'rawDisk'
    | 'rawHttp'
    | 'rawOut'
    | 'streamOut'
    | 'rawHttpOut'
    | 'rawDiskOut'
    | 'rawHttpDiskOut'
    | 'push'
    | 'ram'
    | 'tarLarge'
    | 'dd'
    | 'pull'
    | 'pullDisk',
    number[]
  > = {
    rawIn: [],
    rawDisk: [],
    rawHttp: [],
    rawOut: [],
    streamOut: [],
    rawHttpOut: [],
    rawDiskOut: [],
    rawHttpDiskOut: [],
    push: [],
    ram: [],
    tarLarge: [],
    dd: [],
    pull: [],
    pullDisk: [],
  };
  const times: Record<'push' | 'tar' | 'pull', number[]> = { push: [], tar: [], pull: [] };
  await api.sh(id, `mkdir -p ${DIR}/ram && mount -t tmpfs -o size=${sizeMib + 16}m t ${DIR}/ram`);
  const query = `&max_bytes=${2 ** 40}`;
  await mustPush(`${DIR}/warm`, small);
  await mustPush(`${DIR}/ram`, large);
  await mustPush(`${DIR}/warm`, large);
  await mustPull(`${DIR}/ram/large`, query);
  await mustPull(`${DIR}/warm/large`, query);
  await http.sendToDisk(sizeMib);
  for (let round = 0; round < rounds; round++) {
    const rate = (seconds: number): number => sizeMib / seconds;
    rates.rawIn.push(await raw.send(sizeMib));
    rates.rawDisk.push(await raw.sendToDisk(sizeMib));
    rates.rawHttp.push(await http.sendToDisk(sizeMib));
    rates.push.push(rate(await timed(() => mustPush(`${DIR}/a`, large))));
    rates.ram.push(rate(await timed(() => mustPush(`${DIR}/ram`, large))));
    rates.tarLarge.push(rate(await timed(() => tarThroughExec(daemon, id, large, `${DIR}/b`))));
    rates.dd.push(
      rate(
        await timed(() => api.sh(id, `dd if=/dev/zero of=${DIR}/c bs=64k count=${sizeMib * 16} status=none`)),
      ),
    );
    rates.rawOut.push(await raw.receive(sizeMib));
    rates.streamOut.push(await stream.receive(sizeMib));
    rates.rawHttpOut.push(await http.receive(sizeMib));
    rates.rawDiskOut.push(await raw.receiveFromDisk(sizeMib));
    rates.rawHttpDiskOut.push(await http.receiveFromDisk(sizeMib));
    rates.pullDisk.push(rate(await timed(() => mustPull(`${DIR}/a/large`, query))));
    rates.pull.push(rate(await timed(() => mustPull(`${DIR}/ram/large`, query))));
    await api.sh(id, `rm -rf ${DIR}/a ${DIR}/b ${DIR}/c ${DIR}/ram/*`);
    times.push.push(await timed(() => mustPush(`${DIR}/s`, small)));
    times.tar.push(await timed(() => tarThroughExec(daemon, id, small, `${DIR}/t`)));
    times.pull.push(await timed(() => mustPull(`${DIR}/s`, '&format=tar')));
    await api.sh(id, `rm -rf ${DIR}/s ${DIR}/t`);
  }
  await api.sh(id, `umount ${DIR}/ram; rm -rf ${DIR}`);
  const ratio = (above: number[], below: number[]): string =>
    `**${(median(above.map((value, n) => value / (below[n] ?? Number.NaN))) * 100).toFixed(0)} %**`;
  return {
    title: 'Files',
    note: `${rounds} rounds in turn, after a warm-up, of one file of ${sizeMib} MiB and of ${SMALL_FILES} files of 0 to 6 KB in 40 directories (${(small.length / MIB).toFixed(0)} MiB of tar). Bare channel: a C program that throws the bytes away, or sends one buffer again and again; at the host's end this very benchmark. Behind HTTP: a Node server of its own that does nothing but pass bytes on, which is what a daemon could at best do. \`dd\`: the guest's own way to its disk, from /dev/zero, no channel. Ratios: median of the rounds'. To reach: 70 % of the bare channel; for many files 100 % or less of the time of \`tar x\` through exec.`,
    head: ['', 'median (min–max)'],
    rows: [
      ['bare channel, host → guest', spread(rates.rawIn, 0, 'MiB/s')],
      ['the same program writes it to a disk, past its page cache', spread(rates.rawDisk, 0, 'MiB/s')],
      ['that again behind an HTTP server that only passes bytes on', spread(rates.rawHttp, 0, 'MiB/s')],
      ['one large file in, to the disk', spread(rates.push, 0, 'MiB/s')],
      ['one large file in, to a tmpfs', spread(rates.ram, 0, 'MiB/s')],
      ['the same through exec, `tar x` to the disk', spread(rates.tarLarge, 0, 'MiB/s')],
      ['`dd` to the disk in the guest', spread(rates.dd, 0, 'MiB/s')],
      ['**in ÷ bare channel** (disk)', ratio(rates.push, rates.rawIn)],
      ['**in ÷ the same program to a disk**', ratio(rates.push, rates.rawDisk)],
      ['**the same program to a disk, behind HTTP ÷ bare channel**', ratio(rates.rawHttp, rates.rawIn)],
      ['**in ÷ the same program to a disk, behind HTTP**', ratio(rates.push, rates.rawHttp)],
      ['**in ÷ `dd` in the guest** (disk)', ratio(rates.push, rates.dd)],
      ['**in ÷ `tar x` through exec** (disk)', ratio(rates.push, rates.tarLarge)],
      ['bare channel, guest → host', spread(rates.rawOut, 0, 'MiB/s')],
      ['the same, read as a Node stream', spread(rates.streamOut, 0, 'MiB/s')],
      [
        'the bare channel behind an HTTP server that only passes bytes on',
        spread(rates.rawHttpOut, 0, 'MiB/s'),
      ],
      [
        'the bare program sends what it reads from a disk, past its page cache',
        spread(rates.rawDiskOut, 0, 'MiB/s'),
      ],
      [
        'that again behind an HTTP server that only passes bytes on',
        spread(rates.rawHttpDiskOut, 0, 'MiB/s'),
      ],
      ['one large file out, from the disk', spread(rates.pullDisk, 0, 'MiB/s')],
      ['one large file out, from a tmpfs', spread(rates.pull, 0, 'MiB/s')],
      ['**out ÷ bare channel** (disk)', ratio(rates.pullDisk, rates.rawOut)],
      ['**out ÷ bare channel** (tmpfs)', ratio(rates.pull, rates.rawOut)],
      ['**the bare program from a disk ÷ bare channel**', ratio(rates.rawDiskOut, rates.rawOut)],
      [
        '**the bare program from a disk, behind HTTP ÷ bare channel**',
        ratio(rates.rawHttpDiskOut, rates.rawOut),
      ],
      [
        '**out ÷ the bare program from a disk, behind HTTP** (disk)',
        ratio(rates.pullDisk, rates.rawHttpDiskOut),
      ],
      ['**out ÷ bare channel as a Node stream** (tmpfs)', ratio(rates.pull, rates.streamOut)],
      ['**bare channel behind HTTP, out ÷ bare channel**', ratio(rates.rawHttpOut, rates.rawOut)],
      ['**out ÷ bare channel behind HTTP** (tmpfs)', ratio(rates.pull, rates.rawHttpOut)],
      ['many small files in', spread(times.push, 2, 's')],
      ['the same through exec, `tar x`', spread(times.tar, 2, 's')],
      ['**time in ÷ time of `tar x` through exec**', ratio(times.push, times.tar)],
      ['many small files out, as tar', spread(times.pull, 2, 's')],
    ],
  };
}
