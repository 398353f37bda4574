/** A model's chat template: messages to the text the model was trained to read. */
import { type ChatMessage, type ChatOptions, ChatTemplateError } from '../text-model.js';
import { type Program, parseTemplate, runTemplate } from './jinja.js';
import { argumentForms, normalizeMessages } from './messages.js';
import { strftime } from './strftime.js';

/** Marks the end of the message to be continued: noncharacters, which no text has and no template strips. */
const END_MARK = '\ufdd0\ufdd1\ufdd0';

type Guard = <T>(value: T) => T;

export class ChatTemplate {
  private program: Program | undefined;
  private readonly knowsDeveloper: boolean;

  /** `variables`: the special tokens by the names templates use, such as bos_token. */
  constructor(
    readonly source: string,
    private readonly variables: Readonly<Record<string, string>>,
    private readonly now: () => Date = () => new Date(),
  ) {
    this.knowsDeveloper = source.includes('developer');
  }

  /**
   * Renders messages. `guard` is applied to everything that comes from the caller before the template sees it. Throws
   * ChatTemplateError for whatever goes wrong: the template was chosen by the model, but what it refuses is the input.
   */
  render(messages: readonly ChatMessage[], options: ChatOptions, guard: Guard = (value) => value): string {
    const normalized = normalizeMessages(messages, this.knowsDeveloper);
    if (!options.continueFinalMessage) return this.renderForms(guard(normalized), options, guard);

    const last = normalized.at(-1);
    if (last === undefined) throw new ChatTemplateError('there is no final message to continue');
    const guarded = guard(normalized).with(-1, {
      ...guard(last),
      content: `${guard(last['content'] ?? '')}${END_MARK}`,
    });
    const rendered = this.renderForms(guarded, { ...options, addGenerationPrompt: false }, guard);
    const end = rendered.lastIndexOf(END_MARK);
    if (end < 0)
      throw new ChatTemplateError(
        "the chat template does not print the final message's content, so it cannot be continued",
      );
    return rendered.slice(0, end).replaceAll(END_MARK, '');
  }

  private renderForms(
    messages: readonly Readonly<Record<string, unknown>>[],
    options: ChatOptions,
    guard: Guard,
  ): string {
    const forms = argumentForms(messages);
    let first: unknown;
    for (const form of forms) {
      try {
        return this.run(form, options, guard);
      } catch (error) {
        first ??= error;
      }
    }
    throw new ChatTemplateError(`chat template: ${first instanceof Error ? first.message : String(first)}`, {
      cause: first,
    });
  }

  private run(messages: readonly unknown[], options: ChatOptions, guard: Guard): string {
    this.program ??= parseTemplate(this.source);
    return runTemplate(this.program, {
      ...this.variables,
      ...guard(options.variables ?? {}),
      messages,
      tools: options.tools === undefined || options.tools.length === 0 ? null : guard(options.tools),
      documents: guard(options.variables?.['documents'] ?? null),
      add_generation_prompt: options.addGenerationPrompt,
      raise_exception: (message: unknown) => {
        throw new Error(String(message));
      },
      strftime_now: (format: unknown) => strftime(this.now(), String(format)),
      range,
    });
  }
}

/** Python's range(). */
function range(...bounds: number[]): number[] {
  const [start, stop, step = 1] = bounds.length === 1 ? [0, bounds[0]!] : (bounds as [number, number, number?]);
  if (step === 0) throw new Error('range() step must not be zero');
  return Array.from({ length: Math.max(0, Math.ceil((stop - start) / step)) }, (_, i) => start + i * step);
}
