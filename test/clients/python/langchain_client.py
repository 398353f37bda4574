"""langchain-openai, unmodified: its chat model and its text model."""
import asyncio

import openai
from checks import BASE, KEY, MODEL, raises, run
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI

OPTIONS = dict(model=MODEL, base_url=BASE, api_key=KEY, max_retries=0, seed=1, max_tokens=24)
MESSAGES = [SystemMessage("Be short."), HumanMessage("Hello there")]
chat = ChatOpenAI(**OPTIONS)


def invokes_a_chat():
    answer = chat.invoke(MESSAGES)
    assert answer.content
    assert answer.usage_metadata["output_tokens"] > 0
    assert answer.response_metadata["finish_reason"] in ("stop", "length")


def streams_what_it_answers():
    whole = chat.invoke(MESSAGES)
    total = None
    for chunk in chat.stream(MESSAGES, stream_usage=True):
        total = chunk if total is None else total + chunk
    assert total.content == whole.content
    assert total.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"]


def reads_log_probabilities():
    answer = chat.bind(logprobs=True, top_logprobs=2).invoke(MESSAGES)
    tokens = answer.response_metadata["logprobs"]["content"]
    joined = b"".join(bytes(token["bytes"]) for token in tokens)
    assert joined.decode("utf-8", "replace") == answer.content


def answers_by_responses():
    model = ChatOpenAI(**{**OPTIONS, "seed": None}, use_responses_api=True, extra_body={"seed": 1})
    answer = model.invoke(MESSAGES)
    assert answer.text == chat.invoke(MESSAGES).content
    streamed = "".join(chunk.text for chunk in model.stream(MESSAGES))
    assert streamed == answer.text


def continues_a_text():
    text = OpenAI(**OPTIONS)
    whole = text.invoke("Hello")
    assert "".join(text.stream("Hello")) == whole


def asks_for_a_batch():
    async def batch():
        answers = await chat.abatch([MESSAGES] * 8)
        assert len({answer.content for answer in answers}) == 1

    asyncio.run(batch())


def types_errors():
    stranger = ChatOpenAI(**{**OPTIONS, "api_key": "wrong"})
    raises(openai.AuthenticationError, lambda: stranger.invoke(MESSAGES))


run(
    invokes_a_chat,
    streams_what_it_answers,
    reads_log_probabilities,
    answers_by_responses,
    continues_a_text,
    asks_for_a_batch,
    types_errors,
)
