// Templates of clients of E2B over many hosts. A build is on one host, and what concerns it goes there. With a snapshot
// store all hosts have what it makes; without one, that host has it, and creates that begin with it go there.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { DEFAULT_MEMORY_MIB, DEFAULT_VCPUS } from '@sandboxd/api';
import { z } from 'zod';
import { E2bError, readName, toBaseUrl } from '../../e2b/index.ts';
import type { Addresses } from '../../ingress/index.ts';
import type { FleetMap, Host } from '../catalogue.ts';
import type { FleetSeal } from '../seal.ts';
import type { JsonBody } from './body.ts';
import type { CreateRequest } from './create-request.ts';
import { answer, type Creates } from './creates.ts';
import { type E2bHosts, SNAPSHOT_ID } from './e2b-hosts.ts';
import { listTemplates } from './e2b-lists.ts';
import { byUse, named, PROFILES, TemplateSearch } from './e2b-template-search.ts';
import { pickHostHeaders } from './headers.ts';
import type { HostAnswer, HostConnections } from './host-connections.ts';
import { chooseByKey } from './import-host.ts';
import { readAnswerOf } from './json.ts';
import { signalOf } from './keyed.ts';
import { pass } from './pass.ts';

const FIND_MS = 12_000;
const REQUEST = /^\/v[23]\/templates$/;
const LIST = /^\/(?:v2\/)?templates$/;
const TAGS = '/templates/tags';
const BEGIN = /^\/v2\/templates\/([^/]+)\/builds\/[^/]+$/;
const OF_BUILD = /\/builds\/([^/]+)/;
const FILES = /^\/templates\/([^/]+)\/files\/[^/]+$/;
/** With a token in place of a key. */
const UPLOAD = /^\/templates\/[^/]+\/files\/[^/]+\/[^/]+$/;
const ONE = /^\/(?:v\d\/)?templates\/(?:aliases\/)?([^/]+)/;

const requested = named.extend({ buildID: z.string().optional() });
const upload = z.looseObject({ url: z.string().refine(URL.canParse) });

export type Exchange = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** With its query. */
  readonly path: string;
  /** Without it. */
  readonly plain: string;
};

export type E2bTemplatesDeps = {
  readonly map: FleetMap;
  readonly hosts: E2bHosts;
  readonly creates: Pick<Creates, 'carry'>;
  readonly connections: HostConnections;
  readonly seal: FleetSeal;
  readonly scheme: Addresses['scheme'];
};

export class E2bTemplates {
  readonly #deps: E2bTemplatesDeps;
  readonly #search: TemplateSearch;

  constructor(deps: E2bTemplatesDeps) {
    this.#deps = deps;
    this.#search = new TemplateSearch(deps);
  }

  /** A path of templates. RefusedCaller; E2bError; AppError. */
  async serve(exchange: Exchange): Promise<void> {
    const { request, response, plain } = exchange;
    const { method = 'GET' } = request;
    const isRead = method === 'GET' || method === 'HEAD';
    if (method === 'PUT' && UPLOAD.test(plain)) return await this.#upload(exchange);
    if (method === 'POST' && REQUEST.test(plain)) return await this.#request(exchange);
    if (isRead && LIST.test(plain)) return await listTemplates(this.#deps.hosts, exchange);
    if (plain === TAGS) return await this.#changeTags(exchange);
    const id = toText((BEGIN.exec(plain) ?? FILES.exec(plain) ?? ONE.exec(plain))?.[1]);
    const host = await this.#hostOf(request, id, OF_BUILD.exec(plain)?.[1]);
    if (method === 'POST' && BEGIN.test(plain))
      return answer(
        response,
        await this.#carry(exchange, (body) => this.#assertSource(exchange, host, body)),
      );
    if (isRead && FILES.test(plain)) return await this.#showUpload(exchange, host);
    await this.#pass(exchange, host);
  }

  /** What a create begins with: a template and a snapshot are on one host, everything else on all. */
  async readCreate(request: IncomingMessage, { value }: JsonBody): Promise<CreateRequest | undefined> {
    const text = value?.templateID;
    if (typeof text !== 'string') return undefined;
    const any = { vcpus: DEFAULT_VCPUS, memoryMib: DEFAULT_MEMORY_MIB };
    if (PROFILES.has(text)) return any;
    const built = this.#search.toCreate(await this.#search.findBuilds(request, text));
    if (built !== undefined) return built;
    const located = await this.#locate(request, text);
    if (located === undefined) return SNAPSHOT_ID.test(text) ? undefined : any;
    const { host, vcpus, memoryMib } = located;
    return { vcpus, memoryMib, on: host.name };
  }

  /** Of a build: on its host an unknown name could be that of an image. Resolves with the host. E2bError 409. */
  async #assertSource({ request }: Exchange, host: Host, { value }: JsonBody): Promise<Host> {
    const text = value?.fromTemplate;
    if (typeof text !== 'string' || PROFILES.has(text)) return host;
    const builds = await this.#search.findBuilds(request, text);
    const [newest] = builds;
    if (newest === undefined || builds.some((each) => each.host.name === host.name)) return host;
    const where = `the template ${text} is on the host ${newest.host.name}, and this build on ${host.name}`;
    throw new E2bError(409, `${where}; a build under the name of that template is on its host`);
  }

