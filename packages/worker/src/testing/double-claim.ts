import type { DoubleRequest } from './receiver-double.ts';

/** Key, fence and scope that a request bears. */
export interface Claim {
  readonly key: string | undefined;
  readonly fence: number | undefined;
  readonly scope: string | undefined;
  readonly fenceInHeader: boolean;
  /** The fence is in the body, which another owner sends with another one. */
  readonly inBody: boolean;
}

/**
 * Reads them from the headers, else finds those of the effect that sends the request in its address or body: receivers take them in many
 * places, and what an effect has to do is to pass them on somewhere.
 */
export function readClaim({ headers, url, text, scene }: DoubleRequest): Claim {
  const effect = scene?.effect;
  const fenceText = unquoted(headers.get('x-execution-fence'));
  const bears = (value: string): boolean =>
    text.includes(value) || url.includes(encodeURIComponent(value)) || url.includes(value);
  const bearsFence =
    effect !== undefined && new RegExp(`"[^"]*(?:fence|token)[^"]*"\\s*:\\s*"?${effect.fence}\\b`, 'i').test(text);
  const key = unquoted(headers.get('idempotency-key')) ?? (effect && bears(effect.key) ? effect.key : undefined);
  const scope =
    unquoted(headers.get('x-execution-scope')) ?? (effect && bears(effect.scope) ? effect.scope : undefined);
  return {
    key,
    scope,
    fence: fenceText === undefined ? (bearsFence ? effect.fence : undefined) : Number(fenceText),
    fenceInHeader: fenceText !== undefined,
    inBody: fenceText === undefined && bearsFence,
  };
}

/** A header value, without the quotes of a structured field (RFC 9651, section 3.3.3). */
function unquoted(value: string | null): string | undefined {
  if (value === null) return undefined;
  return /^".*"$/.test(value) ? value.slice(1, -1).replaceAll(/\\(["\\])/g, '$1') : value;
}
