// A stand-in for QEMU that simulates hosts with a broken KVM: guests that should use KVM show the requested fault under
// emulation. All other functions are those of the real program.
import { writeFileSync } from 'node:fs';

export type BadKvm =
  /** Firmware writes to the console, then the guest stops; the VMM stays and answers, as after an internal error. */
  | 'dies'
  /** A guest gets a twentieth of a CPU. */
  | 'crawls'
  /** Boots and saves, but a restored copy starts in firmware. */
  | 'no-restore';

/** Writes the program to `path`. */
export function writeBadKvm(path: string, bad: BadKvm): void {
  writeFileSync(path, SCRIPT.replace('@BAD@', bad), { mode: 0o755 });
}

const SCRIPT = `#!/bin/bash
bad=@BAD@
real=$(PATH=/usr/local/bin:/usr/bin:/bin command -v qemu-system-x86_64)
args=() is_kvm= console=
while [ $# -gt 0 ]; do
  case "$1 $2" in
    '-accel kvm') is_kvm=1; args+=(-accel tcg,tb-size=64); shift 2; continue ;;
    '-cpu host') args+=(-cpu max); shift 2; continue ;;
    '-incoming '*)
      if [ $bad = no-restore ] && [ -n "$is_kvm" ]; then shift 2; continue; fi ;;
    '-chardev file,id=console,path='*) console=\${2#*path=}; console=\${console%,append=on} ;;
  esac
  args+=("$1"); shift
done
halt() {
  printf 'SeaBIOS (version 1.16.2-debian-1.16.2-1)\\r\\nBooting from ROM...\\r\\n' >> "$console"
  exec -a qemu-system-x86_64 "$real" "\${args[@]}" -S
}
if [ -n "$is_kvm" ]; then
  case $bad in
    dies) halt ;;
    crawls)
      vmm=$$
      (
        exec </dev/null >/dev/null 2>&1 3>&-
        while sleep 0.05 && kill -STOP $vmm && sleep 0.95 && kill -CONT $vmm; do :; done
      ) & ;;
  esac
fi
exec -a qemu-system-x86_64 "$real" "\${args[@]}"
`;
