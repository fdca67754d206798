// Small charts: a line of the last samples, a bar of parts of a whole, and a plot over time with its scale.

const WIDTH = 64;
const HEIGHT = 18;
/** Of a limit, from where on little is left. */
const NEAR = 0.8;

/** `max`: what the full height is. */
export function Sparkline({ values, max }: { readonly values: readonly number[]; readonly max: number }) {
  const top = Math.max(max, ...values);
  const points = values.map((value, at) => {
    const x = WIDTH - (values.length - 1 - at) * (WIDTH / 29);
    return `${x.toFixed(1)},${(HEIGHT - 1 - (value / top) * (HEIGHT - 2)).toFixed(1)}`;
  });
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
      <path class="spark-base" d={`M0 ${HEIGHT - 0.5}H${WIDTH}`} />
      {points.length > 1 && <polyline points={points.join(' ')} />}
    </svg>
  );
}

export type Part = { readonly kind: 'own' | 'shared'; readonly value: number };

export function Bar({ parts, max }: { readonly parts: readonly Part[]; readonly max: number }) {
  let from = 0;
  return (
    <svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect class="bar-base" width="100" height="6" />
      {parts.map(({ kind, value }) => {
        const width = max > 0 ? Math.min(100 - from, (100 * value) / max) : 0;
        const x = from;
        from += width;
        return <rect key={kind} class={`bar-${kind}`} x={x} width={width} height="6" />;
      })}
    </svg>
  );
}

/** How much of a limit is used; its colour says when little is left. */
export function Meter({ value, max }: { readonly value: number; readonly max: number }) {
  const share = max > 0 ? Math.min(1, value / max) : 1;
  const tone = share >= 1 ? 'full' : share >= NEAR ? 'near' : 'fine';
  return (
    <svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect class="bar-base" width="100" height="6" />
      <rect class={`meter-${tone}`} width={100 * share} height="6" />
    </svg>
  );
}

export type PlotLine = { readonly name: string; readonly kind: string; readonly values: readonly number[] };

const PLOT = { width: 480, height: 120 };

/** Lines over the last `slots` samples. The numbers beside the plot are its text for a screen reader. */
export function Plot({
  title,
  lines,
  slots,
  min = 1,
  format,
}: {
  readonly title: string;
  readonly lines: readonly PlotLine[];
  readonly slots: number;
  /** The scale reaches at least this far. */
  readonly min?: number;
  readonly format: (value: number) => string;
}) {
  const top = Math.max(min, ...lines.flatMap(({ values }) => values));
  const toPoint = (value: number, at: number, length: number): string => {
    const x = PLOT.width - (length - 1 - at) * (PLOT.width / (slots - 1));
    return `${x.toFixed(1)} ${(PLOT.height - 2 - (value / top) * (PLOT.height - 4)).toFixed(1)}`;
  };
  return (
    <figure class="plot">
      <figcaption>
        <span class="plot-title">{title}</span>
        {lines.map(({ name, kind, values }) => (
          <span key={name} class={`plot-key plot-key-${kind}`}>
            {name} <b>{values.length === 0 ? '–' : format(values.at(-1) ?? 0)}</b>
          </span>
        ))}
      </figcaption>
      <div class="plot-area">
        <svg viewBox={`0 0 ${PLOT.width} ${PLOT.height}`} preserveAspectRatio="none" aria-hidden="true">
          {[0.25, 0.5, 0.75].map((share) => (
            <path key={share} class="plot-grid" d={`M0 ${PLOT.height * share}H${PLOT.width}`} />
          ))}
          {lines.map(({ name, kind, values }) => (
            <path
              key={name}
              class={`plot-line plot-line-${kind}`}
              d={
                values.length < 2
                  ? ''
                  : `M${values.map((value, at) => toPoint(value, at, values.length)).join('L')}`
              }
            />
          ))}
        </svg>
        <span class="plot-top">{format(top)}</span>
        <span class="plot-bottom">{format(0)}</span>
      </div>
    </figure>
  );
}
