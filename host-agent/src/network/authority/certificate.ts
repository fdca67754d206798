// X.509 certificates of the two shapes that inspection needs: an authority of one sandbox, and leaves of servers.
import { createHash, createPublicKey, type KeyObject, randomBytes, sign, X509Certificate } from 'node:crypto';
import {
  bits,
  boolean,
  decode,
  encode,
  integer,
  octets,
  oid,
  sequence,
  set,
  time,
  utf8,
} from '../../lib/der.ts';
import { AppError } from '../../lib/errors.ts';

const ECDSA_SHA256 = sequence(oid('1.2.840.10045.4.3.2'));
const COMMON_NAME = '2.5.4.3';
const ORGANIZATION = '2.5.4.10';
/** The limits of RFC 5280, which strict clients check. */
const MAX_COMMON_NAME_CHARS = 64;
const SERIAL_BYTES = 16;
const KEY_ID_BYTES = 20;

const KEY_CERT_SIGN = bits(Buffer.of(0x04), 2);
const DIGITAL_SIGNATURE = bits(Buffer.of(0x80), 7);
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';

export type Period = { readonly from: Date; readonly until: Date };

export type AuthorityShape = { readonly commonName: string; readonly period: Period };

/** A self-signed certificate that may sign leaves and no other authority, in PEM. */
export function signAuthority({ commonName, period }: AuthorityShape, key: KeyObject): string {
  const subject = toName(commonName);
  return signCertificate(key, {
    issuer: subject,
    subject,
    period,
    publicKey: key,
    extensions: [
      extension('2.5.29.19', true, sequence(boolean(true), integer(Buffer.of(0)))),
      extension('2.5.29.15', true, KEY_CERT_SIGN),
      extension('2.5.29.14', false, octets(keyIdOf(key))),
    ],
  });
}

export type LeafShape = {
  /** A DNS name, or a wildcard. */
  readonly name: string;
  readonly period: Period;
  readonly publicKey: KeyObject;
};

/** The name of the issuer as its certificate has it, and its key. */
export type Issuer = { readonly subject: Buffer; readonly key: KeyObject };

/** A server's certificate for one name, in PEM. */
export function signLeaf({ name, period, publicKey }: LeafShape, issuer: Issuer): string {
  return signCertificate(issuer.key, {
    issuer: issuer.subject,
    subject: toName(name.length <= MAX_COMMON_NAME_CHARS ? name : undefined),
    period,
    publicKey,
    extensions: [
      extension('2.5.29.19', true, sequence()),
      extension('2.5.29.15', true, DIGITAL_SIGNATURE),
      extension('2.5.29.37', false, sequence(oid(SERVER_AUTH))),
      extension('2.5.29.14', false, octets(keyIdOf(publicKey))),
      extension('2.5.29.35', false, sequence(encode(0x80, keyIdOf(issuer.key)))),
      extension('2.5.29.17', false, sequence(encode(0x82, Buffer.from(name, 'ascii')))),
    ],
  });
}

/** The subject of a certificate in DER. AppError internal if it is not one. */
export function subjectOf(certificate: X509Certificate): Buffer {
  const [whole] = decode(certificate.raw);
  const [body] = whole === undefined ? [] : decode(whole.contents);
  // version, serial, signature, issuer, validity, subject
  const subject = body === undefined ? undefined : decode(body.contents)[5];
  if (subject === undefined) throw new AppError('internal', 'a certificate has no subject');
  return subject.whole;
}

/**
 * The hash by which OpenSSL finds a certificate in a directory, such as `1a2b3c4d`. Only for subjects of this file:
 * their strings are UTF-8, lower-case and single-spaced, as in the canonical form that OpenSSL hashes.
 */
export function subjectHash(pem: string): string {
  const [name] = decode(subjectOf(new X509Certificate(pem)));
  const digest = createHash('sha1')
    .update(name?.contents ?? Buffer.alloc(0))
    .digest();
  return digest.readUInt32LE(0).toString(16).padStart(8, '0');
}

type Shape = {
  readonly issuer: Buffer;
  readonly subject: Buffer;
  readonly period: Period;
  readonly publicKey: KeyObject;
  readonly extensions: readonly Buffer[];
};

function signCertificate(key: KeyObject, { issuer, subject, period, publicKey, extensions }: Shape): string {
  const serial = randomBytes(SERIAL_BYTES);
  // Not negative, and never shorter.
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40;
  const body = sequence(
    encode(0xa0, integer(Buffer.of(2))),
    integer(serial),
    ECDSA_SHA256,
    issuer,
    sequence(time(period.from), time(period.until)),
    subject,
    toSpki(publicKey),
    encode(0xa3, sequence(...extensions)),
  );
  const certificate = sequence(body, ECDSA_SHA256, bits(sign('sha256', body, key)));
  return `-----BEGIN CERTIFICATE-----\n${toLines(certificate)}\n-----END CERTIFICATE-----\n`;
}

function toLines(bytes: Buffer): string {
  return bytes.toString('base64').replace(/.{64}(?=.)/g, '$&\n');
}

function extension(id: string, isCritical: boolean, value: Buffer): Buffer {
  return sequence(oid(id), ...(isCritical ? [boolean(true)] : []), octets(value));
}

function toName(commonName: string | undefined): Buffer {
  const part = (type: string, text: string) => set(sequence(oid(type), utf8(text)));
  const rest = commonName === undefined ? [] : [part(COMMON_NAME, commonName)];
  return sequence(part(ORGANIZATION, 'sandboxd'), ...rest);
}

function toSpki(key: KeyObject): Buffer {
  const publicKey = key.type === 'private' ? createPublicKey(key) : key;
  return publicKey.export({ type: 'spki', format: 'der' });
}

/** A truncated SHA-256 of the public key (RFC 7093). */
function keyIdOf(key: KeyObject): Buffer {
  const [whole] = decode(toSpki(key));
  const point = whole === undefined ? undefined : decode(whole.contents)[1];
  if (point === undefined) throw new AppError('internal', 'a public key has no point');
  return createHash('sha256').update(point.contents.subarray(1)).digest().subarray(0, KEY_ID_BYTES);
}
