"""Loads on language models, against a target server with known times."""

from __future__ import annotations

import json
from pathlib import Path

import prony
import pytest


def test_times_and_counts_are_the_servers() -> None:
    with prony.serve(sse="ttft=40ms,gap=5ms,count=20", workers=8) as server:
        result = prony.llm(
            server.url,
            model="m",
            connections=4,
            requests=40,
            output_tokens="12",
            slo="ttft < 30s, itl < 30s",
            thresholds="itl.max < 30s",
            accept_invalid=True,
        )
    assert result.ok and (result.replies, result.failed) == (40, 0)
    # The first of 12 tokens after 40 ms, one each 5 ms.
    assert result.ttft.count == result.itl.count == 40
    assert result.ttft.min is not None and 0.040 <= result.ttft.min < 10
    assert result.ttft.mean is not None and result.itl.mean is not None
    # Late reads make gaps shorter: the last token is due at its own time.
    assert result.ttft.mean + 11 * result.itl.mean >= 0.040 + 11 * 0.005 - 0.0001
    assert result.times("chunk_gap").count == 40 * 11
    tokens = result.tokens
    assert tokens is not None
    assert (tokens.output, tokens.per_chunk) == (480, 1.0)
    assert tokens.input > 0 and sum(tokens.finished.values()) == tokens.finished["length"] == 40
    assert tokens.good_share == 1.0 and tokens.goodput is not None
    assert tokens.rate is not None and tokens.rate == tokens.chunk_rate
    plan = result.to_dict()["plan"]
    assert plan["timeout"] == 600_000_000_000
    assert result.to_dict()["measurement"]["streams"]["sizes"]["messages"]["count"] == 40


WORDS = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0}},
}


def test_a_tokenizer_counts_what_the_server_does_not_say(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(WORDS))
    with prony.serve(sse="ttft=10ms,gap=5ms,count=9,tokens=2", workers=8) as server:
        result = prony.llm(
            server.url,
            model="m",
            connections=2,
            requests=10,
            output_tokens="99",
            body_fields='{"stream_options": {"include_usage": false}}',
            tokenizer=path,
            accept_invalid=True,
        )
    tokens = result.tokens
    assert tokens is not None
    assert (tokens.output, tokens.input, tokens.tokenized, tokens.per_chunk) == (180, 0, 10, 2.0)
    # Eight gaps of 5 ms for the 17 tokens after the first.
    gap = result.times("chunk_gap").mean
    assert result.itl.mean is not None and gap is not None
    assert result.itl.mean == pytest.approx(8 * gap / 17, rel=0.01)
    with pytest.raises(prony.UsageError, match="tokenizer"):
        prony.llm(server.url, model="m", requests=1, tokenizer=tmp_path / "missing.json")


def test_what_is_missing_is_refused(server: prony.Server) -> None:
    with pytest.raises(prony.UsageError, match="--model"):
        prony.llm(server.url, requests=1)
    result = prony.load(server.url, requests=5, accept_invalid=True)
    assert result.tokens is None
    with pytest.raises(KeyError):
        _ = result.ttft
