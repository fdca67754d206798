// Completion scripts for bash, zsh and fish. Each calls `sandbox __complete` (`complete.ts`), which prints one
// candidate per line, with its help after a tab, and `:files` if file names may follow.
import type { Completion } from './complete.ts';
import { toVisible } from './visible.ts';

/** Hidden verb that the scripts call. */
export const COMPLETE_VERB = '__complete';
const FILES = ':files';
/** Only characters that no shell expands, splits or executes. */
const IS_WORD = /^[\w@%+=:,./-]+$/;

export function renderCompletion({ candidates, hasFiles }: Completion): string {
  const lines = candidates
    .filter(({ name }) => IS_WORD.test(name))
    .map(({ name, help }) => (help === undefined ? name : `${name}\t${toVisible(help)}`));
  return [...lines, ...(hasFiles ? [FILES] : [])].map((line) => `${line}\n`).join('');
}

/** A candidate that ends with a colon continues, so no space follows it. */
export const BASH = `# bash completion of sandbox
_sandbox() {
  local line word=\${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      ${FILES})
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$word")
        ;;
      *)
        line=\${line%%$'\\t'*}
        case $line in *:) compopt -o nospace 2>/dev/null ;; esac
        COMPREPLY+=("$line")
        ;;
    esac
  done < <("\${COMP_WORDS[0]}" ${COMPLETE_VERB} "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _sandbox sandbox
`;

/** Loaded with `source`, or found in fpath under the name _sandbox. */
export const ZSH = `#compdef sandbox
# zsh completion of sandbox
_sandbox() {
  local line
  local -a described open
  local -i files=0
  for line in "\${(@f)$("\${words[1]}" ${COMPLETE_VERB} "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      '') ;;
      ${FILES}) files=1 ;;
      *:$'\\t'*) open+=("\${line%%$'\\t'*}") ;;
      *$'\\t'*) described+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}") ;;
      *) described+=("\${line//:/\\\\:}") ;;
    esac
  done
  local -i found=1
  (( \${#described} )) && _describe -V 'sandbox' described && found=0
  (( \${#open} )) && compadd -S '' -- $open && found=0
  (( files )) && _files && found=0
  return found
}
if [[ "\${funcstack[1]}" == _sandbox ]]; then _sandbox "$@"; else compdef _sandbox sandbox; fi
`;

export const FISH = `# fish completion of sandbox
function __sandbox_complete
  set -l before (commandline -opc)
  set -l word "$(commandline -ct)"
  for line in ($before[1] ${COMPLETE_VERB} $before[2..] "$word" 2>/dev/null)
    if test "$line" = ${FILES}
      __fish_complete_path "$word"
    else
      printf '%s\\n' "$line"
    end
  end
end
complete -c sandbox -f -a '(__sandbox_complete)'
`;
