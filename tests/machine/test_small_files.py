"""Laws of a run's small files: whole or not there, no line lost to another's damage, and each line
read once.
"""

import json
import logging
import os
import resource
from itertools import pairwise

import pytest

from robot_rl.machine.small_files import (
    JsonLines,
    Tail,
    finite,
    read_json,
    read_lines,
    require_seal,
    seal,
    write_json,
)
from robot_rl.types import DataError
from tests.stream.full_disk import files_of_at_most


class Sum:
    """Of the column `n`."""

    def __init__(self):
        self.total = self.rows = 0

    def add(self, row):
        self.total += row["n"]
        self.rows += 1


def line(n: int) -> str:
    return json.dumps({"n": n}) + "\n"


# --------------------------------------------------------------------------------------- one object


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "file.json"
    write_json(path, {"a": 1})
    with (
        files_of_at_most(100),
        pytest.raises(DataError, match=r"file\.json cannot be written: .* as it was"),
    ):
        write_json(path, {"a": "b" * 1000})
    assert read_json(path) == {"a": 1}
    write_json(path, {"a": float("nan"), "b": [float("inf"), 2.0]})
    assert (
        read_json(path)
        == {"a": None, "b": [None, 2.0]}
        == finite({"a": float("nan"), "b": (float("inf"), 2.0)})
    )
    assert [each.name for each in tmp_path.iterdir()] == ["file.json"]


def test_a_seal_is_broken_by_every_change_of_a_value_and_by_no_other_order():
    sealed = seal({"a": 1, "b": {"c": [1.5, None, "x"]}})
    require_seal(sealed)
    require_seal(dict(reversed(sealed.items())))
    require_seal({"a": 2})  # has none
    others: list[dict[str, object]] = [
        {"a": 2},
        {"b": {"c": [1.5, None]}},
        {"d": 0},
        {"crc32": {}},
        {"crc32": None},
    ]
    for other in others:
        with pytest.raises(DataError, match="checksum"):
            require_seal(sealed | other)
    assert seal(sealed) == sealed


# ------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("torn", ['{"n": 2', '{"n": 2}', "\0\0\0\0", '{"n": 2}\n{'])
def test_a_line_without_its_end_never_becomes_one_with_the_next(tmp_path, torn, caplog):
    path = tmp_path / "rows.jsonl"
    path.write_text(line(1) + torn)
    for n in (10, 20):  # two sittings
        table = JsonLines(path)
        table.append({"n": n})
        table.close()
    rows = [row["n"] for row in read_lines(path, ("n",))]
    assert [n for n in rows if n != 2] == [1, 10, 20] and rows.count(2) == ("}" in torn)
    damaged = sum(
        not text.startswith('{"n": ') or not text.endswith("}")
        for text in path.read_text().splitlines()
    )
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == (damaged > 0) and all(
        "rows.jsonl" in record.message for record in warnings
    )


def test_numbers_that_json_has_not_are_written_as_null_and_read_as_such(tmp_path):
    path = tmp_path / "rows.jsonl"
    table = JsonLines(path)
    table.append({"n": 1, "loss": float("nan"), "several": [float("-inf")]})
    table.close()
    path.write_text(path.read_text() + '{"n": 2, "loss": NaN}\n{"n": Infinity}\n')
    assert [row["loss"] for row in read_lines(path, ("n",))] == [None, None]
    assert "null" in path.read_text().splitlines()[0]


def test_lines_that_are_no_rows_are_left_out_with_one_warning_that_numbers_them(tmp_path, caplog):
    path = tmp_path / "rows.jsonl"
    bad = [
        "x",
        "[1]",
        '{"n": "1"}',
        '{"n": 1e400}',
        '{"m": 1}',
        "[" * 50_000,
        '{"n": ' + "9" * 5000 + "}",
    ]
    path.write_text(line(1) + "".join(text + "\n" + line(1) for text in bad))
    tail = Tail(path, Sum, ("n",))
    for _ in range(3):
        assert tail.read().total == 1 + len(bad)
    (record,) = caplog.records
    assert (
        "rows.jsonl" in record.message and "line 2, 4, 6, 8, 10, ...: 7 damaged" in record.message
    )


def test_a_process_without_free_files_goes_on_writing(tmp_path):
    table = JsonLines(tmp_path / "rows.jsonl")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(OSError):
            os.open("/dev/null", os.O_RDONLY)
        table.append({"n": 1})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    table.close()
    assert list(read_lines(tmp_path / "rows.jsonl")) == [{"n": 1}]


def test_a_full_disk_costs_rows_and_damages_none(tmp_path, caplog):
    path = tmp_path / "rows.jsonl"
    table = JsonLines(path)
    with files_of_at_most(60):
        for n in range(20):
            table.append({"n": n})
    for n in (100, 101):
        table.append({"n": n})
    table.close()
    rows = [row["n"] for row in read_lines(path, ("n",))]
    assert rows[-2:] == [100, 101] and rows[:-2] == list(range(len(rows) - 2)) and len(rows) > 5
    assert sum("cannot be written" in record.message for record in caplog.records) == 1


def test_each_line_is_read_once_and_only_when_it_is_whole(tmp_path):
    path = tmp_path / "rows.jsonl"
    tail = Tail(path, Sum, ("n",))
    assert tail.read().rows == 0
    whole = (line(1) + line(22) + line(333)).encode()
    for end in range(len(whole) + 1):
        with path.open("ab") as file:
            file.write(whole[end - 1 : end] if end else b"")
        assert tail.read().rows == whole[:end].count(b"\n")
    assert tail.read().total == 356


@pytest.mark.parametrize("how", ["replaced", "cut", "written anew"])
def test_another_file_under_the_name_is_read_from_its_beginning(tmp_path, how):
    path = tmp_path / "rows.jsonl"
    path.write_text(line(1) * 100)
    tail = Tail(path, Sum, ("n",))
    assert tail.read().total == 100
    if how == "replaced":
        (tmp_path / "new").write_text(line(7) * 200)
        (tmp_path / "new").rename(path)
        expected = 1400
    elif how == "cut":
        os.truncate(path, len(line(1)) * 3)
        expected = 3
    else:
        path.write_text(line(1000) * 300)
        expected = 300_000
    assert tail.read().total == expected
    path.unlink()
    assert tail.read().total == expected


def test_a_look_reads_a_bounded_part_and_the_next_goes_on(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(line(1) * 1000)
    tail, seen = Tail(path, Sum, at_most=1000), []
    while not tail.is_through:
        seen.append(tail.read().rows)
    assert seen[-1] == 1000 and max(after - before for before, after in pairwise(seen)) <= 120
    newest = Tail(path, Sum, newest=1000)
    assert 100 <= newest.read().rows <= 120
    with path.open("a") as file:
        file.write(line(5))
    assert newest.read().total <= 125


def test_a_line_that_never_ends_takes_no_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("robot_rl.machine.small_files.MAX_LINE", 1000)
    path = tmp_path / "rows.jsonl"
    path.write_text(line(1) + "9" * 10_500)
    tail = Tail(path, Sum, ("n",))
    assert tail.read().rows == 1
    with path.open("a") as file:
        file.write("\n" + line(2))
    assert tail.read().total == 3
