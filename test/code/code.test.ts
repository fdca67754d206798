// The code interpreter in real guests: results, contexts, interrupts, and what copies share.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { Client, CodeError, type Execution, TimeoutError } from '@sandboxd/client';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { Agent } from '../support/mcp.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(1_100_000));
const run = promisify(execFile);
const COMMAND = resolve(import.meta.dirname, '../../dist/sandbox');
const { url } = await startDaemon(t);
const client = new Client({ host: url });
const sandbox = await client.sandboxes.create({ profile: 'code', env: { COLOUR: 'blue' } });
const { code } = sandbox;
const okay = ({ error, ...execution }: Execution): Omit<Execution, 'error'> => {
  if (error !== undefined) throw new Error(error.traceback);
  return execution;
};

t.test('values, output and errors', async (t) => {
  const printed: string[] = [];
  const first = await code.run('import sys\nprint("out")\nprint("err", file=sys.stderr)\n"ä" + "b"', {
    onStdout: (text) => printed.push(text),
  });
  t.match(first, { text: 'äb', stdout: 'out\n', stderr: 'err\n', error: undefined, executionCount: 1 });
  t.same(printed, ['out\n']);
  const failed = await code.run('x = 7\n1/0');
  t.match(failed, { error: { name: 'ZeroDivisionError', value: 'division by zero' } });
  t.match(failed.error?.traceback, /1\/0\n/);
  t.equal(okay(await code.run('x')).text, '7', 'state stays after an error');
  t.match((await code.run('input()')).error, { name: 'StdinNotImplementedError' });
  const long = await code.run(`len(${JSON.stringify('y'.repeat(200_000))})`);
  t.equal(long.text, '200000', 'a cell that is no argument of a command');
});

t.test('data frames, figures and images', async (t) => {
  const frame = await code.run(
    'import pandas as pd, datetime\npd.DataFrame({"a": [1, None], "t": pd.to_datetime(["2024-01-02"] * 2)})',
  );
  t.match(frame.results, [{ isMain: true, html: /<table/, data: { a: [1, null], t: [/^2024-01-02/] } }]);
  const figure = await code.run(
    'import matplotlib.pyplot as plt\nplt.barh(["p", "q"], [3, 3])\nplt.xlabel("time (s)")\nplt.show()\n[1, {"b": 2}]',
  );
  t.match(figure.results[0], {
    png: /^iVBOR/,
    chart: { type: 'bar', x_label: null, y_label: 'time (s)', y_unit: 's' },
  });
  t.match(figure.results[0]?.chart?.elements, [{ label: 'p', value: 3 }, { label: 'q' }]);
  t.same(figure.results[1]?.json, [1, { b: 2 }]);
  const lines = await code.run('plt.plot([1, 2], [1e-12, 2e-12], label="l"); plt.semilogy(); plt.show()');
  t.match(lines.results[0]?.chart, {
    type: 'line',
    y_scale: 'log',
    elements: [{ label: 'l', points: [[1, 1e-12]] }],
  });
  const image = await code.run('from PIL import Image\nImage.new("RGB", (2, 2)).save("/tmp/two.png")');
  t.match(image.results, [{ png: /^iVBOR/ }]);
});

t.test('variables of the sandbox and of one cell', async (t) => {
  const read = 'import os; os.environ.get("COLOUR"), os.environ.get("ONCE")';
  t.equal(okay(await code.run(read)).text, "('blue', None)");
  t.equal(okay(await code.run(read, { env: { COLOUR: 'red', ONCE: '"\n' } })).text, "('red', '\"\\n')");
  await code.run('1/0', { env: { ONCE: '1' } });
  t.equal(okay(await code.run(read)).text, "('blue', None)");
});

t.test('contexts are apart, and bounded', async (t) => {
  const context = await code.createContext({ cwd: '/tmp' });
  t.match(context, { language: 'python', cwd: '/tmp' });
  await code.run('x = 1', { context });
  t.equal(okay(await code.run('import os; os.getcwd(), x', { context })).text, "('/tmp', 1)");
  t.equal(okay(await code.run('x')).text, '7');
  await code.restartContext(context.id);
  t.match((await code.run('x', { context })).error, { name: 'NameError' });
  t.equal((await code.contexts()).length, 2);
  await code.deleteContext(context.id);
  await t.rejects(code.run('1', { context }), { name: 'CodeError', status: 404 });
  await t.rejects(code.createContext({ language: 'r' }), { status: 400, message: /not supported/ });
  await t.rejects(code.run('1', { language: 'bash' }), { name: 'CodeError', status: 400 });
  await t.rejects(code.createContext({ cwd: '/nowhere' }), CodeError);
  t.equal((await code.contexts()).length, 1);
});

