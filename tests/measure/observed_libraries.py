"""The loops of two libraries, observed: torchrun --nproc-per-node 2 observed_libraries.py LIBRARY FOLDER

Rank 1 waits longer for its input.
"""

import os
import sys
import time

import torch
from torch import nn

import resnetx

STEPS = 50


def fabric(folder):
    from lightning_fabric import Fabric

    made = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    made.launch()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with resnetx.observe(model, samples=32, results=folder):
        wrapped, optimizer = made.setup(model, optimizer)
        for _ in range(STEPS):
            time.sleep(0.02 + 0.04 * (made.global_rank == 1))
            optimizer.zero_grad()
            made.backward(wrapped(torch.ones(8, 64)).sum())
            optimizer.step()


class _Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, place):
        time.sleep(0.005 + 0.01 * (os.environ["RANK"] == "1"))
        tokens = torch.arange(16) % 64
        return {"input_ids": tokens, "labels": tokens}


def transformers(folder):
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=32, n_head=2, n_positions=16, vocab_size=64))
    settings = {"max_steps": STEPS, "per_device_train_batch_size": 4, "use_cpu": True, "disable_tqdm": True}
    none = {"report_to": [], "save_strategy": "no", "logging_strategy": "no", "average_tokens_across_devices": False}
    trainer = Trainer(model, TrainingArguments(folder + "/trainer", **settings, **none), train_dataset=_Tokens())
    with resnetx.observe(model, samples=32, results=folder):
        trainer.train()


if __name__ == "__main__":
    {"lightning_fabric": fabric, "transformers": transformers}[sys.argv[1]](sys.argv[2])
