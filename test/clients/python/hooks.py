"""What the document cannot say of the API, for schemathesis: rules between fields, and refusals that are meant."""
import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if not isinstance(body, dict):
        return
    # A request that may not wait is refused with 503, as it should be; that is no fault to be found.
    if isinstance(body.get("timeout"), (int, float)) and body["timeout"] < 60:
        body["timeout"] = 60
    # JSON's numbers are doubles to the server: what rounds to the limit is within it.
    if isinstance(body.get("seed"), int) and abs(float(body["seed"])) == 2.0**63:
        body["seed"] = 2**64
    mode = case.meta.generation.mode if case.meta else None
    if mode is not None and mode.name == "POSITIVE":
        reconcile(body)


def reconcile(body):
    """Keeps fields apart that exclude each other, so that more than the checks is reached."""
    if body.get("stream_options") is not None:
        body["stream"] = True
    if body.get("stream"):
        body.pop("prompt_logprobs", None)
        body.pop("best_of", None)
    body.pop("min_tokens", None)
    body.pop("bad_words", None)
    if body.get("top_logprobs") and "messages" in body:
        body["logprobs"] = True
    if body.get("best_of") is not None:
        body["best_of"] = max(body["best_of"], body.get("n") or 1)
    if body.get("add_generation_prompt"):
        body.pop("continue_final_message", None)
    if body.get("allowed_token_ids") == []:
        del body["allowed_token_ids"]
    if "prompt" in body and "messages" in body:
        body.pop("messages", None)
    if isinstance(body.get("logit_bias"), dict):
        body["logit_bias"] = {str(int(key) % 400): value for key, value in body["logit_bias"].items() if key.isascii()}
    if isinstance(body.get("messages"), list):
        for message in body["messages"]:
            if message.get("content") is None:
                message["content"] = "text"
