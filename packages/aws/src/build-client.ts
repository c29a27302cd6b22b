import { Sha256 } from './sha256.ts';

/** How a client is reached that a driver builds itself. What is left out, the SDK looks up as it always does. */
export interface AwsConnection<Credentials> {
  readonly region?: string;
  /** For emulators and private endpoints. */
  readonly endpoint?: string;
  /** Credentials, or what gives them; the SDK asks again when they run out. */
  readonly credentials?: Credentials;
}

/** What such a client is given besides. */
export interface ClientSettings<Credentials> extends AwsConnection<Credentials> {
  readonly requestHandler: { readonly httpAgent: Sockets; readonly httpsAgent: Sockets };
  readonly retryStrategy: typeof once;
  readonly sha256: typeof Sha256;
}

interface Sockets {
  readonly maxSockets: number;
}

/**
 * More than one process has calls under way at a time; the SDK's own default is 50.
 * https://docs.aws.amazon.com/sdk-for-javascript/v3/developer-guide/node-configuring-maxsockets.html
 */
const SOCKETS = 256;
/** Reads until V8 has seen that an object is read through. It takes ten. */
const READS = 50;

/** Core repeats what failed, and looks first whether it was done: the SDK, which would only repeat, does not. */
const once = {
  retry<Args, Result>(next: (args: Args) => Promise<Result>, args: Args): Promise<Result> {
    return next(args);
  },
};

/** A client of the SDK for a driver: each call is made once, and as many at a time as a busy worker has leases due. */
export function buildClient<Credentials, Client extends { readonly config: object }>(
  make: new (settings: ClientSettings<Credentials>) => Client,
  { region, endpoint, credentials }: AwsConnection<Credentials>,
): Client {
  const agent = { maxSockets: SOCKETS };
  const client = new make({
    ...(region !== undefined && { region }),
    ...(endpoint !== undefined && { endpoint }),
    ...(credentials !== undefined && { credentials }),
    requestHandler: { httpAgent: agent, httpsAgent: agent },
    retryStrategy: once,
    sha256: Sha256,
  });
  layOut(client.config);
  return client;
}

/**
 * The SDK puts its configuration together field by field, which leaves V8 with a hash table, and copies all of it four times a call at
 * 20 us each. V8 lays the fields of an object out in a row once others inherit from it; a copy is made in 2.5 us then. Nothing else changes.
 */
function layOut(config: object): void {
  const heir = Object.create(config) as { readonly region?: unknown };
  const read = (from: typeof heir): unknown => from.region;
  for (let reads = 0; reads < READS; reads++) read(heir);
}
