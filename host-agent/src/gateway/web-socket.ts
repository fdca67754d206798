// An upgrade to WebSocket that a rule allows: the handshake is read and judged as other requests are; what follows goes
// to the same server, unread.
import { type Agent, type IncomingMessage, request as requestOf, ServerResponse } from 'node:http';
import { type Duplex, pipeline } from 'node:stream';
import { toError } from '../lib/errors.ts';
import { CHANGED, NoServer, type ReadConnection } from './read-connection.ts';
import { redact } from './redacted-answer.ts';
import { findOddHead, type Headers, toGuestHeaders } from './request-head.ts';
import type { RequestReport } from './request-report.ts';
import { RedactingFrames, type Redaction } from './substitution/index.ts';
import type { Sent, SentHead } from './substitution.ts';

type Upgrade = {
  readonly req: IncomingMessage;
  /** Of the guest, and what came behind the head. */
  readonly socket: Duplex;
  readonly first: Buffer;
  readonly connection: ReadConnection;
  readonly agent: Agent;
  readonly sent: SentHead;
  readonly redaction: Redaction | undefined;
  readonly holds: Sent['holds'];
  /** As the guest sent it. */
  readonly target: string;
  readonly hasOverride: boolean;
  readonly hasPathOverride: boolean;
  readonly rule: string;
  readonly report: RequestReport;
};

const UPGRADE: Headers = [
  ['Connection', 'Upgrade'],
  ['Upgrade', 'websocket'],
];

export function isWebSocket(req: IncomingMessage): boolean {
  return req.headers.upgrade?.toLowerCase() === 'websocket';
}

/** `refuse`: writes an answer, and ends the connection. */
export function openWebSocket(upgrade: Upgrade, refuse: (status: number, reason: string) => void): void {
  const { req, socket, first, connection, agent, sent, redaction, holds, target, rule, report } = upgrade;
  const { hasOverride, hasPathOverride } = upgrade;
  const upstream = requestOf({
    ...{ agent, method: sent.method, path: sent.target, setHost: false },
    ...{ host: connection.handed.name, port: connection.handed.port },
    headers: [...sent.headers, ...UPGRADE].flat(),
  });
  let isOver = false;
  let server: Duplex | undefined;
  let status: number | undefined;
  const open = {
    request: { method: sent.method, target, hasOverride, hasPathOverride, isWebSocket: true },
    holds: holds && (() => holds(upstream.socket !== null)),
    cancel: () => fail(new NoServer(403, CHANGED)),
  };
  const end = (): boolean => {
    if (isOver) return false;
    isOver = true;
    connection.requests.delete(open);
    return true;
  };
  const fail = (error: Error): void => {
    if (!end()) return;
    const [code, reason] =
      error instanceof NoServer ? [error.status, error.message] : [502, 'the server ended the connection'];
    report.denied(reason, status ?? code);
    upstream.destroy();
    server?.destroy();
    if (status === undefined) refuse(code, reason);
    else socket.destroy();
  };
  connection.requests.add(open);
  socket.on('error', () => socket.destroy());
  upstream.on('error', fail);
  upstream.on('response', (answered) => {
    if (isOver) {
      answered.destroy();
      return;
    }
    // The server does not want it, and says why.
    const shown = redact(redaction, 'GET', answered.statusCode ?? 502, toGuestHeaders(answered.rawHeaders));
    if (shown.kind === 'unreadable') {
      fail(new NoServer(502, shown.reason));
      return;
    }
    const res = new ServerResponse(req);
    try {
      if (findOddHead(answered) !== undefined) throw new Error('it would mean something else');
      res.shouldKeepAlive = false;
      const { statusCode = 502, statusMessage = '' } = answered;
      res.writeHead(statusCode, redaction?.text(statusMessage) ?? statusMessage, shown.headers.flat());
    } catch (error) {
      fail(toError(error));
      return;
    }
    status = answered.statusCode;
    res.assignSocket(socket as never);
    report.count('down', answered);
    pipeline([answered, ...shown.body, res], (error) => {
      if (error) fail(error);
      else if (end()) report.allowed(rule, 'the server did not take the upgrade', status);
      socket.end();
    });
  });
  upstream.on('upgrade', (answered, opened, head) => {
    server = opened;
    opened.on('error', () => opened.destroy());
    if (isOver || answered.statusCode !== 101 || answered.headers.upgrade?.toLowerCase() !== 'websocket') {
      opened.destroy();
      fail(new Error('another protocol'));
      return;
    }
    status = 101;
    const given = toGuestHeaders(answered.rawHeaders);
    const headers = [...(redaction?.headers(given) ?? given), ...UPGRADE];
    const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines}\r\n`, 'latin1');
    const frames = redaction && new RedactingFrames(() => redaction.redactor());
    if (head.length > 0) (frames ?? socket).write(head);
    if (first.length > 0) opened.write(first);
    report.add('up', first.length);
    report.add('down', head.length);
    report.count('up', socket);
    report.count('down', opened);
    // Each layer has some.
    for (const each of [socket, opened]) each.setMaxListeners(0);
    const done = (): void => {
      if (end()) report.allowed(rule, 'it ended', status);
      socket.destroy();
      opened.destroy();
    };
    pipeline(socket, opened, done);
    if (frames === undefined) pipeline(opened, socket, done);
    else pipeline(opened, frames, socket, done);
  });
  socket.once('close', () => {
    upstream.destroy();
    if (end()) report.allowed(rule, 'the guest ended it', status);
  });
  upstream.end();
}
