// A part of a page with a title.
import type { ComponentChildren } from 'preact';

export function Panel({
  id,
  title,
  isWide = false,
  children,
}: {
  readonly id: string;
  readonly title: string;
  readonly isWide?: boolean;
  readonly children: ComponentChildren;
}) {
  return (
    <section class={isWide ? 'panel panel-wide' : 'panel'} aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  );
}
