// Completions of both commands for three shells, in the files where Debian's shells search for them.
import { BASH, FISH, ZSH } from '../../client/src/command/completions.ts';
import { COMMANDS, GROUPS } from '../../host-agent/src/commands/table.ts';
import { createSettings, toFlag } from '../../host-agent/src/config/settings.ts';
import type { Setting } from '../../host-agent/src/config/values.ts';
import { ENGINE_NAMES } from '../../host-agent/src/engines/index.ts';

type Word = { readonly name: string; readonly help: string };

const SETTINGS: Record<string, Setting<unknown>> = createSettings(ENGINE_NAMES);
const SERVE: readonly Word[] = [
  ...Object.entries(SETTINGS).map(([key, { help }]) => ({ name: toFlag(key), help })),
  { name: '--config', help: 'JSON file of settings' },
  { name: '--print-config', help: 'print the settings in force' },
  { name: '--version', help: 'print the version' },
];
const HELP: Word = { name: '--help', help: 'print this, and exit' };
const TOP: readonly Word[] = [
  { name: 'serve', help: 'run the daemon in the foreground' },
  ...COMMANDS.map(({ name, summary }) => ({ name, help: summary })),
  ...GROUPS.map(({ name, summary }) => ({ name, help: summary })),
];
/** Possible next words, by the words before them. */
const AFTER: Readonly<Record<string, readonly Word[]>> = {
  '': TOP,
  serve: [...SERVE, HELP],
  ...Object.fromEntries(COMMANDS.map(({ name, flags }) => [name, toWords(flags)])),
  ...Object.fromEntries(
    GROUPS.flatMap(({ name, commands }) => [
      [name, commands.map((command) => ({ name: command.name, help: command.summary }))],
      ...commands.map((command) => [`${name} ${command.name}`, toWords(command.flags)] as const),
    ]),
  ),
};

/** File contents by path below /usr/share. */
export function renderCompletions(): Readonly<Record<string, string>> {
  return {
    'bash-completion/completions/sandbox': BASH,
    'bash-completion/completions/sandboxd': bash(),
    'zsh/vendor-completions/_sandbox': ZSH,
    'zsh/vendor-completions/_sandboxd': zsh(),
    'fish/vendor_completions.d/sandbox.fish': FISH,
    'fish/vendor_completions.d/sandboxd.fish': fish(),
  };
}

function toWords(flags: Readonly<Record<string, { readonly help: string }>>): Word[] {
  return [...Object.entries(flags).map(([name, { help }]) => ({ name: `--${name}`, help })), HELP];
}

const names = (words: readonly Word[]) => words.map(({ name }) => name).join(' ');
const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

function bash(): string {
  const cases = Object.entries(AFTER).map(([path, words]) => `    '${path}') words='${names(words)}' ;;`);
  return `# bash completion of sandboxd
_sandboxd() {
  local word=\${COMP_WORDS[COMP_CWORD]} path= words= at
  for ((at = 1; at < COMP_CWORD && at < 3; at++)); do
    case \${COMP_WORDS[at]} in -*) break ;; esac
    path="$path\${path:+ }\${COMP_WORDS[at]}"
  done
  # Operands are not part of the path.
  case $path in
${Object.entries(AFTER)
  .filter(([path]) => path !== '' && !GROUPS.some(({ name }) => name === path))
  .map(([path]) => `    '${path} '*) path='${path}' ;;`)
  .join('\n')}
  esac
  case $path in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _sandboxd sandboxd
`;
}

function zsh(): string {
  const cases = Object.entries(AFTER).map(
    ([path, words]) =>
      `    '${path}') described=(\n${words.map(({ name, help }) => `      ${quote(`${name}:${help.replaceAll(':', '\\:')}`)}`).join('\n')}\n    ) ;;`,
  );
  return `#compdef sandboxd
# zsh completion of sandboxd
local taken=\${(j: :)\${words[2,CURRENT-1]:#-*}}
local -a described
while true; do
  case $taken in
${cases.join('\n')}
    *' '*) taken=\${taken% *}; continue ;;
  esac
  break
done
_describe word described || _files
`;
}

function fish(): string {
  const lines = Object.entries(AFTER).flatMap(([path, words]) => {
    const [group, command] = path.split(' ');
    const isGroup = GROUPS.some(({ name }) => name === group);
    const known = isGroup ? names(AFTER[group ?? ''] ?? []) : '';
    const there =
      path === ''
        ? '__fish_use_subcommand'
        : command === undefined && isGroup
          ? `__fish_seen_subcommand_from ${group}; and not __fish_seen_subcommand_from ${known}`
          : `__fish_seen_subcommand_from ${group}${command === undefined ? '' : `; and __fish_seen_subcommand_from ${command}`}`;
    return words.map(({ name, help }) => {
      const word = name.startsWith('--') ? `-l ${name.slice(2)}` : `-f -a ${name}`;
      return `complete -c sandboxd -n ${quote(there)} ${word} -d ${quote(help)}`;
    });
  });
  return `# fish completion of sandboxd\n${lines.join('\n')}\n`;
}
