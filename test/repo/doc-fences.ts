import { fences, type Fence } from '../../scripts/markdown-fences.ts';
import { lineOf, parse, type SourceFile } from './tree.ts';

/** The fenced blocks inside the TSDoc comments of a source file. */
export function docFences(file: SourceFile): Fence[] {
  return parse(file)
    .comments.filter(({ type, value }) => type === 'Block' && value.startsWith('*') && value.includes('```'))
    .flatMap(({ value, start }) => {
      const markdown = value.replaceAll(/^[ \t]*\* ?/gm, '');
      return fences(file.path, markdown, lineOf(file.text, start));
    });
}
