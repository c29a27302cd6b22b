import { sha256 } from '@leasehold/core';

const SUBJECTS = [
  'invoice',
  'delivery note',
  'terminal',
  'certificate',
  'customs form',
  'password',
  'refund',
  'contract',
];
const ACTIONS = [
  'is issued',
  'is returned',
  'expires',
  'is renewed',
  'is refused',
  'is corrected',
  'is archived',
  'is signed',
];
const REASONS = ['after 14 days', 'by the branch', 'without notice', 'on request', 'once a quarter', 'when it is lost'];

/** The articles of one page of a collection of the knowledge base. Made up, and the same at every reading. */
export function articlesOf(collection: string, page: number): readonly string[] {
  return Array.from({ length: 8 }, (_, line) => {
    const pick = Number.parseInt(sha256(`${collection}/${page}/${line}`).slice(0, 8), 16);
    const subject = SUBJECTS[pick % SUBJECTS.length] ?? '';
    const action = ACTIONS[(pick >>> 4) % ACTIONS.length] ?? '';
    const reason = REASONS[(pick >>> 8) % REASONS.length] ?? '';
    return `What to do when a ${subject} ${action} ${reason} (${collection}, article ${page * 8 + line + 1})`;
  });
}

/** What is kept of an index under construction: small enough for a checkpoint, and no page can be left out or read twice unseen. */
export interface IndexState {
  /** The next page to read. */
  readonly next: number;
  readonly articles: number;
  readonly words: number;
  /** A hash over everything read so far, in order. */
  readonly digest: string;
}

/** An index before its first page. */
export const EMPTY_INDEX: IndexState = { next: 0, articles: 0, words: 0, digest: '' };

/** The index with one more page. */
export function addPage(state: IndexState, articles: readonly string[]): IndexState {
  const words = articles.reduce((sum, article) => sum + (article.toLowerCase().match(/[a-z]{3,}/g)?.length ?? 0), 0);
  return {
    next: state.next + 1,
    articles: state.articles + articles.length,
    words: state.words + words,
    digest: sha256(`${state.digest}\n${articles.join('\n')}`),
  };
}
