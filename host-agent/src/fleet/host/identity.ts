// The identity of this host in the cluster: a client certificate `system:node:<name>`, which it asks for with a
// bootstrap token, and renews by itself. With it the API server lets a host write its own Node, Lease and pods only.
import { createPrivateKey, generateKeyPair, X509Certificate } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Logger } from 'pino';
import { backOffMs } from '../../lib/back-off.ts';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import type { Sealer } from '../../lib/seal.ts';
import {
  askForCertificate,
  makeCertificateRequest,
  nodeSubject,
  requestNameOf,
} from '../kube/certificate-request.ts';
import { type ClientIdentity, isRefusal, type KeyPair, KubeClient } from '../kube/client.ts';
import type { KubeAccess } from '../kube/kubeconfig.ts';

/** `current`: with the certificate; `next`: with the request for one. Both in PEM. */
export type IdentityRecord = {
  /** Its name. */
  readonly node: string;
  readonly sealedKey: string;
  readonly pem: string;
};

/** A table of the registry. */
export type IdentityRecords = {
  get(id: string): IdentityRecord | undefined;
  put(id: string, record: IdentityRecord): Promise<void>;
  remove(id: string): Promise<unknown>;
};

export type NodeIdentityOptions = {
  /** Of the Node. */
  readonly name: string;
  /** Reads the kubeconfig again, whose token an operator may have replaced. */
  readonly readAccess: () => KubeAccess;
  readonly records: IdentityRecords;
  readonly sealer: Pick<Sealer, 'seal' | 'open'>;
  readonly log: Logger;
  /** Of the wall clock, by which certificates end. */
  readonly now?: () => number;
  readonly checkMs?: number;
};

/** As kubelets renew: hosts that joined together do not ask together. */
const RENEW_FROM = 0.7;
const RENEW_SPREAD = 0.2;
/** Certificates last for months; the wall clock may jump. */
const CHECK_MS = 60_000;
const ASK_MS = 500;
const ASK_BACK_OFF = { firstMs: ASK_MS, mostMs: 10_000, jitter: 0.25 };
const FAILED_BACK_OFF = { firstMs: 2000, mostMs: 60_000, jitter: 0.25 };
/** Then the credentials are chosen again: those at hand may have ended. */
const ASK_FOR_MS = 5 * 60_000;
/** An approval that takes longer is the operator's. */
const QUIET_MS = 5000;

const SEAL_ID = 'fleet_identity/key';

const makeKeyPair = promisify(generateKeyPair);

type Kept = { readonly pair: KeyPair; readonly certificate: X509Certificate; readonly renewAtMs: number };

export class NodeIdentity implements ClientIdentity {
  readonly #options: NodeIdentityOptions;
  readonly #stop = new AbortController();
  readonly #first = Promise.withResolvers<void>();
  readonly #now: () => number;
  #kept: Kept | undefined;
  #isRefused = false;
  #wake = new AbortController();
  #done: Promise<void> | undefined;

