// Answers of a compromised VMM.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { VmmApi } from '../../../../../host-agent/src/engines/cloud-hypervisor/api.ts';
import { serve } from '../../../../support/made-socket.ts';

const MIB = 2 ** 20;

t.test(
  'answers that never end, or make no sense, are given up, and leave time for everything else',
  async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'hostile-'));
    t.teardown(() => rmSync(dir, { recursive: true }));
    const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n';
    const whole = (body: string): string => `${head}Content-Length: ${body.length}\r\n\r\n${body}`;
    const deep = 200_000;
    const lies: Record<string, readonly [first: string, again?: string]> = {
      'a body without end': [`${head}Transfer-Encoding: chunked\r\n\r\n`, `fff\r\n${'x'.repeat(0xfff)}\r\n`],
      'a head without end': [head, `X-More: ${'x'.repeat(1000)}\r\n`],
      'a head of many lines': [head, 'A: b\r\n'],
      'a line without end': ['HTTP/1.1 200 ', 'x'.repeat(1000)],
      'answers that are none yet': ['', 'HTTP/1.1 102 Processing\r\n\r\n'],
      'a body longer than it may be': [whole('x'.repeat(2 * MIB))],
      'a body shorter than it says': [`${head}Content-Length: 100\r\n\r\n{`],
      'nested nothing': [
        whole(
          `{"version":${'['.repeat(deep)}${']'.repeat(deep)},"state":${'['.repeat(deep)}${']'.repeat(deep)}}`,
        ),
      ],
      'a text that is none': [whole('{"version":{"toString":1},"state":{"toString":1}}')],
      'no object': [whole('null')],
      'two lengths': [`${head}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} `],
      'something else': ['SSH-2.0-x\r\n'],
      nothing: [''],
    };
    for (const [name, [first, again]] of Object.entries(lies)) {
      const path = join(dir, `${name.replaceAll(' ', '-')}.sock`);
      await serve(t, path, (socket) => {
        socket.write(first);
        const more = (): void => {
          while (again !== undefined && !socket.destroyed && socket.write(again));
          if (again !== undefined && !socket.destroyed) socket.once('drain', more);
        };
        more();
      });
      let turns = 0;
      const turning = setInterval(() => {
        turns += 1;
      }, 1);
      await t.rejects(new VmmApi(path).ping({ timeoutMs: 500 }), name);
      clearInterval(turning);
      // Only the timeout ends these.
      if (name === 'answers that are none yet') t.ok(turns > 10, `others had ${turns} turns`);
      await t.rejects(new VmmApi(path).info({ timeoutMs: 500 }), name);
    }
  },
);