  /** Of a template, by its id or name, or of a snapshot; another one says that there is none. */
  async #hostOf(request: IncomingMessage, text: string, buildId = ''): Promise<Host> {
    const { hosts } = this.#deps;
    const known = this.#search.holderOf(buildId);
    if (known?.doors.e2b !== undefined && known.isReady) return known;
    const wanted = SNAPSHOT_ID.test(text) ? undefined : readName(text);
    if (wanted !== undefined) {
      const { found: all, silent } = await this.#search.search(request, wanted.name);
      const tagged = all.filter(({ value }) =>
        value.builds.some(({ tags }) => tags.includes(wanted.tag ?? '')),
      );
      const [newest] = byUse(tagged.length > 0 ? tagged : all, buildId);
      if (newest?.value.runs.includes(buildId)) this.#search.remember(buildId, newest.host);
      if (newest !== undefined) return newest.host;
      await this.#search.assertKnown(request, text, silent);
    }
    return (await this.#locate(request, text))?.host ?? hosts.any();
  }

  /** A snapshot and its host. RefusedCaller; else as `#assertKnown`. */
  async #locate(request: IncomingMessage, text: string) {
    const { located, silent } = await this.#deps.hosts.locate(request, text);
    if (located === undefined) await this.#search.assertKnown(request, text, silent);
    return located;
  }

  /** Where the template is already, unless that host takes nothing new; else every gateway chooses the same host. */
  async #choose(request: IncomingMessage, name: string): Promise<Host> {
    const { hosts, map } = this.#deps;
    const usable = map
      .hosts()
      .filter(({ doors, isReady, isCordoned }) => doors.e2b !== undefined && isReady && isCordoned !== true);
    const names = new Set(usable.map((host) => host.name));
    const { found: all } = await this.#search.search(request, name);
    const [known] = byUse(all.filter(({ host }) => names.has(host.name)));
    if (known !== undefined) return known.host;
    const { tenant = '' } = await hosts.find(request, AbortSignal.timeout(FIND_MS));
    return chooseByKey(usable, `${tenant} ${name}`);
  }

  async #request(exchange: Exchange): Promise<void> {
    const { request, response } = exchange;
    let chosen: Host | undefined;
    const made = await this.#carry(exchange, async ({ value }) => {
      const name = readName(asText(value?.name ?? value?.alias))?.name;
      chosen = name === undefined ? this.#deps.hosts.any() : await this.#choose(request, name);
      return chosen;
    });
    if (made.answer.statusCode === 202 && chosen !== undefined) {
      const { templateID, buildID = '' } = readAnswerOf(requested, chosen, made);
      for (const id of [templateID, buildID]) this.#search.remember(id, chosen);
    }
    answer(response, made);
  }

  async #changeTags(exchange: Exchange): Promise<void> {
    const { request, response } = exchange;
    const made = await this.#carry(exchange, async ({ value }) =>
      this.#hostOf(request, asText(value?.target ?? value?.name)),
    );
    answer(response, made);
  }

  /** The client sends its files to the gateway, too, which then has no key that tells where to. */
  async #showUpload({ request, response, path }: Exchange, host: Host): Promise<void> {
    const { hosts, scheme, seal } = this.#deps;
    const headers = pickHostHeaders(request, ['x-api-key', 'authorization']);
    const asked = { method: 'GET', path, headers };
    const limit = AbortSignal.any([signalOf(request, response), AbortSignal.timeout(FIND_MS)]);
    const shown = await hosts.send(host, asked, undefined, limit);
    if (shown.answer.statusCode !== 201) return answer(response, shown);
    const own = readAnswerOf(upload, host, shown);
    const { pathname } = new URL(own.url);
    const query = new URLSearchParams({ host: host.name, proof: seal.make('upload', pathname, host.name) });
    const url = `${toBaseUrl(request, scheme)}${pathname}?${query}`;
    answer(response, { answer: shown.answer, body: Buffer.from(JSON.stringify({ ...own, url })) });
  }

  /** Of an address that a gateway gave, and with a token that the host checks: no key comes with it. */
  async #upload(exchange: Exchange): Promise<void> {
    const { plain, path } = exchange;
    const query = new URLSearchParams(path.split('?')[1] ?? '');
    const name = query.get('host') ?? '';
    if (!this.#deps.seal.isOf(query.get('proof') ?? '', 'upload', plain, name))
      throw new E2bError(401, 'the address of the upload is not one that this fleet gave');
    const host = this.#deps.map.host(name);
    if (host === undefined) throw new E2bError(404, 'the host of the upload is not in this fleet any more');
    await this.#pass({ ...exchange, path: plain }, host);
  }

  async #carry(
    { request, response, path }: Exchange,
    choose: (body: JsonBody) => Promise<Host>,
  ): Promise<HostAnswer> {
    return await this.#deps.creates.carry(request, response, path, choose);
  }

  async #pass({ request, response, path }: Exchange, host: Host): Promise<void> {
    const { hosts, connections } = this.#deps;
    await pass({ request, response, host: hosts.doorOf(host), path }, connections);
  }
}

/** Hosts refuse what is not text. */
function asText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** E2bError 404. */
function toText(encoded = ''): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw new E2bError(404, `template '${encoded.slice(0, 100)}' not found`);
  }
}
