import { isLeaseholdError, isPermanentError, isRetryableError, type TaskError } from '@leasehold/core';
import { isTaskAborted } from './abort-reason.ts';

const LONGEST = 200;

/** A message as it may be stored: one line, cut, without what looks like a secret, an address or quoted content. */
function redact(message: string): string {
  return message
    .replace(/\s+/g, ' ')
    .replace(/\b(bearer|basic)\s+[\w.~+/=-]+/gi, '$1 ***')
    .replace(
      /\b(api[_-]?key|token|password|passwd|secret|authorization|signature|sig)(["']?\s*[:=]\s*["']?)[^\s"'&,;]+/gi,
      '$1$2***',
    )
    .replace(/[\w.+-]+@[\w-]+\.[\w.-]+/g, '***@***')
    .replace(/\b[\w-]{32,}\b/g, '***')
    .replace(/(https?:\/\/[^\s?#]+)[?#]\S*/g, '$1?***')
    .slice(0, LONGEST);
}

/**
 * An error as a record keeps it: a class of few values, the error's own code, a redacted message. Of an error that neither we nor the handler
 * chose the words of, the code alone: an SDK's message may quote payloads and answers.
 */
export function toTaskError(error: unknown): TaskError {
  const code = codeOf(error);
  const chosen = isPermanentError(error) || isRetryableError(error) || isLeaseholdError(error);
  const message = chosen
    ? redact(error.message)
    : `${code}; its message is not kept, throw a RetryableError or PermanentError to say more`;
  return { errorClass: classOf(error), code, message };
}

function classOf(error: unknown): string {
  if (isTaskAborted(error)) return error.reason;
  if (codeOf(error) === 'in-doubt') return 'in-doubt';
  if (isPermanentError(error)) return 'permanent';
  if (isRetryableError(error)) return 'retryable';
  if (isLeaseholdError(error)) return error.code;
  return 'error';
}

function codeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return 'not-an-error';
  const code = 'code' in error ? error.code : undefined;
  if (typeof code === 'string' && /^[\w.-]{1,64}$/.test(code)) return code;
  return error instanceof Error && /^[\w.-]{1,64}$/.test(error.name) ? error.name : 'error';
}
