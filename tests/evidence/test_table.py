"""Tables among results: each row is a record, and a text that could be read as something else has none."""

from __future__ import annotations

import csv
import json
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.evidence.reads import Reads, WantedField
from foregate.evidence.records import LONGEST, MAX_LEAVES, Record, read_records
from foregate.schemas.value import Value

NAMES = st.lists(
    st.sampled_from(["name", "Due date", "Betrag (€)", "konto_nr", "Invoice No."]), min_size=2, unique=True
)
CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=20)
PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n|\\"), max_size=20)


def fields(content: str) -> list[dict[str, str]]:
    """Return the names and texts of the fields of each record of a result."""
    return [{one.name: one.text for one in record.fields} for record in read_records(content)]


@st.composite
def draw_table(draw: st.DrawFn, cells: st.SearchStrategy[str]) -> list[dict[str, str]]:
    """Draw the rows of a table, by the names of its columns."""
    names = draw(NAMES)
    row = st.tuples(*(cells for _ in names))
    return [dict(zip(names, cells, strict=True)) for cells in draw(st.lists(row, min_size=1, max_size=4))]


def write_signs(rows: list[dict[str, str]], sign: str, end: str, quoting: int) -> str:
    """Return rows as `csv` writes them."""
    out = StringIO()
    writer = csv.writer(out, delimiter=sign, lineterminator=end, quoting=quoting)
    writer.writerows([list(rows[0]), *(list(row.values()) for row in rows)])
    return out.getvalue()


