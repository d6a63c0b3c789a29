// What Blend's own SDK makes of the pools that a Stellar RPC server serves.
//
//   node blend_sdk.mjs FOLDER <request.json >answer.json
//
// FOLDER has the SDK in its node_modules. The request is {rpcUrl, passphrase, pools: [{address, version}]}, the answer
// {sdkVersion, ledger, closeTime, pools: [...]}; test_blend_sdk.py has the types of both. Whole numbers beyond 2^53
// are strings, floats are numbers (null for what JSON cannot hold, such as Infinity).
//
// PoolV1.load and PoolV2.load accrue to the client's clock and take no time (docs/protocols/blend.md, "Verified"), so the clock is
// stopped at the close time of the server's latest ledger. That ledger must not move on while this runs.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

const folder = resolve(process.argv[2]);
const load = createRequire(join(folder, 'package.json'));
const sdk = load('@blend-capital/blend-sdk');
const { rpc } = load('@stellar/stellar-sdk');
const { version: sdkVersion } = JSON.parse(
  readFileSync(join(folder, 'node_modules', '@blend-capital', 'blend-sdk', 'package.json'), 'utf8'),
);

const request = JSON.parse(readFileSync(0, 'utf8'));
const opts = { allowHttp: true };
const network = { rpc: request.rpcUrl, passphrase: request.passphrase, opts };
const health = await new rpc.Server(request.rpcUrl, opts).getHealth();
const closeTime = Number(health.latestLedgerCloseTime);
Date.now = () => closeTime * 1000;

function reserveOf(reserve) {
  return {
    asset: reserve.assetId,
    ledger: reserve.latestLedger,
    decimals: reserve.config.decimals,
    totalSupplied: String(reserve.totalSupply()),
    totalBorrowed: String(reserve.totalLiabilities()),
    bRate: String(reserve.data.bRate),
    dRate: String(reserve.data.dRate),
    irMod: String(reserve.data.interestRateModifier),
    backstopCredit: String(reserve.data.backstopCredit),
    utilization: String(reserve.getUtilization()),
    borrowApr: reserve.borrowApr,
    supplyApr: reserve.supplyApr,
    estBorrowApy: reserve.estBorrowApy,
    estSupplyApy: reserve.estSupplyApy,
  };
}

async function priceOf(oracle, asset) {
  try {
    const { price, timestamp } = await sdk.getOraclePrice(network, oracle, asset);
    return { price: String(price), timestamp };
  } catch {
    return null; // it throws for a price of None, and for a simulation that fails
  }
}

async function decimalsOf(oracle) {
  try {
    return (await sdk.getOracleDecimals(network, oracle)).decimals;
  } catch {
    return null;
  }
}

async function poolOf({ address, version }) {
  let pool;
  try {
    pool = await { v1: sdk.PoolV1, v2: sdk.PoolV2 }[version].load(network, address);
  } catch (error) {
    return { address, version, error: String(error?.message ?? error) };
  }
  const { metadata } = pool;
  const reserves = [];
  for (const reserve of pool.reserves.values()) {
    reserves.push({ ...reserveOf(reserve), oraclePrice: await priceOf(metadata.oracle, reserve.assetId) });
  }
  return {
    address,
    version,
    name: metadata.name,
    status: metadata.status,
    oracle: metadata.oracle,
    wasmHash: metadata.wasmHash,
    oracleDecimals: await decimalsOf(metadata.oracle),
    reserves,
  };
}

const pools = [];
for (const pool of request.pools) {
  pools.push(await poolOf(pool));
}
process.stdout.write(JSON.stringify({ sdkVersion, ledger: health.latestLedger, closeTime, pools }));
