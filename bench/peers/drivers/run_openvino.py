"""OpenVINO GenAI's continuous batching. Arguments: model directory, threads, sequences at once."""

import itertools
import sys

import numpy as np
import openvino
import openvino_genai

from driver import drive

directory, threads, sequences = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
scheduler = openvino_genai.SchedulerConfig()
scheduler.cache_size = 1
scheduler.max_num_seqs = max(sequences, 1)
scheduler.max_num_batched_tokens = 512
scheduler.dynamic_split_fuse = True
scheduler.enable_prefix_caching = False
pipeline = openvino_genai.ContinuousBatchingPipeline(
    directory, scheduler_config=scheduler, device="CPU", properties={"INFERENCE_NUM_THREADS": threads}
)
ids = itertools.count()


def run(prompts, new_tokens, now):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = new_tokens
    config.ignore_eos = True
    config.do_sample = False
    handles = [
        pipeline.add_request(next(ids), openvino.Tensor(np.array([prompt], dtype=np.int64)), config)
        for prompt in prompts
    ]
    tokens = [[] for _ in prompts]
    times = [[] for _ in prompts]
    while pipeline.has_non_finished_requests():
        pipeline.step()
        at = now()
        for sequence, handle in enumerate(handles):
            while handle.can_read():
                for output in handle.read().values():
                    tokens[sequence].extend(output.generated_ids)
                    times[sequence].extend([at] * len(output.generated_ids))
    return tokens, times


drive(f"OpenVINO GenAI {openvino_genai.__version__}, int8 weights, {threads} threads", run)
