# pyright: basic
"""Pull records and intents on disk, and whose right to an image is checked (IMG-25 to IMG-28)."""

import json

import pytest

from kubelet_emu.kuberuntime import images
from kubelet_emu.kuberuntime.images import RecordEntry, Verification
from kubelet_emu.kuberuntime.pull_records import PullRecords
from kubelet_emu.kuberuntime.seams import PullCredential
from node_host.clock import NodeClock
from node_host.files import MemoryFiles
from node_host.loop import run

PULLED = "/k/image_manager/pulled"
PULLING = "/k/image_manager/pulling"


def secret(name, uid="1"):
    return PullCredential(
        username=name, secret_uid=uid, secret_namespace="n", secret_name=name, secret_hash=f"h-{name}-{uid}"
    )


@pytest.fixture
def on_disk():
    """Run a body with files, and a way to make the records of a new kubelet over them."""

    def tell(body):
        async def main():
            files, clock = MemoryFiles(), NodeClock()
            return body(files, lambda: PullRecords(files, "/k", clock))

        return run(main, seed=0)

    return tell


def documents(files, folder):
    return [json.loads(files.read(f"{folder}/{name}")) for name in files.list(folder)]


def test_img_27_one_file_an_image_with_who_may_use_it(on_disk):
    def body(files, records):
        one = records()
        one.begin("private:1")
        one.succeeded("private:1", "sha256:abc", secret("s"))
        (document,) = documents(files, PULLED)
        assert document.pop("lastUpdatedTime").endswith("Z")
        assert document == {
            "kind": "ImagePulledRecord",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "imageRef": "sha256:abc",
            "credentialMapping": {
                images.repository_of("private:1"): {
                    "kubernetesSecrets": [
                        {"uid": "1", "namespace": "n", "name": "s", "credentialHash": "h-s-1"}
                    ]
                }
            },
        }
        assert [name[:7] for name in files.list(PULLED)] == ["sha256-"]
        assert len(files.list(PULLED)[0]) == 7 + 64
        assert files.stat(PULLED).mode & 0o777 == 0o700
        assert records().get("sha256:abc") == one.get("sha256:abc")

    on_disk(body)


def test_img_27_a_pull_without_a_secret_is_for_all_pods_of_the_node(on_disk):
    def body(files, records):
        records().succeeded("free:1", "sha256:abc", None)
        (document,) = documents(files, PULLED)
        assert document["credentialMapping"] == {images.repository_of("free:1"): {"nodePodsAccessible": True}}

    on_disk(body)


def test_img_28_the_intent_is_there_while_the_pull_goes_on(on_disk):
    def body(files, records):
        one = records()
        one.begin("a:1")
        one.begin("a:1")
        (document,) = documents(files, PULLING)
        assert (document["kind"], document["image"]) == ("ImagePullIntent", "a:1")
        assert one.pulling("a:1")
        one.failed("a:1")
        assert files.list(PULLING) != []
        one.succeeded("a:1", "sha256:abc", None)
        assert files.list(PULLING) == []
        assert not one.pulling("a:1")

    on_disk(body)


def test_img_28_an_intent_that_a_crash_left_becomes_a_record_for_nobody(on_disk):
    def body(files, records):
        records().begin("a:1")
        new = records()
        assert new.left == ("a:1",)
        assert new.pulling("a:1")
        new.recover("a:1", "sha256:abc", images.repository_of("a:1"))
        assert new.left == ()
        assert files.list(PULLING) == []
        record = records().get("sha256:abc")
        assert record.entries == {images.repository_of("a:1"): RecordEntry()}
        assert not images.may_use_present("a:1", record, (secret("s"),), ensure_secret=True)

    on_disk(body)


def test_img_28_an_intent_whose_image_never_came_leaves_nothing(on_disk):
    def body(files, records):
        records().begin("a:1")
        records().recover("a:1", "", images.repository_of("a:1"))
        assert files.list(PULLING) == []
        assert records().left == ()

    on_disk(body)


def test_records_of_images_that_are_gone_go(on_disk):
    def body(files, records):
        one = records()
        one.succeeded("a:1", "sha256:a", None)
        one.succeeded("b:1", "sha256:b", None)
        one.prune({"sha256:b"})
        assert records().get("sha256:a") is None
        assert records().get("sha256:b") is not None

    on_disk(body)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"imageRef": 3, "credentialMapping": [1]}'])
def test_files_that_cannot_be_understood_break_nothing(on_disk, text):
    def body(files, records):
        files.make_dirs(PULLED)
        files.make_dirs(PULLING)
        files.write(f"{PULLED}/sha256-x", text.encode())
        files.write(f"{PULLING}/sha256-x", text.encode())
        assert records().get("sha256:abc") is None

    on_disk(body)


OURS = images.record_pull(None, "private:1", secret("s"))
POLICIES = [
    pytest.param("NeverVerify", OURS, True, id="IMG-25-never"),
    pytest.param("NeverVerifyPreloadedImages", OURS, False, id="IMG-25-preloaded-ours"),
    pytest.param("NeverVerifyPreloadedImages", None, True, id="IMG-25-preloaded-theirs"),
    pytest.param("NeverVerifyAllowlistedImages", None, False, id="IMG-25-not-in-list"),
    pytest.param("AlwaysVerify", None, False, id="IMG-25-always"),
]


@pytest.mark.parametrize(("policy", "record", "usable"), POLICIES)
def test_img_25_who_has_to_show_credentials(policy, record, usable):
    verification = Verification(policy=policy)
    found = images.may_use_present("private:1", record, (), ensure_secret=True, verification=verification)
    assert found is usable
    assert images.may_use_present("private:1", record, (), ensure_secret=False, verification=verification)


def test_img_25_a_pull_of_our_own_that_goes_on_ends_being_preloaded():
    assert not images.may_use_present("private:1", None, (), ensure_secret=True, pulling=True)


@pytest.mark.parametrize(
    ("entry", "free"),
    [
        ("registry.example/team/app", True),
        ("registry.example/team/*", True),
        ("registry.example/*", True),
        ("registry.example/team", False),
        ("registry.example/other/*", False),
    ],
)
def test_img_25_the_list_names_repositories_or_prefixes(entry, free):
    verification = Verification(policy="NeverVerifyAllowlistedImages", allowlist=(entry,))
    image = "registry.example/team/app:1"
    assert images.may_use_present(image, None, (), ensure_secret=True, verification=verification) is free
