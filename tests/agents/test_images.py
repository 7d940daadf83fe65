"""What is known of an image without its content."""

from __future__ import annotations

from typing import Any

import pytest

from beam.agents.images import (
    content_of,
    decoded_size,
    image_event,
    image_in_block,
    images_in,
    replace_base64,
    replace_image_data,
    without_image_data,
)
from beam.model import events


@pytest.mark.parametrize(
    ("block", "known"),
    [
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            ("image/png", 3, ""),
        ),
        ({"type": "image", "source": {"type": "url", "url": "https://a.example/x"}}, ("", None, "https://a.example/x")),
        ({"type": "image", "data": "AA==", "mimeType": "image/webp"}, ("image/webp", 1, "")),
        ({"type": "image", "data": "AAA=", "uri": "file:///a"}, ("", 2, "file:///a")),
        ({"type": "inputImage", "imageUrl": "data:image/gif;base64,AAAA"}, ("image/gif", 3, "")),
        ({"type": "input_image", "image_url": "https://a.example"}, ("", None, "https://a.example")),
        (
            {"type": "resource", "resource": {"mimeType": "image/png", "blob": "AAAA", "uri": "x:/1"}},
            ("image/png", 3, "x:/1"),
        ),
        ({"type": "resource_link", "mimeType": "image/png", "uri": "file:///b"}, ("image/png", None, "file:///b")),
        ({"type": "image"}, ("", None, "")),
        ({"type": "image", "mimeType": "image/\x1b[31m", "uri": "x" * 5000}, ("", None, "")),
        ({"type": "image", "mimeType": ["image/png"], "data": 7, "source": "no"}, ("", None, "")),
        ({"type": "image", "mimeType": "text/html"}, ("", None, "")),
    ],
)
def test_an_image_is_known_by_its_type_size_and_place(block: dict[str, Any], known: tuple[Any, ...]) -> None:
    found = image_in_block(block)
    assert found is not None and (found.media_type, found.bytes, found.at) == known


@pytest.mark.parametrize("block", [{}, {"type": "text"}, {"type": 7}, {"type": "resource", "resource": {"text": "x"}}])
def test_another_block_is_no_image(block: dict[str, Any]) -> None:
    assert image_in_block(block) is None


def test_blocks_that_are_no_objects_are_passed_over() -> None:
    assert images_in([None, "image", {"type": "image"}, 3], call_id="c")[0].call_id == "c"


def test_the_size_is_that_of_the_content() -> None:
    assert [decoded_size(text) for text in ("", "AAAA", "AAA=", "AA==", "AAAAAAAA", "=")] == [0, 3, 2, 1, 6, 0]


def test_long_content_is_left_out_of_a_text_and_what_is_short_stays() -> None:
    assert replace_base64(f'{{"a":"{"A" * 798}==","b":"AAAA"}}') == '{"a":"[598 bytes]","b":"AAAA"}'


def test_the_content_is_with_the_event_until_somebody_keeps_it() -> None:
    found = image_event(data="iVBORw0KGgo=", media_type="image/png", at="/p/a.png")
    assert (content_of(found), found.at) == ("iVBORw0KGgo=", "/p/a.png")
    assert content_of(without_image_data(found)) == "" and without_image_data(found).at == "/p/a.png"


def test_the_content_of_the_images_is_cut_out_of_the_line_which_stays_json() -> None:
    found = image_event(data="iVBORw0KGgo=", media_type="image/png")
    line = '{"a":"iVBORw0KGgo=","b":"data:image/png;base64,iVBORw0KGgo=","c":"iVBORw"}'
    assert replace_image_data(line, (events.Text(text=""), found)) == (
        '{"a":"[8 bytes]","b":"data:image/png;base64,[8 bytes]","c":"iVBORw"}'
    )


def test_a_picture_that_no_event_tells_of_is_cut_too_unless_nothing_else_has_the_line() -> None:
    line = f'{{"a":"/9j/{"A" * 600}","b":"{"B" * 700}"}}'
    assert replace_image_data(line, (events.Text(text=""),)) == f'{{"a":"[453 bytes]","b":"{"B" * 700}"}}'
    assert replace_image_data(line, (events.Unknown(),)) == line
