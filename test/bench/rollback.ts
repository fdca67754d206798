// Rollbacks against resumes of the same sandbox, and forks of a running sandbox against a snapshot and its forks, in turn.
import type { Daemon } from '../support/daemon.ts';
import { median, type Section, spread } from './stats.ts';

const MEMORY_MIB = 512;

export async function benchRollback(daemon: Daemon, rounds: number): Promise<Section> {
  const { api } = daemon;
  const { id } = await api.create({ memory_mib: MEMORY_MIB });
  await api.sh(id, 'true');
  const { id: snapshot } = await api.ask('takeSnapshot', { params: { id } });
  const timed = async (work: () => Promise<unknown>): Promise<number> => {
    const startedAt = performance.now();
    await work();
    return performance.now() - startedAt;
  };
  const post = (path: string, body = {}) => api.call<{ id: string }>('POST', path, body);
  const pause = () => post(`/sandboxes/${id}/pause`);
  const resume = () => post(`/sandboxes/${id}/resume`);
  const rollback = () => post(`/sandboxes/${id}/rollback`, { snapshot_id: snapshot });
  const forkOf = async (path: string): Promise<void> => {
    const { sandboxes } = await api.call<{ sandboxes: { id: string }[] }>('POST', `${path}/fork`);
    forks.push(...sandboxes.map((fork) => fork.id));
  };
  const forks: string[] = [];
  const both = async (): Promise<void> => {
    const taken = await post(`/sandboxes/${id}/snapshot`);
    await forkOf(`/snapshots/${taken.id}`);
    await api.call('DELETE', `/snapshots/${taken.id}`);
  };
  const times = { resume: [], asleep: [], pause: [], running: [], both: [], fork: [] } as Record<
    string,
    number[]
  >;
  for (let round = 0; round <= rounds; round++) {
    const pauseMs = await timed(pause);
    const resumeMs = await timed(resume);
    await pause();
    const asleepMs = await timed(rollback);
    await api.sh(id, 'true');
    const runningMs = await timed(rollback);
    await api.sh(id, 'true');
    const bothMs = await timed(both);
    const forkMs = await timed(() => forkOf(`/sandboxes/${id}`));
    for (const fork of forks.splice(0)) await api.delete(fork);
    if (round === 0) continue;
    times.pause?.push(pauseMs);
    times.resume?.push(resumeMs);
    times.asleep?.push(asleepMs);
    times.running?.push(runningMs);
    times.both?.push(bothMs);
    times.fork?.push(forkMs);
  }
  await api.delete(id);
  await api.call('DELETE', `/snapshots/${snapshot}`);
  const ratio = (a = '', b = '') =>
    median((times[a] ?? []).map((value, index) => value / (times[b]?.[index] ?? Number.NaN))).toFixed(2);
  const row = (title: string, name: string) => [title, spread(times[name] ?? [], 0, 'ms')];
  return {
    title: 'Rollback and forks of a sandbox',
    note: `${rounds} rounds after one warm-up, in turn, over REST, with a guest of ${MEMORY_MIB} MiB: a pause of all memory and a resume; a rollback of the paused and of the running sandbox; a snapshot, its fork and its delete; a fork of the sandbox. To reach: a rollback at most 1.5 × a resume, a fork at most 1 × snapshot and fork.`,
    head: ['', 'median (min–max)'],
    rows: [
      row('pause, all memory', 'pause'),
      row('resume', 'resume'),
      row('rollback of a paused one', 'asleep'),
      ['**rollback ÷ resume**', `**${ratio('asleep', 'resume')}**`],
      row('rollback of a running one', 'running'),
      row('snapshot, fork, delete of the snapshot', 'both'),
      row('fork of the running sandbox', 'fork'),
      ['**fork ÷ (snapshot + fork)**', `**${ratio('fork', 'both')}**`],
    ],
  };
}
