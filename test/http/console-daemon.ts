// A daemon with the console, whose sandboxes are in memory, and its page in a browser.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import type { HttpServices } from '../../host-agent/src/http/services.ts';
import { openPage, type Page } from '../support/chromium.ts';
import { testConsole } from '../support/console.ts';
import { type MemoryDaemonOptions, startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { serve } from './support.ts';

export async function serveConsole(
  t: Test,
  changes: Partial<HttpServices> & { readonly port?: number } = {},
  options: MemoryDaemonOptions = {},
) {
  const daemon = await startMemoryDaemon(t, options);
  const served = await serve(t, {
    console: await testConsole(),
    sandboxes: daemon.manager,
    logs: daemon.logs,
    egressLog: daemon.egressLog,
    events: daemon.journal,
    ...changes,
  });
  return { ...served, daemon };
}

export async function openConsole(t: Test, url: string, hash = ''): Promise<ConsolePage> {
  return new ConsolePage(await openPage(t, `${url}/console${hash}`));
}

/** Far above what a page needs on a busy machine. */
const LIMIT_MS = 20_000;

export class ConsolePage {
  readonly page: Page;

  constructor(page: Page) {
    this.page = page;
  }

  /** The text that a user sees. */
  async text(): Promise<string> {
    return String(await this.page.evaluate('document.body.innerText'));
  }

  /** Waits in the page until an expression is true. */
  async until(expression: string, what: string): Promise<void> {
    const isTrue = await this.page.evaluate(`new Promise((resolve) => {
      const end = Date.now() + ${scaled(LIMIT_MS)};
      const test = () => {
        if (${expression}) resolve(true);
        else if (Date.now() > end) resolve(false);
        else setTimeout(test, 20);
      };
      test();
    })`);
    if (isTrue !== true) throw new Error(`timed out waiting for ${what} on: ${await this.text()}`);
  }

  /** Waits until the page shows a text. */
  shows(what: string): Promise<void> {
    return this.until(`document.body?.innerText.includes(${JSON.stringify(what)})`, `the text ${what}`);
  }

  /** Waits until a text is gone. */
  hides(what: string): Promise<void> {
    return this.until(`!document.body?.innerText.includes(${JSON.stringify(what)})`, `the end of ${what}`);
  }

  /** Loads the page again; resolves in the new one. */
  async reload(): Promise<void> {
    await this.page.evaluate('globalThis.isOld = true; location.reload(); 0').catch(() => undefined);
    const isNew = () =>
      this.page.evaluate('globalThis.isOld === undefined && document.body !== null').catch(() => false);
    while ((await isNew()) !== true) await sleep(20);
  }

  async open(hash: string): Promise<void> {
    await this.page.evaluate(`location.hash = ${JSON.stringify(hash)}; 0`);
  }

  /** Clicks the control of that name: its label, or its text. A dialog that is open comes first. */
  async click(name: string): Promise<void> {
    const find = `['dialog[open] button', 'button, a, input']
      .flatMap((selector) => [...document.querySelectorAll(selector)])
      .find((each) => !each.disabled && (each.getAttribute('aria-label') ?? each.textContent.trim()) === ${JSON.stringify(name)})`;
    await this.until(`(${find}) !== undefined`, `the control ${name}`);
    await this.page.evaluate(`(${find}).click(); 0`);
  }

  /** Presses `g` and another key, again where the page took too long for the second one. */
  async go(key: string, what: string): Promise<void> {
    const isShown = `document.body?.innerText.includes(${JSON.stringify(what)})`;
    for (let tries = 0; tries < 10; tries++) {
      await this.page.press('g');
      await this.page.press(key);
      for (let looks = 0; looks < 100; looks++) {
        if ((await this.page.evaluate(isShown)) === true) return;
        await sleep(20);
      }
    }
    throw new Error(`g ${key} does not lead to ${what}`);
  }

  /** Types into the field of that label. */
  async fill(label: string, text: string): Promise<void> {
    const find = `[...document.querySelectorAll('input, textarea, select')].find((each) =>
      (each.getAttribute('aria-label') ?? each.closest('label')?.querySelector('span')?.textContent) ===
      ${JSON.stringify(label)})`;
    await this.until(`(${find}) !== undefined`, `the field ${label}`);
    await this.page.evaluate(`(() => {
      const field = ${find};
      field.focus();
      field.value = ${JSON.stringify(text)};
      field.dispatchEvent(new Event(field.localName === 'select' ? 'change' : 'input', { bubbles: true }));
    })()`);
  }
}
