"""Files of cookies: what is read from those that exporters write, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler.cookies import LONGEST, Jar
from crawler.entrypoints.cookies import read_cookies
from crawler.errors import UsageError
from tests.test_cookies import NOW, Clock


def write(folder: Path, *lines: str, ending: str = "\n", bom: bool = False) -> str:
    file = folder / "cookies.txt"
    file.write_bytes((b"\xef\xbb\xbf" if bom else b"") + ending.join([*lines, ""]).encode())
    return str(file)


SID = ".example.com\tTRUE\t/\tFALSE\t1999999999\tsid\ts3cret"


@pytest.mark.parametrize(
    "lines",
    [
        ("# Netscape HTTP Cookie File", "# a comment", "", SID),
        (SID,),
        ("example.com\tTRUE\t/\tFALSE\t1999999999\tsid\ts3cret",),
        ("#HttpOnly_.example.com\tTRUE\t/\tFALSE\t1999999999\tsid\ts3cret",),
        (".Example.COM\ttrue\t/\tfalse\t1999999999.75\tsid\ts3cret",),
        (".example.com TRUE / FALSE 1999999999   sid s3cret",),
        (".example.com\tTRUE\t/\tFALSE\t0\tsid\ts3cret",),
        (".example.com\tTRUE\t/\tFALSE\t-1\tsid\ts3cret",),
        (".example.com\tTRUE\t/\tFALSE\t\tsid\ts3cret",),
    ],
)
@pytest.mark.parametrize(("ending", "bom"), [("\n", False), ("\r\n", True)])
def test_a_cookies_file_as_exporters_write_it(lines: tuple[str, ...], ending: str, bom: bool, tmp_path: Path) -> None:
    read = read_cookies(write(tmp_path, *lines, ending=ending, bom=bom), NOW)
    (cookie,) = read.cookies
    assert (cookie.name, cookie.value, cookie.domain, cookie.path) == ("sid", "s3cret", "example.com", "/")
    assert not cookie.host_only
    assert not cookie.secure
    assert (read.expired, read.unfit) == (0, 0)
    assert cookie.expires is None or cookie.expires <= NOW + LONGEST


def test_what_the_fields_of_a_line_mean(tmp_path: Path) -> None:
    read = read_cookies(
        write(
            tmp_path,
            f"www.example.com\tFALSE\t/shop\tTRUE\t{NOW + 60:.0f}\ta\tx y=z; no",
            f"www.example.com\tFALSE\t/shop\tTRUE\t{NOW + 60:.0f}\tb\tx y=z",
            "www.example.com\tFALSE\t/\tFALSE\t0\tempty",
            "bücher.example\tTRUE\t/\tFALSE\t0\tidn\t1",
            "127.0.0.1\tTRUE\t/\tFALSE\t0\tip\t1",
            ".com\tTRUE\t/\tFALSE\t0\tsuffix\t1",
        ),
        NOW,
    )
    assert read.unfit == 1
    jar = Jar(Clock())
    jar.apply({cookie.key: cookie for cookie in read.cookies})
    assert jar.header("https://www.example.com/shop") == "b=x y=z; empty="
    assert jar.header("http://www.example.com/shop") == "empty="
    assert jar.header("https://example.com/shop") is None
    assert jar.header("http://xn--bcher-kva.example/") == "idn=1"
    assert jar.header("http://127.0.0.1:8080/") == "ip=1"
    assert jar.header("http://example.com/") is None, "a cookie for all of com goes to nobody"


def test_expired_lines_and_unfit_ones_are_counted(tmp_path: Path) -> None:
    old = ".example.com\tTRUE\t/\tFALSE\t1600000000\told\t1"
    nameless = ".example.com\tTRUE\t/\tFALSE\t0\t\tv"
    read = read_cookies(write(tmp_path, SID, old, old, nameless, SID), NOW)
    assert (len(read.cookies), read.expired, read.unfit) == (1, 2, 1)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('[{"name": "sid", "value": "s3cret"}]', "fields instead of 7"),
        (".example.com\tTRUE\t/\tFALSE\t0", "5 fields instead of 7"),
        (SID + "\tmore", "8 fields instead of 7"),
        (".example.com TRUE /a path FALSE 0 sid s3cret", "8 fields instead of 7"),
        (".example.com TRUE / FALSE 0 s3cret", "6 fields instead of 7"),
        (".example.com\tyes\t/\tFALSE\t0\tsid\ts3cret", "field 2 is neither TRUE nor FALSE"),
        (".example.com\tTRUE\t/\t1\t0\tsid\ts3cret", "field 4 is neither TRUE nor FALSE"),
        (".example.com\tTRUE\t\tFALSE\t0\tsid\ts3cret", "does not begin with '/'"),
        (".example.com\tTRUE\t/\tFALSE\ttomorrow\tsid\ts3cret", "no number of seconds"),
        (".example.com\tTRUE\t/\tFALSE\t13350000000000000\tsid\ts3cret", "beyond the year 9999"),
        ("https://example.com\tTRUE\t/\tFALSE\t0\tsid\ts3cret", "no host name"),
        ("example.com:80\tTRUE\t/\tFALSE\t0\tsid\ts3cret", "no host name"),
        ("\tTRUE\t/\tFALSE\t0\tsid\ts3cret", "no host name"),
    ],
)
def test_a_line_that_could_be_misread_is_named_and_not_shown(line: str, complaint: str, tmp_path: Path) -> None:
    file = write(tmp_path, "# comment", SID, line)
    with pytest.raises(UsageError) as refusal:
        read_cookies(file, NOW)
    text = str(refusal.value)
    assert text.startswith(f"--cookies {file}, line 3: ")
    assert complaint in text
    assert "s3cret" not in text
    assert "\n" not in text


def test_a_file_without_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no cookie in it that has not expired"):
        read_cookies(write(tmp_path, ".example.com\tTRUE\t/\tFALSE\t1600000000\told\t1"), NOW)
    with pytest.raises(UsageError, match="no cookie in it"):
        read_cookies(write(tmp_path, "# nothing"), NOW)
    with pytest.raises(UsageError, match="No such file"):
        read_cookies(str(tmp_path / "absent.txt"), NOW)
    with pytest.raises(UsageError, match="directory"):
        read_cookies(str(tmp_path), NOW)
    (tmp_path / "cookies.txt").write_bytes(b".example.com\tTRUE\t/\tFALSE\t0\tsid\t\xff\n")
    with pytest.raises(UsageError, match="line 1: it is no UTF-8 text"):
        read_cookies(str(tmp_path / "cookies.txt"), NOW)
