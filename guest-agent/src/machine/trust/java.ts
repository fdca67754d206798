// The root certificates of Java, in a format of its own (JKS): the authority becomes one more of them.
import process from 'node:process';
import { readLink, readSmall, writeSmall } from './files.ts';

/** Of distributions, and of the images of Eclipse Temurin and OpenJDK. Their other paths are links to these. */
export const JAVA_STORES = [
  '/etc/ssl/certs/java/cacerts',
  '/etc/pki/ca-trust/extracted/java/cacerts',
  '/var/lib/ca-certificates/java-cacerts',
  '/opt/java/openjdk/lib/security/cacerts',
  ...[8, 11, 17, 21].map((version) => `/usr/local/openjdk-${version}/lib/security/cacerts`),
];

const MAX_STORE_BYTES = 4 * 1024 * 1024;
const MAGIC = 0xfeedfeed;
const VERSION = 2;
const KEY = 1;
const CERTIFICATE = 2;
const COUNT_AT = 8;
const HEAD_BYTES = 12;
const DIGEST_BYTES = 20;
const ALIAS = 'sandboxd-egress';
/** Of every store of roots: what is not secret needs none, and the format has one. */
const PASSWORD = 'changeit';
const WHITENER = 'Mighty Aphrodite';

/** Whether it is a store, which now has the authority in place of an earlier one. Throws if it cannot be written. */
export function addToJavaStore(path: string, certificate: string): boolean {
  // Where a link leads is written itself.
  if (typeof readLink(path) === 'string') return false;
  const before = readSmall(path, MAX_STORE_BYTES);
  if (before === undefined) return false;
  const after = withAuthority(before, toDer(certificate));
  if (after === undefined) return false;
  if (!after.equals(before)) writeSmall(path, after);
  return true;
}

/** Undefined for what is in another format, or has another password. */
export function withAuthority(store: Buffer, der: Buffer): Buffer | undefined {
  const end = store.length - DIGEST_BYTES;
  if (end < HEAD_BYTES || store.readUInt32BE(0) !== MAGIC || store.readUInt32BE(4) !== VERSION)
    return undefined;
  const body = store.subarray(0, end);
  if (!digest(body).equals(store.subarray(end))) return undefined;
  const entries = readEntries(body);
  if (entries === undefined) return undefined;
  const own = entries.filter(({ alias }) => alias === ALIAS);
  if (own.length === 1 && own[0]?.bytes.includes(der)) return store;
  const kept = entries.filter(({ alias }) => alias !== ALIAS).map(({ bytes }) => bytes);
  const head = Buffer.from(body.subarray(0, HEAD_BYTES));
  head.writeUInt32BE(kept.length + 1, COUNT_AT);
  const next = Buffer.concat([head, ...kept, toEntry(der)]);
  return Buffer.concat([next, digest(next)]);
}

type Entry = { readonly alias: string; readonly bytes: Buffer };

/** Undefined if they do not end where the store does. */
function readEntries(body: Buffer): Entry[] | undefined {
  const count = body.readUInt32BE(COUNT_AT);
  const entries: Entry[] = [];
  let at = HEAD_BYTES;
  try {
    const skipText = () => {
      at += 2 + body.readUInt16BE(at);
    };
    const skipBytes = () => {
      at += 4 + body.readUInt32BE(at);
    };
    const skipCertificate = () => {
      skipText();
      skipBytes();
    };
    for (let n = 0; n < count; n++) {
      const from = at;
      const tag = body.readUInt32BE(at);
      const alias = body.toString('utf8', at + 6, at + 6 + body.readUInt16BE(at + 4));
      at += 4;
      skipText();
      at += 8;
      if (tag === KEY) {
        skipBytes();
        const chain = body.readUInt32BE(at);
        at += 4;
        for (let each = 0; each < chain; each++) skipCertificate();
      } else if (tag === CERTIFICATE) skipCertificate();
      else return undefined;
      if (at > body.length) return undefined;
      entries.push({ alias, bytes: body.subarray(from, at) });
    }
  } catch {
    // It ends within an entry.
    return undefined;
  }
  return at === body.length ? entries : undefined;
}

function toEntry(der: Buffer): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(CERTIFICATE);
  const madeAt = Buffer.alloc(8);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(der.length);
  return Buffer.concat([head, toText(ALIAS), madeAt, toText('X.509'), length, der]);
}

function toText(text: string): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(text.length);
  return Buffer.concat([length, Buffer.from(text)]);
}

function digest(body: Buffer): Buffer {
  const { createHash } = process.getBuiltinModule('node:crypto');
  const password = Buffer.from(PASSWORD, 'utf16le').swap16();
  return createHash('sha1').update(password).update(WHITENER).update(body).digest();
}

function toDer(certificate: string): Buffer {
  return Buffer.from(certificate.replace(/-----[A-Z ]+-----|\s/g, ''), 'base64');
}
