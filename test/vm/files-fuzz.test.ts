// Damaged and hostile archives pushed into a real guest, 400 of them (4,000 with SOAK=1): the agent survives each, every
// answer is one of the documented ones, and nothing outside the destination changes. FUZZ_SEED=<n> repeats a run.
import { readdirSync } from 'node:fs';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { push } from '../support/files.ts';
import { fuzzArchive, makeDice } from '../support/tar-fuzz.ts';
import { scaled } from '../support/time-scale.ts';

const ARCHIVES = process.env.SOAK === '1' ? 4000 : 400;
/** Destinations that are pushed to at the same time. */
const LANES = 4;
/** Then a lane begins with an empty destination, but for its links. */
const ARCHIVES_PER_DESTINATION = 50;
const seed = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 32));

/** What docs/files.md says that can be wrong with an archive. */
const REASONS: readonly RegExp[] = [
  /leads out of the destination/,
  /is a symbolic link to .*(out of the destination|which is not a file name)/,
  /is a hard link.*(to a directory|does not exist|another file system|goes through|out of the destination|destination itself|is a directory|not permitted|too long|not a file name|too many)/,
  /may not be in an archive that is pushed/,
  /is of the type .*, which is not known/,
  /is too long a name/,
  /is not a file name/,
  /continues a file of another archive/,
  /is the destination itself/,
  /goes through (something that is not a directory|too many symbolic links)/,
  /is a directory/,
  /does not exist/,
  /is in the way/,
  /the guest's (disk is full|file system allows)/,
  /is refused by its file system/,
  /the archive is (cut off|damaged)/,
  /this is not a tar archive/,
  /this is (zstd|xz|bzip2|zip); send/,
  /the body is empty/,
  /a sparse member has more than/,
  /an extended header/,
];
const ENDING = /; \d+ (file was|files were) written before$/;

t.setTimeout(scaled(ARCHIVES * 200 + 300_000));

t.test(`${ARCHIVES} archives of the seed ${seed}`, async (t) => {
  const daemon = await startDaemon(t);
  const { api } = daemon;
  const { id } = await api.create();
  await api.sh(id, 'mkdir -p /fuzz/outside && echo outside > /fuzz/outside/f && mkdir /fuzz/dest');
  /** Change times cannot be set: whatever is done to a file or directory shows there. */
  const outside = (): Promise<string> =>
    api.sh(
      id,
      "find / /run -xdev \\( -path /fuzz/dest -o -path /proc \\) -prune -o -printf '%p %y %m %U %G %n %s %C@ %l\\n' | sort",
    );
  const levels = async () => {
    const [boot, fds, processes] = (
      await api.sh(
        id,
        'cat /proc/sys/kernel/random/boot_id; ls /proc/1/fd | wc -l; cat /proc/1/task/*/children | wc -w',
      )
    ).split('\n');
    return { boot, fds: Number(fds), processes: Number(processes) };
  };
  const empty = (lane: string): Promise<string> =>
    api.sh(
      id,
      `rm -rf ${lane} && mkdir -p ${lane}/sub && cd ${lane} && ln -s /fuzz/outside out && ln -s / abs && ln -s .. up && ln -s sub inside && ln -s loop loop`,
    );
  const [before, atFirst] = [await outside(), await levels()];
  t.ok(before.split('\n').length > 1000, 'the guest is looked at whole');
  t.equal(await outside(), before, 'by itself nothing changes');

  const counts: Record<string, number> = {};
  const surprises: string[] = [];
  const work = async (lane: number): Promise<void> => {
    const path = `/fuzz/dest/${lane}`;
    for (let n = 0; n < ARCHIVES / LANES; n++) {
      if (n % ARCHIVES_PER_DESTINATION === 0) await empty(path);
      const number = n * LANES + lane;
      const bytes = fuzzArchive(makeDice(seed + number));
      const { status, error, push: result } = await push(api, id, path, bytes);
      const reason = REASONS.findIndex((pattern) => pattern.test(error));
      const isExpected = result !== undefined || (status === 400 && reason >= 0 && ENDING.test(error));
      if (!isExpected) surprises.push(`archive ${number}: ${status} ${error}`);
      const kind = result === undefined ? String(REASONS[reason]) : 'taken';
      counts[kind] = (counts[kind] ?? 0) + 1;
      if (number > 0 && number % 2000 === 0) process.stderr.write(`${number} of ${ARCHIVES} archives\n`);
    }
  };
  await Promise.all(Array.from({ length: LANES }, (_, lane) => work(lane)));

  t.comment(`answers: ${JSON.stringify(counts, null, 1)}`);
  t.same(surprises.slice(0, 20), [], `${surprises.length} answers that are not documented`);
  t.ok((counts.taken ?? 0) > ARCHIVES / 20, 'some archives are right by chance');
  t.ok(Object.keys(counts).length > 8, 'many ways of being wrong were met');
  const after = await outside();
  t.equal(after === before ? '' : difference(before, after), '', 'outside nothing changed');
  t.same(await levels(), atFirst, 'the same boot, descriptors and processes');
  t.same(
    daemon.log.filter(({ msg }) => msg === 'the connection to the guest agent broke'),
    [],
    'the agent was there all the time',
  );
  t.ok(readdirSync(`/proc/${daemon.pid}/fd`).length < 100, 'nor does the daemon keep descriptors');
});

function difference(before: string, after: string): string {
  const [a, b] = [new Set(before.split('\n')), new Set(after.split('\n'))];
  return [...[...a].filter((line) => !b.has(line)), ...[...b].filter((line) => !a.has(line))]
    .slice(0, 20)
    .join('\n');
}
