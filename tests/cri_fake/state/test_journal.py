# pyright: basic
"""The journal: whatever byte a crash cuts it at, all that was durable is there; damage is never hidden."""

import errno
import os
import stat
import tempfile
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_fake.state.journal import COMPACT_BYTES_MIN, CannotKeep, Journal
from cri_fake.state.records import Damaged, header, line, read_journal, snapshot
from cri_fake.store.faults import Refused


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="ke-") as made:
        yield Path(made) / "state"


def journal_file(folder):
    (found,) = folder.glob("journal-*")
    return found


def test_cut_at_every_byte_nothing_durable_is_lost(folder, tmp_path):
    journal = Journal(str(folder))
    file = journal_file(folder)
    sizes, states = [file.stat().st_size], [{}]
    durable = [(sizes[0], 0)]

    async def fill():
        for step in range(9):
            key, value = f"key{step % 3}", None if step == 4 else {"n": step, "text": "ü\n\0"[:step]}
            journal.put(key, value)
            sizes.append(sizes[-1] + len(line(key, value)))
            state = {**states[-1], key: value}
            states.append({k: v for k, v in state.items() if v is not None})
            if step % 3 != 1:  # every third step is answered together with the next one
                await journal.durable()
                durable.append((file.stat().st_size, step + 1))

    trio.run(fill)
    journal.close()
    data = file.read_bytes()
    assert durable[-1] == (len(data), 9)
    for cut in range(durable[0][0], len(data) + 1):
        answered = max(records for size, records in durable if size <= cut)
        whole = max(at for at, size in enumerate(sizes) if size <= cut)
        assert whole >= answered
        copy = tmp_path / f"cut{cut}"
        copy.mkdir()
        (copy / file.name).write_bytes(data[:cut])
        again = Journal(str(copy))
        assert not again.fresh
        assert again.values == states[whole]
        again.put("more", cut)
        again.close()
        assert read_journal((copy / file.name).read_bytes()).values == {**states[whole], "more": cut}


records = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(), st.text())), max_size=12
)


@given(records, st.data())
@settings(max_examples=200, deadline=None)
def test_any_prefix_says_what_its_whole_lines_say(written, data):
    lines = [line(key, value) for key, value in written]
    content = header(0) + b"".join(lines)
    cut = data.draw(st.integers(len(header(0)), len(content)))
    found = read_journal(content[:cut])
    expected, size = {}, len(header(0))
    for (key, value), framed in zip(written, lines, strict=True):
        size += len(framed)
        if size > cut:
            size -= len(framed)
            break
        expected[key] = value
    assert found.values == {key: value for key, value in expected.items() if value is not None}
    assert found.good_bytes == size
    assert read_journal(snapshot(found.lines.values(), len(found.lines))).values == found.values


@given(records.filter(len), st.data())
@settings(max_examples=500, deadline=None)
def test_a_changed_byte_is_seen(written, data):
    content = bytearray(header(0) + b"".join(line(key, value) for key, value in written))
    last = content.rfind(b"\n", 0, len(content) - 1)  # where the line before the last one ends
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    try:
        found = read_journal(bytes(content))
    except Damaged:
        return
    assert at >= last  # only the last line may be taken for one that was cut
    assert found.good_bytes <= at  # and nothing of it counts


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "first line is not that of a journal"),
        (header(0)[:-1], "first line is not that of a journal"),
        (b"x\n" + header(0), "line 1 is damaged, though lines after it are good"),
        (header(2) + line("a", 1), "1 of the 2 records that were written together"),
        (header(0) + line("a", 1)[:-3] + b"\n" + line("b", 2), "line 2 is damaged"),
        (header(0).replace(b"1,", b"9,"), "first line is not that of a journal"),
    ],
)
def test_damage_is_told_and_nothing_is_touched(folder, content, says):
    folder.mkdir()
    (folder / "journal-00000001").write_bytes(content)
    with pytest.raises(CannotKeep) as caught:
        Journal(str(folder))
    assert says in str(caught.value)
    assert "move it away to begin anew" in str(caught.value)
    assert (folder / "journal-00000001").read_bytes() == content


def test_private_and_locked(folder):
    journal = Journal(str(folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
    with pytest.raises(CannotKeep, match="in use by another runtime"):
        Journal(str(folder))
    journal.close()
    journal.close()
    Journal(str(folder)).close()


def test_a_folder_that_cannot_be_used_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotKeep, match="cannot use"):
        Journal(str(tmp_path / "file"))


def test_it_is_written_anew_when_it_has_grown_and_never_half(folder):
    async def fill(journal):
        for step in range(400):
            journal.put(f"key{step % 4}", {"n": step, "fill": "x" * 10_000})
            await journal.durable()

    journal = Journal(str(folder))
    trio.run(fill, journal)
    journal.close()
    assert journal_file(folder).stat().st_size < COMPACT_BYTES_MIN + 50_000
    # what a crash between two steps of writing anew can leave beside it
    (folder / "journal.new").write_bytes(header(3))
    (folder / "journal-00000000").write_bytes(header(0) + line("old", 1))
    again = Journal(str(folder))
    assert {key: value["n"] for key, value in again.values.items()} == {
        f"key{at}": 396 + at for at in range(4)
    }
    again.close()
    assert sorted(each.name for each in folder.iterdir()) == [journal_file(folder).name, "lock"]


def test_many_who_wait_share_one_write(folder, monkeypatch_fsync):
    journal = Journal(str(folder))
    before = monkeypatch_fsync()

    async def one(number):
        journal.put(f"key{number}", number)
        await journal.durable()

    async def main():
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(one, number)

    trio.run(main)
    assert monkeypatch_fsync() - before <= 4
    journal.close()
    again = Journal(str(folder))
    assert len(again.values) == 100
    again.close()


@pytest.fixture
def monkeypatch_fsync(monkeypatch):
    """Counts real fsyncs; they still happen."""
    count = 0
    real = os.fsync

    def counted(descriptor):
        nonlocal count
        count += 1
        real(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    return lambda: count


def test_a_disk_that_is_full_fails_the_answer_and_loses_nothing(folder, monkeypatch):
    journal = Journal(str(folder))
    real = os.pwrite

    def full(descriptor, data, at):
        real(descriptor, data[:7], at)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def main():
        journal.put("a", 1)
        await journal.durable()
        monkeypatch.setattr(os, "pwrite", full)
        journal.put("b", 2)
        with pytest.raises(Refused, match="failed to write state: No space left on device"):
            await journal.durable()
        assert read_journal(journal_file(folder).read_bytes()).values == {"a": 1}
        monkeypatch.setattr(os, "pwrite", real)
        await journal.durable()
        assert read_journal(journal_file(folder).read_bytes()).values == {"a": 1, "b": 2}

    trio.run(main)
    journal.close()
