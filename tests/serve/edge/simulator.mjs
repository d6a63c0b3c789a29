// What CloudFront and Cloudflare do around a rule, over a tree in a folder: one request as a line of JSON in, one answer out.
//
// CloudFront: viewer-request function, origin group (the bucket, then the distribution for what is missing), custom error
// responses and response headers policy as the rendered files say. The bucket answers as S3 without leave to list: 403 for
// a missing key. CORS headers of a policy are only given to requests with an Origin, as its documentation has it.
// Cloudflare: the worker with the Request, Response and Headers of Node, an R2 bucket or an origin behind fetch.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import vm from 'node:vm';

const setup = JSON.parse(readFileSync(process.argv[2], 'utf8'));

function read(key) {
  const about = setup.objects[key];
  if (about === undefined) return null;
  const body = readFileSync(`${setup.root}/${key}`);
  const etag = `"${createHash('md5').update(body).digest('hex')}"`;
  return { body, etag, type: about[0], cache: about[1] };
}

function rangeOf(header, size) {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header || '');
  if (!match || (!match[1] && !match[2])) return null;
  const start = match[1] ? Number(match[1]) : Math.max(0, size - Number(match[2]));
  const end = match[1] && match[2] ? Math.min(Number(match[2]) + 1, size) : size;
  return match[1] && match[2] && Number(match[2]) < start ? null : [start, end];
}

// GET or HEAD of an object, as S3 answers it.
function bucket(method, uri, headers) {
  const key = decodeURIComponent(uri.replace(/\+/g, ' ')).slice(1);
  const found = read(key);
  if (found === null) {
    return { status: 403, headers: { 'content-type': 'application/xml' }, body: Buffer.from('<Error>AccessDenied</Error>') };
  }
  const own = { etag: found.etag, 'accept-ranges': 'bytes', 'cache-control': found.cache };
  const tags = (headers['if-none-match'] || '').split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  if (tags.includes(found.etag) || tags.includes('*')) return { status: 304, headers: own, body: Buffer.alloc(0) };
  own['content-type'] = found.type;
  const same = !headers['if-range'] || headers['if-range'] === found.etag;
  const part = method === 'GET' && same ? rangeOf(headers.range, found.body.length) : null;
  if (part && part[0] >= part[1]) {
    return { status: 416, headers: { 'content-range': `bytes */${found.body.length}` }, body: Buffer.from('<Error/>') };
  }
  if (part) own['content-range'] = `bytes ${part[0]}-${part[1] - 1}/${found.body.length}`;
  const body = part ? found.body.subarray(part[0], part[1]) : found.body;
  own['content-length'] = String(body.length);
  return { status: part ? 206 : 200, headers: own, body: method === 'HEAD' ? Buffer.alloc(0) : body };
}

function loadFunction(path) {
  const context = vm.createContext({}); // nothing of Node: no fetch, require, process or timers
  vm.runInContext(readFileSync(path, 'utf8'), context);
  const call = vm.runInContext(
    `(function (text, raw) {
      var event = JSON.parse(text);
      if (raw !== null) event.request.rawQueryString = function () { return raw || undefined; };
      return JSON.stringify(handler(event));
    })`,
    context
  );
  return ([event, raw]) => JSON.parse(call(event, raw));
}

function eventOf(asked, raw) {
  const [, uri, query] = /^([^?]*)(?:\?(.*))?$/s.exec(asked.url);
  const querystring = {};
  for (const pair of query ? query.split('&') : []) {
    const at = pair.indexOf('=');
    const name = at < 0 ? pair : pair.slice(0, at);
    const value = at < 0 ? '' : pair.slice(at + 1);
    if (name in querystring) {
      querystring[name].multiValue = [...(querystring[name].multiValue || [{ value: querystring[name].value }]), { value }];
    } else {
      querystring[name] = { value };
    }
  }
  const headers = Object.fromEntries(Object.entries(asked.headers).map(([name, value]) => [name, { value }]));
  const event = JSON.stringify({ version: '1.0', request: { method: asked.method, uri, querystring, headers } });
  return [event, raw ? query || '' : null];
}

function ofFunction(answer) {
  const headers = Object.fromEntries(Object.entries(answer.headers).map(([name, one]) => [name, one.value]));
  return { status: answer.statusCode, headers, body: Buffer.from(answer.body || '') };
}

