// Runs child processes. None inherits the daemon's environment, which may contain secrets: only PATH and a locale.
import { type ExecFileOptions, execFile, spawn } from 'node:child_process';

/** The environment of every child process. */
export function plainEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' };
}

/** Like spawn of Node, with the root directory as working directory. */
export const startProgram = ((program: string, args: readonly string[], options: object) =>
  spawn(program, args, { cwd: '/', env: plainEnvironment(), ...options })) as typeof spawn;

/** Runs a program to its exit. Rejects if the exit code is not 0; the error has `stdout` and `stderr`. */
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
    // An early exit of the program breaks the pipe; its exit code reports the failure.
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(input);
  });
}
