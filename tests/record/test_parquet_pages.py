"""Page headers of Parquet, beside what pyarrow writes into the footer; and those that no writer made."""

import pytest

from resnetx.record.points_file import RLE_DICTIONARY, PageError, pages

pytestmark = pytest.mark.slow  # pyarrow takes seconds to load

# PageHeader of 5 values in 40 bytes, packed into 3: type, both sizes, and a DataPageHeader, whose encoding is plain.
HEADER = bytes([0x15, 0x00, 0x15, 80, 0x15, 6, 0x2C, 0x15, 10, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0])


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_headers_add_up_to_the_footer(tmp_path, version, dictionary):
    pa = pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")
    from pyarrow import parquet

    table = pa.table({"a": [[1, 2], [], None, [3]] * 5000, "b": ["x", None, "yy", "zzz"] * 5000})
    path = tmp_path / "a.parquet"
    parquet.write_table(
        table, path, data_page_version=version, use_dictionary=dictionary, row_group_size=7000, data_page_size=1000
    )
    described = parquet.read_metadata(path)
    for group in map(described.row_group, range(described.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            begin = min(filter(None, (column.data_page_offset, column.dictionary_page_offset)))
            found = list(pages(path.read_bytes(), begin, column.total_compressed_size))
            first, *others = found
            assert sum(page.values for page in (others if dictionary else found)) == column.num_values
            assert (others[-1].encoding == RLE_DICTIONARY) == dictionary
            assert 0 <= column.total_uncompressed_size - sum(page.unpacked_bytes for page in found) < 100 * len(found)
            assert not dictionary or first.values in (3, 4)


def test_one_header():
    (page,) = pages(HEADER + b"abc", 0, len(HEADER) + 3)
    assert (page.values, page.unpacked_bytes, page.encoding) == (5, 40, 0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (HEADER + b"ab", "goes on beyond its column"),
        (HEADER[:-3], "a header that goes on beyond its column"),
        (HEADER[:4] + bytes([0x15, 5]) + HEADER[6:], "a page without its size"),
        (HEADER[:2] + b"\0", "a page without its size"),
        (HEADER[:8] + bytes([9]) + HEADER[9:], "a page of -5 values"),
        (b"\x1c" * 100, "nested more than 8 deep"),
        (b"\x15" + b"\xff" * 20, "a number without end"),
        (b"\x1d\0\0", "a field of type 13"),
        (b"\x19\xfc\xff\xff\x7f", "a header of 2,097,152 values"),
        (b"\x11" * 5000, "a header of 1,025 values"),
        (b"\x18\x7f", "beyond its column"),
    ],
)
def test_what_no_writer_made_is_refused(content, said):
    with pytest.raises(PageError, match=said):
        list(pages(content, 0, len(content)))


def test_a_column_beyond_the_file_is_refused():
    with pytest.raises(PageError, match="beyond the end of the file"):
        list(pages(HEADER, 1, len(HEADER)))
