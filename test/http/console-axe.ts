// What every state of the console must be: accessible, and without an error or a refusal of its policy.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Test } from 'tap';
import type { ConsolePage } from './console-daemon.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** No violation of WCAG 2.2 AA, and no error or refusal of the policy. */
export async function assertSound(t: Test, { page }: ConsolePage, where: string): Promise<void> {
  // The debugger evaluates it, to which the page's policy does not apply.
  await page.evaluate(`${AXE}; 0`);
  const found =
    await page.evaluate(`axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'] })
    .then(({ passes, violations }) => passes.length < 5 ? ['it was not tested'] : violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html, any }) =>
      html.slice(0, 120) + ' ' + (any[0]?.message ?? '')).slice(0, 3).join(' | ')))`);
  t.same(found, [], `${where} is accessible`);
  t.same(page.problems, [], `${where} has no errors`);
}
