// Results as pages in Markdown: one result, or two side by side.
import type { BenchResult, Cell, Measured, Spread } from './result.ts';

const MIB = 2 ** 20;
/** Below this, two medians are alike: a busy host alone makes such a difference. */
const ALIKE = 0.1;
const MAX_LINE_CHARS = 120;
const MAX_CELL_CHARS = 150;

export function renderPage(result: BenchResult): string {
  const { settings, environment, tiers, idle_copies: copies, until_full: full } = result;
  const { profile, image, memory_mib: memory, vcpus } = settings;
  return [
    `# Benchmark of sandboxd ${result.versions.sandboxd}`,
    '',
    `Made on ${result.made_at.slice(0, 10)} by \`sandboxd bench\` in ${Math.round(result.duration_s)} s.`,
    ...(result.note === undefined ? [] : ['', ...wrap(toText(result.note))]),
    ...(environment.engine.accelerator === 'tcg'
      ? ['', '**Software emulation (TCG): these are not figures of a host with KVM.**']
      : []),
    '',
    ...renderTable(['environment', ''], describeEnvironment(result)),
    '',
    '## Times',
    '',
    ...wrap(
      `Milliseconds from the request to the first command that has run in the guest: profile ${toText(profile)}` +
        `${image === undefined ? '' : `, image ${toText(image)}`}, ${memory} MiB, ${vcpus} vCPU. With fewer ` +
        'than 100 operations, p99 is the slowest.',
    ),
    '',
    ...renderTable(['tier', 'at once', 'p50', 'p95', 'p99', 'operations', 'failures'], tiers.map(renderCell)),
    '',
    '## Idle copies',
    '',
    ...('not_measured' in copies
      ? [`Not measured: ${copies.not_measured}.`]
      : renderTable(
          [`each of ${copies.copies}`, 'median', 'least', 'most'],
          [
            ['memory that it does not share', ...renderSpread(copies.private_bytes)],
            ['memory with shared pages', ...renderSpread(copies.resident_bytes)],
            ['disk', ...renderSpread(copies.layer_bytes)],
          ],
        )),
    ...(full === undefined
      ? []
      : [
          '',
          '## Sandboxes until the host is full',
          '',
          ...wrap(
            `${full.sandboxes}, ended by: ${toText(full.ended_by)}${full.message ? ` (${toText(full.message)})` : ''}.`,
          ),
        ]),
    '',
  ].join('\n');
}

/** The second beside the first. Differences of the environments come first: they may be the reason for all others. */
export function renderComparison(a: BenchResult, b: BenchResult): string {
  const [left, right] = [new Map(describeEnvironment(a)), new Map(describeEnvironment(b))];
  const differences = [...left].filter(([name, value]) => right.get(name) !== value);
  const rows = a.tiers.flatMap((cell) => {
    const other = b.tiers.find((each) => each.tier === cell.tier && each.concurrency === cell.concurrency);
    return other === undefined ? [] : [compareCells(cell, other)];
  });
  const alone = (from: BenchResult, to: BenchResult): string[] =>
    from.tiers
      .filter(
        (cell) => !to.tiers.some((each) => each.tier === cell.tier && each.concurrency === cell.concurrency),
      )
      .map(({ tier, concurrency }) => `${tier} (${concurrency})`);
  const lonely = [...alone(a, b), ...alone(b, a)];
  return [
    '# Comparison',
    '',
    ...(differences.length === 0
      ? ['The environments are alike.']
      : renderTable(
          ['environment', 'a', 'b'],
          differences.map(([name, value]) => [name, value, right.get(name) ?? '']),
        )),
    '',
    '## Times',
    '',
    'Medians in milliseconds. "alike": less than a tenth apart, or the middle halves of both overlap.',
    '',
    ...renderTable(['tier', 'at once', 'a', 'b', 'b ÷ a', '', 'failures a, b'], rows),
    ...(lonely.length === 0 ? [] : ['', `Only in one of them: ${lonely.join(', ')}.`]),
    ...compareCopies(a, b),
    '',
  ].join('\n');
}

