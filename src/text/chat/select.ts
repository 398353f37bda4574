/** Which chat template a model brings: one, or a list of named ones of which "tool_use" serves requests with tools. */
import { tokenText } from '../tokenizer/tokenizer-json.js';

export interface ChatTemplateTexts {
  readonly plain: string;
  /** For requests with tools; often the same. */
  readonly withTools: string;
  /** The special tokens by the names templates use, such as bos_token. */
  readonly variables: Readonly<Record<string, string>>;
}

const TOKEN_NAMES = ['bos_token', 'eos_token', 'unk_token', 'pad_token', 'sep_token', 'cls_token', 'mask_token'];

/** From chat_template.jinja, or else tokenizer_config.json's chat_template; undefined where there is none. */
export function selectChatTemplates(
  config: Readonly<Record<string, unknown>>,
  file: string | undefined,
): ChatTemplateTexts | undefined {
  const named = file === undefined ? namedTemplates(config['chat_template']) : new Map([['default', file]]);
  const plain = named.get('default') ?? [...named.values()][0];
  if (plain === undefined) return undefined;
  return { plain, withTools: named.get('tool_use') ?? plain, variables: specialTokens(config) };
}

function namedTemplates(value: unknown): Map<string, string> {
  if (typeof value === 'string') return new Map([['default', value]]);
  const entries = Array.isArray(value) ? (value as { name?: unknown; template?: unknown }[]) : [];
  return new Map(
    entries.flatMap(({ name, template }) =>
      typeof name === 'string' && typeof template === 'string' ? [[name, template] as const] : [],
    ),
  );
}

function specialTokens(config: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(
    TOKEN_NAMES.flatMap((name) => {
      const text = tokenText(config[name]);
      return text === undefined ? [] : [[name, text] as const];
    }),
  );
}
