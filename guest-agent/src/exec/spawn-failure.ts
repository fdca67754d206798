// The reason why a command did not start, as text.
import { constants } from 'node:os';
import { foreignFormat, missingInterpreter, type ProgramFile } from './program-file.ts';

/** Steps of native/spawn.cc, by their numbers. */
const STAGES = ['', 'process', 'session', 'stdio', 'terminal', 'user', 'directory', 'program'] as const;
type SpawnStage = (typeof STAGES)[number];

/** Where two names have one number, the first name wins: EAGAIN and not EWOULDBLOCK. */
const errorNames = new Map<number, string>(
  Object.entries(constants.errno)
    .reverse()
    .map(([name, number]) => [number, name]),
);

type SpawnFailure = { readonly stage: SpawnStage; readonly code: string };

/** Parses the negative result of the addon's spawn. */
export function parseSpawnFailure(result: number): SpawnFailure {
  return {
    stage: STAGES[Math.trunc(-result / 1000)] ?? '',
    code: errorNames.get(-result % 1000) ?? `errno ${-result % 1000}`,
  };
}

type Attempt = {
  readonly program: string;
  readonly cwd: string;
  readonly path: string;
  /** The file that `program` resolves to, if it exists. */
  readonly file?: ProgramFile | undefined;
};

/** A lower-case sentence for the exit frame. */
export function describeSpawnFailure({ stage, code }: SpawnFailure, attempt: Attempt): string {
  const program = JSON.stringify(attempt.program);
  if (stage === 'directory') {
    const cwd = JSON.stringify(attempt.cwd);
    if (code === 'ENOENT') return `working directory ${cwd} does not exist`;
    if (code === 'ENOTDIR') return `working directory ${cwd} is not a directory`;
    if (code === 'EACCES') return `working directory ${cwd} is not accessible to the user`;
    return `working directory ${cwd} cannot be used: ${code}`;
  }
  if (stage === 'program') {
    const { file } = attempt;
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      if (code === 'ENOENT' && file) return `${program} cannot be executed: ${describeInterpreter(file)}`;
      return attempt.program.includes('/')
        ? `command not found: ${program} does not exist`
        : `command not found: ${program} is not in PATH (${attempt.path})`;
    }
    if (code === 'EACCES')
      return `${program} is not executable: ${file?.isDirectory ? 'it is a directory' : 'permission denied'}`;
    if (code === 'ENOEXEC')
      return `${program} is not executable: exec format error, ${
        (file && foreignFormat(file)) ?? 'and no /bin/sh to run it as a script'
      }`;
    if (code === 'E2BIG')
      return `argument list too long: arguments and environment of ${program} are over the kernel's limit`;
    return `${program} cannot be executed: ${code}`;
  }
  if (stage === 'process' && code === 'EAGAIN')
    return 'no more processes can be started in this guest: its limit is reached';
  if (stage === 'process' && code === 'ENOMEM') return 'not enough memory in the guest to start a process';
  if (stage === 'process' && code === 'ENOSYS')
    return 'the kernel of this guest has no clone3: Linux 5.7 or later is needed';
  return `the command could not be started (${stage}): ${code}`;
}

/** The kernel reports ENOENT although the file exists. */
function describeInterpreter(file: ProgramFile): string {
  const name = missingInterpreter(file);
  if (name === undefined) return `the interpreter that ${file.path} names does not exist`;
  const why = name.endsWith('\r') ? ': its lines end as those of Windows do (CR LF)' : '';
  return `${file.path} needs ${JSON.stringify(name)}, which does not exist${why}`;
}
