// What steps of a build run in the guest, by its shell and as root.
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