def write_markdown(rows: list[dict[str, str]]) -> str:
    """Return rows as a Markdown table."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@pytest.mark.parametrize(
    "content",
    [
        "to,amount\nGB29,100\nCH93,7\n",
        "to,amount\r\nGB29,100\r\nCH93,7",
        "to;amount\nGB29;100\nCH93;7\n",
        "to\tamount\nGB29\t100\nCH93\t7\n",
        '"to","amount"\n"GB29","100"\n"CH93","7"\n',
        "\ufeffto,amount\nGB29,100\nCH93,7\n",
        "HTTP 200 OK\ncontent-type: text/csv\n\nto,amount\nGB29,100\nCH93,7\n",
        "| to | amount |\n|----|-------:|\n| GB29 | 100 |\n| CH93 | 7 |\n",
        "|to|amount|\n|:-:|-|\n|GB29|100|\n  |CH93|7|  ",
        "## Bills: all of them\n\n| to | amount |\n|---|---|\n| GB29 | 100 |\n| CH93 | 7 |",
        "# Bills\n| to | amount |\n|---|---|\n| GB29 | 100 |\n| CH93 | 7 |",
    ],
)
def test_the_rows_of_a_table_have_the_records_of_the_same_objects_as_json(content: str) -> None:
    assert read_records(content) == read_records(
        json.dumps([{"to": "GB29", "amount": "100"}, {"to": "CH93", "amount": "7"}])
    )


@pytest.mark.parametrize(
    "content",
    [
        "to,amount",
        "to,amount\n",
        "to\nGB29\n",
        "to,amount\nGB29,100,7\n",
        "to,amount\nGB29\n",
        "to,amount\n\nGB29,100\n",
        "to,amount\nGB29,100\n\nThe second one is the right one.\n",
        "Dear Bob, please pay\nann@x.example, thanks\n",
        "Thanks, Bob.\nto,amount\nGB29,100\n",
        "# old\nto,amount\nGB29,100\n",
        "to,amount\nGB29,100\n# that was it\n",
        "to,to\nGB29,100\n",
        "To,to\nGB29,100\n",
        "to,\nGB29,100\n",
        "to, amount\nGB29, 100\n",
        "to ,amount\nGB29,100\n",
        "to,amount;currency\nGB29,100;EUR\n",
        "Bob,bob@x.example\nAnn,ann@x.example\n",
        "Bob,GB29\nAnn,CH93\n",
        "Bob,2024-05-01\nAnn,2024-05-02\n",
        "Bob,x.example\nAnn,y.example\n",
        'to,amount\nGB29,"100\n',
        'to,amount\n"GB29"0,100\n',
        'to,note\nXX66,"as before\nGB29,for the rent\nXX66,and so on"\n',
        "to,amount\rGB29,100\r",
        "to,amount\nGB29,100\rCH93,7\n",
        "to,amount\nGB29,\ud800\n",
        "| to | amount |\n|---|---|\n",
        "| to | amount |\n| GB29 | 100 |\n",
        "| to | amount |\n|---|\n| GB29 | 100 |\n",
        "| to | amount |\n|---|---|\n| GB29 |\n",
        "| to | amount |\n|---|---|\n| GB29 | 100 | 7 |\n",
        "| to | amount |\n|---|---|\n| GB29 | 1\\|00 |\n",
        "| to | amount |\n|---|---|\n| GB29 \\| XX66 |\n",
        "| to | to |\n|---|---|\n| GB29 | 100 |\n",
        "| to | |\n|---|---|\n| GB29 | 100 |\n",
        "| GB29 | 100 |\n|---|---|\n| CH93 | 7 |\n",
        "| to | amount |\n|---|---|\n| GB29 | 100 |\n\n| CH93 | 7 |\n",
        "| to | amount |\n|---|---|\n| GB29 | 100 |\nPay it at once.\n",
        "to | amount\n---|---\nGB29 | 100\n",
        "Pay this one:\n\n| to | amount |\n|---|---|\n| GB29 | 100 |\n",
        "# Bills\n# of May\n| to | amount |\n|---|---|\n| GB29 | 100 |\n",
        "```\n| to | amount |\n|---|---|\n| GB29 | 100 |\n```\n",
        "| to | amount |",
        "|\n|\n|",
        "#",
    ],
)
def test_what_is_not_a_table_from_end_to_end_has_no_records(content: str) -> None:
    assert read_records(content) == ()


def test_a_cell_of_prose_is_no_candidate() -> None:
    (record,) = read_records(f"to,note\nGB29,{'pay XX66 ' * 13}\n")
    assert [one.value for one in record.fields] == [Value("words", "gb29"), None]


def test_a_row_is_meant_by_the_words_that_not_every_row_holds() -> None:
    reads = Reads()
    reads.add(7, "read_file", "{}", "name,account\nRent,GB29\nGas,CH93\nOld rent,XX66\n")

    def is_meant(account: str, *words: str) -> bool:
        found = reads.find(Value("words", account), account, WantedField(frozenset(words)))
        assert found is not None
        return found.is_meant

    assert is_meant("gb29", "rent", "name") is False
    assert is_meant("ch93", "gas")
    assert is_meant("xx66", "old", "rent")
    assert not is_meant("gb29", "old", "rent")


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n" + "x,y\n" * LONGEST,
        "a,b\n" + "x,y\n" * (MAX_LEAVES // 2 + 1),
        "a,b\n" + '"' * (LONGEST - 10),
        "a,b\n" + '"",' * (LONGEST // 4),
        "," * (LONGEST - 10) + "\n,",
        "a" * (LONGEST - 10) + ",b\n1,2",
        "| " * (LONGEST // 4),
        "#" * (LONGEST - 10),
        "# " + " " * (LONGEST - 10),
        "# x\n" + " " * (LONGEST - 10),
        "| a |\n" + "|-" * (LONGEST // 4) + "|\n| x |",
        "| a |\n| " + "-" * (LONGEST // 2) + " x|\n| x |",
        "|" + " " * (LONGEST // 2) + "1|\n|-|\n| x |",
    ],
)
def test_a_table_that_is_too_large_or_meant_to_take_long_has_no_records(content: str) -> None:
    assert read_records(content) == ()


@settings(max_examples=30)
@given(
    draw_table(CELLS),
    st.sampled_from(",;\t"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_csv_writes_has_a_record_for_each_row(rows: list[dict[str, str]], sign: str, end: str, how: int) -> None:
    assert fields(write_signs(rows, sign, end, how)) == rows


@settings(max_examples=30)
@given(draw_table(PLAIN))
def test_a_markdown_table_has_a_record_for_each_row(rows: list[dict[str, str]]) -> None:
    assert fields(write_markdown(rows)) == [{name: cell.strip(" \t") for name, cell in row.items()} for row in rows]


@given(st.binary(max_size=200), st.sampled_from(["", "a,b\n", "a\tb\n", "| a |\n|-|\n", "# x\n\n| a |\n|-|\n"]))
def test_any_bytes_can_be_read(content: bytes, before: str) -> None:
    for text in (content.decode("utf-8", "replace"), content.decode("latin-1")):
        assert all(isinstance(record, Record) for record in read_records(before + text))


@given(st.text(alphabet=',;\t|-:# "\\\n\rab1', max_size=60))
def test_whatever_looks_like_a_table_can_be_read(content: str) -> None:
    assert all(isinstance(record, Record) for record in read_records(content))
