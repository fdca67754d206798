// What steps of a build run in the guest, by its shell and as root.
import { MAX_SANDBOX_ENV_CHARS } from '@sandboxd/api';
import { StepError } from './build-request.ts';

/** Makes the user of E2B's templates. */
export const ADD_USER = `
id user >/dev/null 2>&1 && exit 0
if command -v useradd >/dev/null; then
  useradd -m -s "$(command -v bash || echo /bin/sh)" user || exit 1
elif command -v adduser >/dev/null; then
  adduser -D user || exit 1
fi
if [ -d /etc/sudoers.d ] && id user >/dev/null 2>&1; then
  echo 'user ALL=(ALL:ALL) NOPASSWD: ALL' > /etc/sudoers.d/user && chmod 0440 /etc/sudoers.d/user
fi
exit 0
`;

/** Arguments: directory, owner. One that exists keeps its owner. */
export const MAKE_DIRECTORY = `
[ -d "$1" ] && exit 0
mkdir -p -- "$1" && chown "$2" -- "$1"
`;

/**
 * Arguments: the directory with the archive, the source in it, destination, owner, mode, whether the destination is a
 * directory. As in a Dockerfile: of a directory, its contents are copied.
 */
export const COPY = `
set -eu
staging=$1 source=$2 target=$3 owner=$4 mode=$5 directory=$6
trap 'cd / && rm -rf -- "$staging"' EXIT
command -v tar >/dev/null || { echo 'COPY needs tar, which the template does not have' >&2; exit 1; }
mkdir -- "$staging/files"
cd -- "$staging/files"
tar -xf ../archive --no-same-owner
chown -hR "$owner" .
[ -z "$mode" ] || find . -mindepth 1 ! -type l -exec chmod "$mode" {} +
old_ifs=$IFS IFS=
set -- $source
IFS=$old_ifs
make() { [ -d "$1" ] || { make "$(dirname -- "$1")"; mkdir -- "$1"; chown "$owner" -- "$1"; }; }
[ $# -eq 1 ] || directory=1
for each in "$@"; do
  if [ -d "$each" ] && [ ! -L "$each" ]; then
    make "$target"
    cp -a -- "$each/." "$target/"
  elif [ -e "$each" ] || [ -L "$each" ]; then
    if [ -n "$directory" ] || [ -d "$target" ]; then
      make "$target"
      cp -a -- "$each" "$target/"
    else
      make "$(dirname -- "$target")"
      cp -a -- "$each" "$target"
    fi
  else
    echo "the uploaded files have no $each" >&2
    exit 1
  fi
done
`;

// Variables of a build. Values that name others are bounded, since each step may make them many times longer.

const MAX_VALUE_CHARS = 64 * 1024;
/** Of what a login shell prints. */
const MAX_PRINTED_CHARS = 256 * 1024;
const NAMED = /\\\$|\$(?:\{(\w+)\}|([A-Za-z_]\w*))/g;

type Variables = Readonly<Record<string, string>>;

/**
 * `own` with the pairs. `$NAME` and `${NAME}` in a value are what they were before, in `own` or else in `guest`.
 * StepError.
 */
export function setVariables(
  own: Variables,
  pairs: readonly (readonly [string, string])[],
  guest: ReadonlyMap<string, string>,
): Variables {
  const before = new Map([...guest, ...Object.entries(own)]);
  const after = new Map(Object.entries(own));
  for (const [name, value] of pairs) {
    after.set(name, substitute(name, value, before));
    assertFit(after);
  }
  return Object.fromEntries(after);
}

function substitute(name: string, value: string, known: ReadonlyMap<string, string>): string {
  let chars = value.length;
  // Before the text is made: it may be longer than memory.
  return value.replace(NAMED, (text, braced, bare) => {
    const put = text === '\\$' ? '$' : (known.get(braced ?? bare) ?? '');
    chars += put.length - text.length;
    if (chars > MAX_VALUE_CHARS)
      throw new StepError(
        `the value of ${name.slice(0, 64)} would have more than ${MAX_VALUE_CHARS} characters`,
      );
    return put;
  });
}

function assertFit(variables: ReadonlyMap<string, string>): void {
  let chars = 0;
  for (const [name, value] of variables) chars += name.length + value.length;
  if (chars > MAX_SANDBOX_ENV_CHARS)
    throw new StepError(
      `variables of a template have at most ${MAX_SANDBOX_ENV_CHARS} characters in names and values`,
    );
}

/** What `env` prints, as it comes. */
export class PrintedVariables {
  readonly #pieces: string[] = [];
  #chars = 0;

  /** StepError when it is too much. */
  add(text: string): void {
    this.#chars += text.length;
    if (this.#chars > MAX_PRINTED_CHARS)
      throw new StepError(`the login shell printed more than ${MAX_PRINTED_CHARS} characters of variables`);
    this.#pieces.push(text);
  }

  read(): ReadonlyMap<string, string> {
    const lines = this.#pieces.join('').split('\n');
    return new Map(
      lines.flatMap((line) => {
        const at = line.indexOf('=');
        return at > 0 ? [[line.slice(0, at), line.slice(at + 1)] as const] : [];
      }),
    );
  }
}