t.test('a cell ends with its caller, and the next one follows', async (t) => {
  await t.rejects(code.run('import time\ntime.sleep(1000)', { timeoutS: 2 }), TimeoutError);
  t.equal(okay(await code.run('x')).text, '7', 'an interrupt takes no state');
  const stop = new AbortController();
  const running = code.run('print("begun", flush=True)\nwhile True: pass', {
    onStdout: () => stop.abort(new Error('enough')),
    signal: stop.signal,
  });
  await t.rejects(running, /enough/);
  t.equal(okay(await code.run('x')).text, '7');
  const stubborn = [
    'print("begun", flush=True)',
    'while True:',
    '  try: time.sleep(100)',
    '  except KeyboardInterrupt: pass',
  ];
  const other = new AbortController();
  await t.rejects(code.run(stubborn.join('\n'), { onStdout: () => other.abort(), signal: other.signal }));
  t.match((await code.run('x')).error, { name: 'NameError' }, 'a kernel that does not obey is restarted');
});

t.test('a kernel that ends is an error, and another one takes its place', async (t) => {
  t.match((await code.run('import os; os._exit(3)')).error, { name: 'KernelEnded' });
  t.equal(okay(await code.run('1 + 1')).text, '2');
});

t.test('a restart that fails is tried again by the next cell', async (t) => {
  await sandbox.exec(['mkdir', '/tmp/gone']).text();
  const context = await code.createContext({ cwd: '/tmp/gone' });
  await sandbox.exec(['rmdir', '/tmp/gone']).text();
  for (const source of ['import os; os._exit(3)', '1', '1'])
    t.match((await code.run(source, { context })).error, { name: 'KernelEnded' });
  await t.rejects(code.restartContext(context.id), { name: 'CodeError', status: 500 });
  await sandbox.exec(['mkdir', '/tmp/gone']).text();
  t.equal(okay(await code.run('40 + 2', { context })).text, '42');
  await code.deleteContext(context.id);
});

t.test('a cell runs with its variables or not at all', async (t) => {
  const context = await code.createContext();
  const env = { ONCE: '1' };
  await code.run('import sys; sys.modules["sandbox_kernel"].begin = None', { context });
  t.match((await code.run('ran = 1', { context, env })).error, { name: 'KernelEnded' });
  t.match((await code.run('ran', { context })).error, { name: 'NameError' });
  t.equal(okay(await code.run('import os; os.environ["ONCE"]', { context, env })).text, '1');
  for (const wrong of [{ env: { A: '\ud800' } }, { source: '"\ud800"' }]) {
    const { source = '1', ...options } = wrong;
    await t.rejects(code.run(source, { context, ...options }), { status: 400, message: /Unicode/ });
  }
  t.equal(okay(await code.run('"ONCE" in os.environ', { context })).text, 'False', 'it has kept its state');
  await code.deleteContext(context.id);
});

t.test('pages of a browser in the sandbox run no code', async (t) => {
  const ask = async (...args: string[]) => {
    const at = ['-H', 'Content-Type: application/json', 'http://127.0.0.1:49999/execute'];
    const cmd = ['curl', '-s', '-o', '/dev/null', '-w', '%{http_code}', '-d', '{"code":"1"}', ...at, ...args];
    return await sandbox.exec(cmd).text();
  };
  t.equal(await ask(), '200');
  t.equal(await ask('-H', 'Origin: http://page.example'), '403');
  t.equal(await ask('-H', 'Origin: null'), '403');
  t.equal(await ask('-H', 'Host: page.example:49999'), '403', 'a name that leads here');
  t.equal(await ask('-H', 'Host: 0.0.0.0:49999'), '200', 'an address of this machine');
  t.equal(await ask('-H', 'Content-Type: text/plain'), '415');
});

