// Ports in policies and settings: `8080` or `8000-8999`.
import { MAX_PORT } from '../limits.ts';

type PortRange = { readonly first: number; readonly last: number };

/** Undefined if the text is neither a port nor a range of ports. */
export function parsePortRange(text: string): PortRange | undefined {
  const [, first = '', last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text) ?? [];
  const range = { first: Number(first), last: Number(last) };
  const isRange = first !== '' && range.first >= 1 && range.first <= range.last && range.last <= MAX_PORT;
  return isRange ? range : undefined;
}
