// The environment of a command, and the search path of its program.
export const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Value of `name` in a list of `NAME=value`; the last one wins, as in a shell. */
export function environmentValue(env: readonly string[], name: string): string | undefined {
  const entry = env.findLast((candidate) => candidate.startsWith(`${name}=`));
  return entry?.slice(name.length + 1);
}

type EnvironmentOptions = {
  /** The command's user. A uid without an entry in /etc/passwd has no name. */
  readonly user: { readonly home: string; readonly name?: string | undefined };
  readonly hasTerminal: boolean;
  /** Of the variables of a login, only PATH and HOME are added to the environment. */
  readonly isExact: boolean;
  /** Of the guest. */
  readonly shared?: readonly (readonly [name: string, value: string])[];
};

/** Adds what is missing: PATH, HOME, USER, LOGNAME and (for a terminal) TERM, as a login does, and the shared ones. */
export function completeEnvironment(
  env: readonly string[],
  { user, hasTerminal, isExact, shared = [] }: EnvironmentOptions,
): string[] {
  const complete = [...env];
  const provide = (name: string, value: string): void => {
    if (environmentValue(env, name) === undefined) complete.push(`${name}=${value}`);
  };
  provide('PATH', DEFAULT_PATH);
  provide('HOME', user.home);
  if (!isExact && user.name !== undefined) {
    provide('USER', user.name);
    provide('LOGNAME', user.name);
  }
  if (hasTerminal) provide('TERM', 'xterm');
  for (const [name, value] of shared) provide(name, value);
  return complete;
}

/** Candidate files for the program `name`, in order, as in execvp. An empty PATH element is the working directory. */
export function programCandidates(name: string, path: string): string[] {
  if (name === '') return [];
  if (name.includes('/')) return [name];
  return path.split(':').map((directory) => (directory === '' ? `./${name}` : `${directory}/${name}`));
}