t.test('output is bounded', async (t) => {
  const flood = 'for i in range(30): print("z" * 1_000_000)';
  await t.rejects(code.run(flood, { maxOutputBytes: 1_000_000 }), /more than 1000000 bytes/);
  // For want of memory its kernel may have ended.
  await code.run('0');
  t.equal(okay(await code.run('2 + 2')).text, '4');
});

t.test('copies have the state of their source, and generators of their own', async (t) => {
  await code.run('import random, numpy as np; random.random(); y = [5]');
  const read = 'import os; y, random.random(), np.random.rand(), os.environ.get("COLOUR")';
  const [one, two] = await sandbox.fork({ count: 2, env: { COLOUR: 'green' } });
  if (one === undefined || two === undefined) throw new Error('no forks');
  const [first, second] = [okay(await one.code.run(read)).text, okay(await two.code.run(read)).text];
  t.match(first, /^\(\[5\], .* 'green'\)$/);
  t.not(first, second);
  const other = await client.sandboxes.create({ profile: 'code' });
  const third = await client.sandboxes.create({ profile: 'code' });
  const fresh = 'import random, ssl, numpy as np; random.random(), np.random.rand(), ssl.RAND_bytes(8)';
  const [values, others] = [await other.code.run(fresh), await third.code.run(fresh)];
  const [of, from] = [okay(values).text?.split(', ') ?? [], okay(others).text?.split(', ') ?? []];
  t.equal(of.length, 3);
  for (const [at, value] of of.entries()) t.not(value, from[at]);
  t.equal(values.executionCount, 1, 'they begin where the template was saved');
  await Promise.all([one, two, other, third].map((each) => each.delete()));
});

t.test('state lives on over a pause', async (t) => {
  await code.run('z = 11');
  await sandbox.pause();
  t.equal(okay(await code.run('z')).text, '11');
});

t.test('a create with a service of its own, and one of another profile, have no interpreter', async (t) => {
  const service = { cmd: ['sleep', '1000'] };
  const own = await client.sandboxes.create({ profile: 'code', service });
  await t.rejects(own.code.run('1'), { name: 'CodeError', message: /no code interpreter/ });
  t.match(await own.service.status(), { spec: { cmd: ['sleep', '1000'] } });
  await own.delete();
  const base = await client.sandboxes.create({ profile: 'base' });
  await t.rejects(base.code.run('1'), { name: 'CodeError' });
  await base.delete();
});

t.test('the command prints, saves images, and exits as the code does', async (t) => {
  const dir = await mkdtemp('/tmp/code-test-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const env = { ...process.env, SANDBOXD_HOST: url };
  const path = join(dir, 'cell.py');
  await writeFile(
    path,
    'import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nprint("p")\n"v\\x1b[2J"',
  );
  const { stdout } = await run(COMMAND, ['code', '-o', dir, sandbox.id, path], { env });
  t.match(stdout, /<Figure.*\np\n.*2J/s);
  t.notMatch(stdout, '\x1b');
  t.equal((await readFile(join(dir, 'result-1.png'))).subarray(1, 4).toString(), 'PNG');
  await writeFile(path, '1/0');
  await t.rejects(run(COMMAND, ['code', sandbox.id, path], { env }), {
    code: 1,
    stderr: /ZeroDivisionError/,
  });
  await writeFile(path, 'while True: pass');
  await t.rejects(run(COMMAND, ['code', '--timeout', '2s', sandbox.id, path], { env }), { code: 124 });
});

t.test('an agent gets text and images', async (t) => {
  const agent = await Agent.start(['--profile', 'code'], { SANDBOXD_HOST: url });
  t.teardown(() => agent[Symbol.asyncDispose]());
  const source = 'import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nprint("hello")';
  const params = { name: 'run_code', arguments: { sandbox: sandbox.id, code: source } };
  const { content } = (await agent.client.callTool(params)) as { content: unknown[] };
  t.match(content, [
    { type: 'text', text: /hello/ },
    { type: 'image', mimeType: 'image/png' },
  ]);
  t.match(await agent.call('run_code', { sandbox: sandbox.id, code: '1/0' }), {
    isError: true,
    text: /ZeroDivisionError/,
  });
});
