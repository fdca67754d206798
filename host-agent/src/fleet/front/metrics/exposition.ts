// Expositions of several hosts as one: OpenMetrics wants all samples of a family together.

type Family = { readonly metadata: readonly string[]; readonly samples: string[] };

const METADATA = /^# (?:HELP|TYPE|UNIT) ([a-zA-Z_:][\w:]*)/;
const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*?)\})? (?=[^\s{}])/;
/** A label that a series has already is renamed, as Prometheus does. */
const TAKEN = /(^|,)host="/;

export class Exposition {
  readonly #families = new Map<string, Family>();

  /** `host` labels all samples; absent: they are of the gateway. Lines that are not samples are left out. */
  add(text: string, host?: string): void {
    let family: Family = { metadata: [], samples: [] };
    let name: string | undefined;
    let isNew = false;
    for (const line of text.split('\n')) {
      const described = METADATA.exec(line)?.[1];
      if (described !== undefined) {
        if (described !== name) {
          name = described;
          const known = this.#families.get(name);
          isNew = known === undefined;
          family = known ?? { metadata: [], samples: [] };
          this.#families.set(name, family);
        }
        if (isNew) (family.metadata as string[]).push(line);
      } else if (name !== undefined) {
        const sample = host === undefined ? line : withHost(line, host);
        if (sample !== undefined && sample !== '' && !sample.startsWith('#')) family.samples.push(sample);
      }
    }
  }

  toText(): string {
    const parts: string[] = [];
    for (const { metadata, samples } of this.#families.values())
      if (samples.length > 0) parts.push(...metadata, ...samples);
    return `${parts.join('\n')}\n# EOF\n`;
  }
}

/** Names of hosts have no character that a label would have to escape. */
function withHost(line: string, host: string): string | undefined {
  const [head, name, labels = ''] = SAMPLE.exec(line) ?? [];
  if (head === undefined) return undefined;
  const others = labels === '' ? '' : `,${labels.replace(TAKEN, '$1exported_host="')}`;
  return `${name}{host="${host}"${others}} ${line.slice(head.length)}`;
}
