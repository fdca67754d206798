// Completions of three shells. Each knows the verbs, their flags, and for ids asks the command itself.
import type { OperandKind, Verb } from './verb.ts';
import { GLOBAL_FLAGS } from './words.ts';

/** What lists the names of a kind. */
const LISTS: Readonly<Record<string, string>> = {
  sandbox: 'sandbox ps -q 2>/dev/null',
  snapshot: 'sandbox snapshots -q 2>/dev/null; sandbox ps -q 2>/dev/null',
  profile:
    "sandbox images --json 2>/dev/null | tr ',[]' '\\n' | sed -n '/profiles/,/images/s/^\"\\([^\":]*\\)\"$/\\1/p'",
  image: 'sandbox images 2>/dev/null | awk \'$2 == "image" { print $1 }\'',
};

type Word = { readonly name: string; readonly help: string };

function flagsOf(verb: Verb): Word[] {
  return Object.entries({ ...verb.flags, ...GLOBAL_FLAGS }).flatMap(([name, { short, help }]) => [
    { name: `--${name}`, help },
    ...(short === undefined ? [] : [{ name: `-${short}`, help }]),
  ]);
}

function namesOf(kind: OperandKind | undefined): string {
  if (kind === undefined || kind === 'path') return '';
  return typeof kind === 'string' ? `$(${LISTS[kind]})` : kind.join(' ');
}

/** The operand that is being written, counted from 0 behind the verb, flags left out. */
export function toBash(verbs: readonly Verb[]): string {
  const cases = verbs.map((verb) => {
    const kinds = verb.completes ?? [];
    const operands = kinds.map((kind, at) => {
      const pattern = at === kinds.length - 1 ? '*' : String(at);
      return `        ${pattern}) names="${namesOf(kind).replaceAll('"', '\\"')}" ;;`;
    });
    return `    ${verb.name})
      flags="${flagsOf(verb)
        .map(({ name }) => name)
        .join(' ')}"
${operands.length === 0 ? '' : `      case $operand in\n${operands.join('\n')}\n      esac\n`}      ;;`;
  });
  return `# bash completion of sandbox
_sandbox() {
  local word=\${COMP_WORDS[COMP_CWORD]} verb=\${COMP_WORDS[1]} operand=0 names= flags= at
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${verbs.map(({ name }) => name).join(' ')} help" -- "$word"))
    return
  fi
  for ((at = 2; at < COMP_CWORD; at++)); do
    case \${COMP_WORDS[at]} in -*) ;; *) operand=$((operand + 1)) ;; esac
  done
  case $verb in
${cases.join('\n')}
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *) COMPREPLY=($(compgen -W "$names" -- "$word")) ;;
  esac
}
complete -o default -F _sandbox sandbox
`;
}

/** Bash's, which zsh can load, with the verbs' summaries. */
export function toZsh(verbs: readonly Verb[]): string {
  const described = verbs.map(({ name, summary }) => `    ${quote(`${name}:${summary}`)}`);
  const cases = verbs.map((verb) => {
    const flags = flagsOf(verb).map(({ name, help }) => `    ${quote(`${name}:${help}`)}`);
    const kinds = verb.completes ?? [];
    const operands = kinds.map((kind, at) => {
      const pattern = at === kinds.length - 1 ? '*' : String(at);
      const names = namesOf(kind);
      return `        (${pattern}) ${names === '' ? '_files' : `compadd -- \${(f)"${names.replace(/^(?!\$)(.*)$/, (list) => `$(printf '%s\\n' ${list})`)}"}`} ;;`;
    });
    return `      ${verb.name})
        if [[ $word == -* ]]; then
          described=(
${flags.join('\n')}
          )
          _describe flag described
          return
        fi
${operands.length === 0 ? '' : `        case $operand in\n${operands.join('\n')}\n        esac\n`}        ;;`;
  });
  return `#compdef sandbox
# zsh completion of sandbox
_sandbox() {
  local word=\${words[CURRENT]} operand=0 each
  local -a described
  if (( CURRENT == 2 )); then
    described=(
${described.join('\n')}
    )
    _describe verb described
    return
  fi
  for each in \${words[3,CURRENT-1]}; do [[ $each == -* ]] || (( operand++ )); done
  case \${words[2]} in
${cases.join('\n')}
  esac
}
compdef _sandbox sandbox
`;
}

export function toFish(verbs: readonly Verb[]): string {
  const lines = verbs.flatMap((verb) => {
    const there = `-n '__fish_seen_subcommand_from ${verb.name}'`;
    const flags = Object.entries({ ...verb.flags, ...GLOBAL_FLAGS }).map(
      ([name, { short, type, help }]) =>
        `complete -c sandbox ${there}${short === undefined ? '' : ` -s ${short}`} -l ${name}${type === 'string' ? ' -r' : ''} -d ${quote(help)}`,
    );
    const operands = (verb.completes ?? [])
      .filter((kind) => kind !== 'path')
      .map((kind) => `complete -c sandbox -f ${there} -a ${quote(namesOf(kind).replace(/^\$/, ''))}`);
    return [
      `complete -c sandbox -f -n __fish_use_subcommand -a ${verb.name} -d ${quote(verb.summary)}`,
      ...flags,
      ...operands,
    ];
  });
  return `# fish completion of sandbox\n${lines.join('\n')}\n`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
