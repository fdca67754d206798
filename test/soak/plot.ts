// Lines of samples as one SVG picture of small plots, with the moments of faults.
export type Line = {
  readonly name: string;
  readonly unit: string;
  readonly values: readonly number[];
  readonly isGrowing: boolean;
};

const WIDTH = 380;
const HEIGHT = 130;
const COLUMNS = 2;
const MARGIN = { left: 58, right: 12, top: 26, bottom: 22 };

/** `minutes`: when each sample was taken. `faults`: indexes of samples whose round had one that ended the daemon. */
export function drawLines(
  lines: readonly Line[],
  minutes: readonly number[],
  kills: readonly number[],
): string {
  const rows = Math.ceil(lines.length / COLUMNS);
  const panels = lines.map((line, at) => {
    const [x, y] = [(at % COLUMNS) * WIDTH, Math.floor(at / COLUMNS) * HEIGHT];
    return `<g transform="translate(${x} ${y})">${drawLine(line, minutes, kills)}</g>`;
  });
  const size = `width="${COLUMNS * WIDTH}" height="${rows * HEIGHT}"`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="10">`,
    '<rect width="100%" height="100%" fill="white"/>',
    ...panels,
    '</svg>\n',
  ].join('\n');
}

function drawLine(
  { name, unit, values, isGrowing }: Line,
  minutes: readonly number[],
  kills: readonly number[],
): string {
  const [from, to] = [Math.min(0, ...values), Math.max(1, ...values)];
  const lastMinute = Math.max(1, ...minutes);
  const plotWidth = WIDTH - MARGIN.left - MARGIN.right;
  const plotHeight = HEIGHT - MARGIN.top - MARGIN.bottom;
  const x = (at: number): string => (MARGIN.left + ((minutes[at] ?? 0) / lastMinute) * plotWidth).toFixed(1);
  const y = (value: number): string =>
    (MARGIN.top + plotHeight - ((value - from) / (to - from)) * plotHeight).toFixed(1);
  const colour = isGrowing ? '#c00' : '#27c';
  const label = (value: number): string =>
    `<text x="${MARGIN.left - 4}" y="${y(value)}" dy="3" text-anchor="end">${showNumber(value)}</text>`;
  const time = (text: string, at: number, anchor: string): string =>
    `<text x="${at}" y="${HEIGHT - 8}" text-anchor="${anchor}" fill="#666">${text}</text>`;
  return [
    `<text x="${MARGIN.left}" y="16" font-weight="bold" fill="${colour}">${escapeText(unit === '' ? name : `${name}, ${unit}`)}</text>`,
    ...kills.map((at) => `<path d="M${x(at)} ${MARGIN.top}v${plotHeight}" stroke="#ddd"/>`),
    `<path d="M${MARGIN.left} ${MARGIN.top}v${plotHeight}h${plotWidth}" fill="none" stroke="#999"/>`,
    label(from),
    label(to),
    `<polyline points="${values.map((value, at) => `${x(at)},${y(value)}`).join(' ')}" fill="none" stroke="${colour}"/>`,
    time('0', MARGIN.left, 'middle'),
    time(`${lastMinute.toFixed(0)} min`, WIDTH - MARGIN.right, 'end'),
  ].join('');
}

function showNumber(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString('en') : value.toFixed(1);
}

function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
