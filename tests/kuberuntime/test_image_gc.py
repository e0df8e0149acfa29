# pyright: basic
"""Which images are collected (IMG-35)."""

import pytest

from kubelet_emu.kuberuntime.image_gc import (
    ImageGCPolicy,
    ListedImage,
    bytes_to_free,
    detect,
    images_to_free,
    too_old,
)

SECOND = 10**9


def listed(*ids, pinned=()):
    return [
        ListedImage(id=one, names=(f"repo/{one}:1",), size_bytes=100, pinned=one in pinned) for one in ids
    ]


@pytest.mark.parametrize(
    ("used", "wanted"),
    [(0, 0), (84, 0), (85, 5), (90, 10), (100, 20), (120, 20)],
    ids=["empty", "below-high", "at-high", "above", "full", "more-than-full"],
)
def test_img_35_from_the_high_threshold_on_usage_goes_down_to_the_low_one(used, wanted):
    policy = ImageGCPolicy()
    assert bytes_to_free(policy, capacity_bytes=100, available_bytes=max(100 - used, 0)) == wanted


def test_img_35_what_is_in_use_or_pinned_stays_and_the_longest_unused_goes_first():
    policy = ImageGCPolicy(min_age_ns=0)
    first = detect({}, listed("a", "b", "c", "d", pinned="d"), {"a", "repo/b:1"}, now_ns=10, new_since_ns=0)
    assert [r.id for r in images_to_free(policy, first, now_ns=10)] == ["c"]
    later = detect(first, listed("a", "b", "c", "d", pinned="d"), {"a"}, now_ns=20, new_since_ns=20)
    assert [r.id for r in images_to_free(policy, later, now_ns=20)] == ["c", "b"]
    last = detect(later, listed("a", "b"), (), now_ns=30, new_since_ns=30)
    assert [r.id for r in images_to_free(policy, last, now_ns=30)] == ["b", "a"]


def test_img_35_an_image_is_kept_until_it_has_been_there_for_two_minutes():
    records = detect({}, listed("a"), (), now_ns=0, new_since_ns=0)
    assert images_to_free(ImageGCPolicy(), records, now_ns=120 * SECOND - 1) == ()
    assert len(images_to_free(ImageGCPolicy(), records, now_ns=120 * SECOND)) == 1


def test_img_35_a_maximum_age_counts_from_the_last_use():
    policy = ImageGCPolicy(max_age_ns=100)
    records = detect({}, listed("a", "b"), {"a"}, now_ns=50, new_since_ns=0)
    records = detect(records, listed("a", "b"), (), now_ns=120, new_since_ns=120)
    assert too_old(policy, records, now_ns=120) == ("b",)
    assert too_old(policy, records, now_ns=151) == ("b", "a")
    assert too_old(ImageGCPolicy(), records, now_ns=10**15) == ()


def test_img_35_off_only_if_neither_threshold_nor_age_can_be_reached():
    assert ImageGCPolicy(high_percent=100).off
    assert not ImageGCPolicy(high_percent=100, max_age_ns=1).off
    assert not ImageGCPolicy().off