  constructor(options: NodeIdentityOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  start(): void {
    this.#done ??= this.#run();
  }

  /** Resolves when this host has a certificate, though it may have ended. Never rejects. */
  found(): Promise<void> {
    return this.#first.promise;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#done;
  }

  current(): KeyPair {
    if (this.#kept !== undefined) return this.#kept.pair;
    throw new AppError('upstream', 'this host has no certificate of the cluster yet');
  }

  checked(pair: KeyPair, isAccepted: boolean): void {
    if (pair !== this.#kept?.pair || this.#isRefused === !isAccepted) return;
    this.#isRefused = !isAccepted;
    if (isAccepted) return;
    this.#options.log.error(
      'the API server does not accept the certificate of this host; it asks for another',
    );
    this.#wake.abort();
  }

  async #run(): Promise<void> {
    const { log, checkMs = CHECK_MS } = this.#options;
    const { signal } = this.#stop;
    let reported = '';
    await this.#load();
    for (let failures = 0; !signal.aborted; ) {
      try {
        if (this.#isDue) await this.#obtain();
        failures = 0;
        reported = '';
      } catch (error) {
        if (signal.aborted) return;
        failures += 1;
        const reason = toError(error).message;
        if (reason !== reported)
          log.error({ reason }, 'this host cannot get a certificate of the cluster; trying again');
        reported = reason;
      }
      const waitMs = failures === 0 ? checkMs : backOffMs(failures, FAILED_BACK_OFF);
      const awake = failures === 0 ? AbortSignal.any([signal, this.#wake.signal]) : signal;
      await sleep(waitMs, undefined, { signal: awake, ref: false }).catch(() => undefined);
      if (this.#wake.signal.aborted) this.#wake = new AbortController();
    }
  }

  get #isDue(): boolean {
    return this.#kept === undefined || this.#isRefused || this.#now() >= this.#kept.renewAtMs;
  }

  async #load(): Promise<void> {
    const { records, log } = this.#options;
    const found = records.get('current');
    if (found === undefined) return;
    // The daemon ended between the two writes.
    if (records.get('next')?.sealedKey === found.sealedKey) await records.remove('next');
    try {
      this.#use(found.pem, this.#openKey(found));
    } catch (error) {
      log.error(
        { reason: toError(error).message },
        'the certificate of this host cannot be used; it asks for another',
      );
    }
  }

  /** AppError forbidden for a certificate that is not this host’s. */
  #use(cert: string, key: string): void {
    const certificate = new X509Certificate(cert);
    const { commonName, organization } = nodeSubject(this.#options.name);
    const names = certificate.subject.split('\n');
    const isOurs =
      names.includes(`CN=${commonName}`) &&
      names.includes(`O=${organization}`) &&
      certificate.checkPrivateKey(createPrivateKey(key));
    if (!isOurs) throw new AppError('forbidden', 'the certificate is not of this host');
    const [fromMs, untilMs] = [certificate.validFromDate.getTime(), certificate.validToDate.getTime()];
    const share = RENEW_FROM + Math.random() * RENEW_SPREAD;
    this.#kept = { pair: { cert, key }, certificate, renewAtMs: fromMs + (untilMs - fromMs) * share };
    this.#isRefused = false;
    this.#first.resolve();
  }

  /** Rejects with the reason. */
  async #obtain(): Promise<void> {
    const { records, log } = this.#options;
    const { pem, key, ...request } = await this.#openRequest();
    const name = requestNameOf(createPrivateKey(key));
    try {
      const certificate = await this.#ask(name, pem);
      this.#use(certificate, key);
      await records.put('current', { ...request, pem: certificate });
      await records.remove('next');
    } catch (error) {
      // Asked again, it would be answered in the same way.
      if (isAppError(error) && error.code === 'forbidden') await records.remove('next');
      throw error;
    }
    log.info({ until: this.#kept?.certificate.validTo }, 'this host has a certificate of the cluster');
  }

  /** Resolves with the certificate when it is signed. AppError forbidden when that is refused. */
  async #ask(name: string, pem: string): Promise<string> {
    const { signal } = this.#stop;
    const { client, refusal } = this.#connect();
    const startedAt = performance.now();
    let isReported = false;
    try {
      for (let attempt = 1; ; attempt++) {
        const found = await askForCertificate(client, name, pem, signal).catch((error: unknown) => {
          throw isRefusal(error, 401, 403) ? new AppError('upstream', `${refusal}: ${error.message}`) : error;
        });
        if (found.state === 'signed') return found.certificate;
        if (found.state === 'refused')
          throw new AppError(
            'forbidden',
            `the request ${name} for a certificate was refused: ${found.reason}`,
          );
        const waitedMs = performance.now() - startedAt;
        const what = `the request ${name} waits for its approval (kubectl certificate approve ${name})`;
        if (waitedMs > ASK_FOR_MS) throw new AppError('upstream', what);
        if (waitedMs > QUIET_MS && !isReported) this.#options.log.warn(what);
        isReported ||= waitedMs > QUIET_MS;
        await sleep(backOffMs(attempt, ASK_BACK_OFF), undefined, { signal, ref: false });
      }
    } finally {
      client.close();
    }
  }

  /** With its own certificate while that is valid, else with the token of the kubeconfig. */
  #connect() {
    const access = this.#options.readAccess();
    const { certificate, pair } = this.#kept ?? {};
    const isValid = certificate !== undefined && this.#now() < certificate.validToDate.getTime();
    if (isValid && !this.#isRefused) {
      const client = new KubeClient({ server: access.server, ca: access.ca, ...pair });
      return { client, refusal: 'the API server refuses the certificate of this host' };
    }
    const refusal =
      'the API server refuses the bootstrap token of the kubeconfig; give it another (kubeadm token create)';
    return { client: new KubeClient(access), refusal };
  }

  /** One that was made before goes on, so that its approval is not lost. */
  async #openRequest(): Promise<IdentityRecord & { readonly key: string }> {
    const { records, sealer, name } = this.#options;
    const found = records.get('next');
    if (found?.node === name) {
      try {
        return { ...found, key: this.#openKey(found) };
      } catch (error) {
        this.#options.log.warn(
          { reason: toError(error).message },
          'a former request for a certificate is dropped',
        );
      }
    }
    const { privateKey } = await makeKeyPair('ec', { namedCurve: 'P-256' });
    const pem = makeCertificateRequest(nodeSubject(name), privateKey);
    const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    const record = { node: name, sealedKey: sealer.seal(SEAL_ID, Buffer.from(key)), pem };
    await records.put('next', record);
    return { ...record, key };
  }

  #openKey({ sealedKey }: IdentityRecord): string {
    const key = this.#options.sealer.open(SEAL_ID, sealedKey);
    try {
      return key.toString();
    } finally {
      key.fill(0);
    }
  }
}
