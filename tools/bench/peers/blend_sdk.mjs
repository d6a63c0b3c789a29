// Reads Blend pools with Blend's own SDK: metadata, reserves and oracle of one pool after the other, or of all at once.
//
//   node blend_sdk.mjs URL MARKETS PASSPHRASE one-by-one|all-at-once
//
// MARKETS is a file of lines, each a generation (v1 or v2) and the address of a pool. It prints a line of JSON for each
// reserve, and last the peak of this process's memory in kB.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "node_modules", "_"));
const { PoolV1, PoolV2 } = require("@blend-capital/blend-sdk");

const [url, markets, passphrase, order] = process.argv.slice(2);
const network = { rpc: url, passphrase, opts: { allowHttp: true } };

async function read([generation, address]) {
  const pool = await (generation === "v1" ? PoolV1 : PoolV2).load(network, address);
  const oracle = await pool.loadOracle();
  return Array.from(pool.reserves, ([token, reserve]) => ({
    market: address,
    token,
    price: String(oracle.getPrice(token)),
    supply_index: String(reserve.data.bRate),
    borrow_index: String(reserve.data.dRate),
    supplied: String(reserve.totalSupply()),
    borrowed: String(reserve.totalLiabilities()),
  }));
}

const pools = readFileSync(markets, "utf8").trim().split("\n").map((line) => line.split(" "));
let numbers = [];
if (order === "all-at-once") {
  numbers = (await Promise.all(pools.map(read))).flat();
} else {
  for (const pool of pools) numbers.push(...(await read(pool)));
}
for (const each of numbers) console.log(JSON.stringify(each));
console.log(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
