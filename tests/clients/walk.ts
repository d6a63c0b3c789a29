// A client in TypeScript, of types that openapi-typescript makes from the API's description: it walks a served tree
// and prints what it found. The lines marked @ts-expect-error must not compile; the compiler says so if they do.
import createClient from "openapi-fetch";
import type { components, paths } from "./api";

declare const process: { argv: string[]; exit(code: number): never };

type Row = components["schemas"]["PoolSnapshot"];
type Bucket = components["schemas"]["HistoryBucket"];

const client = createClient<paths>({ baseUrl: process.argv[2] });

async function allRows(market?: string): Promise<Row[]> {
  const rows: Row[] = [];
  let query: { market?: string; limit?: number; cursor?: string } = { market, limit: 5 };
  for (;;) {
    const { data, error } = await client.GET("/v1/assets", { params: { query } });
    if (error !== undefined) throw new Error(error.detail);
    rows.push(...data.data);
    if (data.next_cursor === null) return rows;
    query = { cursor: data.next_cursor };
  }
}

async function history(market: string, pool: string): Promise<Bucket[]> {
  let buckets: Bucket[] = [];
  let query: { bucket?: "5m"; cursor?: string } = { bucket: "5m" };
  for (;;) {
    const path = { market, pool };
    const { data, error } = await client.GET("/v1/assets/{market}/{pool}/history", { params: { path, query } });
    if (error !== undefined) throw new Error(error.detail);
    buckets = [...data.data, ...buckets];
    if (data.next_cursor === null) return buckets;
    query = { cursor: data.next_cursor };
  }
}

async function main(): Promise<void> {
  const rows = await allRows();
  const { market, pool, token_address: address } = rows[0];
  const detail = await client.GET("/v1/assets/{market}/{pool}", { params: { path: { market, pool } } });
  const token = await client.GET("/v1/tokens/{address}", { params: { path: { address } } });
  const summary = await client.GET("/v1/markets/{market}", { params: { path: { market } } });
  const everything = await client.GET("/v1/protocol/summary/history", { params: { query: { bucket: "1d" } } });
  const status = await client.GET("/v1/system/status");
  const refused = await client.GET("/v1/markets/{market}", { params: { path: { market: "usdc" } } });
  console.log(
    JSON.stringify({
      rows: rows.map((row) => [row.market, row.pool]),
      ofMarket: (await allRows(market)).map((row) => row.pool),
      supplied: rows.reduce((sum, row) => sum + BigInt(row.total_supplied), 0n).toString(),
      unpriced: rows.filter((row) => row.oracle_price_usd === null).length,
      rateModel: detail.data?.rate_model.map((parameter) => parameter.name),
      firstSeen: token.data?.first_seen_ledger,
      poolCount: summary.data?.pool_count,
      ledger: status.data?.observed_ledger,
      ledgers: (await history(market, pool)).map((bucket) => bucket.last_ledger),
      totals: everything.data,
      refusal: [refused.response.status, refused.error?.status],
    }),
  );
}

export function mistakes(row: Row): void {
  // @ts-expect-error a price may be null
  const price: string = row.oracle_price_usd;
  // @ts-expect-error an amount is text, because it exceeds 2^53
  const amount: number = row.total_supplied;
  // @ts-expect-error there is no such field
  const field = row.apy;
  // @ts-expect-error there is no such route
  void client.GET("/v1/reserves");
  // @ts-expect-error there is no bucket of two hours
  void client.GET("/v1/assets/{market}/{pool}/history", { params: { path: row, query: { bucket: "2h" } } });
  void [price, amount, field];
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