// What a distribution answers in place of an error of its origin; what a function answered is never replaced so.
function ofErrorPage(pages, answer) {
  const page = pages[answer.status];
  if (!page || !page.ResponsePagePath) return answer;
  const replaced = bucket('GET', page.ResponsePagePath, {});
  const range = answer.headers['content-range'] ? { 'content-range': answer.headers['content-range'] } : {};
  return { status: Number(page.ResponseCode), headers: { ...replaced.headers, ...range }, body: replaced.body };
}

function cloudfront(files, raw) {
  const first = loadFunction(`${files}/function.js`);
  const missing = loadFunction(`${files}/missing.js`);
  const resources = JSON.parse(readFileSync(`${files}/template.json`, 'utf8')).Resources;
  const [api, other] = ['Api', 'Missing'].map((name) => resources[name].Properties.DistributionConfig);
  const failover = api.OriginGroups.Items[0].FailoverCriteria.StatusCodes.Items;
  const pagesOf = (config) => Object.fromEntries(config.CustomErrorResponses.map((item) => [item.ErrorCode, item]));
  const errors = pagesOf(api);
  const emptied = pagesOf(other);
  const policy = resources.HeadersPolicy.Properties.ResponseHeadersPolicyConfig;
  const cors = policy.CorsConfig;
  return (asked) => {
    const outcome = first(eventOf(asked, raw));
    if (outcome.statusCode) return ofFunction(outcome);
    let answer = bucket(asked.method, outcome.uri, asked.headers);
    if (failover.includes(answer.status)) {
      const second = missing(eventOf({ ...asked, url: outcome.uri }, raw));
      answer = second.statusCode ? ofFunction(second) : ofErrorPage(emptied, bucket(asked.method, second.uri, asked.headers));
    }
    answer = ofErrorPage(errors, answer);
    if (asked.method === 'HEAD') answer.body = Buffer.alloc(0);
    if (policy.SecurityHeadersConfig.ContentTypeOptions.Override) answer.headers['x-content-type-options'] = 'nosniff';
    if (asked.headers.origin) {
      answer.headers['access-control-allow-origin'] = cors.AccessControlAllowOrigins.Items.join(', ');
      answer.headers['access-control-expose-headers'] = cors.AccessControlExposeHeaders.Items.join(', ');
    }
    return answer;
  };
}

function stream(data) {
  return new Blob([data]).stream();
}

const R2 = {
  async head(key) {
    const found = read(key);
    return found && { key, size: found.body.length, etag: found.etag.slice(1, -1), httpEtag: found.etag };
  },
  async get(key, options = {}) {
    const found = read(key);
    if (found === null) return null;
    const about = await R2.head(key);
    if (options.onlyIf && options.onlyIf.etagMatches !== about.etag) return about;
    const { offset = 0, length = found.body.length } = options.range || {};
    if (offset + length > found.body.length || length < 1) throw new Error('the requested range is not satisfiable (10039)');
    return { ...about, body: stream(found.body.subarray(offset, offset + length)) };
  }
};

async function ofOrigin(url, options) {
  const answer = bucket(options.method, new URL(url).pathname, Object.fromEntries(options.headers));
  return new Response([204, 304].includes(answer.status) ? null : stream(answer.body), answer);
}

async function cloudflare(path) {
  const worker = (await import(pathToFileURL(path))).default;
  return async (asked) => {
    const request = new Request(`https://api.example${asked.url}`, { method: asked.method, headers: asked.headers });
    globalThis.fetch = ofOrigin;
    const answer = await worker.fetch(request, { BUCKET: R2 });
    const body = Buffer.from(await answer.arrayBuffer());
    const { pathname, search } = new URL(request.url);
    return { status: answer.status, headers: Object.fromEntries(answer.headers), body, asked: pathname + search };
  };
}

const targets = {
  'cloudfront': cloudfront(setup.cloudfront, true),
  'cloudfront-parsed': cloudfront(setup.cloudfront, false),
  'worker-r2': await cloudflare(setup.worker_r2),
  'worker-origin': await cloudflare(setup.worker_origin)
};

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  const answer = await targets[asked.target](asked);
  process.stdout.write(JSON.stringify({ ...answer, body: answer.body.toString('base64') }) + '\n');
}
