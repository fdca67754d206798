// The CPU architectures of hosts, with the names that other systems have for them. A guest has its host's architecture.

export type Architecture = {
  /** As Debian, container images and Kubernetes name it. */
  readonly name: 'amd64' | 'arm64';
  /** As messages name it. */
  readonly title: string;
  /** As npm packages with programs name it. */
  readonly npm: 'x64' | 'arm64';
  /** The number in ELF files. */
  readonly elfMachine: number;
  /** File name of the C library's dynamic loader. */
  readonly loader: string;
  /** The serial device that VMMs give a guest as its console. */
  readonly console: string;
  /** Further spellings in container images. */
  readonly aliases: readonly string[];
};

/** By Node's name. */
export const ARCHITECTURES = {
  x64: {
    name: 'amd64',
    title: 'x86-64',
    npm: 'x64',
    elfMachine: 62,
    loader: 'ld-linux-x86-64.so.2',
    console: 'ttyS0',
    aliases: ['x86_64', 'x86-64'],
  },
  arm64: {
    name: 'arm64',
    title: 'arm64',
    npm: 'arm64',
    elfMachine: 183,
    loader: 'ld-linux-aarch64.so.1',
    console: 'ttyAMA0',
    aliases: ['aarch64'],
  },
} as const satisfies Readonly<Record<string, Architecture>>;

/** That of this process. Its build does not exist for other ones. */
export const ARCHITECTURE: Architecture = process.arch === 'arm64' ? ARCHITECTURES.arm64 : ARCHITECTURES.x64;
