// The Worker in Cloudflare's own runtime (workerd, by miniflare), over a tree in a folder: prints the port it listens on.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [script, root, keys, modules] = process.argv.slice(2);
const { Miniflare } = createRequire(`${modules}/`)('miniflare');
const miniflare = new Miniflare({ modules: true, script: readFileSync(script, 'utf8'), r2Buckets: ['BUCKET'], port: 0 });
const bucket = await miniflare.getR2Bucket('BUCKET');
for (const key of JSON.parse(readFileSync(keys, 'utf8'))) await bucket.put(key, new Uint8Array(readFileSync(`${root}/${key}`)).buffer);
console.log((await miniflare.ready).port);
process.stdin.resume();
process.stdin.on('end', () => miniflare.dispose());
