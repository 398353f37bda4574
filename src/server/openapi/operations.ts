/** Every operation of the API: where it is, what it takes, and what it answers. */
import type { z } from 'zod';
import { chatBody } from '../schemas/chat.js';
import { completionBody } from '../schemas/completions.js';
import { responsesBody } from '../schemas/responses.js';
import { detokenizeBody, tokenizeBody } from '../schemas/tokens.js';
import * as answers from './answers.js';

export interface Operation {
  readonly method: 'get' | 'post';
  /** With parameters in braces. */
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly body?: z.ZodType;
  readonly answer: z.ZodType | 'text';
  /** It answers with an event stream where asked to. */
  readonly streams?: boolean;
  /** Statuses of refusals beside 200; 401 comes on top where keys are asked for. */
  readonly refusals: readonly number[];
  /** Everybody may call it, also where keys are asked for. */
  readonly open?: boolean;
}

/** 405 is what every path answers to other methods. */
const always = [405, 500];
const model = [...always, 503];
const body = [400, 404, 413, ...model];
const generation = [...body, 429];

export const operations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/completions',
    id: 'createCompletion',
    summary: 'Continue one prompt or several.',
    body: completionBody,
    answer: answers.completionAnswer,
    streams: true,
    refusals: generation,
  },
  {
    method: 'post',
    path: '/v1/chat/completions',
    id: 'createChatCompletion',
    summary: 'Answer a conversation.',
    body: chatBody,
    answer: answers.chatAnswer,
    streams: true,
    refusals: generation,
  },
  {
    method: 'post',
    path: '/v1/responses',
    id: 'createResponse',
    summary: 'Answer a conversation, with typed events.',
    body: responsesBody,
    answer: answers.responseAnswer,
    streams: true,
    refusals: generation,
  },
  {
    method: 'post',
    path: '/v1/completions/render',
    id: 'renderCompletion',
    summary: 'Show what a completion would be to the engine, without running it.',
    body: completionBody,
    answer: answers.renderAnswer,
    refusals: body,
  },
  {
    method: 'post',
    path: '/v1/chat/completions/render',
    id: 'renderChatCompletion',
    summary: 'Show the rendered prompt of a chat and its token ids, without running it.',
    body: chatBody,
    answer: answers.renderAnswer,
    refusals: body,
  },
  {
    method: 'post',
    path: '/v1/responses/render',
    id: 'renderResponse',
    summary: 'Show the rendered prompt of a response and its token ids, without running it.',
    body: responsesBody,
    answer: answers.renderAnswer,
    refusals: body,
  },
  {
    method: 'post',
    path: '/tokenize',
    id: 'tokenize',
    summary: 'Token ids of a text or a conversation.',
    body: tokenizeBody,
    answer: answers.tokenizeAnswer,
    refusals: body,
  },
  {
    method: 'post',
    path: '/detokenize',
    id: 'detokenize',
    summary: 'Text of token ids.',
    body: detokenizeBody,
    answer: answers.detokenizeAnswer,
    refusals: body,
  },
  {
    method: 'post',
    path: '/v1/requests/{id}/cancel',
    id: 'cancelRequest',
    summary: 'End running requests of an id; their clients get what there is, with the finish reason abort.',
    answer: answers.cancelAnswer,
    refusals: [404, ...always],
  },
  {
    method: 'post',
    path: '/v1/cache/reset',
    id: 'resetCache',
    summary: 'Forget the prefixes of earlier prompts. What runs goes on.',
    answer: answers.cacheResetAnswer,
    refusals: model,
  },
  {
    method: 'get',
    path: '/v1/models',
    id: 'listModels',
    summary: 'The model that is served.',
    answer: answers.modelsAnswer,
    refusals: model,
  },
  {
    method: 'get',
    path: '/v1/models/{id}',
    id: 'getModel',
    summary: 'The model that is served, by its name.',
    answer: answers.modelAnswer,
    refusals: [404, ...model],
  },
  {
    method: 'get',
    path: '/health',
    id: 'health',
    summary: 'Whether requests are being served, and with what.',
    answer: answers.healthAnswer,
    refusals: model,
    open: true,
  },
  {
    method: 'get',
    path: '/ready',
    id: 'ready',
    summary: 'Whether new requests are welcome.',
    answer: answers.healthAnswer,
    refusals: model,
    open: true,
  },
  {
    method: 'get',
    path: '/metrics',
    id: 'metrics',
    summary: 'Measurements in the format of Prometheus.',
    answer: 'text',
    refusals: always,
    open: true,
  },
  {
    method: 'get',
    path: '/openapi.json',
    id: 'openapi',
    summary: 'This document.',
    answer: answers.documentAnswer,
    refusals: always,
    open: true,
  },
  {
    method: 'get',
    path: '/version',
    id: 'version',
    summary: "The server's version.",
    answer: answers.versionAnswer,
    refusals: always,
    open: true,
  },
];

/** Only where streams can be resumed. */
export const resumeOperation: Operation = {
  method: 'get',
  path: '/v1/streams/{id}',
  id: 'resumeStream',
  summary: 'Go on with a stream after the event that the header Last-Event-ID names, or from its beginning.',
  answer: 'text',
  streams: true,
  refusals: [400, 404, ...always],
};
