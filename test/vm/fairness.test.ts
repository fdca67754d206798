// A transfer and commands share the one channel: while as much as the channel takes goes in or out, a command comes and
// goes, and the transfer goes on meanwhile. Told by bytes, not by time: how much of the transfer passes beside one command.
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { bigTar, pull, push } from '../support/files.ts';
import { scaled } from '../support/time-scale.ts';

const MIB = 2 ** 20;
const COMMANDS = 12;
/** Far more than ever passes within the test. */
const ENDLESS_BYTES = 12 * 2 ** 30;
/** A command costs a few turns of the channel, each behind at most a stream's window of the transfer, and the guest's CPU. */
const MAX_BYTES_BESIDE_ONE = 64 * MIB;

t.setTimeout(scaled(600_000));
const daemon = await startDaemon(t);
const { api } = daemon;
const { id } = await api.create({ disk_bytes: 16 * 2 ** 30 });

/** Runs commands one after the other; the bytes that passed beside each. */
async function runBeside(passed: () => number): Promise<number[]> {
  const beside: number[] = [];
  for (let n = 0; n < COMMANDS; n++) {
    const before = passed();
    const said = await api.sh(id, `echo ${n}`);
    if (said !== String(n)) throw new Error(`a command said ${said}, not ${n}`);
    beside.push(passed() - before);
  }
  return beside;
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; !condition(); tries++) {
    if (tries > scaled(3000)) throw new Error('the transfer does not begin');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function judge(
  t: { comment(text: string): void; ok(value: boolean, text: string): void },
  beside: number[],
): void {
  const inMib = beside.map((bytes) => (bytes / MIB).toFixed(1));
  t.comment(`MiB of the transfer beside each command: ${inMib.join(' ')}`);
  t.ok(
    Math.max(...beside) < MAX_BYTES_BESIDE_ONE,
    'no command waits for more of the transfer than its turns',
  );
  t.ok(beside.filter((bytes) => bytes > 0).length > COMMANDS / 2, 'nor does the transfer wait for commands');
}

t.test('a command during a large download', async (t) => {
  await api.sh(id, `truncate -s ${ENDLESS_BYTES} /srv/endless`);
  const response = await pull(api, id, '/srv/endless', `&max_bytes=${ENDLESS_BYTES}`);
  let bytes = 0;
  let isOver = false;
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const reading = (async () => {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      bytes += value.length;
    }
  })()
    .catch(() => undefined)
    .finally(() => {
      isOver = true;
    });
  await until(() => bytes > 4 * MIB);
  const beside = await runBeside(() => bytes);
  t.equal(isOver, false, 'the download is still under way');
  judge(t, beside);
  await reader.cancel();
  await reading;
});

t.test('a command during a large upload', async (t) => {
  let bytes = 0;
  const leaving = new AbortController();
  const piece = Buffer.alloc(2 ** 18);
  const archive = bigTar('endless', ENDLESS_BYTES, (length) => {
    bytes += length;
    return piece.subarray(0, length);
  });
  let isOver = false;
  const pushing = push(api, id, '/srv/in', archive, leaving.signal)
    .catch(() => undefined)
    .finally(() => {
      isOver = true;
    });
  await until(() => bytes > 4 * MIB || isOver);
  const beside = await runBeside(() => bytes);
  t.equal(isOver, false, 'the upload is still under way');
  judge(t, beside);
  leaving.abort();
  await pushing;
});
