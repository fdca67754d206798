// Names of file systems.

/** By their statfs(2) magic number. */
const NAMES: Readonly<Record<number, string>> = {
  61267: 'ext4',
  1481003842: 'XFS',
  2435016766: 'Btrfs',
  16914836: 'tmpfs',
  2035054128: 'overlay',
  26985: 'NFS',
  801189825: 'ZFS',
};

export function fileSystemName(type: number): string {
  return NAMES[type] ?? `0x${type.toString(16)}`;
}
