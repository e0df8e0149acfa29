"""Image references, the catalogue and the image store."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_fake.catalogue import PRELOADED, Catalogue
from cri_fake.references import parse_reference
from cri_fake.store.faults import Kind, Refused
from cri_fake.store.images import Image, ImageStore

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("docker.io/library/busybox:1.36", "docker.io/library/busybox:1.36"),
        ("index.docker.io/library/busybox", "docker.io/library/busybox:latest"),
        ("myorg/trainer:v2", "docker.io/myorg/trainer:v2"),
        ("localhost/x", "localhost/x:latest"),
        ("localhost:5000/x/y:1", "localhost:5000/x/y:1"),
        ("127.0.0.1:1/absent/image:v1", "127.0.0.1:1/absent/image:v1"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        (f"gcr.io/a/b@{DIGEST}", f"gcr.io/a/b@{DIGEST}"),
        (f"gcr.io/a/b:v1@{DIGEST}", f"gcr.io/a/b@{DIGEST}"),
        ("a__b/c-d.e", "docker.io/a__b/c-d.e:latest"),
    ],
)
def test_normal_form_CRI_091(text: str, normal: str) -> None:
    assert str(parse_reference(text)) == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":tag",
        "a:",
        "a b",
        "A/b?",
        "busybox:",
        "x@sha256:12",
        "-a",
        "a/../b",
        "a" * 300,
        "x:\n",
        "\0",
        "http://x/y",
    ],
)
def test_malformed_references_are_refused(text: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_reference(text)
    assert caught.value.kind is Kind.UNKNOWN
    assert caught.value.text.startswith(f'failed to parse image reference "{text}": ')


def test_capitals_have_their_own_text() -> None:
    with pytest.raises(Refused, match=r"repository name .* must be lowercase"):
        parse_reference("docker.io/library/BusyBox")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_any_text_gives_a_reference_or_a_refusal(text: str) -> None:
    try:
        normal = str(parse_reference(text))
    except Refused:
        return
    assert str(parse_reference(normal)) == normal


def test_catalogue_is_a_function_of_the_reference_CRI_208() -> None:
    first = Catalogue().find(parse_reference("busybox:1.36"))
    again = Catalogue().find(parse_reference("docker.io/library/busybox:1.36"))
    other = Catalogue().find(parse_reference("busybox:1.35"))
    assert first == again
    assert first.image.id != other.image.id
    assert first.image.size_bytes > 0


def test_same_content_under_two_names_has_one_id_CRI_090() -> None:
    catalogue = Catalogue(contents={"a.io/x:1": "shared", "b.io/y:2": "shared"})
    assert (
        catalogue.find(parse_reference("a.io/x:1")).image.id
        == catalogue.find(parse_reference("b.io/y:2")).image.id
    )


def test_digest_of_a_pull_leads_to_the_same_image_CRI_090() -> None:
    catalogue = Catalogue()
    by_tag = catalogue.find(parse_reference("gcr.io/a/b:1"))
    by_digest = catalogue.find(parse_reference(f"gcr.io/a/b@{by_tag.manifest_digest}"))
    assert by_digest.image.id == by_tag.image.id


def test_nothing_listens_at_port_one() -> None:
    with pytest.raises(Refused) as caught:
        Catalogue().find(parse_reference("127.0.0.1:1/absent/image:v1"))
    assert caught.value.kind is Kind.UNKNOWN
    assert caught.value.text == (
        'failed to pull and unpack image "127.0.0.1:1/absent/image:v1": failed to resolve reference '
        '"127.0.0.1:1/absent/image:v1": failed to do request: Head '
        '"http://127.0.0.1:1/v2/absent/image/manifests/v1": dial tcp 127.0.0.1:1: connect: connection refused'
    )


def pulled(store: ImageStore, text: str, catalogue: Catalogue | None = None) -> Image:
    reference = parse_reference(text)
    found = (catalogue or Catalogue()).find(reference)
    return store.pulled(found.image, reference, manifest_digest=found.manifest_digest)


def test_pull_by_tag_and_by_digest_CRI_093() -> None:
    store = ImageStore()
    image = pulled(store, "gcr.io/a/b:1")
    assert image.repo_tags == ("gcr.io/a/b:1",)
    assert len(image.repo_digests) == 1
    only_digest = pulled(ImageStore(), f"gcr.io/a/b@{DIGEST}")
    assert (only_digest.repo_tags, only_digest.repo_digests) == ((), (f"gcr.io/a/b@{DIGEST}",))


def test_all_kinds_of_references_lead_to_one_image_CRI_091() -> None:
    store = ImageStore()
    image = pulled(store, "busybox:1.36")
    bare = image.id.removeprefix("sha256:")
    names = [image.id, bare, bare[:12], image.id[:20], *image.repo_tags, *image.repo_digests, "busybox:1.36"]
    assert [store.resolve(name) for name in names] == [image] * len(names)
    assert store.resolve("busybox") is None
    assert store.resolve("") is None
    assert store.resolve("f" * 64) is None


def test_remove_by_any_reference_removes_all_CRI_094() -> None:
    catalogue = Catalogue(contents={f"a.io/x:{n}": "shared" for n in (1, 2, 3)})
    store = ImageStore()
    for number in (1, 2, 3):
        pulled(store, f"a.io/x:{number}", catalogue)
    assert [len(image.repo_tags) for image in store.values] == [3]
    store.removed("a.io/x:2")
    assert store.values == ()
    assert store.resolve("a.io/x:1") is None
    assert store.removed("a.io/x:2") is None


def test_a_tag_leads_to_the_image_pulled_last() -> None:
    store = ImageStore()
    reference = parse_reference("a.io/x:1")
    old = store.pulled(Image(id="sha256:" + "1" * 64, size_bytes=1), reference)
    new = store.pulled(Image(id="sha256:" + "2" * 64, size_bytes=1), reference)
    assert store.resolve("a.io/x:1") == new
    left = store.resolve(old.id)
    assert left is not None
    assert left.repo_tags == ()


def test_preloaded_references_are_well_formed() -> None:
    assert [str(parse_reference(text)) for text in PRELOADED] == list(PRELOADED)
