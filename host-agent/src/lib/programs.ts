// Programs that the daemon runs. None gets its environment, in which there may be secrets: only where programs are found, and the
// language in which they speak.
import { type ExecFileOptions, execFile, spawn } from 'node:child_process';

/** What every program may know. */
export function plainEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' };
}

/** As spawn(3) of Node, in the root directory. */
export const startProgram = ((program: string, args: readonly string[], options: object) =>
  spawn(program, args, { cwd: '/', env: plainEnvironment(), ...options })) as typeof spawn;

/** To its end. Rejects, with what it said as `stdout` and `stderr`, when that is not exit code 0. */
export function runProgram(
  program: string,
  args: readonly string[],
  { input, ...options }: ExecFileOptions & { readonly input?: string } = {},
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const env = { ...plainEnvironment(), ...options.env };
  return new Promise((resolve, reject) => {
    const child = execFile(program, args, { ...options, env, encoding: 'utf8' }, (error, stdout, stderr) =>
      error === null ? resolve({ stdout, stderr }) : reject(Object.assign(error, { stdout, stderr })),
    );
    if (input === undefined) return;
    // That it ended early is told by its status.
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(input);
  });
}