function compareCells(a: Cell, b: Cell): string[] {
  const head = [a.tier, String(a.concurrency)];
  const [x, y] = [toMeasured(a)?.ms, toMeasured(b)?.ms];
  const failures = `${toMeasured(a)?.failures.count ?? '–'}, ${toMeasured(b)?.failures.count ?? '–'}`;
  const shown = [x, y].map((each) => (each === undefined ? 'not measured' : toMs(each.p50)));
  if (x === undefined || y === undefined) return [...head, ...shown, '', '', failures];
  const ratio = y.p50 / x.p50;
  const isAlike = Math.abs(ratio - 1) < ALIKE || (x.p25 <= y.p75 && y.p25 <= x.p75);
  const verdict = isAlike ? 'alike' : ratio < 1 ? 'faster' : 'slower';
  return [...head, ...shown, ratio.toFixed(2), verdict, failures];
}

function compareCopies({ idle_copies: a }: BenchResult, { idle_copies: b }: BenchResult): string[] {
  if ('not_measured' in a || 'not_measured' in b) return [];
  const row = (name: string, x: Spread, y: Spread): string[] => [name, toMib(x.p50), toMib(y.p50)];
  return [
    '',
    '## Idle copies',
    '',
    ...renderTable(
      ['each copy, median', 'a', 'b'],
      [
        row('memory that it does not share', a.private_bytes, b.private_bytes),
        row('disk', a.layer_bytes, b.layer_bytes),
      ],
    ),
  ];
}

function describeEnvironment({ environment, versions, settings }: BenchResult): [string, string][] {
  const { engine } = environment;
  return [
    ['sandboxd', versions.sandboxd],
    [
      'engine',
      `${engine.name} ${engine.version}, ${engine.accelerator}${engine.is_jailed ? '' : ', no jail'}`,
    ],
    ['CPU', `${environment.cpus} × ${environment.cpu}${environment.is_virtual_machine ? ', virtual' : ''}`],
    ['memory', `${Math.round(environment.memory_bytes / 2 ** 30)} GiB`],
    ['system', `${environment.system}, Linux ${environment.kernel}, ${environment.architecture}`],
    ['file system', environment.file_system],
    ['load before and after', `${environment.load_before}, ${environment.load_after}`],
    ['sandbox', `${settings.profile}, ${settings.memory_mib} MiB, ${settings.vcpus} vCPU`],
    ['other sandboxes', settings.beside_others ? 'yes' : 'no'],
  ];
}

function renderCell(cell: Cell): string[] {
  const head = [cell.tier, String(cell.concurrency)];
  if ('not_measured' in cell) return [...head, `not measured: ${cell.not_measured}`, '', '', '', ''];
  const { ms, operations, failures, is_cut: isCut } = cell;
  const times = ms === undefined ? ['', '', ''] : [toMs(ms.p50), toMs(ms.p95), toMs(ms.p99)];
  const codes = Object.entries(failures.codes).map(([code, count]) => `${code}: ${count}`);
  const failed = failures.count === 0 ? '0' : `${failures.count} (${codes.join(', ')})`;
  return [...head, ...times, `${operations}${isCut ? ', time was up' : ''}`, failed];
}

function toMeasured(cell: Cell): Measured | undefined {
  return 'not_measured' in cell ? undefined : cell;
}

function renderSpread({ min, p50, max }: Spread): string[] {
  return [p50, min, max].map(toMib);
}

const toMib = (bytes: number): string => `${(bytes / MIB).toFixed(1)} MiB`;
const toMs = (value: number): string => value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);

/** What a daemon or a file says must not change the page. */
function toText(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ').replace(/[|<[\]`*]/g, '\\$&');
}

function toCell(text: string): string {
  return toText(text.length <= MAX_CELL_CHARS ? text : `${text.slice(0, MAX_CELL_CHARS)}…`);
}

function wrap(text: string): string[] {
  const lines = [''];
  for (const word of text.split(' ')) {
    const last = lines.at(-1) ?? '';
    if (last !== '' && last.length + word.length >= MAX_LINE_CHARS) lines.push(word);
    else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`;
  }
  return lines;
}

function renderTable(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string => `| ${cells.map(toCell).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)];
}
