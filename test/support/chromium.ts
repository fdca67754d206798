// A page in headless Chromium (a Debian package), controlled by the DevTools protocol over its pipe.
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { Test } from 'tap';

const PROGRAMS = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];
const FLAGS = [
  '--headless',
  '--remote-debugging-pipe',
  // Tests run as root, and load only pages that they serve themselves.
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-background-networking',
  '--no-first-run',
];

const CODES: Readonly<Record<string, number>> = {
  ...{ Enter: 13, Escape: 27, Tab: 9 },
  ...{ ArrowLeft: 37, ArrowUp: 38, ArrowRight: 39, ArrowDown: 40 },
};

type Message = {
  readonly id?: number;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: { readonly [name: string]: unknown };
  readonly error?: { readonly message: string };
};
type Evaluated = { readonly value?: unknown };
type Thrown = { readonly exception?: { readonly description?: string }; readonly text: string };

export class Page {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (message: Message) => void>();
  readonly #heard = new Set<(message: Message) => void>();
  #session: string | undefined;
  /** Errors of the page's scripts, and what its policy refused. */
  readonly problems: string[] = [];
  #count = 0;

  constructor(child: ChildProcess) {
    this.#child = child;
    let pending = '';
    (child.stdio[4] as Readable).setEncoding('utf8').on('data', (text: string) => {
      const messages = (pending + text).split('\0');
      pending = messages.pop() ?? '';
      for (const message of messages) this.#take(JSON.parse(message) as Message);
    });
    child.once('exit', () => {
      for (const answer of this.#waiting.values()) answer({ error: { message: 'the browser ended' } });
    });
  }

  /** Loads a page and waits until it has loaded. */
  async open(url: string): Promise<void> {
    const { targetId } = await this.#call('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.#call('Target.attachToTarget', { targetId, flatten: true });
    this.#session = String(sessionId);
    await this.#call('Page.enable');
    await this.#call('Log.enable');
    await this.#call('Runtime.enable');
    // Not the time in which other programs have the processor.
    await this.#call('Performance.enable', { timeDomain: 'threadTicks' });
    await this.goto(url);
  }

  /** Loads another page in the same tab. */
  async goto(url: string): Promise<void> {
    const loaded = new Promise<void>((resolve) => {
      this.#heard.add(({ method }) => {
        if (method === 'Page.loadEventFired') resolve();
      });
    });
    const { errorText } = await this.#call('Page.navigate', { url });
    if (errorText !== undefined) throw new Error(`${url}: ${String(errorText)}`);
    await loaded;
  }

  /** The JSON value of a script's last expression; a promise is awaited. Rejects with the script's error. */
  async evaluate(expression: string): Promise<unknown> {
    const options = { expression, awaitPromise: true, returnByValue: true, userGesture: true };
    const answer = await this.#call('Runtime.evaluate', options);
    const thrown = answer.exceptionDetails as Thrown | undefined;
    if (thrown !== undefined) throw new Error(thrown.exception?.description ?? thrown.text);
    return (answer.result as Evaluated).value;
  }

  /** Processor time that its scripts have taken, since it was opened. */
  async scriptMs(): Promise<number> {
    const { metrics } = await this.#call('Performance.getMetrics');
    const all = metrics as readonly { readonly name: string; readonly value: number }[];
    return 1000 * (all.find(({ name }) => name === 'ScriptDuration')?.value ?? Number.NaN);
  }

  /** What the page sees as its window and the preferences of its user. */
  async emulate(view: {
    readonly width: number;
    readonly height: number;
    readonly scheme?: 'light' | 'dark';
  }): Promise<void> {
    const { width, height, scheme = 'light' } = view;
    const metrics = { width, height, deviceScaleFactor: 1, mobile: false };
    await this.#call('Emulation.setDeviceMetricsOverride', metrics);
    const features = [{ name: 'prefers-color-scheme', value: scheme }];
    await this.#call('Emulation.setEmulatedMedia', { features });
  }

  /** Types text, or presses a key such as `Enter`, as a user would. */
  async press(key: string): Promise<void> {
    const text = key === 'Enter' ? '\r' : key.length === 1 ? key : undefined;
    const code = CODES[key] ?? (/\w/.test(key) ? key.toUpperCase().charCodeAt(0) : 0);
    const event = { key, windowsVirtualKeyCode: code, ...(text !== undefined && { text }) };
    await this.#call('Input.dispatchKeyEvent', { type: 'keyDown', ...event });
    await this.#call('Input.dispatchKeyEvent', { type: 'keyUp', key, windowsVirtualKeyCode: code });
  }

  /** The page as a picture, in `format` png or webp. */
  async picture(format: 'png' | 'webp' = 'png', quality?: number): Promise<Buffer> {
    const options = { format, ...(quality !== undefined && { quality }) };
    const { data } = await this.#call('Page.captureScreenshot', options);
    return Buffer.from(String(data), 'base64');
  }

  #note({ method, params }: Message): void {
    if (method === 'Runtime.exceptionThrown') {
      const { exceptionDetails } = params as { readonly exceptionDetails: Thrown };
      this.problems.push(exceptionDetails.exception?.description ?? exceptionDetails.text);
    }
    if (method === 'Log.entryAdded') {
      const { entry } = params as { readonly entry: { level: string; source: string; text: string } };
      if (entry.level === 'error' && entry.source !== 'network') this.problems.push(entry.text);
    }
  }

  #call(method: string, params: object = {}): Promise<{ readonly [name: string]: unknown }> {
    const id = ++this.#count;
    const message = { id, method, params, ...(this.#session && { sessionId: this.#session }) };
    (this.#child.stdio[3] as Writable).write(`${JSON.stringify(message)}\0`);
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, ({ result = {}, error }) => {
        this.#waiting.delete(id);
        if (error === undefined) resolve(result);
        else reject(new Error(`${method}: ${error.message}`));
      });
    });
  }

  #take(message: Message): void {
    if (message.id !== undefined) this.#waiting.get(message.id)?.(message);
    else {
      this.#note(message);
      for (const hear of this.#heard) hear(message);
    }
  }
}

/** Opens a page at `url`. The browser exits at the test's end. */
export async function openPage(t: Test, url: string, flags: readonly string[] = []): Promise<Page> {
  const program = PROGRAMS.find(existsSync);
  if (program === undefined)
    throw new Error('Chromium is missing: make setup-tests installs it (scripts/test-packages.txt)');
  const profile = await mkdtemp(join(tmpdir(), 'chromium-'));
  const child = spawn(program, [...FLAGS, ...flags, `--user-data-dir=${profile}`], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    // A process group, because the browser has child processes that hold the pipe too.
    detached: true,
    env: { ...process.env, HOME: profile },
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  t.teardown(async () => {
    process.kill(-Number(child.pid), 'SIGKILL');
    await ended;
    for (const pipe of child.stdio) pipe?.destroy();
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  });
  const page = new Page(child);
  await page.open(url);
  return page;
}
