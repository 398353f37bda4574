/** Prompts to token ids, on the thread of the caller: texts as they are, chats through the model's template. */
import { ControlTokenGuard } from './chat/guard.js';
import type { ChatTemplateTexts } from './chat/select.js';
import { ChatTemplate } from './chat/template.js';
import { type ChatEncodeOptions, type ChatMessage, type ChatOptions, ChatTemplateError } from './text-model.js';
import { type EncodeRequest, Encoder } from './tokenizer/encoder.js';
import type { EncoderTables } from './tokenizer/tables.js';

/** What encoding needs to know of a model, in a form that structured cloning carries to the encoder thread. */
export interface PromptTables {
  readonly encoder: EncoderTables;
  /** Undefined where the model has no chat template. */
  readonly templates: ChatTemplateTexts | undefined;
}

export interface TextPrompt {
  readonly kind: 'text';
  readonly text: string;
  readonly options: EncodeRequest;
}

export interface ChatPrompt {
  readonly kind: 'chat';
  readonly messages: readonly ChatMessage[];
  readonly options: ChatOptions & ChatEncodeOptions;
}

/** Structured cloning carries it, too. */
export type Prompt = TextPrompt | ChatPrompt;

export class PromptEncoder {
  private readonly encoder: Encoder;
  private readonly guard: ControlTokenGuard;
  private readonly plain: ChatTemplate | undefined;
  private readonly withTools: ChatTemplate | undefined;

  constructor({ encoder, templates }: PromptTables) {
    this.encoder = new Encoder(encoder);
    this.guard = new ControlTokenGuard(encoder.added.filter(({ special }) => special).map(({ content }) => content));
    if (templates === undefined) return;
    this.plain = new ChatTemplate(templates.plain, templates.variables);
    const same = templates.withTools === templates.plain;
    this.withTools = same ? this.plain : new ChatTemplate(templates.withTools, templates.variables);
  }

  /** Throws ChatTemplateError. */
  encode(prompt: Prompt): Int32Array<ArrayBuffer> {
    const { text, options } = this.asText(prompt);
    return this.encoder.encode(text, options);
  }

  /** Throws ChatTemplateError. */
  asText(prompt: Prompt): TextPrompt {
    if (prompt.kind === 'text') return prompt;
    const { messages, options } = prompt;
    const encoding = { addSpecialTokens: options.addSpecialTokens ?? false, parseSpecialTokens: true };
    if (options.parseSpecialTokens === true) {
      return { kind: 'text', text: this.render(messages, options), options: encoding };
    }
    const template = this.template(options);
    const { text, guarded } = this.guard.render([messages, options.tools, options.variables], (guard) =>
      template.render(messages, options, guard),
    );
    return { kind: 'text', text, options: { ...encoding, guarded } };
  }

  /** Throws ChatTemplateError. */
  render(messages: readonly ChatMessage[], options: ChatOptions): string {
    return this.template(options).render(messages, options);
  }

  private template({ tools }: ChatOptions): ChatTemplate {
    const template = tools !== undefined && tools.length > 0 ? this.withTools : this.plain;
    if (template === undefined) throw new ChatTemplateError('the model has no chat template');
    return template;
  }
}
